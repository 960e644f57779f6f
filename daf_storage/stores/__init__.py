"""Bytes by key: a store maps keys such as ``axes/cell/0`` to bytes.

**Nouns.** `ReadableStore` is what every store can do; `WritableStore` adds transactions.
`DirectoryStore` keeps each key in a file, `MemoryStore` in a dictionary, `MmapZipStore` in an entry
of a ZIP archive, `MappingStore` in any mutable mapping.

Must not know Zarr metadata or Daf.
"""

from typing import TYPE_CHECKING

from daf_storage._lazy import lazy_names
from daf_storage.stores._directories import (
    abandoned,
    check_output,
    find_output,
    follow_links,
    open_output,
    output_directory,
    output_path,
    put_in_place,
    remove_leftovers,
    scratch,
    was_interrupted,
)
from daf_storage.stores._directory import DirectorySnapshot, DirectoryStore, PropertyFiles
from daf_storage.stores._files import (
    Fingerprint,
    ReadableStore,
    ReadEstimate,
    Snapshot,
    Transaction,
    WritableStore,
    allocate,
    check_length,
    check_linked,
    check_own,
    file_identity,
    fingerprint,
    inode_of,
    is_stable,
    map_file,
    os_errors,
    release,
    stable,
    stable_fingerprint,
    status_at,
    translated,
)
from daf_storage.stores._mapping_store import MappingStore, MemoryStore
from daf_storage.stores._remote import (
    RemoteFiles,
    RemoteSnapshot,
    RemoteStore,
    estimate_ranges,
    is_url_pattern,
    matching_urls,
    shown_url,
)
from daf_storage.stores.mmap_zip import (
    DAF_DATA_OFFSET_ALIGNMENT,
    ArchiveSnapshot,
    MmapZipStore,
    Recovery,
    RecoveryWarning,
    RemoteArchive,
    replace_archive,
)

if TYPE_CHECKING:  # these need zarr-python
    from daf_storage.stores._zarr_adapter import SnapshotZarrStore, path_or_mapping

__getattr__, __dir__, _ = lazy_names(
    __name__, {"daf_storage.stores._zarr_adapter": ("SnapshotZarrStore", "path_or_mapping")}
)

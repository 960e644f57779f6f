"""A path and a mode become a reader or a writer.

**Nouns.** A *path* names a directory, an archive, an HDF5 file or a URL, and perhaps a group in it.
Handles of one file within a process share what was opened.  A new data set appears at its path when
it is complete, or not at all.

Must not know AnnData, verification or copying.
"""

from daf_storage.opening._containers import (
    UnsafeAlignmentWarning,
    groups_of,
    open_archive,
    open_directory_tree,
    recovery_of,
    tree_of,
)
from daf_storage.opening._open import (
    FilesDaf,
    H5df,
    MemoryDaf,
    ZarrDaf,
    anndata_at,
    check_outside,
    complete_daf,
    is_stored_at,
    new_data_set,
    open_daf,
    open_overlay,
)
from daf_storage.opening._paths import (
    SHARED_ARCHIVES,
    DafPath,
    foreign_path,
    in_unicode,
    open_remote_tree,
    parse_path,
    remote_directory,
    short_names,
    stem_of,
)

"""A store in one file: a memory-mapped, append-only ZIP archive.

`MmapZipStore` reads any archive and adds to it.  The records of the format (`_records`), how
entries are read (`_reader`), and how a file is opened whose writer crashed and added to in order
(`_file`) are apart from one another.
"""

from daf_storage.stores.mmap_zip._archive import MmapZipStore
from daf_storage.stores.mmap_zip._file import Recovery, RecoveryWarning, replace_archive
from daf_storage.stores.mmap_zip._reader import (
    ArchiveSnapshot,
    RemoteArchive,
    check_entries,
    unused_bytes,
)
from daf_storage.stores.mmap_zip._records import DAF_DATA_OFFSET_ALIGNMENT

"""Where bytes live: a store maps keys such as ``axes/cell/0`` to bytes.

A store knows nothing of Zarr and nothing of Daf.  `ReadableStore` is what every store can do;
`WritableStore` adds transactions.  `DirectoryStore` keeps each key in a file, `MemoryStore` in a
dictionary.
"""

from daf_storage.stores._directory import DirectoryStore, replace_directory
from daf_storage.stores._memory import MemoryStore
from daf_storage.stores._protocol import Pin, ReadableStore, Transaction, WritableStore

__all__ = [
    "DirectoryStore",
    "MemoryStore",
    "Pin",
    "ReadableStore",
    "Transaction",
    "WritableStore",
    "replace_directory",
]

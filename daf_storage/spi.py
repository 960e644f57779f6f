"""The second door of the package, for those who write another store or another index.

What users of data sets need is in `daf_storage` itself.  What is here changes more often; each name
is documented in docs/reference/spi.md.
"""

from daf_storage.base import DecodedCache, Span, StorageType
from daf_storage.data import SparseVectorParts, StoredMatrix, StoredVector
from daf_storage.stores import (
    DirectoryStore,
    MappingStore,
    MemoryStore,
    MmapZipStore,
    ReadEstimate,
    Recovery,
)
from daf_storage.trees import StoredArray
from daf_storage.upkeep import IndexKind, IndexPlace, IndexSource, IndexStorage, StoredIndex

__all__ = [
    "DecodedCache",
    "DirectoryStore",
    "IndexKind",
    "IndexPlace",
    "IndexSource",
    "IndexStorage",
    "MappingStore",
    "MemoryStore",
    "MmapZipStore",
    "ReadEstimate",
    "Recovery",
    "Span",
    "SparseVectorParts",
    "StorageType",
    "StoredArray",
    "StoredIndex",
    "StoredMatrix",
    "StoredVector",
]

"""The second door of the package, for those who write another store or another index.

What users of data sets need is in `daf_storage` itself.  What is here changes more often; each name
is documented in docs/reference/spi.md.
"""

from typing import TYPE_CHECKING

from daf_storage._lazy import lazy_names
from daf_storage.base import DecodedCache, Span, StorageType
from daf_storage.data import SparseMatrixParts, SparseVectorParts, StoredMatrix, StoredVector
from daf_storage.stores import (
    DirectoryStore,
    MappingStore,
    MemoryStore,
    MmapZipStore,
    ReadEstimate,
    Recovery,
)
from daf_storage.trees import StoredArray
from daf_storage.upkeep import (
    IndexKind,
    IndexPlace,
    IndexSource,
    IndexStorage,
    StoredIndex,
)

if TYPE_CHECKING:  # this needs zarr-python
    from daf_storage.stores import ZarrArchiveStore

__getattr__, __dir__, _ = lazy_names(__name__, {"daf_storage.stores": ("ZarrArchiveStore",)})

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
    "SparseMatrixParts",
    "SparseVectorParts",
    "StorageType",
    "StoredArray",
    "StoredIndex",
    "StoredMatrix",
    "StoredVector",
    "ZarrArchiveStore",
]

"""The second door, for those who build on the package: stores, stored arrays, caches, output files.

What users of data sets need is in `daf_storage` itself.  What is here changes more often; each name
is documented in docs/reference/spi.md.
"""

from typing import TYPE_CHECKING

from daf_storage._lazy import lazy_module, lazy_names

if TYPE_CHECKING:
    from daf_storage.base import (
        SERVER_CLIENT,
        DecodedCache,
        ForkLock,
        Span,
        StorageType,
        ThreadedLibrary,
        decode_vlen_bytes,
        decode_vlen_utf8,
        optional_import,
        progress_bar,
    )
    from daf_storage.data import (
        SparseMatrixParts,
        SparseVectorParts,
        StoredMatrix,
        StoredVector,
        plain_values,
        stored_numbers,
    )
    from daf_storage.h5ad import (
        ANNDATA_PARTS,
        AlignedMatrix,
        RecordedType,
        aligned_matrices,
        axis_frame,
        recorded_types,
        write_anndata,
    )
    from daf_storage.stores import (
        DirectoryStore,
        MappingStore,
        MemoryStore,
        MmapZipStore,
        Recovery,
        ZarrArchiveStore,
        find_output,
        is_remote,
        open_output,
        open_regular,
        output_directory,
        output_path,
        shown_url,
    )
    from daf_storage.trees import INDEXES_SUFFIX, StoredArray, decompress_chunk
    from daf_storage.upkeep import (
        IndexKind,
        IndexPlace,
        IndexSource,
        IndexStorage,
        StoredIndex,
        data_set_paths,
    )

__all__ = [
    "ANNDATA_PARTS",
    "INDEXES_SUFFIX",
    "SERVER_CLIENT",
    "AlignedMatrix",
    "DecodedCache",
    "DirectoryStore",
    "ForkLock",
    "IndexKind",
    "IndexPlace",
    "IndexSource",
    "IndexStorage",
    "MappingStore",
    "MemoryStore",
    "MmapZipStore",
    "RecordedType",
    "Recovery",
    "Span",
    "SparseMatrixParts",
    "SparseVectorParts",
    "StorageType",
    "StoredArray",
    "StoredIndex",
    "StoredMatrix",
    "StoredVector",
    "ThreadedLibrary",
    "ZarrArchiveStore",
    "aligned_matrices",
    "axis_frame",
    "data_set_paths",
    "decode_vlen_bytes",
    "decode_vlen_utf8",
    "decompress_chunk",
    "find_output",
    "is_remote",
    "lazy_module",
    "lazy_names",
    "open_output",
    "open_regular",
    "optional_import",
    "output_directory",
    "output_path",
    "plain_values",
    "progress_bar",
    "recorded_types",
    "shown_url",
    "stored_numbers",
    "write_anndata",
]

__getattr__, __dir__ = lazy_names(
    __name__,
    {
        "daf_storage.base": (
            "SERVER_CLIENT",
            "DecodedCache",
            "ForkLock",
            "Span",
            "StorageType",
            "ThreadedLibrary",
            "decode_vlen_bytes",
            "decode_vlen_utf8",
            "optional_import",
            "progress_bar",
        ),
        "daf_storage.data": (
            "SparseMatrixParts",
            "SparseVectorParts",
            "StoredMatrix",
            "StoredVector",
            "plain_values",
            "stored_numbers",
        ),
        "daf_storage.h5ad": (
            "ANNDATA_PARTS",
            "AlignedMatrix",
            "RecordedType",
            "aligned_matrices",
            "axis_frame",
            "recorded_types",
            "write_anndata",
        ),
        "daf_storage.stores": (
            "DirectoryStore",
            "MappingStore",
            "MemoryStore",
            "MmapZipStore",
            "Recovery",
            "ZarrArchiveStore",
            "find_output",
            "is_remote",
            "open_output",
            "open_regular",
            "output_directory",
            "output_path",
            "shown_url",
        ),
        "daf_storage.trees": (
            "INDEXES_SUFFIX",
            "StoredArray",
            "decompress_chunk",
        ),
        "daf_storage.upkeep": (
            "IndexKind",
            "IndexPlace",
            "IndexSource",
            "IndexStorage",
            "StoredIndex",
            "data_set_paths",
        ),
    },
)

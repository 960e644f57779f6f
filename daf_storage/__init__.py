"""Daf data sets on disk and in memory.

**Nouns.** A data set has named *axes*, each an ordered list of unique *entries*; *vectors* along
one axis; *matrices* along two; and *scalars*.  A reader hands out views of mapped files; a writer
puts each property in place in one atomic step.

>>> import daf_storage
>>> daf = daf_storage.MemoryDaf()
>>> daf.add_axis("cell", ["TATA", "GATA", "CATA"])
>>> daf.add_axis("gene", ["FOXA1", "WNT6"])
>>> daf.set_matrix("cell", "gene", "UMIs", [[0, 1], [2, 3], [4, 5]])
>>> daf.get_np_matrix("gene", "cell", "UMIs").tolist()
[[0, 2, 4], [1, 3, 5]]
"""

from daf_storage import errors, settings
from daf_storage.casting import stored_numbers
from daf_storage.containers import plain_values
from daf_storage.convention import Convention, ConventionWarning
from daf_storage.copying import convert, copy_all
from daf_storage.damage import Damage
from daf_storage.decoded import DecodedCache
from daf_storage.encoding import EmptySparse
from daf_storage.errors import DafError
from daf_storage.forking import SERVER_CLIENT, ForkLock, ThreadedLibrary
from daf_storage.h5ad import (
    AnnDataWarning,
    Report,
    ReportItem,
    axis_frame,
    export_h5ad,
    from_anndata,
    import_h5ad,
    to_anndata,
)
from daf_storage.hdf5_files import UnsafeAlignmentWarning
from daf_storage.index_storage import (
    IndexKind,
    IndexPlace,
    IndexSource,
    IndexStorage,
    StoredIndex,
)
from daf_storage.joint_reordering import reorder_axes
from daf_storage.layout import (
    MAJOR_VERSION,
    MINOR_VERSION,
    SparseMatrixParts,
    SparseVectorParts,
    StoredMatrix,
    StoredVector,
)
from daf_storage.mending import RecoveryWarning
from daf_storage.model import MatrixInfo, OpenMode, Span, StorageType, VectorInfo
from daf_storage.opening import H5df, MemoryDaf, ZarrDaf, open_daf
from daf_storage.optional import optional_import
from daf_storage.output_files import (
    find_output,
    open_output,
    output_directory,
    output_path,
)
from daf_storage.packing import CodecName, Packing
from daf_storage.progress import Progress, ShowProgress, progress_bar
from daf_storage.reader import REQUIRED, DafReader, Origin
from daf_storage.repairing import RepairReport, data_set_paths, repair
from daf_storage.serving import DafServer
from daf_storage.stores import (
    DAF_DATA_OFFSET_ALIGNMENT,
    DirectoryStore,
    MappingStore,
    MemoryStore,
    MmapZipStore,
    Recovery,
    ZarrArchiveStore,
    is_remote,
    open_regular,
    shown_url,
)
from daf_storage.strings import decode_vlen_bytes, decode_vlen_utf8
from daf_storage.trees import INDEXES_SUFFIX, StoredArray, decompress_chunk
from daf_storage.verifying import Finding, verify
from daf_storage.writer import DafWriter

__all__ = [
    "DAF_DATA_OFFSET_ALIGNMENT",
    "INDEXES_SUFFIX",
    "MAJOR_VERSION",
    "MINOR_VERSION",
    "REQUIRED",
    "SERVER_CLIENT",
    "AnnDataWarning",
    "CodecName",
    "Convention",
    "ConventionWarning",
    "DafError",
    "DafReader",
    "DafServer",
    "DafWriter",
    "Damage",
    "DecodedCache",
    "DirectoryStore",
    "EmptySparse",
    "Finding",
    "ForkLock",
    "H5df",
    "IndexKind",
    "IndexPlace",
    "IndexSource",
    "IndexStorage",
    "MappingStore",
    "MatrixInfo",
    "MemoryDaf",
    "MemoryStore",
    "MmapZipStore",
    "OpenMode",
    "Origin",
    "Packing",
    "Progress",
    "Recovery",
    "RecoveryWarning",
    "RepairReport",
    "Report",
    "ReportItem",
    "ShowProgress",
    "Span",
    "SparseMatrixParts",
    "SparseVectorParts",
    "StorageType",
    "StoredArray",
    "StoredIndex",
    "StoredMatrix",
    "StoredVector",
    "ThreadedLibrary",
    "UnsafeAlignmentWarning",
    "VectorInfo",
    "ZarrArchiveStore",
    "ZarrDaf",
    "axis_frame",
    "convert",
    "copy_all",
    "data_set_paths",
    "decode_vlen_bytes",
    "decode_vlen_utf8",
    "decompress_chunk",
    "errors",
    "export_h5ad",
    "find_output",
    "from_anndata",
    "import_h5ad",
    "is_remote",
    "open_daf",
    "open_output",
    "open_regular",
    "optional_import",
    "output_directory",
    "output_path",
    "plain_values",
    "progress_bar",
    "reorder_axes",
    "repair",
    "settings",
    "shown_url",
    "stored_numbers",
    "to_anndata",
    "verify",
]

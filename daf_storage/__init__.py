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

from typing import TYPE_CHECKING

from daf_storage import errors, settings
from daf_storage._lazy import lazy_names

if TYPE_CHECKING:
    from daf_storage.base import (
        CodecName,
        IfExists,
        MatrixInfo,
        OpenMode,
        Packing,
        Progress,
        ShowProgress,
        VectorInfo,
    )
    from daf_storage.combined import chain_reader, chain_writer, view
    from daf_storage.concat import Join, MergeAction, Merging, concatenate
    from daf_storage.data import (
        MAJOR_VERSION,
        MINOR_VERSION,
        REQUIRED,
        Convention,
        ConventionWarning,
        DafReader,
        DafWriter,
        Damage,
        EmptySparse,
        Origin,
        RecoveryWarning,
        Relation,
        RelationSource,
    )
    from daf_storage.errors import DafError
    from daf_storage.groups import (
        collect_group_members,
        compact_groups,
        group_names,
        reconstruct_axis,
    )
    from daf_storage.h5ad import (
        AnnDataWarning,
        Report,
        ReportItem,
        export_h5ad,
        from_anndata,
        import_h5ad,
        to_anndata,
    )
    from daf_storage.opening import (
        FilesDaf,
        H5df,
        MemoryDaf,
        UnsafeAlignmentWarning,
        ZarrDaf,
        complete_daf,
        open_daf,
        open_overlay,
    )
    from daf_storage.sidecars import SidecarWarning
    from daf_storage.stores import DAF_DATA_OFFSET_ALIGNMENT
    from daf_storage.upkeep import (
        CopyIfExists,
        DafServer,
        Finding,
        RepairReport,
        SidecarStatus,
        convert,
        copy_all,
        copy_axis,
        copy_matrix,
        copy_scalar,
        copy_tensor,
        copy_vector,
        files_to_zarr,
        refresh_sidecar,
        remove_sidecar,
        reorder_axes,
        repair,
        sidecar_status,
        verify,
        write_sidecar,
        zarr_to_files,
    )

__all__ = [
    "DAF_DATA_OFFSET_ALIGNMENT",
    "MAJOR_VERSION",
    "MINOR_VERSION",
    "REQUIRED",
    "AnnDataWarning",
    "CodecName",
    "Convention",
    "ConventionWarning",
    "CopyIfExists",
    "DafError",
    "DafReader",
    "DafServer",
    "DafWriter",
    "Damage",
    "EmptySparse",
    "FilesDaf",
    "Finding",
    "H5df",
    "IfExists",
    "Join",
    "MatrixInfo",
    "MemoryDaf",
    "MergeAction",
    "Merging",
    "OpenMode",
    "Origin",
    "Packing",
    "Progress",
    "RecoveryWarning",
    "Relation",
    "RelationSource",
    "RepairReport",
    "Report",
    "ReportItem",
    "ShowProgress",
    "SidecarStatus",
    "SidecarWarning",
    "UnsafeAlignmentWarning",
    "VectorInfo",
    "ZarrDaf",
    "chain_reader",
    "chain_writer",
    "collect_group_members",
    "compact_groups",
    "complete_daf",
    "concatenate",
    "convert",
    "copy_all",
    "copy_axis",
    "copy_matrix",
    "copy_scalar",
    "copy_tensor",
    "copy_vector",
    "errors",
    "export_h5ad",
    "files_to_zarr",
    "from_anndata",
    "group_names",
    "import_h5ad",
    "open_daf",
    "open_overlay",
    "reconstruct_axis",
    "refresh_sidecar",
    "remove_sidecar",
    "reorder_axes",
    "repair",
    "settings",
    "sidecar_status",
    "to_anndata",
    "verify",
    "view",
    "write_sidecar",
    "zarr_to_files",
]

__getattr__, __dir__ = lazy_names(
    __name__,
    {
        "daf_storage.base": (
            "CodecName",
            "IfExists",
            "MatrixInfo",
            "OpenMode",
            "Packing",
            "Progress",
            "ShowProgress",
            "VectorInfo",
        ),
        "daf_storage.combined": ("chain_reader", "chain_writer", "view"),
        "daf_storage.concat": ("Join", "MergeAction", "Merging", "concatenate"),
        "daf_storage.data": (
            "MAJOR_VERSION",
            "MINOR_VERSION",
            "REQUIRED",
            "Convention",
            "ConventionWarning",
            "DafReader",
            "DafWriter",
            "Damage",
            "EmptySparse",
            "Origin",
            "RecoveryWarning",
            "Relation",
            "RelationSource",
        ),
        "daf_storage.errors": ("DafError",),
        "daf_storage.groups": (
            "collect_group_members",
            "compact_groups",
            "group_names",
            "reconstruct_axis",
        ),
        "daf_storage.h5ad": (
            "AnnDataWarning",
            "Report",
            "ReportItem",
            "export_h5ad",
            "from_anndata",
            "import_h5ad",
            "to_anndata",
        ),
        "daf_storage.opening": (
            "FilesDaf",
            "H5df",
            "MemoryDaf",
            "UnsafeAlignmentWarning",
            "ZarrDaf",
            "complete_daf",
            "open_daf",
            "open_overlay",
        ),
        "daf_storage.stores": ("DAF_DATA_OFFSET_ALIGNMENT",),
        "daf_storage.sidecars": ("SidecarWarning",),
        "daf_storage.upkeep": (
            "DafServer",
            "Finding",
            "RepairReport",
            "convert",
            "copy_all",
            "CopyIfExists",
            "copy_axis",
            "copy_matrix",
            "copy_scalar",
            "copy_tensor",
            "copy_vector",
            "files_to_zarr",
            "zarr_to_files",
            "reorder_axes",
            "repair",
            "verify",
            "SidecarStatus",
            "refresh_sidecar",
            "remove_sidecar",
            "sidecar_status",
            "write_sidecar",
        ),
    },
)

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

from daf_storage import errors as errors
from daf_storage import settings as settings
from daf_storage._lazy import lazy_names

if TYPE_CHECKING:
    from daf_storage.anndata import AnnDataWarning as AnnDataWarning
    from daf_storage.anndata import Report as Report
    from daf_storage.anndata import ReportItem as ReportItem
    from daf_storage.base import CodecName as CodecName
    from daf_storage.base import IfExists as IfExists
    from daf_storage.base import MatrixInfo as MatrixInfo
    from daf_storage.base import OpenMode as OpenMode
    from daf_storage.base import Packing as Packing
    from daf_storage.base import Progress as Progress
    from daf_storage.base import ShowProgress as ShowProgress
    from daf_storage.base import VectorInfo as VectorInfo
    from daf_storage.cell_ranger import import_10x_mtx as import_10x_mtx
    from daf_storage.combined import chain_reader as chain_reader
    from daf_storage.combined import chain_writer as chain_writer
    from daf_storage.combined import view as view
    from daf_storage.concat import Join as Join
    from daf_storage.concat import MergeAction as MergeAction
    from daf_storage.concat import Merging as Merging
    from daf_storage.concat import concatenate as concatenate
    from daf_storage.data import MAJOR_VERSION as MAJOR_VERSION
    from daf_storage.data import MINOR_VERSION as MINOR_VERSION
    from daf_storage.data import REQUIRED as REQUIRED
    from daf_storage.data import Convention as Convention
    from daf_storage.data import ConventionWarning as ConventionWarning
    from daf_storage.data import DafReader as DafReader
    from daf_storage.data import DafWriter as DafWriter
    from daf_storage.data import Damage as Damage
    from daf_storage.data import EmptySparse as EmptySparse
    from daf_storage.data import Origin as Origin
    from daf_storage.data import RecoveryWarning as RecoveryWarning
    from daf_storage.data import Relation as Relation
    from daf_storage.data import RelationSource as RelationSource
    from daf_storage.errors import DafError as DafError
    from daf_storage.groups import collect_group_members as collect_group_members
    from daf_storage.groups import compact_groups as compact_groups
    from daf_storage.groups import group_names as group_names
    from daf_storage.groups import reconstruct_axis as reconstruct_axis
    from daf_storage.h5ad import export_h5ad as export_h5ad
    from daf_storage.h5ad import from_anndata as from_anndata
    from daf_storage.h5ad import import_h5ad as import_h5ad
    from daf_storage.h5ad import to_anndata as to_anndata
    from daf_storage.opening import FilesDaf as FilesDaf
    from daf_storage.opening import H5df as H5df
    from daf_storage.opening import MemoryDaf as MemoryDaf
    from daf_storage.opening import UnsafeAlignmentWarning as UnsafeAlignmentWarning
    from daf_storage.opening import ZarrDaf as ZarrDaf
    from daf_storage.opening import complete_daf as complete_daf
    from daf_storage.opening import open_daf as open_daf
    from daf_storage.opening import open_overlay as open_overlay
    from daf_storage.sidecars import SidecarWarning as SidecarWarning
    from daf_storage.stores import DAF_DATA_OFFSET_ALIGNMENT as DAF_DATA_OFFSET_ALIGNMENT
    from daf_storage.upkeep import CopyIfExists as CopyIfExists
    from daf_storage.upkeep import DafServer as DafServer
    from daf_storage.upkeep import Finding as Finding
    from daf_storage.upkeep import RepairReport as RepairReport
    from daf_storage.upkeep import SidecarStatus as SidecarStatus
    from daf_storage.upkeep import convert as convert
    from daf_storage.upkeep import copy_all as copy_all
    from daf_storage.upkeep import copy_axis as copy_axis
    from daf_storage.upkeep import copy_matrix as copy_matrix
    from daf_storage.upkeep import copy_scalar as copy_scalar
    from daf_storage.upkeep import copy_tensor as copy_tensor
    from daf_storage.upkeep import copy_vector as copy_vector
    from daf_storage.upkeep import files_to_zarr as files_to_zarr
    from daf_storage.upkeep import refresh_sidecar as refresh_sidecar
    from daf_storage.upkeep import remove_sidecar as remove_sidecar
    from daf_storage.upkeep import reorder_axes as reorder_axes
    from daf_storage.upkeep import repair as repair
    from daf_storage.upkeep import sidecar_status as sidecar_status
    from daf_storage.upkeep import verify as verify
    from daf_storage.upkeep import write_sidecar as write_sidecar
    from daf_storage.upkeep import zarr_to_files as zarr_to_files


__getattr__, __dir__, __all__ = lazy_names(
    __name__,
    {
        "daf_storage.anndata": ("AnnDataWarning", "Report", "ReportItem"),
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
        "daf_storage.cell_ranger": ("import_10x_mtx",),
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
    own=(
        "errors",
        "settings",
    ),
)

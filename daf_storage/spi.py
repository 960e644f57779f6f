"""The second door, for those who build on the package: stores, stored arrays, caches, output files.

What users of data sets need is in `daf_storage` itself.  What is here changes more often; each name
is documented in docs/reference/spi.md.
"""

from typing import TYPE_CHECKING

from daf_storage._lazy import lazy_module as lazy_module
from daf_storage._lazy import lazy_names as lazy_names

if TYPE_CHECKING:
    from daf_storage._terminal_text import text_width as text_width
    from daf_storage._terminal_text import visible as visible
    from daf_storage._terminal_text import visible_name as visible_name
    from daf_storage.base import SERVER_CLIENT as SERVER_CLIENT
    from daf_storage.base import DecodedCache as DecodedCache
    from daf_storage.base import ForkLock as ForkLock
    from daf_storage.base import Span as Span
    from daf_storage.base import StorageType as StorageType
    from daf_storage.base import ThreadedLibrary as ThreadedLibrary
    from daf_storage.base import decode_vlen_bytes as decode_vlen_bytes
    from daf_storage.base import decode_vlen_chunks as decode_vlen_chunks
    from daf_storage.base import decode_vlen_utf8 as decode_vlen_utf8
    from daf_storage.base import install_command as install_command
    from daf_storage.base import kept_threads as kept_threads
    from daf_storage.base import optional_import as optional_import
    from daf_storage.base import paused_collection as paused_collection
    from daf_storage.base import progress_bar as progress_bar
    from daf_storage.data import SparseMatrixParts as SparseMatrixParts
    from daf_storage.data import SparseVectorParts as SparseVectorParts
    from daf_storage.data import StoredMatrix as StoredMatrix
    from daf_storage.data import StoredVector as StoredVector
    from daf_storage.data import arrow_of as arrow_of
    from daf_storage.data import axes_in_order as axes_in_order
    from daf_storage.data import axis_section as axis_section
    from daf_storage.data import checked_indices as checked_indices
    from daf_storage.data import data_set_section as data_set_section
    from daf_storage.data import is_in_place as is_in_place
    from daf_storage.data import matrix_version as matrix_version
    from daf_storage.data import ordered as ordered
    from daf_storage.data import plain_values as plain_values
    from daf_storage.data import relation_of as relation_of
    from daf_storage.data import stored_numbers as stored_numbers
    from daf_storage.data import vector_previews as vector_previews
    from daf_storage.data import vectors_version as vectors_version
    from daf_storage.data import writing_remedy as writing_remedy
    from daf_storage.display import Markup as Markup
    from daf_storage.display import Preview as Preview
    from daf_storage.display import PreviewBudget as PreviewBudget
    from daf_storage.display import histogram as histogram
    from daf_storage.display import html_details as html_details
    from daf_storage.display import html_element as html_element
    from daf_storage.display import html_page as html_page
    from daf_storage.display import html_table as html_table
    from daf_storage.display import joined_html as joined_html
    from daf_storage.display import preview_cells as preview_cells
    from daf_storage.display import preview_chart as preview_chart
    from daf_storage.display import preview_of as preview_of
    from daf_storage.display import preview_text as preview_text
    from daf_storage.display import readable_bytes as readable_bytes
    from daf_storage.display import shortened as shortened
    from daf_storage.display import shown_values as shown_values
    from daf_storage.h5ad import ANNDATA_PARTS as ANNDATA_PARTS
    from daf_storage.h5ad import AlignedMatrix as AlignedMatrix
    from daf_storage.h5ad import RecordedType as RecordedType
    from daf_storage.h5ad import aligned_matrices as aligned_matrices
    from daf_storage.h5ad import axis_frame as axis_frame
    from daf_storage.h5ad import recorded_types as recorded_types
    from daf_storage.h5ad import was_float as was_float
    from daf_storage.h5ad import write_anndata as write_anndata
    from daf_storage.opening import check_outside as check_outside
    from daf_storage.opening import is_stored_at as is_stored_at
    from daf_storage.sidecars import is_sidecar as is_sidecar
    from daf_storage.stores import DirectoryStore as DirectoryStore
    from daf_storage.stores import MappingStore as MappingStore
    from daf_storage.stores import MemoryStore as MemoryStore
    from daf_storage.stores import MmapZipStore as MmapZipStore
    from daf_storage.stores import ReadEstimate as ReadEstimate
    from daf_storage.stores import Recovery as Recovery
    from daf_storage.stores import ZarrArchiveStore as ZarrArchiveStore
    from daf_storage.stores import find_output as find_output
    from daf_storage.stores import is_remote as is_remote
    from daf_storage.stores import is_url_pattern as is_url_pattern
    from daf_storage.stores import matching_urls as matching_urls
    from daf_storage.stores import open_access as open_access
    from daf_storage.stores import open_output as open_output
    from daf_storage.stores import open_regular as open_regular
    from daf_storage.stores import output_directory as output_directory
    from daf_storage.stores import output_path as output_path
    from daf_storage.stores import shown_url as shown_url
    from daf_storage.trees import INDEXES_SUFFIX as INDEXES_SUFFIX
    from daf_storage.trees import StoredArray as StoredArray
    from daf_storage.trees import StringMatches as StringMatches
    from daf_storage.trees import StringPlaces as StringPlaces
    from daf_storage.trees import StringSearch as StringSearch
    from daf_storage.trees import decompress_chunk as decompress_chunk
    from daf_storage.trees import hdf5_output as hdf5_output
    from daf_storage.trees import read_joined as read_joined
    from daf_storage.upkeep import IndexKind as IndexKind
    from daf_storage.upkeep import IndexPlace as IndexPlace
    from daf_storage.upkeep import IndexSource as IndexSource
    from daf_storage.upkeep import IndexStorage as IndexStorage
    from daf_storage.upkeep import PagedArray as PagedArray
    from daf_storage.upkeep import StoredIndex as StoredIndex
    from daf_storage.upkeep import can_have_sidecar as can_have_sidecar
    from daf_storage.upkeep import cannot_listen as cannot_listen
    from daf_storage.upkeep import data_set_paths as data_set_paths
    from daf_storage.upkeep import sidecar_indexes as sidecar_indexes


__getattr__, __dir__, __all__ = lazy_names(
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
            "decode_vlen_chunks",
            "decode_vlen_utf8",
            "kept_threads",
            "install_command",
            "optional_import",
            "paused_collection",
            "progress_bar",
        ),
        "daf_storage.opening": ("check_outside", "is_stored_at"),
        "daf_storage.sidecars": ("is_sidecar",),
        "daf_storage.data": (
            "SparseMatrixParts",
            "SparseVectorParts",
            "StoredMatrix",
            "StoredVector",
            "arrow_of",
            "axes_in_order",
            "axis_section",
            "checked_indices",
            "data_set_section",
            "vector_previews",
            "is_in_place",
            "writing_remedy",
            "matrix_version",
            "ordered",
            "plain_values",
            "relation_of",
            "stored_numbers",
            "vectors_version",
        ),
        "daf_storage.display": (
            "Markup",
            "Preview",
            "PreviewBudget",
            "histogram",
            "html_details",
            "html_element",
            "html_page",
            "html_table",
            "joined_html",
            "preview_cells",
            "preview_chart",
            "preview_of",
            "preview_text",
            "readable_bytes",
            "shortened",
            "shown_values",
        ),
        "daf_storage._terminal_text": ("text_width", "visible", "visible_name"),
        "daf_storage.h5ad": (
            "ANNDATA_PARTS",
            "AlignedMatrix",
            "RecordedType",
            "aligned_matrices",
            "axis_frame",
            "recorded_types",
            "was_float",
            "write_anndata",
        ),
        "daf_storage.stores": (
            "DirectoryStore",
            "MappingStore",
            "MemoryStore",
            "MmapZipStore",
            "ReadEstimate",
            "Recovery",
            "ZarrArchiveStore",
            "find_output",
            "is_remote",
            "is_url_pattern",
            "matching_urls",
            "open_access",
            "open_output",
            "open_regular",
            "output_directory",
            "output_path",
            "shown_url",
        ),
        "daf_storage.trees": (
            "INDEXES_SUFFIX",
            "StoredArray",
            "StringMatches",
            "StringPlaces",
            "StringSearch",
            "decompress_chunk",
            "hdf5_output",
            "read_joined",
        ),
        "daf_storage.upkeep": (
            "IndexKind",
            "IndexPlace",
            "IndexSource",
            "IndexStorage",
            "PagedArray",
            "StoredIndex",
            "can_have_sidecar",
            "cannot_listen",
            "data_set_paths",
            "sidecar_indexes",
        ),
    },
    own=(
        "lazy_module",
        "lazy_names",
    ),
)

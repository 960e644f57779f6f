"""Slices of matrices: choose entries of two axes, then read their elements and no others.

**Nouns.** A *selector* is what the caller passed for a selection of one axis (SQL, names,
positions, a mask).  A *matrix slice* returns the elements of two selections as numpy, scipy, Arrow,
pandas, AnnData or a file; a *companion* is another matrix over the same axes that an AnnData of
the slice has too.

Must not know sessions or the command line.
"""

from daf_query.slice._anndata import (
    ANNDATA_MAX_BYTES,
    AnnDataChoice,
    Choice,
    Companion,
    Companions,
    Contents,
    companion_selections,
    find_companions,
    select_companions,
    warn_of_left_out,
)
from daf_query.slice._asked import Asked, Written, written_selector
from daf_query.slice._block_grid import GridFacts, Spans, StoredOrder
from daf_query.slice._block_reads import (
    MatrixSource,
    OpenedMatrix,
    matrix_facts,
    matrix_source,
)
from daf_query.slice._blocks import BLOCK_BYTES
from daf_query.slice._byte_sizes import ByteSize, byte_count, shown_bytes
from daf_query.slice._current_axes import CurrentAxes
from daf_query.slice._empty_selection import EmptySelection, empty_selection
from daf_query.slice._entry_list import is_table, positions_in, positions_of
from daf_query.slice._explanation import (
    Figures,
    LayoutCost,
    SliceExplanation,
    axis_bytes,
    check_budget,
)
from daf_query.slice._export import FORMATS, TEXT, AxisNames, Labels, as_dense, check_format
from daf_query.slice._expression import expression_table
from daf_query.slice._known_line import known_line_slice
from daf_query.slice._matrix_slice import MatrixSlice, slice_matrix
from daf_query.slice._page import slice_page
from daf_query.slice._selector import (
    Selector,
    explained_of,
    order_of,
    predicate_rows,
    resolve,
    select_rows,
)
from daf_query.slice._wrapped_sql import RowKey, predicate_query

__all__ = [
    "ANNDATA_MAX_BYTES",
    "BLOCK_BYTES",
    "FORMATS",
    "TEXT",
    "AnnDataChoice",
    "Asked",
    "AxisNames",
    "ByteSize",
    "Choice",
    "Companion",
    "Companions",
    "Contents",
    "CurrentAxes",
    "EmptySelection",
    "Figures",
    "GridFacts",
    "Labels",
    "LayoutCost",
    "MatrixSlice",
    "MatrixSource",
    "OpenedMatrix",
    "RowKey",
    "Selector",
    "SliceExplanation",
    "Spans",
    "StoredOrder",
    "Written",
    "as_dense",
    "axis_bytes",
    "byte_count",
    "check_budget",
    "check_format",
    "companion_selections",
    "empty_selection",
    "explained_of",
    "expression_table",
    "find_companions",
    "is_table",
    "known_line_slice",
    "matrix_facts",
    "matrix_source",
    "order_of",
    "positions_in",
    "positions_of",
    "predicate_query",
    "predicate_rows",
    "resolve",
    "select_companions",
    "select_rows",
    "shown_bytes",
    "slice_matrix",
    "slice_page",
    "warn_of_left_out",
    "written_selector",
]

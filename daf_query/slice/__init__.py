"""Slices of matrices: choose entries of two axes, then read their elements and no others.

**Nouns.** A *selector* is what the caller passed for a selection of one axis (SQL, names,
positions, a mask).  A *matrix slice* returns the elements of two selections as numpy, scipy, Arrow,
pandas, AnnData or a file; a *companion* is another matrix over the same axes that an AnnData of
the slice has too.

Must not know sessions or the command line.
"""

from daf_query.slice._anndata import ANNDATA_MAX_BYTES, AnnDataChoice, Choice
from daf_query.slice._asked import Asked, written_selector
from daf_query.slice._byte_sizes import ByteSize, byte_count, shown_bytes
from daf_query.slice._empty_selection import EmptySelection, empty_selection
from daf_query.slice._entry_list import positions_in
from daf_query.slice._explanation import LayoutCost, SliceExplanation
from daf_query.slice._export import FORMATS, TEXT, check_format
from daf_query.slice._expression import expression_table
from daf_query.slice._matrix_slice import MatrixSlice, slice_matrix
from daf_query.slice._selector import (
    Selector,
    explained_of,
    is_select,
    order_of,
    resolve,
)
from daf_query.slice._wrapped_sql import WrappedSql

__all__ = [
    "ANNDATA_MAX_BYTES",
    "FORMATS",
    "TEXT",
    "AnnDataChoice",
    "Asked",
    "ByteSize",
    "Choice",
    "EmptySelection",
    "LayoutCost",
    "MatrixSlice",
    "Selector",
    "SliceExplanation",
    "WrappedSql",
    "byte_count",
    "check_format",
    "empty_selection",
    "explained_of",
    "expression_table",
    "is_select",
    "order_of",
    "positions_in",
    "resolve",
    "shown_bytes",
    "slice_matrix",
    "written_selector",
]

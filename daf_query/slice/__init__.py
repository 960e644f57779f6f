"""Slices of matrices: choose entries of two axes, then read their elements and no others.

**Nouns.** A *selection* is the chosen positions along one axis; a *selector* is what the caller
passed for it (SQL, names, positions, a mask).  A *layout* is one of the two orders in which a
matrix may be stored.  *Gathering* reads the elements of a selection from a layout.  A *matrix
slice* returns them as numpy, scipy, Arrow, pandas, AnnData or a file; a *companion* is another
matrix over the same axes that an AnnData of the slice has too.

Must not know sessions or the command line.
"""

from daf_query.slice._anndata import ANNDATA_MAX_BYTES, AnnDataChoice, Choice
from daf_query.slice._entry_list import positions_in
from daf_query.slice._export import FORMATS, TEXT, check_format
from daf_query.slice._layouts import DamagedLayoutWarning
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
    "Choice",
    "DamagedLayoutWarning",
    "MatrixSlice",
    "Selector",
    "WrappedSql",
    "check_format",
    "explained_of",
    "is_select",
    "order_of",
    "positions_in",
    "resolve",
    "slice_matrix",
]

"""Transpose a matrix block by block, so that memory does not grow with it.

A matrix stored by columns is rewritten as its transpose stored by columns.  Pure numpy on arrays
that may be mapped files; opens nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

import numpy as np

from daf_storage._lazy import lazy_module
from daf_storage.base import AnyArray, Span
from daf_storage.errors import CorruptDataError

if TYPE_CHECKING:
    import scipy.sparse as sp
else:
    sp = lazy_module("scipy.sparse")

_BLOCK_ELEMENTS = 1 << 20
_TILE = 512


def column_blocks(indptr: AnyArray, *, max_elements: int = _BLOCK_ELEMENTS) -> Iterator[Span]:
    """Yield runs of columns that hold at most ``max_elements`` stored elements, or one column.

    >>> [(s.start, s.stop) for s in column_blocks(np.array([0, 2, 4, 9, 9]), max_elements=4)]
    [(0, 2), (2, 3), (3, 4)]
    """
    start, n_columns = 0, len(indptr) - 1
    while start < n_columns:
        limit = int(indptr[start]) + max_elements
        stop = int(np.searchsorted(indptr, limit, side="right")) - 1
        stop = min(max(stop, start + 1), n_columns)
        yield Span(start, stop)
        start = stop


def transposed_colptr(rowval: AnyArray, n_rows: int, *, what: str) -> AnyArray:
    """Return the 0-based column pointers of the transpose, from the 1-based row numbers.

    Raises
    ------
    CorruptDataError
        A row number leaves the rows axis; ``what`` names the matrix.
    """
    counts = np.zeros(n_rows + 1, dtype=np.int64)
    for start in range(0, rowval.size, _BLOCK_ELEMENTS):
        block = rowval[start : start + _BLOCK_ELEMENTS].astype(np.int64)
        if int(block.min()) < 1 or int(block.max()) > n_rows:
            raise CorruptDataError(
                f"{what}: rowval leaves the range 1 to {n_rows:,} of its rows axis"
            )
        counts += np.bincount(block, minlength=n_rows + 1)
    return np.cumsum(counts)


def transpose_sparse(  # noqa: PLR0913 - three arrays on each side
    *,
    indptr: AnyArray,
    rowval: AnyArray,
    nzval: AnyArray,
    out_indptr: AnyArray,
    out_rowval: AnyArray,
    out_nzval: AnyArray,
    progress: Callable[[int], None] = lambda _: None,
    max_elements: int = _BLOCK_ELEMENTS,
) -> None:
    """Fill the transpose of a CSC matrix, given where its columns begin.

    Parameters
    ----------
    indptr, out_indptr
        Where the columns of the source and of the result begin, from 0, int64.
    rowval, nzval
        1-based row numbers and values of the source.
    out_rowval, out_nzval
        Filled in place; row numbers count from 1 and ascend within each column.
    progress
        Called after each block with the number of elements done.
    """
    n_rows = len(out_indptr) - 1
    free = np.array(out_indptr[:-1])
    for span in column_blocks(indptr, max_elements=max_elements):
        part = slice(int(indptr[span.start]), int(indptr[span.stop]))
        rows = rowval[part].astype(np.int64) - 1
        pointers = indptr[span.start : span.stop + 1] - indptr[span.start]
        order = sp.csc_array(
            (np.arange(rows.size), rows, pointers), shape=(n_rows, span.size)
        ).tocsr()
        counts = np.diff(order.indptr).astype(np.int64)
        places = np.repeat(free - order.indptr[:-1], counts) + np.arange(rows.size)
        out_rowval[places] = order.indices + (1 + span.start)
        out_nzval[places] = nzval[part][order.data]
        free += counts
        progress(rows.size)


def transpose_dense(source: AnyArray, out: AnyArray) -> None:
    """Fill ``out`` with the transpose of ``source``, tile by tile to spare the caches."""
    height, width = source.shape
    for i in range(0, height, _TILE):
        for j in range(0, width, _TILE):
            out[j : j + _TILE, i : i + _TILE] = source[i : i + _TILE, j : j + _TILE].T

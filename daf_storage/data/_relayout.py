"""Blocks of columns, the column pointers of a transpose, and the transpose of a dense matrix.

A matrix stored by columns is rewritten as its transpose stored by columns.  Pure numpy on arrays
that may be mapped files; opens nothing.  Sparse ones: `daf_storage.data._transpose`.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from daf_storage.base import AnyArray, Span
from daf_storage.errors import CorruptDataError

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


def transpose_dense(source: AnyArray, out: AnyArray) -> None:
    """Fill ``out`` with the transpose of ``source``, tile by tile to spare the caches."""
    height, width = source.shape
    for i in range(0, height, _TILE):
        for j in range(0, width, _TILE):
            out[j : j + _TILE, i : i + _TILE] = source[i : i + _TILE, j : j + _TILE].T

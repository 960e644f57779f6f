"""Blocks of columns, the column pointers of a transpose, and the transpose of a dense matrix.

A matrix stored by columns is rewritten as its transpose stored by columns.  Of arrays that may be
mapped files; opens nothing.  Sparse ones: `daf_storage.data._transpose`.
"""

from __future__ import annotations

import functools
import threading
from collections.abc import Iterator
from typing import Final

import numpy as np

from daf_storage.base import AnyArray, Span
from daf_storage.data._counting_sort import count_numbers, largest_number
from daf_storage.errors import CorruptDataError
from daf_storage.trees import run_all

_BLOCK_ELEMENTS = 1 << 20
_LARGEST_BLOCK: Final = 1 << 23
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
    counts = _Counts(n_rows, what)
    step = min(max(_BLOCK_ELEMENTS, 2 * n_rows), _LARGEST_BLOCK)
    starts = range(0, rowval.size, step)
    run_all(functools.partial(counts.add, rowval[start : start + step]) for start in starts)
    return np.cumsum(counts.total)


class _Counts:
    """How often each row number occurs, counted by several threads."""

    def __init__(self, n_rows: int, what: str) -> None:
        self.total = np.zeros(n_rows + 1, np.int64)
        self._what = what
        self._lock = threading.Lock()

    def add(self, rows: AnyArray) -> None:
        """Count some."""
        n_rows = self.total.size - 1
        is_within = largest_number(rows) <= n_rows
        fits = n_rows < np.iinfo(np.int32).max
        is_wide = rows.dtype.itemsize == 4 and rows.dtype.isnative and fits
        numbers = rows.view(np.int32) if is_wide else rows.astype(np.int32 if fits else np.int64)
        counted = count_numbers(numbers, n_rows + 1) if is_within else None
        if counted is None or counted[0]:
            raise CorruptDataError(
                f"{self._what}: rowval leaves the range 1 to {n_rows:,} of its rows axis"
            )
        with self._lock:
            self.total += counted


def transpose_dense(source: AnyArray, out: AnyArray) -> None:
    """Fill ``out`` with the transpose of ``source``, tile by tile to spare the caches."""
    height, width = source.shape
    for i in range(0, height, _TILE):
        for j in range(0, width, _TILE):
            out[j : j + _TILE, i : i + _TILE] = source[i : i + _TILE, j : j + _TILE].T

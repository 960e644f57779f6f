"""Read the parts of a slice of several data sets, in parallel and in blocks, into one result.

Memory: the result, and for each thread a block.  A dense result is allocated at once, and each
block is read into its place.  A sparse one grows block by block: the allocator moves its pages, and
copies nothing.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from functools import partial
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import numpy as np
import numpy.typing as npt

from daf_query.collection._members import Member, Missing, Positions, Whole
from daf_query.matrix import ElementCount
from daf_query.moments import in_order
from daf_query.slice import Figures
from daf_storage.spi import Span, lazy_module

if TYPE_CHECKING:
    import scipy.sparse as sp
else:
    sp = lazy_module("scipy.sparse")

BLOCK_BYTES: Final = 32 << 20
"""About how large a block is."""

THREADS: Final = max(2, min(8, os.cpu_count() or 1))
"""How many blocks are read at a time."""

Progress: TypeAlias = Callable[[int], None]
"""Called with the number of stored elements that were read."""


def figures_of(whole: Whole) -> Figures:
    """Return how large the result is, at most."""
    counts = [member.part.element_count() for member in whole.members]
    count = sum(each.count for each in counts)
    is_exact = all(each.is_exact for each in counts)
    if whole.is_sparse and any(not member.part.is_sparse for member in whole.members):
        is_exact = False  # the zeros of dense members are left out
    if whole.fills:
        count += sum(each.count for each in whole.missing)
    if not whole.is_sparse:
        count, is_exact = whole.shape[0] * whole.shape[1], True
    return Figures(whole.shape, whole.dtype, whole.is_sparse, ElementCount(count, is_exact))


def row_sizes(whole: Whole, figures: Figures) -> npt.NDArray[np.float64]:
    """Return about how many bytes each row of the result takes; nothing is read.

    Those of a matrix that is stored by columns alone are taken to be of one size.
    """
    n_rows = whole.shape[0]
    if not whole.is_sparse:
        return np.full(n_rows, float(max(whole.shape[1] * figures.item_bytes, 1)))
    elements = np.zeros(n_rows)
    for member in whole.members:
        elements[member.rows] += member.part.row_counts()
    if whole.fills:
        for missing in whole.missing:
            elements[missing.rows] += missing.columns.size
    return elements * figures.element_bytes + figures.index_bytes


def spans_of(sizes: npt.NDArray[np.float64], max_bytes: float) -> Iterator[Span]:
    """Yield spans of rows of at most so many bytes, but of one row at least.  Pure.

    >>> list(spans_of(np.array([2.0, 2.0, 9.0, 1.0]), 4))
    [Span(start=0, stop=2), Span(start=2, stop=3), Span(start=3, stop=4)]
    """
    ends = np.cumsum(sizes)
    start = 0
    while start < ends.size:
        before = float(ends[start - 1]) if start else 0.0
        stop = max(int(np.searchsorted(ends, before + max_bytes, side="right")), start + 1)
        yield Span(start, stop)
        start = stop


def read_whole(whole: Whole, progress: Progress = lambda _: None) -> Any:
    """Return the values: ``csr_array`` if sparse, else ``ndarray``."""
    figures = figures_of(whole)
    spans = spans_of(row_sizes(whole, figures), BLOCK_BYTES)
    if whole.is_sparse:
        return _read_sparse(whole, figures, list(spans), progress)
    result = _filled(whole)
    tasks = (
        partial(_read_into, result, member, span)
        for span in spans
        for member in whole.members
        if _is_in(member, span)
    )
    for count in in_order(tasks, threads=THREADS, ahead=THREADS):
        progress(count)
    return result


def _filled(whole: Whole) -> npt.NDArray[Any]:
    """Return a dense result with what is missing; the rest is not set."""
    if not whole.missing:
        return np.empty(whole.shape, whole.dtype)
    if all(each.rows.size == 0 for each in whole.missing):
        return np.empty(whole.shape, whole.dtype)
    result = np.empty(whole.shape, whole.dtype)
    for missing in whole.missing:
        result[_index(missing.rows, missing.columns)] = whole.fill
    return result


def _is_in(member: Member, span: Span) -> bool:
    start, stop = np.searchsorted(member.rows, [span.start, span.stop])
    return bool(stop > start)


def _read_into(result: npt.NDArray[Any], member: Member, span: Span) -> int:
    """Read some rows of a dense result, each into its place."""
    block = member.of_rows(span)
    if block is None:
        return 0
    values = block.part.values()
    result[_index(block.rows + span.start, block.columns)] = values
    return int(values.size)


def _index(rows: Positions, columns: Positions) -> Any:
    """Return what indexes rows and columns; ranges as slices, which is faster."""
    first, second = _range_of(rows), _range_of(columns)
    if isinstance(first, slice) or isinstance(second, slice):
        return first, second
    return np.ix_(rows, columns)


def _range_of(positions: Positions) -> Any:
    if positions.size and positions[-1] - positions[0] == positions.size - 1:
        if bool(np.all(np.diff(positions) == 1)):
            return slice(int(positions[0]), int(positions[-1]) + 1)
    return positions


def _read_sparse(whole: Whole, figures: Figures, spans: list[Span], progress: Progress) -> Any:
    index_dtype = np.dtype(np.int32 if figures.index_bytes == 4 else np.int64)
    growing = _GrowingCsr(whole, figures.elements, index_dtype)
    tasks = (
        partial(_csr_piece, whole, member, span)
        for span in spans
        for member in whole.members
        if _is_in(member, span)
    )
    read = in_order(tasks, threads=THREADS, ahead=THREADS)
    for span in spans:
        pieces = [next(read) for member in whole.members if _is_in(member, span)]
        progress(sum(int(values.nnz) for _, _, values in pieces))
        if whole.fills:
            missing = (each.of_rows(span) for each in whole.missing)
            pieces += [_fill_piece(whole, each) for each in missing if each.count]
        growing.append(span.size, pieces)
    return growing.finished()


Piece: TypeAlias = tuple[Positions, Positions, Any]
"""Rows and columns of a block, and their values as CSR."""


def _csr_piece(whole: Whole, member: Member, span: Span) -> Piece:
    """Read what a data set has of a block, in the dtype of the result."""
    block = member.of_rows(span)
    if block is None:
        raise TypeError(f"{member.name} has none of the rows {span}")
    values = block.part.values()
    if not sp.issparse(values):
        values = sp.csr_array(values)
    return block.rows, block.columns, values.astype(whole.dtype, copy=False)


def _fill_piece(whole: Whole, missing: Missing) -> Piece:
    """Return the elements that are missing, as CSR."""
    n_rows, n_columns = missing.rows.size, missing.columns.size
    data = np.full(missing.count, whole.fill, whole.dtype)
    indices = np.tile(np.arange(n_columns), n_rows)
    indptr = np.arange(n_rows + 1) * n_columns
    return missing.rows, missing.columns, sp.csr_array((data, indices, indptr), (n_rows, n_columns))


class _GrowingCsr:
    """A CSR array to which rows are appended."""

    def __init__(self, whole: Whole, count: ElementCount, index_dtype: np.dtype[Any]) -> None:
        size = count.count if count.is_exact else 0
        self._shape = whole.shape
        self._data = np.empty(size, whole.dtype)
        self._indices = np.empty(size, index_dtype)
        self._indptr = np.zeros(whole.shape[0] + 1, index_dtype)
        self._row = self._end = 0
        self._is_sorted = True

    def append(self, n_rows: int, pieces: list[Piece]) -> None:
        """Add rows, of pieces that have some of their rows and of their columns each."""
        counts = np.zeros(n_rows, np.int64)
        for rows, _, piece in pieces:
            counts[rows] += np.diff(piece.indptr)
        ends = self._end + np.cumsum(counts)
        end = int(ends[-1]) if n_rows else self._end
        self._reserve(end)
        self._indptr[self._row + 1 : self._row + n_rows + 1] = ends
        free = ends - counts
        for rows, columns, piece in pieces:
            self._place(free, rows, columns, piece)
        self._row += n_rows
        self._end = end

    def _reserve(self, size: int) -> None:
        if size > self._data.size:
            # In place: no view of either was handed out.
            self._data.resize(size, refcheck=False)
            self._indices.resize(size, refcheck=False)

    def _place(self, free: Positions, rows: Positions, columns: Positions, piece: Any) -> None:
        """Put the elements of a piece behind those that its rows have already."""
        counts = np.diff(piece.indptr)
        starts = free[rows]
        shifts = starts - piece.indptr[:-1]
        free[rows] += counts
        if piece.nnz == 0:
            return
        indices = columns[piece.indices]
        first = int(starts[0])
        if bool(np.all(shifts == first)):  # one after the other, as they are
            places: Any = slice(first, first + int(piece.nnz))
        else:
            places = np.repeat(shifts, counts) + np.arange(int(piece.nnz))
        self._data[places] = piece.data
        self._indices[places] = indices

    def finished(self) -> Any:
        """Return the array; its indices are sorted."""
        self._data.resize(self._end, refcheck=False)
        self._indices.resize(self._end, refcheck=False)
        result: Any = sp.csr_array(self._shape, dtype=self._data.dtype)
        result.data, result.indices, result.indptr = self._data, self._indices, self._indptr
        result.sort_indices()
        return sp.csr_array(result)

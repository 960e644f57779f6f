"""The matrices of members in pieces of consecutive columns, as a result needs them.

A *piece* is a run of stored columns.  What is stored the other way round is first transposed into a
file without a name, so that memory does not grow with it.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from daf_storage import errors
from daf_storage._lazy import lazy_module
from daf_storage.base import AnyArray, Span
from daf_storage.concat._members import Alignment, Positions
from daf_storage.concat._promotion import converted
from daf_storage.data import StoredMatrix, ascend, column_blocks

if TYPE_CHECKING:
    import scipy.sparse as sp
else:
    sp = lazy_module("scipy.sparse")

_BLOCK_BYTES = 16 << 20
_BLOCK_ELEMENTS = 1 << 20

ReadSpan: TypeAlias = Callable[[Span], AnyArray]


@dataclass(frozen=True)
class SparseColumns:
    """The columns of a sparse matrix."""

    colptr: Positions
    """Where each begins, from 0."""
    rowval: ReadSpan
    """Reads row numbers, from 1."""
    nzval: ReadSpan | None
    """Reads values; None if all are true."""
    n_rows: int
    what: str


@dataclass(frozen=True)
class DenseColumns:
    """The columns of a dense matrix."""

    n_columns: int
    n_rows: int
    read: ReadSpan
    """Reads columns, an array with a row for each."""
    what: str


Columns: TypeAlias = SparseColumns | DenseColumns


@dataclass(frozen=True)
class Part:
    """What one member contributes to a matrix of the result."""

    columns: Columns | None
    """None if it has no such matrix: then all is the fill value."""
    rows: Alignment
    n_columns: int
    dtype: np.dtype[Any]
    """That of the result."""
    fill: Any = 0
    """What stands where the member has no row."""


def columns_of(stored: StoredMatrix, *, is_transposed: bool, folder: Path | None) -> Columns:
    """Return the stored columns of a matrix, or its stored rows as columns.

    Parameters
    ----------
    folder
        Where a large transpose is kept while it is needed; None for the system's folder.
    """
    n_rows, n_columns = stored.info.shape
    if not stored.info.is_sparse:
        array = stored.dense()
        if not is_transposed:
            return DenseColumns(n_columns, n_rows, array.read_rows, stored.what)
        everything = Span(0, n_columns)
        return DenseColumns(
            n_rows,
            n_columns,
            lambda span: array.read_spans([everything], within=span)[0].T,
            stored.what,
        )
    nzval = stored.entries("nzval").read_rows if stored.has_values() else None
    columns = SparseColumns(
        stored.colptr(), stored.entries("rowval").read_rows, nzval, n_rows, stored.what
    )
    return (
        _transposed(columns, stored.info.storage_type.dtype, folder) if is_transposed else columns
    )


def _transposed(columns: SparseColumns, dtype: np.dtype[Any], folder: Path | None) -> SparseColumns:
    """Return the rows of a matrix as columns, which lie in files that vanish with them."""
    nnz, n_columns = int(columns.colptr[-1]), len(columns.colptr) - 1
    counts = np.zeros(columns.n_rows + 1, np.int64)
    for span in column_blocks(columns.colptr):
        rows, _ = _rows_of(columns, span)
        counts[1:] += np.bincount(rows, minlength=columns.n_rows)
    colptr = np.cumsum(counts)
    out_rows = _scratch_array(nnz, np.dtype(np.int64 if n_columns >= 1 << 31 else np.int32), folder)
    out_values = None if columns.nzval is None else _scratch_array(nnz, dtype, folder)
    free = colptr[:-1].copy()
    for span in column_blocks(columns.colptr):
        rows, pointers = _rows_of(columns, span)
        shape = (columns.n_rows, span.size)
        order = sp.csc_array((np.arange(rows.size), rows, pointers), shape=shape).tocsr()
        each = np.diff(order.indptr).astype(np.int64)
        places = np.repeat(free - order.indptr[:-1], each) + np.arange(rows.size)
        out_rows[places] = order.indices + (1 + span.start)
        if columns.nzval is not None and out_values is not None:
            out_values[places] = columns.nzval(_elements(columns, span))[order.data]
        free += each
    return SparseColumns(
        colptr,
        lambda span: out_rows[span.slice],
        None if out_values is None else lambda span: out_values[span.slice],
        n_columns,
        columns.what,
    )


def _scratch_array(size: int, dtype: np.dtype[Any], folder: Path | None) -> AnyArray:
    if size * dtype.itemsize <= _BLOCK_BYTES:
        return np.empty(size, dtype)
    with tempfile.TemporaryFile(dir=folder) as file:  # without a name: it goes with its mapping
        file.truncate(size * dtype.itemsize)
        return np.memmap(file, dtype, "r+", shape=(size,))


def _elements(columns: SparseColumns, span: Span) -> Span:
    return Span(int(columns.colptr[span.start]), int(columns.colptr[span.stop]))


def _row_numbers(columns: SparseColumns, span: Span) -> tuple[AnyArray, Positions]:
    """Return the row numbers of some columns, from 1 and checked, and where each column begins."""
    rows = columns.rowval(_elements(columns, span))
    if rows.size and (int(rows.min()) < 1 or int(rows.max()) > columns.n_rows):
        raise errors.CorruptDataError(
            f"{columns.what}: rowval leaves the range 1 to {columns.n_rows:,} of its rows axis"
        )
    return rows, columns.colptr[span.start : span.stop + 1] - columns.colptr[span.start]


def _rows_of(columns: SparseColumns, span: Span) -> tuple[Positions, Positions]:
    """Return the row numbers of some columns, from 0, and where each column begins."""
    numbers, pointers = _row_numbers(columns, span)
    return numbers.astype(np.int64) - 1, pointers


class SparsePieces:
    """The elements of one member for a sparse matrix of the result, in pieces.

    They are counted first.  Row numbers and values follow together, or one after the other where
    each array has to be written from its beginning to its end, since it is packed.
    """

    def __init__(self, part: Part) -> None:
        self._part = part
        self._columns = part.columns
        self._fill_rows = part.rows.missing + 1 if part.fill else np.empty(0, np.int64)
        self._has_order = False
        places = part.rows.places
        self._numbers = None if places is None else np.concatenate([[0], places + 1])
        """For each row number of the member, from 1, that of the result; 0 for one left out."""

    @property
    def has_values(self) -> bool:
        """Whether there are values, rather than all being true."""
        is_all_true = isinstance(self._columns, SparseColumns) and self._columns.nzval is None
        return not is_all_true or self._fill_rows.size > 0

    def counts(self) -> Positions:
        """Return how many elements each column has."""
        if isinstance(self._columns, SparseColumns):
            if self._part.rows.is_complete:
                return np.diff(self._columns.colptr) + self._fill_rows.size
            spans = column_blocks(self._columns.colptr)
            counts = [self._kept_counts(self._columns, span) for span in spans]
            return np.concatenate([np.empty(0, np.int64), *counts])
        if self._columns is None and not self._fill_rows.size:
            return np.zeros(self._part.n_columns, np.int64)
        counts = [np.count_nonzero(block, axis=1) for block in dense_pieces(self._part)]
        return np.concatenate([np.empty(0, np.int64), *counts]).astype(np.int64)

    def elements(self) -> Iterator[tuple[AnyArray, AnyArray]]:
        """Yield row numbers, from 1 and ascending within each column, and their values."""
        if isinstance(self._columns, SparseColumns):
            for span in column_blocks(self._columns.colptr):
                rows, _, chosen = self._order(self._columns, span)
                yield rows, self._values(self._columns, span, chosen)
        else:
            for block in self._nonzero_pieces():
                columns, rows = np.nonzero(block)
                yield rows + 1, block[columns, rows]

    def rows(self) -> Iterator[AnyArray]:
        """Yield the row numbers alone."""
        if isinstance(self._columns, SparseColumns):
            for span in column_blocks(self._columns.colptr):
                yield self._order(self._columns, span)[0]
        else:
            for block in self._nonzero_pieces():
                yield np.nonzero(block)[1] + 1

    def values(self) -> Iterator[AnyArray]:
        """Yield the values alone, after the row numbers."""
        if isinstance(self._columns, SparseColumns):
            changes = self._has_order or self._fill_rows.size or not self._part.rows.is_complete
            for span in column_blocks(self._columns.colptr):
                chosen = self._order(self._columns, span)[2] if changes else slice(None)
                yield self._values(self._columns, span, chosen)
        else:
            for block in self._nonzero_pieces():
                yield block[block != 0]

    def _nonzero_pieces(self) -> Iterator[AnyArray]:
        if self._columns is not None or self._fill_rows.size:
            yield from dense_pieces(self._part)

    def _values(self, columns: SparseColumns, span: Span, chosen: Any) -> AnyArray:
        elements = _elements(columns, span)
        if columns.nzval is None:
            values: AnyArray = np.ones(elements.size, self._part.dtype)
        else:
            values = columns.nzval(elements)
            values = converted(values, self._part.dtype, what=columns.what)
        if self._fill_rows.size:
            count = self._fill_rows.size * span.size
            values = np.concatenate([values, np.full(count, self._part.fill, self._part.dtype)])
        return values if isinstance(chosen, slice) else np.take(values, chosen)

    def _kept_counts(self, columns: SparseColumns, span: Span) -> Positions:
        rows, pointers = _row_numbers(columns, span)
        rows = rows if self._numbers is None else self._numbers[rows]
        counts: Positions = np.diff(np.searchsorted(np.flatnonzero(rows), pointers))
        return counts + self._fill_rows.size

    def _order(self, columns: SparseColumns, span: Span) -> tuple[AnyArray, Positions, Any]:
        """Return row numbers of the result, how many each column has, and where they come from."""
        rows, pointers = _row_numbers(columns, span)
        chosen: Any = slice(None)
        if self._numbers is not None:
            rows = self._numbers[rows]
        if not self._part.rows.is_complete:
            chosen = np.flatnonzero(rows)
            rows = rows[chosen]
            pointers = np.searchsorted(chosen, pointers)
        if self._fill_rows.size:
            n_stored = _elements(columns, span).size
            return self._with_fill(rows, pointers, chosen, n_stored, columns.what)
        if not ascend(rows, pointers):
            self._has_order = True
            rows, order = _sorted(rows, pointers, self._part.rows.n_entries, columns.what)
            chosen = order if isinstance(chosen, slice) else chosen[order]
        return rows, np.diff(pointers), chosen

    def _with_fill(
        self, rows: AnyArray, pointers: Positions, chosen: Any, n_stored: int, what: str
    ) -> tuple[AnyArray, Positions, Any]:
        """Add an element to each column for each row that the member lacks."""
        n_fill, n_columns = self._fill_rows.size, pointers.size - 1
        origins = np.arange(n_stored) if isinstance(chosen, slice) else chosen
        counts = np.diff(pointers)
        numbers = np.arange(n_columns)
        all_columns = np.concatenate([np.repeat(numbers, counts), np.repeat(numbers, n_fill)])
        all_rows = np.concatenate([rows, np.tile(self._fill_rows, n_columns)])
        all_origins = np.concatenate([origins, n_stored + np.arange(n_fill * n_columns)])
        order = np.lexsort((all_rows, all_columns))
        _refuse_repeated(all_rows[order], pointers + np.arange(n_columns + 1) * n_fill, what)
        return all_rows[order], counts + n_fill, all_origins[order]


def _sorted(
    rows: AnyArray, pointers: Positions, n_rows: int, what: str
) -> tuple[AnyArray, Positions]:
    """Return row numbers that ascend within each column, and where they come from."""
    shape = (pointers.size - 1, n_rows + 1)
    block = sp.csr_array((np.arange(rows.size), rows, pointers), shape=shape).tocsc().tocsr()
    ordered = block.indices  # turned round twice: a counting sort
    _refuse_repeated(ordered, pointers, what)
    return ordered, block.data


def _refuse_repeated(rows: AnyArray, pointers: Positions, what: str) -> None:
    """Raise if row numbers in order have one twice within a column."""
    if not ascend(rows, pointers):
        raise errors.CorruptDataError(
            f"{what}: an element is stored twice; an import of an AnnData adds them up, so "
            "import it (daf import) and concatenate that"
        )


def dense_pieces(part: Part) -> Iterator[AnyArray]:
    """Yield what one member contributes to a dense matrix: a row for each column of the matrix."""
    n_rows = max(part.rows.n_entries, 1 if part.columns is None else part.columns.n_rows, 1)
    step = max(_BLOCK_BYTES // (n_rows * part.dtype.itemsize), 1)
    for start in range(0, part.n_columns, step):
        span = Span(start, min(start + step, part.n_columns))
        if isinstance(part.columns, DenseColumns):
            yield _placed(part, part.columns, span)
        else:
            yield _expanded(part, part.columns, span)


def _placed(part: Part, columns: DenseColumns, span: Span) -> AnyArray:
    values = converted(columns.read(span), part.dtype, what=columns.what)
    if part.rows.places is None:
        return values
    block = np.full((span.size, part.rows.n_entries), part.fill, part.dtype)
    is_kept = part.rows.places >= 0
    block[:, part.rows.places[is_kept]] = values[:, is_kept]
    return block


def _expanded(part: Part, columns: SparseColumns | None, span: Span) -> AnyArray:
    block = np.zeros((span.size, part.rows.n_entries), part.dtype)
    if part.fill:
        block[:, part.rows.missing] = part.fill
    if columns is None:
        return block
    rows, pointers = _rows_of(columns, span)
    if columns.nzval is None:
        values: AnyArray = np.ones(rows.size, part.dtype)
    else:
        values = converted(columns.nzval(_elements(columns, span)), part.dtype, what=columns.what)
    if not ascend(rows, pointers):
        _sorted(rows + 1, pointers, columns.n_rows, columns.what)
    places = np.repeat(np.arange(span.size), np.diff(pointers))
    if part.rows.places is not None:
        rows = part.rows.places[rows]
        is_kept = rows >= 0
        rows, places, values = rows[is_kept], places[is_kept], values[is_kept]
    block[places, rows] = values
    return block

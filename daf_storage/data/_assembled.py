"""Matrices that are assembled of parts of others, side by side and in blocks of columns.

A copy along other axes, a concatenation and a reordering are one thing: chosen columns of some
matrices, one after the other, whose rows move.  Columns in another order are shown by
`SubsetArray`; what is stored the other way round, or in chunks that would be decoded again and
again, is first put into a file without a name, so that memory does not grow with it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import numpy as np
import pyarrow as pa

from daf_storage import errors
from daf_storage._lazy import lazy_module
from daf_storage.base import AnyArray, Span, StorageType
from daf_storage.data._blocks import block_height
from daf_storage.data._casting import stored_numbers
from daf_storage.data._encoding import (
    EmptySparse,
    decoded_array,
    fill_transpose,
    scratch_array,
    write_text,
)
from daf_storage.data._entry_selection import EntrySelection, Positions, RunPicks
from daf_storage.data._ordered import ascend
from daf_storage.data._stored_matrix import StoredMatrix
from daf_storage.data._subset_arrays import HeldArray, SubsetArray
from daf_storage.data._transpose import DEFAULT_MEMORY_BYTES, column_blocks
from daf_storage.trees import StoredArray, TreeTransaction

if TYPE_CHECKING:
    import pyarrow.compute as pc
    import scipy.sparse as sp
else:
    pc = lazy_module("pyarrow.compute")
    sp = lazy_module("scipy.sparse")

_HELD_PER_ELEMENT: Final = 96
"""What an element takes on its way, as numbers of rows, columns and places."""
_NONE: Final = np.empty(0, np.int64)


@dataclass(frozen=True, eq=False)
class Alignment:
    """Where the entries of an axis of a source are on an axis of a result."""

    places: Positions | None
    """The position in the result for each entry, -1 for one that is left out; None if each entry
    has the same position in both, and there are no others."""
    n_entries: int
    """How many entries the axis has in the result."""

    @cached_property
    def is_complete(self) -> bool:
        """Whether no entry of the source is left out."""
        return self.places is None or bool((self.places >= 0).all())

    @cached_property
    def missing(self) -> Positions:
        """The positions of the result at which the source has no entry, ascending."""
        return np.flatnonzero(self.sources < 0)

    @cached_property
    def sources(self) -> Positions:
        """For each position of the result that of the source, -1 where it has no entry."""
        if self.places is None:
            return np.arange(self.n_entries)
        sources = np.full(self.n_entries, -1, np.int64)
        is_kept = self.places >= 0
        sources[self.places[is_kept]] = np.flatnonzero(is_kept)
        return sources

    @classmethod
    def absent(cls, n_entries: int) -> Alignment:
        """Return that of a source that has no such axis."""
        return cls(_NONE, n_entries)

    @classmethod
    def block(cls, span: Span, n_entries: int) -> Alignment:
        """Return that of consecutive entries of the result."""
        if span == Span(0, n_entries):
            return cls(None, n_entries)
        return cls(np.arange(span.start, span.stop), n_entries)

    @classmethod
    def reordered(cls, order: Positions | None, n_entries: int) -> Alignment:
        """Return that of a permutation, which says what comes to each position; None for none."""
        return cls(None if order is None else np.argsort(order), n_entries)


@dataclass(frozen=True, eq=False)
class Part:
    """What one stored matrix contributes: consecutive columns of the result."""

    stored: StoredMatrix | None
    """None if there is no such matrix: then all is the fill value."""
    rows: Alignment
    n_columns: int
    kind: StorageType
    """That of the result."""
    fill: Any = 0
    """What stands where the source has no row, or no column."""
    is_transposed: bool = False
    """Whether the stored columns are its rows here."""
    chosen: Positions | None = None
    """Which of its columns they are, -1 for one that it lacks; None for all, in their order."""
    folder: Path | None = None
    """Where large arrays are kept while they are needed; None for the system's folder."""
    memory_bytes: int = DEFAULT_MEMORY_BYTES
    """What may be held at a time, about."""

    @cached_property
    def columns(self) -> _Columns | None:
        """The columns, to be read in their order."""
        if self.stored is None or (self.chosen is not None and not (self.chosen >= 0).any()):
            return None
        sparse = self.stored.info.is_sparse
        return _sparse_columns(self, self.stored) if sparse else _dense_columns(self, self.stored)

    @property
    def missing_rows(self) -> Positions:
        """The rows of the result in which all is the fill value."""
        return np.arange(self.rows.n_entries) if self.columns is None else self.rows.missing


@dataclass(frozen=True, eq=False)
class _SparseColumns:
    """The columns of a sparse matrix."""

    colptr: AnyArray
    """Where each begins, from 0."""
    rowval: StoredArray
    """Row numbers, from 1."""
    nzval: StoredArray | None
    """Values; None if all are true."""
    n_rows: int
    what: str
    is_lacking: AnyArray | None = None
    """Which columns the source lacks; None if none."""

    def elements(self, span: Span) -> Span:
        return Span(int(self.colptr[span.start]), int(self.colptr[span.stop]))

    def rows(self, span: Span) -> tuple[AnyArray, Positions]:
        """Return the row numbers of some columns, from 1 and checked, and where each begins."""
        rows = self.rowval.read_rows(self.elements(span))
        if rows.size and (int(rows.min()) < 1 or int(rows.max()) > self.n_rows):
            raise errors.CorruptDataError(
                f"{self.what}: rowval leaves the range 1 to {self.n_rows:,} of its rows axis"
            )
        return rows, self.colptr[span.start : span.stop + 1] - self.colptr[span.start]

    def values(self, span: Span) -> AnyArray:
        elements = self.elements(span)
        return (
            np.ones(elements.size, bool) if self.nzval is None else self.nzval.read_rows(elements)
        )


@dataclass(frozen=True, eq=False)
class _DenseColumns:
    """The columns of a dense matrix."""

    n_rows: int
    read: Callable[[Span], AnyArray]
    """Reads columns, an array with a row for each."""
    what: str
    is_lacking: AnyArray | None = None
    """Which columns the source lacks; None if none."""


_Columns: TypeAlias = _SparseColumns | _DenseColumns


def _dense_columns(part: Part, stored: StoredMatrix) -> _DenseColumns:
    array, chosen, lacking = stored.dense(), part.chosen, None
    rows, columns = stored.info.shape[::-1] if part.is_transposed else stored.info.shape
    if chosen is not None:
        lacking = chosen < 0
        picks = EntrySelection(np.maximum(chosen, 0), columns)
        if not picks.is_ascending and not part.is_transposed:
            array = _mapped(array, part, picks.size * rows * part.kind.dtype.itemsize)
        array = SubsetArray(array, *((None, picks) if part.is_transposed else (picks, None)))
    if not part.is_transposed:
        return _DenseColumns(rows, array.read_rows, stored.what, lacking)
    everything = Span(0, rows)
    return _DenseColumns(
        rows, lambda span: array.read_spans([everything], within=span)[0].T, stored.what, lacking
    )


def _sparse_columns(part: Part, stored: StoredMatrix) -> _SparseColumns:
    columns = (
        _transposed(part, stored)
        if part.is_transposed
        else _SparseColumns(
            stored.colptr(),
            stored.entries("rowval"),
            stored.entries("nzval") if stored.has_values() else None,
            stored.info.shape[0],
            stored.what,
        )
    )
    if part.chosen is None:
        return columns
    is_there = part.chosen >= 0
    starts, counts = columns.colptr[:-1], np.append(np.diff(columns.colptr), 0)[part.chosen]
    picks = RunPicks(np.append(starts, 0)[part.chosen], counts)
    arrays = [columns.rowval, *([] if columns.nzval is None else [columns.nzval])]
    if not bool((np.diff(part.chosen[is_there]) > 0).all()):
        arrays = [_mapped(array, part, picks.size * _HELD_PER_ELEMENT) for array in arrays]
    shown = [SubsetArray(array, picks) for array in arrays]
    colptr = np.concatenate([[0], np.cumsum(counts)])
    nzval = shown[1] if columns.nzval is not None else None
    return _SparseColumns(colptr, shown[0], nzval, columns.n_rows, columns.what, ~is_there)


def _mapped(array: StoredArray, part: Part, used_bytes: int) -> StoredArray:
    """Return an array any part of which is read at once: chunks are decoded, each once.

    Parameters
    ----------
    used_bytes
        What is used of it: within a block, each chunk is decoded once anyway.
    """
    if array.info.is_mappable or used_bytes <= block_height(1, part.memory_bytes):
        return array
    return HeldArray(decoded_array(array, part.memory_bytes, part.folder))


def _transposed(part: Part, stored: StoredMatrix) -> _SparseColumns:
    """Return the rows of a matrix as columns, which lie in files that vanish with them."""
    (n_rows, n_columns), nnz = stored.info.shape, int(stored.colptr()[-1])
    index = StorageType.INT64 if n_columns >= 1 << 31 else StorageType.INT32
    has_values = stored.has_values()
    out = EmptySparse(
        colptr=np.zeros(n_rows + 1, np.int64),
        rowval=scratch_array(nnz, index, part.folder),
        nzval=scratch_array(nnz, stored.info.storage_type, part.folder),
    )
    fill_transpose(stored, out, progress=lambda _: None, memory_bytes=part.memory_bytes)
    nzval = HeldArray(out.nzval) if has_values else None
    return _SparseColumns(out.colptr - 1, HeldArray(out.rowval), nzval, n_columns, stored.what)


class _SparsePieces:
    """The elements of one part for a sparse matrix of the result, in pieces.

    They are counted first.  Row numbers and values follow together, or one after the other where
    each array has to be written from its beginning to its end, since it is packed.
    """

    def __init__(self, part: Part) -> None:
        self._part = part
        self._columns = part.columns
        self._fill_rows = part.missing_rows + 1 if part.fill else _NONE
        self._has_order = False
        places = part.rows.places
        self._numbers = None if places is None else np.concatenate([[0], places + 1])
        """For each row number of the source, from 1, that of the result; 0 for one left out."""

    @property
    def has_values(self) -> bool:
        """Whether there are values, rather than all being true."""
        is_all_true = isinstance(self._columns, _SparseColumns) and self._columns.nzval is None
        return not is_all_true or self._fill_rows.size > 0

    def counts(self) -> Positions:
        """Return how many elements each column has."""
        columns = self._columns
        if isinstance(columns, _SparseColumns):
            if self._part.rows.is_complete:
                return np.diff(columns.colptr) + self._fill_rows.size
            counts = [self._kept_counts(columns, span) for span in self._spans(columns)]
        else:
            counts = [np.count_nonzero(block, axis=1) for block in self._nonzero_pieces()]
            if columns is None and not counts:
                return np.zeros(self._part.n_columns, np.int64)
        return np.concatenate([_NONE, *counts]).astype(np.int64)

    def elements(
        self, *, rows: bool = True, values: bool = True
    ) -> Iterator[tuple[AnyArray, AnyArray]]:
        """Yield row numbers, from 1 and ascending within each column, and their values.

        The values alone come after the row numbers alone.
        """
        columns = self._columns
        if not isinstance(columns, _SparseColumns):
            for block in self._nonzero_pieces():
                of_columns, of_rows = np.nonzero(block)
                yield of_rows + 1, block[of_columns, of_rows]
            return
        is_moved = self._fill_rows.size or not self._part.rows.is_complete
        for span in self._spans(columns):
            numbers, chosen = _NONE, slice(None)
            if rows or is_moved or self._has_order:
                numbers, chosen = self._order(columns, span)
            yield numbers, self._values(columns, span, chosen) if values else _NONE

    def _spans(self, columns: _SparseColumns) -> Iterator[Span]:
        most = block_height(_HELD_PER_ELEMENT, self._part.memory_bytes)
        return column_blocks(columns.colptr, max_elements=most)

    def _nonzero_pieces(self) -> Iterator[AnyArray]:
        if self._columns is not None or self._fill_rows.size:
            yield from _dense_pieces(self._part)

    def _values(self, columns: _SparseColumns, span: Span, chosen: Any) -> AnyArray:
        values = columns.values(span)
        if self._fill_rows.size:
            values = _as_result(values, self._part, columns.what)
            fill = np.full(self._fill_rows.size * span.size, self._part.fill, values.dtype)
            values = np.concatenate([values, fill])
        values = values if isinstance(chosen, slice) else np.take(values, chosen)
        return _as_result(values, self._part, columns.what)

    def _kept_counts(self, columns: _SparseColumns, span: Span) -> Positions:
        rows, pointers = columns.rows(span)
        rows = rows if self._numbers is None else self._numbers[rows]
        counts: Positions = np.diff(np.searchsorted(np.flatnonzero(rows), pointers))
        return counts + self._fill_rows.size

    def _order(self, columns: _SparseColumns, span: Span) -> tuple[AnyArray, Any]:
        """Return row numbers of the result, and which elements they are of."""
        rows, pointers = columns.rows(span)
        chosen: Any = slice(None)
        if self._numbers is not None:
            rows = self._numbers[rows]
        if not self._part.rows.is_complete:
            chosen = np.flatnonzero(rows)
            rows = rows[chosen]
            pointers = np.searchsorted(chosen, pointers)
        if self._fill_rows.size:
            n_stored = columns.elements(span).size
            return self._with_fill(rows, pointers, chosen, n_stored, columns.what)
        if not ascend(rows, pointers):
            self._has_order = True
            rows, order = _sorted(rows, pointers, self._part.rows.n_entries, columns.what)
            chosen = order if isinstance(chosen, slice) else chosen[order]
        return rows, chosen

    def _with_fill(
        self, rows: AnyArray, pointers: Positions, chosen: Any, n_stored: int, what: str
    ) -> tuple[AnyArray, Any]:
        """Add an element to each column for each row that the source lacks."""
        n_fill, n_columns = self._fill_rows.size, pointers.size - 1
        origins = np.arange(n_stored) if isinstance(chosen, slice) else chosen
        numbers = np.arange(n_columns)
        all_columns = np.concatenate(
            [np.repeat(numbers, np.diff(pointers)), np.repeat(numbers, n_fill)]
        )
        all_rows = np.concatenate([rows, np.tile(self._fill_rows, n_columns)])
        all_origins = np.concatenate([origins, n_stored + np.arange(n_fill * n_columns)])
        order = np.lexsort((all_rows, all_columns))
        _refuse_repeated(all_rows[order], pointers + np.arange(n_columns + 1) * n_fill, what)
        return all_rows[order], all_origins[order]


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
            f"{what}: an element is stored twice; an import of an AnnData (daf import) adds such "
            "elements up, so import it and use that"
        )


def _dense_pieces(part: Part) -> Iterator[AnyArray]:
    """Yield what one part contributes to a dense matrix: a row for each column of the matrix."""
    columns, n_rows = part.columns, part.rows.n_entries
    row_bytes = max(n_rows, 0 if columns is None else columns.n_rows) * part.kind.dtype.itemsize
    step = block_height(row_bytes, part.memory_bytes)
    for start in range(0, part.n_columns, step):
        span = Span(start, min(start + step, part.n_columns))
        if isinstance(columns, _DenseColumns):
            block = _placed(part, columns, span)
        else:
            block = np.zeros((span.size, n_rows), part.kind.dtype)
            if columns is not None:
                _expand(part, columns, span, block)
            if part.fill:
                block[:, part.missing_rows] = part.fill
        if columns is not None and columns.is_lacking is not None:
            is_lacking = columns.is_lacking[span.slice]
            if is_lacking.any():
                block[is_lacking] = part.fill
        yield block


def _as_result(values: AnyArray, part: Part, what: str) -> AnyArray:
    """Return what goes into the result in its type; errors name the value, not its place here."""
    return stored_numbers(values, part.kind.dtype, what=what, place=lambda _: "")


def _placed(part: Part, columns: _DenseColumns, span: Span) -> AnyArray:
    values = columns.read(span)
    is_kept_as_it_is = part.rows.places is None
    if is_kept_as_it_is:
        values = _as_result(values, part, columns.what)
        return values if columns.is_lacking is None else values.copy()
    sources = part.rows.sources
    if part.rows.missing.size == 0:
        return np.ascontiguousarray(_as_result(values[:, sources], part, columns.what))
    block = np.full((span.size, part.rows.n_entries), part.fill, part.kind.dtype)
    places = np.flatnonzero(sources >= 0)
    block[:, places] = _as_result(values[:, sources[places]], part, columns.what)
    return block


def _expand(part: Part, columns: _SparseColumns, span: Span, block: AnyArray) -> None:
    """Put the elements of some columns into an array of zeros."""
    rows, pointers = columns.rows(span)
    values = columns.values(span)
    if not ascend(rows, pointers):
        _sorted(rows, pointers, columns.n_rows, columns.what)
    rows = rows.astype(np.int64) - 1
    places = np.repeat(np.arange(span.size), np.diff(pointers))
    if part.rows.places is not None:
        rows = part.rows.places[rows]
        is_kept = rows >= 0
        rows, places, values = rows[is_kept], places[is_kept], values[is_kept]
    block[places, rows] = _as_result(values, part, columns.what)


# Writing


def write_assembled(
    changes: TreeTransaction,
    path: str,
    parts: Sequence[Part],
    *,
    is_sparse: bool,
    kinds: tuple[StorageType, StorageType] | None = None,
    add: Callable[[int], None] = lambda _: None,
) -> None:
    """Prepare a matrix that consists of parts, of one kind, one after the other.

    Parameters
    ----------
    kinds
        The types of ``colptr`` and of ``rowval``; by default the smallest usual one.
    add
        Called after each block with its bytes.
    """
    kind, n_rows = parts[0].kind, parts[0].rows.n_entries
    shape = (sum(part.n_columns for part in parts), n_rows)
    if kind.is_string:
        write_text(changes, path, pa.concat_arrays([_strings_of(part) for part in parts]), shape)
    elif is_sparse:
        _write_sparse(changes, path, parts, kinds, add)
    else:
        blocks = (block for part in parts for block in _dense_pieces(part))
        changes.write_blocks(path, shape, kind, _counted(blocks, add))


def _write_sparse(
    changes: TreeTransaction,
    path: str,
    parts: Sequence[Part],
    kinds: tuple[StorageType, StorageType] | None,
    add: Callable[[int], None],
) -> None:
    kind, n_rows = parts[0].kind, parts[0].rows.n_entries
    pieces = [_SparsePieces(part) for part in parts]
    colptr = np.concatenate([[1], *(piece.counts() for piece in pieces)]).astype(np.int64)
    np.cumsum(colptr, out=colptr)
    nnz = int(colptr[-1]) - 1
    fits = max(nnz + 1, n_rows) <= np.iinfo(np.uint32).max
    usual = StorageType.UINT32 if fits else StorageType.UINT64
    pointer, index = (usual, usual) if kinds is None else kinds
    changes.create_group(path)
    changes.write_array(f"{path}/colptr", colptr.astype(pointer.dtype))
    has_values = kind is not StorageType.BOOL or any(piece.has_values for piece in pieces)
    if not has_values or changes.packs((nnz,), index) or changes.packs((nnz,), kind):
        rows = (r.astype(index.dtype) for p in pieces for r, _ in p.elements(values=False))
        changes.write_blocks(f"{path}/rowval", (nnz,), index, _counted(rows, add))
        if has_values:
            values = (v for piece in pieces for _, v in piece.elements(rows=False))
            changes.write_blocks(f"{path}/nzval", (nnz,), kind, _counted(values, add))
        return
    rowval = changes.reserve_array(f"{path}/rowval", (nnz,), index)
    nzval = changes.reserve_array(f"{path}/nzval", (nnz,), kind)
    start = 0
    for numbers, found in (element for piece in pieces for element in piece.elements()):
        stop = start + numbers.size
        rowval[start:stop], nzval[start:stop] = numbers, found
        add((stop - start) * (rowval.itemsize + nzval.itemsize))
        start = stop


def _counted(blocks: Iterator[AnyArray], add: Callable[[int], None]) -> Iterator[AnyArray]:
    for block in blocks:
        yield block
        add(block.nbytes)


def _strings_of(part: Part) -> pa.Array:
    """Return the strings of a part, of which all are in memory, column after column."""
    fill = pa.scalar(part.fill or "", pa.large_string())
    rows = part.rows.sources
    chosen = np.arange(part.n_columns) if part.chosen is None else part.chosen
    if part.stored is None or not part.stored.dense().info.size:
        return pa.repeat(fill, part.n_columns * rows.size)
    array = part.stored.dense()
    places = np.arange(array.info.size).reshape(array.info.shape)
    grid = (places.T if part.is_transposed else places)[np.ix_(chosen, rows)]
    is_missing = (chosen < 0)[:, None] | (rows < 0)
    taken = pa.array(grid.reshape(-1), mask=is_missing.reshape(-1))
    return pc.fill_null(array.read_strings().cast(pa.large_string()).take(taken), fill)

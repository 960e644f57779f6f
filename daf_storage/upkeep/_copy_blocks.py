"""Matrices along the axes of another data set, copied in blocks.

A block is a range of stored columns.  What is held is a block or two, and of a sparse matrix a few
numbers for each row and column.  Opens nothing.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

import numpy as np

from daf_storage import errors
from daf_storage.base import AnyArray, IfExists, Packing, Span, StorageType
from daf_storage.data import (
    DafReader,
    DafWriter,
    EmptySparse,
    StoredMatrix,
    column_blocks,
    matrix_property,
    ordered,
)
from daf_storage.trees import StoredArray
from daf_storage.upkeep._alignment import Alignment, filled
from daf_storage.upkeep._blocks import block_height, copy_array

MatrixKey: TypeAlias = tuple[str, str, str]
"""Rows axis, columns axis and name."""

_HELD_PER_ELEMENT: Final = 96
"""What an element takes on its way, as numbers of rows, columns and places."""


@dataclass(frozen=True, slots=True)
class BlockOptions:
    """How matrices are copied in blocks."""

    if_exists: IfExists
    """What becomes of a matrix that is there."""
    packed: bool | Packing | None
    """Whether to pack it; None leaves that to the destination."""
    memory_bytes: int
    """What may be held at a time, about."""


def can_copy_in_blocks(
    stored: StoredMatrix, rows: Alignment, columns: Alignment, empty: Any
) -> bool:
    """Return whether a matrix can be copied in blocks.

    As it is stored, always.  Along other entries neither strings, nor Bool, nor what is
    stored by rows, nor a matrix that becomes sparse, or dense; nor one that is stored in chunks,
    if its columns are in another order, since each chunk would be decoded many times.
    """
    if rows.is_identity and columns.is_identity:
        return True
    info = stored.info
    if info.storage_type.is_string or info.storage_type is StorageType.BOOL or stored.attributes:
        return False
    is_embedded = rows.first_missing is not None or columns.first_missing is not None
    if is_embedded and bool(empty == 0) is not info.is_sparse:
        return False
    if info.is_sparse:
        return True
    is_ascending = bool((np.diff(columns.positions) > 0).all())
    return is_ascending or stored.dense().info.chunks[0] >= info.shape[1]


def copy_in_blocks(
    source: DafReader,
    destination: DafWriter,
    key: MatrixKey,
    rows: Alignment,
    columns: Alignment,
    empty: Any,
    options: BlockOptions,
) -> None:
    """Copy a matrix, in the orientations that the source has, if `can_copy_in_blocks` says so."""
    rows_axis, columns_axis, name = key
    flipped = (columns_axis, rows_axis, name)
    has_both = rows_axis != columns_axis and source.has_matrix(*flipped, relayout=False)
    stored = ordered(source.open_matrix(*key))
    if rows.is_identity and columns.is_identity:
        _copy_as_stored(destination, key, stored, options, removes_flipped=True)
        if has_both:
            other = ordered(source.open_matrix(*flipped))
            _copy_as_stored(destination, flipped, other, options, removes_flipped=False)
        return
    if stored.info.is_sparse:
        _copy_sparse(destination, key, stored, rows, columns, options)
    else:
        _copy_dense(destination, key, stored, rows, columns, empty, options)
    if has_both:
        destination.relayout_matrix(
            *key,
            if_exists=options.if_exists,
            packed=options.packed,
            memory_bytes=options.memory_bytes,
        )


def _copy_as_stored(
    destination: DafWriter,
    key: MatrixKey,
    stored: StoredMatrix,
    options: BlockOptions,
    *,
    removes_flipped: bool,
) -> None:
    with matrix_property(
        destination,
        *key,
        if_exists=options.if_exists,
        packed=options.packed,
        removes_flipped=removes_flipped,
    ) as (path, changes):
        changes.annotate(path, stored.attributes)
        parts = stored.arrays()
        if "" not in parts:
            changes.create_group(path)
        for part, array in parts.items():
            place = f"{path}/{part}" if part else path
            copy_array(changes, place, array, options.memory_bytes, lambda _: None)


def _copy_dense(
    destination: DafWriter,
    key: MatrixKey,
    stored: StoredMatrix,
    rows: Alignment,
    columns: Alignment,
    empty: Any,
    options: BlockOptions,
) -> None:
    array, kind = stored.dense(), stored.info.storage_type
    lacking = columns if rows.first_missing is None else rows
    value = filled((1,), kind.dtype, lacking, empty, stored.what)[0]
    shape = columns.taken.size, rows.taken.size
    longest = max(rows.taken.size, rows.source_length, 1)
    height = block_height(longest * kind.dtype.itemsize, options.memory_bytes)

    def blocks() -> Iterator[AnyArray]:
        places, positions = rows.places, rows.positions
        for start in range(0, shape[0], height):
            taken = columns.taken[start : start + height]
            block = np.full((taken.size, shape[1]), value, kind.dtype)
            for place, column in _columns(array, taken, height):
                block[place, places] = column[positions]
            yield block

    with matrix_property(destination, *key, if_exists=options.if_exists, packed=options.packed) as (
        path,
        changes,
    ):
        changes.write_blocks(path, shape, kind, blocks())


def _columns(array: StoredArray, taken: AnyArray, height: int) -> Iterator[tuple[int, AnyArray]]:
    """Yield columns of a dense matrix, with their places: those that are not -1.

    Of one that is cut into chunks each chunk is decoded once; its columns rise.
    """
    places = np.flatnonzero(taken >= 0)
    if not places.size:
        return
    wanted = taken[places]
    chunk, length = max(array.info.chunks[0], 1), array.info.shape[0]
    if chunk >= length:
        for place, position in zip(places, wanted, strict=True):
            yield int(place), array.read_rows(Span(int(position), int(position) + 1))[0]
        return
    step = max(height // chunk, 1) * chunk
    for start in range(int(wanted[0]) // chunk * chunk, int(wanted[-1]) + 1, step):
        stop = min(start + step, length)
        first, last = np.searchsorted(wanted, [start, stop])
        if first == last:
            continue
        block = array.read_rows(Span(start, stop))
        for n in range(int(first), int(last)):
            yield int(places[n]), block[int(wanted[n]) - start]


def _copy_sparse(
    destination: DafWriter,
    key: MatrixKey,
    stored: StoredMatrix,
    rows: Alignment,
    columns: Alignment,
    options: BlockOptions,
) -> None:
    most = block_height(_HELD_PER_ELEMENT, options.memory_bytes)
    elements = _Elements(stored, rows.moved, columns.moved, most)
    counts = elements.counts()
    colptr = np.zeros(columns.taken.size + 1, np.int64)
    np.cumsum(np.append(counts, 0)[columns.taken], out=colptr[1:])  # of -1, the last
    with destination.empty_sparse_matrix(
        *key,
        stored.info.storage_type.dtype,
        int(colptr[-1]),
        if_exists=options.if_exists,
        packed=options.packed,
    ) as out:
        elements.put(colptr, out)


class _Elements:
    """The stored elements of a sparse matrix, read in blocks.

    Parameters
    ----------
    new_rows, new_columns
        For each row and column of the source its number in the destination; -1 if that lacks it.
    most
        How many elements a block has at most; one column at least.
    """

    def __init__(
        self, stored: StoredMatrix, new_rows: AnyArray, new_columns: AnyArray, most: int
    ) -> None:
        self._stored = stored
        self._rows, self._values = stored.entries("rowval"), stored.entries("nzval")
        self._new_rows, self._new_columns = new_rows, new_columns
        self._begins = stored.colptr()
        self._most = most
        self._is_ascending = bool((np.diff(new_rows[new_rows >= 0]) > 0).all())

    def counts(self) -> AnyArray:
        """Return how many elements of each column are kept."""
        if (self._new_rows >= 0).all():
            every: AnyArray = np.diff(self._begins)
            return every
        counts: AnyArray = np.zeros(self._begins.size - 1, np.int64)
        for span, part in self._blocks():
            before = np.concatenate([[0], np.cumsum(self._moved(part) >= 0)])
            ends = self._begins[span.start : span.stop + 1] - part.start
            counts[span.start : span.stop] = np.diff(before[ends])
        return counts

    def put(self, colptr: AnyArray, out: EmptySparse) -> None:
        """Put the elements that are kept to their places, ordered by rows in each column.

        Parameters
        ----------
        colptr
            Where the columns of the result begin, from 0.
        """
        out.colptr[:] = colptr + 1
        for span, part in self._blocks():
            lengths = np.diff(self._begins[span.start : span.stop + 1])
            column = np.repeat(self._new_columns[span.start : span.stop], lengths)
            row = self._moved(part)
            chosen = np.flatnonzero((row >= 0) & (column >= 0))
            if not self._is_ascending:
                chosen = chosen[np.lexsort((row[chosen], _runs(column[chosen])))]
            row, column = row[chosen], column[chosen]
            # The elements of a column lie side by side: each has a number within its run.
            starts = np.flatnonzero(np.diff(column, prepend=-1))
            within = np.arange(column.size)
            within -= np.repeat(starts, np.diff(starts, append=column.size))
            places = colptr[column] + within
            out.rowval[places] = row + 1
            out.nzval[places] = self._values.read_rows(part)[chosen]

    def _blocks(self) -> Iterator[tuple[Span, Span]]:
        """Yield ranges of columns, each with its range of elements."""
        for span in column_blocks(self._begins, max_elements=self._most):
            yield span, Span(int(self._begins[span.start]), int(self._begins[span.stop]))

    def _moved(self, part: Span) -> AnyArray:
        """Return the rows of a range of elements in the destination; -1 for those it lacks."""
        rows = self._rows.read_rows(part).astype(np.int64)
        if rows.size and (rows.min() < 1 or rows.max() > self._new_rows.size):
            raise errors.CorruptDataError(
                f"{self._stored.what}: a row number is not between 1 and {self._new_rows.size:,}"
            )
        moved: AnyArray = self._new_rows[rows - 1]
        return moved


def _runs(columns: AnyArray) -> AnyArray:
    """Return the number of the run of equal values that each one is in.

    >>> _runs(np.array([5, 5, 2, 7, 7])).tolist()
    [0, 0, 1, 2, 2]
    """
    runs: AnyArray = np.cumsum(np.diff(columns, prepend=columns[:1]) != 0)
    return runs

"""Transpose a sparse matrix on all cores, within a bounded memory.

**Nouns.** A *block* is a range of stored elements that fits the cache of a core.  A *window* is as
many blocks as the memory has room for; its transposed blocks, the *pieces*, lie side by side.  A
*run* is what a piece has of one column of the result; the runs of a column, in the order of the
pieces, are what the window has of it.

Each block is transposed by a counting sort, scipy's compiled one, which lets other threads run.
Then the runs of a few columns at a time are selected, scipy's compiled selection of rows, and put
in place: written, where that is a part of a file.  Opens nothing.
"""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from daf_storage.base import AnyArray, Span
from daf_storage.data._counting_sort import largest_number, select_into, transpose_into
from daf_storage.errors import CorruptDataError, InvalidInputError
from daf_storage.stores import put_values
from daf_storage.trees import THREADS, run_all

DEFAULT_MEMORY_BYTES: Final = 1 << 30
"""How much memory a transposition takes at most, unless the caller says otherwise."""

LEAST_MEMORY_BYTES: Final = 1 << 24
"""Less than that is refused."""

_BLOCK_ELEMENTS: Final = 1 << 18
_LEAST_BLOCK_ELEMENTS: Final = 1 << 12
_MERGED_ELEMENTS: Final = 1 << 18
_COPIED_RUN: Final = 64
_LARGEST: Final = np.iinfo(np.int32).max
_POINTER_BYTES: Final = 4
_RUN_BYTES: Final = 32
"""What the selection of a run takes besides its elements: numbers and pointers."""


def check_memory(memory_bytes: object) -> int:
    """Return how much memory may be taken, if that is enough to work with.

    Raises
    ------
    InvalidInputError
        It is no whole number of bytes, or too few.

    Examples
    --------
    >>> check_memory(1 << 30)
    1073741824
    """
    if not isinstance(memory_bytes, int) or memory_bytes < LEAST_MEMORY_BYTES:
        raise InvalidInputError(
            f"memory_bytes={memory_bytes!r} is not enough to work with; pass a number of bytes, "
            f"{LEAST_MEMORY_BYTES:,} (16 MiB) or more"
        )
    return memory_bytes


@dataclass(frozen=True, slots=True)
class TransposePlan:
    """How a sparse matrix is cut."""

    block_elements: int
    """How many elements a thread transposes at a time."""
    merged_elements: int
    """How many elements a thread puts in place at a time, a run more or less."""
    window_elements: int
    """How many elements are held transposed."""
    n_minors: int
    """How many columns the result has."""
    element_bytes: int
    """What an element takes while it is held."""
    threads: int
    """How many blocks are transposed at a time."""

    @classmethod
    def of(
        cls, nnz: int, n_minors: int, element_bytes: int, *, memory_bytes: int, threads: int
    ) -> TransposePlan:
        """Return how to cut a matrix of ``nnz`` elements so that ``memory_bytes`` are enough.

        Half of the memory is for the threads at most.  Of a matrix with very many columns, one
        block and one pointer for each column are held in any case.

        Examples
        --------
        >>> plan = TransposePlan.of(10**9, 25_000, 8, memory_bytes=1 << 30, threads=2)
        >>> plan.planned_bytes <= 1 << 30, plan.window_elements
        (True, 124518400)
        """
        most = memory_bytes // (2 * _copies(threads) * element_bytes)
        block = max(min(max(_BLOCK_ELEMENTS, 2 * n_minors), most), _LEAST_BLOCK_ELEMENTS)
        merged_bytes = 2 * threads * (3 * element_bytes + _RUN_BYTES)
        merged = max(min(_MERGED_ELEMENTS, block, memory_bytes // merged_bytes), 1)
        fixed = cls(block, merged, 0, n_minors, element_bytes, threads).planned_bytes
        piece_bytes = block * element_bytes + (n_minors + 1) * _POINTER_BYTES
        count = max((memory_bytes - fixed) // piece_bytes, 1)
        window = min(count * block, nnz, _LARGEST // block * block)
        return cls(block, merged, max(window, 1), n_minors, element_bytes, threads)

    @property
    def planned_bytes(self) -> int:
        """How much memory that takes at most, besides a few numbers for each row and column."""
        pieces = -(-self.window_elements // self.block_elements)
        held = self.window_elements * self.element_bytes
        tables = pieces * (self.n_minors + 1) * _POINTER_BYTES
        transposed = _copies(self.threads) * self.block_elements * self.element_bytes
        merged = self.threads * self.merged_elements * (3 * self.element_bytes + _RUN_BYTES)
        return held + tables + max(transposed, merged)

    def windows(self, nnz: int) -> Iterator[Span]:
        """Yield the ranges of elements that are held at a time."""
        return _cut(Span(0, nnz), self.window_elements)

    def blocks(self, window: Span) -> list[Span]:
        """Return the blocks of a window."""
        return list(_cut(window, self.block_elements))


def _copies(threads: int) -> int:
    """Return how many copies of a block there are: three in each thread, and those that wait."""
    return 5 * threads + 1


def transpose_sparse(  # noqa: PLR0913 - three arrays on each side
    *,
    indptr: AnyArray,
    rowval: AnyArray,
    nzval: AnyArray,
    out_indptr: AnyArray,
    out_rowval: AnyArray,
    out_nzval: AnyArray,
    progress: Callable[[int], None] = lambda _: None,
    memory_bytes: int = DEFAULT_MEMORY_BYTES,
    plan: TransposePlan | None = None,
) -> None:
    """Fill the transpose of a CSC matrix, given where its columns begin.

    Parameters
    ----------
    indptr, out_indptr
        Where the columns of the source and of the result begin, from 0, int64.
    rowval, nzval
        1-based row numbers and values of the source; each element is read once, in this thread
        where that is more than making a view.
    out_rowval, out_nzval
        Filled in place; row numbers count from 1 and ascend within each column.
    progress
        Called after each block with the number of elements done.
    memory_bytes
        How much memory may be taken, besides a few numbers for each row and column.
    plan
        How it is cut; by default what the memory allows.

    Raises
    ------
    CorruptDataError
        The row numbers are not those of which ``out_indptr`` was made.
    """
    nnz, n_minors = int(indptr[-1]), len(out_indptr) - 1
    index = np.dtype(np.int32 if max(len(indptr), n_minors + 2) <= _LARGEST else np.int64)
    if plan is None:
        element_bytes = index.itemsize + out_nzval.dtype.itemsize
        plan = TransposePlan.of(
            nnz, n_minors, element_bytes, memory_bytes=memory_bytes, threads=THREADS
        )
    out = _Target(np.array(out_indptr[:-1]), out_rowval, out_nzval, nnz)
    counted = _Counted(progress)
    room = _Room.of(plan, index, out_nzval.dtype)
    for window in plan.windows(nnz):
        pieces = _Pieces(plan, window, room, out_nzval.dtype)
        run_all(pieces.transposing(indptr, rowval, nzval))
        counts = pieces.counts()
        run_all(pieces.merging(counts, out, counted))
        out.free += counts


class _Counted:
    """Progress that several threads make."""

    def __init__(self, progress: Callable[[int], None]) -> None:
        self._progress = progress
        self._lock = threading.Lock()

    def add(self, count: int) -> None:
        """Count elements that are done."""
        with self._lock:
            self._progress(count)


class _Target:
    """The result, and where the next element of each of its columns goes."""

    def __init__(self, free: AnyArray, rowval: AnyArray, nzval: AnyArray, nnz: int) -> None:
        self.free = free
        self.rowval = rowval
        self.nzval = nzval
        self._nnz = nnz

    def put(self, first: int, counts: AnyArray, indices: AnyArray, values: AnyArray) -> None:
        """Put the elements of consecutive columns in place, given how many each has."""
        free = self.free[first : first + counts.size]
        starts = np.cumsum(counts) - counts
        if int(free[0]) < 0 or int((free + counts).max()) > self._nnz:
            raise _changed()
        indices = _as_stored(indices, self.rowval.dtype)
        values = values.view(self.nzval.dtype)
        if np.array_equal(free - free[0], starts):
            self.put_run(int(free[0]), indices, values)
        elif indices.size < _COPIED_RUN * counts.size:
            places = np.repeat(free - starts, counts) + np.arange(indices.size)
            self.rowval[places], self.nzval[places] = indices, values
        else:
            for place, start, count in zip(
                free.tolist(), starts.tolist(), counts.tolist(), strict=True
            ):
                stop = start + count
                self.put_run(place, indices[start:stop], values[start:stop])

    def put_run(self, place: int, indices: AnyArray, values: AnyArray) -> None:
        """Put consecutive elements in place."""
        stop = place + indices.size
        put_values(self.rowval[place:stop], indices)
        put_values(self.nzval[place:stop], values)


@dataclass(frozen=True, slots=True)
class _Room:
    """The memory of a window, for one after the other: fresh pages cost more than filling them."""

    indices: AnyArray
    values: AnyArray
    table: AnyArray

    @classmethod
    def of(cls, plan: TransposePlan, index: np.dtype[Any], dtype: np.dtype[Any]) -> _Room:
        """Return that of the largest window."""
        pieces = -(-plan.window_elements // plan.block_elements)
        return cls(
            np.empty(plan.window_elements, index),
            np.empty(plan.window_elements, f"u{dtype.itemsize}"),
            np.empty(pieces * (plan.n_minors + 1) + 1, np.int32),
        )


class _Pieces:
    """The transposed blocks of a window, one after the other."""

    def __init__(
        self, plan: TransposePlan, window: Span, room: _Room, dtype: np.dtype[Any]
    ) -> None:
        self._plan = plan
        self._blocks = plan.blocks(window)
        self._indices = room.indices[: window.size]
        self._dtype = dtype
        self._values = room.values[: window.size]
        self._table = room.table[: len(self._blocks) * (plan.n_minors + 1) + 1]
        self._table[-1] = window.size
        self._pointers = self._table[:-1].reshape(len(self._blocks), plan.n_minors + 1)

    def counts(self) -> AnyArray:
        """Return how many elements each column has in this window, when all were transposed."""
        total = np.zeros(self._plan.n_minors, np.int64)
        for pointers in self._pointers:
            total += np.diff(pointers)
        return total

    def _counts_between(self, first: int, last: int) -> AnyArray:
        return np.diff(self._pointers[:, first : last + 1], axis=1)

    def transposing(
        self, indptr: AnyArray, rowval: AnyArray, nzval: AnyArray
    ) -> Iterator[Callable[[], None]]:
        """Yield tasks that transpose a block each; what is read is read here."""
        for number, block in enumerate(self._blocks):
            majors, pointers = _majors(indptr, block)
            yield functools.partial(
                self._transpose,
                number,
                majors,
                pointers,
                rowval[block.slice],
                nzval[block.slice],
            )

    def _transpose(
        self, number: int, first: int, pointers: AnyArray, rows: AnyArray, values: AnyArray
    ) -> None:
        if largest_number(rows) > self._plan.n_minors:
            raise _changed()
        values = _opaque(values.astype(self._dtype, copy=False))
        start = number * self._plan.block_elements
        place = slice(start, start + rows.size)
        indices = self._indices[place]
        found = np.empty(self._plan.n_minors + 2, indices.dtype)  # as rows count from 1
        out = found, indices, self._values[place]
        transpose_into(pointers, _as_index(rows, indices.dtype), values, out)
        if found[1]:
            raise _changed()
        indices += indices.dtype.type(first + 1)
        np.add(found[1:], start, out=self._pointers[number], casting="same_kind")

    def merging(
        self, counts: AnyArray, out: _Target, done: _Counted
    ) -> Iterator[Callable[[], None]]:
        """Yield tasks that put the elements of a few columns in place each."""
        ends = np.cumsum(counts + len(self._blocks))
        first = 0
        while first < counts.size:
            before = int(ends[first - 1]) if first else 0
            last = int(np.searchsorted(ends, before + self._plan.merged_elements, side="right"))
            last = max(last, first + 1)
            yield functools.partial(self._merge, Span(first, last), out, done)
            first = last

    def _merge(self, columns: Span, out: _Target, done: _Counted) -> None:
        counts = self._counts_between(columns.start, columns.stop)
        total = int(counts.sum(dtype=np.int64))
        if total > 2 * self._plan.merged_elements:
            self._merge_one(columns.start, counts[:, 0], out)
        elif total:
            pieces = np.arange(len(self._blocks), dtype=np.int32) * (self._plan.n_minors + 1)
            runs = np.arange(columns.start, columns.stop, dtype=np.int32)[:, None] + pieces
            found = np.empty(total, self._indices.dtype), np.empty(total, self._values.dtype)
            matrix = self._table, self._indices, self._values
            select_into(runs.reshape(-1), matrix, found)
            out.put(columns.start, counts.sum(axis=0, dtype=np.int64), *found)
        done.add(total)

    def _merge_one(self, column: int, counts: AnyArray, out: _Target) -> None:
        """Put the runs of one large column in place, one after the other."""
        place = int(out.free[column])
        values = self._values.view(out.nzval.dtype)
        for start, count in zip(self._pointers[:, column].tolist(), counts.tolist(), strict=True):
            stop = start + count
            out.put_run(
                place, _as_stored(self._indices[start:stop], out.rowval.dtype), values[start:stop]
            )
            place += count


def _cut(whole: Span, size: int) -> Iterator[Span]:
    for start in range(whole.start, whole.stop, size):
        yield Span(start, min(start + size, whole.stop))


def _majors(indptr: AnyArray, block: Span) -> tuple[int, AnyArray]:
    """Return the first column with elements in a block, and where it and the next ones begin."""
    first = int(np.searchsorted(indptr, block.start, side="right")) - 1
    last = int(np.searchsorted(indptr, block.stop, side="left"))
    pointers = np.clip(indptr[first : last + 1], block.start, block.stop) - block.start
    return first, pointers.astype(np.int32)


def _as_index(rows: AnyArray, index: np.dtype[Any]) -> AnyArray:
    """Return row numbers as integers that scipy takes, without a copy where they have the width."""
    rows = np.ascontiguousarray(rows)
    is_wide_enough = rows.dtype.itemsize == index.itemsize and rows.flags.aligned
    return rows.view(index) if is_wide_enough else rows.astype(index)


def _as_stored(indices: AnyArray, dtype: np.dtype[Any]) -> AnyArray:
    """Return row numbers, which are positive, in the type that is stored; a view if it is wide."""
    return indices.view(dtype) if indices.itemsize == dtype.itemsize else indices.astype(dtype)


def _opaque(values: AnyArray) -> AnyArray:
    """Return values as unsigned integers of the same width."""
    values = np.require(values, requirements=["C", "A"])
    return values.view(f"u{values.dtype.itemsize}")


def _changed() -> CorruptDataError:
    return CorruptDataError(
        "the row numbers of a matrix changed while it was transposed, or leave its rows axis; "
        "another program may be writing to it"
    )

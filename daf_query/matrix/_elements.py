"""The elements of a slice, one major after the other, to be read in ranges of any size.

The *candidates* of a plan are numbered in the order in which they are stored: of a sparse matrix
all stored elements of the selected majors, of a dense one those of the selected minors alone.  A
range of these numbers is a *block*: what is read of it is bounded by its size, not by the matrix.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cached_property
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from daf_query.matrix._dense_gather import gather_dense
from daf_query.matrix._selection import Selection
from daf_query.matrix._slice_plan import SlicePlan, ordered_plan
from daf_query.matrix._stored_elements import copy_runs
from daf_storage.base import ForkLock, Span
from daf_storage.data import checked_indices
from daf_storage.trees import StoredArray

Codes = npt.NDArray[np.int32]
Offsets = npt.NDArray[np.int64]


class ElementBlock(Protocol):
    """Some neighbouring candidates; each part is read when it is first asked for.

    ``offsets`` are the numbers of the wanted ones within the block; None for all.
    """

    @property
    def count(self) -> int:
        """Number of candidates."""
        ...

    def majors(self, offsets: Offsets | None = None) -> Codes:
        """Return the position of the major of each element."""
        ...

    def minors(self, offsets: Offsets | None = None) -> Codes:
        """Return the position of the minor of each element."""
        ...

    def values(self, offsets: Offsets | None = None) -> npt.NDArray[Any] | pa.Array:
        """Return the value of each element: numbers, or strings of Arrow."""
        ...


class Elements(Protocol):
    """The candidates of a plan."""

    count: int
    """How many there are."""
    has_other_minors: bool
    """Whether some may be of minors that are not selected."""

    def spans(self, target: int) -> list[Span]:
        """Cut the candidates into blocks of about ``target``, which end where chunks end."""
        ...

    def block(self, span: Span) -> ElementBlock:
        """Return a block; reads nothing yet."""
        ...


def elements_of(plan: SlicePlan) -> Elements:
    """Return the elements of a slice; reads nothing but its ``colptr``, which the plan has.

    Of a file of others, the row numbers are read once, to see whether they are in order.
    """
    if plan.colptr is None:
        return _DenseElements(plan)
    plan = ordered_plan(plan)
    return _SparseElements(plan, plan.stored.colptr() if plan.colptr is None else plan.colptr)


def major_groups(plan: SlicePlan, target: int) -> list[tuple[Span, int]]:
    """Cut the selected majors into groups of about ``target`` elements, at least one major each.

    Returns
    -------
    list
        The offsets of the majors of each group, and its number of elements; of a sparse matrix
        also of minors that are not selected.
    """
    count = plan.major.size
    if plan.colptr is None:
        width = plan.minor.size
        ends = np.arange(1, count + 1) * width
        step = max(plan.stored.dense().info.chunks[0], 1) if not _is_mapped(plan) else 1
    else:
        majors = plan.major.positions
        ends = np.cumsum(plan.colptr[majors + 1] - plan.colptr[majors])
        step = 1
    groups: list[tuple[Span, int]] = []
    start = before = 0
    while start < count:
        stop = max(int(np.searchsorted(ends, before + target, side="right")), start + 1)
        stop = min(-(-stop // step) * step, count)
        groups.append((Span(start, stop), int(ends[stop - 1]) - before))
        start, before = stop, int(ends[stop - 1])
    return groups


def _is_mapped(plan: SlicePlan) -> bool:
    info = plan.stored.dense().info
    return bool(info.is_mappable or info.chunks == info.shape)


class _SparseElements:
    """The stored elements of the selected majors, of whichever minor."""

    def __init__(self, plan: SlicePlan, colptr: Offsets) -> None:
        stored = plan.stored
        self.has_other_minors = not plan.minor.is_all
        self._positions = plan.major.positions.astype(np.int32, copy=False)
        self._starts = colptr[plan.major.positions]
        counts = colptr[plan.major.positions + 1] - self._starts
        self._ends = np.cumsum(counts)
        self.count = int(self._ends[-1]) if self._ends.size else 0
        self._stored = stored
        self._indices = _RunReader(stored.indices)
        self._nzval = _RunReader(stored.entries("nzval")) if stored.has_values() else None

    def spans(self, target: int) -> list[Span]:
        step = self._indices.step
        size = -(-target // step) * step
        return [Span(start, min(start + size, self.count)) for start in range(0, self.count, size)]

    def block(self, span: Span) -> ElementBlock:
        first = int(np.searchsorted(self._ends, span.start, side="right"))
        last = int(np.searchsorted(self._ends, span.stop, side="left")) + 1 if span.size else first
        ends = np.minimum(self._ends[first:last], span.stop) - span.start
        begins = np.concatenate([[0], ends[:-1]])[: ends.size].astype(np.int64)
        starts = self._starts[first:last].copy()
        if starts.size:  # the first major may have begun in the block before
            before = int(self._ends[first - 1]) if first else 0
            starts[0] += span.start - before
        return _SparseBlock(self, self._positions[first:last], starts, ends - begins)

    def read_minors(self, starts: Offsets, counts: Offsets) -> Codes:
        """Return the minors of some runs, from 0."""
        stored = checked_indices(self._stored, self._indices.read(starts, counts))
        base = self._stored.index_base
        if not base and stored.dtype == np.int32:
            return stored
        minors: Codes = np.subtract(stored, base, dtype=np.int32, casting="unsafe")
        return minors

    def read_values(self, starts: Offsets, counts: Offsets) -> npt.NDArray[Any]:
        """Return the values of some runs; a view where they are one run of a mapped array."""
        if self._nzval is None:
            return np.ones(int(counts.sum()), np.bool_)
        return self._nzval.read(starts, counts)


class _SparseBlock:
    """Stored elements that are a run of each of some majors."""

    def __init__(
        self, elements: _SparseElements, positions: Codes, starts: Offsets, counts: Offsets
    ) -> None:
        self._elements = elements
        self._positions = positions
        self._starts = starts
        self._counts = counts
        self._ends = np.cumsum(counts)
        self.count = int(self._ends[-1]) if self._ends.size else 0

    def majors(self, offsets: Offsets | None = None) -> Codes:
        if offsets is None:
            return np.repeat(self._positions, self._counts)
        return self._positions[np.searchsorted(self._ends, offsets, side="right")]

    def minors(self, offsets: Offsets | None = None) -> Codes:
        return self._minors if offsets is None else self._minors[offsets]

    def values(self, offsets: Offsets | None = None) -> npt.NDArray[Any]:
        return self._values if offsets is None else self._values[offsets]

    @cached_property
    def _minors(self) -> Codes:
        return self._elements.read_minors(self._starts, self._counts)

    @cached_property
    def _values(self) -> npt.NDArray[Any]:
        return self._elements.read_values(self._starts, self._counts)


class _RunReader:
    """Reads runs of a 1-D stored array; mapped once."""

    def __init__(self, array: StoredArray) -> None:
        self._array = array
        is_cut = not array.info.is_mappable and array.info.chunks != array.info.shape
        self.step = max(array.info.chunks[0], 1) if is_cut else 1
        """How many elements are decoded together."""

    @cached_property
    def _mapped(self) -> npt.NDArray[Any]:
        return self._array.read()

    def read(self, starts: Offsets, counts: Offsets) -> npt.NDArray[Any]:
        """Return the runs, one after the other; a single one of a mapped array as a view."""
        if self._array.info.is_mappable and starts.size:
            stop = int(starts[-1] + counts[-1])
            if stop - int(starts[0]) == int(counts.sum()):
                return self._mapped[int(starts[0]) : stop]
        return copy_runs(self._array, starts, counts)


class _DenseElements:
    """The elements of the selected majors and minors; a block is some whole majors."""

    has_other_minors = False

    def __init__(self, plan: SlicePlan) -> None:
        self._plan = plan
        self.width = plan.minor.size
        """Elements per major."""
        self.count = plan.major.size * self.width
        self._step = 1 if _is_mapped(plan) else max(plan.stored.dense().info.chunks[0], 1)
        self._lock = ForkLock()
        self._strings: pa.Array | None = None

    def spans(self, target: int) -> list[Span]:
        if not self.count:
            return []
        majors = -(-target // (self.width * self._step)) * self._step
        size = majors * self.width
        return [Span(start, min(start + size, self.count)) for start in range(0, self.count, size)]

    def block(self, span: Span) -> ElementBlock:
        first = span.start // max(self.width, 1)
        last = span.stop // max(self.width, 1)
        positions = self._plan.major.positions[first:last]
        is_text = self._plan.stored.info.storage_type.is_string
        read = self._read_strings if is_text else self._read_numbers
        return _DenseBlock(positions, self._plan.minor.positions, read)

    def _read_numbers(self, positions: Offsets) -> npt.NDArray[Any]:
        selection = Selection(positions, is_all=False)
        values: npt.NDArray[Any] = gather_dense(replace(self._plan, major=selection))
        return values.reshape(-1)

    def _read_strings(self, positions: Offsets) -> pa.Array:
        """Return some strings; all of them are decoded first, once: they are one chunk."""
        with self._lock:
            if self._strings is None:
                self._strings = self._plan.stored.dense().read_strings()
        height = self._plan.stored.info.shape[0]
        numbers = positions[:, np.newaxis] * height + self._plan.minor.positions
        return self._strings.take(pa.array(numbers.reshape(-1)))


class _DenseBlock:
    """All selected minors of some majors."""

    def __init__(
        self,
        positions: Offsets,
        minors: Offsets,
        read: Callable[[Offsets], npt.NDArray[Any] | pa.Array],
    ) -> None:
        self._positions = positions
        self._minor_positions = minors
        self._read = read
        self.count = positions.size * minors.size

    def majors(self, offsets: Offsets | None = None) -> Codes:
        positions = self._positions.astype(np.int32)
        width = self._minor_positions.size
        return np.repeat(positions, width) if offsets is None else positions[offsets // width]

    def minors(self, offsets: Offsets | None = None) -> Codes:
        positions = self._minor_positions.astype(np.int32)
        if offsets is None:
            return np.tile(positions, self._positions.size)
        return positions[offsets % positions.size]

    def values(self, offsets: Offsets | None = None) -> npt.NDArray[Any] | pa.Array:
        values = self._values
        if offsets is None:
            return values
        return values.take(pa.array(offsets)) if isinstance(values, pa.Array) else values[offsets]

    @cached_property
    def _values(self) -> npt.NDArray[Any] | pa.Array:
        return self._read(self._positions)

"""The elements of a slice, one major after the other, to be read in ranges of any size.

The *candidates* of a plan are numbered in the order in which they are stored: of a sparse matrix
all stored elements of the selected majors, of a dense one those of the selected minors alone.  A
range of these numbers is a *block*: what is read of it is bounded by its size, not by the matrix.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from functools import cached_property
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from daf_query.matrix._dense_gather import gather_dense
from daf_query.matrix._slice_plan import Selection, SlicePlan
from daf_query.matrix._stored_elements import StoredElements
from daf_storage.base import ForkLock, Span

Codes: TypeAlias = npt.NDArray[np.int32]
Offsets: TypeAlias = npt.NDArray[np.int64]
Values: TypeAlias = npt.NDArray[Any] | pa.Array
"""Numbers, or strings of Arrow."""


class ElementBlock(ABC):
    """Some neighbouring candidates; each part is read when it is first asked for.

    ``offsets`` are the numbers of the wanted ones within the block; None for all.
    """

    count: int
    """Number of candidates."""

    @abstractmethod
    def majors(self, offsets: Offsets | None = None) -> Codes:
        """Return the position of the major of each element."""

    @abstractmethod
    def minors(self, offsets: Offsets | None = None) -> Codes:
        """Return the position of the minor of each element."""

    @abstractmethod
    def values(self, offsets: Offsets | None = None) -> Values:
        """Return the value of each element."""


class Elements(ABC):
    """The candidates of a plan."""

    count: int
    """How many there are."""
    has_other_minors: bool
    """Whether some may be of minors that are not selected."""
    step: int
    """At multiples of which number blocks end: where chunks do, or majors."""

    def spans(self, target: int) -> list[Span]:
        """Cut the candidates into blocks of about ``target``."""
        size = -(-target // self.step) * self.step
        return [Span(start, min(start + size, self.count)) for start in range(0, self.count, size)]

    @abstractmethod
    def block(self, span: Span) -> ElementBlock:
        """Return a block; reads nothing yet."""


def elements_of(plan: SlicePlan) -> Elements:
    """Return the elements of a slice; reads nothing but its ``colptr``, which the plan has.

    Of a file of others, the row numbers are read once, to see whether they are in order.
    """
    is_sparse = plan.stored.info.is_sparse
    return _SparseElements(plan.in_order()) if is_sparse else _DenseElements(plan)


class _SparseElements(Elements):
    """The stored elements of the selected majors, of whichever minor."""

    def __init__(self, plan: SlicePlan) -> None:
        self.has_other_minors = not plan.minor.is_all
        self._majors = plan.major.positions.astype(np.int32, copy=False)
        self._starts, counts = plan.ranges()
        self._ends = np.cumsum(counts)
        self.count = int(self._ends[-1]) if self._ends.size else 0
        self.elements = StoredElements(plan.stored)
        self.base = plan.stored.index_base
        indices = plan.stored.indices.info
        is_cut = not indices.is_mappable and indices.chunks != indices.shape
        self.step = max(indices.chunks[0], 1) if is_cut else 1

    def block(self, span: Span) -> ElementBlock:
        first = int(np.searchsorted(self._ends, span.start, side="right"))
        last = int(np.searchsorted(self._ends, span.stop, side="left")) + 1 if span.size else first
        ends = np.minimum(self._ends[first:last], span.stop) - span.start
        counts = np.diff(ends, prepend=0)
        starts = self._starts[first:last].copy()
        if starts.size:  # the first major may have begun in the block before
            before = int(self._ends[first - 1]) if first else 0
            starts[0] += span.start - before
        return _SparseBlock(self, self._majors[first:last], starts, counts)


class _SparseBlock(ElementBlock):
    """Stored elements that are a run of each of some majors."""

    def __init__(
        self, elements: _SparseElements, majors: Codes, starts: Offsets, counts: Offsets
    ) -> None:
        self._of, self._majors = elements, majors
        self._ranges = starts, counts
        self._ends = np.cumsum(counts)
        self.count = int(self._ends[-1]) if self._ends.size else 0

    def majors(self, offsets: Offsets | None = None) -> Codes:
        if offsets is None:
            return np.repeat(self._majors, self._ranges[1])
        return self._majors[np.searchsorted(self._ends, offsets, side="right")]

    def minors(self, offsets: Offsets | None = None) -> Codes:
        return self._minors if offsets is None else self._minors[offsets]

    def values(self, offsets: Offsets | None = None) -> npt.NDArray[Any]:
        return self._values if offsets is None else self._values[offsets]

    @cached_property
    def _minors(self) -> Codes:
        rows = self._of.elements.rows(*self._ranges)
        if not self._of.base and rows.dtype == np.int32:
            return rows
        minors: Codes = np.subtract(rows, self._of.base, dtype=np.int32, casting="unsafe")
        return minors

    @cached_property
    def _values(self) -> npt.NDArray[Any]:
        return self._of.elements.values(*self._ranges)


class _DenseElements(Elements):
    """The elements of the selected majors and minors; a block is some whole majors."""

    has_other_minors = False

    def __init__(self, plan: SlicePlan) -> None:
        self._plan = plan
        self.count = plan.major.size * plan.minor.size
        array = plan.stored.dense().info
        is_whole = array.is_mappable or array.chunks == array.shape
        self.step = max(plan.minor.size, 1) * (1 if is_whole else max(array.chunks[0], 1))
        self._lock = ForkLock()
        self._strings: pa.Array | None = None

    def block(self, span: Span) -> ElementBlock:
        width = max(self._plan.minor.size, 1)
        majors = self._plan.major.positions[span.start // width : span.stop // width]
        is_text = self._plan.stored.info.storage_type.is_string
        read = self._read_strings if is_text else self._read_numbers
        return _DenseBlock(majors, self._plan.minor.positions, read)

    def _read_numbers(self, majors: Offsets) -> npt.NDArray[Any]:
        plan = self._plan.at(Selection(majors, is_all=False), self._plan.minor)
        return gather_dense(plan).reshape(-1)

    def _read_strings(self, majors: Offsets) -> pa.Array:
        """Return some strings; all of them are decoded first, once: they are one chunk."""
        with self._lock:
            if self._strings is None:
                self._strings = self._plan.stored.dense().read_strings()
        height = self._plan.stored.info.shape[0]
        numbers = majors[:, np.newaxis] * height + self._plan.minor.positions
        return self._strings.take(pa.array(numbers.reshape(-1)))


class _DenseBlock(ElementBlock):
    """All selected minors of some majors."""

    def __init__(self, majors: Offsets, minors: Offsets, read: Callable[[Offsets], Values]) -> None:
        self._majors, self._minors = majors, minors
        self._read = read
        self.count = majors.size * minors.size

    def majors(self, offsets: Offsets | None = None) -> Codes:
        majors, width = self._majors.astype(np.int32), self._minors.size
        return np.repeat(majors, width) if offsets is None else majors[offsets // width]

    def minors(self, offsets: Offsets | None = None) -> Codes:
        minors = self._minors.astype(np.int32)
        if offsets is None:
            return np.tile(minors, self._majors.size)
        return minors[offsets % minors.size]

    def values(self, offsets: Offsets | None = None) -> Values:
        if offsets is None:
            return self._values
        is_text = isinstance(self._values, pa.Array)
        return self._values.take(pa.array(offsets)) if is_text else self._values[offsets]

    @cached_property
    def _values(self) -> Values:
        return self._read(self._majors)

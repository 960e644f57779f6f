"""The elements of a slice, one major after the other, to be read in ranges of any size.

The *candidates* of a plan are numbered in the order in which they are stored: of a sparse matrix
all stored elements of the selected majors, of a dense one those of the selected minors alone.  A
range of these numbers is a *block*: what is read of it is bounded by its size, not by the matrix.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property, partial
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from daf_query.matrix._gather import Selection, SlicePlan, StoredElements, gather_dense
from daf_storage.base import ForkLock, Span

Codes: TypeAlias = npt.NDArray[np.int32]
Offsets: TypeAlias = npt.NDArray[np.int64]
Values: TypeAlias = npt.NDArray[Any] | pa.Array
"""Numbers, or strings of Arrow."""


class ElementBlock:
    """Some neighbouring candidates; each part is read when it is first asked for.

    ``offsets`` are the numbers of the wanted ones within the block; None for all.

    Parameters
    ----------
    majors, counts
        The majors that have some of them, and how many each.
    minors, values
        Read those of all.
    """

    def __init__(
        self,
        majors: Offsets,
        counts: Offsets,
        minors: Callable[[], Codes],
        values: Callable[[], Values],
    ) -> None:
        self._majors, self._counts = majors.astype(np.int32, copy=False), counts
        self._ends = np.cumsum(counts)
        self._read_minors, self._read_values = minors, values
        self.count = int(self._ends[-1]) if self._ends.size else 0
        """Number of candidates."""

    def majors(self, offsets: Offsets | None = None) -> Codes:
        """Return the position of the major of each element."""
        if offsets is None:
            return np.repeat(self._majors, self._counts)
        return self._majors[np.searchsorted(self._ends, offsets, side="right")]

    def minors(self, offsets: Offsets | None = None) -> Codes:
        """Return the position of the minor of each element."""
        return self._minors if offsets is None else self._minors[offsets]

    def values(self, offsets: Offsets | None = None) -> Values:
        """Return the value of each element."""
        if offsets is None:
            return self._values
        is_text = isinstance(self._values, pa.Array)
        return self._values.take(pa.array(offsets)) if is_text else self._values[offsets]

    @cached_property
    def _minors(self) -> Codes:
        return self._read_minors()

    @cached_property
    def _values(self) -> Values:
        return self._read_values()


class Elements:
    """The candidates of a plan; reads nothing yet but its ``colptr``, which the plan has.

    Of a file of others, the row numbers are read once, to see whether they are in order.
    """

    def __init__(self, plan: SlicePlan) -> None:
        self._is_sparse = plan.stored.info.is_sparse
        self._plan = plan.in_order()
        self._lock = ForkLock()
        self._strings: pa.Array | None = None
        if self._is_sparse:
            self._starts, counts = self._plan.ranges()
            self._elements = StoredElements(self._plan.stored)
            array, step = self._plan.stored.indices.info, 1
        else:
            counts = np.full(plan.major.size, plan.minor.size)
            array, step = plan.stored.dense().info, max(plan.minor.size, 1)
        self._ends = np.cumsum(counts)
        self.count = int(self._ends[-1]) if self._ends.size else 0
        """How many there are."""
        self.has_other_minors = self._is_sparse and not plan.minor.is_all
        """Whether some may be of minors that are not selected."""
        is_cut = not array.is_mappable and array.chunks != array.shape
        self.step = step * (max(array.chunks[0], 1) if is_cut else 1)
        """At multiples of which number blocks end: where chunks do, or majors."""

    def spans(self, target: int) -> list[Span]:
        """Cut the candidates into blocks of about ``target``."""
        size = -(-target // self.step) * self.step
        return [Span(start, min(start + size, self.count)) for start in range(0, self.count, size)]

    def block(self, span: Span) -> ElementBlock:
        """Return a block; reads nothing yet."""
        first = int(np.searchsorted(self._ends, span.start, side="right"))
        last = int(np.searchsorted(self._ends, span.stop, side="left")) + 1 if span.size else first
        ends = np.minimum(self._ends[first:last], span.stop) - span.start
        counts = np.diff(ends, prepend=0)
        majors = self._plan.major.positions[first:last]
        if not self._is_sparse:  # a block is some whole majors
            minors = self._plan.minor.positions.astype(np.int32)
            return ElementBlock(
                majors, counts, partial(np.tile, minors, majors.size), partial(self._dense, majors)
            )
        starts = self._starts[first:last].copy()
        if starts.size:  # the first major may have begun in the block before
            starts[0] += span.start - (int(self._ends[first - 1]) if first else 0)
        values = partial(self._elements.values, starts, counts)
        return ElementBlock(majors, counts, partial(self._sparse_minors, starts, counts), values)

    def _sparse_minors(self, starts: Offsets, counts: Offsets) -> Codes:
        rows, base = self._elements.rows(starts, counts), self._plan.stored.index_base
        if not base and rows.dtype == np.int32:
            return rows
        minors: Codes = np.subtract(rows, base, dtype=np.int32, casting="unsafe")
        return minors

    def _dense(self, majors: Offsets) -> Values:
        """Return the values of some majors; strings are decoded all, once: they are one chunk."""
        plan = self._plan
        if not plan.stored.info.storage_type.is_string:
            return gather_dense(plan.at(Selection(majors, is_all=False), plan.minor)).reshape(-1)
        with self._lock:
            if self._strings is None:
                self._strings = plan.stored.dense().read_strings()
        numbers = majors[:, np.newaxis] * plan.stored.info.shape[0] + plan.minor.positions
        return self._strings.take(pa.array(numbers.reshape(-1)))

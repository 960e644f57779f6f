"""The elements of a slice, one major after the other, to be read in ranges of any size.

The *candidates* of a plan are numbered in the order in which they are stored: of a sparse matrix
all stored elements of the selected majors, of a dense one those of the selected minors alone.  A
range of these numbers is a *block*: what is read of it is bounded by its size, not by the matrix.
"""

from __future__ import annotations

import threading
from typing import Any, Literal, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from daf_query.matrix._gather import Selection, SlicePlan, gather_dense
from daf_storage.base import ForkLock, Span
from daf_storage.trees import Ranges

Offsets: TypeAlias = npt.NDArray[np.int64]
Values: TypeAlias = npt.NDArray[Any] | pa.Array
"""Numbers, or strings of Arrow."""


ElementPart: TypeAlias = Literal["majors", "minors", "values"]
"""What is read of each element: the positions of its major and its minor, or its value."""


class Elements:
    """The candidates of a plan; reads nothing yet but its ``colptr``, which the plan has.

    Of a file of others, the row numbers are read once, to see whether they are in order.
    """

    def __init__(self, plan: SlicePlan) -> None:
        self._is_sparse = plan.stored.info.is_sparse
        self._plan = plan.in_order()
        self._lock = ForkLock()
        self._strings: pa.Array | None = None
        # Not a `threading.local`.  The engine's threads have a Python state for the length of a
        # call, and what is kept in it is freed while it is being cleared.  An Arrow array whose
        # buffer is memory of numpy takes the GIL as it is freed, which before Python 3.12.4 clears
        # the same state within itself, and ends the process.
        self._last: dict[int, tuple[Span, dict[ElementPart, Any]]] = {}
        if self._is_sparse:
            self._starts, counts = self._plan.ranges()
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

    def part(self, part: ElementPart, span: Span, offsets: Offsets | None) -> Any:
        """Return a part of each element of a block, or of those of some numbers within it.

        The parts of the last block of each thread are kept, each as it was first asked for.
        """
        thread = threading.get_ident()
        last = self._last.get(thread)
        if last is None or last[0] != span:
            last = self._last[thread] = (span, {})
        if part not in last[1]:
            last[1][part] = self._read(part, span)
        whole = last[1][part]
        if offsets is None:
            return whole
        return whole.take(pa.array(offsets)) if isinstance(whole, pa.Array) else whole[offsets]

    def _read(self, part: ElementPart, span: Span) -> Any:
        first = int(np.searchsorted(self._ends, span.start, side="right"))
        last = int(np.searchsorted(self._ends, span.stop, side="left")) + 1 if span.size else first
        ends = np.minimum(self._ends[first:last], span.stop) - span.start
        counts = np.diff(ends, prepend=0)
        majors, plan = self._plan.major.positions[first:last], self._plan
        if part == "majors":
            return np.repeat(majors.astype(np.int32), counts)
        if not self._is_sparse:  # a block is some whole majors
            minors = plan.minor.positions.astype(np.int32)
            return np.tile(minors, majors.size) if part == "minors" else self._dense(majors)
        starts = self._starts[first:last].copy()
        if starts.size:  # the first major may have begun in the block before
            starts[0] += span.start - (int(self._ends[first - 1]) if first else 0)
        ranges, base = Ranges.joined(starts, counts), plan.stored.index_base
        if part == "values":
            return plan.values(ranges)
        rows = plan.row_numbers(ranges)
        return np.subtract(rows, base, dtype=np.int32, casting="unsafe")

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

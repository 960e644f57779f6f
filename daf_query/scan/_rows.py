"""Rows of a column: a whole span of them, or some offsets within one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from daf_storage.base import Span

Positions: TypeAlias = npt.NDArray[np.int64]
"""Row numbers along an axis, from 0."""

# Not a `threading.local`.  The engine's threads have a Python state for the length of a call, and
# what is kept in it is freed while it is being cleared.  An Arrow array whose buffer is memory of
# numpy (`pa.py_buffer`, `pa.array` of numbers) takes the GIL as it is freed, which before Python
# 3.12.4 clears the same state within itself, and ends the process.  Anywhere else such arrays are
# as safe as others, whichever thread frees them.
LastOfThreads: TypeAlias = dict[int, tuple[Any, Any]]
"""What each thread read last of a column, by its identifier: which rows, and their values."""


@dataclass(frozen=True, slots=True, eq=False)
class Rows:
    """All rows of a span, or some of them.

    >>> Rows(Span(10, 20)).count, Rows(Span(10, 20), np.array([1, 5])).positions.tolist()
    (10, [11, 15])
    """

    span: Span
    """Positions along the axis."""
    offsets: Positions | None = None
    """Ascending, counted from the start of the span; ``None`` for all of its rows."""

    @property
    def count(self) -> int:
        """Number of rows."""
        return self.span.size if self.offsets is None else self.offsets.size

    @property
    def positions(self) -> Positions:
        """Positions of the rows along the axis."""
        if self.offsets is None:
            return np.arange(self.span.start, self.span.stop)
        return self.offsets + self.span.start

    def part(self, start: int, stop: int) -> Rows:
        """Return some of the rows, counted from the first one.

        >>> Rows(Span(10, 20)).part(2, 4).positions.tolist()
        [12, 13]
        """
        if self.offsets is not None:
            return Rows(self.span, self.offsets[start:stop])
        if start <= 0 and stop >= self.span.size:
            return self
        return Rows(self.span, np.arange(start, min(stop, self.span.size)))

    def of(self, column: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """Return these rows of a whole column; of a span, as a view."""
        values = column[self.span.slice]
        return values if self.offsets is None else values[self.offsets]

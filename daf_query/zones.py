"""What was learnt of ranges of rows: the smallest and the largest value of each."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from daf_query.evaluating import Mask, Zones
from daf_query.predicates import Predicate
from daf_storage import Span

ZONE_ROWS = 1 << 16
"""The rows of which the smallest and the largest value are remembered together."""


class ZoneMap:
    """The smallest and largest values of ranges of rows, as far as somebody has read them."""

    def __init__(
        self,
        low: npt.NDArray[Any],
        high: npt.NDArray[Any],
        length: int,
        *,
        is_known: bool,
        table: Callable[[Predicate], Mask] | None = None,
    ) -> None:
        self._low, self._high = low, high
        self._length = length
        self._is_known = np.full(len(low), is_known)
        self._has_null = np.zeros(len(low), np.bool_)
        self._has_value = np.full(len(low), is_known)
        self._table = table

    @property
    def nbytes(self) -> int:
        """How much memory it takes."""
        return int(self._low.nbytes + self._high.nbytes) + 3 * len(self._low) + 256

    @classmethod
    def of(cls, length: int, kind: np.dtype[Any]) -> ZoneMap:
        """Return one of which nothing is known yet."""
        count = -(-length // ZONE_ROWS)
        kind = kind.newbyteorder("=")
        return cls(np.zeros(count, kind), np.zeros(count, kind), length, is_known=False)

    @classmethod
    def of_codes(cls, codes: npt.NDArray[Any], table: Callable[[Predicate], Mask]) -> ZoneMap:
        """Return that of strings, whose bounds are codes."""
        starts = np.arange(0, len(codes), ZONE_ROWS)
        low = np.minimum.reduceat(codes, starts)
        high = np.maximum.reduceat(codes, starts)
        return cls(low, high, len(codes), is_known=True, table=table)

    def zones(self, first: int, last: int) -> Zones:
        """Return what is known of some ranges."""
        part = slice(first, last)
        return Zones(
            self._low[part],
            self._high[part],
            self._is_known[part],
            self._has_null[part],
            self._has_value[part],
            self._table,
        )

    def learn(self, span: Span, values: npt.NDArray[Any]) -> None:
        """Take note of values that were read anyway; threads that do so twice write the same."""
        for zone in range(-(-span.start // ZONE_ROWS), len(self._low)):
            start, stop = zone * ZONE_ROWS, min((zone + 1) * ZONE_ROWS, self._length)
            if stop > span.stop:
                return
            if not self._is_known[zone]:
                self._note(zone, values[start - span.start : stop - span.start])

    def _note(self, zone: int, part: npt.NDArray[Any]) -> None:
        low, high = part.min(), part.max()
        if low != low:  # noqa: PLR0124 - NaN, which is null here
            valid = part[~np.isnan(part)]
            self._has_null[zone] = True
            self._has_value[zone] = valid.size > 0
            low, high = (valid.min(), valid.max()) if valid.size else (0, 0)
        else:
            self._has_value[zone] = True
        self._low[zone], self._high[zone] = low, high
        self._is_known[zone] = True  # last: others may be reading

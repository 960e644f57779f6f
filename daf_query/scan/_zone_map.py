"""What was learnt of ranges of rows: the smallest and the largest value of each."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from daf_query.scan._evaluate import Bits, Mask, Zones, present_bits
from daf_query.scan._predicate import Predicate
from daf_storage.spi import Span

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
        present: Bits | None = None,
    ) -> None:
        self._low, self._high = low, high
        self._length = length
        self._is_known = np.full(len(low), is_known)
        self._nulls = np.zeros(len(low), np.int64)
        self._sizes = np.minimum(length - ZONE_ROWS * np.arange(len(low)), ZONE_ROWS)
        self._table = table
        self._present = present

    @property
    def arrays(self) -> dict[str, npt.NDArray[Any]]:
        """What is known, to be stored."""
        rows = np.array([ZONE_ROWS], np.int64)
        return {"low": self._low, "high": self._high, "null": self._nulls, "zone": rows}

    @classmethod
    def from_bounds(
        cls,
        low: npt.NDArray[Any],
        high: npt.NDArray[Any],
        null_counts: npt.NDArray[np.int64],
        length: int,
        *,
        zone_rows: int,
    ) -> ZoneMap:
        """Return the zone map of a column of some length, all of it known; shares the arrays.

        Raises
        ------
        ValueError
            The bounds or counts cannot be those of a column of this length.
        """
        count = -(-length // ZONE_ROWS)
        if {len(low), len(high), len(null_counts)} != {count} or zone_rows != ZONE_ROWS:
            raise ValueError(f"it has no {count:,} ranges of {ZONE_ROWS:,} rows")
        found = cls(low, high, length, is_known=True)
        found._nulls = null_counts
        if np.any(null_counts < 0) or np.any(null_counts > found._sizes):
            raise ValueError("it counts more nulls than rows")
        if not np.all((low <= high) | (null_counts == found._sizes)):
            raise ValueError("its largest values are smaller than the smallest")
        return found

    @property
    def nbytes(self) -> int:
        """How much memory it takes."""
        return int(self._low.nbytes + self._high.nbytes) + 17 * len(self._low) + 256

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
        present = present_bits(codes, starts, int(high.max(initial=0)) + 1)
        return cls(low, high, len(codes), is_known=True, table=table, present=present)

    @classmethod
    def of_constant(cls, length: int, table: Callable[[Predicate], Mask]) -> ZoneMap:
        """Return that of a string that is the same in all rows."""
        code = np.zeros(-(-length // ZONE_ROWS), np.uint8)
        return cls(code, code, length, is_known=True, table=table)

    def zones(self, first: int, last: int) -> Zones:
        """Return what is known of some ranges."""
        part = slice(first, last)
        return Zones(
            self._low[part],
            self._high[part],
            self._is_known[part],
            self._nulls[part] > 0,
            self._nulls[part] < self._sizes[part],
            self._table,
            None if self._present is None else self._present[part],
        )

    def record(self, span: Span, values: npt.NDArray[Any]) -> None:
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
            self._nulls[zone] = part.size - valid.size
            low, high = (valid.min(), valid.max()) if valid.size else (0, 0)
        self._low[zone], self._high[zone] = low, high
        self._is_known[zone] = True  # last: others may be reading

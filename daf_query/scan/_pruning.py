"""Zone maps and indexes, which leave out rows before these are read.

A zone map has the minimum, maximum and null count of each 65,536 rows.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from operator import and_, or_
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from daf_query.scan._options import ZONE_ROWS, Positions
from daf_query.scan._predicate import (
    COMPARISONS,
    And,
    Comparison,
    Constant,
    In,
    IsNull,
    Mask,
    Opaque,
    Or,
    Predicate,
    values_of_type,
)
from daf_storage.base import DecodedCache, Span


class ZoneMap:
    """The minimum, maximum and null count of each zone, as far as its values were read.

    Parameters
    ----------
    low, high
        By zone; of strings, dictionary codes.
    length
        Number of rows of the column.
    zone_rows
        Rows per zone; the last one may have fewer.
    is_known
        Whether the bounds are those of the column already.
    table
        Returns for which of the distinct strings a predicate is true.
    """

    def __init__(
        self,
        low: npt.NDArray[Any],
        high: npt.NDArray[Any],
        length: int,
        *,
        zone_rows: int,
        is_known: bool,
        table: Callable[[Comparison], Mask] | None = None,
    ) -> None:
        self.low, self.high = low, high
        self._length = length
        self.zone_rows = zone_rows
        self.is_known = np.full(len(low), is_known)
        self.nulls = np.zeros(len(low), np.int64)
        self.sizes = np.minimum(length - zone_rows * np.arange(len(low)), zone_rows)
        self.table = table

    @property
    def arrays(self) -> dict[str, npt.NDArray[Any]]:
        """The arrays that are stored."""
        rows = np.array([self.zone_rows], np.int64)
        return {"low": self.low, "high": self.high, "null": self.nulls, "zone": rows}

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
        """Return a stored zone map of a column of some length; shares the arrays.

        Raises
        ------
        ValueError
            The bounds or counts cannot be those of a column of this length.
        """
        count = -(-length // ZONE_ROWS)
        if {len(low), len(high), len(null_counts)} != {count} or zone_rows != ZONE_ROWS:
            raise ValueError(f"it has no {count:,} ranges of {ZONE_ROWS:,} rows")
        zone_map = cls(low, high, length, zone_rows=zone_rows, is_known=True)
        zone_map.nulls = null_counts
        if np.any(null_counts < 0) or np.any(null_counts > zone_map.sizes):
            raise ValueError("it counts more nulls than rows")
        if not np.all((low <= high) | (null_counts == zone_map.sizes)):
            raise ValueError("its largest values are smaller than the smallest")
        return zone_map

    @property
    def nbytes(self) -> int:
        """How much memory it takes."""
        return int(self.low.nbytes + self.high.nbytes) + 17 * len(self.low) + 256

    @classmethod
    def unknown(cls, length: int, dtype: np.dtype[Any], zone_rows: int = ZONE_ROWS) -> ZoneMap:
        """Return the zone map of a column of which nothing was read yet."""
        count = -(-length // zone_rows)
        bounds = np.zeros((2, count), dtype.newbyteorder("="))
        return cls(bounds[0], bounds[1], length, zone_rows=zone_rows, is_known=False)

    @classmethod
    def of_positions(cls, length: int, zone_rows: int) -> ZoneMap:
        """Return the zone map of the positions along an axis."""
        low = np.arange(0, length, zone_rows)
        high = np.minimum(low + zone_rows, length) - 1
        return cls(low, high, length, zone_rows=zone_rows, is_known=True)

    @classmethod
    def of_codes(
        cls, codes: npt.NDArray[Any], table: Callable[[Comparison], Mask], zone_rows: int
    ) -> ZoneMap:
        """Return the zone map of strings, whose bounds are dictionary codes."""
        starts = np.arange(0, len(codes), zone_rows)
        low = np.minimum.reduceat(codes, starts)
        high = np.maximum.reduceat(codes, starts)
        return cls(low, high, len(codes), zone_rows=zone_rows, is_known=True, table=table)

    def record(self, span: Span, values: npt.NDArray[Any]) -> None:
        """Update the zones that lie in a range that was read; idempotent, so needs no lock."""
        zone_rows = self.zone_rows
        for zone in range(-(-span.start // zone_rows), len(self.low)):
            start, stop = zone * zone_rows, min((zone + 1) * zone_rows, self._length)
            if stop > span.stop:
                return
            if not self.is_known[zone]:
                self._note(zone, values[start - span.start : stop - span.start])

    def _note(self, zone: int, part: npt.NDArray[Any]) -> None:
        low, high = part.min(), part.max()
        if low != low:  # noqa: PLR0124 - NaN, which is null here
            valid = part[~np.isnan(part)]
            self.nulls[zone] = part.size - valid.size
            low, high = (valid.min(), valid.max()) if valid.size else (0, 0)
        self.low[zone], self.high[zone] = low, high
        self.is_known[zone] = True  # last: others may be reading


def may_match(predicate: Predicate, zones: Callable[[str], ZoneMap | None], count: int) -> Mask:
    """Return which zones may have a row for which a predicate is true.

    Parameters
    ----------
    zones
        Returns the zone map of a column; ``None`` without one.
    count
        Number of zones.
    """
    if isinstance(predicate, Constant):
        return np.full(count, predicate.value)
    if isinstance(predicate, And | Or):
        parts = (may_match(part, zones, count) for part in predicate.parts)
        return functools.reduce(and_ if isinstance(predicate, And) else or_, parts)
    if isinstance(predicate, Opaque) or (bounds := zones(predicate.column)) is None:
        return np.ones(count, np.bool_)
    possible: Mask = ~bounds.is_known | _possible(predicate, bounds)
    return possible


def _possible(predicate: Comparison, zones: ZoneMap) -> Mask:
    low, high, has_value = zones.low, zones.high, zones.nulls < zones.sizes
    if zones.table is not None:
        counts = np.concatenate([[0], np.cumsum(zones.table(predicate))])
        some: Mask = counts[high.astype(np.int64) + 1] > counts[low.astype(np.int64)]
        return some & has_value
    if isinstance(predicate, IsNull):
        return has_value if predicate.is_negated else zones.nulls > 0
    if isinstance(predicate, In):
        if predicate.is_negated:
            return has_value
        wanted = np.sort(values_of_type(predicate.values, low.dtype))
        first = np.searchsorted(wanted, low, side="left")
        inside: Mask = first < np.searchsorted(wanted, high, side="right")
        return has_value & inside
    value, operator = predicate.value, predicate.operator
    possible: Mask
    if operator == "==":
        possible = (low <= value) & (high >= value)
    elif operator == "!=":
        possible = (low != value) | (high != value)
    else:
        possible = COMPARISONS[operator](high if operator in (">", ">=") else low, value)
    return has_value & possible


class RowIndex(Protocol):
    """Finds rows by the values of a column, or of two; of numbers, strings or points.

    May return false positives, never false negatives: the caller applies the filter again.
    """

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns that it is of."""
        ...

    def find(self, conditions: Sequence[Predicate], max_rows: int) -> Positions | None:
        """Return the rows for which all conditions may be true, ascending.

        Parameters
        ----------
        conditions
            Of the columns of the index.

        Returns
        -------
        numpy.ndarray or None
            ``None`` if there are more than ``max_rows``, or no condition restricts the rows.
        """
        ...


class StringRowIndex(RowIndex, Protocol):
    """An index of strings, which knows where each of them is stored."""

    def strings(self, positions: Positions) -> pa.Array | None:
        """Return the strings of a few rows; ``None`` for many."""
        ...


class Indexes(Protocol):
    """The indexes of the columns of a table."""

    def strings(self, column: str, cache: DecodedCache) -> StringRowIndex | None:
        """Return the sorted index of a column of strings, if there is one."""
        ...

    def zone_map(self, column: str, cache: DecodedCache) -> ZoneMap | None:
        """Return the stored zone map of a column of numbers, if there is one."""
        ...

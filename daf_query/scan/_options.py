"""Options of a scan, passed to everything that reads: which rows, and how, as frozen values."""

from __future__ import annotations

import os
from dataclasses import dataclass, fields
from typing import Any, Final, TypeAlias

import numpy as np
import numpy.typing as npt

from daf_storage import errors
from daf_storage.base import Span

ZONE_ROWS: Final = 1 << 16
"""Rows per zone of the zone maps that are stored; part of their format."""

_MAX_CODES: Final = 1 << 16


@dataclass(frozen=True, slots=True)
class ScanOptions:
    """How a table is cut into partitions, pruned and read; the rows are the same with any.

    The defaults suit tables of all sizes; tests make them small.  If a query has a row too many or
    too few, `indexes`, `pruning` and `direct` tell which of its short cuts is wrong.

    Examples
    --------
    >>> ScanOptions(partition_rows=1 << 16).partition_rows
    65536
    """

    zone_rows: int = ZONE_ROWS
    """Rows per zone of a zone map.  Stored zone maps are used only with the default."""
    partition_rows: int = 1 << 20
    """Rows on which a filter is evaluated at a time, rounded up to whole chunks."""
    min_partition_rows: int = 1 << 16
    """The fewest rows that are worth a partition of their own."""
    min_batch_rows: int = 1 << 14
    """So few rows that indexes name are read as one partition."""
    threads: int = os.cpu_count() or 1
    """How many fragments are scanned side by side."""
    sparse_divisor: int = 16
    """A column is read by offsets once at most one row in so many is left."""
    index_divisor: int = 16
    """An index is used if it names at most one row in so many."""
    min_joined_members: int = 32
    """So many small neighbours among several data sets are scanned as one table."""
    joined_member_rows: int = 1 << 14
    """A data set of more rows is scanned by itself."""
    joined_rows: int = 1 << 18
    """The most rows of a table that is joined of small ones."""
    max_values_in_memory: int = 1 << 18
    """A table of which a query reads no more values may be handed to the engine in memory."""
    min_joined_rows: int = 1 << 17
    """It is, where a query reads a table of so many rows beside it."""
    max_distinct_strings: int = _MAX_CODES
    """A column with more distinct strings has no dictionary codes."""
    indexes: bool = True
    """Whether indexes are used: sorted ones of strings, and R-trees."""
    pruning: bool = True
    """Whether partitions are left out where zone maps say that no row can match."""
    direct: bool = True
    """Whether simple queries are answered without being planned by the engine."""

    def __post_init__(self) -> None:
        for option in fields(self):
            value = getattr(self, option.name)
            if value < 1 and value is not False:
                raise errors.InvalidInputError(f"{option.name} is {value}; it has to be positive")
        if self.max_distinct_strings > _MAX_CODES:
            raise errors.InvalidInputError(
                f"max_distinct_strings is {self.max_distinct_strings:,}; dictionary codes have two "
                f"bytes, so it can be {_MAX_CODES:,} at most"
            )


DEFAULT_OPTIONS: Final = ScanOptions()


Positions: TypeAlias = npt.NDArray[np.int64]
"""Row numbers along an axis, from 0."""


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

    def where(self, mask: npt.NDArray[np.bool_]) -> Rows:
        """Return those of the rows for which a mask is true."""
        offsets = np.flatnonzero(mask) if self.offsets is None else self.offsets[mask]
        return Rows(self.span, offsets)

    def part(self, start: int, stop: int) -> Rows:
        """Return some of the rows, counted from the first one.

        >>> Rows(Span(10, 20)).part(2, 4).positions.tolist()
        [12, 13]
        """
        offsets = np.arange(self.span.size) if self.offsets is None else self.offsets
        return Rows(self.span, offsets[start:stop])

    def of(self, column: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """Return these rows of a whole column; of a span, as a view."""
        values = column[self.span.slice]
        return values if self.offsets is None else values[self.offsets]

"""Rows for which an index alone tells that a condition on their geometry is true.

A geometry whose box lies strictly within a rectangle satisfies ``ST_Intersects``, ``ST_Within`` and
the like, whatever its shape is.  Where a query uses its column in that condition alone, the
engine is given a point within the rectangle in its place, and the stored one is not decoded.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from daf_query.scan import (
    Column,
    OpenColumn,
    Positions,
    Predicate,
    ScanOptions,
    Values,
    ZoneMap,
    cast_to,
)
from daf_storage.spi import DecodedCache, Span


@dataclass(frozen=True, eq=False, slots=True)
class SettledRows:
    """The rows of one column that a condition is true for."""

    column: str
    """The column, which the query uses in that condition alone."""
    rows: Positions
    """Given ascending."""
    geometry: bytes
    """A geometry that satisfies the condition too, as WKB."""
    is_current: Callable[[], bool]
    """Returns whether index and geometries are those that the rows were found in."""


@dataclass(frozen=True, eq=False)
class SettledColumn:
    """A column of geometries of which those of settled rows are replaced when rows are taken.

    Filters that are handed to the table are evaluated on the stored geometries.
    """

    column: Column
    settled: SettledRows

    @property
    def field(self) -> pa.Field:
        """Its name and Arrow type."""
        return self.column.field

    @property
    def chunk_rows(self) -> int:
        """How many rows are stored together."""
        return self.column.chunk_rows

    @property
    def is_string(self) -> bool:
        """Whether its values are strings or bytes."""
        return self.column.is_string

    def open(self, cache: DecodedCache, options: ScanOptions) -> OpenColumn:
        """Begin to read it."""
        opened = self.column.open(cache, options)
        if not self.settled.is_current():
            return opened
        return _OpenSettled(opened, self.settled, self.field.type)


class _OpenSettled:
    """A column of geometries that is being read."""

    def __init__(self, column: OpenColumn, settled: SettledRows, kind: pa.DataType) -> None:
        self._column = column
        self._settled = settled
        self._kind = kind

    @property
    def zones(self) -> ZoneMap | None:
        """Smallest and largest values of ranges of rows, as far as they are known."""
        return self._column.zones

    def find(self, conditions: Sequence[Predicate], max_rows: int) -> Positions | None:
        """Return the rows for which all conditions may be true."""
        return self._column.find(conditions, max_rows)

    def load(self) -> None:
        """Get ready to be read."""
        self._column.load()

    def values(self, span: Span) -> Values:
        """Return the stored values of a range."""
        return self._column.values(span)

    def pick(self, span: Span, places: Positions) -> Values:
        """Return the stored values of some rows."""
        return self._column.pick(span, places)

    def array(self, span: Span) -> pa.Array:
        """Return a range."""
        return self.take(span, np.arange(span.size))

    def take(self, span: Span, places: Positions) -> pa.Array:
        """Return some rows; of those that are not settled, only the chunks are decoded."""
        is_settled = np.isin(places + span.start, self._settled.rows)
        if not is_settled.any():
            return self._column.take(span, places)
        parts = [pa.array([self._settled.geometry], pa.large_binary())]
        if not is_settled.all():
            stored = self._column.take(span, places[~is_settled])
            parts.append(stored.cast(pa.large_binary()))
        from_parts = np.where(is_settled, 0, np.cumsum(~is_settled))
        return cast_to(pa.concat_arrays(parts).take(pa.array(from_parts)), self._kind)

"""Rows for which an index alone proves that a spatial predicate is true.

A geometry whose box lies strictly within a rectangle satisfies ``ST_Intersects``, ``ST_Within`` and
the like, whatever its shape is.  Where a query uses its column in that predicate alone, the engine
is given a point within the rectangle in its place, and the stored geometry is not decoded.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from daf_query.scan import OpenColumn, Positions, Rows, ScanOptions, cast_to
from daf_query.table._wrapped_column import WrappedColumn, WrappedOpenColumn
from daf_storage.spi import DecodedCache


@dataclass(frozen=True, eq=False, slots=True)
class SettledRows:
    """The rows of one column for which a predicate is known to be true."""

    column: str
    """The column, which the query uses in that predicate alone."""
    rows: Positions
    """Ascending."""
    geometry: bytes
    """A geometry that satisfies the predicate too, as WKB."""
    is_current: Callable[[], bool]
    """Returns whether index and geometries are still those from which the rows follow."""


@dataclass(frozen=True, eq=False)
class SettledColumn(WrappedColumn):
    """A column of geometries of which those of settled rows are replaced in results.

    Filters that are pushed down to the table are evaluated on the stored geometries.
    """

    settled: SettledRows

    def open(self, cache: DecodedCache, options: ScanOptions) -> OpenColumn:
        """Open it for reading."""
        opened = self.column.open(cache, options)
        if not self.settled.is_current():
            return opened
        return _OpenSettled(opened, self.settled, self.field.type)


class _OpenSettled(WrappedOpenColumn):
    """A column of geometries that is being read."""

    def __init__(self, column: OpenColumn, settled: SettledRows, arrow_type: pa.DataType) -> None:
        super().__init__(column)
        self._settled = settled
        self._arrow_type = arrow_type

    def to_arrow(self, rows: Rows) -> pa.Array:
        """Return geometries; of rows that are not settled, only the chunks are decoded."""
        is_settled = np.isin(rows.positions, self._settled.rows)
        if not is_settled.any():
            return self._column.to_arrow(rows)
        parts = [pa.array([self._settled.geometry], pa.large_binary())]
        if not is_settled.all():
            unsettled = Rows(rows.span, rows.positions[~is_settled] - rows.span.start)
            parts.append(self._column.to_arrow(unsettled).cast(pa.large_binary()))
        from_parts = np.where(is_settled, 0, np.cumsum(~is_settled))
        return cast_to(pa.concat_arrays(parts).take(pa.array(from_parts)), self._arrow_type)

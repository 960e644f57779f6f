"""Rows as they travel, within the limits of a server."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import pyarrow as pa

from daf_query._wire import joined, wire_parts, wire_schema
from daf_query.flight_sql._limits import FlightSqlLimits, limit_reached
from daf_query.flight_sql._statuses import InvalidRequest

__all__ = ["joined", "wire_batches", "wire_schema"]


def wire_batches(
    batches: Iterable[pa.RecordBatch], schema: pa.Schema, limits: FlightSqlLimits
) -> Iterator[pa.RecordBatch]:
    """Yield rows in parts of a few megabytes, in the types of a schema.

    Raises
    ------
    InvalidRequest
        They are more than a result may have.
    """
    rows = size = 0
    for part in wire_parts(batches, schema):
        rows += part.num_rows
        size += part.nbytes
        _check(rows, size, limits)
        yield part


def _check(rows: int, size: int, limits: FlightSqlLimits) -> None:
    for count, most, unit, option in (
        (rows, limits.max_rows, "rows", "max_rows"),
        (size, limits.max_bytes, "bytes", "max_bytes"),
    ):
        if most is not None and count > most:
            problem = f"the result has more than {most:,} {unit}"
            raise InvalidRequest(limit_reached(problem, option))

"""The values of the parameters of a prepared statement, as clients send them."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from daf_query.flight_sql._limits import FlightSqlLimits, limit_reached
from daf_query.flight_sql._statuses import InvalidRequest
from daf_query.sql import Params, bind, placeholders


def bound_query(query: str, reader: Any, limits: FlightSqlLimits) -> str:
    """Return a query with the values of the one row that a client sends.

    Raises
    ------
    InvalidRequest
        There is no row, or several, or they are too large.
    InvalidInputError
        The values do not fit the parameters.
    """
    rows = _one_row(reader, limits)
    _, names = placeholders(query)
    return bind(query, _params(names, rows))


def _one_row(reader: Any, limits: FlightSqlLimits) -> pa.RecordBatch:
    """Return the only row; what follows is not read."""
    kept: pa.RecordBatch | None = None
    for chunk in reader:
        batch = chunk.data
        if batch is None or batch.num_rows == 0:
            continue
        if kept is not None or batch.num_rows > 1:
            raise InvalidRequest(
                "a statement takes one row of parameters, and was given several; execute it for "
                "each"
            )
        if batch.nbytes > limits.max_query_bytes:
            problem = f"the parameters have {batch.nbytes:,} bytes"
            raise InvalidRequest(limit_reached(problem, "max_query_bytes"))
        kept = batch
    if kept is None:
        raise InvalidRequest("the statement was given no row of parameters")
    return kept


def _params(names: list[str], row: pa.RecordBatch) -> Params:
    """Return values by name, if the columns are named like the parameters; else in their order."""
    values = [column[0] for column in row.columns]
    by_name = not all(name.isdecimal() for name in names)
    if not by_name:
        return [_value(value) for value in values]
    columns = row.schema.names if set(row.schema.names) == set(names) else names
    if len(columns) != len(values):
        return {name: _value(value) for name, value in zip(row.schema.names, values, strict=True)}
    return {name: _value(value) for name, value in zip(columns, values, strict=True)}


def _value(value: pa.Scalar) -> Any:
    """Return a value of Python: of a list, for IN, its items."""
    return value.as_py()

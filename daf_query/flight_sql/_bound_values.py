"""The values of the parameters of a prepared statement, as clients send them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import flight

from daf_query.flight_sql._limits import FlightSqlLimits, limit_reached
from daf_query.flight_sql._statuses import InvalidRequest
from daf_query.sql import Params, bind, unbound

_VIEW_WORDS: Final = 4
"""Numbers of 32 bits per view of a string; the first is its length."""
_SHOWN: Final = 200


def bound_query(query: str, reader: Any, limits: FlightSqlLimits) -> str:
    """Return a query with the values of the one row that a client sends.

    Raises
    ------
    InvalidRequest
        There is no row, or several, or they are too large, or damaged.
    InvalidInputError
        The values do not fit the parameters.
    """
    rows = _one_row(reader, limits)
    _, names = unbound(query)
    return bind(query, _params(names, rows))


def _one_row(reader: Any, limits: FlightSqlLimits) -> pa.RecordBatch:
    """Return the only row; what follows is not read."""
    kept: pa.RecordBatch | None = None
    for batch in _batches(reader):
        if batch is None or batch.num_rows == 0:
            continue
        if kept is not None or batch.num_rows > 1:
            raise InvalidRequest(
                "a statement takes one row of parameters, and was given several; execute it for "
                "each"
            )
        _check(batch, limits)
        kept = batch
    if kept is None:
        raise InvalidRequest("the statement was given no row of parameters")
    return kept


def _batches(reader: Any) -> Iterator[pa.RecordBatch | None]:
    """Yield what a client sends, which may be no Arrow at all."""
    try:
        for chunk in reader:
            yield chunk.data
    except flight.FlightError:  # the client has gone
        raise
    except (pa.ArrowException, OSError) as error:
        raise InvalidRequest(f"the parameters are no Arrow: {str(error)[:_SHOWN]}") from None


def _check(row: pa.RecordBatch, limits: FlightSqlLimits) -> None:
    """Raise unless what a client sent is whole, and of a size that may become a query."""
    try:
        row.validate(full=True)  # offsets out of range would be read out of the memory of others
        _ = row.schema.names  # which may be no UTF-8
    except (pa.ArrowException, UnicodeDecodeError) as error:
        raise InvalidRequest(f"the parameters are damaged: {error}") from None
    size = max(_own_bytes(row), sum(_size_bytes(column[0]) for column in row.columns))
    if size > limits.max_query_bytes:
        problem = f"the parameters have {size:,} bytes"
        raise InvalidRequest(limit_reached(problem, "max_query_bytes"))


def _own_bytes(row: pa.RecordBatch) -> int:
    """Return how many bytes a row has, or the batch that it is of where that is not known."""
    try:
        return int(row.nbytes)
    except pa.ArrowException:  # pyarrow 21 does not know it of views
        return int(row.get_total_buffer_size())


def _size_bytes(value: pa.Scalar) -> int:
    """Return how many bytes a value has at least, written as SQL; of a list, its items.

    A list may have many items in few bytes: nulls, or one string again and again.
    """
    items = getattr(value, "values", None)
    return len(items) + _string_bytes(items) if isinstance(items, pa.Array) else 0


def _string_bytes(items: pa.Array) -> int:
    """Return how many bytes the strings of an array have, each as often as it occurs.

    >>> _string_bytes(pa.array(["ab", "ab", None]).dictionary_encode())
    4
    >>> _string_bytes(pa.array(["a long string of a view", "b"], pa.string_view()))
    24
    """
    kind = items.type
    if pa.types.is_dictionary(kind):
        lengths = _lengths(items.dictionary)
        return int(lengths[items.indices.drop_null().to_numpy()].sum()) if len(lengths) else 0
    if pa.types.is_nested(kind) or pa.types.is_run_end_encoded(kind):
        raise InvalidRequest(f"a parameter cannot be a list of {kind}; send a list of plain values")
    return int(_lengths(items).sum())


def _lengths(items: pa.Array) -> Any:
    kind = items.type
    if pa.types.is_string_view(kind) or pa.types.is_binary_view(kind):
        views = np.frombuffer(items.buffers()[1], np.int32)[::_VIEW_WORDS]
        return views[items.offset : items.offset + len(items)].astype(np.int64)
    if pa.types.is_string(kind) or pa.types.is_binary(kind):
        return pc.fill_null(pc.binary_length(items), 0).to_numpy().astype(np.int64)
    if pa.types.is_large_string(kind) or pa.types.is_large_binary(kind):
        return pc.fill_null(pc.binary_length(items), 0).to_numpy()
    return np.zeros(len(items), np.int64)


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
    try:
        return value.as_py()
    except (ValueError, OverflowError, LookupError) as error:  # a time, or a zone, of no calendar
        raise InvalidRequest(
            f"a parameter has a {value.type} that is out of range: {error}"
        ) from None

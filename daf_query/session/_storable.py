"""Columns of a result in the types that are stored: numbers, booleans and strings."""

from __future__ import annotations

from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from daf_storage import errors

_STORED_AS: Final = {pa.string_view(): pa.string(), pa.float16(): pa.float32()}


def storable(column: pa.Array | pa.ChunkedArray, what: str, rows: str) -> pa.Array:
    """Return values of a type that is stored; missing numbers are NaN, missing strings null.

    Parameters
    ----------
    what, rows
        What is to be stored, and what it has a value for, for messages.

    Raises
    ------
    UnsupportedDataError
        There is no such type of stored values.
    QueryError
        A value is missing that is neither a float nor a string.
    """
    values: Any = one_array(column)
    values = values.cast(_STORED_AS.get(values.type, values.type))
    is_floating = pa.types.is_floating(values.type)
    is_known = is_floating or pa.types.is_integer(values.type) or pa.types.is_boolean(values.type)
    is_string = is_any_string(values.type)
    if not is_known and not is_string:
        raise errors.UnsupportedDataError(
            f"{what} cannot hold {values.type}; CAST it to VARCHAR or DOUBLE"
        )
    if values.null_count and is_string:
        _check_no_empty(values, rows)
        return values
    if values.null_count and not is_floating:
        raise errors.QueryError(
            f"the query yields NULL for {values.null_count:,} {rows}, which only "
            "floats can be (as NaN), and strings; use coalesce(), or CAST it to DOUBLE"
        )
    return pc.fill_null(values, float("nan")) if values.null_count else values


def one_array(column: pa.Array | pa.ChunkedArray) -> pa.Array:
    """Return a column as one array of plain values, without dictionary."""
    if isinstance(column, pa.ChunkedArray):
        if pa.types.is_dictionary(column.type):
            column = column.cast(column.type.value_type)
        column = pa.concat_arrays(column.chunks) if column.chunks else pa.array([], column.type)
    if pa.types.is_dictionary(column.type):
        column = column.dictionary_decode()
    return column


def is_any_string(arrow_type: pa.DataType) -> bool:
    """Return whether values of a type are strings."""
    return arrow_type in (pa.string(), pa.large_string(), pa.string_view())


def _check_no_empty(column: pa.Array, rows: str) -> None:
    """Raise if some strings are missing and others empty: both would be stored as empty ones."""
    if pc.any(pc.equal(column, "")).as_py():
        raise errors.QueryError(
            f"the query yields NULL for some {rows} and '' for others, and both "
            "would be stored as ''; coalesce() makes all of them '', nullif(..., '') all of them "
            "NULL"
        )

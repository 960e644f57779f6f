"""Vectors derived by a query: one value for each entry of an axis, in the order of the axis."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from daf_query.scan import INDEX, NAME
from daf_query.slice import WrappedSql, explained_of, is_select, positions_in
from daf_query.sql import Engine, quoted_name
from daf_storage import DafReader, errors

_VALUE = "value"


def derived(engine: Engine, schema: str, axis: str, query: str) -> pa.Array:
    """Return the values of a query for the entries of an axis; strings may be null.

    Parameters
    ----------
    query
        An expression of the columns of the axis, or a SELECT that yields ``name`` or ``index``
        and one other column, for each entry once.
    """
    if not query.strip():
        raise errors.QueryError("the query is empty; write an expression, or a SELECT")
    daf = engine.connections.reader(schema)
    if is_select(query):
        table = engine.plan(query, once=(INDEX, NAME)).to_arrow_table()
    else:
        table = _of_expression(engine, schema, axis, query)
    values = [name for name in table.column_names if name not in (NAME, INDEX)]
    if len(values) != 1:
        raise errors.QueryError(
            f"a vector needs one column of values beside {NAME!r} or {INDEX!r}; the query yields "
            f"{', '.join(table.column_names)}"
        )
    positions = positions_in(table, daf, axis, "query")
    _check_complete(positions, daf, axis)
    column = table.column(values[0]).take(pa.array(np.argsort(positions)))
    return _storable(column.combine_chunks(), axis)


def _of_expression(engine: Engine, schema: str, axis: str, text: str) -> pa.Table:
    table = f"{quoted_name(schema)}.{quoted_name(axis)}"
    # Not an injection: the query is read-only, one statement, and the expression is SQL by design.
    start, end = f"SELECT {quoted_name(INDEX)}, (\n", f"\n) AS {_VALUE} FROM {table}"
    wrapped = WrappedSql(text, ((0, start), (len(text), end)))
    try:
        return engine.plan_raw(wrapped.query).to_arrow_table()
    except Exception as error:  # noqa: BLE001 - the engine raises plain Exceptions
        raise explained_of(error, wrapped, engine, what="expression") from None


def _check_complete(positions: Any, daf: DafReader, axis: str) -> None:
    counts = np.bincount(positions, minlength=daf.axis_length(axis))
    for problem, wrong, advice in (
        ("lacks", counts == 0, "a LEFT JOIN from the axis and coalesce() give the others a value"),
        ("has more than one row for", counts > 1, "GROUP BY its name"),
    ):
        if wrong.any():
            first = daf.get_pa_vector(axis, NAME)[int(np.argmax(wrong))].as_py()
            raise errors.QueryError(
                f"the query {problem} {int(wrong.sum()):,} of {len(counts):,} entries of axis "
                f"{axis!r}, the first is {first!r}; {advice}"
            )


def _storable(column: Any, axis: str) -> pa.Array:
    """Return values of a type that is stored; missing numbers are NaN, missing strings null."""
    if isinstance(column, pa.ChunkedArray):
        column = pa.concat_arrays(column.chunks)
    if pa.types.is_dictionary(column.type):
        column = column.dictionary_decode()
    plain = {pa.string_view(): pa.string(), pa.float16(): pa.float32()}
    column = column.cast(plain.get(column.type, column.type))
    is_floating = pa.types.is_floating(column.type)
    is_known = is_floating or pa.types.is_integer(column.type) or pa.types.is_boolean(column.type)
    is_string = column.type in (pa.string(), pa.large_string())
    if not is_known and not is_string:
        raise errors.UnsupportedDataError(
            f"a vector of axis {axis!r} cannot hold {column.type}; CAST it to VARCHAR or DOUBLE"
        )
    if column.null_count and is_string:
        _check_no_empty(column, axis)
        return column
    if column.null_count and not is_floating:
        raise errors.QueryError(
            f"the query yields NULL for {column.null_count:,} entries of axis {axis!r}, which only "
            "floats can be (as NaN), and strings; use coalesce(), or CAST it to DOUBLE"
        )
    return pc.fill_null(column, float("nan")) if column.null_count else column


def _check_no_empty(column: pa.Array, axis: str) -> None:
    """Raise if some strings are missing and others empty: both would be stored as empty ones."""
    if pc.any(pc.equal(column, "")).as_py():
        raise errors.QueryError(
            f"the query yields NULL for some entries of axis {axis!r} and '' for others, and both "
            "would be stored as ''; coalesce() makes all of them '', nullif(..., '') all of them "
            "NULL"
        )

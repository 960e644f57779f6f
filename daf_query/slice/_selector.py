"""Turn a selector, which is passed as ``rows=`` or ``columns=``, into a `Selection`."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from daf_query.scan import INDEX, NAME
from daf_query.slice._selection import Selection
from daf_query.sql import Engine, quoted_name, strip_prefixes, translate_planning_error
from daf_storage import DafReader, errors

Selector: TypeAlias = (
    str
    | slice
    | range
    | Sequence[str]
    | Sequence[int]
    | Sequence[bool]
    | npt.NDArray[Any]
    | Any
    | None
)
"""All; SQL; positions; names; or a mask."""

_SELECT = re.compile(
    r"^(?:\s|\(|--[^\n]*\n|/\*.*?\*/)*(?:SELECT|WITH)\b", re.IGNORECASE | re.DOTALL
)
_WRAPPERS = ("Projection", "Limit", "SubqueryAlias", "Distinct")


def is_select(sql: str) -> bool:
    """Return whether SQL is a whole query, not a part of one."""
    return _SELECT.match(sql) is not None


def resolve(
    engine: Engine, schema: str, axis: str, selector: Selector, *, keyword: str, other: str
) -> Selection:
    """Return the entries that a selector chooses; ``keyword`` and ``other`` are for messages."""
    daf = engine.daf(schema)
    length = daf.axis_length(axis)
    if selector is None:
        return Selection.all(length)
    if isinstance(selector, str):
        if is_select(selector):
            positions = _from_select(engine, daf, axis, selector, keyword)
        else:
            positions = _from_predicate(engine, schema, axis, selector, keyword, other)
    else:
        positions = _from_list(daf, axis, selector, length, keyword)
    return Selection.of(positions, length)


def _from_predicate(
    engine: Engine, schema: str, axis: str, predicate: str, keyword: str, other: str
) -> npt.NDArray[np.int64]:
    if not predicate.strip():
        raise errors.QueryError(f"{keyword}= is an empty predicate; leave it out to take all")
    name = f"{quoted_name(schema)}.{quoted_name(axis)}"
    start = f"SELECT {quoted_name(INDEX)} FROM {name} WHERE (\n"  # noqa: S608 - see below
    # Not an injection: the query is read-only, one statement, and the predicate is SQL by design.
    query = f"{start}{predicate}\n)"
    try:
        table = engine.plan_raw(query).to_arrow_table()
    except Exception as error:  # the engine raises plain Exceptions
        explained = explained_of(error, predicate, query, engine)
        daf = engine.daf(schema)
        if not isinstance(explained, errors.VectorNotFoundError):
            raise type(explained)(f"{keyword}= on axis {axis!r}: {explained}") from error
        raise _wrong_axis(explained, daf, predicate, keyword, axis, other) from error
    return np.sort(table.column(0).to_numpy().astype(np.int64))


def order_of(engine: Engine, schema: str, axis: str, by: str) -> npt.NDArray[np.int64]:
    """Return the positions of an axis in an SQL order; equal entries keep theirs."""
    if not by.strip():
        raise errors.QueryError("the order is empty; write what comes after ORDER BY")
    if is_select(by):
        return _from_select(engine, engine.daf(schema), axis, by, "by")
    name = f"{quoted_name(schema)}.{quoted_name(axis)}"
    start = f"SELECT {quoted_name(INDEX)} FROM {name} ORDER BY\n"  # noqa: S608 - as above
    query = f"{start}{by}\n, {quoted_name(INDEX)}"
    try:
        table = engine.plan_raw(query).to_arrow_table()
    except Exception as error:  # the engine raises plain Exceptions
        raise explained_of(error, by, query, engine, what="order") from error
    positions: npt.NDArray[np.int64] = table.column(0).to_numpy().astype(np.int64)
    return positions


def _wrong_axis(
    error: errors.VectorNotFoundError,
    daf: DafReader,
    predicate: str,
    keyword: str,
    axis: str,
    other: str,
) -> errors.VectorNotFoundError:
    """Add where the column is instead, or how to ask for an entry by its name."""
    hint = ""
    opposite = "columns" if keyword == "rows" else "rows"
    if other != axis and f"axis {other!r} has a vector" in str(error):
        hint = f": pass this predicate as {opposite}="
    else:
        bare = predicate.strip().strip("'\"")
        positions = daf.axis_indices(axis, [bare], allow_missing=True, allow_empty=True)
        if positions[0] >= 0:
            hint = f"; to take an entry by its name pass a list: {keyword}=[{bare!r}]"
    return errors.VectorNotFoundError(f"{keyword}= on axis {axis!r}: {error}{hint}")


def explained_of(
    error: Exception, predicate: str, query: str, engine: Engine, *, what: str = "predicate"
) -> errors.DafError:
    """Explain an error; lines and columns are those of the predicate, not of our query."""
    explained = translate_planning_error(error, query, engine.schemas, engine.shared)
    if isinstance(explained, errors.QueryError) and "syntax error" in str(explained):
        match = re.search(r"Line: (\d+), Column: (\d+)", str(error))
        line = int(match.group(1)) - 2 if match else len(predicate.split("\n")) - 1
        lines = predicate.split("\n")
        is_inside = match is not None and 0 <= line < len(lines)
        column = int(match.group(2)) if match and is_inside else len(lines[-1]) + 1
        reason = str(explained).split("\n", 1)[0].split(": ", 1)[1]
        shown = lines[line] if is_inside else lines[-1]
        return errors.QueryError(
            f"SQL syntax error in the {what}: {reason}\n  {shown}\n  {' ' * (column - 1)}^"
        )
    return explained


def _from_select(
    engine: Engine, daf: DafReader, axis: str, query: str, keyword: str
) -> npt.NDArray[np.int64]:
    frame = engine.plan(query, once=(INDEX, NAME))
    try:
        table = frame.to_arrow_table()
    except Exception as error:  # the engine raises plain Exceptions
        raise errors.QueryError(f"{keyword}=: {strip_prefixes(str(error))}") from error
    positions = positions_in(table, daf, axis, keyword)
    unique, first = np.unique(positions, return_index=True)
    return positions[np.sort(first)] if _is_ordered(frame) else unique


def positions_in(table: pa.Table, daf: DafReader, axis: str, keyword: str) -> npt.NDArray[np.int64]:
    """Return the positions of the entries that the rows of a result name."""
    if INDEX in table.column_names:
        column = table.column(INDEX)
        _refuse_nulls(column, INDEX, keyword)
        return _checked(_integers(column, keyword), daf, axis, keyword)
    if NAME in table.column_names:
        column = table.column(NAME)
        _refuse_nulls(column, NAME, keyword)
        return daf.axis_indices(axis, column)
    raise errors.QueryError(
        f"{keyword}= is a SELECT that yields {', '.join(table.column_names)}; it has to yield "
        f"the column {NAME!r} or {INDEX!r} of axis {axis!r}"
    )


def _is_ordered(frame: Any) -> bool:
    """Return whether the query ends in an ORDER BY."""
    plan = frame.logical_plan()
    while True:
        node_type = type(plan.to_variant()).__name__
        if node_type == "Sort":
            return True
        if node_type not in _WRAPPERS:
            return False
        plan = plan.inputs()[0]


def _from_list(
    daf: DafReader, axis: str, selector: Any, length: int, keyword: str
) -> npt.NDArray[np.int64]:
    if isinstance(selector, slice):
        return np.arange(length)[selector]
    if isinstance(selector, pa.ChunkedArray | pa.Array):
        selector = selector.to_numpy(zero_copy_only=False)
    labels = getattr(selector, "index", None)
    values = np.asarray(selector)
    if values.ndim != 1:
        raise errors.InvalidInputError(
            f"{keyword}= is neither SQL nor a list of names, positions or booleans: {selector!r}"
        )
    if values.size == 0:
        return np.empty(0, np.int64)
    if values.dtype.kind == "b":
        if values.size != length:
            what = f"the mask passed as {keyword}="
            raise errors.wrong_length(daf.location, what, values.size, axis, length)
        daf.check_labels(axis, labels, f"the mask passed as {keyword}=")
        return np.flatnonzero(values)
    if values.dtype.kind in "iu":
        return _checked(values.astype(np.int64), daf, axis, keyword)
    if all(isinstance(value, str) for value in values):
        return daf.axis_indices(axis, values)
    raise errors.InvalidInputError(
        f"{keyword}= mixes types or holds {type(values[0]).__name__} values; pass names (strings), "
        "positions (integers) or a mask (booleans)"
    )


def _integers(column: Any, keyword: str) -> npt.NDArray[np.int64]:
    if not pa.types.is_integer(column.type):
        raise errors.QueryError(
            f"{keyword}=: the column {INDEX!r} holds {column.type}, not integers"
        )
    integers: npt.NDArray[np.int64] = column.to_numpy().astype(np.int64)
    return integers


def _refuse_nulls(column: Any, name: str, keyword: str) -> None:
    if column.null_count:
        raise errors.QueryError(
            f"{keyword}= is a SELECT that yields NULL as {name!r} {column.null_count} times; "
            f"add: WHERE {name} IS NOT NULL"
        )


def _checked(
    positions: npt.NDArray[np.int64], daf: DafReader, axis: str, keyword: str
) -> npt.NDArray[np.int64]:
    length = daf.axis_length(axis)
    outside = positions[(positions < 0) | (positions >= length)]
    if outside.size:
        raise errors.EntryNotFoundError(
            f"{daf.location}: {keyword}= asks for position {outside[0]:,} of axis {axis!r}; "
            f"positions count from 0 to {length - 1:,}"
        )
    return positions

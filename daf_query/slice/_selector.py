"""Turn selectors, as ``rows=`` and ``columns=`` have them, into queries and entries."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from daf_query.matrix import Selection
from daf_query.scan import INDEX, NAME
from daf_query.slice._entry_list import positions_in, positions_of
from daf_query.sql import (
    Engine,
    QueryResult,
    computed_table,
    in_all,
    is_ordered,
    strip_prefixes,
)
from daf_query.syntax import (
    Edit,
    WrappedSql,
    clauses_of,
    is_select,
    python_edits,
    quoted_name,
)
from daf_query.table import DATASET
from daf_storage import DafReader, errors


@dataclass(frozen=True, slots=True)
class RowKey:
    """How a query says which rows of a table it chooses."""

    columns: str
    """What it selects."""
    order: str
    """What it orders by: the order of the table."""


INDEX_KEY: Final = RowKey(quoted_name(INDEX), quoted_name(INDEX))
"""Of the table of one data set."""


def predicate_query(
    schema: str,
    axis: str,
    predicate: str,
    edits: tuple[Edit, ...] = (),
    key: RowKey = INDEX_KEY,
) -> tuple[WrappedSql, bool]:
    """Return the query for the positions that a predicate chooses, and whether it has an order.

    The predicate may end in ORDER BY, LIMIT and OFFSET, or have only these.  Entries that are equal
    in the order, and those of a LIMIT without one, come in the order of the axis.

    Parameters
    ----------
    edits
        What is written differently in the condition.
    key
        What says which rows are chosen.

    Examples
    --------
    >>> print(predicate_query("pbmc", "cell", "age > 60 ORDER BY age LIMIT 3")[0].query)
    SELECT "index" FROM "pbmc"."cell" WHERE (
    age > 60 ) ORDER BY age , "index" LIMIT 3
    """
    table = f"{quoted_name(schema)}.{quoted_name(axis)}"
    # Not an injection: the query is read-only, one statement, and the predicate is SQL by design.
    start = f"SELECT {key.columns} FROM {table} "  # noqa: S608
    clauses = clauses_of(predicate)
    order = next((clause.start for clause in clauses if clause.is_word("ORDER")), None)
    limit = next((clause.start for clause in clauses if not clause.is_word("ORDER")), None)
    first = min(start for start in (order, limit, len(predicate)) if start is not None)
    has_filter = bool(predicate[:first].strip())
    before = Edit(0, 0, f"{start}WHERE (\n" if has_filter else f"{start}\n")
    after = [Edit(first, first, ") " if clauses else "\n)")] if has_filter else []
    if order is None and limit is not None:
        after.append(Edit(limit, limit, f"ORDER BY {key.order} "))
    elif order is not None:
        is_last = limit is None or limit < order
        end = len(predicate) if is_last or limit is None else limit
        after.append(Edit(end, end, f"\n, {key.order}" if is_last else f", {key.order} "))
    return WrappedSql(predicate, (before, *edits, *after)), bool(clauses)


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
"""All; SQL; positions, names or a mask, in any container; a table or a query result."""


def resolve(
    engine: Engine,
    schema: str,
    axis: str,
    selector: Selector,
    *,
    keyword: str,
    other: str,
    length: int | None = None,
) -> Selection:
    """Return the entries that a selector chooses.

    Parameters
    ----------
    keyword, other
        What the selector is passed as, and the other axis, for messages.
    length
        How many entries the axis has, if it has just been looked at.
    """
    daf = engine.connections.reader(schema)
    length = daf.axis_length(axis) if length is None else length
    if selector is None:
        return Selection.all(length)
    if isinstance(selector, QueryResult):
        positions = _in_order(selector.to_arrow_table(), selector.frame, daf, axis, keyword)
    elif isinstance(selector, str):
        if is_select(selector):
            positions = _from_select(engine, daf, axis, selector, keyword)
        else:
            positions = _from_predicate(engine, schema, axis, selector, keyword, other)
    else:
        positions = positions_of(daf, axis, selector, keyword)
    return Selection.of(positions, length)


def _from_predicate(
    engine: Engine, schema: str, axis: str, predicate: str, keyword: str, other: str
) -> npt.NDArray[np.int64]:
    table, is_ordered = predicate_rows(
        engine, schema, axis, predicate, keyword=keyword, other=other
    )
    positions: npt.NDArray[np.int64] = table.column(0).to_numpy().astype(np.int64)
    return positions if is_ordered else np.sort(positions)


def predicate_rows(
    engine: Engine,
    schema: str,
    axis: str,
    predicate: str,
    *,
    keyword: str,
    other: str,
    key: RowKey = INDEX_KEY,
) -> tuple[pa.Table, bool]:
    """Return the rows that a predicate chooses, by their key, and whether it has an order.

    Raises
    ------
    QueryError
        The predicate is wrong.
    VectorNotFoundError
        It names an unknown column.
    """
    if not predicate.strip():
        raise errors.QueryError(f"{keyword}= is an empty predicate; leave it out to take all")
    direct = engine.direct.of_rows(schema, axis, predicate) if key is INDEX_KEY else None
    try:
        edits = () if direct else python_edits(predicate)
    except errors.QueryError as error:
        raise errors.with_message(error, f"{keyword}= on axis {axis!r}: {error}") from None
    wrapped, is_ordered = predicate_query(schema, axis, predicate, edits, key)
    try:
        if direct is not None:
            return direct.to_table(), False
        return engine.rows_of(wrapped, "predicate"), is_ordered
    except errors.DafError as explained:
        if not isinstance(explained, errors.VectorNotFoundError):
            message = f"{keyword}= on axis {axis!r}: {explained}"
            raise errors.with_message(explained, message) from None
        readers = [daf for daf, _ in engine.connections.schemas[schema].data_sets()]
        raise _wrong_axis(explained, readers, predicate, keyword, axis, other) from None


def order_of(engine: Engine, schema: str, axis: str, by: str) -> npt.NDArray[np.int64]:
    """Return the positions of an axis in an SQL order; equal entries keep theirs."""
    if not by.strip():
        raise errors.QueryError("the order is empty; write what comes after ORDER BY")
    if is_select(by):
        return _from_select(engine, engine.connections.reader(schema), axis, by, "by")
    name = f"{quoted_name(schema)}.{quoted_name(axis)}"
    # Not an injection: the query is read-only, one statement, and the order is SQL by design.
    start = f"SELECT {quoted_name(INDEX)} FROM {name} ORDER BY\n"  # noqa: S608
    wrapped = WrappedSql.between(start, by, f"\n, {quoted_name(INDEX)}")
    table = engine.rows_of(wrapped, "order")
    positions: npt.NDArray[np.int64] = table.column(0).to_numpy().astype(np.int64)
    return positions


def _wrong_axis(
    error: errors.VectorNotFoundError,
    readers: Sequence[DafReader],
    predicate: str,
    keyword: str,
    axis: str,
    other: str,
) -> errors.VectorNotFoundError:
    """Add where the column is instead, or how to ask for an entry by its name."""
    hint = ""
    opposite = "columns" if keyword == "rows" else "rows"
    if other != axis and other in error.other_axes:
        hint = f": pass this predicate as {opposite}="
    else:
        bare = predicate.strip().strip("'\"")
        if any(
            daf.axis_indices(axis, [bare], allow_missing=True, allow_empty=True)[0] >= 0
            for daf in readers
            if daf.has_axis(axis)
        ):
            hint = f"; to take an entry by its name pass a list: {keyword}=[{bare!r}]"
    return errors.with_message(error, f"{keyword}= on axis {axis!r}: {error}{hint}")


def _from_select(
    engine: Engine, daf: DafReader, axis: str, query: str, keyword: str
) -> npt.NDArray[np.int64]:
    table, frame = select_rows(engine, query, keyword)
    return _in_order(table, frame, daf, axis, keyword)


def select_rows(engine: Engine, query: str, keyword: str, *more: str) -> tuple[pa.Table, Any]:
    """Return the rows of a whole query, and the frame, which has its order.

    Parameters
    ----------
    more
        Columns that may be there once only, beside ``index`` and ``name``.
    """
    frame = engine.plan(query, once=(INDEX, NAME, *more))
    try:
        return computed_table(frame), frame
    except Exception as error:  # noqa: BLE001 - the engine raises plain Exceptions
        raise errors.QueryError(f"{keyword}=: {strip_prefixes(str(error))}") from None


def _in_order(
    table: pa.Table, frame: Any, daf: DafReader, axis: str, keyword: str
) -> npt.NDArray[np.int64]:
    """Return the positions that rows name, each once; in their order if the query has one."""
    positions = positions_in(table, daf, axis, keyword)
    unique, first = np.unique(positions, return_index=True)
    return positions[np.sort(first)] if is_ordered(frame) else unique


VALUE: Final = "value"
"""What the column of the values is called."""


def expression_table(
    engine: Engine,
    schema: str,
    axis: str,
    text: str,
    key: Sequence[str] | None = None,
    *,
    join: str = "",
    edits: tuple[Edit, ...] = (),
) -> pa.Table:
    """Return the position of each entry, as ``index``, and the value of an expression for it.

    Parameters
    ----------
    key
        The columns that say which entry it is; by default its position, which counts through the
        data sets of a collection.
    join
        What comes after the table, such as a join that chooses some of its rows.
    edits
        What is written differently in the expression.

    Raises
    ------
    QueryError
        It is wrong; a syntax error says where in the expression.
    VectorNotFoundError
        It names an unknown column.
    """
    tables = engine.connections.schemas[schema]
    counts_through = key is None and tables.is_collection
    columns = key or ((DATASET, INDEX) if counts_through else (INDEX,))
    table = f"{quoted_name(schema)}.{quoted_name(axis)}"
    # Not an injection: the query is read-only, one statement, and the expression is SQL by design.
    start, end = (
        f"SELECT {', '.join(map(quoted_name, columns))}, (\n",
        f"\n) AS {VALUE} FROM {table} {join}",
    )
    wrapped = WrappedSql.between(start, text, end, edits)
    found = engine.rows_of(wrapped, "expression")
    return in_all(tables.concatenated(axis), found) if counts_through else found

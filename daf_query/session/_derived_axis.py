"""Axes derived by a query: an entry for each row, and a vector for each other column."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from daf_query.scan import INDEX, NAME
from daf_query.session._storable import is_any_string, one_array, storable
from daf_query.sql import Engine, Params, QueryResult, bind, query_result
from daf_query.table import arrow_table, is_user_table
from daf_storage import errors


@dataclass(frozen=True, slots=True)
class DerivedAxis:
    """The entries of an axis, and its vectors."""

    entries: pa.Array
    vectors: dict[str, pa.Array]
    empty_is_missing: tuple[str, ...]
    """The vectors of strings in which an empty one stands for a missing value."""


def rows_of(engine: Engine, rows: Any, params: Params | None) -> pa.Table:
    """Return the rows of a query, of a result, or of a data frame."""
    if isinstance(rows, str):
        if not rows.strip():
            raise errors.QueryError("the query is empty; write a SELECT")
        return query_result(engine, bind(rows, params), allow="read").to_arrow_table()
    if params is not None:
        raise errors.InvalidInputError(
            "params= are of a query that is passed as a string; a result or a data frame has its "
            "values already"
        )
    return rows.to_arrow_table() if isinstance(rows, QueryResult) else arrow_table(rows)


def is_rows(values: object) -> bool:
    """Return whether values are a query or a table, which names what its rows are about.

    A DataFrame of pandas is not: it has labels, and is a matrix by itself.
    """
    is_matrix = hasattr(values, "iloc") or hasattr(values, "dtype") or hasattr(values, "type")
    return isinstance(values, str) or (is_user_table(values) and not is_matrix)


def derived_axis(table: pa.Table, axis: str, *, name: str = NAME) -> DerivedAxis:
    """Return the axis whose entries are a column, and whose vectors are the others.

    Parameters
    ----------
    name
        The column of the entries.
    """
    columns = table.column_names
    twice = next((column for column in columns if columns.count(column) > 1), None)
    if twice is not None:
        raise errors.QueryError(
            f"the query yields two columns {twice!r}; name one of them otherwise with AS"
        )
    if name not in columns:
        raise errors.QueryError(
            f"the entries of axis {axis!r} are to be the column {name!r}, and the query yields "
            f"{', '.join(columns)}; write AS {name}, or say which column with name="
        )
    for reserved in {NAME, INDEX} & set(columns) - {name}:
        raise errors.QueryError(
            f"the query yields a column {reserved!r}, and axis {axis!r} has one of this name by "
            f"itself: the {'positions' if reserved == INDEX else 'entries'}; leave it out, or name "
            "it otherwise with AS"
        )
    entries = _entries(table.column(name), axis, name)
    vectors: dict[str, pa.Array] = {}
    missing = []
    for column in columns:
        if column == name:
            continue
        what = f"vector {column!r} of axis {axis!r}"
        values = storable(table.column(column), what, f"values of {what}")
        if values.null_count:
            missing.append(column)
            values = values.fill_null("")
        vectors[column] = values
    return DerivedAxis(entries, vectors, tuple(missing))


def _entries(column: pa.ChunkedArray, axis: str, name: str) -> pa.Array:
    entries = one_array(column)
    if not is_any_string(entries.type):
        raise errors.QueryError(
            f"the entries of axis {axis!r} have to be strings, and the column {name!r} holds "
            f"{entries.type}; CAST it to VARCHAR"
        )
    if entries.null_count:
        first = pc.index(pc.is_null(entries), True).as_py()
        raise errors.QueryError(
            f"the query yields NULL as {name!r} in {entries.null_count:,} of {len(entries):,} "
            f"rows, the first is row {first + 1:,}; every entry of axis {axis!r} needs a name: "
            f"add WHERE ... IS NOT NULL, or coalesce()"
        )
    counts = pc.value_counts(entries)
    repeated = pc.filter(counts.field("values"), pc.greater(counts.field("counts"), 1))
    if len(repeated):
        raise errors.DuplicateEntriesError(
            f"the query yields {len(repeated):,} of the names more than once, the first is "
            f"{repeated[0].as_py()!r}; each entry of axis {axis!r} is one row: GROUP BY the name"
        )
    return entries

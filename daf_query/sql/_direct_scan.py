"""Queries that are a scan of one table and nothing else, which the engine need not plan.

``SELECT columns FROM axis WHERE condition``, where the columns are written by their names and the
condition is a simple one; the first rows, too (``LIMIT``).
Rows, names and types are those that the engine would give, in the order of the axis.  It takes
milliseconds to plan what takes less than one to answer; and for a few rows, the engine would read
whole partitions.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import pyarrow as pa

from daf_query.scan import INDEX, Predicate, describe
from daf_query.sql._conditions import Conditions, needed_names
from daf_query.sql._matrix_entries import Tables
from daf_query.sql._planning import ENGINE, current_context
from daf_query.syntax import (
    Node,
    Scope,
    Source,
    Statement,
    identifiers_of,
    item_of,
    kind_of,
    parsed,
    quoted_name,
    values_of,
    whole_number_of,
)
from daf_query.table import TableDataset, nullable
from daf_storage import DafError, errors

MAX_ROWS: Final = 1 << 20
"""A filter of a longer axis the engine evaluates in several threads, which saves more."""
_MAX_FIRST_ROWS: Final = 1 << 16


@dataclass(frozen=True, slots=True)
class DirectScan:
    """A scan of the table of an axis that answers a query."""

    table: TableDataset
    names: tuple[str, ...]
    """The columns that are selected."""
    predicate: Predicate | None
    limit: int | None = None
    """How many of the matching rows are selected, in the order of the axis; None for all."""
    offset: int = 0
    """How many are passed over before."""

    @property
    def schema(self) -> pa.Schema:
        """The names and types of the columns."""
        columns = self.table.table_columns.columns
        return nullable(pa.schema([columns[name].field for name in self.names]))

    @property
    def description(self) -> str:
        """What is done, in words."""
        where = "" if self.predicate is None else f" where {describe(self.predicate)}"
        what = "the rows" if self.limit is None else f"the first {self.limit:,} rows"
        return f"{what} of {self.table.table_columns.table}{where}"

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Yield the rows, in the order of the axis.

        Raises
        ------
        DafError
            A column cannot be read.
        """
        ENGINE.check()
        if self.limit is None:
            yield from self.table.scan(self.predicate).batches(self.schema)
        else:
            yield from self.table.first(self.schema, self.predicate, self.limit, self.offset)

    def to_table(self) -> pa.Table:
        """Return the rows as a table; errors are those of `batches`."""
        return pa.Table.from_batches(list(self.batches()), self.schema)


def direct_scan(tables: Tables, text: str, first: int | None = None) -> DirectScan | None:
    """Return what answers a query; None if the engine is to be asked.

    Parameters
    ----------
    first
        Of how many rows, at most; None for all.
    """
    simple = _simple(text, first)
    if simple is None:
        return None
    statement, selected, limit, offset = simple
    (scope,) = statement.scopes
    is_first = limit is not None and limit <= _MAX_FIRST_ROWS
    if not is_first and (limit is not None or offset):
        return None
    condition = scope.select["selection"]
    is_whole = condition is None
    schema, axis = tables.named(scope.sources[0])
    axes = tables.schemas.get(schema)
    if axes is None or axis in axes.added:
        return None
    if axes.is_collection and not (is_whole and is_first and axes.has_axis(axis)):
        return None
    used, _ = needed_names(statement) or (frozenset[str](), None)
    try:
        table = axes.dataset(axis, used if selected else None)
    except (DafError, errors.DafWarning):  # the engine's path says it, or goes on without it
        return None
    listed = table.table_columns
    names = selected or listed.schema.names
    columns = [listed.columns.get(each) for each in names]
    if not table.options.direct or (listed.length > MAX_ROWS and not is_whole):
        return None
    if any(each is None or pa.types.is_dictionary(each.field.type) for each in columns):
        return None  # the metadata of dictionaries are otherwise in what the engine computes
    reader = Conditions(statement, scope, scope.sources[0], lambda _: listed.schema)
    predicate = None if condition is None else reader.exact(condition)
    if predicate is None and condition is not None:
        return None
    return DirectScan(table, tuple(names), predicate, limit, offset)


def _simple(text: str, first: int | None) -> tuple[Statement, list[str], int | None, int] | None:
    """Return a query of one table, its columns, LIMIT and OFFSET."""
    statement = parsed(text) if len(text) <= _MAX_CHARACTERS else None
    if statement is None or list(map(kind_of, statement.tree)) != ["Query"]:
        return None
    if len(statement.queries) != 1 or len(statement.scopes) != 1:
        return None
    query, (scope,) = statement.queries[0].node, statement.scopes
    selected = _selected(scope) if _is_of_one(query, scope) else None
    limits = _limits(query["limit_clause"])
    if selected is None or limits is None:
        return None
    limit, offset = limits
    limit = min((each for each in (first, limit) if each is not None), default=None)
    return statement, selected, limit, offset


def direct_rows(tables: Tables, schema: str, axis: str, condition: str) -> DirectScan | None:
    """Return the scan for the positions of a condition's rows; None as above."""
    if current_context().reports is not None:
        return None
    table = f"{quoted_name(schema)}.{quoted_name(axis)}"
    # Not an injection: what is more than a condition makes a query of another kind.
    text = f"SELECT {quoted_name(INDEX)} FROM {table} WHERE {condition}"  # noqa: S608
    found = direct_scan(tables, text)
    return None if found is None or found.limit is not None else found


_MAX_CHARACTERS: Final = 1 << 14


def _is_of_one(query: Node, scope: Scope) -> bool:
    """Return whether a query reads one table, and has no other clauses than are looked at."""
    return (
        _has_only(query, "body", "limit_clause")
        and _has_only(scope.select, *_SELECT)
        and scope.select["flavor"] == "Standard"
        and scope.select["group_by"].get("Expressions") == ([], [])
        and len(scope.select["from"]) == len(scope.sources) == 1
        and _has_only(scope.select["from"][0], "relation")
        and _has_only(scope.select["from"][0]["relation"].get("Table", {0: 1}), "name", "alias")
        and 1 <= len(scope.sources[0].parts) <= 2
        and not scope.sources[0].column_names
    )


_SELECT: Final = ("select_token", "projection", "from", "selection", "group_by", "flavor")


def _has_only(node: Node, *keys: str) -> bool:
    """Return whether a node says nothing but some things."""
    return not any(value for key, value in node.items() if key not in keys)


def _selected(scope: Scope) -> list[str] | None:
    """Return the columns, none for all of them; None if something else is selected."""
    projection = scope.select["projection"]
    if [kind_of(each) for each in projection] == ["Wildcard"]:
        return [] if _has_only(projection[0]["Wildcard"], "wildcard_token") else None
    columns = list[str]()
    for item in projection:
        node, name = item_of(item)
        column = _column(node, scope.sources[0])
        if column is None or name not in (None, column[-1]):
            return None
        columns.append(column[-1])
    return columns if len(set(columns)) == len(columns) else None


def _column(node: Node, source: Source) -> tuple[str, ...] | None:
    """Return the parts of a column, if it can be of the table as it is written."""
    identifiers = identifiers_of(node)
    parts = None if identifiers is None else values_of(identifiers)
    is_of = parts is not None and parts[:-1] in ((), source.written, source.written[-1:])
    return parts if is_of else None


def _limits(clause: Node | None) -> tuple[int | None, int] | None:
    """Return LIMIT and OFFSET; None if there is something else."""
    if clause is None:
        return None, 0
    limits = clause.get("LimitOffset")
    if limits is None or not _has_only(limits, "limit", "offset"):
        return None
    limit = None if limits["limit"] is None else whole_number_of(limits["limit"])
    offset = 0 if limits["offset"] is None else whole_number_of(limits["offset"]["value"])
    if offset is None or (limit is None and limits["limit"] is not None):
        return None
    return limit, offset

"""Joins over relations by position: ``cell.louvain = louvain.name`` in ON, as equal integers.

Where a vector has entries of an axis as its values, and both tables are of one data set, the
equality is written with the position of each entry, a column that the table has for that planning,
and the ``index`` of the other table.  The rows are the same: a value that is no entry has no
position, and NULL equals nothing.

Only a condition by itself, or one of several that AND connects, is written so; all else stays.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final

from daf_query.sql._data_set_schema import DafSchema
from daf_query.sql._entry_references import edited
from daf_query.sql._from_items import FromItem, items_called, selects_of
from daf_query.sql._gene_columns import Tables
from daf_query.sql._names import quoted_name, unquoted_name
from daf_query.sql._planning import EntryRewriting
from daf_query.sql._residual_filters import TableName
from daf_query.sql._tokens import Token, tokens_of
from daf_query.sql._wildcards import Edit, wildcard_edits
from daf_query.table import EntryPosition, is_of_strings
from daf_storage import DafError, errors
from daf_storage.spi import relation_of

_SUSPECT: Final = re.compile(r"\bjoin\b", re.IGNORECASE)
_REFUSED: Final = re.compile(r"\bnatural\b|information_schema", re.IGNORECASE)
"""A NATURAL JOIN would compare the positions too; the information schema would list them."""

_ENDS_ON: Final = (
    *("JOIN", "INNER", "LEFT", "RIGHT", "FULL", "CROSS", "ON", "USING"),
    *("SELECT", "FROM", "WHERE", "GROUP", "HAVING", "ORDER", "LIMIT", "OFFSET", "FETCH"),
    *("UNION", "EXCEPT", "INTERSECT", "MINUS", "WINDOW", "QUALIFY", "RETURNING"),
)
_NO_CONJUNCTION: Final = ("OR", "XOR", "NOT", "BETWEEN", "CASE")
_FILTERS: Final = ("WHERE", "ON", "HAVING", "QUALIFY")
_MAX_ENTRIES: Final = 1 << 16
"""Of a longer axis, the first query would take longer than a join by names (031)."""

_NAME: Final = "name"
_INDEX: Final = "index"


@dataclass(frozen=True, slots=True)
class _Operand:
    """A column as one side of an equality names it."""

    qualifier: str
    """As it is written, with the dot at its end; empty if there is none."""
    parts: tuple[str, ...]
    """Its parts without quotes, the last of which is the column."""
    start: int
    stop: int


@dataclass(frozen=True, slots=True)
class _Join:
    """An equality of a vector and the entries that its values are."""

    vector: _Operand
    entry: _Operand
    table: TableName
    source: EntryPosition

    @property
    def column(self) -> str:
        """The name of the column of positions."""
        return _column_name(self.source.vector, self.source.to_axis)


def joined_by_position(rewriting: EntryRewriting, tables: Tables) -> EntryRewriting:
    """Return a query with its joins over relations by position; the same if there are none."""
    query = rewriting.query
    if _SUSPECT.search(query) is None or _REFUSED.search(query) is not None:
        return rewriting
    tokens = tuple(tokens_of(query))
    resolver = _Resolver(tables, tokens, query)
    equalities = list(_equalities(tokens, query))
    joins = [join for each in equalities if (join := resolver.join(*each)) is not None]
    joins = [join for join in joins if not _is_filtered(join, tokens, query, equalities)]
    if not joins:
        return rewriting
    positions: dict[TableName, dict[str, EntryPosition]] = {}
    edits: list[Edit] = []
    for join in joins:
        positions.setdefault(join.table, {})[join.column] = join.source
        for side, column in ((join.vector, join.column), (join.entry, _INDEX)):
            edits.append((side.start, side.stop, side.qualifier + quoted_name(column)))
    query = edited(query, edits)

    def columns_of(item: FromItem) -> Sequence[str]:
        table = tables.find(item)
        return () if table is None else list(positions.get(table, ()))

    try:
        wildcards = list(wildcard_edits(selects_of(tuple(tokens_of(query)), query), columns_of))
    except errors.QueryError:  # one of them cannot leave the columns out
        return rewriting
    return EntryRewriting(
        edited(query, wildcards), rewriting.columns, positions, replace(rewriting, by_name=None)
    )


class _Resolver:
    """Finds the tables that the columns of equalities are of."""

    def __init__(self, tables: Tables, tokens: Sequence[Token], query: str) -> None:
        self._tables = tables
        self._selects = selects_of(tokens, query)
        self._items = [
            (item, tables.find(item)) for select in self._selects for item in select.items
        ]

    def join(self, left: _Operand, right: _Operand) -> _Join | None:
        """Return an equality as a join over a relation; None if it is none."""
        for vector, entry in ((left, right), (right, left)):
            if entry.parts[-1] != _NAME or vector.parts[-1] in (_NAME, _INDEX):
                continue
            if not self._is_joined(vector, entry):
                continue
            table, other = self._table(vector), self._table(entry)
            if table is None or other is None or table[0] != other[0]:
                continue
            if self._refers(table, vector.parts[-1], other[1]):
                return _Join(vector, entry, table, EntryPosition(vector.parts[-1], other[1]))
        return None

    def _is_joined(self, left: _Operand, right: _Operand) -> bool:
        """Return whether some SELECT has both tables: neither is of the query around it."""
        return any(
            items_called(select.items, left.parts[:-1])
            and items_called(select.items, right.parts[:-1])
            for select in self._selects
        )

    def _table(self, operand: _Operand) -> TableName | None:
        """Return the axis whose table a column is of, wherever in the query it is named.

        A qualifier has to be of the same table in all of its SELECTs; a column without one is
        looked for where there is only one SELECT, and all of its tables are axes.
        """
        *qualifier, column = operand.parts
        if not qualifier:
            return self._unqualified(column)
        named = [(item, table) for item, table in self._items if item.name == qualifier[-1]]
        if any(item.has_column_names for item, _ in named):
            return None
        if len(qualifier) > 1 and any(list(item.parts[-2:]) != qualifier[-2:] for item, _ in named):
            return None
        found = {table for _, table in named}
        return found.pop() if len(found) == 1 else None

    def _unqualified(self, column: str) -> TableName | None:
        tables = [table for _, table in self._items]
        is_simple = len(self._selects) == 1 and not any(
            item.has_column_names for item, _ in self._items
        )
        if not is_simple or None in tables:
            return None
        having = [table for table in tables if table and column in self._columns(table)]
        return having[0] if len(having) == 1 else None

    def _columns(self, table: TableName) -> Sequence[str]:
        return list(self._tables.schemas[table[0]].dataset(table[1]).schema.names)

    def _refers(self, table: TableName, vector: str, to_axis: str) -> bool:
        """Return whether a vector is a column of strings that are entries of an axis."""
        schema, axis = self._tables.schemas[table[0]], table[1]
        if not isinstance(schema, DafSchema):
            return False
        columns = schema.dataset(axis).table_columns.columns
        column = columns.get(vector)
        if column is None or not is_of_strings(column):
            return False
        try:
            if schema.axis_length(to_axis) > _MAX_ENTRIES:
                return False
            relation = relation_of(schema.axes_set(), schema.daf.open_vector(axis, vector).info)
        except DafError:  # whoever reads it says so
            return False
        is_free = _column_name(vector, to_axis) not in columns
        return relation is not None and relation.to_axis == to_axis and is_free


def _column_name(vector: str, to_axis: str) -> str:
    """Return the name of the column of the positions of a vector's entries."""
    return f"{vector} -> {to_axis}.{_INDEX}"


def _equalities(tokens: Sequence[Token], query: str) -> Iterator[tuple[_Operand, _Operand]]:
    """Yield the equal columns of each ON, where nothing but AND connects its conditions."""
    for place, token in enumerate(tokens):
        if token.is_word("ON") and place and not tokens[place - 1].is_word("DISTINCT"):
            yield from _conjuncts(tokens[place + 1 : _end_of_on(tokens, place + 1)], query)


def _end_of_on(tokens: Sequence[Token], place: int) -> int:
    depth = 0
    while place < len(tokens):
        token = tokens[place]
        if token.is_operator("(", "["):
            depth += 1
        elif token.is_operator(")", "]"):
            depth -= 1
        is_end = token.is_word(*_ENDS_ON) or token.is_operator(",", ";")
        if depth < 0 or (depth == 0 and is_end):
            return place
        place += 1
    return place


def _conjuncts(tokens: Sequence[Token], query: str) -> Iterator[tuple[_Operand, _Operand]]:
    while _is_bracketed(tokens):
        tokens = tokens[1:-1]
    parts: list[list[Token]] = [[]]
    depth = 0
    for token in tokens:
        depth += token.is_operator("(", "[") - token.is_operator(")", "]")
        if depth == 0 and token.is_word(*_NO_CONJUNCTION):
            return
        if depth == 0 and token.is_word("AND"):
            parts.append([])
        else:
            parts[-1].append(token)
    for part in parts:
        if len(parts) > 1 and _is_bracketed(part):
            yield from _conjuncts(part, query)
        equality = _equality(part, query)
        if equality is not None:
            yield equality


def _is_bracketed(tokens: Sequence[Token]) -> bool:
    """Return whether one bracket is around all of some tokens."""
    if not tokens or not tokens[0].is_operator("(") or not tokens[-1].is_operator(")"):
        return False
    depths = itertools.accumulate(t.is_operator("(") - t.is_operator(")") for t in tokens[:-1])
    return all(depth > 0 for depth in depths)


def _equality(tokens: Sequence[Token], query: str) -> tuple[_Operand, _Operand] | None:
    signs = [place for place, token in enumerate(tokens) if token.is_operator("=")]
    if len(signs) != 1:
        return None
    left = _operand(tokens[: signs[0]], query)
    right = _operand(tokens[signs[0] + 1 :], query)
    return None if left is None or right is None else (left, right)


def _operand(tokens: Sequence[Token], query: str) -> _Operand | None:
    """Return a column with its qualifiers; None if it is anything else."""
    if len(tokens) % 2 == 0:
        return None
    for place, token in enumerate(tokens):
        is_right = token.is_operator(".") if place % 2 else token.kind in ("word", "quoted")
        if not is_right:
            return None
    parts = tuple(unquoted_name(query[t.start : t.stop]) for t in tokens[::2])
    start, stop = tokens[0].start, tokens[-1].stop
    return _Operand(query[start : tokens[-1].start], parts, start, stop)


def _is_filtered(
    join: _Join,
    tokens: Sequence[Token],
    query: str,
    equalities: Sequence[tuple[_Operand, _Operand]],
) -> bool:
    """Return whether another condition is about either column of a join.

    The engine infers from ``b.name = 'x'`` that the vector is ``'x'``, which an index or a zone map
    may answer; that is worth more.
    """
    joined = {side.stop for pair in equalities for side in pair}
    is_filter = False
    for place, token in enumerate(tokens):
        if token.is_word(*_FILTERS):
            is_filter = True
        elif token.is_word(*_ENDS_ON):
            is_filter = False
        if not is_filter or token.kind not in ("word", "quoted") or token.stop in joined:
            continue
        if place + 1 < len(tokens) and tokens[place + 1].is_operator("."):
            continue  # a qualifier
        name = unquoted_name(query[token.start : token.stop])
        for side in (join.vector, join.entry):
            if name == side.parts[-1] and _may_be(side, tokens, place, query):
                return True
    return False


def _may_be(side: _Operand, tokens: Sequence[Token], place: int, query: str) -> bool:
    """Return whether a name has the qualifier of a column, or none."""
    if place < 2 or not tokens[place - 1].is_operator(".") or len(side.parts) == 1:
        return True
    before = tokens[place - 2]
    return unquoted_name(query[before.start : before.stop]) == side.parts[-2]

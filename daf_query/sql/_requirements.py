"""Requirements of a query: the columns and the rows that another engine needs to answer it.

Columns are those that it names, and all where it has a wildcard.  Rows are those for which the
conditions of its WHERE are true that mean the same to any engine.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import pyarrow as pa

from daf_query.scan import Or, Predicate, conjunction, joined
from daf_query.sql._axis_schema import AxisSchema
from daf_query.sql._matrix_entries import Tables, with_entries
from daf_query.sql._restrictions import Conditions
from daf_query.syntax import Source, Statement, kind_of, parsed, values_of
from daf_query.table import MatrixEntry

_WILDCARDS: Final = ("Wildcard", "QualifiedWildcard")


@dataclass(frozen=True, slots=True)
class TableRequirements:
    """What a query needs of one table."""

    columns: tuple[str, ...]
    """The columns, in the order of the table; at least one."""
    predicate: Predicate | None
    """Rows for which it is not true are not needed; None if all may be."""
    entries: Mapping[str, MatrixEntry]
    """Those of the columns that are entries of matrices."""


@dataclass(frozen=True, slots=True)
class QueryRequirements:
    """What a query needs of each axis that it names."""

    query: str
    """The query with a quoted name for each entry of a matrix."""
    tables: Mapping[str, TableRequirements]
    """By axis."""


def requirements_of(schema: AxisSchema, query: str) -> QueryRequirements:
    """Return what a query needs; nothing but metadata is read.

    Raises
    ------
    QueryError, EntryNotFoundError
        An entry of a matrix is written wrongly, or there is none.
    """
    rewriting = with_entries(query, Tables({schema.name: schema}, schema.name))
    statement = parsed(rewriting.query)
    if statement is not None and any(kind_of(node) == "Table" for _, node in statement.nodes):
        statement = None  # a table that is of no FROM: TABLE cell, PIVOT
    names = _Names.of(statement)
    needs: dict[str, TableRequirements] = {}
    schemas: dict[str, pa.Schema] = {}
    for axis in sorted(schema.axes_set()):
        entries = rewriting.columns.get((schema.name, axis), {})
        table = schema.dataset(axis)
        schemas[axis] = (table.with_matrix_columns(entries) if entries else table).schema
    for axis, fields in schemas.items():
        columns = names.needed(axis, fields)
        if columns is not None:
            entries = rewriting.columns.get((schema.name, axis), {})
            chosen = {name: entry for name, entry in entries.items() if name in columns}
            predicate = None if statement is None else _predicate(statement, axis, schemas)
            needs[axis] = TableRequirements(columns, predicate, chosen)
    return QueryRequirements(rewriting.query, needs)


@dataclass(frozen=True, slots=True)
class _Names:
    """What a query names, in small letters; another engine may not tell capitals apart."""

    tables: Mapping[str, set[str]] | None
    """Columns that are qualified by a table, by the tables; None if there may be any."""
    columns: frozenset[str] = frozenset()
    """Columns of any table, and other names."""
    whole: frozenset[str] = frozenset()
    """The tables of which it needs all columns."""

    @classmethod
    def of(cls, statement: Statement | None) -> _Names:
        """Return the names of a query; of one that is not known, any."""
        if statement is None:
            return cls(None)
        tables = {
            source.parts[-1].lower(): set[str]() for source in statement.sources if source.parts
        }
        resolved: set[int] = set()
        for scope, node in statement.nodes:
            parts = node["CompoundIdentifier"] if kind_of(node) == "CompoundIdentifier" else []
            qualifier = values_of(parts[:-1])
            around = () if scope is None else scope.chain()
            sources = next((found for each in around if (found := each.called(qualifier))), ())
            if parts and sources and all(source.parts for source in sources):
                resolved.update(map(id, parts))
                for source in sources:
                    tables[source.parts[-1].lower()].add(parts[-1]["value"].lower())
        idents = [node for _, node in statement.nodes if "quote_style" in node]
        columns = {each["value"].lower() for each in idents if id(each) not in resolved}
        scopes = [scope for scope, node in statement.nodes if kind_of(node) in _WILDCARDS]
        scopes += [scope for each in statement.queries for scope in each.scopes if scope.is_natural]
        listed = [source for scope in scopes if scope is not None for source in scope.sources]
        whole = {source.parts[-1].lower() for source in listed if source.parts}
        return cls(tables, frozenset(columns), frozenset(whole))

    def needed(self, table: str, fields: pa.Schema) -> tuple[str, ...] | None:
        """Return the columns of a table that a query may need; None if it does not read it."""
        if self.tables is None:
            return tuple(fields.names)
        named = self.tables.get(table.lower())
        if named is None:
            return None
        is_whole = table.lower() in self.whole
        needed = [name for name in fields.names if is_whole or name.lower() in named | self.columns]
        return tuple(needed or fields.names[:1])


def _predicate(
    statement: Statement, axis: str, schemas: Mapping[str, pa.Schema]
) -> Predicate | None:
    """Return what holds for the rows of a table that a query needs, as far as that is certain."""

    def schema_of(source: Source) -> pa.Schema | None:
        return schemas.get(source.parts[-1]) if source.parts else None

    parts: list[Predicate | None] = []
    for scope in statement.scopes:
        for source in scope.sources:
            if source.parts and source.parts[-1].lower() == axis.lower():
                reader = Conditions(statement, scope, source, schema_of)
                parts.append(conjunction(map(reader.exact, reader.parts())))
    known = [part for part in parts if part is not None]
    return joined(Or, known) if known and len(known) == len(parts) else None

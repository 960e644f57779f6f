"""Requirements of a query: the columns and the rows that another engine needs to answer it.

Columns are those that it names, and all where it has a wildcard.  For its rows, it is planned on
tables that have a schema and no rows; of a query that is written for another engine, all are.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

import datafusion
import pyarrow as pa
import pyarrow.compute as pc
from datafusion.catalog import Table

from daf_query.scan import (
    And,
    Compare,
    In,
    Or,
    Predicate,
    columns_of,
    conjunction,
    conjuncts,
    joined,
    parse,
)
from daf_query.sql._axis_schema import AxisSchema
from daf_query.sql._matrix_entries import Tables, with_entries
from daf_query.syntax import (
    UnparsedError,
    constants_in_text,
    kind_of,
    parsed,
    quoted_name,
    values_of,
)
from daf_query.table import AskedScan, MatrixEntry, SchemaOnlyDataset

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
    names = _Names.of(rewriting.query)
    schemas: dict[str, pa.Schema] = {}
    needs: dict[str, TableRequirements] = {}
    for axis in sorted(schema.axes_set()):
        entries = rewriting.columns.get((schema.name, axis), {})
        table = schema.dataset(axis)
        fields = (table.with_matrix_columns(entries) if entries else table).schema
        columns = names.needed(axis, fields)
        if columns is not None:
            schemas[axis] = fields
            chosen = {name: entry for name, entry in entries.items() if name in columns}
            needs[axis] = TableRequirements(columns, None, chosen)
    for axis, predicate in _predicates(rewriting.query, schemas).items():
        needs[axis] = replace(needs[axis], predicate=predicate)
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
    def of(cls, query: str) -> _Names:
        """Return the names of a query."""
        try:
            statement = parsed(query)
        except UnparsedError:
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


def _predicates(query: str, schemas: Mapping[str, pa.Schema]) -> dict[str, Predicate | None]:
    """Return what holds for the rows of each table that a query needs, as far as that is certain.

    Nothing, if it cannot be planned here.
    """
    config = datafusion.SessionConfig().set(
        "datafusion.sql_parser.enable_ident_normalization", "false"
    )
    context = datafusion.SessionContext(config)
    tables = {name: SchemaOnlyDataset(schema) for name, schema in schemas.items()}
    for name, table in tables.items():
        context.register_table(quoted_name(name), Table(table))
    reading = datafusion.SQLOptions().with_allow_ddl(allow=False).with_allow_dml(allow=False)
    try:
        frame = context.sql_with_options(query, reading)
        frame.execution_plan()
    except Exception:  # noqa: BLE001 - the engine raises no other; the other one says what is wrong
        return {}
    constants = constants_in_text(query)
    return {
        name: _together(table.scans, schemas[name], constants) for name, table in tables.items()
    }


def _together(
    scans: Sequence[AskedScan], schema: pa.Schema, constants: frozenset[str | float]
) -> Predicate | None:
    """Return what holds for the rows that any of some scans needs."""
    predicates = [_certain(scan.filter, schema, constants) for scan in scans]
    parts = [predicate for predicate in predicates if predicate is not None]
    if not parts or len(parts) < len(predicates):
        return None
    return joined(Or, parts)


def _certain(
    filter: pc.Expression | None,  # noqa: A002 - pyarrow's name
    schema: pa.Schema,
    constants: frozenset[str | float],
) -> Predicate | None:
    """Return the conditions of a filter that any engine evaluates to the same.

    A constant that the query does not have was converted, and other engines convert otherwise.
    """
    predicate = None if filter is None else parse(filter, schema)
    parts = [part for part in conjuncts(predicate) if _is_certain(part, schema, constants)]
    return conjunction(parts)


def _is_certain(part: Predicate, schema: pa.Schema, constants: frozenset[str | float]) -> bool:
    if isinstance(part, And | Or):
        return all(_is_certain(each, schema, constants) for each in part.parts)
    if not columns_of(part):
        return False
    arrow_type = schema.field(columns_of(part)[0]).type
    if isinstance(part, Compare | In):
        values = part.values if isinstance(part, In) else (part.value,)
        return all(_is_as_written(value, arrow_type, constants) for value in values)
    return True


def _is_as_written(
    value: object, arrow_type: pa.DataType, constants: frozenset[str | float]
) -> bool:
    if isinstance(value, bool):
        return bool(pa.types.is_boolean(arrow_type))
    if isinstance(value, str):
        return arrow_type in (pa.string(), pa.string_view()) and value in constants
    is_number = pa.types.is_integer(arrow_type) or arrow_type == pa.float64()
    return isinstance(value, int | float) and is_number and float(value) in constants

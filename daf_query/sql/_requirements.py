"""Requirements of a query: the columns and the rows that another engine needs to answer it.

The query is planned on tables that have a schema and no rows.  Where it cannot be planned, since it
is written for another engine, every column is needed that it may name.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
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
    flat,
    parse,
)
from daf_query.sql._axis_schema import AxisSchema
from daf_query.sql._matrix_entries import Tables, with_entries
from daf_query.syntax import (
    UnparsedError,
    constants_in_text,
    kind_of,
    names_in_text,
    parsed,
    quoted_name,
)
from daf_query.table import AskedScan, MatrixEntry, SchemaOnlyDataset, TableDataset

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
    named = names_in_text(rewriting.query)
    tables: dict[str, TableDataset] = {}
    entries: dict[str, Mapping[str, MatrixEntry]] = {}
    for axis in sorted(schema.axes_set()):
        if axis.lower() in named:
            entries[axis] = rewriting.columns.get((schema.name, axis), {})
            table = schema.dataset(axis)
            tables[axis] = table.with_matrix_columns(entries[axis]) if entries[axis] else table
    schemas = {axis: table.schema for axis, table in tables.items()}
    plan = _planned(rewriting.query, schemas)
    needs: dict[str, TableRequirements] = {}
    constants = constants_in_text(rewriting.query)
    for axis, columns in _needed_columns(rewriting.query, tables, plan).items():
        scans = () if plan is None else plan.scans[axis]
        predicate = _together(scans, schemas[axis], constants)
        chosen = {name: entry for name, entry in entries[axis].items() if name in columns}
        needs[axis] = TableRequirements(tuple(columns), predicate, chosen)
    return QueryRequirements(rewriting.query, needs)


@dataclass(frozen=True, slots=True)
class _Plan:
    """How a query is planned here."""

    scans: Mapping[str, Sequence[AskedScan]]
    """Of each table; none of a table that the optimiser left out."""
    written: str
    """The optimised plan, and the columns of the answer."""


def _planned(query: str, schemas: Mapping[str, pa.Schema]) -> _Plan | None:
    """Return the plan of a query over tables; None if it cannot be planned here."""
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
        optimised = frame.optimized_logical_plan().display_indent()
    except Exception:  # noqa: BLE001 - whatever the engine raises; the other one says what is wrong
        return None
    written = f"{frame.schema().names}\n{optimised}"
    return _Plan({name: table.scans for name, table in tables.items()}, written)


def _needed_columns(
    query: str,
    tables: Mapping[str, TableDataset],
    plan: _Plan | None,
) -> dict[str, list[str]]:
    """Return the columns of each table with which a query means what it means with all of them.

    Those that are read need not be enough.  The optimiser here drops columns, conditions and whole
    tables, such as ``name IS NOT NULL``, whose names another engine looks up all the same; and a
    wildcard in a subquery, numbered by ``ORDER BY 3``, is another column where some are lacking.
    """
    named = {name: _all_named(query, table.schema) for name, table in tables.items()}
    if plan is None:
        return named
    read = {name: _columns(plan.scans[name], tables[name]) for name in tables if plan.scans[name]}
    with_named = {
        name: [each for each in tables[name].schema.names if each in columns or each in named[name]]
        for name, columns in read.items()
    }
    whole = {name: table.schema.names for name, table in tables.items()}
    read_whole = {name: whole[name] for name in read}
    for columns in (read, with_named, named | with_named, read_whole):
        schemas = {
            name: pa.schema([tables[name].schema.field(each) for each in chosen])
            for name, chosen in columns.items()
        }
        again = _planned(query, schemas)
        if again is not None and again.written == plan.written:
            return columns
    return whole


def _columns(scans: Sequence[AskedScan], table: TableDataset) -> list[str]:
    """Return the columns of some scans and of their filters; the first one if there is none."""
    needed = {name for scan in scans for name in table.needed(scan.columns, scan.filter)}
    return [name for name in table.schema.names if name in needed] or table.schema.names[:1]


def _all_named(query: str, schema: pa.Schema) -> list[str]:
    """Return the columns that a query may name, in any case; all, if it has a wildcard."""
    try:
        scopes = parsed(query).scopes
    except UnparsedError:  # it is written for another engine
        return list(schema.names)
    items = [item for scope in scopes for item in scope.select["projection"]]
    is_natural = any(scope.is_natural for scope in scopes)
    if is_natural or any(kind_of(item) in _WILDCARDS for item in items):
        return list(schema.names)
    named = names_in_text(query)
    return [name for name in schema.names if name.lower() in named] or schema.names[:1]


def _together(
    scans: Sequence[AskedScan], schema: pa.Schema, constants: frozenset[str | float]
) -> Predicate | None:
    """Return what holds for the rows that any of some scans needs."""
    predicates = [_certain(scan.filter, schema, constants) for scan in scans]
    parts = [predicate for predicate in predicates if predicate is not None]
    if not parts or len(parts) < len(predicates):
        return None
    return parts[0] if len(parts) == 1 else flat(Or, parts)


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

"""Errors of tables and columns that are not there: what there is instead, and what was meant.

Must not cost more than the error is worth: entries are compared where they are decoded already, or
few; nothing is built of them.
"""

from __future__ import annotations

import os.path
import re
from collections.abc import Collection, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Final

import pyarrow as pa

from daf_query.scan import NAME
from daf_query.sql._connections import PUBLIC, AxisSchema, Connections, Tables
from daf_query.sql._matrix_entries import unknown_entry_hint
from daf_query.sql._planning import CATALOG
from daf_query.syntax import (
    Node,
    Scope,
    Source,
    Statement,
    identifiers_of,
    item_of,
    joined_names,
    parsed,
    plain_name,
    quoted_name,
    quoted_string,
    unquoted_name,
    values_of,
    walk,
)
from daf_query.table import DATASET, TableDataset, UserTable, spelled_entry, table_format
from daf_storage import DafError, DafReader, errors

_VALID_FIELDS: Final = (
    re.compile(r"Valid fields are (?P<fields>.*)\.", re.DOTALL),
    re.compile(r"Did you mean '(?P<fields>.+?)'\?"),
)
_NAME_PART: Final = re.compile(r'"(?:[^"]|"")*"|[^",.\s]+')
_FIELD: Final = re.compile(rf"(?:{_NAME_PART.pattern})(?:\.(?:{_NAME_PART.pattern}))*")
_MOST_ENTRIES: Final = 1 << 20
"""How many entries of an axis are decoded for a hint; more, if they are decoded already."""
_MOST_FORMS: Final = 3
_BASE: Final = "base_daf_repository"
_BETWEEN: Final = " + "
"""What is between the locations of data sets that are on top of each other."""


@dataclass
class FailedQuery:
    """A query that failed, and what it could have named."""

    query: str
    tables: Tables
    connections: Connections
    text: str = ""
    """What the engine says."""

    @cached_property
    def statement(self) -> Statement:
        """The tree of the query; an empty one if it has none."""
        with suppress(errors.QueryError):
            return parsed(self.query) or Statement("", (), [])
        return Statement("", (), [])

    def nodes(self, *keys: str) -> Iterator[Node]:
        """Yield the nodes that have some keys."""
        return (node for _, node in self.statement.nodes if all(key in node for key in keys))

    def axes(self) -> list[tuple[AxisSchema, str]]:
        """Return the axes of all data sets."""
        schemas = self.tables.schemas.values()
        return [(each, axis) for each in schemas for axis in sorted(each.axes_set())]

    def columns(self) -> Iterator[str]:
        """Yield the names of all columns of all axes."""
        for axis in self.axes():
            yield from _columns(*axis)

    def schema_of(self, source: Source) -> pa.Schema | None:
        """Return the columns of a table of a FROM; None of a subquery, or of a broken table."""
        table = self.tables.find(source)
        with suppress(DafError, KeyError):
            if table is not None:
                return table[0].dataset(table[1]).schema
            shared = self.connections.shared["".join(source.parts[-1:])]
            return (shared.rows if isinstance(shared, UserTable) else shared).schema
        return None

    def type_of(self, scope: Scope | None, parts: Sequence[str]) -> pa.DataType | None:
        """Return the type of a column; None if it is of no table."""
        *qualifier, name = parts
        for each in scope.chain() if scope is not None else ():
            for schema in map(self.schema_of, each.called(qualifier)):
                if schema is not None and name in schema.names:
                    return schema.field(name).type
        return None


def missing_table(failed: FailedQuery, match: re.Match[str]) -> DafError:
    """Return the error of a table that is not there."""
    schemas = failed.tables.schemas
    schema, name = _data_set_and_table(match["table"], schemas)
    if schema not in {*schemas, PUBLIC}:
        has = errors.shown_names(schemas)
        is_file = table_format(f"{schema}.{name}") is not None
        hint = f"; a file is a table in quotes: FROM '{schema}.{name}'" if is_file else ""
        for each, tables in schemas.items() if not is_file else ():
            if tables.is_collection and schema in tables.readers() and tables.has_axis(name):
                table = ".".join(map(plain_name, [each, name][len(schemas) == 1 :]))
                where = f"WHERE {DATASET} = {quoted_string(schema)}"
                hint = f"; it is one of a collection: FROM {table} {where}"
        return errors.NotFoundError(f"no data set {schema!r} is connected; there are {has}{hint}")
    holders = [each for each, tables in schemas.items() if name in tables.table_names]
    for holder in holders if len(schemas) == 1 else {schema} & {*schemas}:
        try:
            schemas[holder].find(name)
        except DafError as error:  # it is there, and cannot be used
            return error
    if holders:
        where = " or ".join(f"{plain_name(holder)}.{plain_name(name)}" for holder in holders)
        return errors.AxisNotFoundError(
            f"there is no table {match['table']!r}: it needs the name of its data set; write "
            f"{where}"
        )
    available = {each for tables in schemas.values() for each in tables.table_names}
    source = ", ".join(tables.location for tables in schemas.values())
    has = errors.shown_names(failed.connections.table_names, none="no tables")
    return errors.AxisNotFoundError(
        f"{source}: there is no table {name!r}; there are {has}"
        f"{errors.nearest_axis(name, available)}{_base_hint(schemas.values())}"
        f"{unknown_entry_hint(name, failed.axes(), None)}"
    )


def _data_set_and_table(written: str, schemas: Collection[str]) -> tuple[str, str]:
    """Return the two names in what the engine says, which has no quotes: either may have dots.

    >>> _data_set_and_table("daf.run.1.cell", ["run.1"]), _data_set_and_table("cell", ["run.1"])
    (('run.1', 'cell'), ('public', 'cell'))
    """
    rest = written.removeprefix(f"{CATALOG}.")
    for schema in sorted((*schemas, PUBLIC), key=len, reverse=True):
        if rest.startswith(f"{schema}."):
            return schema, rest.removeprefix(f"{schema}.")
    schema, name = [PUBLIC, *rest.split(".")][-2:]
    return schema, name


def missing_column(failed: FailedQuery, field: str) -> DafError:
    """Return the error of a column that no table of the query has.

    Parameters
    ----------
    field
        What the engine does not know, maybe qualified and quoted.
    """
    *qualifier, name = parts_of_name(field)
    if name == "None":
        return errors.QueryError("None is NULL: write x IS NULL, or x IS NOT NULL")
    listed = next(filter(None, (each.search(failed.text) for each in _VALID_FIELDS)), None)
    fields = [parts_of_name(each) for each in _FIELD.findall(listed["fields"] if listed else "")]
    valid = {each[-1] for each in fields}
    relations = {each[-2] for each in fields if len(each) > 1}
    named = [each for each in failed.statement.sources if each.name in relations]
    tables = [*dict.fromkeys(filter(None, map(failed.tables.find, named)))]
    columns = valid.union(*(_columns(*each) for each in tables))
    if qualifier and qualifier[-1] not in relations:
        table, dotted = ".".join(qualifier), ".".join((*qualifier, name))
        if dotted in columns:
            return errors.VectorNotFoundError(
                f"the query has no table {table!r}; the column is called {dotted!r}: quote its "
                f"name, as in {quoted_name(dotted)}"
            )
        if name in valid or unknown_entry_hint(name, tables, None):
            has = errors.shown_names(relations)
            return errors.VectorNotFoundError(
                f"{dotted} is a column of a table {table!r}, which the query does not have; it "
                f"has {has}: write {name}"
            )
    scanned = [tables_of.dataset(axis) for tables_of, axis in tables]
    shared = [failed.connections.shared.get("".join(each.parts[-1:])) for each in named]
    scanned += [each.readable() for each in shared if isinstance(each, TableDataset)]
    for dataset in scanned:
        if problem := dataset.table_columns.problems.get(name):
            return errors.UnsupportedDataError(problem)
    for tables_of, axis in tables:
        if entry := _entry_hint(name, failed.query, tables_of, axis):
            return errors.VectorNotFoundError(
                f"{tables_of.location}: axis {axis!r} has no vector {name!r}; {entry}"
            )
    return _absent_column(failed, name, valid, tables)


def _absent_column(
    failed: FailedQuery, name: str, valid: set[str], tables: list[tuple[AxisSchema, str]]
) -> DafError:
    """Return an error that no table of the query has a column, with what may have been meant."""
    available: Collection[str] = valid
    if len(tables) == 1:
        tables_of, axis = tables[0]
        available = tables_of.dataset(axis).schema.names
        error = errors.vector_not_found(tables_of.location, axis, name, available)
    else:
        has = errors.choices(name, valid, none="no columns")
        error = errors.VectorNotFoundError(f"the query has no column {name!r}; it has {has}")
    others = (each for each in failed.axes() if each not in tables)
    elsewhere = [each[1] for each in others if name in _columns(*each)]
    hint = (
        unknown_entry_hint(name, tables, failed.statement)
        or _longer_hint(name, failed.query, [each for pair in tables for each in _columns(*pair)])
        or "".join(_elsewhere_hint(axis, tables) for axis in elsewhere[:1])
        or _alias_hint(failed, name)
        or _string_hint(failed, name, is_near=errors.nearest(name, available) != "")
        or _base_hint(tables_of for tables_of, _ in tables)
    )
    error = errors.with_message(error, f"{error}{hint}")
    error.other_axes = tuple(elsewhere)
    return error


def _longer_hint(name: str, query: str, available: Sequence[str]) -> str:
    """Return how to write a column of which an unquoted name is the beginning."""
    longer = tuple(each.lower() for each in (*joined_names(query, name)[:-1], f"{name} "))
    begins = [each for each in available if each.lower().startswith(longer)]
    quoted = " or ".join(map(quoted_name, begins))
    return f"; put the whole name in double quotes: {quoted}" if begins else ""


def _elsewhere_hint(other: str, tables: Sequence[tuple[AxisSchema, str]]) -> str:
    """Return that another axis has the vector, and how to join the two, if a vector says so."""
    hint = f"; axis {other!r} has a vector of that name"
    for schema, axis in tables[:1]:
        for daf in schema.readers(axis, other).values():
            for relation in daf.relations():
                if (relation.axis, relation.to_axis) == (axis, other):
                    column = f"{plain_name(axis)}.{plain_name(relation.vector)}"
                    table = plain_name(other)
                    entries = f"(SELECT name FROM {table} WHERE ...)"  # noqa: S608 - a message
                    join = f"JOIN {table} ON {column} = {table}.name"
                    return f"{hint}: {join}, or {column} IN {entries}"
    return hint


def _alias_hint(failed: FailedQuery, name: str) -> str:
    """Return how to filter by what SELECT computes, if WHERE has a name that is given there."""
    for scope in failed.statement.scopes:
        is_given = name in [item_of(each)[1] for each in scope.select["projection"]]
        if is_given and any(each.get("value") == name for each in walk(scope.select["selection"])):
            return (
                f"; {name!r} is computed after WHERE: filter what is computed of groups by "
                "HAVING, anything else in a query around this one, of which it is a subquery"
            )
    return ""


def _string_hint(failed: FailedQuery, name: str, *, is_near: bool) -> str:
    """Return how to write a string, if a name in double quotes, or in none, was to be one.

    Parameters
    ----------
    is_near
        Whether a column has nearly that name, which then is what an unquoted name means.
    """
    written = quoted_string(name)
    for node in failed.nodes():
        match node:
            case {"InList": {"list": values}}:
                is_string = True
            case {"BinaryOp": {"op": op, "right": right}}:
                values, is_string = [right], op in _COMPARISONS and not is_near
            case {"Like": {"pattern": pattern}} | {"ILike": {"pattern": pattern}}:
                values, is_string = [pattern], False
            case _:
                continue
        for parts in filter(None, map(identifiers_of, values)):
            if values_of(parts) == (name,) and parts[0]["quote_style"] == '"':
                return f"; double quotes are for names, so write a string as {written}"
            if values_of(parts) == (name,) and is_string:
                return f"; a string is written in single quotes: {written}"
    return ""


_COMPARISONS: Final = ("Eq", "NotEq", "Lt", "LtEq", "Gt", "GtEq")


def _columns(tables: AxisSchema, axis: str) -> list[str]:
    """Return the columns of an axis; none if it is broken."""
    try:
        return list(tables.dataset(axis).schema.names)
    except DafError:
        return []


def parts_of_name(field: str) -> list[str]:
    """Return the parts of a possibly qualified and quoted name, without quotes.

    >>> parts_of_name('c."HLA-A"')
    ['c', 'HLA-A']
    """
    return list(map(unquoted_name, _NAME_PART.findall(field))) or [field]


def _entry_hint(name: str, query: str, schema: AxisSchema, axis: str) -> str:
    """Return how to write an entry of another axis, as ``X['MS4A1']``; empty if it is none.

    Parameters
    ----------
    name
        The column that is not there; of ``HLA-DRA > 1``, the engine misses ``HLA``.
    axis
        The axis whose table does not have it.
    """
    names = joined_names(query, name)
    for daf in schema.readers(axis).values():
        hints = []
        for other in sorted(daf.axes_set() - {axis}):
            matrices = sorted(daf.matrices_set(axis, other))
            found = _entry(daf, other, names) if matrices else None
            if found is not None:
                vector, entry = found
                forms = (
                    quoted_name(f"{other}.{each}")
                    if len(daf.matrix_axes(axis, each)) > 1
                    else plain_name(each)
                    for each in matrices[:_MOST_FORMS]
                )
                written = " or ".join(f"{form}[{quoted_string(entry)}]" for form in forms)
                what = "an entry" if vector == NAME else f"in {vector}"
                hints.append(f"{entry!r} is {what} of axis {other!r}: write {written}")
        if hints:
            return "; ".join(hints)
    return ""


def _entry(daf: DafReader, axis: str, names: Sequence[str]) -> tuple[str, str] | None:
    """Return in which vector an axis has the first of some names, and its spelling there."""
    with suppress(DafError):  # the axis is damaged: the error is about something else
        if daf.axis_length(axis) <= _MOST_ENTRIES or daf.cached_entries(axis) is not None:
            return spelled_entry(daf, axis, names)
    return None


def _base_hint(schemas: Any) -> str:
    """Return how to open the first overlay with its base; empty if there is none."""
    hints = [missing_base(schema.only.daf) for schema in schemas if not schema.is_collection]
    return next(filter(None, hints), "")


def missing_base(daf: DafReader) -> str:
    """Return how to open an overlay with its base; empty if a data set is none, or has it."""
    base = daf.get_scalar(_BASE, default=None)
    if not isinstance(base, str) or not base or _BETWEEN in daf.location:
        return ""
    if "://" not in base and "://" not in daf.location:
        folder = Path(daf.location.partition("#/")[0]).parent
        base = os.path.normpath(folder / base)
    return (
        f"; it is on top of {base}, which was not opened with it: "
        f"connect({base!r}, overlay={daf.location!r})"
    )

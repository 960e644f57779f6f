"""Restrictions: the rows of its tables that a query can need, by the conditions of its text.

The engine hands tables the conditions that the bindings convert for pyarrow, and keeps others:
``score > 0.5`` of Float32, which it casts, ``name LIKE 'ab%'``, lists of categoricals, and
``ST_Within(ST_Point(x, y), ...)``.  They are read from the text, before it is planned.  The engine
evaluates them again on the rows that are left: what is found may be weaker than a condition, never
stronger.

Conditions on shapes can only be true for rows whose boxes overlap that of a constant geometry; an
R-tree names them, others are not read.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, TypeAlias

import datafusion
import numpy as np
import pyarrow as pa

from daf_query.index import UnfitIndexError
from daf_query.scan import And, Compare, Or, Positions, Predicate, compared, conjunction, joined
from daf_query.sql._connections import Connections
from daf_query.sql._corrections import names_in
from daf_query.sql._engine_context import table_frame
from daf_query.sql._planning import (
    EntryRewriting,
    Restrict,
    TableName,
    as_planned,
    current_context,
)
from daf_query.sql._simple_queries import UncertainError, operands, simple_condition
from daf_query.syntax import (
    Node,
    Scope,
    Source,
    Statement,
    arguments_of,
    constant_of,
    function_name,
    identifiers_of,
    is_query,
    kind_of,
    parsed,
    values_of,
    walk,
)
from daf_query.table import TableDataset, ZarrTable, nullable
from daf_storage import DafError
from daf_storage.base import optional_import

_INNER: Final = ("Join", "Inner", "CrossJoin")
_KEPT: Final = ("Like", "Function", "Cast", "InList")
_WILD: Final = ("%", "_", "\\")
_LAST_CHARACTER: Final = 0x10FFFF
_BOTH_SIDES: Final = 2


@dataclass(frozen=True, slots=True)
class PlacedTable:
    """A table at a place of a FROM."""

    name: TableName
    table: TableDataset | None
    """As it is planned there; None of one that a function makes."""
    statement: Statement
    scope: Scope
    source: Source


def placed_tables(
    rewritings: Iterable[EntryRewriting], connections: Connections, default: str
) -> list[PlacedTable]:
    """Return the tables of a query and its views; none if not all of it can be read.

    Parameters
    ----------
    default
        The schema of tables that are named without one.
    """
    placed: list[PlacedTable] = []
    for rewriting in rewritings:
        statement = parsed(rewriting.query)
        if statement is None or any(
            kind_of(node) == "Table" for _, node in statement.nodes
        ):  # TABLE cell, PIVOT
            return []
        for scope in statement.scopes:
            for source in scope.sources:
                parts = source.parts or (f"{source.function}()",)
                schema, title = (default, *parts)[-2:]
                name = (schema, title)
                is_hidden = not source.parts or name in current_context().replacements
                table = None if is_hidden else connections.find(name)
                if table is not None:
                    table = as_planned(table, rewriting.columns.get(name, {}))
                if table is not None or source.function:
                    placed.append(PlacedTable(name, table, statement, scope, source))
    return placed


def restrictions_of(placed: Sequence[PlacedTable]) -> dict[TableName, Restrict]:
    """Return what leaves out rows of tables that a query cannot need.

    A table that stands at several places is left out: they may have other conditions.
    """
    times = Counter(each.name for each in placed)
    schemas = {each.source: None if each.table is None else each.table.schema for each in placed}
    restrictions: dict[TableName, Restrict] = {}
    for each in placed:
        if times[each.name] > 1 or each.scope.select["selection"] is None:
            continue
        if each.table is None:
            restrictions[each.name] = partial(_restricted, each, schemas)
        else:  # now: the engine can be asked for a box, which it cannot while it plans
            restrictions[each.name] = _made(_restricted(each, schemas, each.table))
    return restrictions


def _made(table: TableDataset) -> Restrict:
    """Return what gives a table that is as the query needs it."""
    return lambda _: table


def _restricted(
    place: PlacedTable, schemas: Mapping[Source, pa.Schema | None], table: TableDataset
) -> TableDataset:
    known = {**schemas, place.source: table.schema}
    reader = Conditions(place.statement, place.scope, place.source, known.get)
    parts = [each for each in reader.parts() if reader.may_be_kept(each)]
    predicate = conjunction(map(reader.implied, parts))
    rows = reader.indexed_rows(table) if isinstance(table, ZarrTable) else None
    return table if rows is None and predicate is None else table.restricted(rows, predicate)


def small_tables(
    placed: Sequence[PlacedTable], connections: Connections
) -> dict[TableName, datafusion.DataFrame]:
    """Return the small tables that a query reads beside long ones, with their rows in memory.

    Of these the engine knows how many there are, and joins them by a hash table of their rows.  Of
    two tables of which it does not know that, it distributes the rows of both first.
    """
    options, tables = (
        connections.scan_options,
        {each.name: each.table for each in placed if each.table is not None},
    )
    lengths = [table.table_columns.length for table in tables.values()]
    if len(tables) < _BOTH_SIDES or max(lengths) < options.min_joined_rows:
        return {}
    found: dict[TableName, datafusion.DataFrame] = {}
    for name, table in tables.items():
        # Entries of matrices may be columns at one place and not at another.
        is_same = all(
            each.table.schema == table.schema
            for each in placed
            if each.table is not None and each.name == name
        )
        size = table.table_columns.length * len(table.schema)
        if size <= options.max_values_in_memory and is_same:
            reports = current_context().reports
            read = table if reports is None else table.with_reports(reports)
            try:
                rows = read.to_table()
            except DafError:  # a column is unreadable, as the scan will say where it is needed
                continue
            found[name] = table_frame(rows.cast(nullable(rows.schema)))
    return found


SchemaOf: TypeAlias = Callable[[Source], pa.Schema | None]
"""Returns the columns of a source; None if they are not known."""


class Conditions:
    """The conditions of a WHERE on one of its tables."""

    def __init__(
        self, statement: Statement, scope: Scope, source: Source, schema_of: SchemaOf
    ) -> None:
        self._statement = statement
        self._scope = scope
        self._source = source
        self._schema_of = schema_of

    def parts(self) -> list[Node]:
        """Return what is true for each row that is needed; nothing in outer joins."""
        select, own = self._scope.select, self._schema_of(self._source)
        tables = walk(select["from"], into_queries=False)  # joins may be within brackets
        joins = [each["join_operator"] for each in tables if "join_operator" in each]
        is_known = own is not None and not self._source.column_names
        is_inner = all(kind_of(each) in _INNER for each in joins)
        condition = select["selection"]
        return operands(condition, "And") if condition and is_known and is_inner else []

    def _field(self, parts: tuple[str, ...]) -> pa.Field:
        """Return the field of a column that can be of this table alone, with the type of values."""
        *qualifier, name = parts
        having = [each for each in self._scope.called(qualifier) if self._may_have(each, name)]
        schema = self._schema_of(self._source)
        if having != [self._source] or schema is None or name not in schema.names:
            raise UncertainError
        field = schema.field(name)
        kind = field.type.value_type if pa.types.is_dictionary(field.type) else field.type
        return field.with_type(pa.string() if kind == pa.string_view() else kind)

    def _may_have(self, source: Source, name: str) -> bool:
        """Return whether a table may have a column; to another engine capitals may not count."""
        schema = None if source.column_names else self._schema_of(source)
        return schema is None or name.lower() in map(str.lower, schema.names)

    def may_be_kept(self, node: Node) -> bool:
        """Return whether the engine may evaluate a condition itself, and hand it to no table."""
        for each in walk(node):
            kind = kind_of(each)
            is_number = kind == "Number" and not each[kind][0].isdigit()
            field = self._column(each)
            if kind in _KEPT or is_number or (field is not None and field.type == pa.float32()):
                return True
        return False

    def exact(self, node: Node) -> Predicate | None:
        """Return the predicate that a condition is to any engine; None if it is not known."""
        try:
            return simple_condition(self._statement, node, self._field)
        except UncertainError:
            return None

    def implied(self, node: Node) -> Predicate | None:
        """Return a predicate that is true wherever a condition is; None if none is known."""
        found = self.exact(node)
        if found is not None:
            return found
        kind = kind_of(node)
        if kind == "Nested":
            return self.implied(node["Nested"])
        if kind == "BinaryOp" and node["BinaryOp"]["op"] == "And":
            return conjunction(map(self.implied, operands(node, "And")))
        if kind == "BinaryOp" and node["BinaryOp"]["op"] == "Or":
            parts = [self.implied(each) for each in operands(node, "Or")]
            known = [part for part in parts if part is not None]
            return joined(Or, known) if len(known) == len(parts) else None
        if kind == "Like":
            return self._prefix(node["Like"])
        if kind == "Cast" and node["Cast"]["data_type"] == "Boolean":
            return self.implied(node["Cast"]["expr"])
        return self._called(node) if kind == "Function" else None

    def _column(self, node: Node) -> pa.Field | None:
        parts = identifiers_of(node)
        try:
            return None if parts is None else self._field(values_of(parts))
        except UncertainError:
            return None

    def _prefix(self, like: Node) -> Predicate | None:
        """Return the range of the strings that a pattern can match."""
        field, pattern = self._column(like["expr"]), constant_of(like["pattern"])
        is_plain = not (like["negated"] or like["any"] or like["escape_char"])
        if field is None or field.type != pa.string() or not is_plain:
            return None
        if not isinstance(pattern, str):
            return None
        wild = [place for place in map(pattern.find, _WILD) if place >= 0]
        return _begins(field.name, pattern[: min(wild, default=len(pattern))])

    def _called(self, node: Node) -> Predicate | None:
        """Return what a function that is true says of columns."""
        function = node["Function"]
        given = arguments_of(function)
        if function_name(function) != "starts_with" or len(given) != _BOTH_SIDES:
            return self._in_box(node)
        field, prefix = self._column(given[0]), constant_of(given[1])
        if field is None or field.type != pa.string() or not isinstance(prefix, str):
            return None
        return _begins(field.name, prefix)

    def _in_box(self, node: Node) -> Predicate | None:
        """Return the box of a constant shape, for the point of two columns that may lie in it."""
        point, shape = _overlap(node) or ({}, {})
        function = point.get("Function", {"name": ()})
        if not function["name"] or function_name(function) != "st_point":
            return None
        fields = [self._column(each) for each in arguments_of(function)]
        bounds = self._bounds(shape) if len(fields) == _BOTH_SIDES and any(fields) else None
        if bounds is None:
            return None

        def sides() -> Iterator[Predicate | None]:
            for field, low, high in zip(fields, bounds[:2], bounds[2:], strict=True):
                for operator, value in ((">=", low), ("<=", high)):
                    if field is not None and field.type == pa.float64():
                        yield Compare(field.name, operator, value)
                    elif field is not None:
                        yield compared(field, operator, value)

        return conjunction(sides())

    def indexed_rows(self, table: ZarrTable) -> Positions | None:
        """Return the rows for which all conditions can be true; None without an index."""
        rows: Positions | None = None
        for part in self.parts():
            geometry, shape = _overlap(part) or ({}, {})
            field = self._column(geometry)
            index = None if field is None else table.rtree(field.name)
            bounds = None if index is None else self._bounds(shape)
            if index is None or bounds is None:
                continue
            try:
                found = index.search(bounds)
            except UnfitIndexError:  # it was changed this very moment; the next query says so
                continue
            rows = found if rows is None else np.intersect1d(rows, found)
        return rows

    def _bounds(self, shape: Node) -> Box | None:
        """Return the box of a constant geometry, a little widened for trees of less precision."""
        written = self._statement.written(shape)
        sides = ", ".join(f"ST_{side}(g)" for side in BOX_SIDES)
        try:
            found = _spatial_context().sql(f"SELECT {sides} FROM (SELECT {written} AS g)")  # noqa: S608 - a constant of the query
            box = [column[0].as_py() for column in found.to_arrow_table().columns]
        except Exception:  # noqa: BLE001 - it is wrong, as the query will say
            return None
        if any(side is None or not math.isfinite(side) for side in box):
            return None
        down, up = np.float32(-np.inf), np.float32(np.inf)
        x, y = (min(side, float(np.nextafter(np.float32(side), down))) for side in box[:2])
        to_x, to_y = (max(side, float(np.nextafter(np.float32(side), up))) for side in box[2:])
        return x, y, to_x, to_y


def _begins(name: str, prefix: str) -> Predicate | None:
    """Return the range of the strings that begin with a prefix.

    >>> _begins("name", "ab")
    And(parts=(Compare(column='name', operator='>=', value='ab'), \
Compare(column='name', operator='<', value='ac')))
    """
    following = chr(min(ord(prefix[-1]) + 1, _LAST_CHARACTER)) if prefix else ""
    if not prefix or not following.isprintable():  # such as half of a pair, or the last character
        return Compare(name, ">=", prefix) if prefix else None
    return And((Compare(name, ">=", prefix), Compare(name, "<", prefix[:-1] + following)))


Box: TypeAlias = tuple[float, float, float, float]
"""Smallest x and y, largest x and y."""

BOX_SIDES: Final = ("XMin", "YMin", "XMax", "YMax")

_OVERLAPPING: Final = frozenset(
    f"st_{name}"
    for name in (
        *("contains", "coveredby", "covers", "crosses", "equals"),
        *("intersects", "overlaps", "touches", "within"),
    )
)
"""Functions that are true only for geometries whose boxes overlap."""


def _overlap(node: Node) -> tuple[Node, Node] | None:
    """Return what a condition needs to overlap: two operands, of which the second is constant."""
    if kind_of(node) == "Nested":
        return _overlap(node["Nested"])
    if kind_of(node) != "Function" or function_name(node["Function"]) not in _OVERLAPPING:
        return None
    given = arguments_of(node["Function"])
    varies = [bool(names_in(each)) or any(map(is_query, walk(each))) for each in given]
    if sorted(varies) != [False, True]:
        return None
    return given[varies.index(True)], given[varies.index(False)]


def _spatial_context() -> datafusion.SessionContext:
    """Return a context with spatial functions, which hands on batches in their order."""
    context = datafusion.SessionContext(datafusion.SessionConfig().with_target_partitions(1))
    optional_import("geodatafusion", extra="spatial").register_all(context)
    return context


def geometry_boxes(batch: pa.RecordBatch) -> Any:
    """Return the sides of the boxes of a batch of geometries, in its order.

    One batch at a time, in one partition: the engine hands on several in whatever order they come.
    """
    context = _spatial_context()
    field = batch.schema.field(0).with_name("g")
    renamed = pa.RecordBatch.from_arrays(batch.columns, schema=pa.schema([field]))
    context.register_record_batches("t", [[renamed]])
    sides = ", ".join(f"ST_{side}(g)" for side in BOX_SIDES)
    table = context.sql(f"SELECT {sides} FROM t").to_arrow_table()  # noqa: S608 - no input in it
    return np.array([np.asarray(side.combine_chunks(), np.float64) for side in table.columns])

"""Conditions of a query on one of its tables, as predicates; and the columns that it needs.

An *exact* predicate is what the condition is to any engine; one that is *implied* is true wherever
the condition is.  Known are comparisons of a column with constants, IN, BETWEEN, IS NULL and
columns of Bool, joined by AND, OR and NOT.  Implied are prefixes of strings, too, and boxes:
conditions on shapes can only be true for rows whose boxes overlap that of a constant geometry; an
R-tree names them, others are not read.

*Restrictions* are the rows of its tables that a query can need.  The engine hands tables the
conditions that the bindings convert for pyarrow, and keeps others: ``score > 0.5`` of Float32,
which it casts, ``name LIKE 'ab%'``, lists of categoricals, and ``ST_Within(ST_Point(x, y), ...)``.
They are read from the text, before it is planned.  The engine evaluates them again on the rows that
are left: what is found may be weaker than a condition, never stronger.

A *direct scan* is a query that the engine need not plan: ``SELECT columns FROM axis WHERE
condition``, where the columns are written by their names and the condition is a simple one; the
first rows, too (``LIMIT``).  Rows, names and types are those that the engine would give, in the
order of the axis.  It takes milliseconds to plan what takes less than one to answer; and for a few
rows, the engine would read whole partitions.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Final, TypeAlias

import numpy as np
import pyarrow as pa

from daf_query.scan import (
    INDEX,
    NEGATED,
    And,
    Compare,
    IsNull,
    Or,
    Positions,
    Predicate,
    comparison,
    conjunction,
    describe,
    joined,
    membership,
    plain_type,
)
from daf_query.sql._connections import AxisSchema, Connections, Tables
from daf_query.sql._names import with_entries
from daf_query.sql._planning import (
    ENGINE,
    MOST_ROWS,
    PLANNING,
    MatrixEntries,
    Restrict,
    TableName,
    as_planned,
    datafusion,
    table_frame,
)
from daf_query.sql._rules import text_of_query
from daf_query.syntax import (
    Constant,
    Node,
    Scope,
    Source,
    Statement,
    Term,
    arguments_of,
    function_name,
    identifiers_of,
    is_query,
    item_of,
    kind_of,
    names_in,
    parsed,
    quoted_name,
    string_of,
    term_of,
    values_of,
    walk,
    whole_number_of,
)
from daf_query.table import MatrixEntry, TableDataset, nullable
from daf_storage import DafError, errors
from daf_storage.base import optional_import

_INNER: Final = ("Join", "Inner", "CrossJoin")
_WILD: Final = re.compile(r"[%_\\]")
_MAX_INT64: Final = 2**63 - 1
_LAST_CHARACTER: Final = 0x10FFFF


@dataclass(frozen=True)
class Conditions:
    """The conditions of a WHERE on one of its tables.

    Examples
    --------
    >>> from daf_query.scan import describe
    >>> schema = pa.schema([("age", pa.int64()), ("donor", pa.string())])
    >>> statement = parsed("SELECT 1 FROM t WHERE NOT (age > 60 OR donor = 'N3')")
    >>> (scope,) = statement.scopes
    >>> conditions = Conditions(statement, scope, scope.sources[0], lambda _: schema)
    >>> describe(conditions.predicate(scope.select["selection"]))
    "age <= 60 AND donor != 'N3'"
    """

    statement: Statement
    scope: Scope
    source: Source
    schema_of: Callable[[Source], pa.Schema | None]
    """Returns the columns of a source; None if they are not known."""
    is_exact: bool = True
    """Whether a predicate is what the condition is to any engine; else it may be implied."""

    def selected(self, columns: Sequence[str]) -> Sequence[str] | None:
        """Return which of all columns SELECT names, each once; None if it has something else."""
        items = self.scope.select["projection"]
        if [kind_of(each) for each in items] == ["Wildcard"]:
            return columns if _has_only(items[0]["Wildcard"], "wildcard_token") else None
        fields = [(self._column(node), name) for node, name in map(item_of, items)]
        named = {field.name: None for field, name in fields if field and name in (None, field.name)}
        return [*named] if len(named) == len(items) else None

    def parts(self) -> list[Node]:
        """Return what is true for each row that is needed; nothing in outer joins."""
        select, own = self.scope.select, self.schema_of(self.source)
        tables = walk(select["from"], into_queries=False)  # joins may be within brackets
        joins = [each["join_operator"] for each in tables if "join_operator" in each]
        is_known = own is not None and not self.source.column_names
        is_inner = all(kind_of(each) in _INNER for each in joins)
        condition = select["selection"]
        return _operands(condition, "And") if condition and is_known and is_inner else []

    def predicate(self, node: Node, *, is_negated: bool = False) -> Predicate | None:
        """Return the predicate of a condition, or of its negation; None if it is not known."""
        match node:
            case {"Nested": inner}:
                return self.predicate(inner, is_negated=is_negated)
            case {"UnaryOp": {"op": "Not", "expr": inner}}:
                return self.predicate(inner, is_negated=not is_negated)
            case {"BinaryOp": {"op": "And" | "Or" as op}}:
                is_and, operands = (op == "And") != is_negated, _operands(node, op)
                parts = [self.predicate(each, is_negated=is_negated) for each in operands]
                if is_and and not self.is_exact:
                    parts = [each for each in parts if each is not None]
                return _joined(And if is_and else Or, parts)
        found = self._of_term(term_of(self.statement, node, is_negated=is_negated))
        return found if found is not None or self.is_exact or is_negated else self._weaker(node)

    def _of_term(self, term: Term | None) -> Predicate | None:
        """Return the predicate of a column that is compared with constants."""
        field = None if term is None or term.form == "pattern" else self._column(term.node)
        if term is None or field is None:
            return None
        name, is_negated = field.name, term.is_negated
        if term.form == "missing":
            is_known = field.type in (pa.float32(), pa.float64(), pa.string(), pa.bool_())
            is_known = field.nullable and (is_known or pa.types.is_integer(field.type))
            return IsNull(name, is_negated) if is_known else None
        values = [_value(each) for each in term.constants or (True,)]
        if None in values:
            return None
        if term.operator == "IN":
            return membership(field, values, is_negated=is_negated)
        several = {"": ["=="], "=": ["=="], "BETWEEN": [">=", "<="]}
        operators = several.get(term.operator, [term.operator])
        operators = [NEGATED[each] for each in operators] if is_negated else operators
        parts = map(partial(comparison, field), operators, values)
        return _joined(Or if is_negated else And, list(parts))

    def _weaker(self, node: Node) -> Predicate | None:
        """Return what a condition implies that is no predicate itself."""
        match node, function_name(node), arguments_of(node):
            case {"Cast": {"data_type": "Boolean", "expr": inner}}, *_:
                return self.predicate(inner)
            case {"Like": {"negated": False, "any": False, "escape_char": None} as like}, *_:
                return self._begins(like["expr"], _WILD.split(string_of(like["pattern"]) or "")[0])
            case _, "starts_with", [column, prefix, *_]:
                return self._begins(column, string_of(prefix) or "")
        return self._in_box(node)

    def _begins(self, node: Node, prefix: str) -> Predicate | None:
        """Return the range of the strings that begin with a prefix."""
        field = self._column(node)
        if field is None or field.type != pa.string() or not prefix:
            return None
        following = chr(min(ord(prefix[-1]) + 1, _LAST_CHARACTER))
        from_it = Compare(field.name, ">=", prefix)
        if not following.isprintable():  # such as half of a pair, or the last character
            return from_it
        return And((from_it, Compare(field.name, "<", prefix[:-1] + following)))

    def _column(self, node: Node) -> pa.Field | None:
        """Return the field of a column that can be of this table alone, with the type of values."""
        parts = identifiers_of(node)
        if parts is None:
            return None
        *qualifier, name = values_of(parts)
        written = self.source.written
        if self.is_exact and tuple(qualifier) not in ((), written, written[-1:]):
            return None
        having = [each for each in self.scope.called(qualifier) if self._may_have(each, name)]
        schema = self.schema_of(self.source)
        if having != [self.source] or schema is None or name not in schema.names:
            return None
        field = schema.field(name)
        return field.with_type(plain_type(field.type))

    def _may_have(self, source: Source, name: str) -> bool:
        """Return whether a table may have a column; to another engine capitals may not count."""
        schema = None if source.column_names else self.schema_of(source)
        return schema is None or name.lower() in map(str.lower, schema.names)

    def _in_box(self, node: Node) -> Predicate | None:
        """Return the box of a constant shape, for the point of two columns that may lie in it."""
        point, shape = _overlap(node) or ({}, {})
        if function_name(point) != "st_point":
            return None
        fields = [self._column(each) for each in arguments_of(point)]
        bounds = _bounds(self.statement.written(shape)) if any(fields) else None
        if bounds is None or len(fields) != 2:
            return None
        sides = zip(2 * fields, (">=", ">=", "<=", "<="), bounds, strict=True)
        return conjunction(
            comparison(field, operator, value) for field, operator, value in sides if field
        )

    def indexed_rows(self, table: TableDataset) -> Positions | None:
        """Return the rows for which all conditions can be true; None without an index."""
        rows: Positions | None = None
        for part in self.parts():
            geometry, shape = _overlap(part) or ({}, {})
            field = self._column(geometry)
            index = None if field is None else table.rtree(field.name)
            bounds = None if index is None else _bounds(self.statement.written(shape))
            if index is None or bounds is None:
                continue
            found = index.search(bounds)
            rows = found if rows is None else np.intersect1d(rows, found)
        return rows

    def restricted(self, table: TableDataset) -> TableDataset:
        """Return the table that it is of without rows that the query cannot need."""
        table = as_planned(table, {})  # that of a function is not yet
        of_others = self.schema_of
        own = replace(
            self, schema_of=lambda each: table.schema if each is self.source else of_others(each)
        )
        predicate, rows = conjunction(map(own.predicate, own.parts())), own.indexed_rows(table)
        if rows is None and predicate is None:
            return table
        return table.with_view(rows=rows, condition=conjunction([table.view.condition, predicate]))


def _operands(node: Node, op: str) -> list[Node]:
    """Return what a chain of the same operator joins, in its order."""
    operands = []
    while kind_of(node) == "BinaryOp" and node["BinaryOp"]["op"] == op:
        operands.append(node["BinaryOp"]["right"])
        node = node["BinaryOp"]["left"]
    return [node, *operands[::-1]]


def _joined(kind: type[And | Or], parts: Sequence[Predicate | None]) -> Predicate | None:
    """Join predicates; None if one is not known, or there is none."""
    parsed = [each for each in parts if each is not None]
    return joined(kind, parsed) if parsed and len(parsed) == len(parts) else None


def _value(constant: Constant) -> float | str | None:
    """Return a constant, if engines agree on what it is."""
    if isinstance(constant, bool | str):
        return constant
    value = constant.value
    is_known = abs(value) <= _MAX_INT64 if isinstance(value, int) else math.isfinite(value)
    return value if is_known else None


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
    if function_name(node) not in _OVERLAPPING:
        return None
    given = arguments_of(node)
    varies = [bool(names_in(each)) or any(map(is_query, walk(each))) for each in given]
    if sorted(varies) != [False, True]:
        return None
    return given[varies.index(True)], given[varies.index(False)]


def _bounds(shape: str) -> tuple[float, float, float, float] | None:
    """Return the box of a constant geometry: smallest x and y, largest x and y."""
    row = pa.record_batch({"n": [0]})
    try:
        x, y, to_x, to_y = (float(side[0]) for side in geometry_boxes(row, shape))
    except Exception:  # noqa: BLE001 - it is wrong, as the query will say
        return None
    box = (x, y, to_x, to_y)
    return box if all(map(math.isfinite, box)) else None


def geometry_boxes(batch: pa.RecordBatch, geometry: str = "g") -> Any:
    """Return the sides of the boxes of a batch of geometries, in its order; NaN where none is.

    One batch at a time, in one partition: the engine hands on several in whatever order they come.

    Parameters
    ----------
    geometry
        As SQL; by default, the first column.
    """
    context = datafusion.SessionContext(datafusion.SessionConfig().with_target_partitions(1))
    optional_import("geodatafusion", extra="spatial").register_all(context)
    field = batch.schema.field(0).with_name("g")
    renamed = pa.RecordBatch.from_arrays(batch.columns, schema=pa.schema([field]))
    context.register_record_batches("t", [[renamed]])
    sides = ", ".join(f"ST_{side}(g)" for side in BOX_SIDES)
    table = context.sql(f"SELECT {sides} FROM (SELECT {geometry} AS g FROM t)").to_arrow_table()  # noqa: S608 - a constant of a query, whose value is read
    return np.array([np.asarray(side.combine_chunks(), np.float64) for side in table.columns])


def needed_names(statement: Statement | None) -> tuple[frozenset[str], frozenset[str]] | None:
    """Return names among which are the columns that a query needs, and the tables it needs whole.

    None if it may need any column of any table.

    >>> query = "SELECT avg(age) FROM cell WHERE donor IN (SELECT d.* FROM db.donor AS d)"
    >>> names, whole = needed_names(parsed(query))
    >>> sorted(names), sorted(whole)
    (['age', 'd', 'donor'], ['donor'])
    """
    if statement is None:
        return None
    scopes = [
        each for each in statement.scopes if each.is_natural or "From" in each.select["flavor"]
    ]
    for scope, node in statement.nodes:
        if kind_of(node) in ("Table", "ExplainTable") or _takes_all(node):  # TABLE cell, DESCRIBE
            return None
        if scope is not None and "wildcard_token" in node:
            scopes.append(scope)
    sources = [source for scope in scopes for source in scope.sources]
    # A list such as ``AS t(a, b)`` names the columns by their places.
    sources += [s for scope in statement.scopes for s in scope.sources if s.column_names]
    whole = frozenset(source.parts[-1] for source in sources if source.parts)
    orders = [query.node["order_by"] for query in statement.queries]
    names = names_in([[scope.select for scope in statement.scopes], orders])
    return names, whole


def named_columns(statement: Statement | None) -> frozenset[str] | None:
    """Return names that include all columns a query needs; None if it may need any column."""
    needed = needed_names(statement)
    return None if needed is None or needed[1] else needed[0]


def _takes_all(node: Node) -> bool:
    """Return whether a function is given all columns, ``f(*)``; ``count`` needs none of them."""
    args: Any = node["Function"]["args"] if function_name(node) not in ("", "count") else ""
    return kind_of(args) == "List" and len(arguments_of(node)) < len(args["List"]["args"])


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
    """Return what a query needs for another engine; nothing but metadata is read.

    Columns are those that it names, and all where it has a wildcard; another engine may not tell
    capitals apart.

    Raises
    ------
    QueryError, EntryNotFoundError
        An entry of a matrix is written wrongly, or there is none.
    """
    tables = Tables({schema.name: schema}, schema.name)
    rewritten, found = with_entries(text_of_query(query), tables)
    statement = parsed(rewritten)
    needed = needed_names(statement)
    statement = None if needed is None else statement
    names, whole = (set(map(str.lower, each)) for each in needed or ((), ()))
    sources = [each for each in statement.sources if each.parts] if statement is not None else []
    read = {each.parts[-1].lower() for each in sources}
    axes = [axis for axis in sorted(schema.axes_set()) if statement is None or axis.lower() in read]
    entries = {axis: found.get((schema.name, axis), {}) for axis in axes}
    schemas = {axis: as_planned(schema.dataset(axis), entries[axis]).schema for axis in axes}
    needs: dict[str, TableRequirements] = {}
    for axis, fields in schemas.items():
        is_whole = statement is None or axis.lower() in whole
        columns = [name for name in fields.names if is_whole or name.lower() in names]
        chosen = {name: entry for name, entry in entries[axis].items() if name in columns}
        predicate = None if statement is None else _required(statement, axis, schemas)
        needs[axis] = TableRequirements(tuple(columns or fields.names[:1]), predicate, chosen)
    return QueryRequirements(rewritten, needs)


def _required(
    statement: Statement, axis: str, schemas: Mapping[str, pa.Schema]
) -> Predicate | None:
    """Return what holds for the rows of a table that a query needs, as far as that is certain."""
    readers = (
        Conditions(statement, scope, source, lambda each: schemas.get("".join(each.parts[-1:])))
        for scope in statement.scopes
        for source in scope.sources
        if "".join(source.parts[-1:]).lower() == axis.lower()
    )
    return _joined(Or, [conjunction(map(each.predicate, each.parts())) for each in readers])


Placed: TypeAlias = tuple[TableName, TableDataset | None, Conditions]
"""A table at a place of a FROM, None of one that a function makes; and the conditions on it."""


def placed_tables(
    rewritten: Iterable[tuple[str, MatrixEntries]], connections: Connections, tables: Tables
) -> list[Placed]:
    """Return the tables of a query and its views; none if not all of it can be read."""
    placed, schemas = list[Placed](), dict[Source, pa.Schema | None]()
    for query, entries in rewritten:
        statement = parsed(query)
        if statement is None or any(
            kind_of(node) == "Table" for _, node in statement.nodes
        ):  # TABLE cell, PIVOT
            return []
        for scope in statement.scopes:
            for source in scope.sources:
                name = tables.named(source)
                is_replaced = name in PLANNING.get().replacements
                table = None if is_replaced else connections.find(name)
                table = None if table is None else as_planned(table, entries.get(name, {}))
                if table is not None or source.function:
                    schemas[source] = None if table is None else table.schema
                    reader = Conditions(statement, scope, source, schemas.get, is_exact=False)
                    placed.append((name, table, reader))
    return placed


def restrictions_of(placed: Sequence[Placed]) -> dict[TableName, Restrict]:
    """Return what leaves out rows of tables that a query cannot need.

    A table that stands at several places is left out: they may have other conditions.
    """
    times = Counter(name for name, *_ in placed)
    once = [each for each in placed if times[each[0]] == 1]
    return {name: _restriction(table, conditions) for name, table, conditions in once}


def _restriction(table: TableDataset | None, conditions: Conditions) -> Restrict:
    """Return what gives the table of a place as the query needs it."""
    if table is None:
        return conditions.restricted
    # Now: the engine can be asked for a box, which it cannot while it plans.
    restricted = conditions.restricted(table)
    return lambda _: restricted


def small_tables(
    placed: Sequence[Placed], connections: Connections
) -> dict[TableName, datafusion.DataFrame]:
    """Return the small tables that a query reads beside long ones, with their rows in memory.

    Of these the engine knows how many there are, and joins them by a hash table of their rows.  Of
    two tables of which it does not know that, it distributes the rows of both first.
    """
    options, context = connections.scan_options, PLANNING.get()
    tables = {name: table for name, table, _ in placed if table is not None}
    lengths = {name: table.table_columns.length for name, table in tables.items()}
    if len(tables) < 2 or max(lengths.values()) < options.min_joined_rows:
        return {}
    small: dict[TableName, datafusion.DataFrame] = {}
    for name, table in tables.items():
        # Entries of matrices may be columns at one place and not at another.
        schemas = [each.schema for other, each, _ in placed if each is not None and other == name]
        is_small = lengths[name] * len(table.schema) <= options.max_values_in_memory
        if is_small and all(table.schema == schema for schema in schemas):
            seen = table.with_view(reports=context.reports, engine_strings=context.strings)
            with suppress(DafError):  # a column is unreadable, as the scan will say where it counts
                small[name] = table_frame(seen.to_table())
    return small


MAX_ROWS: Final = 1 << 20
"""A filter of a longer axis the engine evaluates in several threads, which saves more."""
_MAX_FIRST_ROWS: Final = 1 << 16


@dataclass(frozen=True, slots=True)
class DirectScan:
    """A scan of the table of an axis that answers a query."""

    table: TableDataset
    schema: pa.Schema
    """The names and types of the columns that are selected."""
    predicate: Predicate | None
    limit: int | None = None
    """How many of the matching rows are selected, in the order of the axis; None for all."""
    offset: int = 0
    """How many are passed over before."""

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


def direct_scan(tables: Tables, text: str, first: int = MOST_ROWS) -> DirectScan | None:
    """Return what answers a query; None if the engine is to be asked.

    Parameters
    ----------
    first
        Of how many rows, at most.
    """
    statement = parsed(text)
    if statement is None or list(map(kind_of, statement.tree)) != ["Query"]:
        return None
    if len(statement.queries) != 1 or len(statement.scopes) != 1:
        return None
    query, (scope,) = statement.queries[0].node, statement.scopes
    limits = _limits(query["limit_clause"]) if _is_of_one(query, scope) else None
    if limits is None:
        return None
    limit, offset = min(first, limits[0]), limits[1]
    is_first = limit <= _MAX_FIRST_ROWS
    if not is_first and (limit < MOST_ROWS or offset):
        return None
    condition = scope.select["selection"]
    is_whole = condition is None
    try:
        found = tables.find(scope.sources[0])
        if found is None or (found[0].is_collection and not (is_whole and is_first)):
            return None
        table = found[0].dataset(found[1], named_columns(statement))
    except (DafError, errors.DafWarning):  # the engine's path says it, or goes on without it
        return None
    listed = table.table_columns
    if not table.options.direct or (listed.length > MAX_ROWS and not is_whole):
        return None
    reader = Conditions(statement, scope, scope.sources[0], lambda _: listed.schema)
    names = reader.selected(listed.schema.names)
    schema = pa.schema([listed.schema.field(each) for each in names or ()])
    if names is None or any(map(pa.types.is_dictionary, schema.types)):
        return None  # the metadata of dictionaries are otherwise in what the engine computes
    predicate = None if condition is None else reader.predicate(condition)
    if predicate is None and condition is not None:
        return None
    return DirectScan(table, nullable(schema), predicate, limit if is_first else None, offset)


def direct_rows(tables: Tables, schema: str, axis: str, condition: str) -> DirectScan | None:
    """Return the scan for the positions of a condition's rows; None as above."""
    if PLANNING.get().reports is not None:
        return None
    table = f"{quoted_name(schema)}.{quoted_name(axis)}"
    # Not an injection: what is more than a condition makes a query of another kind.
    text = f"SELECT {quoted_name(INDEX)} FROM {table} WHERE {condition}"  # noqa: S608
    found = direct_scan(tables, text)
    return None if found is None or found.limit is not None else found


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


def _limits(clause: Node | None) -> tuple[int, int] | None:
    """Return LIMIT (without one, more than any table has) and OFFSET; None if there is more."""
    limits = {} if clause is None else clause.get("LimitOffset", {"by": clause})
    limit, offset = limits.get("limit"), limits.get("offset")
    first = MOST_ROWS if limit is None else whole_number_of(limit)
    passed = 0 if offset is None else whole_number_of(offset["value"])
    if not _has_only(limits, "limit", "offset") or first is None or passed is None:
        return None
    return None if first > MOST_ROWS else (first, passed)  # it may be more than the engine takes

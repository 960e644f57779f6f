"""Restrictions: the rows of its tables that a query can need, by filters that tables are not given.

``CAST(score AS Float64) > 0.5`` implies a predicate on the Float32 column itself, ``name LIKE
'ab%'`` a range of strings, ``ST_Within(ST_Point(x, y), ...)`` a box.  The engine evaluates the
filter again on the rows that are left: a predicate may be weaker than its filter, never stronger.

Filters on shapes, such as ``ST_Intersects(bbox, ST_GeomFromText('...'))``, can only be true for
rows whose boxes overlap that of the constant geometry; an R-tree names them, others are not read.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final, TypeAlias

import datafusion
import numpy as np
import pyarrow as pa

from daf_query.index import UnfitIndexError
from daf_query.scan import (
    FLIPPED,
    And,
    Compare,
    In,
    Or,
    Positions,
    Predicate,
    compared,
    conjunction,
    joined,
)
from daf_query.sql._connections import Connections
from daf_query.sql._engine_context import table_frame
from daf_query.sql._planning import (
    Restriction,
    TableName,
    TableScan,
    column_name,
    current_context,
    parts_of,
)
from daf_query.table import MatrixEntry, TableDataset, ZarrTable, nullable
from daf_storage import DafError
from daf_storage.base import optional_import

_OPERATORS: Final = {"=": "==", "!=": "!=", "<": "<", "<=": "<=", ">": ">", ">=": ">="}
_STRINGS: Final = (pa.string(), pa.string_view())
_COMPARED: Final = (pa.bool_(), pa.float32(), pa.float64(), *_STRINGS)
"""Types of constants with which columns are compared, besides integers."""
_UNCONVERTED: Final = ("Cast", "Like", "ScalarFunction")
"""Expressions that the bindings do not convert for tables, and that say something of columns."""
_MOST_PARTS: Final = 50
"""So many operands of a chain of AND or OR are read: each step copies what is left of it."""
_FEWEST_JOINED: Final = 2
_WILD: Final = ("%", "_", "\\")
_LAST_CHARACTER: Final = 0x10FFFF


def restrictions_of(
    scans: Sequence[TableScan],
    connections: Connections,
    function_tables: Sequence[tuple[str, TableDataset]] = (),
) -> dict[TableName, Restriction]:
    """Return which rows of its tables a query without scalar subqueries can need, by its scans.

    A table that it scans more than once is left out: its scans may have other filters.  Plans call
    all tables of a function by one name, so there has to be just one.
    """
    by_function = {} if len(function_tables) > 1 else dict(function_tables)
    times = Counter(scan.table for scan in scans)
    restrictions: dict[TableName, Restriction] = {}
    for scan in scans:
        filters = _unconverted(scan)
        if not filters or times[scan.table] > 1:
            continue
        table = by_function.get(scan.table[1]) or connections.find(scan.table)
        if table is None:
            continue
        table = _as_planned(table, scan.table)
        predicate = conjunction(_inferred(each, table.schema) for each in filters)
        is_indexed = isinstance(table, ZarrTable)
        rows = indexed_rows(filters, table) if is_indexed else None
        if rows is not None or predicate is not None:
            restrictions[scan.table] = Restriction(rows, predicate)
    return restrictions


def small_tables(
    scans: Sequence[TableScan], connections: Connections
) -> dict[TableName, datafusion.DataFrame]:
    """Return the small tables that a query reads beside long ones, with their rows in memory.

    Of these the engine knows how many there are, and joins them by a hash table of their rows.  Of
    two tables of which it does not know that, it distributes the rows of both first.  Columns that
    the query does not read are NULL.
    """
    options, used = connections.scan_options, dict[TableName, frozenset[str]]()
    for scan in scans:
        try:
            used[scan.table] = used.get(scan.table, frozenset()) | scan.used()
        except RuntimeError:
            return {}
    if len(used) < _FEWEST_JOINED:
        return {}
    found = {name: connections.find(name) for name in used}
    tables = {name: table for name, table in found.items() if table is not None}
    lengths = [table.table_columns.length for table in tables.values()]
    if max(lengths, default=0) < options.min_joined_rows:
        return {}
    try:
        return {
            name: _in_memory(_as_planned(table, name), used[name])
            for name, table in tables.items()
            if table.table_columns.length * len(used[name]) <= options.max_values_in_memory
        }
    except DafError:  # a column is unreadable, as the scan will say
        return {}


def _in_memory(table: TableDataset, names: frozenset[str]) -> datafusion.DataFrame:
    reports = current_context().reports
    table = table if reports is None else table.with_reports(reports)
    schema = nullable(table.schema)
    rows = table.to_table(columns=[name for name in schema.names if name in names])
    columns = [
        rows[field.name] if field.name in names else pa.nulls(len(rows), field.type)
        for field in schema
    ]
    return table_frame(pa.Table.from_arrays(columns, schema=schema))


def _as_planned(table: TableDataset, name: TableName) -> TableDataset:
    """Return a table with the columns that it has for the query that is planned, and its views."""
    rewritings = (current_context().rewritings or {}).values()
    columns = [rewriting.columns.get(name, {}) for rewriting in rewritings]
    entries: dict[str, MatrixEntry] = {}
    for each in columns:
        entries.update(each)
    table = table.with_matrix_columns(entries) if entries else table
    wide = current_context().wide_columns
    return table.with_wide_integers(wide) if wide else table


def _unconverted(scan: TableScan) -> list[Any]:
    """Return the filters that the engine evaluates itself, and that may say something of columns.

    None of them if the bindings cannot read one.
    """
    try:
        return [each for each in scan.filters if any(map(_is_unconverted, parts_of(each)))]
    except RuntimeError:
        return []


def _is_unconverted(expression: Any) -> bool:
    kind = expression.variant_name()
    if kind != "InList":
        return kind in _UNCONVERTED
    first = expression.to_variant().list()[0]
    is_constant = first.variant_name() == "Literal"
    return is_constant and bool(pa.types.is_dictionary(first.python_value().type))


def _inferred(expression: Any, schema: pa.Schema) -> Predicate | None:
    """Return the predicate that a filter implies; None if it implies nothing."""
    kind = expression.variant_name()
    if kind == "BinaryExpr":
        operator = expression.rex_call_operator()
        if operator in ("AND", "OR"):
            return _inferred_of_all(operator, expression, schema)
        if operator in _OPERATORS:
            left, right = expression.rex_call_operands()
            return _comparison(_OPERATORS[operator], left, right, schema)
    if kind == "Cast":  # where a condition stands, to Boolean
        return _inferred(expression.to_variant().expr(), schema)
    if kind == "InList":
        return _listed(expression.to_variant(), schema)
    if kind == "Like" and expression.rex_call_operator() == "like":
        return _prefix(expression.to_variant(), schema)
    return _in_box(expression, schema) if kind == "ScalarFunction" else None


def _inferred_of_all(operator: str, expression: Any, schema: pa.Schema) -> Predicate | None:
    operands, has_more = _operands(operator, expression)
    parts = [_inferred(each, schema) for each in operands]
    known = [part for part in parts if part is not None]
    if operator == "AND":
        return conjunction(known)
    return joined(Or, known) if len(known) == len(parts) and not has_more else None


def _operands(operator: str, expression: Any) -> tuple[list[Any], bool]:
    """Return what AND or OR joins, and whether there is more of it."""
    found: list[Any] = []
    stack = [expression]
    while stack and len(found) + len(stack) <= _MOST_PARTS:
        each = stack.pop()
        if each.variant_name() == "BinaryExpr" and each.rex_call_operator() == operator:
            stack.extend(reversed(each.rex_call_operands()))
        else:
            found.append(each)
    return found, bool(stack)


def _comparison(operator: str, left: Any, right: Any, schema: pa.Schema) -> Predicate | None:
    if left.variant_name() == "Literal":
        left, right, operator = right, left, FLIPPED[operator]
    field, is_cast = _column(left, schema)
    constant = _constant(right)
    if field is None or constant is None:
        return None
    if not is_cast:
        return Compare(field.name, operator, constant[1]) if _fits(field, constant[0]) else None
    return compared(field, operator, constant[1]) if constant[0] == pa.float64() else None


def _listed(in_list: Any, schema: pa.Schema) -> Predicate | None:
    field, is_cast = _column(in_list.expr(), schema)
    constants = [_constant(item) for item in in_list.list()]
    known = [constant for constant in constants if constant is not None]
    if field is None or len(known) < len(constants):
        return None
    if not is_cast:
        is_known = all(_fits(field, arrow_type) for arrow_type, _ in known)
        values = tuple(value for _, value in known)
        return In(field.name, values, in_list.negated()) if is_known else None
    if in_list.negated() or any(arrow_type != pa.float64() for arrow_type, _ in known):
        return None
    equal = [compared(field, "==", value) for _, value in known]
    if None in equal:
        return None
    return In(field.name, tuple(each.value for each in equal if isinstance(each, Compare)))


def _prefix(like: Any, schema: pa.Schema) -> Predicate | None:
    """Return the range of the strings that a pattern can match."""
    field, is_cast = _column(like.expr(), schema)
    constant = _constant(like.pattern())
    is_plain = not is_cast and not like.negated() and like.escape_char() in (None, "\\")
    if field is None or constant is None or not is_plain or _plain_type(field.type) not in _STRINGS:
        return None
    pattern = constant[1]
    wild = [place for place in map(pattern.find, _WILD) if place >= 0]
    return _begins(field.name, pattern[: min(wild, default=len(pattern))])


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


def _in_box(function: Any, schema: pa.Schema) -> Predicate | None:
    """Return the box of a constant shape, for the point of two columns that may lie in it."""
    found = point_in_box(function)
    if found is None:
        return None
    (x, y), bounds = found

    def sides() -> Iterator[Predicate | None]:
        for side, low, high in zip((x, y), bounds[:2], bounds[2:], strict=True):
            field, _ = _column(side, schema)
            for operator, value in ((">=", low), ("<=", high)):
                if field is not None and field.type == pa.float64():
                    yield Compare(field.name, operator, value)
                elif field is not None:
                    yield compared(field, operator, value)

    return conjunction(sides())


def _column(expression: Any, schema: pa.Schema) -> tuple[pa.Field | None, bool]:
    """Return the column of an expression, if it is one, and whether it is converted.

    What it is converted to is the type of what it is compared with.
    """
    is_cast = expression.variant_name() == "Cast"
    name = column_name(expression.to_variant().expr() if is_cast else expression)
    return (schema.field(name) if name in schema.names else None), is_cast


def _constant(expression: Any) -> tuple[pa.DataType, Any] | None:
    """Return the type and the value of a constant; None if it is null, NaN or of another type."""
    if expression.variant_name() != "Literal":
        return None
    scalar = expression.python_value()
    arrow_type, value = _plain_type(scalar.type), scalar.as_py()
    is_known = pa.types.is_integer(arrow_type) or arrow_type in _COMPARED
    if not is_known or value is None or (isinstance(value, float) and math.isnan(value)):
        return None
    return arrow_type, value


def _fits(field: pa.Field, arrow_type: pa.DataType) -> bool:
    """Return whether a column has values of the type of a constant."""
    return bool(arrow_type == field.type) or {arrow_type, _plain_type(field.type)} <= set(_STRINGS)


def _plain_type(arrow_type: pa.DataType) -> pa.DataType:
    """Return the type of values, also if they are those of a dictionary."""
    return arrow_type.value_type if pa.types.is_dictionary(arrow_type) else arrow_type


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


def _overlap(expression: Any) -> tuple[Any, Any] | None:
    """Return two operands, the second a constant, of a filter that needs their boxes to overlap."""
    if expression.variant_name() != "ScalarFunction":
        return None
    operands = expression.rex_call_operands()
    is_constant = [operand.variant_name() == "Literal" for operand in operands]
    if expression.rex_call_operator() not in _OVERLAPPING or sorted(is_constant) != [False, True]:
        return None
    return operands[is_constant.index(False)], operands[is_constant.index(True)]


def point_in_box(expression: Any) -> tuple[list[Any], Box] | None:
    """Return the coordinates of a point, and the box outside of which a filter is false."""
    operand, constant = _overlap(expression) or (expression, None)
    is_point = operand.variant_name() == "ScalarFunction" and constant is not None
    if not is_point or operand.rex_call_operator() != "st_point":
        return None
    bounds = _bounds_of(constant)
    return None if bounds is None else (operand.rex_call_operands(), bounds)


def indexed_rows(filters: Iterable[Any], table: ZarrTable) -> Positions | None:
    """Return the rows of a table for which all filters can be true; None without an index."""
    rows: Positions | None = None
    for each in filters:
        others = _rows_of(each, table)
        if others is not None:
            rows = others if rows is None else np.intersect1d(rows, others)
    return rows


def _rows_of(expression: Any, table: ZarrTable) -> Positions | None:
    operand, constant = _overlap(expression) or (expression, None)
    column = None if constant is None else column_name(operand)
    index = None if column is None else table.rtree(column)
    bounds = None if index is None else _bounds_of(constant)
    if index is None or bounds is None:
        return None
    try:
        return index.search(bounds)
    except UnfitIndexError:  # it was changed this very moment; the next query says so
        return None


def _bounds_of(constant: Any) -> Box | None:
    """Return the box of a constant geometry, a little widened for trees of less precision."""
    native = optional_import("geodatafusion.native", extra="spatial")
    calls = [
        datafusion.udf(getattr(native, name)())(datafusion.Expr(constant)).alias(name)
        for name in BOX_SIDES
    ]
    row = datafusion.SessionContext().sql("SELECT 1 AS x").select(*calls).to_pylist()[0]
    box = [row[name] for name in BOX_SIDES]
    if any(side is None or not math.isfinite(side) for side in box):
        return None
    down, up = np.float32(-np.inf), np.float32(np.inf)
    x, y = (min(side, float(np.nextafter(np.float32(side), down))) for side in box[:2])
    to_x, to_y = (max(side, float(np.nextafter(np.float32(side), up))) for side in box[2:])
    return x, y, to_x, to_y


def geometry_boxes(batch: pa.RecordBatch) -> Any:
    """Return the sides of the boxes of a batch of geometries, in its order.

    One batch at a time, in one partition: the engine hands on several in whatever order they come.
    """
    config = datafusion.SessionConfig().with_target_partitions(1)
    context = datafusion.SessionContext(config)
    optional_import("geodatafusion", extra="spatial").register_all(context)
    field = batch.schema.field(0).with_name("g")
    renamed = pa.RecordBatch.from_arrays(batch.columns, schema=pa.schema([field]))
    context.register_record_batches("t", [[renamed]])
    sides = ", ".join(f"ST_{side}(g)" for side in BOX_SIDES)
    table = context.sql(f"SELECT {sides} FROM t").to_arrow_table()  # noqa: S608 - no input in it
    return np.array([np.asarray(side.combine_chunks(), np.float64) for side in table.columns])

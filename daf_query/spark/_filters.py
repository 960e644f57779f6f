"""Filters that Spark offers a source, as expressions of Arrow.

Accepted is what means the same here for certain; all others Spark evaluates itself.  A filter on
NULL is not true, and neither is its negation.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from daf_query.scan import Opaque, leaves_of, parse

_COMPARED: Final = {
    "EqualTo": "==",
    "GreaterThan": ">",
    "GreaterThanOrEqual": ">=",
    "LessThan": "<",
    "LessThanOrEqual": "<=",
}
_OPERATORS: Final = {
    "==": lambda field, value: field == value,
    ">": lambda field, value: field > value,
    ">=": lambda field, value: field >= value,
    "<": lambda field, value: field < value,
    "<=": lambda field, value: field <= value,
}


def accepted(filters: Iterable[Any], schema: pa.Schema) -> tuple[list[pc.Expression], list[Any]]:
    """Return the filters that are evaluated here, as expressions, and the others as they are.

    Parameters
    ----------
    filters
        Of pyspark's classes, which are known by name.
    schema
        The columns as they are stored.
    """
    expressions: list[pc.Expression] = []
    others: list[Any] = []
    for each in filters:
        expression = _expression(each, schema)
        if expression is None or _is_opaque(expression, schema):
            others.append(each)
        else:
            expressions.append(expression)
    return expressions, others


def _is_opaque(expression: pc.Expression, schema: pa.Schema) -> bool:
    """Return whether Arrow would have to evaluate a part of an expression."""
    return any(isinstance(leaf, Opaque) for leaf in leaves_of(parse(expression, schema)))


def conjunction_of(expressions: Iterable[pc.Expression]) -> pc.Expression | None:
    """Return the AND of expressions; None if there is none."""
    combined: pc.Expression | None = None
    for expression in expressions:
        combined = expression if combined is None else combined & expression
    return combined


def _expression(each: Any, schema: pa.Schema) -> pc.Expression | None:
    """Return a filter as an expression; None if it is not certain to mean the same."""
    name = type(each).__name__
    if name == "Not":
        return _negated(each.child, schema)
    column = _column_of(each, schema)
    if column is None:
        return None
    field = pc.field(column.name)
    if name == "IsNull":
        return field.is_null()
    if name == "IsNotNull":
        return field.is_valid()
    if name == "In":
        given = [value for value in each.value if value is not None]
        scalars = [scalar for value in given if (scalar := _scalar(value, column)) is not None]
        if not given or len(scalars) < len(given):
            return None
        return field.isin([scalar.as_py() for scalar in scalars])
    scalar = _scalar(getattr(each, "value", None), column)
    if name == "EqualNullSafe":
        if each.value is None:
            return field.is_null()
        return None if scalar is None else field == scalar
    if name in _COMPARED and scalar is not None:
        return _OPERATORS[_COMPARED[name]](field, scalar)
    return None


def _negated(child: Any, schema: pa.Schema) -> pc.Expression | None:
    """Return what is true where a filter is false; where that one is NULL, so is this one."""
    name = type(child).__name__
    if name == "In" and None in child.value:
        return None  # x NOT IN (1, NULL) is true for no row
    if name in ("EqualNullSafe", "Not"):
        return None
    expression = _expression(child, schema)
    return None if expression is None else ~expression


def _column_of(each: Any, schema: pa.Schema) -> pa.Field | None:
    path: Sequence[str] = getattr(each, "attribute", ())
    if len(path) != 1 or path[0] not in schema.names:
        return None
    return schema.field(path[0])


def _scalar(value: Any, column: pa.Field) -> pa.Scalar | None:
    """Return a value as Arrow compares it with a column; None if types are not alike.

    Sail passes timestamps as integers, so numbers are compared with columns of numbers alone.
    """
    arrow_type = column.type
    if pa.types.is_dictionary(arrow_type):
        arrow_type = arrow_type.value_type
    if pa.types.is_boolean(arrow_type):
        return pa.scalar(value) if isinstance(value, bool) else None
    if isinstance(value, bool):
        return None
    if arrow_type in (pa.string(), pa.string_view(), pa.large_string()):
        return pa.scalar(value) if isinstance(value, str) else None
    if pa.types.is_integer(arrow_type):
        is_long = isinstance(value, int) and -(1 << 63) <= value < 1 << 63
        return pa.scalar(value, pa.int64()) if is_long else None
    if arrow_type in (pa.float32(), pa.float64()):
        is_number = isinstance(value, float) and not math.isnan(value)
        return pa.scalar(value, pa.float64()) if is_number else None
    return None

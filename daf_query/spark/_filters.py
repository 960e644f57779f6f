"""Filters of Spark as expressions of Arrow, and predicates as the JSON that an option can have.

Accepted is what means the same here for certain; all others Spark evaluates itself.  A filter on
NULL is not true, and neither is its negation.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Sequence
from functools import reduce
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from daf_query.scan import (
    COMPARISONS,
    And,
    Compare,
    Constant,
    In,
    IsNull,
    Opaque,
    Or,
    Predicate,
    describe,
    leaves_of,
    parse,
)
from daf_storage import errors

_COMPARED: Final = {
    "EqualTo": "==",
    "GreaterThan": ">",
    "GreaterThanOrEqual": ">=",
    "LessThan": "<",
    "LessThanOrEqual": "<=",
}
_JOINED: Final = {And: "and", Or: "or"}


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
        expression = _of_spark(each, schema)
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


def _of_spark(each: Any, schema: pa.Schema) -> pc.Expression | None:
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
        return COMPARISONS[_COMPARED[name]](field, scalar)
    return None


def _negated(child: Any, schema: pa.Schema) -> pc.Expression | None:
    """Return what is true where a filter is false; where that one is NULL, so is this one."""
    name = type(child).__name__
    if name == "In" and None in child.value:
        return None  # x NOT IN (1, NULL) is true for no row
    if name in ("EqualNullSafe", "Not"):
        return None
    expression = _of_spark(child, schema)
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


def to_json(predicate: Predicate) -> str:
    """Return a predicate as JSON.

    >>> to_json(Compare("age", ">", 60))
    '[">", "age", 60]'
    """
    return json.dumps(_written(predicate), allow_nan=False)


def _written(predicate: Predicate) -> list[Any]:
    if isinstance(predicate, And | Or):
        return [_JOINED[type(predicate)], *map(_written, predicate.parts)]
    if isinstance(predicate, Constant):
        return ["constant", predicate.value]
    if isinstance(predicate, Compare):
        return [predicate.operator, predicate.column, predicate.value]
    if isinstance(predicate, Opaque):
        raise TypeError(f"{describe(predicate)} is nothing that Spark pushes")
    sign = "not " if predicate.is_negated else ""
    if isinstance(predicate, In):
        return [f"{sign}in", predicate.column, list(predicate.values)]
    return [f"{sign}{'null' if isinstance(predicate, IsNull) else 'true'}", predicate.column]


def from_json(written: str, schema: pa.Schema) -> pc.Expression:
    """Return the filter that a predicate as JSON means, for a table of a schema.

    Constants have the types of their columns: UInt64 and Int64 would be compared as Int64, which
    not all values of UInt64 are.

    Raises
    ------
    InvalidInputError
        It is none.

    >>> str(from_json('[">", "age", 60]', pa.schema([("age", pa.uint64())])))
    '(age > 60)'
    """
    try:
        return _expression(json.loads(written), schema)
    except (ValueError, TypeError, LookupError, OverflowError, pa.ArrowException) as error:
        raise errors.InvalidInputError(
            f"predicate={written!r} is no filter ({error}); write the condition as a filter of "
            "Spark, which pushes it"
        ) from None


def _expression(parts: list[Any], schema: pa.Schema) -> pc.Expression:
    word, *rest = parts
    if word in _JOINED.values():
        join = (lambda a, b: a & b) if word == "and" else (lambda a, b: a | b)
        return reduce(join, (_expression(part, schema) for part in rest))
    if word == "constant":
        return pc.scalar(bool(rest[0]))
    field, constant_type = pc.field(rest[0]), _type_of_constants(schema.field(rest[0]).type)
    if word in COMPARISONS:
        return COMPARISONS[word](field, pc.scalar(pa.scalar(rest[1], constant_type)))
    plain = word.removeprefix("not ")
    expression = {
        "in": lambda: field.isin(pa.array(rest[1], constant_type)),
        "null": field.is_null,
        "true": lambda: field,
    }[plain]()
    return ~expression if plain != word else expression


def _type_of_constants(column_type: pa.DataType) -> pa.DataType:
    is_dictionary = pa.types.is_dictionary(column_type)
    return column_type.value_type if is_dictionary else column_type

"""Infer single-column predicates from residual filters.

``CAST(score AS Float64) > 0.5`` implies a predicate on the Float32 column itself, ``name LIKE
'ab%'`` a range of strings, ``ST_Within(ST_Point(x, y), ...)`` a box.  The engine evaluates the
filter again on the rows that are left: a predicate may be weaker than its filter, never stronger.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

import pyarrow as pa

from daf_query.scan import FLIPPED, And, Compare, In, Or, Predicate, compared, conjunction
from daf_query.sql._geometry import OVERLAPPING, bounds_of
from daf_query.sql._plan_nodes import column_name
from daf_query.sql._residual_filters import ResidualFilter

_OPERATORS = {"=": "==", "!=": "!=", "<": "<", "<=": "<=", ">": ">", ">=": ">="}
_LITERALS = {
    "Boolean": (pa.bool_(), "bool"),
    "Int8": (pa.int8(), "i8"),
    "Int16": (pa.int16(), "i16"),
    "Int32": (pa.int32(), "i32"),
    "Int64": (pa.int64(), "i64"),
    "UInt8": (pa.uint8(), "u8"),
    "UInt16": (pa.uint16(), "u16"),
    "UInt32": (pa.uint32(), "u32"),
    "UInt64": (pa.uint64(), "u64"),
    "Float32": (pa.float32(), "f32"),
    "Float64": (pa.float64(), "f64"),
    "Utf8": (pa.string(), "string"),
}
"""The types of constants: Arrow's, and what the engine calls them where it hands out a value."""

_DICTIONARY = "Dictionary(Int32, Utf8)"
_AS_BOOLEAN = " AS Boolean)"
_STRINGS = (pa.string(), pa.string_view())
_MAX_DEPTH = 50
_WILD = frozenset("%_")
_LAST_CHARACTER, _BEFORE_SURROGATES, _AFTER_SURROGATES = 0x10FFFF, 0xD7FF, 0xE000


def inferred_predicate(filters: Iterable[ResidualFilter], schema: pa.Schema) -> Predicate | None:
    """Return the predicate that residual filters imply; None if they imply nothing."""
    return conjunction(_inferred_or_none(residual, schema) for residual in filters)


def _inferred_or_none(residual: ResidualFilter, schema: pa.Schema) -> Predicate | None:
    try:
        return _inferred(residual.expression, residual, schema, 0)
    except Exception:  # noqa: BLE001 - the bindings have no way into some kinds of expressions
        return None


def _inferred(
    expression: Any, residual: ResidualFilter, schema: pa.Schema, depth: int
) -> Predicate | None:
    variant_name = expression.variant_name()
    if variant_name == "BinaryExpr":
        operator = expression.rex_call_operator()
        left, right = expression.rex_call_operands()
        if operator in ("AND", "OR") and depth < _MAX_DEPTH:
            parts = [_inferred(side, residual, schema, depth + 1) for side in (left, right)]
            return _combined(parts, is_both=operator == "AND")
        if operator in _OPERATORS:
            return _comparison(_OPERATORS[operator], left, right, residual, schema)
    if (
        variant_name == "Cast"
        and depth < _MAX_DEPTH
        and str(expression.canonical_name()).endswith(_AS_BOOLEAN)
    ):
        return _inferred(expression.to_variant().expr(), residual, schema, depth + 1)
    if variant_name == "InList":
        return _listed(expression, residual, schema)
    if variant_name == "Like":
        return _prefix(expression, residual, schema)
    if variant_name == "ScalarFunction":
        return _in_box(expression, residual, schema)
    return None


def _combined(parts: list[Predicate | None], *, is_both: bool) -> Predicate | None:
    known = [part for part in parts if part is not None]
    if is_both and len(known) < len(parts):
        return known[0] if known else None
    if len(known) < len(parts):
        return None
    return And(tuple(known)) if is_both else Or(tuple(known))


def _comparison(
    operator: str, left: Any, right: Any, residual: ResidualFilter, schema: pa.Schema
) -> Predicate | None:
    if left.variant_name() == "Literal":
        left, right, operator = right, left, FLIPPED[operator]
    column = _column(left, residual, schema)
    literal = _literal(right)
    if column is None or literal is None:
        return None
    field, is_cast = column
    literal_type, value = literal
    if not is_cast:
        return Compare(field.name, operator, value) if _is_same_type(field, literal_type) else None
    return compared(field, operator, value) if literal_type == pa.float64() else None


def _listed(expression: Any, residual: ResidualFilter, schema: pa.Schema) -> Predicate | None:
    variant = expression.to_variant()
    column = _column(variant.expr(), residual, schema)
    literals = [_literal(item) for item in variant.list()]
    if column is None:
        return None
    field, is_cast = column
    if not is_cast:
        return _listed_without_cast(field, literals, is_negated=variant.negated())
    if variant.negated():
        return None
    values = []
    for literal in literals:
        if literal is None or literal[0] != pa.float64():
            return None
        comparison = compared(field, "==", literal[1])
        if comparison is None:
            return None
        values += [comparison.value] if isinstance(comparison, Compare) else []
    return In(field.name, tuple(values))


def _listed_without_cast(
    field: pa.Field, literals: list[tuple[pa.DataType, Any] | None], *, is_negated: bool
) -> Predicate | None:
    values = []
    for literal in literals:
        if literal is None or not _is_same_type(field, literal[0]):
            return None
        values.append(literal[1])
    return In(field.name, tuple(values), is_negated)


def _is_same_type(field: pa.Field, arrow_type: pa.DataType) -> bool:
    return bool(arrow_type == field.type) or {arrow_type, _plain_type(field)} <= set(_STRINGS)


def _plain_type(field: pa.Field) -> pa.DataType:
    """Return the type of the values of a column, also if they are those of a dictionary."""
    return field.type.value_type if pa.types.is_dictionary(field.type) else field.type


def _prefix(expression: Any, residual: ResidualFilter, schema: pa.Schema) -> Predicate | None:
    """Return the range of the strings that a pattern can match."""
    variant = expression.to_variant()
    column = _column(variant.expr(), residual, schema)
    literal = _literal(variant.pattern())
    is_plain = (
        not variant.negated()
        and expression.rex_call_operator() == "like"
        and variant.escape_char() in (None, "\\")
    )
    if not is_plain or column is None or literal is None or literal[0] != pa.string():
        return None
    field, is_cast = column
    if is_cast or _plain_type(field) not in _STRINGS:
        return None
    return begins(field.name, _constant_part(literal[1]))


def _constant_part(pattern: str) -> str:
    r"""Return what a pattern begins with; an escaped character ends it here too.

    >>> _constant_part("ab%c"), _constant_part("a_"), _constant_part(r"10\%"), _constant_part("ab")
    ('ab', 'a', '10', 'ab')
    """
    for place, character in enumerate(pattern):
        if character in _WILD or character == "\\":
            return pattern[:place]
    return pattern


def begins(name: str, prefix: str) -> Predicate | None:
    """Return the range of the strings that begin with a prefix.

    >>> begins("name", "ab")
    And(parts=(Compare(column='name', operator='>=', value='ab'), \
Compare(column='name', operator='<', value='ac')))
    """
    if not prefix:
        return None
    first = Compare(name, ">=", prefix)
    rest = prefix.rstrip(chr(_LAST_CHARACTER))
    if not rest:
        return first
    code = ord(rest[-1])
    following = _AFTER_SURROGATES if code == _BEFORE_SURROGATES else code + 1
    return And((first, Compare(name, "<", rest[:-1] + chr(following))))


def _in_box(expression: Any, residual: ResidualFilter, schema: pa.Schema) -> Predicate | None:
    """Return the box of a constant shape, for the point of two columns that may lie in it."""
    operands = expression.rex_call_operands()
    if expression.rex_call_operator() not in OVERLAPPING or len(operands) != 2:
        return None
    constants = [operand for operand in operands if operand.variant_name() == "Literal"]
    points = [operand for operand in operands if operand.variant_name() == "ScalarFunction"]
    if len(constants) != 1 or len(points) != 1 or points[0].rex_call_operator() != "st_point":
        return None
    sides = [_column(operand, residual, schema) for operand in points[0].rex_call_operands()]
    bounds = bounds_of(constants[0])
    if bounds is None:
        return None
    parts: list[Predicate] = []
    for side, low, high in zip(sides, bounds[:2], bounds[2:], strict=True):
        if side is not None:
            for operator, value in ((">=", low), ("<=", high)):
                bound = _bound(side[0], operator, value)
                parts += [] if bound is None else [bound]
    return And(tuple(parts)) if parts else None


def _bound(field: pa.Field, operator: str, value: float) -> Predicate | None:
    if field.type == pa.float64():
        return Compare(field.name, operator, value)
    return compared(field, operator, value)


def _column(
    expression: Any, residual: ResidualFilter, schema: pa.Schema
) -> tuple[pa.Field, bool] | None:
    """Return the column of an expression, and whether it is converted to Float64."""
    if column_name(expression) is not None:
        expression = residual.resolve(expression)
        is_renamed = True
    else:
        is_renamed = False
    is_cast = expression is not None and expression.variant_name() == "Cast"
    if is_cast:
        if not str(expression.canonical_name()).endswith(" AS Float64)"):
            return None
        expression = expression.to_variant().expr()
        if not is_renamed and column_name(expression) is not None:
            expression = residual.resolve(expression)
    name = None if expression is None else column_name(expression)
    if name is None or name not in schema.names:
        return None
    return schema.field(name), is_cast


def _literal(expression: Any) -> tuple[pa.DataType, Any] | None:
    """Return the type and the value of a constant; None if it is null or of another type."""
    if expression.variant_name() != "Literal":
        return None
    variant = expression.to_variant()
    data_type = str(variant.data_type())
    if data_type == _DICTIONARY:
        text = expression.python_value().as_py()
        return None if text is None else (pa.string(), text)
    known = _LITERALS.get(data_type)
    if known is None:
        return None
    arrow_type, suffix = known
    value = getattr(variant, f"value_{suffix}")()
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return None
    return arrow_type, value

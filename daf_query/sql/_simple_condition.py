"""Conditions that mean the same to the engine and to a scan for certain, as predicates.  Pure.

Comparisons of a column with a constant, IN, BETWEEN, IS NULL and columns of Bool, joined by AND, OR
and NOT.  Whatever is not certain is left to the engine: other expressions, constants that it would
convert, NULL.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import pyarrow as pa

from daf_query.scan import (
    EXACT_FLOAT,
    FLIPPED,
    NEGATED,
    And,
    Compare,
    In,
    IsNull,
    IsTrue,
    Or,
    Predicate,
    compared,
    flat,
    numpy_type,
)
from daf_query.syntax import (
    Node,
    Number,
    Statement,
    constant_of,
    identifiers_of,
    kind_of,
    values_of,
)

_COMPARISONS: Final = ("Eq", "NotEq", "Lt", "LtEq", "Gt", "GtEq")
_OPERATORS: Final = dict(zip(_COMPARISONS, ("==", "!=", "<", "<=", ">", ">="), strict=True))
_INTEGER: Final = re.compile(r"-?(?:0|[1-9]\d{0,18})")
_FLOAT: Final = re.compile(r"-?(?:0|[1-9]\d*)(?:\.\d+(?:[eE]\d{1,3})?|[eE]\d{1,3})")
_MAX_DEPTH: Final = 32
_EXACT_FLOAT32: Final = 2**24
_MAX_INT64: Final = 2**63 - 1


class UncertainError(Exception):
    """The engine is to be asked."""


def require(*, is_so: bool) -> None:
    """Leave a query to the engine unless something is so.

    Raises
    ------
    UncertainError
        It is not.
    """
    if not is_so:
        raise UncertainError


def simple_condition(
    statement: Statement, node: Node, field: Callable[[tuple[str, ...]], pa.Field]
) -> Predicate:
    """Return the predicate of a condition; raise `UncertainError` if the engine is to be asked.

    Parameters
    ----------
    statement
        Where it stands.
    field
        Returns the field of a column that is written in these parts, or raises `UncertainError`.

    Examples
    --------
    >>> from daf_query.scan._predicate import describe
    >>> from daf_query.syntax import parsed
    >>> schema = pa.schema([("age", pa.int64()), ("donor", pa.string())])
    >>> statement = parsed("SELECT 1 WHERE NOT (age > 60 OR donor = 'N3')")
    >>> node = statement.queries[0].scopes[0].select["selection"]
    >>> describe(simple_condition(statement, node, lambda parts: schema.field(parts[-1])))
    "age <= 60 AND donor != 'N3'"
    """
    return _Reader(statement, field).predicate(node, is_negated=False, depth=0)


@dataclass(frozen=True, slots=True)
class _Reader:
    """Reads the nodes of a condition."""

    statement: Statement
    field: Callable[[tuple[str, ...]], pa.Field]

    def predicate(self, node: Node, *, is_negated: bool, depth: int) -> Predicate:
        """Return the predicate of a condition, or of its negation."""
        require(is_so=depth <= _MAX_DEPTH)
        kind = kind_of(node)
        body: Any = node.get(kind)
        if kind == "Nested":
            return self.predicate(body, is_negated=is_negated, depth=depth + 1)
        if kind == "UnaryOp" and body["op"] == "Not":
            return self.predicate(body["expr"], is_negated=not is_negated, depth=depth + 1)
        if kind == "BinaryOp" and body["op"] in ("And", "Or"):
            joined = And if (body["op"] == "And") != is_negated else Or
            parts = _operands(node, body["op"])
            return flat(
                joined, [self.predicate(e, is_negated=is_negated, depth=depth + 1) for e in parts]
            )
        if kind == "BinaryOp":
            return self._comparison(body, is_negated=is_negated)
        if kind == "InList":
            field, constants = self._column(body["expr"]), self.statement.constants_in(body["list"])
            values = tuple(_exact(field, _value(constant)) for constant in constants or ())
            require(is_so=bool(values))
            return In(field.name, values, body["negated"] != is_negated)
        if kind == "Between":
            field, is_outside = self._column(body["expr"]), body["negated"] != is_negated
            low, high = (_value(constant_of(body[end])) for end in ("low", "high"))
            above = _compared(field, "<" if is_outside else ">=", low)
            return flat(
                Or if is_outside else And,
                [above, _compared(field, ">" if is_outside else "<=", high)],
            )
        if kind in ("IsNull", "IsNotNull"):
            return _null(self._column(body), is_negated=(kind == "IsNotNull") != is_negated)
        field = self._column(node)
        require(is_so=pa.types.is_boolean(field.type))
        return IsTrue(field.name, is_negated)

    def _comparison(self, body: Node, *, is_negated: bool) -> Predicate:
        operator = _OPERATORS.get(body["op"]) if isinstance(body["op"], str) else None
        left, right = body["left"], body["right"]
        if operator is None:
            raise UncertainError
        if identifiers_of(left) is None:
            left, right, operator = right, left, FLIPPED[operator]
        field = self._column(left)
        meant = NEGATED[operator] if is_negated else operator
        value: Any = right["Value"]["value"] if kind_of(right) == "Value" else None
        if kind_of(value) == "Boolean" and meant in ("==", "!="):
            require(is_so=pa.types.is_boolean(field.type))
            return IsTrue(field.name, (meant == "!=") == value["Boolean"])
        return _compared(field, meant, _value(constant_of(right)))

    def _column(self, node: Node) -> pa.Field:
        identifiers = identifiers_of(node)
        if identifiers is None:
            raise UncertainError
        return self.field(values_of(identifiers))


def _operands(node: Node, op: str) -> list[Node]:
    """Return what a chain of the same operator joins, in its order."""
    operands = []
    while kind_of(node) == "BinaryOp" and node["BinaryOp"]["op"] == op:
        operands.append(node["BinaryOp"]["right"])
        node = node["BinaryOp"]["left"]
    return [node, *operands[::-1]]


def _value(constant: Number | str | None) -> int | float | str:
    if isinstance(constant, str):
        return constant
    text = "" if constant is None else constant.text
    if _INTEGER.fullmatch(text) and abs(int(text)) <= _MAX_INT64:
        return int(text)
    if _FLOAT.fullmatch(text) and math.isfinite(float(text)):
        return float(text)
    raise UncertainError


def _is_integer(field: pa.Field) -> bool:
    """Return whether the engine compares a column with an Int64 as they are."""
    return bool(pa.types.is_integer(field.type)) and field.type != pa.uint64()


def _exact(field: pa.Field, constant: float | str) -> Any:
    """Return a constant as a value of a column's type, of which it is one without rounding."""
    if isinstance(constant, str):
        if field.type == pa.string():
            return constant
    elif _is_integer(field):
        limits = np.iinfo(numpy_type(field.type))
        if isinstance(constant, int) and limits.min <= constant <= limits.max:
            return constant
    elif field.type == pa.float64():
        if type(constant) is float or abs(constant) < EXACT_FLOAT:
            return float(constant)
    elif (
        field.type == pa.float32()
        and abs(constant) <= _EXACT_FLOAT32
        and float(np.float32(constant)) == constant
    ):
        return float(constant)
    raise UncertainError


def _compared(field: pa.Field, operator: str, constant: float | str) -> Predicate:
    try:
        return Compare(field.name, operator, _exact(field, constant))
    except UncertainError:
        if not isinstance(constant, float) or field.type == pa.float64():
            raise
    require(is_so=_is_integer(field) or field.type == pa.float32())
    predicate = compared(field, operator, constant)
    if not isinstance(predicate, Compare):  # a constant would be true where the column is NULL
        raise UncertainError
    return predicate


def _null(field: pa.Field, *, is_negated: bool) -> Predicate:
    is_known = field.type in (pa.float32(), pa.float64(), pa.string(), pa.bool_())
    require(is_so=field.nullable and (is_known or bool(pa.types.is_integer(field.type))))
    return IsNull(field.name, is_negated)

"""Filters of Daft as filters of a table: parts that leave no row out that Daft would keep."""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce
from operator import and_, eq, ge, gt, le, lt, ne
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from daf_query.scan import numpy_type
from daf_storage.spi import optional_import

visitor = optional_import("daft.expressions.visitor", extra="daft")
_ExpressionVisitor: Any = visitor.ExpressionVisitor

_COMPARISONS: Final[dict[str, Callable[[Any, Any], Any]]] = {
    "equal": eq,
    "not_equal": ne,
    "less_than": lt,
    "less_than_or_equal": le,
    "greater_than": gt,
    "greater_than_or_equal": ge,
}
_ROUNDED: Final = 1 << 53
"""Not all integers from here on are values of Float64."""
_MOST_OF_INT64: Final = (1 << 63) - 1
_MIRRORED: Final = {lt: gt, le: ge, gt: lt, ge: le}


class NotPushedError(Exception):
    """A part of a filter that only Daft evaluates."""


def pushed_filter(filters: Any, schema: pa.Schema) -> tuple[pc.Expression | None, bool]:
    """Return what a table evaluates of an expression of Daft, and whether that is all of it.

    >>> import daft
    >>> schema = pa.schema([("age", pa.int64()), ("donor", pa.string())])
    >>> pushed_filter((daft.col("donor") == "N1") & (daft.col("age") * 2 > 5), schema)
    (<pyarrow.compute.Expression (donor == "N1")>, False)
    """
    if filters is None:
        return None, True
    parts = _Conjuncts().visit(filters)
    pushed: list[pc.Expression] = []
    for part in parts:
        try:
            pushed.append(_Predicates(schema).visit(part))
        except (
            *(NotPushedError, LookupError, TypeError, ValueError, OverflowError),
            pa.ArrowException,
        ):
            continue
    return (reduce(and_, pushed) if pushed else None), len(pushed) == len(parts)


class _Visitor(_ExpressionVisitor):
    """A visitor that knows nothing."""

    def _refuse(self, *_: Any) -> Any:
        raise NotPushedError

    visit_col = visit_lit = visit_alias = visit_cast = visit_function = _refuse


class _Conjuncts(_Visitor):
    """The parts that a filter joins by AND."""

    def visit(self, expr: Any) -> list[Any]:
        try:
            parts: list[Any] = super().visit(expr)
        except NotPushedError:
            return [expr]
        return parts

    def visit_and(self, left: Any, right: Any) -> list[Any]:
        return [*self.visit(left), *self.visit(right)]


class _Predicates(_Visitor):
    """A part of a filter as an expression of Arrow."""

    def __init__(self, schema: pa.Schema) -> None:
        self._schema = schema

    def visit_col(self, name: str) -> pc.Expression:
        if self._schema.field(name).type != pa.bool_():
            raise NotPushedError
        return pc.field(name)

    def visit_and(self, left: Any, right: Any) -> pc.Expression:
        return self.visit(left) & self.visit(right)

    def visit_or(self, left: Any, right: Any) -> pc.Expression:
        return self.visit(left) | self.visit(right)

    def visit_not(self, expr: Any) -> pc.Expression:
        return ~self.visit(expr)

    def visit_function(self, name: str, args: list[Any]) -> pc.Expression:
        if name not in _COMPARISONS:
            raise NotPushedError
        compare = _COMPARISONS[name]
        left, right = (_Operands().visit(arg) for arg in args)
        if isinstance(right, _Column):
            left, right, compare = right, left, _MIRRORED.get(compare, compare)
        return compare(pc.field(_name_of(left)), self._constant(left, right))

    def visit_between(self, expr: Any, lower: Any, upper: Any) -> pc.Expression:
        column, low, high = (_Operands().visit(arg) for arg in (expr, lower, upper))
        field = pc.field(_name_of(column))
        return (field >= self._constant(column, low)) & (field <= self._constant(column, high))

    def visit_is_in(self, expr: Any, items: list[Any]) -> pc.Expression:
        column = _Operands().visit(expr)
        values = [self._constant(column, _Operands().visit(item)) for item in items]
        return pc.field(_name_of(column)).isin(
            pa.array([v.as_py() for v in values], values[0].type)
        )

    def visit_is_null(self, expr: Any) -> pc.Expression:
        return pc.field(_name_of(_Operands().visit(expr))).is_null()

    def visit_not_null(self, expr: Any) -> pc.Expression:
        return ~pc.field(_name_of(_Operands().visit(expr))).is_null()

    def _constant(self, column: Any, value: Any) -> pa.Scalar:
        """Return a constant of the type of a column, if it has the value."""
        arrow_type = self._schema.field(_name_of(column)).type
        if pa.types.is_dictionary(arrow_type) and isinstance(value, str):
            return pa.scalar(value)
        if isinstance(value, str) != bool(pa.types.is_string(arrow_type)):
            raise NotPushedError
        if isinstance(value, bool) != bool(pa.types.is_boolean(arrow_type)):
            raise NotPushedError
        if pa.types.is_integer(arrow_type) and not _is_exact(value, arrow_type):
            raise NotPushedError
        if pa.types.is_floating(arrow_type) and float(_numpy(arrow_type)(value)) != value:
            raise NotPushedError
        return pa.scalar(value, arrow_type)


def _is_exact(value: Any, arrow_type: pa.DataType) -> bool:
    """Return whether a column of integers has a value, and Daft compares it as an integer.

    UInt64 and Int64 have only Float64 in common there, in which integers from 2**53 on are rounded.
    """
    limits = np.iinfo(_numpy(arrow_type))
    if not isinstance(value, int) or not limits.min <= value <= limits.max:
        return False
    is_unsigned = arrow_type == pa.uint64() or value > _MOST_OF_INT64
    return not is_unsigned or abs(value) < _ROUNDED


def _numpy(arrow_type: pa.DataType) -> Any:
    return numpy_type(arrow_type).type


class _Column:
    """A column that is compared."""

    def __init__(self, name: str) -> None:
        self.name = name


def _name_of(operand: Any) -> str:
    """Return the name of an operand that is a column."""
    if not isinstance(operand, _Column):
        raise NotPushedError
    return operand.name


class _Operands(_Visitor):
    """A side of a comparison: a column, or a constant as a value of Python."""

    def visit_col(self, name: str) -> _Column:
        return _Column(name)

    def visit_lit(self, value: Any) -> Any:
        if not isinstance(value, bool | int | float | str):
            raise NotPushedError
        return value

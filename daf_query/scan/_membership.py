"""Membership in a list as SQL has it, for filters that Arrow evaluates.

In Arrow a null is no member of a list, so ``NOT IN`` keeps it; in SQL that is null, and the row is
left out.  A null in the list is a member like any other in Arrow; in SQL it makes null of what
would be false.
"""

from __future__ import annotations

import functools
import operator
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from daf_query.scan._arrow_filter import Call, FieldName, UnknownPartError, tree_of
from daf_query.scan._predicate import ARROW_OPERATORS, COMPARISONS

_OPERATORS: Final[dict[str, Any]] = {
    "and_kleene": operator.and_,
    "or_kleene": operator.or_,
    **{name: COMPARISONS[symbol] for name, symbol in ARROW_OPERATORS.items()},
}


def with_sql_membership(expression: pc.Expression | None, schema: pa.Schema) -> Any:
    """Return a filter in which membership of null, or in a list with null, is null.

    One with parts that engines do not hand over, such as arithmetic, is returned as it is.

    >>> table = pa.table({"x": ["a", "b", None]})
    >>> kept = with_sql_membership(~pc.field("x").isin(["a"]), table.schema)
    >>> table.filter(kept).to_pydict()
    {'x': ['b']}
    """
    if expression is None:
        return None
    try:
        tree = tree_of(expression, schema)
        return _rebuilt(tree) if _has_membership(tree) else expression
    except (UnknownPartError, pa.ArrowException, LookupError, ValueError, TypeError, StopIteration):
        return expression


def _has_membership(node: Any) -> bool:
    if not isinstance(node, Call):
        return False
    return node.name == "is_in" or any(map(_has_membership, node.arguments))


def _rebuilt(node: Any) -> pc.Expression:
    if isinstance(node, FieldName):
        return pc.field(node.name)
    if isinstance(node, pa.Scalar):
        return pc.scalar(node)
    if node.name == "is_in":
        return _membership(_rebuilt(node.arguments[0]), node.options["value_set"].values)
    arguments = [_rebuilt(argument) for argument in node.arguments]
    if node.name == "invert":
        return ~arguments[0]
    if node.name == "is_valid":
        return arguments[0].is_valid()
    if node.name == "is_null":
        nan_is_null = node.options.get("nan_is_null")
        return arguments[0].is_null(nan_is_null=nan_is_null is not None and nan_is_null.as_py())
    if node.name not in _OPERATORS:
        raise UnknownPartError
    return functools.reduce(_OPERATORS[node.name], arguments)


def _membership(field: pc.Expression, values: pa.Array) -> pc.Expression:
    null = pa.scalar(None, pa.bool_())
    is_member = field.isin(values.drop_null())
    if values.null_count:
        is_member = pc.if_else(is_member, True, null)  # noqa: FBT003 - an Arrow literal
    return pc.if_else(field.is_valid(), is_member, null)

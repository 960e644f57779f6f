"""The types of parameters that have no values yet, as far as the engine infers them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final

import datafusion
import pyarrow as pa

from daf_query.sql._engine import Engine
from daf_query.sql._parameters import placeholders
from daf_query.sql._plan_nodes import nodes_of
from daf_storage import DafError

_EXPRESSIONS: Final = (
    "projections",
    "predicate",
    "on",
    "filter",
    "group_by_exprs",
    "aggregate_exprs",
    "sort_exprs",
)
"""Methods of nodes that return expressions."""
_LEAVES: Final = ("Column", "Literal", "ScalarVariable")
"""Expressions that the bindings give as operands of themselves."""


def unbound_schemas(engine: Engine, query: str) -> tuple[pa.Schema | None, pa.Schema]:
    """Return the columns of a query without the values of its parameters, and its parameters.

    The columns are None where they depend on the values.  A parameter of which nothing is known is
    a string.
    """
    numbered, names = placeholders(query)
    try:
        frame = engine.plan(numbered)
        columns, types = frame.schema(), dict(_types(frame))
    except DafError:
        if not names:
            raise
        columns, types = None, {}
    fields = [pa.field(name, types.get(name, pa.string())) for name in names]
    return columns, pa.schema(fields)


def _types(frame: datafusion.DataFrame) -> Iterator[tuple[str, pa.DataType]]:
    """Yield the names of the parameters of a plan with their types, where they are known."""
    for node in nodes_of(frame.logical_plan()):
        for expression in _expressions(node):
            yield from _parameters_in(expression)


def _expressions(node: Any) -> Iterator[Any]:
    try:
        variant = node.to_variant()
    except Exception:  # noqa: BLE001 - nodes that the bindings have no class for
        return
    for name in _EXPRESSIONS:
        found = getattr(variant, name, None)
        if callable(found):
            yield from _flat(found())


def _flat(value: Any) -> Iterator[Any]:
    if isinstance(value, datafusion.expr.Expr) or hasattr(value, "rex_call_operands"):
        yield value
    elif isinstance(value, Sequence):
        for each in value:
            yield from _flat(each)


def _parameters_in(expression: Any) -> Iterator[tuple[str, pa.DataType]]:
    try:
        variant = expression.variant_name()
        if variant in _LEAVES:
            return
        if variant == "Placeholder":
            placeholder = expression.to_variant()
            name = str(placeholder.id()).removeprefix("$")
            field = placeholder.field()
            if field is not None:
                yield name, field.type
            return
        operands = expression.rex_call_operands()
    except Exception:  # noqa: BLE001 - expressions that the bindings have no class for
        return
    for operand in operands:
        yield from _parameters_in(operand)

"""The types of parameters that have no values yet, as far as the engine infers them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import datafusion
import pyarrow as pa

from daf_query.sql._engine import Engine
from daf_query.sql._parameters import unbound
from daf_query.sql._planning import nodes_of
from daf_storage import DafError

_EXPRESSIONS: Final = (
    *("projections", "predicate", "on", "filter"),
    *("group_by_exprs", "aggregate_exprs", "sort_exprs"),
)
"""Methods of nodes that return expressions."""
_LEAVES: Final = ("Column", "Literal", "ScalarVariable")
"""Expressions that the bindings give as operands of themselves."""


def unbound_schemas(engine: Engine, query: str) -> tuple[pa.Schema | None, pa.Schema]:
    """Return the columns of a query without the values of its parameters, and its parameters.

    The columns are None where they depend on the values.  A parameter of which nothing is known is
    a string.
    """
    numbered, names = unbound(query)
    columns, types = None, dict[str, pa.DataType]()
    try:
        frame = engine.plan(numbered)
        columns, types = frame.schema(), dict(_types(frame))
    except DafError:
        if not names:
            raise
    return columns, pa.schema([(name, types.get(name, pa.string())) for name in names])


def _types(frame: datafusion.DataFrame) -> Iterator[tuple[str, pa.DataType]]:
    """Yield the names of the parameters of a plan with their types, where they are known."""
    stack: list[Any] = list(nodes_of(frame.logical_plan()))
    while stack:
        each = stack.pop()
        if isinstance(each, list | tuple):
            stack.extend(each)
            continue
        try:
            is_expression = hasattr(each, "variant_name")
            if is_expression and each.variant_name() not in (*_LEAVES, "Placeholder"):
                stack.extend(each.rex_call_operands())
                continue
            variant = each.to_variant()
        except Exception:  # noqa: BLE001, S112 - what the bindings have no class for
            continue
        if not is_expression:
            stack += [getattr(variant, name)() for name in _EXPRESSIONS if hasattr(variant, name)]
        elif each.variant_name() == "Placeholder" and variant.field() is not None:
            yield str(variant.id()).removeprefix("$"), variant.field().type

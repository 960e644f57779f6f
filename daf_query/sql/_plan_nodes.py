"""Nodes of DataFusion's logical plans."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import datafusion

_ABOVE_ORDER: Final = ("Projection", "Limit", "SubqueryAlias", "Distinct")
"""Nodes that may be above the ORDER BY of a query."""


def node_type(node: Any) -> str:
    """Return the name of a node's class (``Filter``, ``TableScan``); empty if it has none."""
    try:
        return type(node.to_variant()).__name__
    except Exception:  # noqa: BLE001 - nodes that the bindings have no class for
        return ""


def nodes_of(plan: Any) -> Iterator[Any]:
    """Yield the nodes of a plan from the top, without those of subqueries in expressions."""
    yield plan
    for child in plan.inputs():
        yield from nodes_of(child)


def column_name(expression: Any) -> str | None:
    """Return the name of a column; None if an expression is something else."""
    if expression.variant_name() != "Column":
        return None
    return str(expression.to_variant().name())


def is_ordered(frame: datafusion.DataFrame) -> bool:
    """Return whether a query ends in an ORDER BY."""
    plan = frame.logical_plan()
    while node_type(plan) in _ABOVE_ORDER:
        plan = plan.inputs()[0]
    return node_type(plan) == "Sort"

"""Nodes of DataFusion's logical plans, read as objects: scans, and what tables are asked for."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

import datafusion

TableName: TypeAlias = tuple[str, str]
"""Schema and table."""

_ABOVE_ORDER: Final = ("Projection", "Limit", "SubqueryAlias", "Distinct")
"""Nodes that may be above the ORDER BY of a query."""
_LEAVES: Final = ("Column", "Literal", "ScalarVariable", "Placeholder")
"""Expressions that the bindings give as operands of themselves."""


@dataclass(frozen=True, slots=True)
class TableScan:
    """What a plan asks a table for."""

    table: TableName
    columns: tuple[str, ...]
    """Those that are handed on; filters may be of others."""
    filters: tuple[Any, ...]
    """The engine's expressions, joined by AND."""

    def used(self) -> frozenset[str]:
        """Return the columns that are handed on, and those of the filters.

        Raises
        ------
        RuntimeError
            The bindings cannot read a filter.
        """
        named = {column_name(part) for each in self.filters for part in parts_of(each)}
        return frozenset(self.columns) | {name for name in named if name is not None}


def node_type(node: Any) -> str:
    """Return the name of a node's class (``Filter``, ``TableScan``)."""
    return type(node.to_variant()).__name__


def nodes_of(plan: Any) -> Iterator[Any]:
    """Yield the nodes of a plan from the top, without those of subqueries in expressions."""
    stack = [plan]
    while stack:
        node = stack.pop()
        yield node
        stack.extend(reversed(node.inputs()))


def scans_of(frame: datafusion.DataFrame, default: str) -> list[TableScan]:
    """Return the scans of a plan as it is optimised, but for those of scalar subqueries.

    Tables are handed all filters on their rows, since none is refused by `AxisSchema.table`.

    Parameters
    ----------
    default
        The schema of tables that are named without one.
    """
    scans = []
    for node in nodes_of(frame.optimized_logical_plan()):
        scan = node.to_variant()
        if isinstance(scan, datafusion.expr.TableScan):
            _, schema, table = scan.fqn()
            name = (default if schema is None else str(schema), str(table))
            columns = tuple(str(column) for _, column in scan.projection())
            scans.append(TableScan(name, columns, tuple(scan.filters())))
    return scans


def parts_of(expression: Any) -> Iterator[Any]:
    """Yield an expression and all that are within it; without recursion.

    Raises
    ------
    RuntimeError
        One is of a kind into which the bindings have no way: a reference to another query.
    """
    stack = [expression]
    while stack:
        each = stack.pop()
        yield each
        if each.variant_name() not in _LEAVES:
            stack.extend(each.rex_call_operands())


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

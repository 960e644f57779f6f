"""Residual filters: those that the engine evaluates above the scan of a table.

A filter that can be a pyarrow expression is pushed down to the table.  The others (casts, LIKE,
functions) stay above the scan in the optimised plan.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

import datafusion

from daf_query.sql._plan_nodes import column_name, node_type, nodes_of

TableName: TypeAlias = tuple[str, str]
"""Schema and table."""

_MAX_DEPTH = 50
_UNCONVERTED: Final = re.compile(
    r"^ *TableScan: .*(?:unsupported_filters=\[|Boolean\(NULL\)|Binary(?:View)?\(|"
    r"filters=\[Boolean\(false\), )",
    re.MULTILINE,
)
"""A filter that the bindings would fail to convert, or to log if it has bytes, as plans show it.

``a = 1 AND a = 2`` becomes ``Boolean(false)``, which pyarrow cannot join with what comes after it.
"""


@dataclass(frozen=True, slots=True)
class Surroundings:
    """A scan, the filter right above it and the projection right above that, as plans show them.

    Nothing else in a plan can use a column of the table that the projection does not hand on.
    """

    scan: str
    filter: str
    projection: str

    def use_once(self, column: str) -> bool:
        """Return whether a column is named once in the filter, and is not used otherwise.

        A name that is part of another, or of a constant, counts as well: that is on the safe side.

        >>> scan = "TableScan: meta projection=[bbox, n], full_filters=[meta.n > Int64(3)]"
        >>> query = Surroundings(scan, "Filter: st_within(meta.bbox, ...)", "Projection: meta.n")
        >>> query.use_once("bbox"), query.use_once("n")
        (True, False)
        """
        _, _, handed_down = self.scan.partition("filters=[")
        is_once = self.filter.count(column) == 1 and self.scan.count(column) == 1
        return is_once and column not in handed_down and column not in self.projection


@dataclass(frozen=True, slots=True)
class ResidualFilter:
    """A filter above the scan of a table; several are joined by AND."""

    expression: Any
    """The engine's expression."""
    resolve: Callable[[Any], Any]
    """Returns what a column in it stands for: an expression of the table's own columns, or None."""
    surroundings: Surroundings | None = None
    """All of the plan that can use columns of the table; None if there may be more."""

    def is_only_use(self, column: str) -> bool:
        """Return whether the query certainly uses a column of the table in this filter alone."""
        return self.surroundings is not None and self.surroundings.use_once(column)


def residual_filters(
    frame: datafusion.DataFrame, default: str
) -> dict[TableName, list[ResidualFilter]]:
    """Return the residual filters right above the scan of each table.

    A table that a query scans more than once is left out: its scans may have other filters.

    Parameters
    ----------
    default
        The schema of tables that are named without one.
    """
    plan = frame.optimized_logical_plan()
    lines = [line.strip() for line in str(plan.display_indent()).splitlines()]
    if not any(line.startswith("Filter:") for line in lines):
        return {}
    nodes = list(nodes_of(plan))
    scanned = [_table_of(node, default) for node in nodes if node_type(node) == "TableScan"]
    if sum(line.startswith("TableScan:") for line in lines) != len(scanned):
        return {}  # a subquery within an expression scans tables too, and needs all of their rows
    times = Counter(scanned)
    filters: dict[TableName, list[ResidualFilter]] = {}
    for above, node in _pairs(plan):
        below = _scan_below(node) if node_type(node) == "Filter" else None
        if below is None:
            continue
        table = _table_of(below[0], default)
        if times[table] == 1:
            resolve = _resolver(below[1])
            around = _surroundings(above, node, below[0])
            conjuncts = _conjuncts(node.to_variant().predicate())
            residual = [ResidualFilter(conjunct, resolve, around) for conjunct in conjuncts]
            filters.setdefault(table, []).extend(residual)
    return filters


def tables_scanned(plan: Any, default: str) -> set[TableName]:
    """Return the tables that a plan scans, but for subqueries within expressions."""
    scans = [node for node in nodes_of(plan) if node_type(node) == "TableScan"]
    return {_table_of(scan, default) for scan in scans}


def _pairs(plan: Any, above: Any = None) -> Iterator[tuple[Any, Any]]:
    """Yield each node with the one above it."""
    yield above, plan
    for child in plan.inputs():
        yield from _pairs(child, plan)


def _surroundings(above: Any, node: Any, scan: Any) -> Surroundings | None:
    """Return what is around a filter that has a projection above and nothing but the scan below."""
    if (
        above is None
        or node_type(above) != "Projection"
        or node_type(node.inputs()[0]) != "TableScan"
    ):
        return None
    # Text, since the bindings have no way into some expressions, and a name that is counted too
    # often is on the safe side.
    return Surroundings(*(str(part.display()) for part in (scan, node, above)))


def _table_of(scan: Any, default: str) -> TableName:
    _, schema, table = scan.to_variant().fqn()
    return (default if schema is None else str(schema), str(table))


def _scan_below(node: Any) -> tuple[Any, list[dict[str, Any]]] | None:
    """Return the scan that a filter is right above of, and what renames columns in between."""
    renamings: list[dict[str, Any]] = []
    below = node.inputs()[0]
    while node_type(below) in ("SubqueryAlias", "Projection", "Filter"):
        if node_type(below) == "Projection":
            renamings.append(_renaming(below.to_variant().projections()))
        below = below.inputs()[0]
    return (below, renamings) if node_type(below) == "TableScan" else None


def _renaming(projections: list[Any]) -> dict[str, Any]:
    """Return what the columns of a projection are, by name; of two of one name, neither."""
    named = []
    for expression in projections:
        if expression.variant_name() == "Alias":
            alias = expression.to_variant()
            named.append((str(alias.alias()), alias.expr()))
        elif (name := column_name(expression)) is not None:
            named.append((name, expression))
    times = Counter(name for name, _ in named)
    return {name: expression for name, expression in named if times[name] == 1}


def _resolver(renamings: list[dict[str, Any]]) -> Callable[[Any], Any]:
    """Return a function that follows a column down to the table.

    An expression of renamed columns again is given up: that is rare.
    """

    def resolve(expression: Any) -> Any:
        for number, renaming in enumerate(renamings):
            name = column_name(expression)
            if name is None:
                return None
            expression = renaming.get(name)
            if expression is None:
                return None
            if column_name(expression) is None and number < len(renamings) - 1:
                return None
        return expression

    return resolve


def _conjuncts(expression: Any, depth: int = 0) -> Iterator[Any]:
    """Yield the expressions that are joined by AND."""
    is_and = expression.variant_name() == "BinaryExpr" and expression.rex_call_operator() == "AND"
    if is_and and depth < _MAX_DEPTH:
        for operand in expression.rex_call_operands():
            yield from _conjuncts(operand, depth + 1)
    else:
        yield expression


def has_unconverted(frame: datafusion.DataFrame) -> bool:
    """Return whether a table is handed a filter with a constant that the bindings fail on.

    The text of the plan is searched, since it has the subqueries within expressions, and the
    filters that a table did not support; the objects of the bindings have neither.
    """
    plan = str(frame.optimized_logical_plan().display_indent())
    return _UNCONVERTED.search(plan) is not None

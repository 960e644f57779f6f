"""The planning of a query: how its tables are made meanwhile, and the nodes of its plan as objects.

DataFusion asks the catalog for tables without saying for which query.  The engine sets the context
around a planning, and the catalog makes each table as the context says.  Must not know the catalog.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from typing import Any, Final, TypeAlias

import datafusion

from daf_query.scan import Positions, Predicate, ScanReport
from daf_query.table import MatrixEntry, TableDataset

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


@dataclass(frozen=True, slots=True)
class Restriction:
    """Which rows of a table a query can need, found in its plan."""

    rows: Positions | None
    """Those that an index left; None if all."""
    predicate: Predicate | None
    """What is true for them; None if nothing is known."""


MatrixEntries: TypeAlias = Mapping[TableName, Mapping[str, MatrixEntry]]
"""The entries of matrices that are columns of tables, by table and name of the column."""


@dataclass(frozen=True, slots=True)
class EntryRewriting:
    """A query as it is planned: entries of matrices are columns."""

    query: str
    """What is planned."""
    columns: MatrixEntries = field(default_factory=dict)
    """The columns that tables have while it is planned, for entries of matrices."""


@dataclass(frozen=True, slots=True)
class NamedColumns:
    """The names of the columns that a query of one table can need."""

    names: frozenset[str]
    """Of columns, and of what the query itself calls so."""
    required: frozenset[str]
    """Those that are columns for certain, unless the query is wrong."""


@dataclass(frozen=True, slots=True)
class PlanningContext:
    """What the tables of a query are like while it is planned."""

    replacements: Mapping[TableName, datafusion.DataFrame] = field(default_factory=dict)
    """Tables to be used instead: views as planned now, those of a length alone, and files."""
    restrictions: Mapping[TableName, Restriction] = field(default_factory=dict)
    """Tables of which only some rows are read."""
    reports: list[ScanReport] | None = None
    """Where scans report what they read; None if nowhere."""
    function_tables: list[tuple[str, TableDataset]] | None = None
    """Where table functions note what plans call them, and the table; None if nowhere."""
    matrix_columns: MatrixEntries = field(default_factory=dict)
    """Columns that tables have besides their vectors: entries of matrices that the query names."""
    named_columns: Mapping[TableName, NamedColumns] = field(default_factory=dict)
    """Tables of which no other columns are needed, if they have all that are required."""
    wide_columns: frozenset[str] = frozenset()
    """The names of columns of integers that tables have as Int64: the query computes with them."""
    is_part: bool = False
    """Whether conditions of other queries may meet those of this one: a view is among them."""
    rewritings: dict[str, EntryRewriting] | None = None
    """How the query and its views were written, by their text; None if that is not kept."""
    found: dict[TableName, TableDataset | None] | None = None
    """Tables that were looked for, with the columns of that moment; None if that is not kept."""

    def replacing(self, tables: Mapping[TableName, datafusion.DataFrame]) -> PlanningContext:
        """Return a context in which other tables are used instead of these, too."""
        return replace(self, replacements={**self.replacements, **tables})


_context: ContextVar[PlanningContext] = ContextVar(
    "daf_query.planning",
    default=PlanningContext(),  # noqa: B039 - it is frozen
)


def current_context() -> PlanningContext:
    """Return the context of the query that is being planned."""
    return _context.get()


@contextmanager
def planning(context: PlanningContext) -> Iterator[None]:
    """Plan within a context."""
    token = _context.set(context)
    try:
        yield
    finally:
        _context.reset(token)


@contextmanager
def reporting() -> Iterator[list[ScanReport]]:
    """Collect a report of each scan of the queries that are planned within the block."""
    reports: list[ScanReport] = []
    with planning(replace(current_context(), reports=reports)):
        yield reports

"""The planning of a query: how its tables are made meanwhile, and the nodes of its plan as objects.

DataFusion asks the catalog for tables without saying for which query.  The engine sets the context
around a planning, and the catalog makes each table as the context says.  Must not know the catalog.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from typing import Any, Final, TypeAlias

import datafusion

from daf_query.scan import ScanReport
from daf_query.table import MatrixEntry, TableDataset

TableName: TypeAlias = tuple[str, str]
"""Schema and table."""

_ABOVE_ORDER: Final = ("Projection", "Limit", "SubqueryAlias", "Distinct")
"""Nodes that may be above the ORDER BY of a query."""


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


def is_ordered(frame: datafusion.DataFrame) -> bool:
    """Return whether a query ends in an ORDER BY."""
    plan = frame.logical_plan()
    while node_type(plan) in _ABOVE_ORDER:
        plan = plan.inputs()[0]
    return node_type(plan) == "Sort"


Restrict: TypeAlias = Callable[[TableDataset], TableDataset]
"""Returns a table without rows that a query cannot need."""

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
    restrictions: Mapping[TableName, Restrict] = field(default_factory=dict)
    """Tables of which only some rows may be needed."""
    reports: list[ScanReport] | None = None
    """Where scans report what they read; None if nowhere."""
    matrix_columns: MatrixEntries = field(default_factory=dict)
    """Columns that tables have besides their vectors: entries of matrices that the query names."""
    named_columns: Mapping[TableName, NamedColumns] = field(default_factory=dict)
    """Tables of which no other columns are needed, if they have all that are required."""
    wide_columns: frozenset[str] = frozenset()
    """The names of columns of integers that tables have as Int64: the query computes with them."""
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


def as_planned(table: TableDataset, entries: Mapping[str, MatrixEntry]) -> TableDataset:
    """Return a table with the columns that it has for the query that is planned."""
    wide = current_context().wide_columns
    table = table.with_matrix_columns(entries) if entries else table
    return table.with_wide_integers(wide) if wide else table


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

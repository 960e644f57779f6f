"""Contexts of DataFusion, and the planning of a query: how its tables are made meanwhile.

DataFusion asks the catalog for tables without saying for which query.  The engine sets the context
around a planning, and the catalog makes each table as the context says.  Must not know the catalog.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from functools import cache
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import pyarrow as pa

from daf_query import scan, syntax
from daf_query import table as tables
from daf_query._runs import call_engine
from daf_storage._lazy import lazy_module, pc
from daf_storage.base import ThreadedLibrary

if TYPE_CHECKING:
    import datafusion as datafusion  # noqa: PLC0414 - the other modules have it from here
else:
    # It makes pyarrow import pandas, which takes longer than all else of `connect`.
    datafusion = lazy_module("datafusion")

CATALOG: Final = "daf"
"""The catalog of all schemas."""

_JOINED_BYTES: Final = 4 << 20
"""How much of a large table is read ahead of a join."""

MOST_ROWS: Final = 2**61
"""More than any table has, and twice that, of a limit and an offset, is an Int64."""

TableName: TypeAlias = tuple[str, str]
"""Schema and table."""

_ABOVE_ORDER: Final = ("Projection", "Limit", "SubqueryAlias", "Distinct")
"""Nodes that may be above the ORDER BY of a query."""


def node_type(node: Any) -> str:
    """Return the name of a node's class (``Filter``, ``TableScan``)."""
    return type(node.to_variant()).__name__


def is_ordered(frame: datafusion.DataFrame) -> bool:
    """Return whether a query ends in an ORDER BY."""
    plan = frame.logical_plan()
    while node_type(plan) in _ABOVE_ORDER:
        plan = plan.inputs()[0]
    return node_type(plan) == "Sort"


Restrict: TypeAlias = "Callable[[tables.TableDataset], tables.TableDataset]"
"""Returns a table without rows that a query cannot need."""

MatrixEntries: TypeAlias = "Mapping[TableName, Mapping[str, tables.MatrixEntry]]"
"""The entries of matrices that are columns of tables, by table and name of the column."""


@dataclass(frozen=True, slots=True)
class PlanningContext:
    """What the tables of a query are like while it is planned."""

    strings: pa.DataType = pa.string()  # noqa: RUF009 - a constant
    """The type of strings; views for a query whose result is handed out as strings."""
    replacements: Mapping[TableName, datafusion.DataFrame] = field(default_factory=dict)
    """Tables to be used instead: views as planned now, those of a length alone, and files."""
    restrictions: Mapping[TableName, Restrict] = field(default_factory=dict)
    """Tables of which only some rows may be needed."""
    reports: list[scan.ScanReport] | None = None
    """Where scans report what they read; None if nowhere."""
    matrix_columns: MatrixEntries = field(default_factory=dict)
    """Columns that tables have besides their vectors: entries of matrices that the query names."""
    named_columns: frozenset[str] | None = None
    """Names among which are all columns that are needed of axes; None if others may be."""
    wide_columns: frozenset[str] = frozenset()
    """The names of columns of integers that tables have as Int64: the query computes with them."""
    found: dict[TableName, tables.TableDataset | None] | None = None
    """Tables that were looked for, with the columns of that moment; None if that is not kept."""

    def replacing(self, others: Mapping[TableName, datafusion.DataFrame]) -> PlanningContext:
        """Return a context in which other tables are used instead of these, too."""
        return replace(self, replacements={**self.replacements, **others})


PLANNING: Final[ContextVar[PlanningContext]] = ContextVar(
    "daf_query.planning",
    default=PlanningContext(),  # noqa: B039 - it is frozen
)
"""The context of the query that is being planned."""


def as_planned(
    table: tables.TableDataset, entries: Mapping[str, tables.MatrixEntry]
) -> tables.TableDataset:
    """Return a table with the columns that it has for the query that is planned."""
    table = table.with_matrix_columns(entries) if entries else table
    return table.with_wide_integers(PLANNING.get().wide_columns)


def table_for_query(schema: str, name: str, table: tables.TableDataset) -> datafusion.catalog.Table:
    """Return a table as the query that is planned needs it."""
    context = PLANNING.get()
    restrict = context.restrictions.get((schema, name))
    entries = context.matrix_columns.get((schema, name), {})
    table = as_planned(table, entries) if restrict is None else restrict(table)
    return pushed_to(table.with_view(reports=context.reports, engine_strings=context.strings))


def pushed_to(dataset: pa.dataset.Dataset) -> datafusion.catalog.Table:
    """Return a table that is handed all filters, as a query of its own.

    The engine plans that one by itself: the table is given what the bindings convert for pyarrow,
    and the engine evaluates the rest.
    """
    frame = _context_of_tables().read_table(datafusion.catalog.Table(dataset))
    filtered = frame.filter(_always(dataset.schema))
    # The engine logs the filters of a table as Python shows them, and panics where bytes are no
    # text: of these it is given an expression that is not converted for pyarrow.  The greatest of
    # one column is the column, not copied.  Those of geometries are known by their metadata.
    as_bytes = [f.name for f in dataset.schema if f.type == pa.binary_view() and not f.metadata]
    if as_bytes:
        columns = {name: datafusion.col(syntax.quoted_name(name)) for name in dataset.schema.names}
        for name in as_bytes:
            columns[name] = datafusion.functions.greatest(columns[name]).alias(name)
        filtered = filtered.select(*columns.values())
    return filtered.into_view(temporary=True)


@cache
def _context_of_tables() -> datafusion.SessionContext:
    """Return a context that executes nothing."""
    return datafusion.SessionContext()


def _always(schema: pa.Schema) -> datafusion.Expr:
    """Return a condition that is true for each row, which the engine does not know.

    The bindings join filters by ``&``, which pyarrow has for expressions and not for constants, as
    NULL is in ``n NOT IN (NULL, 3)``: so the first filter has to be an expression.
    """
    name = scan.INDEX if scan.INDEX in schema.names else schema.names[0]
    column = datafusion.col(syntax.quoted_name(name))
    return column.is_null() | column.is_not_null()


@contextmanager
def planning(context: PlanningContext) -> Iterator[None]:
    """Plan within a context."""
    token = PLANNING.set(context)
    try:
        yield
    finally:
        PLANNING.reset(token)


@contextmanager
def reporting() -> Iterator[list[scan.ScanReport]]:
    """Collect a report of each scan of the queries that are planned within the block."""
    reports: list[scan.ScanReport] = []
    with planning(replace(PLANNING.get(), reports=reports)):
        yield reports


def new_context(default: str, *, memory_bytes: int | None) -> datafusion.SessionContext:
    """Return a context without tables.

    Parameters
    ----------
    default
        The schema of tables that are named without one.
    memory_bytes
        How much memory sorts, joins and groups may take: beyond it a query fails, and nothing is
        written to files instead.  None is three quarters of that of the machine: beyond it, sorts
        and groups go on in temporary files, and joins fail.
    """
    config = (
        datafusion.SessionConfig()
        .with_information_schema(enabled=True)
        .with_create_default_catalog_and_schema(enabled=False)
        .with_default_catalog_and_schema(CATALOG, default)
        # UMIs is UMIs, not umis.
        .set("datafusion.sql_parser.enable_ident_normalization", "false")
        # It takes memory for as many groups as LIMIT says, and panics where that is very many.
        .set("datafusion.optimizer.enable_topk_aggregation", "false")
        # It fails where groups or DISTINCT have `x IS TRUE`, which it plans as if that may be NULL.
        .set("datafusion.execution.skip_physical_aggregate_schema_check", "true")
        # Rows that are joined are read by tasks of their own: else one thread joined all of them.
        .set("datafusion.execution.hash_join_buffering_capacity", str(_JOINED_BYTES))
    )
    ENGINE.note_start()
    runtime = datafusion.RuntimeEnvBuilder()
    if memory_bytes is not None:
        runtime = runtime.with_disk_manager_disabled()
    elif hasattr(os, "sysconf"):
        memory_bytes = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") * 3 // 4
    if memory_bytes is not None:
        runtime = runtime.with_greedy_memory_pool(memory_bytes)
    context = datafusion.SessionContext(config, runtime)
    mode: Any = datafusion.Accumulator.register(_Mode)
    context.register_udaf(
        datafusion.udaf(mode, [pa.string()], pa.string(), _Mode.STATE, "immutable", "mode")
    )
    return context


class _Mode:
    """The most frequent string of a group; of several the first in the alphabet.

    >>> one, whole = _Mode(), _Mode()
    >>> one.update(pa.array(["b", "a", None, "b", "c", "c"]))
    >>> whole.merge([pa.array([each]) for each in one.state()])
    >>> whole.evaluate().as_py(), _Mode().evaluate().as_py()
    ('b', None)
    """

    STATE: Final = [pa.list_(pa.string()), pa.list_(pa.int64())]

    def __init__(self) -> None:
        self._counts: Counter[str] = Counter()

    def update(self, *values: pa.Array) -> None:
        """Count the strings of a batch; NULL counts for nothing."""
        counted = pc.value_counts(values[0].drop_null())
        self._add(counted.field("values"), counted.field("counts"))

    def merge(self, states: list[pa.Array]) -> None:
        """Add what other partitions have counted."""
        values, counts = states
        self._add(values.flatten(), counts.flatten())

    def state(self) -> list[pa.Scalar]:
        """Return the strings and how often each occurs."""
        values, counts = self.STATE
        return [pa.scalar([*self._counts], values), pa.scalar([*self._counts.values()], counts)]

    def evaluate(self) -> pa.Scalar:
        """Return the most frequent one; NULL of a group without any."""
        most = min(self._counts, key=lambda value: (-self._counts[value], value), default=None)
        return pa.scalar(most, pa.string())

    def _add(self, values: pa.Array, counts: pa.Array) -> None:
        for value, count in zip(values.to_pylist(), counts.to_pylist(), strict=True):
            self._counts[value] += count


def copy_functions(context: datafusion.SessionContext, other: datafusion.SessionContext) -> None:
    """Make the functions of a context known to another, those of its user as well."""
    for kind in ("udf", "udaf", "udwf"):
        for name in set(getattr(context, f"{kind}s")()) - set(getattr(other, f"{kind}s")()):
            getattr(other, f"register_{kind}")(getattr(context, kind)(name))


def is_out_of_memory(error: Exception) -> bool:
    """Return whether a query needed more memory than its context has."""
    return "Resources exhausted" in str(error)


ENGINE: Final = ThreadedLibrary("the query engine", start="SQL or a slice was asked for")
"""DataFusion, whose threads start with its first context."""


def computed_table(frame: Any) -> pa.Table:
    """Return the rows of a frame of the engine.

    Within a run of a server the computation ends as soon as nobody waits for it.
    """
    table: pa.Table = call_engine(frame.to_arrow_table)
    schema = scan.plain_schema(table.schema, strings_only=True)
    batches = (scan.converted(each, schema) for each in table.to_batches())
    return pa.Table.from_batches(batches, schema)


def schema_of(frame: datafusion.DataFrame) -> pa.Schema:
    """Return the names and types that the rows of a frame will have.

    The engine settles the types of UNION when it optimises; before, they are those of its first
    branch.  One may be in a subquery of an expression, which the bindings do not show.
    """
    plan = frame.optimized_logical_plan()
    frame = _context_of_tables().create_dataframe_from_logical_plan(plan)
    return scan.plain_schema(frame.schema(), strings_only=True)


def table_frame(table: pa.Table) -> datafusion.DataFrame:
    """Return the rows of a table that is in memory, to build upon; names keep their case."""
    config = datafusion.SessionConfig().set(
        "datafusion.sql_parser.enable_ident_normalization", "false"
    )
    return datafusion.SessionContext(config).from_arrow(table)


def engine_table(rows: pa.Table | pa.dataset.Dataset) -> datafusion.DataFrame:
    """Return a table of which the engine evaluates all filters.

    None gets past a limit, even if that is larger than any table: pyarrow, which reads the files,
    compares NaN otherwise than the engine does.
    """
    if isinstance(rows, pa.Table):
        return table_frame(rows)
    return _context_of_tables().read_table(datafusion.catalog.Table(rows)).limit(MOST_ROWS)


def table_text(table: pa.Table) -> str:
    """Return the rows of a table as the engine writes them; else as Arrow does."""
    try:
        return repr(table_frame(table))
    except Exception:  # noqa: BLE001 - such as a time zone that it does not know
        return str(table.to_string())

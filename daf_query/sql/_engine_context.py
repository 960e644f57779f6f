"""Contexts of DataFusion as queries of data sets need them, with a limit of memory or without."""

from __future__ import annotations

from collections import Counter
from typing import Any, Final

import datafusion
import pyarrow as pa
import pyarrow.compute as pc

from daf_query._runs import call_engine
from daf_query.sql._axis_schema import CATALOG
from daf_storage.base import ThreadedLibrary


def new_context(default: str, *, memory_bytes: int | None) -> datafusion.SessionContext:
    """Return a context without tables.

    Parameters
    ----------
    default
        The schema of tables that are named without one.
    memory_bytes
        How much memory sorts, joins and groups may take: beyond it a query fails.  None is no
        limit.  With a limit nothing is written to files instead.
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
    )
    ENGINE.note_start()
    runtime = None
    if memory_bytes is not None:
        runtime = datafusion.RuntimeEnvBuilder().with_disk_manager_disabled()
        runtime = runtime.with_greedy_memory_pool(memory_bytes)
    context = datafusion.SessionContext(config, runtime)
    context.register_udaf(
        datafusion.udaf(_Mode, [pa.string()], pa.string(), _Mode.STATE, "immutable", "mode")
    )
    return context


class _Mode(datafusion.Accumulator):
    """The most frequent string of a group; of several the first in the alphabet."""

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
        most = max(self._counts.values(), default=0)
        first = min((value for value, n in self._counts.items() if n == most), default=None)
        return pa.scalar(first, pa.string())

    def _add(self, values: pa.Array, counts: pa.Array) -> None:
        for value, count in zip(values.to_pylist(), counts.to_pylist(), strict=True):
            self._counts[value] += count


def copy_functions(context: datafusion.SessionContext, other: datafusion.SessionContext) -> None:
    """Make the functions of a context known to another, those of its user as well."""
    for name in set(context.udfs()) - set(other.udfs()):
        other.register_udf(context.udf(name))
    for name in set(context.udafs()) - set(other.udafs()):
        other.register_udaf(context.udaf(name))
    for name in set(context.udwfs()) - set(other.udwfs()):
        other.register_udwf(context.udwf(name))


def is_out_of_memory(error: Exception) -> bool:
    """Return whether a query needed more memory than its context has."""
    return "Resources exhausted" in str(error)


ENGINE: Final = ThreadedLibrary("the query engine", start="a data set was connected for SQL")
"""DataFusion, whose threads start with its first context."""


def computed_table(frame: Any) -> pa.Table:
    """Return the rows of a frame of the engine.

    Within a run of a server the computation ends as soon as nobody waits for it.
    """
    table: pa.Table = call_engine(frame.to_arrow_table)
    return table


def table_frame(table: pa.Table) -> datafusion.DataFrame:
    """Return the rows of a table that is in memory, to build upon; names keep their case."""
    config = datafusion.SessionConfig().set(
        "datafusion.sql_parser.enable_ident_normalization", "false"
    )
    return datafusion.SessionContext(config).from_arrow(table)


def table_text(table: pa.Table) -> str:
    """Return the rows of a table as the engine writes them; else as Arrow does."""
    try:
        return repr(table_frame(table))
    except Exception:  # noqa: BLE001 - such as a time zone that it does not know
        return str(table.to_string())

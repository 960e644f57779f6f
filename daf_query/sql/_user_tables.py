"""Tables that a user brings, as the engine reads them: it evaluates every filter itself."""

from __future__ import annotations

import datafusion
import pyarrow as pa
from datafusion.catalog import Table

from daf_query.table import UserTable

_ALL_ROWS = 1 << 62


def engine_table(table: UserTable) -> datafusion.DataFrame:
    """Return a table for the engine.

    No filter gets past a limit, even if it is larger than any table: pyarrow, which reads the
    files, compares NaN otherwise than the engine does.
    """
    context = datafusion.SessionContext()
    if isinstance(table.rows, pa.Table):
        return context.from_arrow(table.rows)
    return context.read_table(Table(table.rows)).limit(_ALL_ROWS)


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

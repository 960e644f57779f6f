"""Rows of a result for servers, which interrupt queries that nobody waits for."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, TypeAlias

import pyarrow as pa

from daf_query._row_files import Rows
from daf_query.sql._result import QueryResult

Call: TypeAlias = Callable[[Callable[[], Any]], Any]
"""Calls a function, which may be interrupted."""


def interruptible_rows(result: QueryResult, interruptible: Call) -> Rows:
    """Return the rows of a result, as `QueryResult.rows` does, by calls that may be interrupted.

    That is safe within the engine alone.  A direct scan runs Python, whose locks and caches an
    exception from outside could leave half changed: it is called plainly, and asks between its
    partitions whether it is to end.

    Parameters
    ----------
    interruptible
        Calls a function of the engine.
    """
    call = _called if result._is_direct() else interruptible  # noqa: SLF001 - of this room
    rows: Rows = call(result.rows)
    stream = iter(rows.batches)

    def batches() -> Iterator[pa.RecordBatch]:
        while (batch := call(lambda: next(stream, None))) is not None:
            yield batch

    return Rows(rows.schema, batches())


def _called(function: Callable[[], Any]) -> Any:
    return function()

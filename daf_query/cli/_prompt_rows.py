"""Rows of a query of the prompt: computed in a thread, so that Ctrl-C ends it at once."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any, Final

import pyarrow as pa

from daf_query._row_files import Rows
from daf_query._runs import Endings, Interruptible, Runs
from daf_query.sql import QueryResult, interruptible_rows
from daf_storage import errors

_MOST: Final = 1000
"""Queries that were cancelled, and whose threads have not ended."""


def _cancelled(reason: str) -> Exception:
    return errors.QueryError(reason)


def _busy(most: int) -> Exception:
    return errors.InUseError(f"{most:,} cancelled queries have not ended; wait for some of them")


class CancellableQueries:
    """Runs one query after the other; one that is left before its end is cancelled."""

    def __init__(self) -> None:
        endings = Endings(lambda _: _cancelled("overdue"), _busy, _cancelled, _cancelled)
        self._runs = Runs(endings, max_seconds=None, max_queries=_MOST)

    @contextlib.contextmanager
    def rows(
        self, plan: Callable[[], QueryResult], *, provenance: bool | None = False
    ) -> Iterator[Rows]:
        """Plan a query and return its rows, until the end of the block."""

        def produce(interruptible: Interruptible) -> Iterator[Any]:
            result = plan()
            rows = interruptible_rows(result, interruptible)
            if result.is_described(provenance):
                rows = rows.with_record(result.provenance())
            yield rows.schema
            yield from rows.batches
            yield None  # at once, not when the thread has ended

        run = self._runs.start(produce, is_abandoned=lambda: False)

        def batches() -> Iterator[pa.RecordBatch]:
            while (batch := next(run)) is not None:
                yield batch

        with contextlib.closing(run):
            yield Rows(next(run), batches())

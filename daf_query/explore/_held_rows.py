"""Rows of the last queries, as they were sent, so that a download need not compute them again.

They are also the very rows that the page shows: LIMIT and random() may yield others the next time.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Iterator
from typing import Final

import pyarrow as pa

from daf_query._row_files import Rows

_MOST_QUERIES: Final = 4
_MOST_BYTES: Final = 1 << 28
"""Of all queries; of columns that are mapped, no memory is taken."""


class _Held:
    """The rows of a query."""

    def __init__(self, sql: str, schema: pa.Schema) -> None:
        self.sql = sql
        self.schema = schema
        self.batches: list[pa.RecordBatch] = []
        self.size_bytes = 0
        self.is_whole = False


class HeldRows:
    """The rows of the last queries, by the names that the page gave them.

    Parameters
    ----------
    most_bytes
        What all may have; the oldest are forgotten first.
    """

    def __init__(self, most_bytes: int = _MOST_BYTES) -> None:
        self._most_bytes = most_bytes
        self._lock = threading.Lock()
        self._held: OrderedDict[str, _Held] = OrderedDict()

    def holding(self, query: str, sql: str, rows: Rows) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a query, and hold them unless they are too many."""
        held = _Held(sql, rows.schema)
        with self._lock:
            self._held[query] = held
            self._held.move_to_end(query)
            while len(self._held) > _MOST_QUERIES:
                self._held.popitem(last=False)
        for batch in rows.batches:
            self._add(query, held, batch)
            yield batch

    def complete(self, query: str) -> None:
        """Note that a query has sent all of its rows, and not only the first ones."""
        with self._lock:
            if query in self._held:
                self._held[query].is_whole = True

    def _add(self, query: str, held: _Held, batch: pa.RecordBatch) -> None:
        with self._lock:
            if self._held.get(query) is not held:
                return
            held.batches.append(batch)
            held.size_bytes += batch.nbytes
            size = sum(each.size_bytes for each in self._held.values())
            while size > self._most_bytes:
                _, forgotten = self._held.popitem(last=False)
                size -= forgotten.size_bytes

    def find(self, query: str, sql: str) -> Rows | None:
        """Return all rows of a query, if they are held and it was this SQL."""
        with self._lock:
            held = self._held.get(query)
        if held is None or not held.is_whole or held.sql.strip() != sql.strip():
            return None
        return Rows(held.schema, iter(held.batches))

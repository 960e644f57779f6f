"""Names and positions of the rows that queries sent, so that the very rows of a table can be lit.

A query that is computed again may have others: LIMIT takes whichever rows come first.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from typing import Final

import pyarrow as pa

from daf_query.explore._failures import refusal
from daf_query.scan import INDEX, NAME
from daf_query.table import DATASET

_KEYS: Final = (DATASET, NAME, INDEX)
_MOST_QUERIES: Final = 4
_MOST_BYTES: Final = 1 << 26


class SentKeys:
    """The keys of the last queries, by the names that the page gave them."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._sent: OrderedDict[str, list[pa.RecordBatch] | None] = OrderedDict()
        self._sizes: dict[str, int] = {}

    def begin(self, query: str, schema: pa.Schema) -> None:
        """Remember a query, and the types of its rows."""
        with self._lock:
            self._sent[query] = [_keys(_no_rows(schema))]
            self._sent.move_to_end(query)
            self._sizes[query] = 0
            while len(self._sent) > _MOST_QUERIES:
                forgotten, _ = self._sent.popitem(last=False)
                del self._sizes[forgotten]

    def add(self, query: str, batch: pa.RecordBatch) -> None:
        """Remember rows that are sent, unless the query has too many, or was forgotten."""
        keys = _keys(batch)
        with self._lock:
            sent = self._sent.get(query)
            if sent is None:
                return
            self._sizes[query] += keys.nbytes
            if self._sizes[query] > _MOST_BYTES:
                self._sent[query] = None
            else:
                sent.append(keys)

    def batch_of(self, query: str) -> pa.RecordBatch:
        """Return the keys of all rows that a query sent.

        Raises
        ------
        RequestError
            It is unknown, too long ago, or has too many rows.
        """
        with self._lock:
            sent = list(self._sent.get(query) or ())
        if not sent:
            raise refusal(404, f"the rows of query {query!r} are not remembered", "run it again")
        return pa.concat_batches(sent)


def _no_rows(schema: pa.Schema) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays([pa.nulls(0, field.type) for field in schema], schema=schema)


def _keys(batch: pa.RecordBatch) -> pa.RecordBatch:
    names = batch.schema.names
    return batch.select([name for name in _KEYS if names.count(name) == 1])

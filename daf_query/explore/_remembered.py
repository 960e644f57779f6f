"""The memory of the server between requests: queries, rows, keys that were sent, and tickets.

Rows and keys are those that the page shows: LIMIT and random() may yield others the next time.
"""

from __future__ import annotations

import secrets
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any, Final, Generic, Literal, TypeVar

import pyarrow as pa

from daf_query._row_files import Rows
from daf_query.explore._http import CancelledError, failure, refusal
from daf_query.scan import INDEX, NAME
from daf_query.table import DATASET

_MOST_REMEMBERED: Final = 1000


@dataclass(frozen=True, slots=True)
class QueryState:
    """What became of a query."""

    state: Literal["running", "done", "failed", "cancelled"]
    rows: int = 0
    """How many were sent."""
    truncated: bool = False
    """Whether there are more, which the limits left out."""
    seconds: float = 0.0
    error: dict[str, Any] | None = None


class Queries:
    """The last queries, by the names that the page gave them."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._states: OrderedDict[str, QueryState] = OrderedDict()
        self._begun: dict[str, float] = {}

    def begin(self, name: str) -> None:
        """Remember a query.

        Raises
        ------
        RequestError
            One of this name runs.
        """
        with self._lock:
            known = self._states.get(name)
            if known is not None and known.state == "running":
                raise refusal(409, f"a query {name!r} runs already", "give each query its own id")
            self._states[name] = QueryState("running")
            self._states.move_to_end(name)
            self._begun[name] = time.monotonic()
            while len(self._states) > _MOST_REMEMBERED:
                forgotten, _ = self._states.popitem(last=False)
                self._begun.pop(forgotten, None)

    def find(self, name: str) -> QueryState:
        """Return what became of a query.

        Raises
        ------
        RequestError
            There is none of this name.
        """
        with self._lock:
            state = self._states.get(name)
            if state is None:
                raise refusal(404, f"there is no query {name!r}; it was never sent, or long ago")
            if state.state == "running":
                return replace(state, seconds=time.monotonic() - self._begun[name])
            return state

    def sent(self, name: str, rows: int, *, truncated: bool = False) -> None:
        """Remember how many rows were sent."""
        self._change(name, rows=rows, truncated=truncated)

    def end(self, name: str, error: BaseException | None, sql: str) -> None:
        """Remember how a query ended."""
        state: dict[str, Any] = {"state": "done"}
        if isinstance(error, CancelledError):
            state = {"state": "cancelled"}
        elif error is not None:
            state = {"state": "failed", "error": failure(error, sql)[1].to_dict()}
        self._change(name, **state)

    def _change(self, name: str, **changes: Any) -> None:
        with self._lock:
            state = self._states.get(name)
            if state is not None and state.state == "running":
                seconds = time.monotonic() - self._begun[name]
                self._states[name] = replace(state, seconds=seconds, **changes)


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


_KEYS: Final = (DATASET, NAME, INDEX)
_MOST_KEY_BYTES: Final = 1 << 26


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
            if self._sizes[query] > _MOST_KEY_BYTES:
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


_T = TypeVar("_T")

_TICKET_BYTES: Final = 24
_MOST: Final = 100
_SECONDS: Final = 60.0


class Tickets(Generic[_T]):
    """What was asked for, by tickets; the oldest are forgotten if there are too many.

    Parameters
    ----------
    clock
        Returns seconds, of which only differences count.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._asked: OrderedDict[str, tuple[float, _T]] = OrderedDict()

    def __len__(self) -> int:
        with self._lock:
            return len(self._asked)

    def add(self, asked: _T) -> str:
        """Return a new ticket."""
        ticket = secrets.token_urlsafe(_TICKET_BYTES)
        now = self._clock()
        with self._lock:
            self._asked[ticket] = (now + _SECONDS, asked)
            while len(self._asked) > _MOST or self._oldest_expires() <= now:
                self._asked.popitem(last=False)
        return ticket

    def _oldest_expires(self) -> float:
        return next(iter(self._asked.values()))[0]

    def take(self, ticket: str) -> _T | None:
        """Return what a ticket is for, once; None if it is unknown, was used or has expired."""
        with self._lock:
            expires, asked = self._asked.pop(ticket, (0.0, None))
        return asked if self._clock() < expires else None

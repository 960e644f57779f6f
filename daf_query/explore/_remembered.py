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
_MOST_HELD: Final = 4
_MOST_BYTES: Final = 1 << 28
"""Of the rows of all queries; of columns that are mapped, no memory is taken."""
_KEYS: Final = (DATASET, NAME, INDEX)


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


class _Query:
    """A query: how it began, what became of it, and the rows that it yielded."""

    def __init__(self) -> None:
        self.begun = time.monotonic()
        self.state = QueryState("running")
        self.sql = ""
        self.schema: pa.Schema | None = None
        """That of its rows; None if they are not held."""
        self.batches: list[pa.RecordBatch] = []
        self.is_whole = False
        """Whether all columns of all rows are held."""
        self.keys: list[str] | None = None
        """The columns that are held, where only the keys of the rows are."""

    @property
    def size_bytes(self) -> int:
        """How much memory its rows take."""
        return sum(batch.nbytes for batch in self.batches)

    def add(self, batch: pa.RecordBatch) -> None:
        """Hold some of its rows."""
        self.batches.append(batch if self.keys is None else batch.select(self.keys))

    def shrink(self) -> None:
        """Hold the keys of its rows alone; or nothing, if that is so already."""
        if self.schema is None or self.keys is not None:
            self.schema, self.batches = None, []
            return
        names = self.schema.names
        self.keys = [name for name in _KEYS if names.count(name) == 1]
        self.is_whole = False
        self.schema = pa.schema([self.schema.field(name) for name in self.keys])
        self.batches = [batch.select(self.keys) for batch in self.batches]


class Queries:
    """The last queries, by the names that the page gave them, and the rows of a few of them.

    Parameters
    ----------
    most_bytes
        How much memory all rows may take: of the oldest, then, only the keys are held, or nothing.
    """

    def __init__(self, most_bytes: int = _MOST_BYTES) -> None:
        self._most_bytes = most_bytes
        self._lock = threading.Lock()
        self._queries: OrderedDict[str, _Query] = OrderedDict()

    def begin(self, name: str) -> None:
        """Remember a query.

        Raises
        ------
        RequestError
            One of this name runs.
        """
        with self._lock:
            known = self._queries.get(name)
            if known is not None and known.state.state == "running":
                raise refusal(409, f"a query {name!r} runs already", "give each query its own id")
            self._queries[name] = _Query()
            self._queries.move_to_end(name)
            while len(self._queries) > _MOST_REMEMBERED:
                self._queries.popitem(last=False)

    def find(self, name: str) -> QueryState:
        """Return what became of a query.

        Raises
        ------
        RequestError
            There is none of this name.
        """
        with self._lock:
            query = self._queries.get(name)
            if query is None:
                raise refusal(404, f"there is no query {name!r}; it was never sent, or long ago")
            if query.state.state == "running":
                return replace(query.state, seconds=time.monotonic() - query.begun)
            return query.state

    def sent(self, name: str, rows: int, *, truncated: bool = False) -> None:
        """Remember how many rows were sent."""
        self._change(name, rows=rows, truncated=truncated)

    def complete(self, name: str) -> None:
        """Note that a query has sent all of its rows, and not only the first ones."""
        with self._lock:
            query = self._queries.get(name)
            if query is not None and query.keys is None:
                query.is_whole = query.schema is not None

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
            query = self._queries.get(name)
            if query is not None and query.state.state == "running":
                seconds = time.monotonic() - query.begun
                query.state = replace(query.state, seconds=seconds, **changes)

    def holding(self, name: str, sql: str, rows: Rows) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a query, and hold them."""
        with self._lock:
            query = self._queries.setdefault(name, _Query())
            query.sql, query.schema = sql, rows.schema
            held = [each for each in self._queries.values() if each.schema is not None]
            for each in held[:-_MOST_HELD]:
                each.schema, each.batches = None, []
        for batch in rows.batches:
            with self._lock:
                if query.schema is not None:
                    query.add(batch)
                    self._shrink()
            yield batch

    def _shrink(self) -> None:
        """Let go of columns, then of rows, of the oldest first; called with the lock."""
        held = [each for each in self._queries.values() if each.schema is not None]
        for each in held + held:
            if sum(other.size_bytes for other in held) > self._most_bytes:
                each.shrink()

    def rows(self, name: str, sql: str) -> Rows | None:
        """Return all rows of a query, if they are held and it was this SQL."""
        with self._lock:
            query = self._queries.get(name)
            if query is None or not query.is_whole or query.sql.strip() != sql.strip():
                return None
            return Rows(query.schema, iter(query.batches))

    def keys(self, name: str) -> pa.Table:
        """Return the keys of all rows that a query sent.

        Raises
        ------
        RequestError
            It is unknown, too long ago, or has too many rows.
        """
        with self._lock:
            query = self._queries.get(name)
            if query is None or query.schema is None:
                raise refusal(404, f"the rows of query {name!r} are not remembered", "run it again")
            table = pa.Table.from_batches(query.batches, query.schema)
            sent = query.state.rows
        columns = [each for each in _KEYS if table.column_names.count(each) == 1]
        return table.select(columns).slice(0, sent)


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

"""The explorer between requests: the data, the limits, what runs, what was sent and asked for.

Rows and keys of queries are those that the page shows: LIMIT and random() may yield others the next
time.
"""

from __future__ import annotations

import secrets
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Generic, TypeVar

import pyarrow as pa

from daf_query._runs import Limits, Runs
from daf_query.distributed import file_state
from daf_query.explore._http import ENDINGS, RequestError, refusal
from daf_query.matrix import Positions
from daf_query.scan import NAME
from daf_query.session import DafSession, is_pattern, matching_paths
from daf_query.slice import AxisRows
from daf_query.sql import Connections
from daf_storage import errors
from daf_storage.stores import inode_of

_MOST_DOWNLOADS: Final = 2
_MOST_REMEMBERED: Final = 4
"""Queries whose rows can be found in the map."""
_T = TypeVar("_T")


@dataclass(frozen=True)
class ExploreLimits(Limits):
    """What the server of the explorer gives at most.

    Raises
    ------
    InvalidInputError
        A limit is not positive.

    Examples
    --------
    >>> ExploreLimits(seconds=30).rows
    1000000
    """

    rows: int = 1_000_000
    """Rows of the result of one query; the others are left out, and the page says so."""
    bytes: int = 1 << 30
    """Bytes of one answer."""
    seconds: float = 120.0
    """Seconds from the beginning of a query until its last row is sent."""
    queries: int = 8
    """Answers that are computed at the same time."""


@dataclass(frozen=True, slots=True)
class Download:
    """A file that is made when it is fetched."""

    name: str
    """The name of the file."""
    media_type: str
    write: Callable[[Path], None]
    """Writes it to a path."""


@dataclass(frozen=True, slots=True)
class Selection:
    """Entries of an axis that are selected in the page."""

    id: str
    """Another one for each selection."""
    connections: Connections
    """Where it is a table."""
    table: str
    """The name of that."""
    schema: str
    axis: str
    positions: Positions
    """Ascending, each once."""


class Explorer:
    """The explorer of some data."""

    def __init__(self, data: ExploredData, limits: ExploreLimits) -> None:
        self.data = data
        """What is explored."""
        self.limits = limits
        """What is given at most."""
        self.runs = Runs(ENDINGS, max_seconds=limits.seconds, max_queries=limits.queries)
        """What is computed at this moment."""
        self.exports = Runs(ENDINGS, max_seconds=None, max_queries=_MOST_DOWNLOADS)
        """The downloads of this moment, which may take long."""
        self.sent: OrderedDict[str, list[pa.RecordBatch]] = OrderedDict()
        """The keys of the rows that the last queries sent, by the names that the page gave them."""
        self.downloads: Tickets[Download] = Tickets()
        """The downloads that were asked for."""
        self.openings: Tickets[str] = Tickets()
        """The address of the page, for browsers that are opened."""
        self.selection: Selection | None = None
        """The entries that are selected in the page."""
        self.lock = threading.Lock()
        """Held while the selection, or what is remembered of queries, is changed."""

    def close(self) -> None:
        """End all that is computed."""
        self.runs.close()
        self.exports.close()

    def remembered(self, name: str, none: pa.RecordBatch) -> list[pa.RecordBatch]:
        """Return what remembers the keys of the rows of a query, from no rows on."""
        sent = [none]
        with self.lock:
            self.sent[name] = sent
            self.sent.move_to_end(name)
            if len(self.sent) > _MOST_REMEMBERED:
                self.sent.popitem(last=False)
        return sent

    def check_bytes(self, size: int) -> None:
        """Refuse an answer that is larger than the limit."""
        if size > self.limits.bytes:
            raise refusal(
                413,
                f"the answer has {size:,} bytes, more than the limit of {self.limits.bytes:,}",
                "start daf explore with a larger --max-bytes",
            )


class ExploredData:
    """A session over data sets, opened again where their files were replaced.

    Parameters
    ----------
    open_session
        Opens them.
    paths
        Where they are; patterns, too.  What is not a path of this machine is not looked at.
    overlay
        Where vectors are saved; None if nothing is written.
    """

    def __init__(
        self,
        open_session: Callable[[], DafSession],
        paths: Sequence[str] = (),
        overlay: str | None = None,
    ) -> None:
        self.overlay = overlay
        """Where vectors are saved."""
        self.version = 1
        """How often it was opened: another number is another data set."""
        self._open_session = open_session
        self._paths = tuple(paths)
        self._lock = threading.Lock()
        self._signature: Hashable = _signature(self._paths)
        self._session = open_session()._served()  # noqa: SLF001 - our own
        self._entries: dict[tuple[str, str], Hashable] = {}

    @property
    def session(self) -> DafSession:
        """The session.

        Raises
        ------
        RequestError
            A data set was replaced since it was opened.
        """
        if _signature(self._paths) != self._signature:
            raise replaced()
        return self._session

    def opened(self) -> DafSession:
        """Return the session, opened again if a data set was replaced."""
        with self._lock:
            signature = _signature(self._paths)
            if signature != self._signature:
                self._signature = None  # until it is open
                self._session.close()  # first: an overlay is written by one program alone
                self._session = self._open_session()._served()  # noqa: SLF001 - our own
                self._signature = signature
                self.version += 1
            elif any(self._has_changed(*each) for each in self._entries.items()):
                self.version += 1
            self._entries.clear()
            return self._session

    def _has_changed(self, axis: tuple[str, str], before: Hashable) -> bool:
        """Return whether the entries of an axis are others."""
        try:
            return identity(axis_rows(self._session, *axis)) != before
        except errors.DafError:
            return True

    def rows(self, schema: str, axis: str) -> AxisRows:
        """Return the rows of an axis.

        Raises
        ------
        NotFoundError
            There is no such schema, or no such axis.
        RequestError
            Its entries were replaced or reordered since the page was loaded: the positions that the
            page holds are others.
        """
        rows = axis_rows(self.session, schema, axis)
        now = identity(rows)
        with self._lock:
            before = now and self._entries.setdefault((rows.tables.name, axis), now)
        if before != now:
            raise replaced()
        return rows

    def close(self) -> None:
        """Close the data sets."""
        with self._lock:
            self._session.close()


def axis_rows(session: DafSession, schema: str, axis: str) -> AxisRows:
    """Return the rows of an axis; see `AxisRows.of`."""
    return AxisRows.of(session._engine, schema, axis)  # noqa: SLF001 - our own


def identity(rows: AxisRows) -> Hashable | None:
    """Return what changes when the entries do; None while they are being changed."""
    first, second = (
        tuple(daf.vector_identity(rows.axis, NAME) for daf in rows.readers) for _ in range(2)
    )
    return first if first == second else None


def replaced() -> RequestError:
    """Return the error of a data set that is another one now."""
    return refusal(
        409, "a data set was replaced while the page was open", "reload the page to see the new one"
    )


def _signature(paths: Sequence[str]) -> Hashable:
    """Return what files are known by; a directory sees changes by itself, so only which it is."""
    files = [file for path in paths if "://" not in path for file in _files_of(path)]
    return tuple((file, inode_of(file), file_state(file)) for file in files)


def _files_of(path: str) -> list[str]:
    try:
        return matching_paths(path) if is_pattern(path) else [path.partition("#")[0]]
    except errors.SourceNotFoundError:
        return []


_TICKET_BYTES: Final = 24
_MOST_TICKETS: Final = 100
_TICKET_SECONDS: Final = 60.0


class Tickets(Generic[_T]):
    """What was asked for, by tickets that are good once, for a minute; of the last hundred."""

    def __init__(self) -> None:
        self._requested: OrderedDict[str, tuple[float, _T]] = OrderedDict()

    def add(self, question: _T) -> str:
        """Return a new ticket."""
        ticket = secrets.token_urlsafe(_TICKET_BYTES)
        self._requested[ticket] = (time.monotonic() + _TICKET_SECONDS, question)
        if len(self._requested) > _MOST_TICKETS:
            self._requested.popitem(last=False)
        return ticket

    def take(self, ticket: str) -> _T | None:
        """Return what a ticket is for, once; None if it is unknown, was used or has expired."""
        expires, question = self._requested.pop(ticket, (0.0, None))
        return question if time.monotonic() < expires else None

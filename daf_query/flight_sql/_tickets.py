"""Tickets, which are queries under seal, and prepared statements, which the server remembers.

A ticket holds its query, so that the server keeps nothing for those that are never read.  The seal
says that this server made it, for this client: another's is refused.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
import threading
from collections import OrderedDict
from dataclasses import dataclass, replace
from typing import Final

from daf_query.flight_sql._limits import FlightSqlLimits, limit_reached
from daf_query.flight_sql._statuses import InvalidRequest

_ID_BYTES: Final = 16
_SEAL_BYTES: Final = 32
_LONGEST_STATEMENTS: Final = 64
"""How many statements of the largest size are remembered; of short ones, as many as may be."""


@dataclass(frozen=True, slots=True)
class SealedQuery:
    """The query of a ticket."""

    query_id: bytes
    """By which it can be cancelled."""
    query: str
    """SQL without parameters."""


class Tickets:
    """Seals queries, and opens what it sealed."""

    def __init__(self) -> None:
        self._secret = secrets.token_bytes(32)

    def sealed(self, query: str, client: str) -> bytes:
        """Return the handle of a query for a client."""
        content = secrets.token_bytes(_ID_BYTES) + query.encode()
        return self._seal(content, client) + content

    def opened(self, handle: bytes, client: str) -> SealedQuery:
        """Return the query of a handle.

        Raises
        ------
        InvalidRequest
            It was not made here, or not for this client.
        """
        seal, content = handle[:_SEAL_BYTES], handle[_SEAL_BYTES:]
        if not hmac.compare_digest(seal, self._seal(content, client)):
            raise InvalidRequest(
                "the ticket is not one that this server gave to this client; ask again for the "
                "query (a server that was started again knows no earlier tickets)"
            )
        return SealedQuery(content[:_ID_BYTES], content[_ID_BYTES:].decode())

    def _seal(self, content: bytes, client: str) -> bytes:
        sealed = hashlib.sha256(client.encode()).digest() + content
        return hmac.digest(self._secret, sealed, "sha256")


@dataclass(frozen=True, slots=True)
class Prepared:
    """A prepared statement."""

    query: str
    """As it was prepared."""
    client: str
    """Who may use it."""
    bound: str | None = None
    """With the values of its parameters; None if there are some, and none were bound."""

    @property
    def size_bytes(self) -> int:
        """About how much memory its text takes."""
        return len(self.query) + (len(self.bound) if self.bound and self.bound != self.query else 0)


class PreparedStatements:
    """The statements that clients prepared, by handles that cannot be guessed."""

    def __init__(self, limits: FlightSqlLimits) -> None:
        self._limits = limits
        self._lock = threading.Lock()
        self._statements: OrderedDict[bytes, Prepared] = OrderedDict()

    def __len__(self) -> int:
        with self._lock:
            return len(self._statements)

    def add(self, statement: Prepared) -> bytes:
        """Remember a statement; the least recently used is forgotten if there are too many."""
        handle = secrets.token_bytes(_ID_BYTES)
        with self._lock:
            self._statements[handle] = statement
            self._forget_old()
        return handle

    def _forget_old(self) -> None:
        """Forget the least recently used, until their number and their text are small enough."""
        size = sum(statement.size_bytes for statement in self._statements.values())
        most = _LONGEST_STATEMENTS * self._limits.max_query_bytes
        while len(self._statements) > self._limits.max_statements or size > most:
            size -= self._statements.popitem(last=False)[1].size_bytes

    def find(self, handle: bytes, client: str) -> Prepared:
        """Return a statement.

        Raises
        ------
        InvalidRequest
            There is none of this handle, or it is of another client.
        """
        with self._lock:
            statement = self._statements.get(handle)
            if statement is None or statement.client != client:
                most = self._limits.max_statements
                raise InvalidRequest(
                    limit_reached(
                        "the prepared statement is unknown: it was closed, or forgotten for "
                        f"newer ones, since at most {most:,} are remembered, and fewer long ones",
                        "max_statements",
                    )
                )
            self._statements.move_to_end(handle)
            return statement

    def bind(self, handle: bytes, client: str, bound: str) -> None:
        """Give a statement the values of its parameters."""
        statement = replace(self.find(handle, client), bound=bound)
        with self._lock:
            if handle in self._statements:
                self._statements[handle] = statement
                self._forget_old()

    def close(self, handle: bytes, client: str) -> None:
        """Forget a statement; one that is unknown is forgotten already."""
        with self._lock:
            statement = self._statements.get(handle)
            if statement is not None and statement.client == client:
                del self._statements[handle]

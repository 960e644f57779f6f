"""Queries under seal, prepared statements, and the values that are bound to them.

A ticket holds its query, so that the server keeps nothing for those that are never read.  The seal
says that this server made it, for this client: another's is refused.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
import threading
from collections import OrderedDict
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import flight

from daf_query.flight_sql._answers import FlightSqlLimits, InvalidRequest, limit_reached
from daf_query.sql import Params, bind, unbound

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


_VIEW_WORDS: Final = 4
"""Numbers of 32 bits per view of a string; the first is its length."""
_SHOWN: Final = 200


def bound_query(query: str, reader: Any, limits: FlightSqlLimits) -> str:
    """Return a query with the values of the one row that a client sends.

    Raises
    ------
    InvalidRequest
        There is no row, or several, or they are too large, or damaged.
    InvalidInputError
        The values do not fit the parameters.
    """
    rows = _one_row(reader, limits)
    _, names = unbound(query)
    return bind(query, _params(names, rows))


def _one_row(reader: Any, limits: FlightSqlLimits) -> pa.RecordBatch:
    """Return the only row; what follows is not read."""
    kept: pa.RecordBatch | None = None
    for batch in _batches(reader):
        if batch is None or batch.num_rows == 0:
            continue
        if kept is not None or batch.num_rows > 1:
            raise InvalidRequest(
                "a statement takes one row of parameters, and was given several; execute it for "
                "each"
            )
        _check(batch, limits)
        kept = batch
    if kept is None:
        raise InvalidRequest("the statement was given no row of parameters")
    return kept


def _batches(reader: Any) -> Iterator[pa.RecordBatch | None]:
    """Yield what a client sends, which may be no Arrow at all."""
    try:
        for chunk in reader:
            yield chunk.data
    except flight.FlightError:  # the client has gone
        raise
    except (pa.ArrowException, OSError) as error:
        raise InvalidRequest(f"the parameters are no Arrow: {str(error)[:_SHOWN]}") from None


def _check(row: pa.RecordBatch, limits: FlightSqlLimits) -> None:
    """Raise unless what a client sent is whole, and of a size that may become a query."""
    try:
        row.validate(full=True)  # offsets out of range would be read out of the memory of others
        _ = row.schema.names  # which may be no UTF-8
    except (pa.ArrowException, UnicodeDecodeError) as error:
        raise InvalidRequest(f"the parameters are damaged: {error}") from None
    size = max(_own_bytes(row), sum(_size_bytes(column[0]) for column in row.columns))
    if size > limits.max_query_bytes:
        problem = f"the parameters have {size:,} bytes"
        raise InvalidRequest(limit_reached(problem, "max_query_bytes"))


def _own_bytes(row: pa.RecordBatch) -> int:
    """Return how many bytes a row has, or the batch that it is of where that is not known."""
    try:
        return int(row.nbytes)
    except pa.ArrowException:  # pyarrow 21 does not know it of views
        return int(row.get_total_buffer_size())


def _size_bytes(value: pa.Scalar) -> int:
    """Return how many bytes a value has at least, written as SQL; of a list, its items.

    A list may have many items in few bytes: nulls, or one string again and again.
    """
    items = getattr(value, "values", None)
    return len(items) + _string_bytes(items) if isinstance(items, pa.Array) else 0


def _string_bytes(items: pa.Array) -> int:
    """Return how many bytes the strings of an array have, each as often as it occurs.

    >>> _string_bytes(pa.array(["ab", "ab", None]).dictionary_encode())
    4
    >>> _string_bytes(pa.array(["a long string of a view", "b"], pa.string_view()))
    24
    """
    kind = items.type
    if pa.types.is_dictionary(kind):
        lengths = _lengths(items.dictionary)
        return int(lengths[items.indices.drop_null().to_numpy()].sum()) if len(lengths) else 0
    if pa.types.is_nested(kind) or pa.types.is_run_end_encoded(kind):
        raise InvalidRequest(f"a parameter cannot be a list of {kind}; send a list of plain values")
    return int(_lengths(items).sum())


def _lengths(items: pa.Array) -> Any:
    kind = items.type
    if pa.types.is_string_view(kind) or pa.types.is_binary_view(kind):
        views = np.frombuffer(items.buffers()[1], np.int32)[::_VIEW_WORDS]
        return views[items.offset : items.offset + len(items)].astype(np.int64)
    if pa.types.is_string(kind) or pa.types.is_binary(kind):
        return pc.fill_null(pc.binary_length(items), 0).to_numpy().astype(np.int64)
    if pa.types.is_large_string(kind) or pa.types.is_large_binary(kind):
        return pc.fill_null(pc.binary_length(items), 0).to_numpy()
    return np.zeros(len(items), np.int64)


def _params(names: list[str], row: pa.RecordBatch) -> Params:
    """Return values by name, if the columns are named like the parameters; else in their order."""
    values = [column[0] for column in row.columns]
    by_name = not all(name.isdecimal() for name in names)
    if not by_name:
        return [_value(value) for value in values]
    columns = row.schema.names if set(row.schema.names) == set(names) else names
    if len(columns) != len(values):
        return {name: _value(value) for name, value in zip(row.schema.names, values, strict=True)}
    return {name: _value(value) for name, value in zip(columns, values, strict=True)}


def _value(value: pa.Scalar) -> Any:
    """Return a value of Python: of a list, for IN, its items."""
    try:
        return value.as_py()
    except (ValueError, OverflowError, LookupError) as error:  # a time, or a zone, of no calendar
        raise InvalidRequest(
            f"a parameter has a {value.type} that is out of range: {error}"
        ) from None

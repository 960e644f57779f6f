"""Who may ask, and what clients are given: tokens, and queries under seal.

A token is sent as ``Bearer``, or as the password of ``Basic``.  A client that sends ``Basic`` gets
the ``Bearer`` to use from then on, as JDBC and ADBC expect it.

A ticket holds its query, and so does the handle of a prepared statement, with what was bound: the
server keeps nothing for those that are never read or closed.  The seal says that this server made
it, for this client: another's is refused.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import json
import secrets
from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

import pyarrow as pa
from pyarrow import flight

from daf_query.flight_sql._answers import FlightSqlLimits, InvalidRequest, limit_reached
from daf_query.sql import Params, bind, unbound
from daf_storage import errors

_SHORTEST: Final = 16
CLIENT: Final = "client"
"""The name of the middleware that says who a client is."""


class Client(flight.ServerMiddleware):  # type: ignore[misc] # pyarrow has no types
    """Who a call is from."""

    def __init__(self, name: str, answer: Mapping[str, str]) -> None:
        self.name = name
        """Different for each token."""
        self._answer = dict(answer)

    def sending_headers(self) -> dict[str, str]:
        """Return the headers of the answer."""
        return self._answer


class Tokens(flight.ServerMiddlewareFactory):  # type: ignore[misc] # the same
    """Lets those in who have one of some tokens; without tokens, everyone.

    Raises
    ------
    InvalidInputError
        A token is short enough to be guessed, or cannot be sent in a header.
    """

    def __init__(self, tokens: Sequence[str]) -> None:
        if isinstance(tokens, str):
            raise errors.InvalidInputError(
                "tokens= is a string; pass a list of tokens, of one too: tokens=[...]"
            )
        for number, token in enumerate(tokens, 1):
            which = "the token" if len(tokens) == 1 else f"token {number}"
            if len(token) < _SHORTEST:
                raise errors.InvalidInputError(
                    f"{which} has {len(token)} characters, and needs {_SHORTEST}, so that it "
                    'cannot be guessed; make one with python -c "import secrets; '
                    'print(secrets.token_urlsafe())"'
                )
            if not (token.isascii() and token.isprintable()) or " " in token:
                raise errors.InvalidInputError(
                    f"{which} has characters that a header cannot hold; use letters and digits"
                )
        self._digests = [_digest(token) for token in tokens]

    def start_call(self, info: Any, headers: Mapping[str, Sequence[Any]]) -> Client:  # noqa: ARG002 - as it is called
        """Let a call in, or not."""
        if not self._digests:
            return Client("", {})
        sent = next(iter(headers.get("authorization", ())), "")
        scheme, _, credentials = str(sent).partition(" ")
        token = _password(credentials) if scheme.lower() == "basic" else credentials
        if scheme.lower() not in ("basic", "bearer") or not self._is_known(token):
            raise flight.FlightUnauthenticatedError(
                "the server needs a token: send it as 'authorization: Bearer TOKEN', or as the "
                "password of any user"
            )
        answer = {"authorization": f"Bearer {token}"} if scheme.lower() == "basic" else {}
        return Client(_digest(token).hex(), answer)

    def _is_known(self, token: str) -> bool:
        """Compare with all, each in a time that does not depend on where they differ."""
        digest = _digest(token)
        return sum(hmac.compare_digest(digest, accepted) for accepted in self._digests) > 0


class AnyHandshake(flight.ServerAuthHandler):  # type: ignore[misc] # the same
    """Answers a handshake: who a client is, its headers say."""

    def authenticate(self, outgoing: Any, incoming: Any) -> None:  # noqa: ARG002 - as it is called
        """Answer with an empty message, for which some clients wait."""
        outgoing.write(b"")

    def is_valid(self, token: bytes) -> bytes:  # noqa: ARG002 - as it is called
        """Accept what `Tokens` has let in."""
        return b""


def _digest(token: str) -> bytes:
    return hashlib.sha256(token.encode("utf-8", "surrogatepass")).digest()


def _password(credentials: str) -> str:
    """Return the password of ``user:password`` in base 64, which Go leaves without padding."""
    try:
        return (
            base64.b64decode(credentials + "=" * (-len(credentials) % 4), validate=True)
            .decode()
            .partition(":")[2]
        )
    except (binascii.Error, ValueError):
        return ""


_ID_BYTES: Final = 16
_SEAL_BYTES: Final = 32
_SHOWN: Final = 200


class SealedQuery(NamedTuple):
    """The query of a ticket, or of a prepared statement."""

    query_id: bytes
    """By which it can be cancelled."""
    query: str
    """As it was asked or prepared."""
    bound: str | None
    """Without parameters; None if there are some, and none were bound."""


class Seals:
    """Seals queries, and opens what it sealed."""

    def __init__(self) -> None:
        self._secret = secrets.token_bytes(32)

    def sealed(self, client: str, query: str, bound: str | None) -> bytes:
        """Return the handle of a query for a client."""
        content = secrets.token_bytes(_ID_BYTES) + json.dumps([query, bound]).encode()
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
        return SealedQuery(content[:_ID_BYTES], *json.loads(content[_ID_BYTES:]))

    def _seal(self, content: bytes, client: str) -> bytes:
        sealed = hashlib.sha256(client.encode()).digest() + content
        return hmac.digest(self._secret, sealed, "sha256")


def bound_query(query: str, reader: Any, limits: FlightSqlLimits) -> str:
    """Return a query with the values of the one row that a client sends.

    Raises
    ------
    InvalidRequest
        There is no row, or several, or they are too large, or damaged.
    InvalidInputError
        The values do not fit the parameters.
    """
    row = _one_row(reader)
    _check(row, limits)
    _, names = unbound(query)
    return bind(query, _params(names, row))


def _one_row(reader: Any) -> pa.RecordBatch:
    """Return the only row of what a client sends, which may be no Arrow at all."""
    rows: list[pa.RecordBatch] = []
    try:
        for chunk in reader:
            if chunk.data is not None and chunk.data.num_rows:
                rows.append(chunk.data)
            if sum(each.num_rows for each in rows) > 1:
                raise InvalidRequest(
                    "a statement takes one row of parameters, and was given several; execute it "
                    "for each"
                )
    except (flight.FlightError, InvalidRequest):  # the client has gone, or it is said already
        raise
    except (pa.ArrowException, OSError) as error:
        raise InvalidRequest(f"the parameters are no Arrow: {str(error)[:_SHOWN]}") from None
    if not rows:
        raise InvalidRequest("the statement was given no row of parameters")
    return rows[0]


def _check(row: pa.RecordBatch, limits: FlightSqlLimits) -> None:
    """Raise unless what a client sent is whole, and of a size that may become a query.

    Lists are of plain values: others may have many items in few bytes.
    """
    try:
        row.validate(full=True)  # offsets out of range would be read out of the memory of others
        _ = row.schema.names  # which may be no UTF-8
        size = row.get_total_buffer_size()
    except (pa.ArrowException, UnicodeDecodeError) as error:
        raise InvalidRequest(f"the parameters are damaged: {error}") from None
    for column in row.columns:
        items = getattr(column[0], "values", None)
        if isinstance(items, pa.Array):
            size += len(items)  # nulls have no bytes
            if not _is_plain(items.type):
                raise InvalidRequest(
                    f"a parameter cannot be a list of {items.type}; send a list of plain values"
                )
    if size > limits.max_query_bytes:
        problem = f"the parameters have {size:,} bytes"
        raise InvalidRequest(limit_reached(problem, "max_query_bytes"))


def _is_plain(kind: pa.DataType) -> bool:
    types = pa.types
    is_view = types.is_string_view(kind) or types.is_binary_view(kind)
    is_coded = types.is_dictionary(kind) or types.is_run_end_encoded(kind)
    return not (is_view or is_coded or types.is_nested(kind))


def _params(names: list[str], row: pa.RecordBatch) -> Params:
    """Return values by name, if the columns are named like the parameters; else in their order."""
    values = [_value(column[0]) for column in row.columns]
    if all(name.isdecimal() for name in names):
        return values
    columns = row.schema.names
    if set(columns) != set(names) and len(names) == len(values):
        columns = names
    return dict(zip(columns, values, strict=True))


def _value(value: pa.Scalar) -> Any:
    """Return a value of Python: of a list, for IN, its items."""
    try:
        return value.as_py()
    except (ValueError, OverflowError, LookupError) as error:  # a time, or a zone, of no calendar
        raise InvalidRequest(
            f"a parameter has a {value.type} that is out of range: {error}"
        ) from None

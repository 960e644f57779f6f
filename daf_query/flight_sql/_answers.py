"""Messages of clients and for them: limits, errors, tokens, and sealed queries.

An exception of Python would leave with its traceback.  Those of Flight leave as they are, but there
is none for a wrong argument, so that one is an `InvalidRequest`: it cannot be formatted.

A token is sent as ``Bearer``, or as the password of ``Basic``.  A client that sends ``Basic`` gets
the ``Bearer`` to use from then on, as JDBC and ADBC expect it.

A ticket holds its query, and so does the handle of a prepared statement, with what was bound: the
server keeps nothing for those that are never read or closed.  The seal says that this server made
it.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import re
import secrets
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import wraps
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Final, NamedTuple, NoReturn, TypeVar, cast

import pyarrow as pa
from google.protobuf.any_pb2 import Any as AnyMessage
from google.protobuf.descriptor_pb2 import FileDescriptorSet
from google.protobuf.message import DecodeError
from google.protobuf.message_factory import GetMessages
from pyarrow import flight

from daf_query._runs import Endings, Limits, fault
from daf_query.sql import Params, bind, unbound
from daf_storage import DafError, errors

_PACKAGE: Final = "arrow.flight.protocol.sql"
_FILES: Final = FileDescriptorSet.FromString(
    Path(__file__).with_name("messages.binpb").read_bytes()
).file
MESSAGES: Final[Any] = SimpleNamespace(
    **{name.rpartition(".")[2]: kind for name, kind in GetMessages(_FILES).items()}
)
"""The classes of messages."""


def packed(message: Any) -> bytes:
    """Return the bytes of a message with its type."""
    wrapped = AnyMessage()
    wrapped.Pack(message)
    written: bytes = wrapped.SerializeToString()
    return written


def decoded(kind: Any, data: bytes) -> Any:
    """Return the message of a class, or of a class by its name, that bytes hold.

    Raises
    ------
    InvalidInputError
        They are no message of this type: cut off, or a string is not UTF-8.
    """
    message = getattr(MESSAGES, kind) if isinstance(kind, str) else kind
    try:
        return message.FromString(data)
    except DecodeError:
        raise errors.InvalidInputError(
            "the request is no message of Flight SQL: it is cut off, or damaged"
        ) from None


def wrapped_in(data: bytes) -> tuple[str, bytes]:
    """Return the name of the message that is wrapped with its type, and its bytes.

    Raises
    ------
    InvalidInputError
        They hold none; the name of one that is not of Flight SQL is empty.
    """
    wrapped = decoded(AnyMessage, data)
    package, _, name = wrapped.TypeName().rpartition(".")
    return name if package == _PACKAGE else "", wrapped.value


def unpacked(name: str, data: bytes) -> Any:
    """Return the message of one type that is wrapped with it.

    Raises
    ------
    InvalidInputError
        They hold another one, or none.
    """
    found, content = wrapped_in(data)
    if found != name:
        raise errors.InvalidInputError(
            f"the request has to hold {name}, and holds {found or 'no message of Flight SQL'}"
        )
    return decoded(name, content)


def given(message: Any, name: str) -> Any:
    """Return an optional field of a message, or None."""
    return getattr(message, name) if message.HasField(name) else None


@dataclass(frozen=True)
class FlightSqlLimits(Limits):
    """What a server gives at most; None is no limit.

    Raises
    ------
    InvalidInputError
        A limit is not positive.
    """

    _unlimited = frozenset({"max_rows", "max_bytes", "max_memory_bytes", "max_seconds"})

    max_rows: int | None = None
    """Rows of one result."""
    max_bytes: int | None = None
    """Bytes of one result, as Arrow has them in memory."""
    max_memory_bytes: int | None = None
    """Bytes of memory in which one query sorts, joins and groups; of all, ``max_queries`` times."""
    max_seconds: float | None = 600.0
    """Seconds from the beginning of a query until its last row is sent."""
    max_queries: int = 8
    """Queries that are planned or run at the same time."""
    max_query_bytes: int = 1 << 20
    """Bytes of the SQL of a query, with the values of its parameters."""


def limit_reached(problem: str, option: str) -> str:
    """Return the sentence that says which limit was reached, and who can change it.

    >>> limit_reached("the result has more than 5 rows", "max_rows")
    'the result has more than 5 rows, a limit of this server: --max-rows, or max_rows= in Python'
    """
    written = option.replace("_", "-")
    return f"{problem}, a limit of this server: --{written}, or {option}= in Python"


_T = TypeVar("_T")

_PATH: Final = re.compile(r"(?<![\w.*~)\]])/[^\s'\",;:()<>]+/[^\s'\",;:()<>]+")
"""What looks like an absolute path of two parts or more."""
_HIDDEN: Final = "(a file of the server)"


class _Unformatted:
    """Fails if it is formatted with its traceback, so that pyarrow sends the name of its class."""

    @property
    def __cause__(self) -> NoReturn:
        raise AttributeError("not to be formatted")


class InvalidRequest(_Unformatted, pa.ArrowInvalid):  # type: ignore[misc] # pyarrow has no types
    """A request that cannot be answered: gRPC's ``INVALID_ARGUMENT``."""


class NotSupported(_Unformatted, pa.ArrowNotImplementedError):  # type: ignore[misc] # the same
    """A request of a kind that this server does not answer: gRPC's ``UNIMPLEMENTED``."""


_STATUSES: Final[Mapping[type[BaseException], Callable[[str], Exception]]] = {
    errors.RemoteError: flight.FlightUnavailableError,
    errors.ReadOnlyError: flight.FlightUnauthorizedError,
    errors.InvalidInputError: InvalidRequest,
    errors.NotFoundError: InvalidRequest,
    errors.BudgetError: InvalidRequest,
    DafError: flight.FlightInternalError,
    MemoryError: lambda _: InvalidRequest("the query takes more memory than the server has"),
}
"""Which status an error has; the first that fits."""


class Statuses:
    """Turns errors into those that clients get.

    Parameters
    ----------
    locations
        Where each data set is, with the name that clients know it by.
    """

    def __init__(self, locations: Mapping[str, str]) -> None:
        named: dict[str, str] = {}
        for location, name in locations.items():
            named[location] = name
            if "://" not in location:
                named[str(Path(location).absolute())] = name
                named[str(Path(location).resolve())] = name
        self._named = dict(sorted(named.items(), key=lambda item: -len(item[0])))

    def status(self, error: BaseException, requested: str = "") -> Exception:
        """Return the error that a client gets; what is a fault of the server is logged here.

        Parameters
        ----------
        requested
            What the client sent: a path in it is no secret.
        """
        if isinstance(error, flight.FlightError | InvalidRequest | NotSupported):
            return cast("Exception", error)
        for error_type, made in _STATUSES.items():
            if isinstance(error, error_type):
                return made(self.shown(_sentence(error), requested))
        return cast("Exception", flight.FlightInternalError(fault("daf serve", error)))

    def shown(self, message: str, requested: str = "") -> str:
        """Return a message without paths of the server.

        >>> statuses = Statuses({"/lab/pbmc.daf.zarr": "pbmc"})
        >>> statuses.shown("/lab/pbmc.daf.zarr: it has no vector; see /lab/notes.txt")
        'pbmc: it has no vector; see (a file of the server)'
        """
        for location, name in self._named.items():
            message = re.sub(rf"(?<![\w/]){re.escape(location)}(?!\w)", name, message)
        return _PATH.sub(lambda match: match[0] if match[0] in requested else _HIDDEN, message)


def _sentence(error: BaseException) -> str:
    if not isinstance(error, DafError):
        return str(error)
    fact = error.sentence(None) if error.remedy is not None else str(error)
    is_refused = isinstance(error, errors.ReadOnlyError)
    return f"{fact}; this server only reads" if is_refused else fact


def answering(method: Callable[..., _T]) -> Callable[..., _T]:
    """Make a method of a server, which has ``statuses``, raise what clients get."""

    @wraps(method)
    def answered(server: Any, *arguments: Any) -> _T:
        try:
            return method(server, *arguments)
        except BaseException as error:  # noqa: BLE001 - none may leave with its traceback
            status = server.statuses.status(error)
        raise status

    return answered


ENDINGS: Final = Endings(
    overdue=lambda seconds: flight.FlightTimedOutError(
        limit_reached(f"the query has not ended after {seconds:g} seconds", "max_seconds")
    ),
    busy=lambda most: flight.FlightUnavailableError(
        limit_reached(f"as many queries run as may, {most:,}", "max_queries")
    ),
    cancelled=flight.FlightCancelledError,
    closing=flight.FlightUnavailableError,
)
"""The errors of queries that end early."""


_SHORTEST: Final = 16


class Bearer(flight.ServerMiddleware):  # type: ignore[misc] # pyarrow has no types
    """Answers with the token to use from then on."""

    def __init__(self, token: str) -> None:
        self._token = token

    def sending_headers(self) -> dict[str, str]:
        """Return the headers of the answer."""
        return {"authorization": f"Bearer {self._token}"}


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

    def start_call(self, info: Any, headers: Mapping[str, Sequence[Any]]) -> Bearer | None:  # noqa: ARG002 - as it is called
        """Let a call in, or not."""
        if not self._digests:
            return None
        sent = next(iter(headers.get("authorization", ())), "")
        scheme, _, credentials = str(sent).partition(" ")
        token = _password(credentials) if scheme.lower() == "basic" else credentials
        if scheme.lower() not in ("basic", "bearer") or not self._is_known(token):
            raise flight.FlightUnauthenticatedError(
                "the server needs a token: send it as 'authorization: Bearer TOKEN', or as the "
                "password of any user"
            )
        return Bearer(token) if scheme.lower() == "basic" else None

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
    """Return the password of ``user:password`` in base 64, which Go leaves without padding.

    >>> _password("dTpwOnE"), _password("dTpwOnE="), _password("*")
    ('p:q', 'p:q', '')
    """
    padded = credentials + "=" * (-len(credentials) % 4)
    try:
        return base64.b64decode(padded, validate=True).decode().partition(":")[2]
    except ValueError:
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

    def sealed(self, query: str, bound: str | None) -> bytes:
        """Return the handle of a query."""
        content = secrets.token_bytes(_ID_BYTES) + json.dumps([query, bound]).encode()
        return hmac.digest(self._secret, content, "sha256") + content

    def opened(self, handle: bytes) -> SealedQuery:
        """Return the query of a handle.

        Raises
        ------
        InvalidRequest
            It was not made here.
        """
        seal, content = handle[:_SEAL_BYTES], handle[_SEAL_BYTES:]
        if not hmac.compare_digest(seal, hmac.digest(self._secret, content, "sha256")):
            raise InvalidRequest(
                "the ticket is not one that this server gave; ask again for the query (a server "
                "that was started again knows no earlier tickets)"
            )
        return SealedQuery(content[:_ID_BYTES], *json.loads(content[_ID_BYTES:]))


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
    """Return whether values of a type lie in a row as they are.

    >>> kinds = [pa.string_view(), pa.binary_view(), pa.list_(pa.int8())]
    >>> kinds += [pa.dictionary(pa.int8(), pa.string()), pa.run_end_encoded(pa.int32(), pa.int8())]
    >>> _is_plain(pa.string()), any(map(_is_plain, kinds))
    (True, False)
    """
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

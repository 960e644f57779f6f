"""Messages that are read and sent: those of Flight SQL, limits, and errors with a status of gRPC.

An exception of Python would leave with its traceback.  Those of Flight leave as they are, but there
is none for a wrong argument, so that one is an `InvalidRequest`: it cannot be formatted.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import wraps
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Final, NoReturn, TypeVar, cast

import pyarrow as pa
from google.protobuf.any_pb2 import Any as AnyMessage
from google.protobuf.descriptor_pb2 import FileDescriptorSet
from google.protobuf.message import DecodeError
from google.protobuf.message_factory import GetMessages
from pyarrow import flight

from daf_query._runs import Endings, check_limits, fault
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


@dataclass(frozen=True, slots=True)
class FlightSqlLimits:
    """What a server gives at most; None is no limit.

    Raises
    ------
    InvalidInputError
        A limit is not positive.
    """

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

    def __post_init__(self) -> None:
        check_limits(self)


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


_STATUSES: Final[tuple[tuple[type[BaseException], Callable[[str], Exception]], ...]] = (
    (errors.RemoteError, flight.FlightUnavailableError),
    (errors.ReadOnlyError, flight.FlightUnauthorizedError),
    (errors.InvalidInputError, InvalidRequest),
    (errors.NotFoundError, InvalidRequest),
    (errors.BudgetError, InvalidRequest),
    (DafError, flight.FlightInternalError),
    (MemoryError, lambda _: InvalidRequest("the query takes more memory than the server has")),
)
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
        for error_type, made in _STATUSES:
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


def _overdue(seconds: float) -> Exception:
    problem = f"the query has not ended after {seconds:g} seconds"
    error: Exception = flight.FlightTimedOutError(limit_reached(problem, "max_seconds"))
    return error


def _busy(most: int) -> Exception:
    running = "1 query is running" if most == 1 else f"{most} queries are running"
    error: Exception = flight.FlightUnavailableError(limit_reached(running, "max_queries"))
    return error


ENDINGS: Final = Endings(
    _overdue, _busy, flight.FlightCancelledError, flight.FlightUnavailableError
)
"""The errors of queries that end early."""

"""Errors as clients get them: a sentence with a gRPC status, and nothing of the server.

An exception of Python would leave with its traceback.  Those of Flight leave as they are, but there
is none for a wrong argument, so that one is an `InvalidRequest`: it cannot be formatted.
"""

from __future__ import annotations

import re
import sys
import traceback
from collections.abc import Callable, Mapping
from functools import wraps
from pathlib import Path
from typing import Any, Final, NoReturn, TypeVar, cast

import pyarrow as pa
from pyarrow import flight

from daf_storage import DafError, errors

_T = TypeVar("_T")

_PATH: Final = re.compile(r"(?<![\w.*~)\]])/[^\s'\",;:()<>]+/[^\s'\",;:()<>]+")
"""What looks like an absolute path of two parts or more."""
_HIDDEN: Final = "(a file of the server)"
_FAILED: Final = "the server failed at this request, which is a fault of it: its own log says why"


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

    def status(self, error: BaseException, asked: str = "") -> Exception:
        """Return the error that a client gets; what is a fault of the server is logged here.

        Parameters
        ----------
        asked
            What the client sent: a path in it is no secret.
        """
        if isinstance(error, flight.FlightError | InvalidRequest | NotSupported):
            return cast("Exception", error)
        for error_type, made in _STATUSES:
            if isinstance(error, error_type):
                return made(self.shown(_sentence(error), asked))
        print("daf serve:", *traceback.format_exception(error), file=sys.stderr)  # noqa: T201 - the log of a server
        return cast("Exception", flight.FlightInternalError(_FAILED))

    def shown(self, message: str, asked: str = "") -> str:
        """Return a message without paths of the server.

        >>> statuses = Statuses({"/lab/pbmc.daf.zarr": "pbmc"})
        >>> statuses.shown("/lab/pbmc.daf.zarr: it has no vector; see /lab/notes.txt")
        'pbmc: it has no vector; see (a file of the server)'
        """
        for location, name in self._named.items():
            message = re.sub(rf"(?<![\w/]){re.escape(location)}(?!\w)", name, message)
        return _PATH.sub(lambda match: match[0] if match[0] in asked else _HIDDEN, message)


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

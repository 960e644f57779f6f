"""Errors as the page gets them: a status, a sentence, and the place in the SQL that was sent."""

from __future__ import annotations

import sys
import traceback
from dataclasses import asdict, astuple, dataclass
from typing import Any, Final

from daf_query.sql import error_place
from daf_storage import DafError, errors


class RequestError(DafError):
    """A request that the server does not answer."""

    status: int = 400
    """The status of HTTP."""


def refusal(status: int, message: str, remedy: str = "") -> RequestError:
    """Return an error with a status of HTTP, and what to do."""
    error = RequestError(message)
    error.status = status
    if remedy:
        error.remedy = errors.Remedy("", remedy)
    return error


class CancelledError(RequestError):
    """Nobody waits for the answer."""

    status = 499


@dataclass(frozen=True, slots=True)
class Failure:
    """An error as JSON has it."""

    error: str
    """The name of its class."""
    message: str
    line: int | None = None
    """The place in the SQL that was sent, from 1; None where it is unknown."""
    column: int | None = None
    length: int | None = None
    remedy: str | None = None
    """What to do."""

    def to_dict(self) -> dict[str, Any]:
        """Return it for JSON."""
        return asdict(self)


_STATUSES: Final[tuple[tuple[type[BaseException], int], ...]] = (
    (errors.BudgetError, 413),
    (errors.SizeLimitError, 413),
    (errors.ReadOnlyError, 403),
    (errors.MissingDependencyError, 501),
    (errors.InvalidInputError, 400),
    (errors.NotFoundError, 404),
    (errors.ExistsError, 409),
    (errors.AppendOnlyError, 409),
    (errors.InUseError, 409),
    (errors.RemoteError, 502),
    (errors.StorageFullError, 507),
    (MemoryError, 413),
)
"""Which status an error has; the first that fits."""
_NO_MEMORY: Final = "the answer takes more memory than this machine has; ask for fewer rows"
_FAULT: Final = "the server failed at this request, which is a fault of it: its own log says why"
_REMEDIES: Final = {
    errors.ALLOW_WRITE: (
        "the explorer only reads; start it with --write OVERLAY to save vectors into an overlay"
    ),
    errors.REPLACE: "choose another name, or overwrite it",
    errors.MAX_BYTES: "choose fewer rows or columns",
}
"""Remedies of arguments in Python, for the page."""


def failure(error: BaseException, sql: str = "") -> tuple[int, Failure]:
    r"""Return the status of an error, and what the page is shown; faults of the server are logged.

    Parameters
    ----------
    sql
        What the page sent; the place is one in it.

    Examples
    --------
    >>> error = errors.VectorNotFoundError("x: axis 'cell' has no vector 'agee'")
    >>> status, shown = failure(error, "SELECT name,\n  agee FROM cell")
    >>> status, shown.line, shown.column, shown.length
    (404, 2, 3, 4)
    """
    name = type(error).__name__
    if isinstance(error, MemoryError):
        return 413, Failure("BudgetError", _NO_MEMORY)
    if not isinstance(error, DafError):
        print("daf explore:", *traceback.format_exception(error), file=sys.stderr)  # noqa: T201 - the log of a server
        return 500, Failure(name, _FAULT)
    place = error_place(error, sql)
    line, column, length = (None, None, None) if place is None else astuple(place)
    message = error.sentence(None)
    if line is not None and isinstance(error, errors.QueryError):
        message = message.partition("\n")[0]
    shown = Failure(name, message, line, column, length, _remedy(error))
    return _status(error), shown


def _status(error: DafError) -> int:
    if isinstance(error, RequestError):
        return error.status
    return next((status for kind, status in _STATUSES if isinstance(error, kind)), 500)


def _remedy(error: DafError) -> str | None:
    if error.remedy is None:
        return None
    return _REMEDIES.get(error.remedy.argument, str(error.remedy))

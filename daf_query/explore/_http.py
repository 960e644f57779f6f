"""Requests and answers: what the page asks for, bodies in parts, and errors with their status."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, astuple, dataclass, field
from functools import partial
from typing import Any, Final, TypeAlias, TypeVar

import anyio
from anyio.to_thread import run_sync
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.types import Receive, Scope, Send

from daf_query._runs import Endings, Run, fault
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
        return 500, Failure(name, fault("daf explore", error))
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


_T = TypeVar("_T")

_MAX_JSON_BYTES: Final = 4 << 20
_MAX_QUERY_BYTES: Final = 1 << 20
_MAX_DEPTH_ERROR: Final = "the request is nested too deeply"
_KINDS: Final[Mapping[type, str]] = {
    str: "a string",
    int: "a whole number",
    bool: "true or false",
    dict: "an object",
    list: "a list",
}


async def body_of(request: Request, *, max_bytes: int) -> bytes:
    """Return the body of a request.

    Raises
    ------
    RequestError
        It is larger than it may be.
    """
    parts: list[bytes] = []
    size = 0
    async for part in request.stream():
        size += len(part)
        if size > max_bytes:
            raise refusal(413, f"the request is larger than {max_bytes:,} bytes")
        parts.append(part)
    return b"".join(parts)


async def asked_of(request: Request) -> Asked:
    """Return the JSON object that a request has.

    Raises
    ------
    RequestError
        It has none.
    """
    body = await body_of(request, max_bytes=_MAX_JSON_BYTES)
    try:
        content = json.loads(body)
    except ValueError as error:
        raise refusal(400, f"the request is no JSON: {error}") from None
    except RecursionError:
        raise refusal(400, _MAX_DEPTH_ERROR) from None
    if not isinstance(content, dict):
        raise refusal(400, "the request is no JSON object")
    return Asked(content)


def address_part(request: Request, name: str) -> str:
    """Return what an address has after ``NAME=``.

    Raises
    ------
    RequestError
        It has no such part.
    """
    value = request.query_params.get(name)
    if not value:
        raise refusal(400, f"the address needs {name!r}, as in ?{name}=...")
    return value


@dataclass(frozen=True, slots=True)
class Asked:
    """A JSON object that the page sent, or a part of one."""

    content: Mapping[str, Any]

    def string(self, name: str) -> str:
        """Return a string that has to be there."""
        return self._of(name, str)

    def optional_string(self, name: str) -> str | None:
        """Return a string, or None where it is missing, null or empty."""
        return None if self.content.get(name) in (None, "") else self.string(name)

    def sql(self, name: str = "sql") -> str:
        """Return SQL, which has to be there."""
        sql = self.string(name)
        if len(sql.encode("utf-8", "replace")) > _MAX_QUERY_BYTES:
            raise refusal(413, f"{name!r} is longer than {_MAX_QUERY_BYTES:,} bytes")
        return sql

    def whole_number(self, name: str, default: int) -> int:
        """Return a number that is not negative."""
        number = self._of(name, int) if name in self.content else default
        if number < 0:
            raise refusal(400, f"{name!r} is negative: {number}")
        return number

    def flag(self, name: str) -> bool:
        """Return whether something is asked for; by default not."""
        return self._of(name, bool) if self.content.get(name) is not None else False

    def part(self, name: str) -> Asked:
        """Return an object that has to be there."""
        return Asked(self._of(name, dict))

    def strings(self, name: str) -> list[str]:
        """Return a list of strings that has to be there."""
        listed = self._of(name, list)
        if not all(isinstance(each, str) for each in listed):
            raise refusal(400, f"{name!r} has to be a list of strings")
        return listed

    def _of(self, name: str, kind: type[_T]) -> _T:
        value = self.content.get(name)
        is_other = isinstance(value, bool) and kind is not bool
        if not isinstance(value, kind) or is_other:
            raise _wrong(name, kind)
        return value


def _wrong(name: str, kind: type) -> RequestError:
    return refusal(400, f"the request needs {name!r}, {_KINDS[kind]}")


ARROW: Final = "application/vnd.apache.arrow.stream"
BINARY: Final = "application/octet-stream"
JSON: Final = "application/json"
_PART_BYTES: Final = 1 << 20


@dataclass(frozen=True, slots=True)
class Head:
    """What an answer begins with, which is known as soon as its first part is."""

    media_type: str
    headers: Mapping[str, str] = field(default_factory=dict)


Part: TypeAlias = Head | bytes
"""What a run yields: a head, then bytes."""

Begin: TypeAlias = Callable[[Callable[[], bool]], Run[Part]]
"""Starts a run, given what says whether the client has gone."""


def parts_of(head: Head, content: Any) -> Iterator[Part]:
    """Yield a head that says the length, and a buffer in parts."""
    whole = memoryview(content)
    view = whole.cast("B") if whole.nbytes else memoryview(b"")
    length = {"Content-Length": str(view.nbytes)}
    yield Head(head.media_type, {**head.headers, **length})
    for start in range(0, view.nbytes, _PART_BYTES):
        yield bytes(view[start : start + _PART_BYTES])


def json_parts(content: Any) -> Iterator[Part]:
    """Yield JSON, which has no NaN."""
    text = json.dumps(content, ensure_ascii=False, allow_nan=False)
    yield from parts_of(Head(JSON), text.encode("utf-8", "replace"))


def endings(option: str = "--seconds") -> Endings:
    """Return the errors of queries that end early."""
    return Endings(
        overdue=lambda seconds: refusal(
            413, f"the query has not ended after {seconds:g} seconds", f"a larger {option} lets it"
        ),
        busy=lambda most: refusal(
            503, f"{most} queries are running", "wait for one of them, or cancel it"
        ),
        cancelled=CancelledError,
        closing=lambda message: refusal(503, message),
    )


def failed(error: BaseException, sql: str = "") -> Response:
    """Return the answer that says what is wrong."""
    status, shown = failure(error, sql)
    return JSONResponse(shown.to_dict(), status)


class RunResponse(Response):
    """Sends what a run yields.

    An error before the first part is an answer of its own.  After that the answer ends early: with
    a length, or by Arrow's mark of the end, the page sees that it is not whole.

    Parameters
    ----------
    begin
        Starts the run; called in a thread.
    sql
        What the page sent, for the places of errors.
    on_end
        Called once with the error that ended it, or None.
    """

    def __init__(
        self,
        begin: Begin,
        *,
        sql: str = "",
        on_end: Callable[[BaseException | None], None] = lambda _: None,
    ) -> None:
        self._begin = begin
        self._sql = sql
        self._on_end = on_end
        self.background = None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the answer, and look whether the client is there meanwhile."""
        gone = threading.Event()

        async def look() -> None:
            while (await receive())["type"] != "http.disconnect":
                pass
            gone.set()

        async with anyio.create_task_group() as group:
            group.start_soon(look)
            await self._answer(scope, receive, send, gone)
            group.cancel_scope.cancel()

    async def _answer(
        self, scope: Scope, receive: Receive, send: Send, gone: threading.Event
    ) -> None:
        run: Run[Part] | None = None
        try:
            run = await run_sync(partial(self._begin, gone.is_set))
            head = await run_sync(partial(next, run, None))
            if not isinstance(head, Head):
                raise RequestError("the answer has no beginning")
        except Exception as error:  # noqa: BLE001 - it is sent to the page
            self._on_end(error)
            await failed(error, self._sql)(scope, receive, send)
            return
        ended: BaseException | None = CancelledError("the server is closing")
        try:
            ended = await self._sent(head, run, send, gone)
        finally:
            run.close()
            self._on_end(ended)

    async def _sent(
        self, head: Head, run: Run[Part], send: Send, gone: threading.Event
    ) -> BaseException | None:
        """Send a head and what follows; return the error that ended it, if one did."""
        headers = {"Content-Type": head.media_type, **head.headers}
        raw = [(key.lower().encode(), value.encode("latin-1")) for key, value in headers.items()]
        await send({"type": "http.response.start", "status": 200, "headers": raw})
        ended: BaseException | None = None
        try:
            while (part := await run_sync(partial(next, run, None))) is not None:
                if gone.is_set():  # a run looks only while it waits
                    return CancelledError("the page hung up")
                await send({"type": "http.response.body", "body": part, "more_body": True})
        except Exception as raised:  # noqa: BLE001 - the page asks for it
            ended = raised
        if ended is None or "Content-Length" not in head.headers:
            await send({"type": "http.response.body", "body": b"", "more_body": False})
        return ended

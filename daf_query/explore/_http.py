"""Requests and answers: what the page asks for, bodies in parts, and errors with their status."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass
from functools import partial
from typing import Any, Final, TypeAlias, TypeVar

import anyio
from anyio.to_thread import run_sync
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
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


ENDINGS: Final = Endings(
    overdue=lambda seconds: refusal(
        413, f"the query has not ended after {seconds:g} seconds", "a larger --seconds lets it"
    ),
    busy=lambda most: refusal(
        503, f"{most} queries are running", "wait for one of them, or cancel it"
    ),
    cancelled=partial(refusal, 499),
    closing=partial(refusal, 503),
)
"""The errors of queries that end early."""


_STATUSES: Final[Mapping[type[BaseException], int]] = {
    errors.BudgetError: 413,
    errors.SizeLimitError: 413,
    errors.ReadOnlyError: 403,
    errors.MissingDependencyError: 501,
    errors.InvalidInputError: 400,
    errors.NotFoundError: 404,
    errors.ExistsError: 409,
    errors.AppendOnlyError: 409,
    errors.InUseError: 409,
    errors.RemoteError: 502,
    errors.StorageFullError: 507,
}
"""Which status an error has; the first that fits."""
_NO_MEMORY: Final = "the answer takes more memory than this machine has; ask for fewer rows"
_REMEDIES: Final = {
    errors.ALLOW_WRITE: (
        "the explorer only reads; start it with --write OVERLAY to save vectors into an overlay"
    ),
    errors.REPLACE: "choose another name, or overwrite it",
    errors.MAX_BYTES: "choose fewer rows or columns",
    "params=": "write its value instead",
}
"""Remedies of arguments in Python, for the page."""


def failure(error: BaseException, sql: str = "") -> tuple[int, dict[str, Any]]:
    r"""Return the status of an error, and what the page is shown; faults of the server are logged.

    Parameters
    ----------
    sql
        What the page sent; the place is one in it.

    Examples
    --------
    >>> error = errors.VectorNotFoundError("x: axis 'cell' has no vector 'agee'")
    >>> status, shown = failure(error, "SELECT name,\n  agee FROM cell")
    >>> status, shown["line"], shown["column"], shown["length"]
    (404, 2, 3, 4)
    >>> failure(MemoryError())[0]
    413
    """
    shown: dict[str, Any] = dict.fromkeys(("line", "column", "length", "remedy"))
    shown["error"] = type(error).__name__
    if isinstance(error, MemoryError):
        return 413, {**shown, "error": "BudgetError", "message": _NO_MEMORY}
    if not isinstance(error, DafError):
        return 500, {**shown, "message": fault("daf explore", error)}
    shown["message"] = error.sentence(None)
    place, remedy = error_place(error, sql), error.remedy
    if place is not None:
        shown |= asdict(place)
        if isinstance(error, errors.QueryError):
            shown["message"] = shown["message"].partition("\n")[0]
    if remedy is not None:
        shown["remedy"] = _REMEDIES.get(remedy.argument, str(remedy))
    if isinstance(error, RequestError):
        status = error.status
    else:
        status = next(
            (status for kind, status in _STATUSES.items() if isinstance(error, kind)), 500
        )
    return status, shown


def failed(error: BaseException, sql: str = "") -> Response:
    """Return the answer that says what is wrong."""
    status, shown = failure(error, sql)
    return json_answer(shown, status)


_T = TypeVar("_T")

_MAX_JSON_BYTES: Final = 4 << 20
_MAX_POSITIONS_BYTES: Final = 1 << 30
_MAX_QUERY_BYTES: Final = 1 << 20
_KINDS: Final[Mapping[type, str]] = {
    str: "a string",
    int: "a whole number",
    bool: "true or false",
    dict: "an object",
    list: "a list",
}


async def question_of(request: Request) -> Question:
    """Return what a request asks for: the JSON that it has, or the parts of its address.

    Raises
    ------
    RequestError
        It is too large, or no JSON object.
    """
    content: Any = {**request.query_params, **request.path_params}
    most = _MAX_POSITIONS_BYTES if content else _MAX_JSON_BYTES
    body = bytearray()
    async for part in request.stream():
        body += part
        if len(body) > most:
            raise refusal(413, f"the request is larger than {most:,} bytes")
    if body and not content:
        try:
            content = json.loads(body)
        except (ValueError, RecursionError) as error:
            raise refusal(400, f"the request is no JSON, or nested too deeply: {error}") from None
        if not isinstance(content, dict):
            raise refusal(400, "the request is no JSON object")
    return Question(content, bytes(body))


@dataclass(slots=True)
class Question:
    """A JSON object that the page sent, or a part of one."""

    content: Mapping[str, Any]
    body: bytes = b""
    """All that was sent."""

    def string(self, name: str) -> str:
        """Return a string that has to be there."""
        return self._of(name, str)

    def optional_string(self, name: str) -> str | None:
        """Return a string, or None where it is missing, null or empty."""
        return None if self.content.get(name) in (None, "") else self.string(name)

    def sql(self) -> str:
        """Return SQL, which has to be there."""
        sql = self.string("sql")
        if len(sql.encode("utf-8", "replace")) > _MAX_QUERY_BYTES:
            raise refusal(413, f"'sql' is longer than {_MAX_QUERY_BYTES:,} bytes")
        return sql

    def written_sql(self) -> str:
        """Return the SQL of which an error may name the place; empty if there is none."""
        values = self.content.get("values")
        for content in (self.content, values if isinstance(values, dict) else {}):
            for name in ("sql", "rows", "by"):
                if isinstance(content.get(name), str):
                    return str(content[name])
        return ""

    def whole_number(self, name: str, default: int) -> int:
        """Return a number that is not negative."""
        number = self._of(name, int) if name in self.content else default
        if number < 0:
            raise refusal(400, f"{name!r} is negative: {number}")
        return number

    def flag(self, name: str) -> bool:
        """Return whether something is asked for; by default not."""
        return self._of(name, bool) if self.content.get(name) is not None else False

    def part(self, name: str) -> Question:
        """Return an object that has to be there."""
        return Question(self._of(name, dict))

    def strings(self, name: str) -> list[str]:
        """Return a list of strings that has to be there."""
        listed = self._of(name, list)
        if not all(isinstance(each, str) for each in listed):
            raise refusal(400, f"{name!r} has to be a list of strings")
        return listed

    def _of(self, name: str, kind: type[_T]) -> _T:
        value = self.content.get(name)
        if not isinstance(value, kind) or (isinstance(value, bool) and kind is not bool):
            raise refusal(400, f"the request needs {name!r}, {_KINDS[kind]}")
        return value


ARROW: Final = "application/vnd.apache.arrow.stream"
_ARROW_END: Final = b"\xff\xff\xff\xff\x00\x00\x00\x00"


Part: TypeAlias = Response | bytes
"""What a run yields: a whole answer, or a head, which is a stream without parts, then bytes."""
Answer: TypeAlias = Mapping[str, Any] | Response | Iterator[Part]
"""JSON, a whole answer, or a head and what follows."""


def bytes_answer(content: Any, rows: int, media_type: str = "application/octet-stream") -> Response:
    """Return an answer of bytes about so many rows."""
    return Response(bytes(content), headers={"X-Daf-Rows": str(rows)}, media_type=media_type)


def json_answer(content: Mapping[str, Any], status: int = 200) -> Response:
    """Return an answer of JSON, which has no NaN."""
    text = json.dumps(content, ensure_ascii=False, allow_nan=False)
    return Response(text.encode("utf-8", "replace"), status, media_type="application/json")


def answer_parts(answer: Answer) -> Iterator[Part]:
    """Return the parts of an answer, or the whole as its only part."""
    if isinstance(answer, Mapping):
        answer = json_answer(answer)
    return iter([answer]) if isinstance(answer, Response) else answer


def ended(**how: Any) -> bytes:
    """Return the mark at the end of an Arrow stream, and behind it how the answer ended, as JSON.

    >>> ended(truncated=True)[8:]
    b'{"truncated": true}'
    """
    return _ARROW_END + json.dumps(how).encode()


class RunResponse(Response):
    """Sends what a run yields.

    An error before the first part is an answer of its own.  After that the answer ends early, and
    what has no length has the error behind it: the page sees that it is not whole, and why.

    Parameters
    ----------
    begin
        Starts the run, given what says whether the client has gone; called in a thread.
    sql
        What the page sent, for the places of errors.
    """

    def __init__(self, begin: Callable[[Callable[[], bool]], Run[Part]], sql: str) -> None:
        self._begin, self._sql = begin, sql
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
            try:
                run = await run_sync(self._begin, gone.is_set)
                head: Any = await run_sync(partial(next, run, None))
            except Exception as error:  # noqa: BLE001 - it is sent to the page
                await failed(error, self._sql)(scope, receive, send)
            else:
                try:
                    if isinstance(head, StreamingResponse):
                        await self._sent(head, run, send, gone)
                    else:
                        await head(scope, receive, send)
                finally:
                    run.close()
            group.cancel_scope.cancel()

    async def _sent(
        self, head: StreamingResponse, run: Run[Part], send: Send, gone: threading.Event
    ) -> None:
        """Send a head and what follows."""
        status, headers = head.status_code, head.raw_headers
        await send({"type": "http.response.start", "status": status, "headers": headers})
        last = b""
        try:
            while (part := await run_sync(partial(next, run, None))) is not None:
                if gone.is_set():  # a run looks only while it waits
                    return
                await send({"type": "http.response.body", "body": part, "more_body": True})
        except Exception as error:  # noqa: BLE001 - it is sent to the page
            if "content-length" in head.headers:
                return
            last = ended(error=failure(error, self._sql)[1])
        await send({"type": "http.response.body", "body": last, "more_body": False})

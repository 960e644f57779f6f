"""Answers that are computed while they are sent; whoever hangs up ends the computation."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final, TypeAlias

import anyio
from anyio.to_thread import run_sync
from starlette.responses import JSONResponse, Response
from starlette.types import Receive, Scope, Send

from daf_query._runs import Endings, Run
from daf_query.explore._failures import CancelledError, RequestError, failure, refusal

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

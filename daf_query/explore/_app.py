"""The application: its routes, who may ask, the page itself; and the server that runs it.

A page of the web can make its visitor's browser send requests to this machine.  Such a request has
the origin of that page, or names another host (a name that was made to point here), and it lacks
the token.  The address of the first page is an argument of the browser, which other users of the
machine may see.  So it has a ticket in place of the token, which is good once; whoever comes second
gets nothing.
"""

from __future__ import annotations

import hmac
import mimetypes
import secrets
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Final, TypeAlias
from urllib.parse import urlencode

from starlette.applications import Starlette
from starlette.datastructures import Headers, MutableHeaders
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import ClientDisconnect, Request
from starlette.responses import HTMLResponse, PlainTextResponse, RedirectResponse, Response
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from daf_query._runs import Run, Runs
from daf_query.explore import _answers as answers
from daf_query.explore._explorer import ExploredData, ExploreLimits, Explorer, replaced
from daf_query.explore._http import (
    Answer,
    Part,
    Question,
    RequestError,
    RunResponse,
    answer_parts,
    failed,
    question_of,
    refusal,
)
from daf_query.session import DafSession
from daf_storage import DafError
from daf_storage.upkeep import Serving, WebServer, is_called

_PROTECTED: Final = "/api/"
_PRIVATE: Final = (_PROTECTED, "/download/", "/open/")
_OWN_SITES: Final = ("none", "same-origin")
"""Not ``same-site``: another port of this machine may be another user's."""
_DIRECTIVES: Final = (
    "default-src 'self'",
    "img-src 'self' blob: data:",
    "object-src 'none'",
    "base-uri 'none'",
    "form-action 'none'",
    "frame-ancestors 'none'",
)
_HEADERS: Final = {
    "Content-Security-Policy": "; ".join(_DIRECTIVES),
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
}


class Guard:
    """Refuses requests before anything reads them, and adds the headers that protect the page."""

    def __init__(self, app: ASGIApp, *, token: str) -> None:  # starlette passes app= by its name
        self._application = app
        self._authorization = f"Bearer {token}".encode()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request, or refuse it."""
        if scope["type"] != "http":
            return
        path = str(scope["path"])

        async def protected(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                headers.update(_HEADERS)
                is_page = message["status"] == 200 and not path.startswith(_PRIVATE)
                headers["Cache-Control"] = "no-cache" if is_page else "no-store"
            await send(message)

        error = self._refusal(scope, path)
        answer = self._application if error is None else failed(error)
        await answer(scope, receive, protected)

    def _refusal(self, scope: Scope, path: str) -> RequestError | None:
        """Return why a request is refused; None if it is not."""
        if "\0" in path:
            return refusal(404, "no path has a NUL character")
        headers = Headers(scope=scope)
        host = headers.get("host", "")
        if not is_called(host, {"localhost"}):
            return refusal(403, f"this server is not called {host[:100]!r}; open the address shown")
        origin = headers.get("origin")
        if origin is not None and origin != f"http://{host}":
            return refusal(403, "pages of another origin may not ask this server")
        is_data = path != "/" and not path.startswith("/assets/")
        if is_data and headers.get("sec-fetch-site", "none") not in _OWN_SITES:
            return refusal(403, "pages of another site may not ask this server")
        sent = headers.get("authorization", "").encode("latin-1", "replace")
        is_authorized = hmac.compare_digest(sent, self._authorization)
        if path.startswith(_PROTECTED) and not is_authorized:
            return refusal(
                401, "the token is missing or wrong", "open the address that daf explore printed"
            )
        return None


_BUILT: Final = Path(__file__).parent / "static"
"""Where the build puts the page."""
_MISSING: Final = """<!doctype html>
<html lang="en"><meta charset="utf-8"><title>daf explore</title>
<h1>The page was not built</h1>
<p>This is a clone of the repository, and its page is built once:</p>
<pre>make web</pre>
<p>Then reload. Wheels of the package contain the page.</p>
</html>
"""
_USED: Final = "this address was used already, or is too old: open the one that daf explore printed"
_VERSION: Final = "X-Daf-Version"
"""The header that says which data the page holds."""

Handler: TypeAlias = Callable[[Explorer, Question], Answer]
"""Answers what the page asks for."""

_COMPUTED: Final[Mapping[str, Handler]] = {
    "GET /api/catalogue": answers.overview,
    "POST /api/query": answers.query,
    "GET /api/summary": answers.summary,
    "GET /api/entries": answers.entries,
    "POST /api/points": answers.points,
    "POST /api/colour": answers.colour,
    "POST /api/rows": answers.rows,
    "POST /api/selection": answers.select,
    "GET /api/selection": answers.selected,
    "DELETE /api/selection": answers.deselect,
    "POST /api/extract/estimate": answers.estimate,
    "POST /api/extract": answers.extract,
    "POST /api/export": answers.export,
    "GET /download/{ticket}": answers.download,
    "POST /api/profile": answers.profile,
    "POST /api/save": answers.save,
}
"""What is answered by a run."""


def app(
    session: DafSession | ExploredData, *, token: str, limits: ExploreLimits | None = None
) -> Starlette:
    """Return the application that answers the page of the explorer.

    Parameters
    ----------
    session
        What is explored; it stays open.
    token
        Who has it may ask.
    limits
        What is given at most.

    Returns
    -------
    starlette.applications.Starlette
        Its ``state.explorer`` has what is computed at this moment.

    Examples
    --------
    >>> import daf_query, daf_storage
    >>> daf = daf_storage.MemoryDaf(name="tiny")
    >>> daf.add_axis("cell", ["TATA", "GATA"])
    >>> from starlette.testclient import TestClient
    >>> client = TestClient(app(daf_query.connect(daf), token="x"), base_url="http://127.0.0.1:80")
    >>> client.get("/api/catalogue", headers={"Authorization": "Bearer y"}).status_code
    401
    """
    data = ExploredData(lambda: session) if isinstance(session, DafSession) else session
    explorer = Explorer(data, limits or ExploreLimits())
    routes: list[Route | Mount] = [
        Route(path, partial(_answered, explorer, handler), methods=[method])
        for (method, path), handler in ((key.split(), each) for key, each in _COMPUTED.items())
    ]
    routes.append(Route("/open/{ticket}", partial(_opening, explorer)))
    mimetypes.add_type("text/javascript", ".js")  # whatever the machine knows
    if (_BUILT / "index.html").is_file():
        routes.append(Mount("/", StaticFiles(directory=_BUILT, html=True)))
    else:
        routes.append(Route("/", lambda _: HTMLResponse(_MISSING, 503)))
    application = Starlette(
        routes=routes,
        middleware=[Middleware(Guard, token=token)],
        exception_handlers=dict.fromkeys((HTTPException, DafError, ClientDisconnect), _failed),
    )
    application.state.explorer = explorer
    return application


async def _answered(explorer: Explorer, handler: Handler, request: Request) -> Response:
    """Answer by a run."""
    held = request.headers.get(_VERSION)
    if held not in (None, str(explorer.data.version)) and handler is not answers.overview:
        raise replaced()
    if request.method == "HEAD":
        raise refusal(405, "this is fetched, and once")
    question = await question_of(request)
    runs: Runs = explorer.exports if handler is answers.download else explorer.runs

    def begin(is_gone: Callable[[], bool]) -> Run[Part]:
        return runs.start(lambda: answer_parts(handler(explorer, question)), is_abandoned=is_gone)

    return RunResponse(begin, question.written_sql())


async def _opening(explorer: Explorer, request: Request) -> Response:
    """Answer a ticket with the address of the page."""
    address = explorer.openings.take(request.path_params["ticket"])
    return PlainTextResponse(_USED, 404) if address is None else RedirectResponse(address, 303)


async def _failed(request: Request, error: Exception) -> Response:
    """Return the response to a bad request, an unknown path, or a client that hung up."""
    if isinstance(error, HTTPException):
        what = f"{request.method} {request.url.path[:200]}"
        error = refusal(error.status_code, f"the server does not answer {what}")
    elif isinstance(error, ClientDisconnect):
        error = refusal(499, "the page hung up")
    return failed(error)


_HOST: Final = "127.0.0.1"
_TOKEN_BYTES: Final = 24


class ExploreServer(Serving):
    """Serves the explorer to programs of this machine that have its token.

    It runs as soon as it is made, in threads of its own; `close` or the end of ``with`` ends it.

    Parameters
    ----------
    source
        A session, which stays open when the server ends, or explored data.
    port
        By default, any that is free.
    limits
        What the server gives at most.

    Raises
    ------
    InUseError
        Another program listens at the port.

    Examples
    --------
    >>> import daf_query, daf_storage
    >>> daf = daf_storage.MemoryDaf(name="tiny")
    >>> daf.add_axis("cell", ["TATA", "GATA"])
    >>> with ExploreServer(daf_query.connect(daf)) as server:
    ...     server.url  # doctest: +ELLIPSIS
    'http://127.0.0.1:.../?token=...'
    """

    def __init__(
        self,
        source: DafSession | ExploredData,
        *,
        port: int = 0,
        limits: ExploreLimits | None = None,
    ) -> None:
        super().__init__()
        self.token: str = secrets.token_urlsafe(_TOKEN_BYTES)
        """Who has it may ask."""
        application = app(source, token=self.token, limits=limits)
        self._explorer = application.state.explorer
        self._server = WebServer(application, host=_HOST, port=port, name="daf explore")
        self.port: int = self._server.port
        """Where it listens."""

    @property
    def url(self) -> str:
        """The address of the page, with the token."""
        return f"http://{_HOST}:{self.port}/?token={self.token}"

    def page_url(self, *, query: str | None = None, color: str | None = None) -> str:
        """Return the address of the page with a query and a colour to start with.

        Parameters
        ----------
        query
            SQL that is run when the page opens; by default the first rows of an axis.
        color
            A vector, or a SQL expression, that colours the embedding; by default cell types.
        """
        return self.url + _fragment(query, color)

    def opening_url(self, *, query: str | None = None, color: str | None = None) -> str:
        """Return an address that leads to the page once, for the next minute.

        Parameters
        ----------
        query
            SQL that is run when the page opens.
        color
            A vector, or a SQL expression, that colours the embedding.
        """
        ticket = self._explorer.openings.add(f"/?token={self.token}{_fragment(query, color)}")
        return f"http://{_HOST}:{self.port}/open/{ticket}"

    @property
    def running_queries(self) -> int:
        """How many answers are computed at this moment."""
        return int(self._explorer.runs.count + self._explorer.exports.count)

    def _end(self) -> None:
        self._explorer.close()
        self._server.close()


def _fragment(query: str | None, color: str | None) -> str:
    """Return the state of the page as `link.ts` reads it; fragments are sent to no server."""
    state = {"sql": query, "expression": color}
    given = {name: value for name, value in state.items() if value is not None}
    return f"#{urlencode(given)}" if given else ""

"""The application: its routes, who may ask, the page itself, and an overview to begin with.

A page of the web can make its visitor's browser send requests to this machine.  Such a request has
the origin of that page, or names another host (a name that was made to point here), and it lacks
the token.  The address of the first page is an argument of the browser, which other users of the
machine may see.  So it has a ticket in place of the token, which is good once; whoever comes second
gets nothing.
"""

from __future__ import annotations

import hmac
from collections.abc import Awaitable, Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Final, TypeAlias

from starlette.applications import Starlette
from starlette.datastructures import Headers, MutableHeaders
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import ClientDisconnect, Request
from starlette.responses import (
    FileResponse,
    HTMLResponse,
    PlainTextResponse,
    RedirectResponse,
    Response,
)
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from daf_query.explore._catalogue import catalogue
from daf_query.explore._data import ExploredData, ExploreLimits, replaced
from daf_query.explore._explorer import Explorer
from daf_query.explore._http import (
    CancelledError,
    Part,
    RequestError,
    failed,
    json_parts,
    refusal,
)
from daf_query.explore._points import colour, points
from daf_query.explore._queries import (
    cancel,
    download,
    estimate,
    export,
    extract,
    query,
    query_state,
    rows,
)
from daf_query.explore._selections import deselect, save, select, selected, selection_table
from daf_query.explore._summaries import entries, profile, summary
from daf_query.session import DafSession
from daf_storage import DafError

_HOSTS: Final = ("127.0.0.1", "localhost")
_PROTECTED: Final = "/api/"
_OWN_SITES: Final = ("none", "same-origin")
"""Not ``same-site``: another port of this machine may be another user's."""
_HTTP_PORT: Final = 80
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
_STORED: Final = "no-store"


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
                for name, value in _HEADERS.items():
                    headers[name] = value
                headers.setdefault("Cache-Control", _STORED)
            await send(message)

        error = self._refusal(scope, path)
        if error is None:
            await self._application(scope, receive, protected)
            return
        await failed(error)(scope, receive, protected)

    def _refusal(self, scope: Scope, path: str) -> RequestError | None:
        """Return why a request is refused; None if it is not."""
        headers = Headers(scope=scope)
        host = headers.get("host", "")
        if host not in _names(scope):
            return refusal(403, f"this server is not called {host[:100]!r}; open the address shown")
        origin = headers.get("origin")
        if origin is not None and origin != f"http://{host}":
            return refusal(403, "pages of another origin may not ask this server")
        is_data = path != "/" and not path.startswith("/assets/")
        if is_data and headers.get("sec-fetch-site", "none") not in _OWN_SITES:
            return refusal(403, "pages of another site may not ask this server")
        if path.startswith(_PROTECTED) and not self._is_authorized(headers):
            return refusal(
                401, "the token is missing or wrong", "open the address that daf explore printed"
            )
        return None

    def _is_authorized(self, headers: Headers) -> bool:
        sent = headers.get("authorization", "").encode("latin-1", "replace")
        return hmac.compare_digest(sent, self._authorization)


def _names(scope: Scope) -> set[str]:
    """Return how a client may call this server: by an address or name, with the port."""
    port = (scope.get("server") or ("", _HTTP_PORT))[1]
    names = {f"{host}:{port}" for host in _HOSTS}
    return names | set(_HOSTS) if port == _HTTP_PORT else names


BUILT: Final = Path(__file__).parent / "static"
"""Where the build puts the page."""
_INDEX: Final = "index.html"
_TYPES: Final = {
    ".css": "text/css",
    ".html": "text/html",
    ".ico": "image/x-icon",
    ".js": "text/javascript",
    ".json": "application/json",
    ".map": "application/json",
    ".png": "image/png",
    ".svg": "image/svg+xml",
    ".txt": "text/plain",
    ".wasm": "application/wasm",
    ".webmanifest": "application/manifest+json",
    ".woff": "font/woff",
    ".woff2": "font/woff2",
}
"""Not those of the machine, which may know none or others."""
_MISSING: Final = """<!doctype html>
<html lang="en"><meta charset="utf-8"><title>daf explore</title>
<h1>The page was not built</h1>
<p>This is a clone of the repository, and its page is built once:</p>
<pre>make web</pre>
<p>Then reload. Wheels of the package contain the page.</p>
</html>
"""


class Pages:
    """Answers with the files of a folder, and with nothing outside of it.

    A path is looked up among the files that are there, so none leads elsewhere.
    """

    def __init__(self, folder: Path = BUILT) -> None:
        self._folder = folder

    async def answer(self, request: Request) -> Response:
        """Answer with a file; without a path, with the page."""
        name = request.path_params.get("path", "") or _INDEX
        file = self._files().get(name)
        if file is not None:
            media_type = _TYPES.get(file.suffix, "application/octet-stream")
            return FileResponse(file, media_type=media_type, headers={"Cache-Control": "no-cache"})
        if name == _INDEX:
            return HTMLResponse(_MISSING, 503)
        return PlainTextResponse("there is no such file", 404)

    def _files(self) -> dict[str, Path]:
        files = (path for path in self._folder.rglob("*") if path.is_file())
        return {
            path.relative_to(self._folder).as_posix(): path
            for path in files
            if not path.is_symlink()
        }


async def overview(explorer: Explorer, request: Request) -> Response:  # noqa: ARG001 - as routes are called
    """Answer with the catalogue; data sets that were replaced are opened again."""

    def produce() -> Iterator[Part]:
        session = explorer.data.opened()
        limits = explorer.limits
        yield from json_parts(
            {
                "version": explorer.data.version,
                "writable": explorer.data.overlay is not None,
                "overlay": explorer.data.overlay,
                "limits": {"rows": limits.rows, "bytes": limits.bytes, "seconds": limits.seconds},
                "selection": selection_table(explorer, session),
                "data_sets": catalogue(session),
            }
        )

    return explorer.response(produce)


_USED = "this address was used already, or is too old: open the one that daf explore printed"


async def opening(explorer: Explorer, request: Request) -> Response:
    """Answer a ticket with the address of the page."""
    address = explorer.openings.take(request.path_params["ticket"])
    if address is None:
        return PlainTextResponse(_USED, 404)
    return RedirectResponse(address, 303)


_VERSION: Final = "X-Daf-Version"
"""The header that says which data the page holds."""

Answer: TypeAlias = Callable[[Explorer, Request], Awaitable[Response]]
"""Answers a request."""

_ROUTES: Final[tuple[tuple[str, str, Answer], ...]] = (
    ("GET", "/api/catalogue", overview),
    ("POST", "/api/query", query),
    ("GET", "/api/query/{id}", query_state),
    ("DELETE", "/api/query/{id}", cancel),
    ("GET", "/api/summary", summary),
    ("GET", "/api/entries", entries),
    ("POST", "/api/points", points),
    ("POST", "/api/colour", colour),
    ("POST", "/api/rows", rows),
    ("POST", "/api/selection", select),
    ("GET", "/api/selection", selected),
    ("DELETE", "/api/selection", deselect),
    ("POST", "/api/extract/estimate", estimate),
    ("POST", "/api/extract", extract),
    ("POST", "/api/export", export),
    ("GET", "/download/{ticket}", download),
    ("POST", "/api/profile", profile),
    ("POST", "/api/save", save),
    ("GET", "/open/{ticket}", opening),
)


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
    routes = [
        Route(path, partial(_answered, answer, explorer), methods=[method])
        for method, path, answer in _ROUTES
    ]
    pages = Pages()
    routes += [Route("/", pages.answer), Route("/{path:path}", pages.answer)]
    application = Starlette(
        routes=routes,
        middleware=[Middleware(Guard, token=token)],
        exception_handlers={HTTPException: _refused},
    )
    application.state.explorer = explorer
    return application


async def _answered(answer: Answer, explorer: Explorer, request: Request) -> Response:
    held = request.headers.get(_VERSION)
    try:
        if held is not None and held != str(explorer.data.version) and answer is not overview:
            raise replaced()
        return await answer(explorer, request)
    except DafError as error:
        return failed(error)
    except ClientDisconnect:
        return failed(CancelledError("the page hung up"))


async def _refused(request: Request, error: Exception) -> Response:
    """Answer to a path that there is not, or a method that it does not have."""
    status = error.status_code if isinstance(error, HTTPException) else 500
    what = f"{request.method} {request.url.path[:200]}"
    return failed(refusal(status, f"the server does not answer {what}"))

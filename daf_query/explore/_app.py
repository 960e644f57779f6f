"""The application of the explorer: which path is answered by what."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial
from typing import Final, TypeAlias

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import Route

from daf_query.explore._data import ExploredData, replaced
from daf_query.explore._downloads import download, estimate, export, extract
from daf_query.explore._explorer import Explorer
from daf_query.explore._failures import CancelledError, refusal
from daf_query.explore._guard import Guard
from daf_query.explore._limits import ExploreLimits
from daf_query.explore._opening import opening
from daf_query.explore._overview import overview
from daf_query.explore._points import colour, points
from daf_query.explore._profiles import profile
from daf_query.explore._queries import cancel, query, query_state
from daf_query.explore._responses import failed
from daf_query.explore._rows import rows
from daf_query.explore._saving import save
from daf_query.explore._selections import deselect, select, selected
from daf_query.explore._static_files import Pages
from daf_query.explore._summaries import entries, summary
from daf_query.session import DafSession
from daf_storage import DafError

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

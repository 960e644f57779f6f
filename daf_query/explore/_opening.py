"""The first page of a browser that the command opens.

Its address is an argument of the browser, which other users of the machine may see.  So it has a
ticket in place of the token, which is good once; whoever comes second gets nothing.
"""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import PlainTextResponse, RedirectResponse, Response

from daf_query.explore._explorer import Explorer

_USED = "this address was used already, or is too old: open the one that daf explore printed"


async def opening(explorer: Explorer, request: Request) -> Response:
    """Answer a ticket with the address of the page."""
    address = explorer.openings.take(request.path_params["ticket"])
    if address is None:
        return PlainTextResponse(_USED, 404)
    return RedirectResponse(address, 303)

"""Who may ask: programs of this machine that have the token, and no page of another origin.

A page of the web can make its visitor's browser send requests to this machine.  Such a request has
the origin of that page, or names another host (a name that was made to point here), and it lacks
the token.
"""

from __future__ import annotations

import hmac
from typing import Final

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from daf_query.explore._failures import RequestError, failure, refusal

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
        status, shown = failure(error)
        await JSONResponse(shown.to_dict(), status)(scope, receive, protected)

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

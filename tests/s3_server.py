"""A server that speaks S3, moto's, as a process of its own that ends with the one that started it.

It prints its port.  ``GET /-/requests`` returns and forgets which requests came, and how many were
answered at a time at most.  Some buckets are refused or late, as the real service does it.
"""

from __future__ import annotations

import json
import os
import sys
import threading
import time
from collections.abc import Iterable
from typing import Any

_MALFORMED = (
    b"<Error><Code>AuthorizationHeaderMalformed</Code><Message>The authorization header is "
    b"malformed; the region 'us-east-1' is wrong; expecting 'eu-west-3'</Message>"
    b"<Region>eu-west-3</Region></Error>"
)


class Watched:
    """A WSGI application around moto's."""

    def __init__(self, application: Any) -> None:
        self._application = application
        self._lock = threading.Lock()
        self._requests: list[dict[str, Any]] = []
        self._running = self._most_running = 0

    def __call__(self, environ: dict[str, Any], start_response: Any) -> Iterable[bytes]:
        """Answer one request."""
        path = environ["PATH_INFO"]
        if path == "/-/requests":
            with self._lock:
                report = {"requests": self._requests, "most_running": self._most_running}
                self._requests, self._most_running = [], 0
            start_response("200 OK", [("Content-Type", "application/json")])
            return [json.dumps(report).encode()]
        is_signed = "HTTP_AUTHORIZATION" in environ
        with self._lock:
            self._running += 1
            self._most_running = max(self._most_running, self._running)
            self._requests.append(
                {
                    "method": environ["REQUEST_METHOD"],
                    "path": path,
                    "range": environ.get("HTTP_RANGE"),
                    "signed": is_signed,
                }
            )
        try:
            refusal = _refusal(path.split("/")[1], is_signed=is_signed)
            if refusal is not None:
                start_response(refusal[0], [("Content-Type", "application/xml")])
                return [refusal[1]]
            if environ["REQUEST_METHOD"] == "GET":
                time.sleep(0.005)  # as a network would, so that requests are seen to overlap
            return list(self._application(environ, start_response))
        finally:
            with self._lock:
                self._running -= 1


def _refusal(bucket: str, *, is_signed: bool) -> tuple[str, bytes] | None:
    if bucket == "private" and not is_signed:
        return "403 Forbidden", b"<Error><Code>AccessDenied</Code></Error>"
    if bucket == "abroad":
        return "400 Bad Request", _MALFORMED
    if bucket == "moved":
        return "301 Moved Permanently", b"<Error><Code>PermanentRedirect</Code></Error>"
    if bucket == "late":
        time.sleep(2)
    return None


def _end_with_parent() -> None:
    sys.stdin.read()
    os._exit(0)


def main() -> None:
    """Serve until the standard input is closed."""
    from moto.server import DomainDispatcherApplication, create_backend_app
    from werkzeug.serving import WSGIRequestHandler, make_server

    class Quiet(WSGIRequestHandler):
        """A handler that writes no log."""

        def log(self, *_: Any) -> None:  # type: ignore[override] # nothing of it is used
            """Write nothing."""

    application = Watched(DomainDispatcherApplication(create_backend_app))
    server = make_server("127.0.0.1", 0, application, threaded=True, request_handler=Quiet)
    threading.Thread(target=_end_with_parent, daemon=True).start()
    sys.stdout.write(f"{server.server_port}\n")
    sys.stdout.flush()
    server.serve_forever()


if __name__ == "__main__":
    main()

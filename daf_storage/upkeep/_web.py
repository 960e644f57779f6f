"""Web servers: one way to run an application of ASGI, and the files of a data set as one."""

from __future__ import annotations

import asyncio
import ipaddress
import logging
import os
import re
import socket
import sys
import threading
from collections.abc import Iterator
from collections.abc import Set as AbstractSet
from email.utils import formatdate
from functools import partial
from pathlib import Path
from typing import Any, Final

import uvicorn
from starlette.applications import Starlette
from starlette.middleware.cors import CORSMiddleware
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send
from uvicorn.protocols.http.h11_impl import H11Protocol

from daf_storage.upkeep._serve import cannot_listen

_CLOSE_SECONDS: Final = 5.0
_CONNECTIONS: Final = 512
_BLOCK_BYTES: Final = 1 << 20
_IDLE_SECONDS: Final = 30

_SHOWN_DOT_FILES: Final = {".zarray", ".zgroup", ".zattrs", ".zmetadata"}

# Where nobody asks for its log, `WebServer` says what went wrong.
logging.getLogger("uvicorn.error").addHandler(logging.NullHandler())


class WebServer:
    """Answers by an application, in a thread of its own, as soon as it is made.

    Parameters
    ----------
    name
        What the lines begin with that say on standard error what went wrong.
    """

    def __init__(self, application: ASGIApp, *, host: str, port: int, name: str) -> None:
        self.application = application
        """What answers."""
        self._name = name
        try:
            if port not in range(1 << 16):
                raise OverflowError
            self._listening = socket.create_server((host, port))
        except (OSError, OverflowError) as error:
            raise cannot_listen(error, host, port) from None
        self.port: int = self._listening.getsockname()[1]
        """Where it listens."""
        self._server = _Server(
            uvicorn.Config(
                self,
                http=_Connection,
                log_config=None,
                access_log=False,
                lifespan="off",
                ws="none",
                server_header=False,
                proxy_headers=False,
                limit_concurrency=_CONNECTIONS + 1,
                timeout_keep_alive=_IDLE_SECONDS,
                timeout_graceful_shutdown=2,
            )
        )
        self._thread = threading.Thread(
            target=self._server.run, args=([self._listening],), name=name, daemon=True
        )
        self._thread.start()  # the socket listens already: whoever connects is answered then

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request; what goes wrong is a line on standard error."""
        try:
            await self.application(scope, receive, send)
        except Exception as error:
            print(f"{self._name}: {type(error).__name__}: {error}", file=sys.stderr)  # noqa: T201 - standard error is its log
            raise

    def close(self) -> None:
        """End it, and its connections."""
        self._server.should_exit = True
        self._thread.join(_CLOSE_SECONDS)
        self._listening.close()  # where the server was ended before it began


class _Server(uvicorn.Server):  # type: ignore[misc] # uvicorn has no types
    """A server that keeps no connection when it has ended."""

    async def shutdown(self, sockets: Any = None) -> None:
        """End as uvicorn does, then close what clients have not read in that time."""
        await super().shutdown(sockets)
        for connection in list(self.server_state.connections):
            connection.transport.abort()
        await asyncio.sleep(0)  # in which they are closed


class _Connection(H11Protocol):  # type: ignore[misc] # uvicorn has no types
    """One that is closed if it sends no whole request, or takes nothing, for half a minute."""

    def connection_made(self, transport: asyncio.Transport) -> None:
        transport.set_write_buffer_limits(0)  # `pause_writing` is called whenever something waits
        super().connection_made(transport)
        self._silent = self.loop.call_later(_IDLE_SECONDS, transport.abort)

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        if self.cycle is not None and not self.cycle.response_complete:  # a request is whole
            self._silent.cancel()
        elif self._silent.cancelled():
            self._silent = self.loop.call_later(_IDLE_SECONDS, self.transport.abort)

    def pause_writing(self) -> None:
        super().pause_writing()
        self._look(-1)

    def resume_writing(self) -> None:
        super().resume_writing()
        self._stalled.cancel()

    def _look(self, before: int) -> None:
        """Close it if as many bytes wait as half a minute before."""
        waiting = self.transport.get_write_buffer_size()
        if waiting == before:
            self.transport.abort()
        self._stalled = self.loop.call_later(_IDLE_SECONDS, self._look, waiting)


def is_called(host: str, names: AbstractSet[str]) -> bool:
    """Return whether a ``Host`` header means a server: an address, or a name that it has.

    >>> is_called("LocalHost:80", {"localhost"}), is_called("[::1]", set())
    (True, True)
    >>> is_called("127.0.0.1.example.org", {"localhost"})
    False
    """
    name = host.rpartition(":")[0] if re.search(r":\d{1,5}$", host) else host
    try:
        return name.casefold() in names or bool(ipaddress.ip_address(name.strip("[]")))
    except ValueError:
        return False


def files_of(root: Path, names: AbstractSet[str], allow_origin: str | None) -> Starlette:
    """Return the application that answers with the files of a data set, for requests that name it.

    Parameters
    ----------
    root
        A resolved path, of a directory or file.
    allow_origin
        Pages of which origin may read; None for none.
    """
    called = {name.casefold() for name in ("localhost", *names)}
    application = Starlette(routes=[Route("/{path:path}", partial(_file, root, called))])
    if allow_origin is not None:
        application.add_middleware(
            CORSMiddleware,
            allow_origins=[allow_origin],
            allow_methods=["GET", "HEAD"],
            allow_headers=["Range", "If-Match", "If-None-Match", "If-Range"],
            expose_headers=["Content-Range", "Content-Length", "ETag"],
        )
    return application


def _file(root: Path, names: AbstractSet[str], request: Request) -> Response:
    """Answer with a file, if it is the version that is asked for."""
    headers = request.headers
    if not is_called(headers.get("Host", ""), names):
        return Response(status_code=421)
    if headers.get("Content-Length", "0") != "0" or "Transfer-Encoding" in headers:
        return Response(status_code=400)
    path = _find(root, request.path_params["path"])
    if path is None:
        return Response(status_code=404)
    tag = _tag(status := path.stat())
    if not _has_tag(headers.get("If-Match", "*"), tag):
        return Response(status_code=412)
    # A proxy that compresses makes tags weak.
    if _has_tag(headers.get("If-None-Match", "").replace("W/", ""), tag):
        return Response(status_code=304, headers={"ETag": tag})
    return _part(path, status, tag, request)


def _part(path: Path, status: os.stat_result, tag: str, request: Request) -> Response:
    """Answer with the part of a file that is asked for; small ones are read before it begins."""
    try:
        is_same = request.method == "GET" and request.headers.get("If-Range", tag) == tag
        requested = request.headers.get("Range") if is_same else None
        start, stop, is_part = _requested(requested, status.st_size)
    except ValueError:
        return Response(status_code=400)
    said = {
        "Accept-Ranges": "bytes",
        "ETag": tag,
        "Last-Modified": formatdate(status.st_mtime, usegmt=True),
        "Content-Type": "application/octet-stream",
        "Content-Length": str(stop - start),
    }
    if is_part:
        said["Content-Range"] = f"bytes {start}-{stop - 1}/{status.st_size}"
        if start >= stop:
            return Response(status_code=416, headers={"Content-Range": f"bytes */{status.st_size}"})
    if request.method == "HEAD":
        return Response(None, headers=said)
    code, blocks = 206 if is_part else 200, _blocks(path, start, stop, tag)
    if stop - start > _BLOCK_BYTES:
        return StreamingResponse(blocks, code, said)
    return Response(b"".join(blocks), code, said)


def _find(root: Path, path: str) -> Path | None:
    """Return the file that a requested path means, if it is one of the data set."""
    parts = [part for part in path.split("/") if part]
    if parts[:1] != [root.name] or "\0" in path:
        return None
    found = Path(os.path.realpath(root.joinpath(*parts[1:])))
    if not (found.is_relative_to(root) and os.access(found, os.R_OK) and found.is_file()):
        return None
    first = set(found.relative_to(root).parts[:1])
    return None if any(part.startswith(".") for part in first - _SHOWN_DOT_FILES) else found


def _requested(header: str | None, size_bytes: int) -> tuple[int, int, bool]:
    """Return start and stop of what is asked for, and whether it is a part, perhaps an empty one.

    >>> _requested("bytes=2-4", 10), _requested("bytes=-3", 10), _requested(None, 10)
    ((2, 5, True), (7, 10, True), (0, 10, False))
    """
    found = re.fullmatch(r"(?i:bytes)=(\d*)-(\d*)", header or "")
    if found is None or found.groups() == ("", ""):
        return 0, size_bytes, False
    first, last = found.groups()
    if first == "":
        return max(size_bytes - int(last), 0), size_bytes, True
    return int(first), min(int(last) + 1 if last else size_bytes, size_bytes), True


def _blocks(path: Path, start: int, stop: int, tag: str) -> Iterator[bytes]:
    """Yield a part of one version of a file; raise where it is changed meanwhile."""
    with path.open("rb") as file:
        file.seek(start)
        while start < stop:
            block = file.read(min(_BLOCK_BYTES, stop - start))
            if _tag(path.stat()) != tag:
                raise OSError(f"{path} was changed while it was sent")
            yield block
            start += len(block)


def _tag(status: os.stat_result) -> str:
    """Return what names one version of a file."""
    return f'"{status.st_mtime_ns:x}-{status.st_size:x}"'


def _has_tag(header: str, tag: str) -> bool:
    """Return whether a condition names a version, alone or in a list, or any by ``*``.

    >>> _has_tag('"a", "b"', '"b"'), _has_tag("*", '"b"'), _has_tag('W/"b"', '"b"')
    (True, True, False)
    """
    return not {"*", tag}.isdisjoint(each.strip() for each in header.split(","))

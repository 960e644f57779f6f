"""A small read-only web server for one data set: parts of files, versions, and other origins.

For trying things out and for people on one machine; on the open web, put the files behind a real
server.  Nothing outside of the data set can be reached.
"""

from __future__ import annotations

import os
import re
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import quote, unquote, urlsplit

from daf_storage import errors

_COPY_BYTES = 1 << 20


class DafServer(ThreadingHTTPServer):
    """A server of one directory or file, at ``url``; `serve_forever` and `shutdown` run it.

    Parameters
    ----------
    path
        A data set: ``x.daf.zarr``, ``x.daf.zarr.zip`` or ``x.dafs.zarr.zip``.
    port
        The port; a free one if it is 0.
    host
        The address to listen on; by default only programs of this machine can connect.

    Raises
    ------
    SourceNotFoundError
        There is nothing at this path.
    """

    daemon_threads = True

    def __init__(self, path: str | Path, *, port: int = 0, host: str = "127.0.0.1") -> None:
        self.root = Path(os.path.realpath(path))
        if not self.root.exists():
            raise errors.SourceNotFoundError(f"no such file or directory: {self.root}")
        self._host = host
        super().__init__((host, port), _Handler)

    @property
    def url(self) -> str:
        """Where the data set is served."""
        return f"http://{self._host}:{self.server_port}/{quote(self.root.name)}"

    def find(self, path: str) -> Path | None:
        """Return the file that a requested path means, if it is one of the data set."""
        plain = unquote(urlsplit(path).path)
        parts = [part for part in plain.split("/") if part]
        if not parts or parts[0] != self.root.name or ".." in parts or "\0" in plain:
            return None
        found = Path(os.path.realpath(self.root.joinpath(*parts[1:])))
        if found != self.root and self.root not in found.parents:
            return None
        return found if found.is_file() else None


class _Handler(BaseHTTPRequestHandler):
    """Answers GET, HEAD and OPTIONS."""

    protocol_version = "HTTP/1.1"
    server: DafServer

    def do_GET(self) -> None:
        """Send a file or a part of it."""
        self._answer(has_body=True)

    def do_HEAD(self) -> None:
        """Say what GET would send."""
        self._answer(has_body=False)

    def do_OPTIONS(self) -> None:
        """Let pages of other origins ask for parts."""
        self.send_response(HTTPStatus.NO_CONTENT)
        self._send_common()
        self.send_header("Access-Control-Allow-Methods", "GET, HEAD, OPTIONS")
        self.send_header("Access-Control-Allow-Headers", "Range, If-Match, If-None-Match")
        self.end_headers()

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the parent's name
        """Say nothing."""

    def _answer(self, *, has_body: bool) -> None:
        path = self.server.find(self.path)
        if path is None:
            self._refuse(HTTPStatus.NOT_FOUND)
            return
        with path.open("rb") as file:
            status = os.fstat(file.fileno())
            tag = f'"{status.st_mtime_ns:x}-{status.st_size:x}"'
            if self.headers.get("If-Match", tag) not in (tag, "*"):
                self._refuse(HTTPStatus.PRECONDITION_FAILED)
                return
            if self.headers.get("If-None-Match") == tag:
                self._refuse(HTTPStatus.NOT_MODIFIED)
                return
            span = _requested(self.headers.get("Range"), status.st_size)
            if span is None:
                self._refuse(HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE, status.st_size)
                return
            start, stop, is_part = span
            self.send_response(HTTPStatus.PARTIAL_CONTENT if is_part else HTTPStatus.OK)
            self._send_common()
            self.send_header("ETag", tag)
            self.send_header("Last-Modified", self.date_time_string(int(status.st_mtime)))
            self.send_header("Content-Type", "application/octet-stream")
            self.send_header("Content-Length", str(stop - start))
            if is_part:
                self.send_header("Content-Range", f"bytes {start}-{stop - 1}/{status.st_size}")
            self.end_headers()
            if has_body:
                self._send_part(file, start, stop)

    def _send_part(self, file: Any, start: int, stop: int) -> None:
        file.seek(start)
        while start < stop:
            block = file.read(min(_COPY_BYTES, stop - start))
            if not block:  # it became shorter: hang up, so that nobody takes it for complete
                self.close_connection = True
                return
            self.wfile.write(block)
            start += len(block)

    def _send_common(self) -> None:
        self.send_header("Accept-Ranges", "bytes")
        self.send_header("Access-Control-Allow-Origin", "*")
        self.send_header("Access-Control-Expose-Headers", "Content-Range, Content-Length, ETag")

    def _refuse(self, status: HTTPStatus, size_bytes: int | None = None) -> None:
        self.send_response(status)
        self._send_common()
        if size_bytes is not None:
            self.send_header("Content-Range", f"bytes */{size_bytes}")
        self.send_header("Content-Length", "0")
        self.end_headers()


def _requested(header: str | None, size_bytes: int) -> tuple[int, int, bool] | None:
    """Return start and stop of what is asked for, and whether it is a part; None if it cannot be.

    >>> _requested("bytes=2-4", 10), _requested("bytes=-3", 10), _requested(None, 10)
    ((2, 5, True), (7, 10, True), (0, 10, False))
    """
    found = re.fullmatch(r"bytes=(\d*)-(\d*)", header or "")
    if found is None or found.groups() == ("", ""):
        return 0, size_bytes, False
    first, last = found.groups()
    if first == "":
        start, stop = max(size_bytes - int(last), 0), size_bytes
    else:
        start, stop = int(first), min(int(last) + 1 if last else size_bytes, size_bytes)
    return (start, stop, True) if start < stop else None

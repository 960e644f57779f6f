"""A small read-only web server for one data set: parts of files, versions, and other origins.

For trying things out and for people on one machine; on the open web, put the files behind a real
server.  Nothing outside of the data set can be reached.
"""

from __future__ import annotations

import contextlib
import errno
import ipaddress
import os
import re
import socket
import sys
import threading
import zipfile
from collections.abc import Iterable
from functools import partialmethod
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, BinaryIO, Self
from urllib.parse import quote, unquote, urlsplit

from daf_storage import errors
from daf_storage.trees import h5py

_COPY_BYTES = 1 << 20
_IDLE_SECONDS = 30
_LOOK_SECONDS = 0.1
_CONNECTIONS = 64
_BUSY = (
    b"HTTP/1.1 503 Service Unavailable\r\nRetry-After: 1\r\nContent-Length: 0\r\n"
    b"Connection: close\r\n\r\n"
)
_SHOWN_DOT_FILES = {".zarray", ".zgroup", ".zattrs", ".zmetadata"}


def cannot_listen(error: OSError | OverflowError, host: str, port: int) -> errors.DafError:
    """Say why a server cannot listen at an address, and what to do."""
    if isinstance(error, OverflowError):
        return errors.with_remedy(
            errors.InvalidInputError(f"there is no port {port}; ports are from 0 to 65535"),
            errors.Remedy("choose one with ", "port="),
        )
    if error.errno == errno.EADDRINUSE:
        return errors.with_remedy(
            errors.InUseError(f"the port {port} is in use by another program"),
            errors.Remedy("choose another with ", "port=", ", or 0 for a free one"),
        )
    if error.errno in (errno.EACCES, errno.EPERM):
        return errors.with_remedy(
            errors.ReadOnlyError(f"the port {port} is for the administrator only"),
            errors.Remedy("choose one above 1023 with ", "port="),
        )
    if isinstance(error, socket.gaierror) or error.errno == errno.EADDRNOTAVAIL:
        return errors.with_remedy(
            errors.InvalidInputError(f"this machine has no address {host!r}"),
            errors.Remedy("leave out ", "host=", ", or name one of its addresses"),
        )
    return errors.from_os_error(error, f"{host}:{port}")


class DafServer(ThreadingHTTPServer):
    """A server of one directory or file, at ``url``; it answers within a ``with`` block.

    `serve_forever` waits there until it is interrupted or `shutdown` is called; without a block,
    it answers itself.

    It answers requests that name it by an IP address, as ``localhost``, as ``host``, or by one of
    ``host_names``; a web page that made a name of its own point here is refused (421).  Files whose
    name begins with a dot are not served, except for the metadata of Zarr.

    There are at most 64 connections; a new one gets status 503.  One that sends or takes nothing
    for half a minute is closed.

    Parameters
    ----------
    path
        A data set: ``x.daf.zarr``, ``x.daf.zarr.zip``, ``x.dafs.zarr.zip`` or ``x.h5ad``.
    port
        The port; a free one if it is 0.
    host
        The address to listen on; by default only programs of this machine can connect.
    host_names
        Other names by which clients may call this server.
    allow_origin
        The origin of web pages that may read from it, such as ``https://example.org``, or ``*``
        for all; by default none.

    Raises
    ------
    SourceNotFoundError
        There is nothing at this path.
    InvalidInputError
        It is a file of another kind.
    """

    daemon_threads = True
    request_queue_size = _CONNECTIONS

    def __init__(
        self,
        path: str | Path,
        *,
        port: int = 0,
        host: str = "127.0.0.1",
        host_names: Iterable[str] = (),
        allow_origin: str | None = None,
    ) -> None:
        self.root = Path(os.path.realpath(path))
        if not self.root.exists():
            raise errors.SourceNotFoundError(f"no such file or directory: {self.root}")
        _check_readable_remotely(self.root)
        self.allow_origin = allow_origin
        self._host = host
        self._names = {name.casefold() for name in ("localhost", host, *host_names)}
        self.connections: set[Any] = set()
        """Those that are open."""
        self._answering: threading.Thread | None = None
        try:
            super().__init__((host, port), _Handler)
        except (OSError, OverflowError) as error:
            raise cannot_listen(error, host, port) from error

    def __enter__(self) -> Self:
        self._answering = threading.Thread(
            target=super().serve_forever, args=(_LOOK_SECONDS,), name="daf-serve", daemon=True
        )
        self._answering.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.shutdown()
        self.server_close()

    def serve_forever(self, poll_interval: float = _LOOK_SECONDS) -> None:
        """Answer until `shutdown` is called, or this thread is interrupted."""
        if self._answering is None:
            super().serve_forever(poll_interval)
        else:
            self._answering.join()

    @property
    def url(self) -> str:
        """Where the data set is served."""
        return f"http://{self._host}:{self.server_port}/{quote(self.root.name)}"

    def find(self, path: str) -> Path | None:
        """Return the file that a requested path means, if it is one of the data set.

        Raises
        ------
        ValueError
            The path is malformed.
        """
        plain = unquote(urlsplit(path).path)
        parts = [part for part in plain.split("/") if part]
        if not parts or parts[0] != self.root.name or any(map(_is_hidden, parts[1:2])):
            return None
        found = Path(os.path.realpath(self.root.joinpath(*parts[1:])))
        if found != self.root and self.root not in found.parents:
            return None
        return found if found.is_file() else None

    def is_called(self, host: str) -> bool:
        """Return whether a ``Host`` header means this server."""
        name = host.rpartition(":")[0] if re.search(r":\d{1,5}$", host) else host
        if name.casefold() in self._names:
            return True
        try:
            ipaddress.ip_address(name.removeprefix("[").removesuffix("]"))
        except ValueError:
            return False
        return True

    def process_request(self, request: Any, client_address: Any) -> None:
        """Answer in a thread, if not too many are being answered already."""
        if len(self.connections) < _CONNECTIONS:
            self.connections.add(request)
            super().process_request(request, client_address)
            return
        with contextlib.suppress(OSError):
            request.sendall(_BUSY)
        self.shutdown_request(request)

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        """Answer the requests of one connection."""
        try:
            super().process_request_thread(request, client_address)
        finally:
            self.connections.discard(request)

    def handle_error(self, request: Any, client_address: Any) -> None:  # noqa: ARG002 - the parent's
        """Say in a line what went wrong; a client that hangs up is nothing to speak of."""
        error = sys.exception()
        if not isinstance(error, ConnectionError | TimeoutError):
            print(f"daf serve: {type(error).__name__}: {error}", file=sys.stderr)  # noqa: T201 - standard error is its log


class _Handler(BaseHTTPRequestHandler):
    """Answers GET, HEAD and OPTIONS."""

    protocol_version = "HTTP/1.1"
    timeout = _IDLE_SECONDS
    server: DafServer

    def do_OPTIONS(self) -> None:
        """Let pages of the allowed origin ask for parts."""
        if not self._is_acceptable():
            return
        self.send_response(HTTPStatus.NO_CONTENT)
        self._send_common()
        if self.server.allow_origin is not None:
            self.send_header("Access-Control-Allow-Methods", "GET, HEAD, OPTIONS")
            self.send_header("Access-Control-Allow-Headers", "Range, If-Match, If-None-Match")
        self.end_headers()

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the parent's name
        """Say nothing."""

    def _is_acceptable(self) -> bool:
        """Return whether a request is for this server and has no body; answer it if not."""
        host = self.headers.get_all("Host", [])
        if len(host) != 1:
            self._refuse(HTTPStatus.BAD_REQUEST)
        elif not self.server.is_called(host[0]):
            self._refuse(HTTPStatus.MISDIRECTED_REQUEST)
        elif self._has_body() or self.headers.defects:
            self._refuse(HTTPStatus.BAD_REQUEST)
        else:
            return True
        self.close_connection = True
        return False

    def _has_body(self) -> bool:
        """Return whether something follows the headers, which would be taken for a request."""
        lengths = self.headers.get_all("Content-Length", ["0"])
        return any(each != "0" for each in lengths) or "Transfer-Encoding" in self.headers

    def _answer(self, *, has_body: bool) -> None:
        if not self._is_acceptable():
            return
        try:
            path = self.server.find(self.path)
            file = None if path is None else path.open("rb")
        except ValueError:
            self._refuse(HTTPStatus.BAD_REQUEST)
            return
        except OSError:
            file = None
        if file is None:
            self._refuse(HTTPStatus.NOT_FOUND)
            return
        with file:
            self._answer_with(file, has_body=has_body)

    do_GET = partialmethod(_answer, has_body=True)  # noqa: N815 - the parent's names
    do_HEAD = partialmethod(_answer, has_body=False)  # noqa: N815

    def _answer_with(self, file: BinaryIO, *, has_body: bool) -> None:
        """Send the part of a file that is asked for, if it is the version that is asked for."""
        status = os.fstat(file.fileno())
        tag = _tag(status)
        if not _has_tag(self.headers.get("If-Match", "*"), tag):
            self._refuse(HTTPStatus.PRECONDITION_FAILED)
            return
        # A proxy that compresses makes tags weak.
        if _has_tag(self.headers.get("If-None-Match", "").replace("W/", ""), tag):
            self._refuse(HTTPStatus.NOT_MODIFIED, "ETag", tag)
            return
        try:
            is_same = self.headers.get("If-Range", tag) == tag
            requested = self.headers.get("Range") if is_same and has_body else None
            span = _requested(requested, status.st_size)
        except ValueError:
            self._refuse(HTTPStatus.BAD_REQUEST)
            return
        if span is None:
            whole = f"bytes */{status.st_size}"
            self._refuse(HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE, "Content-Range", whole)
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
            self._send_part(file, start, stop, tag)

    def _send_part(self, file: BinaryIO, start: int, stop: int, tag: str) -> None:
        file.seek(start)
        while start < stop:
            block = file.read(min(_COPY_BYTES, stop - start))
            if _tag(os.fstat(file.fileno())) != tag:
                # It was changed: hang up, so that nobody takes old and new bytes for a file.
                self.close_connection = True
                return
            self.wfile.write(block)
            start += len(block)

    def _send_common(self) -> None:
        self.send_header("Accept-Ranges", "bytes")
        if self.server.allow_origin is not None:
            self.send_header("Access-Control-Allow-Origin", self.server.allow_origin)
            exposed = "Content-Range, Content-Length, ETag"
            self.send_header("Access-Control-Expose-Headers", exposed)

    def _refuse(self, status: HTTPStatus, header: str = "", value: str = "") -> None:
        self.send_response(status)
        self._send_common()
        if header:
            self.send_header(header, value)
        if status != HTTPStatus.NOT_MODIFIED:  # whose length would be that of the file
            self.send_header("Content-Length", "0")
        self.end_headers()


def _tag(status: os.stat_result) -> str:
    """Return what names one version of a file."""
    return f'"{status.st_mtime_ns:x}-{status.st_size:x}"'


def _has_tag(header: str, tag: str) -> bool:
    """Return whether a condition names a version, alone or in a list, or any by ``*``.

    >>> _has_tag('"a", "b"', '"b"'), _has_tag("*", '"b"'), _has_tag('W/"b"', '"b"')
    (True, True, False)
    """
    return not {"*", tag}.isdisjoint(each.strip() for each in header.split(","))


def _check_readable_remotely(root: Path) -> None:
    """Refuse a file that `open_daf` could not open by its URL: no ZIP archive, and not HDF5."""
    if root.is_file() and not zipfile.is_zipfile(root) and not h5py().is_hdf5(root):
        raise errors.InvalidInputError(
            f"{root}: this is no data set, but a file of another kind; serve a data set"
        )


def _is_hidden(part: str) -> bool:
    """Return whether the first part of a path is not for others: a dot file that is no metadata."""
    return part.startswith(".") and part not in _SHOWN_DOT_FILES


def _requested(header: str | None, size_bytes: int) -> tuple[int, int, bool] | None:
    """Return start and stop of what is asked for, and whether it is a part; None if it cannot be.

    >>> _requested("bytes=2-4", 10), _requested("bytes=-3", 10), _requested(None, 10)
    ((2, 5, True), (7, 10, True), (0, 10, False))
    """
    found = re.fullmatch(r"(?i:bytes)=(\d*)-(\d*)", header or "")
    if found is None or found.groups() == ("", ""):
        return 0, size_bytes, False
    first, last = found.groups()
    if first == "":
        start, stop = max(size_bytes - int(last), 0), size_bytes
    else:
        start, stop = int(first), min(int(last) + 1 if last else size_bytes, size_bytes)
    return (start, stop, True) if start < stop else None

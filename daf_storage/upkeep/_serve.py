"""A small read-only web server for one data set: parts of files, versions, and other origins.

For trying things out and for people on one machine; on the open web, put the files behind a real
server.  Nothing outside of the data set can be reached.

Must not import starlette or uvicorn: whoever serves SQL has neither.
"""

from __future__ import annotations

import errno
import os
import socket
import threading
import time
import zipfile
from abc import ABC, abstractmethod
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Final, Self
from urllib.parse import quote

from daf_storage import errors
from daf_storage._lazy import lazy_module
from daf_storage.base import optional_import
from daf_storage.trees import h5py

_web: Any = lazy_module("daf_storage.upkeep._web")
_CLOSED_SECONDS: Final = 0.2


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
    if error.errno in (errno.EADDRNOTAVAIL, socket.EAI_NONAME, socket.EAI_ADDRFAMILY):
        return errors.with_remedy(
            errors.InvalidInputError(f"this machine has no address {host!r}"),
            errors.Remedy("leave out ", "host=", ", or name one of its addresses"),
        )
    return errors.from_os_error(error, f"{host}:{port}")


class Serving(ABC):
    """A server that runs in threads of its own, until `close` or the end of ``with``."""

    def __init__(self) -> None:
        self._has_ended = threading.Event()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def serve_forever(self) -> None:
        """Wait until the server is closed, or this thread is interrupted."""
        while not self._has_ended.is_set():  # not `wait`: Ctrl-C may leave its lock held
            time.sleep(_CLOSED_SECONDS)

    def close(self) -> None:
        """End what runs, and the server."""
        if not self._has_ended.is_set():
            self._has_ended.set()
            self._end()

    @abstractmethod
    def _end(self) -> None:
        """End what runs, and the server."""


class DafServer(Serving):
    """A server of one directory or file, at ``url``, until `shutdown` or the end of ``with``.

    It answers requests that name it by an IP address, as ``localhost``, as ``host``, or by one of
    ``host_names``; a web page that made a name of its own point here is refused (421).  Files whose
    name begins with a dot are not served, except for the metadata of Zarr.

    There are at most 512 connections; with more of them, requests get status 503.  One that sends
    or takes nothing for half a minute is closed.

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

    def __init__(
        self,
        path: str | Path,
        *,
        port: int = 0,
        host: str = "127.0.0.1",
        host_names: Iterable[str] = (),
        allow_origin: str | None = None,
    ) -> None:
        super().__init__()
        self.root = Path(os.path.realpath(path))
        if not self.root.exists():
            raise errors.SourceNotFoundError(f"no such file or directory: {self.root}")
        if self.root.is_file() and not (zipfile.is_zipfile(self.root) or h5py().is_hdf5(self.root)):
            raise errors.InvalidInputError(
                f"{self.root}: this is no data set, but a file of another kind; serve a data set"
            )
        for module in ("starlette", "uvicorn"):
            optional_import(module, extra="serve")
        self._host = host
        files = _web.files_of(self.root, {host, *host_names}, allow_origin)
        self._server = _web.WebServer(files, host=host, port=port, name="daf serve")
        self.port: int = self._server.port
        """Where it listens."""

    @property
    def url(self) -> str:
        """Where the data set is served."""
        return f"http://{self._host}:{self.port}/{quote(self.root.name)}"

    def shutdown(self) -> None:
        """End it."""
        self.close()

    def _end(self) -> None:
        self._server.close()

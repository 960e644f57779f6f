"""The data sets that are explored: a session, opened again where their files were replaced."""

from __future__ import annotations

import os
import stat
import threading
from collections.abc import Callable, Hashable, Sequence
from pathlib import Path
from typing import Final, TypeAlias

from daf_query.explore._axis_rows import AxisRows, axis_rows
from daf_query.explore._failures import RequestError, refusal
from daf_query.session import DafSession, is_pattern, matching_paths
from daf_storage import errors

Signature: TypeAlias = tuple[tuple[object, ...], ...]
"""What a file is known by; of a directory, only which one it is: its data sets see changes."""

_REPLACED: Final = "a data set was replaced while the page was open"
_RELOAD: Final = "reload the page to see the new one"


class ExploredData:
    """A session over data sets.

    Parameters
    ----------
    open_session
        Opens them.
    paths
        Where they are; patterns, too.  What is not a path of this machine is not looked at.
    overlay
        Where vectors are saved; None if nothing is written.
    """

    def __init__(
        self,
        open_session: Callable[[], DafSession],
        paths: Sequence[str] = (),
        overlay: str | None = None,
    ) -> None:
        self.overlay = overlay
        """Where vectors are saved."""
        self._open_session = open_session
        self._paths = tuple(paths)
        self._lock = threading.Lock()
        self._signature: Signature | None = _signature(self._paths)
        self._session = open_session()._served()  # noqa: SLF001 - our own
        self._openings = 1
        self._entries: dict[tuple[str, str], Hashable] = {}

    @property
    def version(self) -> int:
        """How often it was opened: another number is another data set."""
        return self._openings

    @property
    def session(self) -> DafSession:
        """The session.

        Raises
        ------
        RequestError
            A data set was replaced since it was opened.
        """
        if _signature(self._paths) != self._signature:
            raise replaced()
        return self._session

    def opened(self) -> DafSession:
        """Return the session, opened again if a data set was replaced."""
        with self._lock:
            signature = _signature(self._paths)
            if signature != self._signature:
                self._signature = None  # until it is open
                self._session.close()  # first: an overlay is written by one program alone
                self._session = self._open_session()._served()  # noqa: SLF001 - our own
                self._signature = signature
                self._openings += 1
            elif any(_has_changed(self._session, *axis) for axis in self._entries.items()):
                self._openings += 1
            self._entries.clear()
            return self._session

    def rows(self, schema: str, axis: str) -> AxisRows:
        """Return the rows of an axis.

        Raises
        ------
        NotFoundError
            There is no such schema, or no such axis.
        RequestError
            Its entries were replaced or reordered since the page was loaded: the positions that the
            page holds are others.
        """
        rows = axis_rows(self.session, schema, axis)
        identity = rows.identity()
        if identity is not None:
            with self._lock:
                known = self._entries.setdefault((rows.schema, axis), identity)
            if known != identity:
                raise replaced()
        return rows

    def close(self) -> None:
        """Close the data sets."""
        with self._lock:
            self._session.close()


def _has_changed(session: DafSession, axis: tuple[str, str], identity: Hashable) -> bool:
    """Return whether the entries of an axis are others."""
    try:
        return axis_rows(session, *axis).identity() != identity
    except errors.DafError:
        return True


def replaced() -> RequestError:
    """Return the error of a data set that is another one now."""
    return refusal(409, _REPLACED, _RELOAD)


def _signature(paths: Sequence[str]) -> Signature:
    return tuple(_of_file(path) for each in paths for path in _files(each))


def _files(path: str) -> Sequence[str]:
    if "://" in path:
        return ()
    if not is_pattern(path):
        return (path.partition("#")[0],)
    try:
        return matching_paths(path)
    except errors.SourceNotFoundError:
        return ()


def _of_file(path: str) -> tuple[object, ...]:
    try:
        status = os.stat(Path(path))
    except OSError:
        return (path,)
    if stat.S_ISDIR(status.st_mode):
        return path, status.st_dev, status.st_ino
    return path, status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns

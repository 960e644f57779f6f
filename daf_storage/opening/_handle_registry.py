"""Files that are open in this process: all handles of one file share what was opened.

Whoever opens it first decides whether it can be written; the last one to let go closes it.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Generic, TypeVar

from daf_storage import errors
from daf_storage.base import ForkLock, OpenMode
from daf_storage.stores import MmapZipStore
from daf_storage.trees import Hdf5File

T = TypeVar("T", MmapZipStore, Hdf5File)


@dataclass(eq=False, slots=True)
class _Shared(Generic[T]):
    """Something open, and how many hold it."""

    resource: T
    holders: int = 0


class Registry(Generic[T]):
    """The open files of one kind.

    Parameters
    ----------
    kind
        What to call one of them in messages.
    """

    def __init__(self, kind: str) -> None:
        self._kind = kind
        self._lock = ForkLock()
        self._open: dict[Path, _Shared[T]] = {}

    def shared(
        self, path: Path, mode: OpenMode, location: str, open_it: Callable[[], T], held: ExitStack
    ) -> T:
        """Return what is open at ``path``, opening it if nobody here has done so.

        It is let go of with ``held``.

        Raises
        ------
        InUseError
            It is to be written, and was opened for reading.
        """
        key = Path(os.path.realpath(path))
        with self._lock:
            shared = self._current(key)
            if shared is not None and mode == "w":
                if shared.resource.is_writable:
                    shared.resource.close()  # its handles refuse further use; arrays stay valid
                del self._open[key]
                shared = None
            if shared is None:
                shared = self._open[key] = _Shared(open_it())
            elif mode != "r" and not shared.resource.is_writable:
                raise errors.InUseError(
                    f"{self._kind} is already open read-only in this process: {location}; close "
                    "that handle before opening it for writing"
                )
            shared.holders += 1
        held.callback(self._let_go, key, shared)
        return shared.resource

    def forget(self) -> None:
        """Act as if nothing were open, as a new process would."""
        self._open.clear()

    def _let_go(self, key: Path, shared: _Shared[T]) -> None:
        """Count one holder less; close what nobody holds any more."""
        with self._lock:
            shared.holders -= 1
            if shared.holders == 0:
                if self._open.get(key) is shared:  # not another file, put there meanwhile
                    del self._open[key]
                shared.resource.close()

    def _current(self, key: Path) -> _Shared[T] | None:
        """Return what is open at a path, unless another file was put there meanwhile."""
        shared = self._open.get(key)
        try:
            status = key.stat()
            is_same = (
                shared is not None
                and (status.st_dev, status.st_ino) == shared.resource.file_identity
            )
        except FileNotFoundError:
            is_same = False
        if shared is not None and not is_same:
            del self._open[key]
        return shared if is_same else None

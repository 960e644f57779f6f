"""Files that are open in this process: all handles of one file share what was opened.

Whoever opens it first decides whether it can be written; the last one to let go closes it.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Generic, Protocol, TypeVar

from daf_storage import errors
from daf_storage.base import ForkLock, OpenMode


class Shareable(Protocol):
    """What can be shared."""

    @property
    def is_writable(self) -> bool:
        """Whether it was opened for writing."""
        ...

    @property
    def file_identity(self) -> tuple[int, int]:
        """What tells its file from any other."""
        ...

    def close(self) -> None:
        """Close it."""
        ...


T = TypeVar("T", bound=Shareable)


class _Shared(Generic[T]):
    """Something open, and how many hold it."""

    def __init__(self, key: Path, resource: T) -> None:
        self.key = key
        self.resource = resource
        self.holders = 0


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

    def lease(
        self, path: Path, mode: OpenMode, location: str, open_it: Callable[[], T]
    ) -> Lease[T]:
        """Return a lease of what is open at ``path``, opening it if nobody here has done so.

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
                shared = self._open[key] = _Shared(key, open_it())
            elif mode != "r" and not shared.resource.is_writable:
                raise errors.InUseError(
                    f"{self._kind} is already open read-only in this process: {location}; close "
                    "that handle before opening it for writing"
                )
            shared.holders += 1
            return Lease(self, shared)

    def release(self, shared: _Shared[T]) -> None:
        """Count one holder less; close what nobody holds any more."""
        with self._lock:
            shared.holders -= 1
            if shared.holders == 0:
                if self._open.get(shared.key) is shared:  # not another file, put there meanwhile
                    del self._open[shared.key]
                shared.resource.close()

    def forget(self) -> None:
        """Act as if nothing were open, as a new process would."""
        self._open.clear()

    def _current(self, key: Path) -> _Shared[T] | None:
        """Return what is open at a path, unless another file was put there meanwhile."""
        shared = self._open.get(key)
        if shared is None:
            return None
        try:
            status = key.stat()
        except FileNotFoundError:
            is_same = False
        else:
            is_same = (status.st_dev, status.st_ino) == shared.resource.file_identity
        if not is_same:
            del self._open[key]
        return shared if is_same else None


class Lease(Generic[T]):
    """The right to use something shared until `release` is called, once or more often."""

    def __init__(self, registry: Registry[T], shared: _Shared[T]) -> None:
        self._registry = registry
        self._shared: _Shared[T] | None = shared
        self.resource = shared.resource

    def release(self) -> None:
        """Let go; what nobody else holds is closed."""
        shared, self._shared = self._shared, None
        if shared is not None:
            self._registry.release(shared)

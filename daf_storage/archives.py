"""The archives that are open in this process: all handles of one file share one store.

Whoever opens it first decides whether it can be written; the last one to let go closes it.
"""

from __future__ import annotations

import os
import threading
from dataclasses import dataclass
from pathlib import Path

from daf_storage import errors, layout, settings
from daf_storage.model import OpenMode
from daf_storage.stores import MmapZipStore

_lock = threading.RLock()
_open: dict[Path, _Shared] = {}


@dataclass(slots=True)
class _Shared:
    """One open archive and how many hold it."""

    store: MmapZipStore
    holders: int = 0


class Lease:
    """The right to use a shared store until `release` is called, once or more often."""

    def __init__(self, shared: _Shared) -> None:
        self.store = shared.store
        self._shared: _Shared | None = shared
        shared.holders += 1

    def release(self) -> None:
        """Let go of the store, which is closed if nobody else holds it."""
        with _lock:
            shared, self._shared = self._shared, None
            if shared is None:
                return
            shared.holders -= 1
            if shared.holders == 0:
                for path in [p for p, s in _open.items() if s is shared]:
                    del _open[path]
                shared.store.close()


def lease(path: Path, mode: OpenMode, location: str) -> Lease:
    """Return a lease of the store of an archive, opening it if no other handle has done so.

    Raises
    ------
    InUseError
        It is open for reading only here, or open for writing in another process.
    """
    key = Path(os.path.realpath(path))
    with _lock:
        shared = _current(key)
        if shared is not None and mode == "w":
            if shared.store.is_writable:
                shared.store.close()  # its handles refuse further use; their arrays stay valid
            del _open[key]
            shared = None
        if shared is None:
            store = MmapZipStore(
                path,
                mode,
                max_file_size=settings.DAF_ZARR_ZIP_MAX_FILE_SIZE,
                sync=settings.DAF_ZARR_ZIP_SYNC,
                location=location,
            )
            shared = _open[key] = _Shared(store)
        elif mode != "r" and not shared.store.is_writable:
            raise errors.InUseError(
                f"zip file is already open read-only in this process: {location}; close that "
                "handle before opening it for writing"
            )
        return Lease(shared)


def groups_of(store: MmapZipStore) -> list[str]:
    """Return the groups of an archive that are data sets; an empty name for the root."""
    marker = f"{layout.DAF}/.zarray"
    return sorted(
        key[: -len(marker)].rstrip("/") for key in store if f"/{key}".endswith(f"/{marker}")
    )


def _current(key: Path) -> _Shared | None:
    """Return the shared store of a path, unless another file was put there meanwhile."""
    shared = _open.get(key)
    if shared is None:
        return None
    try:
        status = key.stat()
    except FileNotFoundError:
        is_same = False
    else:
        is_same = (status.st_dev, status.st_ino) == shared.store.file_identity
    if not is_same:
        del _open[key]
    return shared if is_same else None

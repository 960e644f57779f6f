"""Files that several handles of this process share: archives, and files of HDF5.

Whoever opens one that is open gets the same; it is closed when nobody has it any more.
"""

from __future__ import annotations

import errno
import gc
import os
import time
import warnings
from collections import Counter
from collections.abc import Callable
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any, Final, Generic, TypeVar

from daf_storage import errors, settings
from daf_storage.base import ForkLock, OpenMode, Packing
from daf_storage.data import layout
from daf_storage.opening._paths import DafPath, siblings
from daf_storage.stores import MmapZipStore, follow_links, inode_of, remove_leftovers, scratch
from daf_storage.trees import (
    ALIGNMENT,
    Hdf5File,
    OutputFile,
    WritableHdf5Tree,
    h5py,
    hdf5_output,
    open_for_output,
    require_space_in,
)

T = TypeVar("T", MmapZipStore, Hdf5File)

_RELEASE_SECONDS: Final = 0.3


class Registry(Generic[T]):
    """The open files of one kind, and how many hold each.

    Parameters
    ----------
    kind
        What to call one of them in messages.
    """

    def __init__(self, kind: str) -> None:
        self._kind = kind
        self._lock = ForkLock()
        self._open: dict[Path, T] = {}
        self._holders: Counter[int] = Counter()

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
        if mode not in ("r", "w"):
            self._await_readers(key)
        with self._lock:
            store = self._current(key)
            if store is not None and mode == "w":
                if store.is_writable:
                    store.close()  # its handles refuse further use; arrays stay valid
                store = None
            if store is None:
                store = self._open[key] = open_it()
            elif mode != "r" and not store.is_writable:
                raise errors.InUseError(
                    f"{self._kind} is already open read-only in this process: {location}; close "
                    "that handle before opening it for writing"
                )
            self._holders[id(store)] += 1
        held.callback(self._let_go, key, store)
        return store

    def forget(self) -> None:
        """Act as if nothing were open, as a new process would."""
        self._open.clear()

    def _await_readers(self, key: Path) -> None:
        """Wait a moment for readers to be released that the caller no longer has.

        They may be in a reference cycle, or still be held by a thread of the engine.
        """
        end = time.monotonic() + _RELEASE_SECONDS
        while (store := self._current(key)) is not None and not store.is_writable:
            gc.collect()
            if time.monotonic() > end:
                return
            time.sleep(0.03)

    def _let_go(self, key: Path, resource: T) -> None:
        """Count one holder less; close what nobody holds any more."""
        with self._lock:
            self._holders[id(resource)] -= 1
            if not self._holders[id(resource)]:
                del self._holders[id(resource)]
                if self._open.get(key) is resource:  # not another file, put there meanwhile
                    del self._open[key]
                resource.close()

    def _current(self, key: Path) -> T | None:
        """Return what is open at a path, unless another file was put there meanwhile."""
        store = self._open.get(key)
        return store if store is not None and inode_of(key) == store.inode else None


_OF_THE_SYSTEM: Final = (
    *(errno.EACCES, errno.EPERM, errno.EROFS),
    *(errno.EIO, errno.EMFILE, errno.ENFILE),
)
"""Errors in opening a file that say nothing of what is in it."""

ARCHIVES: Registry[MmapZipStore] = Registry("zip file")
HDF5_FILES: Registry[Hdf5File] = Registry("HDF5 file")


# Archives


class _Archive(MmapZipStore):
    """An archive of data sets; whoever opens one of these names its parts that are lost."""

    names_dropped = False


def open_archive(where: DafPath, mode: OpenMode, held: ExitStack) -> MmapZipStore:
    """Return the archive of a data set, opening it if no other handle has done so.

    It is let go of with ``held``.

    Raises
    ------
    InUseError
        It is open for reading only here, or open for writing in another process.
    """
    if where.group and mode == "w":
        raise errors.InvalidModeError(
            f"{where.given}: can't truncate one data set of an archive, which is append-only; "
            "open it with mode 'w+' to create it or add to it"
        )
    path, location = where.container, where.given_container
    if mode in {"r", "r+"}:
        _check_file(path, location)

    def opened() -> MmapZipStore:
        return _Archive(
            path,
            mode,
            max_file_size=settings.DAF_ZARR_ZIP_MAX_FILE_SIZE,
            sync=settings.DAF_ZARR_ZIP_SYNC,
            location=location,
        )

    return ARCHIVES.shared(path, mode, location, opened, held)


def _check_file(path: Path, location: str) -> None:
    """Raise if there is no file; to open a named pipe would wait for its other end."""
    if path.is_dir():
        raise errors.NotADafError(f"{location}: there is a directory of this name, not a file")
    if not path.exists():
        raise errors.SourceNotFoundError(f"no such file: {path}{siblings(path)}")
    if not path.is_file():
        raise errors.NotADafError(f"{location}: this is not a regular file; give the path of one")


# HDF5


class UnsafeAlignmentWarning(errors.DafWarning):
    """An HDF5 file was opened so that what is written to it will not be aligned."""


def open_hdf5(
    where: DafPath, mode: OpenMode, held: ExitStack, packing: Packing | None = None
) -> WritableHdf5Tree:
    """Return the tree of a data set in a file of HDF5, which is let go of with ``held``."""
    if where.opened is None:
        file_mode: OpenMode = "w+" if where.group and mode == "w" else mode
        path, location = where.container, where.given_container
        opened = partial(_opened_hdf5, path, file_mode, location)
        file = HDF5_FILES.shared(path, file_mode, location, opened, held)
    else:
        file = _passed_hdf5(where.opened.file, where.given, mode)
    return WritableHdf5Tree(file, where.group, packing=packing)


def _passed_hdf5(file: Any, location: str, mode: OpenMode) -> Hdf5File:
    """Return a file of h5py that is open, and stays so."""
    shared = Hdf5File(file, location=location)
    if mode != "r" and not shared.is_writable:
        raise errors.ReadOnlyError(
            f"{location}: the HDF5 file was opened for reading; open it with mode 'r+' first"
        )
    threshold, interval = file.id.get_access_plist().get_alignment()
    if threshold > ALIGNMENT[0] or interval != ALIGNMENT[1]:
        warnings.warn(
            f"unsafe HDF5 file alignment for Daf: ({threshold}, {interval}); the safe HDF5 file "
            f"alignment is: {ALIGNMENT}; unaligned data is read less efficiently; to force the "
            "alignment, open the file with h5py.File(path, mode, alignment_threshold=1, "
            "alignment_interval=8)",
            UnsafeAlignmentWarning,
            stacklevel=6,
        )
    return shared


def _opened_hdf5(path: Path, mode: OpenMode, location: str) -> Hdf5File:
    if mode != "r":
        path = follow_links(path, location)
        remove_leftovers(path)
    is_new = mode in {"w", "w+"} and not os.path.lexists(path)
    if not is_new:
        _check_file(path, location)
    elif not path.parent.is_dir():
        raise errors.SourceNotFoundError(
            f"{location}: there is no directory {path.parent} to create it in"
        )
    else:
        require_space_in(path.parent, location)
    if mode == "w" and not is_new:
        _check_replaceable(path, location)
        with errors.os_errors(location), scratch(path) as temporary:
            with hdf5_output(temporary):
                pass
            os.replace(temporary, path)
    reopen = partial(_h5py_file, path, location)
    file, output = (reopen(), None) if mode == "r" else _writable(path, location)
    return Hdf5File(
        file,
        location=location,
        inode=inode_of(path) or (0, 0),
        reopen=reopen if mode == "r" else None,
        output=output,
    )


def _h5py_file(path: Path, location: str) -> Any:
    try:
        return h5py().File(path, "r")
    except OSError as error:
        raise _translated(error, location) from error


def _writable(path: Path, location: str) -> tuple[Any, OutputFile]:
    """Return a file of h5py, and what it writes through; an empty one if there is none."""
    is_new = not path.exists()
    try:
        flags = os.O_RDWR | os.O_CLOEXEC | (os.O_CREAT | os.O_EXCL if is_new else 0)
        output = OutputFile(os.open(path, flags, 0o666))
        output.lock()
        options = {"alignment_threshold": ALIGNMENT[0], "alignment_interval": ALIGNMENT[1]}
        return open_for_output(path, output, "w" if is_new else "r+", **options), output
    except (BlockingIOError, FileExistsError) as error:
        raise _in_use(location, str(error)) from error
    except OSError as error:
        raise _translated(error, location) from error


def _in_use(location: str, reason: str) -> errors.InUseError:
    return errors.InUseError(
        f"{location}: the file is open elsewhere ({reason}); HDF5 lets one program write, or "
        "several read: close it there"
    )


def _translated(error: OSError, location: str) -> errors.DafError:
    reason = " ".join(str(error).split())
    if "unable to lock" in reason or "already open" in reason:
        return _in_use(location, reason)
    if error.errno in _OF_THE_SYSTEM or ("errno = " in reason and "write" in reason):
        return errors.from_os_error(error, location)
    if "signature" in reason:
        return errors.NotADafError(f"{location}: this is not an HDF5 file ({reason})")
    return errors.CorruptDataError(
        f"{location}: the HDF5 file cannot be opened ({reason}); if it was cut short, take it from "
        "a backup"
    )


def _check_replaceable(path: Path, location: str) -> None:
    """Refuse to empty a file that holds something other than one data set."""
    with _h5py_file(path, location) as file:
        if len(file) and not {layout.DAF, *layout.SKELETON} >= set(file):
            listed = errors.shown_names(list(file), none="")
            raise errors.NotADafError(
                f"{location}: this file holds other things than a data set ({listed}), so mode 'w' "
                "does not empty it; delete it yourself if that is what you want"
            )

"""The HDF5 files that are open in this process, and opening them."""

from __future__ import annotations

import errno
import os
from functools import partial
from pathlib import Path
from typing import Any, Final

from daf_storage import errors
from daf_storage.base import OpenMode
from daf_storage.data import layout
from daf_storage.opening._handle_registry import Lease, Registry
from daf_storage.stores import follow_links, remove_leftovers, scratch
from daf_storage.trees import ALIGNMENT, Hdf5File, h5py, require_space_in

REGISTRY: Registry[Hdf5File] = Registry("HDF5 file")


class UnsafeAlignmentWarning(errors.DafWarning):
    """An HDF5 file was opened so that what is written to it will not be aligned."""


def lease(path: Path, mode: OpenMode, location: str) -> Lease[Hdf5File]:
    """Return a lease of an open file, opening it if no other handle has done so.

    Raises
    ------
    NotADafError
        It is not an HDF5 file, or, for mode ``w``, holds something other than one data set.
    InUseError
        It is open for reading only here, or open in another process.
    """
    return REGISTRY.lease(path, mode, location, lambda: _open(path, mode, location))


def _open(path: Path, mode: OpenMode, location: str) -> Hdf5File:
    if mode != "r":
        path = follow_links(path, location)
        remove_leftovers(path)
    if path.is_dir():
        raise errors.NotADafError(f"{location}: there is a directory of this name, not a file")
    if path.exists() and not path.is_file():  # opening a named pipe would wait for its other end
        raise errors.NotADafError(f"{location}: this is not a regular file; give the path of one")
    if mode in {"r", "r+"} and not path.exists():
        raise errors.SourceNotFoundError(f"no such file: {path}")
    if not path.parent.is_dir():
        raise errors.SourceNotFoundError(
            f"{location}: there is no directory {path.parent} to create it in"
        )
    if mode in {"w", "w+"} and not path.exists():
        require_space_in(path.parent, location)
    if mode == "w" and path.exists():
        _check_replaceable(path, location)
        with scratch(path) as temporary:
            _h5py_file(temporary, "w", location).close()
            os.replace(temporary, path)
    file = _h5py_file(path, {"r": "r", "r+": "r+", "w+": "a", "w": "a"}[mode], location)
    status = path.stat()
    return Hdf5File(
        file,
        location=location,
        file_identity=(status.st_dev, status.st_ino),
        reopen=partial(_h5py_file, path, "r", location) if mode == "r" else None,
    )


_OF_THE_SYSTEM: Final = (errno.EROFS, errno.EIO, errno.EMFILE, errno.ENFILE)
"""Errors in opening a file that say nothing of what is in it."""


def _h5py_file(path: Path, mode: str, location: str) -> Any:
    options: dict[str, Any] = {}
    if mode != "r":
        options = {"alignment_threshold": ALIGNMENT[0], "alignment_interval": ALIGNMENT[1]}
    try:
        return h5py().File(path, mode, **options)
    except PermissionError as error:
        what = "read" if mode == "r" else "write"
        raise errors.ReadOnlyError(f"{location}: no permission to {what} this file") from error
    except OSError as error:
        raise _translated(error, location) from error


def _translated(error: OSError, location: str) -> errors.DafError:
    reason = " ".join(str(error).split())
    if "unable to lock" in reason or "already open" in reason:
        return errors.InUseError(
            f"{location}: the file is open elsewhere ({reason}); HDF5 lets one program write, or "
            "several read: close it there"
        )
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
    with _h5py_file(path, "r", location) as file:
        if len(file) and not {layout.DAF, *layout.SKELETON} >= set(file):
            listed = errors.known_names(list(file), none="")
            raise errors.NotADafError(
                f"{location}: this file holds other things than a data set ({listed}), so mode 'w' "
                "does not empty it; delete it yourself if that is what you want"
            )

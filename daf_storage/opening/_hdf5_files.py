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
from daf_storage.trees import (
    ALIGNMENT,
    Hdf5File,
    OutputFile,
    h5py,
    hdf5_output,
    open_for_output,
    require_space_in,
)

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
        with errors.os_errors(location), scratch(path) as temporary:
            with hdf5_output(temporary):
                pass
            os.replace(temporary, path)
    reopen = partial(_h5py_file, path, location)
    file, output = (reopen(), None) if mode == "r" else _writable(path, location)
    status = path.stat()
    return Hdf5File(
        file,
        location=location,
        file_identity=(status.st_dev, status.st_ino),
        reopen=reopen if mode == "r" else None,
        output=output,
    )


_OF_THE_SYSTEM: Final = (errno.EROFS, errno.EIO, errno.EMFILE, errno.ENFILE)
"""Errors in opening a file that say nothing of what is in it."""


def _h5py_file(path: Path, location: str) -> Any:
    try:
        return h5py().File(path, "r")
    except PermissionError as error:
        raise errors.ReadOnlyError(f"{location}: no permission to read this file") from error
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
    except PermissionError as error:
        raise errors.ReadOnlyError(f"{location}: no permission to write this file") from error
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
            listed = errors.known_names(list(file), none="")
            raise errors.NotADafError(
                f"{location}: this file holds other things than a data set ({listed}), so mode 'w' "
                "does not empty it; delete it yourself if that is what you want"
            )

"""Open files of untrusted data sets: regular ones only, and without ever blocking.

Opening a named pipe waits until something writes to it, and reading a device may never end.
"""

from __future__ import annotations

import errno
import os
import stat
from typing import NoReturn

from daf_storage import errors

_KINDS = {
    stat.S_IFIFO: "a named pipe",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
}


def open_regular(
    path: str | os.PathLike[str], *, what: str, dir_fd: int | None = None
) -> int | None:
    """Return a descriptor of a file, for reading; None if there is none, or a directory.

    Parameters
    ----------
    what
        The file as messages name it.
    dir_fd
        Descriptor of the directory to which ``path`` is relative.

    Raises
    ------
    ReadOnlyError
        There is no permission to read it.
    CorruptDataError
        It is a named pipe, a socket or a device, or the disk fails.
    """
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=dir_fd)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        if error.errno == errno.ENXIO:
            raise not_regular(stat.S_IFSOCK, what=what) from error
        refuse(error, what=what)
    mode = os.fstat(descriptor).st_mode
    if stat.S_ISREG(mode):
        return descriptor
    os.close(descriptor)
    if stat.S_ISDIR(mode):
        return None
    raise not_regular(mode, what=what)


def not_regular(mode: int, *, what: str) -> errors.CorruptDataError:
    """Return the error for something that is no regular file, by its ``st_mode``."""
    kind = _KINDS.get(stat.S_IFMT(mode), "something else")
    return errors.CorruptDataError(
        f"{what}: this is {kind}, not a regular file; put a file with the data in its place"
    )


def refuse(error: OSError, *, what: str) -> NoReturn:
    """Raise an error of the file system as one of ours."""
    if isinstance(error, PermissionError):
        raise errors.ReadOnlyError(
            f"{what}: no permission to read it; ask for read access"
        ) from error
    raise errors.CorruptDataError(f"{what}: it cannot be read ({error.strerror})") from error

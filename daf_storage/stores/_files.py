"""Files of this machine: opened, mapped and filled, and what shows that they have changed.

Untrusted data sets have anything in the place of a file, so only regular ones are opened, without
ever blocking.  They are mapped without being kept open: Python's own ``mmap`` holds a descriptor as
long as the mapping lives.  Memory that is mapped beyond the end of its file kills the process that
touches it (SIGBUS), so whoever hands out a mapping, or a part of one that it keeps, asks
`check_length` first; what remains is a file that shrinks while it is read
(docs/explanation/trust.md).

A file is known by its *fingerprint*.  The time of its data can be set back by any program
(``rsync --times``, ``os.utime``); the time of its inode cannot.  Both advance in steps of
milliseconds, so the *identity* of a file that was changed just now equals nothing: a second change
within the same step would not show.
"""

from __future__ import annotations

import ctypes
import errno
import fcntl
import mmap
import os
import stat
import time
import weakref
from collections.abc import Callable, Hashable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from functools import cache
from pathlib import Path
from typing import Any, Final, NoReturn, TypeAlias

from daf_storage import errors
from daf_storage.errors import CorruptDataError, SourceNotFoundError

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


_FAILED = ctypes.c_void_p(-1).value


@cache
def _libc() -> Any:
    libc = ctypes.CDLL(None, use_errno=True)
    size, offset = ctypes.c_size_t, ctypes.c_int64
    libc.mmap.argtypes = (ctypes.c_void_p, size, ctypes.c_int, ctypes.c_int, ctypes.c_int, offset)
    libc.mmap.restype = ctypes.c_void_p
    libc.munmap.argtypes = (ctypes.c_void_p, size)
    return libc


def check_length(size_bytes: int, needed_bytes: int, *, what: str) -> None:
    """Raise if a file became shorter than what is to be read of it.

    Raises
    ------
    CorruptDataError
        It is.

    Examples
    --------
    >>> check_length(10, 10, what="x.zip")
    """
    if size_bytes < needed_bytes:
        raise CorruptDataError(
            f"{what}: the file has {size_bytes:,} bytes by now, and {needed_bytes:,} are needed: "
            "another program has cut it or written over it; open it again when that is done"
        )


def map_file(
    descriptor: int,
    size_bytes: int,
    *,
    offset: int = 0,
    keep: object = None,
    what: str | None,
    is_writable: bool = False,
) -> memoryview:
    """Return a range of an open file, mapped; read-only unless it is to be written to.

    The descriptor may be closed at once; the mapping lives as long as a view of it.

    Parameters
    ----------
    keep
        Something that is to live as long as a view of the mapping.
    what
        The file as messages name it.  None if the range may end behind the file, since its length
        is looked at whenever the view is read.

    Raises
    ------
    CorruptDataError
        The file ends before the range does.
    """
    if size_bytes == 0:
        return memoryview(bytearray())
    if what is not None:
        check_length(os.fstat(descriptor).st_size, offset + size_bytes, what=what)
    start = offset // mmap.ALLOCATIONGRANULARITY * mmap.ALLOCATIONGRANULARITY
    length = offset - start + size_bytes
    protection = mmap.PROT_READ | (mmap.PROT_WRITE if is_writable else 0)
    address = _libc().mmap(None, length, protection, mmap.MAP_SHARED, descriptor, start)
    if address == _FAILED:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))
    mapped = (ctypes.c_ubyte * length).from_address(address)
    unmap = weakref.finalize(mapped, _unmap, address, length, keep)
    unmap.atexit = False  # threads may still read when the interpreter ends
    view = memoryview(mapped).cast("B")[offset - start :]
    return view if is_writable else view.toreadonly()


def _unmap(address: int, length: int, keep: object) -> None:
    """Unmap a range and let go of what was kept for it."""
    del keep
    _libc().munmap(address, length)


def allocate(descriptor: int, offset: int, size_bytes: int) -> None:
    """Reserve disk space for a range of a file, which grows to hold it.

    Storing into a mapping of a file for which the disk has no room left kills the process; a full
    disk is an ``OSError`` here instead.
    """
    if size_bytes == 0:
        return
    if hasattr(os, "posix_fallocate"):
        os.posix_fallocate(descriptor, offset, size_bytes)
    elif os.fstat(descriptor).st_size < offset + size_bytes:
        os.ftruncate(descriptor, offset + size_bytes)


Fingerprint: TypeAlias = tuple[int, int, int, int]
"""Inode, size, time of the data and time of the inode of a file."""

_TIME_STEP_NS: Final = 100_000_000
_MAX_DEPTH: Final = 16
_MAX_WAITS: Final = 5


def check_linked(status: os.stat_result, location: str) -> None:
    """Raise if an open file has no name any more, so that what is written into it would be lost.

    Raises
    ------
    SourceNotFoundError
        It was deleted, or another file took its place.
    """
    if not status.st_nlink:
        raise SourceNotFoundError(
            f"{location}: the file was deleted, or replaced by another one, since it was opened; "
            "nothing was written, since it would be lost; open it again"
        )


def inode_of(path: str | os.PathLike[str]) -> tuple[int, int] | None:
    """Return device and inode, which tell a file from all others; None if there is none."""
    try:
        status = os.stat(path)
    except OSError:
        return None
    return status.st_dev, status.st_ino


class Unsettled:
    """What stands for a file that was changed just now: equal to nothing but itself."""

    __slots__ = ()


def is_lasting(identity: Hashable) -> bool:
    """Return whether an identity has no part that stands for files which were changed just now.

    What is remembered under any other would outlive a change that does not show.

    >>> is_lasting((1, ("", 2))), is_lasting((1, (Unsettled(),)))
    (True, False)
    """
    if isinstance(identity, tuple):
        return all(map(is_lasting, identity))
    return not isinstance(identity, Unsettled)


def fingerprint(status: os.stat_result) -> Fingerprint:
    """Return a value that changes with every write to a file."""
    return status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns


def is_stable(status: os.stat_result) -> bool:
    """Return whether the next change of a file is bound to show in its times."""
    return time.time_ns() - max(status.st_mtime_ns, status.st_ctime_ns) >= _TIME_STEP_NS


def stable_fingerprint(status: os.stat_result | None) -> Fingerprint | None:
    """Return the fingerprint of a file; None while it is too new to tell by that."""
    return None if status is None or not is_stable(status) else fingerprint(status)


def file_identity(status: os.stat_result) -> Hashable:
    """Return what differs whenever a file was written to; equal to nothing if that is now."""
    return stable_fingerprint(status) or Unsettled()


def directory_identity(descriptor: int) -> tuple[Hashable, ...]:
    """Return what differs whenever something in a directory was put in place or written to.

    What cannot be opened counts by its own state.
    """
    found = [("", os.fstat(descriptor))]
    for folder, folders, files, below in os.fwalk(".", dir_fd=descriptor, follow_symlinks=True):
        found += [(f"{folder}/{name}", status_at(name, below)) for name in sorted(folders + files)]
        folders[:] = sorted(folders) if folder.count("/") < _MAX_DEPTH else []
    return files_identity(found)


def stable(identity: Callable[[], Hashable]) -> Hashable:
    """Return the identity of files once their next change is bound to show; it may be kept.

    It is the same for whoever looks, in any process.  None if that takes too long, as where the
    clock of another machine is ahead.
    """
    for wait in range(_MAX_WAITS):
        time.sleep(bool(wait) * _TIME_STEP_NS / 1e9)
        found = identity()
        if is_lasting(found):
            return found
    return None


def listing_identity(descriptor: int, files: Iterable[str]) -> tuple[Hashable, ...]:
    """Return what differs whenever a directory changed, or the first of some files in those below.

    What is below costs one look each, so it is fit for many.
    """
    found: list[tuple[str, os.stat_result]] = [("", os.fstat(descriptor))]
    listed = list(files)
    for name in names_at(descriptor):
        for file in listed:
            try:
                status = os.stat(f"{name}/{file}", dir_fd=descriptor)
            except OSError:  # no directory, or one without this file
                continue
            found.append((name, status))
            break
    return files_identity(found)


def files_identity(found: list[tuple[str, os.stat_result]]) -> tuple[Hashable, ...]:
    """Return what differs whenever one of some files was replaced or written to."""
    if not all(is_stable(status) for _, status in found):
        return (Unsettled(),)
    return tuple((name, *fingerprint(status)) for name, status in found)


def names_at(descriptor: int, path: str = ".") -> list[str]:
    """Return the names in a directory, or one below it, sorted; also while other threads do so."""
    opened = os.open(path, os.O_RDONLY | os.O_DIRECTORY, dir_fd=descriptor)
    try:
        return sorted(os.listdir(opened))
    finally:
        os.close(opened)


def status_at(path: str, descriptor: int | None = None) -> os.stat_result:
    """Return the state of a file, maybe in an open directory; of a link to nothing, its own."""
    try:
        return os.stat(path, dir_fd=descriptor)
    except OSError:
        return os.stat(path, dir_fd=descriptor, follow_symlinks=False)


# Directories: their names, and locks on them.


@contextmanager
def locked(directory: Path, operation: int = fcntl.LOCK_EX) -> Iterator[int]:
    """Lock a directory for the length of a block, and hand out its descriptor."""
    descriptor, owner = os.open(directory, os.O_RDONLY | os.O_DIRECTORY), os.getpid()
    try:
        fcntl.flock(descriptor, operation)
        yield descriptor
    finally:
        release(descriptor, owner)


def exclusive(directory: Path) -> AbstractContextManager[int]:
    """Lock a directory, or raise ``OSError`` if its owner is alive."""
    return locked(directory, fcntl.LOCK_EX | fcntl.LOCK_NB)


def release(descriptor: int, owner: int) -> None:
    """Close what the process ``owner`` has locked; it is unlocked first.

    A mapping of the file would keep it locked otherwise, and so would a process that was forked
    meanwhile.  That one shares the lock, and must not release it.
    """
    if os.getpid() == owner:
        with suppress(OSError):
            fcntl.flock(descriptor, fcntl.LOCK_UN)
    os.close(descriptor)


def lock_shared(descriptor: int) -> bool:
    """Keep a directory from being deleted; false if another process is deleting it already."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:  # a file system without locks: read without
        return True
    return True


def is_at(descriptor: int, path: Path | str) -> bool:
    """Return whether the opened directory is still the one at this path."""
    try:
        return os.path.samestat(os.fstat(descriptor), os.stat(path))
    except (FileNotFoundError, NotADirectoryError):
        return False


def names_in(directory: Path) -> list[str]:
    """Return the names in a directory; none if it does not exist."""
    try:
        return os.listdir(directory)
    except (FileNotFoundError, NotADirectoryError):
        return []

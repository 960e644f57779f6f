"""Directories that several processes create, lock and remove at the same time.

A lock (``flock``) belongs to an open directory and ends with its process, however that ends: what
is locked has a living owner, and what is not locked is a leftover.
"""

from __future__ import annotations

import errno
import fcntl
import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from pathlib import Path

_TRIES = 1000


def make_directories(path: Path) -> None:
    """Create a directory and its parents, while others may create and remove the same ones."""
    for last in (*[False] * _TRIES, True):
        try:
            path.mkdir(parents=True, exist_ok=True)
        except (FileExistsError, FileNotFoundError):
            # Removed by another writer between two steps of this call; a file stays in the way.
            if last or (os.path.lexists(path) and not path.is_dir()):
                raise
        else:
            return


def new_locked_directory(name: Callable[[], Path]) -> tuple[Path, int]:
    """Create a directory, locked by the descriptor that is returned with it.

    Parameters
    ----------
    name
        Returns the path of a directory that does not exist yet, and sees to it that its parent
        exists; other writers may remove that as long as it is empty.
    """
    for last in (*[False] * _TRIES, True):
        path = name()
        try:
            path.mkdir()
            descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
        except FileNotFoundError:
            if last:
                raise
            continue
        with suppress(OSError):  # a file system without locks
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        if is_at(descriptor, path):
            return path, descriptor
        os.close(descriptor)  # taken for a leftover before it was locked
    raise BlockingIOError(errno.EAGAIN, os.strerror(errno.EAGAIN), str(path))


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


def discard(folder: Path) -> bool:
    """Delete a folder unless a reader has a part of it pinned; return whether it is gone.

    What was moved here cannot be pinned again, so the directories are checked one by one.
    """
    for parent, _, _ in os.walk(folder):
        if Path(parent) != folder and _is_in_snapshot(
            parent
        ):  # the folder's own lock is the writer's
            return False
    shutil.rmtree(folder, ignore_errors=True)
    return True


def _is_in_snapshot(directory: str) -> bool:
    try:
        with exclusive(Path(directory)):
            return False
    except BlockingIOError:
        return True
    except OSError:  # another writer is deleting it too, or a file system without locks
        return False


def names_in(directory: Path) -> list[str]:
    """Return the names in a directory; none if it does not exist."""
    try:
        return os.listdir(directory)
    except (FileNotFoundError, NotADirectoryError):
        return []


def remove_if_empty(directory: Path) -> None:
    """Remove a directory that nobody uses any more."""
    with suppress(OSError):
        directory.rmdir()

"""Directories that several processes create, lock, exchange and remove at the same time.

A lock (``flock``) belongs to an open directory and ends with its process, however that ends: what
is locked has a living owner, and what is not locked is a leftover.

``os.rename`` cannot put a directory over a directory that is not empty.  Linux and macOS can
exchange two names in one atomic step; where the file system cannot, the caller takes two steps.

What is prepared in a *scratch directory* appears beside it in a single rename.  It is hidden, named
after its target, and locked while its process lives.  One that is not locked was left by a process
that was killed: whoever prepares something for the same target removes it.
"""

from __future__ import annotations

import ctypes
import errno
import fcntl
import hashlib
import os
import re
import shutil
import sys
import uuid
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from functools import cache
from pathlib import Path
from typing import Any

from daf_storage import errors

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


_AT_FDCWD = -100
_EXCHANGE = 2
_NO_REPLACE = 4 if sys.platform == "darwin" else 1
_NOT_SUPPORTED = {errno.ENOSYS, errno.EINVAL, errno.ENOTSUP, errno.EOPNOTSUPP}


@cache
def _exchange_function() -> Any:
    libc = ctypes.CDLL(None, use_errno=True)
    name = "renamex_np" if sys.platform == "darwin" else "renameat2"
    return getattr(libc, name, None)


def exchange(first: Path, second: Path) -> bool:
    """Swap the two names in one atomic step; return False where that is not possible."""
    return _renamed(first, second, _EXCHANGE)


def rename_new(source: Path, target: Path) -> None:
    """Rename a file or a directory, and raise ``FileExistsError`` if there is something already.

    Also where the file system has no such call, nothing is replaced: a link to a file is made
    only under a free name, and a directory takes the place of an empty one that was just created.
    """
    if _renamed(source, target, _NO_REPLACE):
        return
    if source.is_dir():
        target.mkdir()
        os.rename(source, target)
        return
    try:
        os.link(source, target)
    except FileExistsError:
        raise
    except OSError:  # without hard links either
        if os.path.lexists(target):
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), str(target)) from None
        os.rename(source, target)
    else:
        source.unlink()


def _renamed(first: Path, second: Path, flag: int) -> bool:
    function = _exchange_function()
    if function is None:
        return False
    a, b = os.fsencode(first), os.fsencode(second)
    if sys.platform == "darwin":
        failed = function(a, b, flag)
    else:
        failed = function(_AT_FDCWD, a, _AT_FDCWD, b, flag)
    if not failed:
        return True
    code = ctypes.get_errno()
    if code in _NOT_SUPPORTED:
        return False
    raise OSError(code, os.strerror(code), str(second))


SUFFIX = ".daf-tmp"
"""How the names of scratch directories end."""

_TOKEN_DIGITS = 12
_MAX_STEM_BYTES = 200
_REPLACED = ".replaced"


@contextmanager
def scratch(target: Path) -> Iterator[Path]:
    """Hand out a path of the same name in a scratch directory beside ``target``.

    Whatever is still there when the block ends is deleted.

    Raises
    ------
    SourceNotFoundError
        There is no directory in which ``target`` could be.
    """
    remove_leftovers(target)
    folder, descriptor = new_locked_directory(lambda: _new_name(target))
    try:
        yield folder / target.name
    finally:
        try:
            _put_back(folder, target)
            shutil.rmtree(folder, ignore_errors=True)
        finally:
            os.close(descriptor)


def put_in_place(source: Path, target: Path, *, replace: bool) -> None:
    """Rename a file or directory out of its scratch directory to its target.

    Atomic where the file system can exchange two names; where it cannot, a directory is replaced
    in two steps, and a crash between them is undone with the leftovers.

    Raises
    ------
    FileExistsError
        There is something at ``target``, and ``replace`` is false.
    """
    if not replace:
        rename_new(source, target)
    elif not target.is_dir():
        os.replace(source, target)
    elif not exchange(source, target):
        os.rename(target, source.parent / _REPLACED)
        os.rename(source, target)


def leftovers(target: Path) -> list[Path]:
    """Return the scratch directories of a target, also those that are in use."""
    pattern = re.compile(
        rf"\.{re.escape(_stem(target))}\.[0-9a-f]{{{_TOKEN_DIGITS}}}{re.escape(SUFFIX)}"
    )
    try:
        names = os.listdir(target.parent)
    except OSError:
        return []
    return sorted(target.parent / name for name in names if pattern.fullmatch(name))


def remove_leftovers(target: Path) -> int:
    """Remove what killed processes have left for a target; return how many there were."""
    count = 0
    for folder in leftovers(target):
        with suppress(OSError), exclusive(folder):
            _put_back(folder, target)
            shutil.rmtree(folder)
            count += 1
    return count


def abandoned(target: Path) -> list[Path]:
    """Return the scratch directories that killed processes have left for a target."""
    found = []
    for folder in leftovers(target):
        with suppress(OSError), exclusive(folder):
            found.append(folder)
    return found


def was_interrupted(target: Path) -> bool:
    """Return whether a crash caught a replacement between its two steps."""
    return not target.exists() and any((f / _REPLACED).exists() for f in leftovers(target))


def follow_links(path: Path, location: str) -> Path:
    """Return where a path leads, after all symbolic links; nothing need be there.

    Raises
    ------
    DafError
        The links form a loop, or a directory on the way cannot be entered.
    """
    try:
        return Path(os.path.realpath(path, strict=True))
    except FileNotFoundError:
        return Path(os.path.realpath(path))
    except OSError as error:
        raise errors.from_os_error(error, location) from error


def _new_name(target: Path) -> Path:
    if not target.parent.is_dir():
        raise errors.SourceNotFoundError(
            f"cannot create {target}: no such directory: {target.parent}"
        )
    return target.with_name(f".{_stem(target)}.{uuid.uuid4().hex[:_TOKEN_DIGITS]}{SUFFIX}")


def _stem(target: Path) -> str:
    """Return what the names of a target's scratch directories have in common."""
    name = target.name.encode(errors="surrogatepass")
    return target.name if len(name) <= _MAX_STEM_BYTES else hashlib.sha256(name).hexdigest()[:32]


def _put_back(folder: Path, target: Path) -> None:
    """Undo the first step of a replacement that did not come to its second."""
    if (folder / _REPLACED).exists() and not target.exists():
        os.rename(folder / _REPLACED, target)

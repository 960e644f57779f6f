"""Directories and files that appear when they are complete, whichever processes work side by side.

A lock (``flock``) belongs to an open directory and ends with its process, however that ends: what
is locked has a living owner, and what is not locked is a leftover.

``os.rename`` cannot put a directory over a directory that is not empty.  Linux and macOS can
exchange two names in one atomic step; where the file system cannot, the caller takes two steps.

What is prepared in a *scratch directory* appears beside it in a single rename.  It is hidden, named
after its target, and locked while its process lives.  One that is not locked was left by a process
that was killed: whoever prepares something for the same target removes it.

A file that is a result is prepared so.  A symbolic link is followed and stays.  A named pipe, a
device and an open descriptor (such as ``/dev/stdout``) are never replaced: what is written goes
into them.
"""

from __future__ import annotations

import ctypes
import errno
import fcntl
import hashlib
import os
import re
import shutil
import stat
import sys
import tempfile
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import IO, Any, Final

from daf_storage import errors
from daf_storage.base import IfExists, check_choice
from daf_storage.stores._files import exclusive, is_at, os_errors

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
    for _ in range(_TRIES):
        path = name()
        try:
            path.mkdir()
            descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
        except FileNotFoundError:
            continue
        with suppress(OSError):  # a file system without locks
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        if is_at(descriptor, path):
            return path, descriptor
        os.close(descriptor)  # taken for a leftover before it was locked
    raise BlockingIOError(errno.EAGAIN, os.strerror(errno.EAGAIN), str(path))


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


def put_in_place(source: Path, target: Path, *, replace: bool) -> Path:
    """Rename a file or directory out of its scratch directory to its target.

    Returns where a directory is that was replaced.

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
        return source.parent / _REPLACED
    return source


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


_MAX_LINKS: Final = 40
_COPY_BYTES: Final = 1 << 20
_HAS_EFFECTIVE_IDS: Final = os.access in os.supports_effective_ids


@dataclass(frozen=True, slots=True)
class Output:
    """Where a result goes; `find_output` makes one."""

    given: str
    """The path as the caller wrote it, for messages."""
    path: Path
    """Where it leads after all symbolic links; nothing need be there."""
    descriptor: int | None
    """The open descriptor that it means, if it means one."""
    is_regular: bool
    """Whether it is, or will be, a regular file, which is replaced as a whole."""


def find_output(path: str | Path) -> Output:
    """Return where a result goes that is written to a path.

    Raises
    ------
    InvalidInputError
        It is a directory, or a disk.
    SourceNotFoundError
        There is no directory in which it could be.
    ReadOnlyError
        It is write-protected.

    Examples
    --------
    >>> find_output("/dev/stdout").descriptor
    1
    """
    given = os.fspath(path)
    descriptor = _descriptor(Path(os.path.abspath(given)))
    if descriptor is not None:
        return Output(given, Path(given), descriptor, is_regular=False)
    target = follow_links(Path(os.path.abspath(given)), given)
    with os_errors(given):
        try:
            mode = target.stat().st_mode
        except FileNotFoundError:
            mode = None
    if not target.parent.is_dir():
        raise errors.SourceNotFoundError(
            f"cannot write {given!r}: no such directory: {target.parent}{errors.unresolved(target)}"
        )
    if mode is not None and (stat.S_ISDIR(mode) or stat.S_ISBLK(mode)):
        what = "a directory" if stat.S_ISDIR(mode) else "a disk"
        raise errors.InvalidInputError(f"cannot write {given!r}: this is {what}; name a file")
    if mode is not None and not os.access(target, os.W_OK, effective_ids=_HAS_EFFECTIVE_IDS):
        raise errors.ReadOnlyError(
            f"cannot write {given!r}: this file is write-protected; remove it, or name another"
        )
    return Output(given, target, None, is_regular=mode is None or stat.S_ISREG(mode))


def check_output(path: str | Path, *, if_exists: IfExists) -> Output:
    """Refuse what could not be written in the end, before any work is done; see `output_path`."""
    check_choice(if_exists, IfExists, "if_exists")
    output = find_output(path)
    if output.is_regular and output.path.exists() and if_exists == "error":
        raise errors.path_exists(output.given)
    return output


@contextmanager
def output_path(path: str | Path, *, if_exists: IfExists = "replace") -> Iterator[Path]:
    """Hand out a path at which to prepare a file, which goes to ``path`` when the block ends well.

    Parameters
    ----------
    if_exists
        What becomes of a file that is there: ``"error"`` leaves it, ``"replace"`` replaces it.

    Raises
    ------
    ExistsError
        There is one, also if it came while this one was prepared, and ``if_exists`` is ``"error"``.
    """
    output = check_output(path, if_exists=if_exists)
    if not output.is_regular:
        with os_errors(output.given), tempfile.TemporaryDirectory() as folder:
            prepared = Path(folder) / (Path(output.given).name or "output")
            yield prepared
            with _opened(output) as file, prepared.open("rb") as source:
                shutil.copyfileobj(source, file, _COPY_BYTES)
        return
    with os_errors(output.given), scratch(output.path) as prepared:
        yield prepared
        if output.path.exists():
            prepared.chmod(stat.S_IMODE(output.path.stat().st_mode))
        try:
            put_in_place(prepared, output.path, replace=if_exists == "replace")
        except FileExistsError:
            raise errors.path_exists(output.given) from None


@contextmanager
def output_directory(path: str | Path) -> Iterator[Path]:
    """Hand out a path at which to prepare a directory; it replaces the one at ``path``."""
    given = os.fspath(path)
    target = follow_links(Path(os.path.abspath(given)), given)
    with os_errors(given), scratch(target) as prepared:
        yield prepared
        put_in_place(prepared, target, replace=True)


@contextmanager
def open_output(path: str | Path) -> Iterator[IO[bytes]]:
    """Open a file to write a result into, from its beginning to its end.

    What is not a regular file gets it as it is written.
    """
    output = find_output(path)
    if not output.is_regular:
        with _opened(output) as file:
            yield file
        return
    with output_path(path) as prepared, prepared.open("wb") as file:
        yield file


@contextmanager
def _opened(output: Output) -> Iterator[IO[bytes]]:
    """Open what is not a regular file; it is neither created nor cut."""
    with os_errors(output.given):
        if output.descriptor is not None:
            descriptor = os.dup(output.descriptor)
        else:
            descriptor = os.open(output.path, os.O_WRONLY | os.O_CLOEXEC | os.O_NOCTTY)
        with open(descriptor, "wb") as file:
            yield file


def _descriptor(path: Path) -> int | None:
    """Return the number of the open descriptor that a path means, if it means one."""
    for _ in range(_MAX_LINKS):  # such as /dev/stdout
        folder = os.path.realpath(path.parent)
        if path.name.isdecimal() and folder == os.path.realpath("/dev/fd"):
            return int(path.name)
        try:
            path = Path(os.path.normpath(os.path.join(folder, path.readlink())))
        except OSError:  # no link, or nothing there
            return None
    return None

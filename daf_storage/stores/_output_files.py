"""Files that are results: regular ones appear when they are complete, others are written into.

A symbolic link is followed and stays.  A named pipe, a device and an open descriptor (such as
``/dev/stdout``) are never replaced: what is written goes into them.
"""

from __future__ import annotations

import os
import re
import shutil
import stat
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Final

from daf_storage import errors
from daf_storage.base import IfExists, check_if_exists
from daf_storage.stores._directories import follow_links, put_in_place, scratch

_MAX_LINKS: Final = 40
_STANDARD: Final = {"/dev/stdin": 0, "/dev/stdout": 1, "/dev/stderr": 2}
_DESCRIPTORS: Final = re.compile(r"(/dev/fd|/proc/(self|\d+)(/task/\d+)?/fd)")
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
    with errors.os_errors(given):
        try:
            mode = target.stat().st_mode
        except FileNotFoundError:
            mode = None
    if not target.parent.is_dir():
        raise errors.SourceNotFoundError(
            f"cannot write {given!r}: no such directory: {target.parent}"
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
    check_if_exists(if_exists)
    output = find_output(path)
    if output.path.exists() and if_exists == "error":
        raise _exists(output)
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
        with errors.os_errors(output.given), tempfile.TemporaryDirectory() as folder:
            prepared = Path(folder) / (Path(output.given).name or "output")
            yield prepared
            with _opened(output) as file, prepared.open("rb") as source:
                shutil.copyfileobj(source, file, _COPY_BYTES)
        return
    with errors.os_errors(output.given), scratch(output.path) as prepared:
        yield prepared
        if output.path.exists():
            prepared.chmod(stat.S_IMODE(output.path.stat().st_mode))
        try:
            put_in_place(prepared, output.path, replace=if_exists == "replace")
        except FileExistsError:
            raise _exists(output) from None


@contextmanager
def output_directory(path: str | Path) -> Iterator[Path]:
    """Hand out a path at which to prepare a directory; it replaces the one at ``path``."""
    given = os.fspath(path)
    target = follow_links(Path(os.path.abspath(given)), given)
    with errors.os_errors(given), scratch(target) as prepared:
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
    with errors.os_errors(output.given):
        if output.descriptor is not None:
            descriptor = os.dup(output.descriptor)
        else:
            descriptor = os.open(output.path, os.O_WRONLY | os.O_CLOEXEC | os.O_NOCTTY)
        with open(descriptor, "wb") as file:
            yield file


def _descriptor(path: Path) -> int | None:
    """Return the number of the open descriptor that a path means, if it means one."""
    for _ in range(_MAX_LINKS):
        if str(path) in _STANDARD:
            return _STANDARD[str(path)]
        folder = os.path.realpath(path.parent)
        if path.name.isdecimal() and _is_own(folder):
            return int(path.name)
        try:
            path = Path(os.path.normpath(os.path.join(folder, path.readlink())))
        except OSError:  # no link, or nothing there
            return None
    return None


def _is_own(folder: str) -> bool:
    """Return whether a directory lists the open descriptors of this process."""
    found = _DESCRIPTORS.fullmatch(folder)
    return found is not None and found[2] in (None, "self", str(os.getpid()))


def _exists(output: Output) -> errors.ExistsError:
    return errors.path_exists(output.given)

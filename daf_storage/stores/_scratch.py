"""Scratch directories: what is prepared in one appears beside it in a single rename.

A scratch directory is hidden, named after its target, and locked while its process lives.  One
that is not locked was left by a process that was killed: whoever prepares something for the same
target removes it.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from daf_storage import errors
from daf_storage.stores import _swap
from daf_storage.stores._locks import exclusive, new_locked_directory

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
        _swap.rename_new(source, target)
    elif not target.is_dir():
        os.replace(source, target)
    elif not _swap.exchange(source, target):
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

"""Changes of a directory: prepared below a token, and put in place.

A prefix takes its place by one rename or exchange of two names.  Several files of one directory
belong together, of which the first one, the *document*, says which others there are: it is taken
away first, and the new one comes last.  What is replaced in more than one step is written down
before anything is moved, so that a crash is undone.
"""

from __future__ import annotations

import functools
import itertools
import json
import os
import shutil
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, ParamSpec, TypeVar

import numpy as np

from daf_storage import errors
from daf_storage.base import STAGING_NAME, AnyArray
from daf_storage.stores._directories import discard, exchange, make_directories, remove_if_empty
from daf_storage.stores._files import allocate, map_file, names_in, release

TRASH: Final = "trash-"
OLD: Final = "old"
"""The directory beside a record in which the old files have the names that they had."""
_RECORD_FOLDER: Final = "files-"
_RECORD: Final = "record"

P = ParamSpec("P")
T = TypeVar("T")


class Token:
    """The directory in which changes are prepared, locked by its descriptor."""

    def __init__(self, path: Path, descriptor: int) -> None:
        self._path = path
        self._descriptor = descriptor
        self._owner = os.getpid()
        self._numbers = itertools.count()
        self.users = 0
        """How many transactions have a directory in it."""
        self.leaves_sign = False
        """Whether it stays, empty, for the next writer to find."""

    @property
    def is_own(self) -> bool:
        """Whether this process has made it: one that was forked has only a copy."""
        return self._owner == os.getpid()

    def folder(self) -> Path:
        """Return the path of a directory in it, for one transaction."""
        folder = self._path / str(next(self._numbers))
        folder.mkdir()
        return folder

    def end(self) -> None:
        """Remove it unless it is a sign, and unlock it."""
        try:
            if self.is_own and not self.leaves_sign:
                discard(self._path)
                remove_if_empty(self._path.parent)
        finally:
            release(self._descriptor, self._owner)


@dataclass(frozen=True, slots=True)
class Record:
    """What is being replaced or removed, written down before anything is moved."""

    is_restored: bool
    """Whether a crash brings the old files back; if not, the rest of them goes."""
    old: tuple[str, ...]
    """The files that are there, the document first; they have other names beside the record."""
    new: tuple[str, ...]
    """The files that take their place, the document first."""

    def undo(self, root: Path, folder: Path) -> None:
        """Bring back the old files, or take away the rest of them, unless the new are complete."""
        if (root / self.new[0]).exists():
            return
        restored = self.old if self.is_restored else ()
        for key in {*self.new, *self.old}.difference(restored):
            (root / key).unlink(missing_ok=True)
        for key in reversed(restored):  # the document comes last
            with suppress(FileNotFoundError):
                os.replace(folder / OLD / Path(key).name, root / key)


def records_in(token: Path) -> Iterator[tuple[Path, Record]]:
    """Yield the folders below a token that have a record, and what each says.

    One that was not written whole is none: nothing was moved yet.
    """
    for name in names_in(token):
        if name.startswith(_RECORD_FOLDER):
            try:
                document = json.loads((token / name / _RECORD).read_text())
                record = Record(document["restore"], tuple(document["old"]), tuple(document["new"]))
            except (OSError, ValueError, KeyError, TypeError):
                continue
            yield token / name, record


def _translated(method: Callable[P, T]) -> Callable[P, T]:
    """Let a method of a transaction raise what the file system refuses as a `DafError`."""

    @functools.wraps(method)
    def wrapped(*args: P.args, **kwargs: P.kwargs) -> T:
        changes: Any = args[0]
        with errors.os_errors(changes._location):  # noqa: SLF001 - its own method
            return method(*args, **kwargs)

    return wrapped


class DirectoryTransaction:
    """Changes prepared below one token directory; see `FileTransaction`.

    What the file system refuses is a `DafError`, but for the ``FileExistsError`` of `publish`.
    """

    def __init__(self, root: Path, folder: Path, location: str) -> None:
        self._root = root
        self._location = location
        self.folder = folder
        """Where they are prepared."""
        self._new = folder / "new"
        self._record_count = itertools.count()
        self.leaves_sign = False
        """Whether the directory of the token stays, for the next writer to find."""

    @_translated
    def write(self, key: str, data: bytes | memoryview) -> None:
        """Append ``data`` to the prepared file of ``key``."""
        with open(self._prepared(key), "ab") as file:
            file.write(data)

    @_translated
    def link(self, key: str, descriptor: int) -> bool:
        """Prepare another name of an open file for ``key``; say if the file system can do that."""
        try:
            # An absolute path needs no directory, but only with one are links followed.
            os.link(f"/proc/self/fd/{descriptor}", self._prepared(key), src_dir_fd=descriptor)
        except OSError:  # another file system, or none with hard links
            return False
        return True

    @_translated
    def reserve(self, key: str, size_bytes: int) -> AnyArray:
        """Return the prepared file of ``key``, mapped and writable.

        The space is allocated at once: a full disk is an error here, not a crash while filling.
        """
        with open(self._prepared(key), "w+b") as file:
            if size_bytes == 0:
                return np.empty(0, dtype=np.uint8)
            allocate(file.fileno(), 0, size_bytes)
            data = map_file(file.fileno(), size_bytes, what=key, is_writable=True)
            return np.frombuffer(data, np.uint8)

    @_translated
    def publish(
        self, key: str, others: Sequence[str] = (), stale: Sequence[str] = (), *, replace: bool
    ) -> None:
        """Put a prepared prefix in its place, or files that belong together, the document last."""
        target = self._root / key
        make_directories(target.parent)
        if target.exists() and not replace:
            raise FileExistsError(f"{target} exists")
        old = self._present([key, *others, *stale])
        if not others and not old:
            os.rename(self._new / key, target)
        elif others or old != (key,) or not exchange(self._new / key, target):
            self._replace(Record(key in old, old, (key, *others)))

    @_translated
    def remove(self, key: str, others: Sequence[str] = ()) -> None:
        """Take a prefix away, or files that belong together, the document first."""
        old = self._present([key, *others])
        if old:
            self._take_away(old, self._recorded(Record(is_restored=False, old=old, new=(key,))))

    @_translated
    def replace_file(self, key: str, data: bytes) -> None:
        """Write a file aside and rename it over the old one."""
        path = self.folder / "file"
        path.write_bytes(data)
        os.replace(path, self._root / key)

    @_translated
    def make_directory(self, key: str) -> None:
        """Prepare a directory, which may stay empty."""
        (self._new / key).mkdir(parents=True, exist_ok=True)

    def leave_sign(self) -> None:
        """Leave the directory of the transaction, empty: no space is needed for it."""
        self.leaves_sign = True

    def _replace(self, record: Record) -> None:
        """Put new files in the place of old ones, in several steps."""
        folder = self._recorded(record)
        try:
            self._take_away(record.old, folder)
            for key in reversed(record.new):
                os.rename(self._new / key, self._root / key)
        except BaseException:
            record.undo(self._root, folder)
            raise

    def _recorded(self, record: Record) -> Path:
        """Return a folder for old files; what takes several steps is written down in it."""
        folder = self.folder / f"{_RECORD_FOLDER}{next(self._record_count)}"
        (folder / OLD).mkdir(parents=True)
        if record.is_restored or len({*record.old, *record.new}) > 1:
            for key in record.old if record.is_restored else ():
                if not (self._root / key).is_dir():
                    _link_file(self._root / key, folder / OLD / Path(key).name)
            document = {"restore": record.is_restored, "old": record.old, "new": record.new}
            (folder / _RECORD).write_text(json.dumps(document))
        return folder

    def _take_away(self, keys: Sequence[str], folder: Path) -> None:
        """Take files away, which have other names by now, and directories, whose name changes."""
        for key in keys:
            path = self._root / key
            if path.is_dir():
                os.rename(path, folder / OLD / path.name)
            else:
                path.unlink(missing_ok=True)

    def _present(self, keys: Sequence[str]) -> tuple[str, ...]:
        return tuple(key for key in dict.fromkeys(keys) if (self._root / key).exists())

    def _prepared(self, key: str) -> Path:
        path = self._new / key
        if not path.parent.is_dir():
            path.parent.mkdir(parents=True, exist_ok=True)
        return path


def link_tree(source: Path, target: Path, without: list[str]) -> None:
    """Link every file into another directory, but for those at or below some prefixes."""
    left_out = {os.path.join(source, prefix) for prefix in without} | {str(source / STAGING_NAME)}
    for folder, names, files in os.walk(source):
        names[:] = [name for name in names if os.path.join(folder, name) not in left_out]
        copy = target / os.path.relpath(folder, source)
        copy.mkdir(exist_ok=True)
        shutil.copystat(folder, copy)
        for file in files:
            if os.path.join(folder, file) not in left_out:
                _link_file(os.path.join(folder, file), copy / file)


def _link_file(source: str | Path, target: Path) -> None:
    """Give a file another name, or copy it where there are no hard links."""
    try:
        os.link(source, target)
    except OSError:
        shutil.copyfile(source, target)


def throw_away(old: Path, root: Path) -> None:
    """Move what was replaced to what a directory throws away; it goes when no reader needs it."""
    trash = root / STAGING_NAME / f"{TRASH}{uuid.uuid4().hex}"
    while True:
        make_directories(trash.parent)
        try:
            os.rename(old, trash)
            break
        except FileNotFoundError:  # another writer removed the empty parent
            if not old.exists():
                raise
    discard(trash)
    remove_if_empty(trash.parent)

"""Changes of a directory: prepared below a token, put in place by one rename."""

from __future__ import annotations

import functools
import itertools
import os
import shutil
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, ParamSpec, TypeVar

import numpy as np

from daf_storage import errors
from daf_storage.base import AnyArray
from daf_storage.stores._directories import (
    discard,
    exchange,
    make_directories,
    release,
    remove_if_empty,
)
from daf_storage.stores._directory_snapshot import OLD, RECORD_FOLDER, Record, records_in
from daf_storage.stores._files import allocate, map_file

TRASH = "trash-"

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


def _translated(method: Callable[P, T]) -> Callable[P, T]:
    """Let a method of a transaction raise what the file system refuses as a `DafError`."""

    @functools.wraps(method)
    def wrapped(*args: P.args, **kwargs: P.kwargs) -> T:
        changes: Any = args[0]
        with errors.os_errors(changes._location):  # noqa: SLF001 - its own method
            return method(*args, **kwargs)

    return wrapped


class DirectoryTransaction:
    """Changes prepared below one token directory; see `Transaction`.

    What the file system refuses is a `DafError`, but for the ``FileExistsError`` of `publish`.
    """

    def __init__(self, root: Path, folder: Path, location: str) -> None:
        self._root = root
        self._location = location
        self.folder = folder
        """Where they are prepared."""
        self._new = folder / "new"
        self._old_count = 0
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
    def publish(self, prefix: str, *, replace: bool) -> None:
        """Rename the prepared directory into its place, exchanging it with what is there."""
        source, target = self._new / prefix, self._root / prefix
        make_directories(target.parent)
        if not target.exists():
            os.rename(source, target)
        elif not replace:
            raise FileExistsError(f"{target} exists")
        elif not exchange(source, target):  # `recover` restores the old one after a crash
            record = Record(is_restored=True, old=(prefix,), new=(prefix,))
            os.rename(target, self._record(record) / OLD / target.name)
            os.rename(source, target)

    @_translated
    def remove(self, prefix: str) -> None:
        """Rename the directory away; its files are deleted when the transaction ends."""
        self._old_count += 1
        with suppress(FileNotFoundError):
            os.rename(self._root / prefix, self.folder / f"old-{self._old_count}")

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

    @_translated
    def publish_files(
        self, document: str, others: Sequence[str], stale: Sequence[str], *, replace: bool
    ) -> None:
        """Put files in place that belong together, the document last."""
        target = self._root / document
        make_directories(target.parent)
        if target.exists() and not replace:
            raise FileExistsError(f"{target} exists")
        candidates = dict.fromkeys([document, *others, *stale])
        old = tuple(key for key in candidates if (self._root / key).exists())
        if not others and old in ((), (document,)):
            self.publish(document, replace=replace)
            return
        record = Record(document in old, old, (document, *others))
        folder = self._record(record)
        try:
            self._unlink(old)
            for key in (*others, document):
                os.rename(self._new / key, self._root / key)
        except BaseException:
            _undo(self._root, folder, record)
            raise

    @_translated
    def remove_files(self, document: str, others: Sequence[str]) -> None:
        """Take files away that belong together, the document first."""
        old = tuple(key for key in (document, *others) if (self._root / key).exists())
        if old:
            self._record(Record(is_restored=False, old=old, new=(document,)))
            self._unlink(old)

    def _record(self, record: Record) -> Path:
        """Write down what is about to be replaced, and return the folder with the old files."""
        self._old_count += 1
        folder = self.folder / f"{RECORD_FOLDER}{self._old_count}"
        (folder / OLD).mkdir(parents=True)
        for key in record.old if record.is_restored else ():
            if not (self._root / key).is_dir():
                link_file(self._root / key, folder / OLD / Path(key).name)
        record.write(folder)
        return folder

    def _unlink(self, keys: Sequence[str]) -> None:
        for key in keys:
            (self._root / key).unlink()

    def leave_sign(self) -> None:
        """Leave the directory of the transaction, empty: no space is needed for it."""
        self.leaves_sign = True

    def _prepared(self, key: str) -> Path:
        path = self._new / key
        if not path.parent.is_dir():
            path.parent.mkdir(parents=True, exist_ok=True)
        return path


def restore_replaced(root: Path, token: Path) -> None:
    """Bring back what was being replaced when a writer crashed, and take away what was removed."""
    for folder, record in records_in(token):
        _undo(root, folder, record)


def _undo(root: Path, folder: Path, record: Record) -> None:
    """Bring back the old files, or take away the rest of them, unless the new ones are complete."""
    if (root / record.new[0]).exists():
        return
    restored = record.old if record.is_restored else ()
    for key in {*record.new, *record.old}.difference(restored):
        (root / key).unlink(missing_ok=True)
    for key in reversed(restored):  # the document comes last
        with suppress(FileNotFoundError):
            os.replace(folder / OLD / Path(key).name, root / key)


def link_file(source: str | Path, target: Path) -> None:
    """Give a file another name, or copy it where there are no hard links."""
    try:
        os.link(source, target)
    except OSError:
        shutil.copyfile(source, target)

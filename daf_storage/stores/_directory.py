"""A store whose keys are files below one directory.

Reading pins a prefix by holding its directory open and locked (shared): files are then opened
relative to that descriptor, and nobody deletes them before the pin is gone, so a replaced or
deleted prefix stays readable as it was.

Writing prepares everything in ``ROOT/.daf.staging/TOKEN/new`` and puts a prefix in place by one
rename.  What it replaces moves below the token too and is deleted last, or later where a reader has
it pinned.  The token directory is locked while its writer lives, so that whoever opens the store
for writing later can tell a crashed writer's leftovers (and clear them) from a living one's.
"""

from __future__ import annotations

import fcntl
import functools
import glob
import hashlib
import mmap
import os
import shutil
import stat
import time
import uuid
import weakref
from collections.abc import Callable, Hashable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from pathlib import Path
from typing import Any, ParamSpec, TypeVar

import numpy as np

from daf_storage import errors
from daf_storage.base import STAGING_NAME, AnyArray
from daf_storage.stores import _identity, _swap
from daf_storage.stores._allocate import allocate
from daf_storage.stores._locks import (
    discard,
    exclusive,
    is_at,
    lock_shared,
    make_directories,
    names_in,
    new_locked_directory,
    remove_if_empty,
)
from daf_storage.stores._mapping import map_readonly
from daf_storage.stores._protocol import LocalReads
from daf_storage.stores._regular import not_regular, open_regular, refuse

STAGING = STAGING_NAME
"""Directory below the root in which changes are prepared; exists only while a writer works."""

REBUILD_SUFFIX = ".rebuilt"
"""How the copies end that are to take the place of a directory."""

_COPY_BYTES = 1 << 24
_READY_SUFFIX = ".ready"
_OLD_SUFFIX = ".old"
_TARGET_FILE = "target"
_TRASH = "trash-"
P = ParamSpec("P")
T = TypeVar("T")

_OLD = "old-"
_LOOKS = 100
_LOOK_SECONDS = 0.001


class DirectoryStore:
    """Bytes by key in the files of a directory.

    Parameters
    ----------
    root
        The directory; it need not exist until something is written.
    location
        The name used in messages; the path of ``root`` by default.
    """

    def __init__(self, root: str | Path, *, location: str | None = None) -> None:
        self.root = Path(os.path.abspath(root))
        self.location = location or str(root)

    def __repr__(self) -> str:
        return f"DirectoryStore({self.location!r})"

    @property
    def is_append_only(self) -> bool:
        """Whether what is there can be neither replaced nor removed: it can."""
        return False

    def snapshot(self, prefix: str) -> DirectorySnapshot | None:
        """Return a view of the directory at ``prefix`` that no writer can change."""
        found = self._snapshot(prefix)
        if found is None and prefix:
            found = self._snapshot_after_replacement(prefix)
        return found

    def _snapshot_after_replacement(self, prefix: str) -> DirectorySnapshot | None:
        """Look again: where two names cannot be exchanged, one is absent for a moment."""
        for _ in range(_LOOKS):
            was_replaced = self._is_being_replaced(prefix)
            found = self._snapshot(prefix)
            if found is not None or not (was_replaced or self._is_being_replaced(prefix)):
                return found
            time.sleep(_LOOK_SECONDS)
        return None

    def _is_being_replaced(self, prefix: str) -> bool:
        """Return whether a writer has moved ``prefix`` away to put another in its place."""
        staging = self.root / STAGING
        return any(
            f"{prefix}/".startswith(f"{target}/")
            for name in names_in(staging)
            if not name.startswith(_TRASH)
            for target, _ in _replaced(staging / name)
        )

    def _snapshot(self, prefix: str) -> DirectorySnapshot | None:
        path = self.root / prefix
        while True:
            try:
                descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
            except (FileNotFoundError, NotADirectoryError):
                return None
            except OSError as error:
                refuse(error, what=f"{self.location}: {prefix}" if prefix else self.location)
            # The root is never deleted, and its lock is the writers' (see `lock`).
            if not prefix or (lock_shared(descriptor) and is_at(descriptor, path)):
                return DirectorySnapshot(descriptor, str(path))
            os.close(descriptor)  # replaced or deleted this very moment: look again

    @contextmanager
    def transaction(self) -> Iterator[DirectoryTransaction]:
        """Begin changes; what was not published when the block ends is discarded."""
        staging = self.root / STAGING
        for name in names_in(staging):
            if name.startswith(_TRASH):
                discard(staging / name)
        with errors.os_errors(self.location):
            token, descriptor = self._new_token(staging)
        changes = DirectoryTransaction(self.root, token, self.location)
        try:
            yield changes
        finally:
            try:
                if changes.leaves_sign:
                    _empty(token)
                elif not discard(token):
                    with suppress(OSError):
                        os.rename(token, staging / f"{_TRASH}{token.name}")
            finally:
                os.close(descriptor)
            remove_if_empty(staging)

    def _new_token(self, staging: Path) -> tuple[Path, int]:
        def name() -> Path:
            make_directories(staging)
            return staging / uuid.uuid4().hex

        try:
            return new_locked_directory(name)
        except FileExistsError as error:  # a file in the place of the directory
            raise errors.from_os_error(error) from error
        except PermissionError as error:
            raise errors.ReadOnlyError(
                f"{self.location}: no permission to write here; open it with mode 'r', "
                "or ask for write access to the directory"
            ) from error

    def batch(self) -> AbstractContextManager[None]:
        """Do nothing: each publication is complete by itself."""
        return nullcontext()

    @contextmanager
    def lock(self) -> Iterator[None]:
        """Exclude other writers of this directory; the lock dies with the process."""
        while True:
            descriptor = os.open(self.root, os.O_RDONLY | os.O_DIRECTORY)
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX)
                if is_at(descriptor, self.root):  # or else it was rebuilt meanwhile
                    yield
                    return
            finally:
                os.close(descriptor)

    @contextmanager
    def rebuilt(self, token: str, without: list[str]) -> Iterator[DirectoryStore]:
        """Hand out a copy beside this directory, of hard links; the two are exchanged at the end.

        Raises
        ------
        InUseError
            Another writer is preparing something: it would be lost.
        """
        root = Path(os.path.realpath(self.root))
        with errors.os_errors(self.location), self.lock():
            self.recover()
            self._refuse_other_writers()
            aside = root.with_name(f".{root.name}.{_state(root, token)}{REBUILD_SUFFIX}")
            for stale in _beside(root, "*"):
                if stale != aside:
                    shutil.rmtree(stale, ignore_errors=True)
            try:
                _link_tree(root, aside, without)
                copy = DirectoryStore(aside, location=self.location)
                copy.recover()
                yield copy
                self._refuse_other_writers()
                _exchange(aside, root)
            except (Exception, KeyboardInterrupt, SystemExit):  # a crash leaves it, to go on
                shutil.rmtree(aside, ignore_errors=True)
                raise

    def _discard_exchanged(self) -> None:
        """Delete what a crash right before or after an exchange has left beside the directory."""
        root = Path(os.path.realpath(self.root))
        for leftover in _beside(root, ".*"):
            with suppress(OSError), exclusive(root), exclusive(leftover):
                shutil.rmtree(leftover)

    def _refuse_other_writers(self) -> None:
        if self.has_leftovers():
            raise errors.InUseError(
                f"{self.location}: another writer is at work; try again when it is done"
            )

    def has_leftovers(self) -> bool:
        """Return whether a writer is at work, or has crashed and left something behind."""
        return any(not name.startswith(_TRASH) for name in names_in(self.root / STAGING))

    def recover(self) -> bool:
        """Undo or clear away what crashed writers left; return whether there was anything."""
        self._discard_exchanged()
        staging = self.root / STAGING
        found = False
        for token in [staging / name for name in names_in(staging)]:
            with suppress(OSError), exclusive(token):
                _restore(self.root, token)
                discard(token)
                found = found or not token.name.startswith(_TRASH)
        remove_if_empty(staging)
        return found


class DirectorySnapshot(LocalReads):
    """A view of one directory, held by its descriptor; see `Snapshot`."""

    def __init__(self, descriptor: int, path: str) -> None:
        self._descriptor = descriptor
        self._path = path
        weakref.finalize(self, os.close, descriptor)

    def identity(self) -> tuple[Hashable, ...]:
        """Return what tells this directory from any other and from itself after a change.

        It looks at each file: programs rewrite files in place, which no directory shows.
        """
        return _identity.directory_identity(self._descriptor)

    def listing_identity(self, files: Iterable[str]) -> tuple[Hashable, ...]:
        """Return what changes with the directories directly below, or these files in them."""
        return _identity.listing_identity(self._descriptor, files)

    def is_same(self, other: object) -> bool:
        """Return whether another pin is of the same directory: both hold it open."""
        if not isinstance(other, DirectorySnapshot):
            return False
        return os.path.samestat(self.status(), other.status())

    def status(self) -> os.stat_result:
        """Return what the file system knows of the directory."""
        return os.fstat(self._descriptor)

    def names(self, key: str = "") -> list[str]:
        """Return the names directly below ``key``, sorted."""
        try:
            descriptor = os.open(key or ".", os.O_RDONLY | os.O_DIRECTORY, dir_fd=self._descriptor)
        except (FileNotFoundError, NotADirectoryError):
            return []
        except OSError as error:
            refuse(error, what=self._what(key))
        try:
            return sorted(os.listdir(descriptor))
        finally:
            os.close(descriptor)

    def read(self, key: str) -> bytes | None:
        """Return a copy of the file's bytes."""
        descriptor = self._open(key)
        if descriptor is None:
            return None
        with os.fdopen(descriptor, "rb") as file:
            try:
                return file.read()
            except OSError as error:
                refuse(error, what=self._what(key))

    def size(self, key: str) -> int | None:
        """Return the size of the file."""
        status = self._status(key)
        if status is None or stat.S_ISDIR(status.st_mode):
            return None
        if not stat.S_ISREG(status.st_mode):
            raise not_regular(status.st_mode, what=self._what(key))
        return status.st_size

    def fingerprint(self, key: str) -> list[int] | None:
        """Return inode, size and times of the file; None while it is too new to tell by them."""
        status = self._status(key)
        if status is None:
            return None
        return list(_identity.fingerprint(status)) if _identity.is_settled(status) else None

    def open_file(self, key: str) -> int | None:
        """Return a descriptor of the file."""
        return self._open(key)

    def map(self, key: str) -> memoryview | None:
        """Map the file; the mapping lives as long as a view of it."""
        descriptor = self._open(key)
        if descriptor is None:
            return None
        try:
            return map_readonly(descriptor, os.fstat(descriptor).st_size)
        except OSError as error:
            refuse(error, what=self._what(key))
        finally:
            os.close(descriptor)

    def _open(self, key: str) -> int | None:
        return open_regular(key, what=self._what(key), dir_fd=self._descriptor)

    def _status(self, key: str) -> os.stat_result | None:
        try:
            return os.stat(key, dir_fd=self._descriptor)
        except (FileNotFoundError, NotADirectoryError):
            return None
        except OSError as error:
            refuse(error, what=self._what(key))

    def _what(self, key: str) -> str:
        return os.path.join(self._path, key) if key else self._path


def _in_our_words(method: Callable[P, T]) -> Callable[P, T]:
    """Let a method of a transaction raise what the file system refuses as a `DafError`."""

    @functools.wraps(method)
    def wrapped(*args: P.args, **kwargs: P.kwargs) -> T:
        try:
            return method(*args, **kwargs)
        except FileExistsError:
            raise
        except OSError as error:
            changes: Any = args[0]
            raise errors.from_os_error(error, changes._location) from error  # noqa: SLF001 - its own method

    return wrapped


class DirectoryTransaction:
    """Changes prepared below one token directory; see `Transaction`.

    What the file system refuses is a `DafError`, but for the ``FileExistsError`` of `publish`.
    """

    def __init__(self, root: Path, token: Path, location: str) -> None:
        self._root = root
        self._location = location
        self._token = token
        self._new = token / "new"
        self._old_count = 0
        self.leaves_sign = False
        """Whether the directory of the transaction stays, for the next writer to find."""

    @_in_our_words
    def write(self, key: str, data: bytes | memoryview) -> None:
        """Append ``data`` to the prepared file of ``key``."""
        with open(self._prepared(key), "ab") as file:
            file.write(data)

    @_in_our_words
    def adopt(self, key: str, descriptor: int, *, link: bool) -> bool:
        """Link or copy the file within the kernel."""
        path = self._prepared(key)
        if link:
            with suppress(OSError):  # another file system, or none with hard links
                # An absolute path needs no directory, but only with one are links followed.
                os.link(f"/proc/self/fd/{descriptor}", path, src_dir_fd=descriptor)
                return True
        with open(path, "wb") as file:
            _copy_within_kernel(descriptor, file.fileno())
        return True

    @_in_our_words
    def reserve(self, key: str, size_bytes: int) -> AnyArray:
        """Return the prepared file of ``key``, mapped and writable.

        The space is allocated at once: a full disk is an error here, not a crash while filling.
        """
        with open(self._prepared(key), "w+b") as file:
            if size_bytes == 0:
                return np.empty(0, dtype=np.uint8)
            allocate(file.fileno(), 0, size_bytes)
            mapping = mmap.mmap(file.fileno(), size_bytes, access=mmap.ACCESS_WRITE)
        return np.frombuffer(mapping, dtype=np.uint8)

    @_in_our_words
    def publish(self, prefix: str, *, replace: bool) -> None:
        """Rename the prepared directory into its place, exchanging it with what is there."""
        source, target = self._new / prefix, self._root / prefix
        make_directories(target.parent)
        if not target.exists():
            os.rename(source, target)
        elif not replace:
            raise FileExistsError(f"{target} exists")
        elif not _swap.exchange(source, target):
            self._replace_in_two_steps(source, target, prefix)

    @_in_our_words
    def remove(self, prefix: str) -> None:
        """Rename the directory away; its files are deleted when the transaction ends."""
        with suppress(FileNotFoundError):
            os.rename(self._root / prefix, self._next_old("") / "data")

    @_in_our_words
    def replace_file(self, key: str, data: bytes) -> None:
        """Write a file aside and rename it over the old one."""
        path = self._token / "file"
        path.write_bytes(data)
        os.replace(path, self._root / key)

    def leave_sign(self) -> None:
        """Leave the directory of the transaction, empty: no space is needed for it."""
        self.leaves_sign = True

    def _replace_in_two_steps(self, source: Path, target: Path, prefix: str) -> None:
        """For file systems that cannot exchange: `recover` restores the old one after a crash."""
        os.rename(target, self._next_old(prefix) / "data")
        os.rename(source, target)

    def _next_old(self, prefix: str) -> Path:
        old = self._token / f"{_OLD}{self._old_count}"
        self._old_count += 1
        old.mkdir()
        (old / _TARGET_FILE).write_text(prefix)
        return old

    def _prepared(self, key: str) -> Path:
        path = self._new / key
        path.parent.mkdir(parents=True, exist_ok=True)
        return path


def _copy_within_kernel(source: int, target: int) -> None:
    """Copy a file; where the file system can, the two share their blocks."""
    size_bytes = os.fstat(source).st_size
    done = 0
    try:
        while done < size_bytes:
            count = os.copy_file_range(source, target, size_bytes - done, done, done)
            if count == 0:
                break
            done += count
    except (AttributeError, OSError):  # not Linux, or between two kinds of file systems
        done = min(done, size_bytes)
    while part := os.pread(source, _COPY_BYTES, done):
        done += os.pwrite(target, part, done)


def _restore(root: Path, token: Path) -> None:
    """Put back what a crash between the two steps of a replacement took away."""
    for prefix, data in _replaced(token):
        if not (root / prefix).exists():
            os.rename(data, root / prefix)


def _replaced(token: Path) -> Iterator[tuple[str, Path]]:
    """Yield what a writer has moved away to replace it: its prefix, and where it is now."""
    for name in names_in(token):
        data = token / name / "data"
        if name.startswith(_OLD) and data.exists():
            try:
                prefix = (token / name / _TARGET_FILE).read_text()
            except FileNotFoundError:  # its writer is removing it
                continue
            if prefix:
                yield prefix, data


def _empty(token: Path) -> None:
    """Delete what a transaction has left in its directory; what a reader has pinned goes later."""
    for name in names_in(token):
        with suppress(OSError):
            path = token / name
            if not path.is_dir():
                path.unlink()
            elif not discard(path):
                os.rename(path, token.parent / f"{_TRASH}{uuid.uuid4().hex}")


def unfinished_rebuilds(root: Path) -> list[Path]:
    """Return the copies beside a directory that a crash kept from taking its place."""
    return _beside(Path(os.path.realpath(root)), "")


def _beside(root: Path, ending: str) -> list[Path]:
    """Return the copies beside a directory, in whatever state their names end with."""
    start = glob.escape(f".{root.name}.")
    return sorted(root.parent.glob(f"{start}*{REBUILD_SUFFIX}{ending}"))


def interrupted_exchange(root: Path) -> Path | None:
    """Return where a directory is that a crash caught between two renames."""
    found = _beside(root, _OLD_SUFFIX)
    return found[0] if found and not root.exists() else None


def _state(root: Path, token: str) -> str:
    """Return what tells a rebuild of these very files from any other."""
    found = hashlib.sha256(token.encode())
    for folder, names, files in os.walk(root):
        names[:] = sorted(name for name in names if name != STAGING)
        for file in sorted(files):
            status = os.stat(os.path.join(folder, file))
            told = (os.path.relpath(os.path.join(folder, file), root), status.st_ino)
            found.update(repr((*told, status.st_size, status.st_mtime_ns)).encode())
    return found.hexdigest()[:16]


def _link_tree(source: Path, target: Path, without: list[str]) -> None:
    """Link every file into another directory, but for those below some prefixes."""
    left_out = {os.path.join(source, prefix) for prefix in without} | {str(source / STAGING)}
    try:
        target.mkdir(exist_ok=True)
    except PermissionError as error:
        raise errors.ReadOnlyError(
            f"{source}: this needs permission to write in the directory that it is in, "
            f"{source.parent}"
        ) from error
    for folder, names, files in os.walk(source):
        names[:] = [name for name in names if os.path.join(folder, name) not in left_out]
        copy = target / os.path.relpath(folder, source)
        copy.mkdir(exist_ok=True)
        shutil.copystat(folder, copy)
        for half in copy.glob(".*.copied"):
            half.unlink()
        for file in files:
            if not (copy / file).exists():
                _link(os.path.join(folder, file), copy / file)


def _link(source: str, target: Path) -> None:
    try:
        os.link(source, target)
    except OSError:  # a file system without hard links
        aside = target.with_name(f".{target.name}.copied")
        shutil.copyfile(source, aside)
        os.replace(aside, target)  # a crash must not leave half of it to be found again


def _exchange(aside: Path, root: Path) -> None:
    """Put a copy in the place of a directory; the old one goes when no reader needs it."""
    ready = aside.with_name(f"{aside.name}{_READY_SUFFIX}")  # from here on nothing is resumed
    os.rename(aside, ready)
    old = ready
    if not _swap.exchange(ready, root):
        old = aside.with_name(f"{aside.name}{_OLD_SUFFIX}")
        os.rename(root, old)
        os.rename(ready, root)
    trash = root / STAGING / f"{_TRASH}{uuid.uuid4().hex}"
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

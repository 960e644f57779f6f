"""A store whose keys are files below one directory.

Reading pins a prefix by holding its directory open and locked (shared): files are then opened
relative to that descriptor, and nobody deletes them before the pin is gone, so a replaced or
deleted prefix stays readable as it was.

Writing prepares everything in ``ROOT/.daf.staging/TOKEN/NUMBER/new`` and puts a prefix in place by
one rename.  What it replaces moves below the number too and is deleted last, or later where a
reader has it pinned.  The transactions of a batch have one token together.  The token directory is
locked while its writer lives, so that whoever opens the store for writing later can tell a crashed
writer's leftovers (and clear them) from a living one's.  A copy of the whole directory, changed,
takes its place in one step as well.

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
import stat
import time
import uuid
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, NamedTuple, ParamSpec, TypeAlias, TypeVar

import numpy as np

from daf_storage import errors
from daf_storage.base import STAGING_NAME, AnyArray, DecodedCache, ForkLock
from daf_storage.stores._directories import (
    discard,
    exchange,
    make_directories,
    new_locked_directory,
    put_in_place,
    remove_if_empty,
    scratch,
)
from daf_storage.stores._files import (
    Fingerprint,
    Snapshot,
    allocate,
    exclusive,
    files_identity,
    fingerprint,
    is_at,
    is_stable,
    locked,
    map_file,
    names_in,
    not_regular,
    open_regular,
    os_errors,
    refuse,
    release,
    stable,
    stable_fingerprint,
    status_at,
    try_lock,
)

TRASH: Final = "trash-"
OLD: Final = "old"
"""The directory beside a record in which the old files have the names that they had."""
_RECORD_FOLDER: Final = "files-"
_RECORD: Final = "record"

_MAX_DEPTH: Final = 16
"""So deep a directory is looked through for changes."""

P = ParamSpec("P")
T = TypeVar("T")


@dataclass(eq=False)
class Token:
    """The directory in which changes are prepared, locked by its descriptor."""

    _path: Path
    _descriptor: int
    _owner: int = field(default_factory=os.getpid)
    _numbers: Iterator[int] = field(default_factory=itertools.count)
    users: int = 0
    """How many transactions have a directory in it."""
    leaves_sign: bool = False
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
        with os_errors(changes._location):  # noqa: SLF001 - its own method
            return method(*args, **kwargs)

    return wrapped


class DirectoryTransaction:
    """Changes prepared below one token directory; see `Transaction`.

    What the file system refuses is a `DafError`, but for the ``FileExistsError`` of `publish`.
    """

    def __init__(self, root: Path, token: Token, location: str) -> None:
        self._root = root
        self._location = location
        self._token = token
        self.folder = token.folder()
        """Where they are prepared."""
        self._new = self.folder / "new"
        self._record_count = itertools.count()

    @_translated
    def write(self, key: str, data: bytes | memoryview) -> None:
        """Append ``data`` to the prepared file of ``key``."""
        with open(self._prepared(key), "ab") as file:
            file.write(data)

    @_translated
    def link(self, key: str, descriptor: int) -> None:
        """Prepare another name of an open file for ``key``; where that cannot be, a copy."""
        # An absolute path needs no directory, but only with one are links followed.
        _link_file(f"/dev/fd/{descriptor}", self._prepared(key), descriptor)

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
        """Put a prefix in its place, or files, in one step for whoever asks for the first.

        Parameters
        ----------
        key
            The prefix, or the document, without which nobody looks for the others.
        stale
            Files that may be there and belong to what is replaced.
        """
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
        """Leave the directory of the token, empty: no space is needed for it."""
        self._token.leaves_sign = True

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
    """Link every file into another directory, but for those at or below some prefixes.

    A symbolic link to a directory is made again, and followed only if such a prefix is below it.
    One to a directory that it lies in is left out.
    """
    left_out = {os.path.join(source, prefix) for prefix in without} | {str(source / STAGING_NAME)}
    for folder, names, files in os.walk(source, followlinks=True):
        copy = target / os.path.relpath(folder, source)
        copy.mkdir(exist_ok=True)
        shutil.copystat(folder, copy)
        names[:] = [name for name in names if os.path.join(folder, name) not in left_out]
        for link in filter(Path.is_symlink, [Path(folder, name) for name in names]):
            if not any(each.startswith(f"{link}/") for each in left_out):
                names.remove(link.name)
                if not Path(folder).resolve().is_relative_to(link.resolve()):
                    (copy / link.name).symlink_to(link.resolve())
        for file in files:
            if os.path.join(folder, file) not in left_out:
                _link_file(os.path.join(folder, file), copy / file)


def _link_file(source: str | Path, target: Path, dir_fd: int | None = None) -> None:
    """Give a file another name, or copy it: to another file system, or one without hard links."""
    try:
        os.link(source, target, src_dir_fd=dir_fd)
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


PartNames: TypeAlias = Callable[[bytes], Iterable[str]]
"""From the bytes of a document to the names of the other files."""

_LOOKS: Final = 100
_LOOK_SECONDS: Final = 0.001


_SMALL_BYTES: Final = 1 << 16
"""A file of so many bytes is read, which takes less time than to map it."""
_KEPT_BYTES: Final = 1 << 32
_KEPT_FILES: Final = 1 << 11


class _Mapped(NamedTuple):
    """A file that was opened and mapped."""

    status: os.stat_result
    """What the file system knows of it."""
    data: memoryview
    """Its bytes."""

    @property
    def nbytes(self) -> int:
        """How much of what is kept it counts for: of the number of files its share, too."""
        return max(self.data.nbytes, _KEPT_BYTES // _KEPT_FILES)


class DirectorySnapshot(Snapshot):
    """A view of one directory, held by its descriptor; see `Snapshot`.

    Parameters
    ----------
    descriptor
        The descriptor of the directory; closed with this object.
    path
        Where the directory is.
    kept
        What is kept of files from one snapshot to the next.
    """

    _descriptor = -1  # of one that Ctrl-C kept from being made

    def __init__(self, descriptor: int, path: str, kept: DecodedCache) -> None:
        self._descriptor = descriptor
        self.path = path
        """Where the directory was when it was opened."""
        self._kept = kept

    def __del__(self) -> None:
        """Let go of the directory."""
        if self._descriptor >= 0:
            os.close(self._descriptor)

    def identity(self) -> Hashable:
        """Return what tells this directory from any other and from itself after a change.

        It looks at each file: programs rewrite files in place, which no directory shows.
        """
        found = [("", self.status())]
        walk = os.fwalk(".", dir_fd=self._descriptor, follow_symlinks=True)
        for folder, folders, files, below in walk:  # what cannot be opened counts by its own state
            names = sorted(folders + files)
            found += [(f"{folder}/{name}", status_at(name, below)) for name in names]
            folders[:] = sorted(folders) if folder.count("/") < _MAX_DEPTH else []
        return files_identity(found)

    def version(self) -> Hashable:
        """Return inode, size and times of each file, which any process sees alike."""
        return stable(self.identity)

    def listing_identity(self, keys_of: Callable[[list[str]], Iterable[str]]) -> Hashable:
        """Return what changes with the directories directly below, or these files in them."""
        found = [("", self.status())]
        for key in keys_of(self.names()):
            with suppress(OSError):  # no directory, or one without this file
                found.append((key, os.stat(key, dir_fd=self._descriptor)))
        return files_identity(found)

    @property
    def place(self) -> Hashable:
        """Which directory it is; whoever holds it open keeps its inode from another one."""
        status = self.status()
        return status.st_dev, status.st_ino

    def status(self) -> os.stat_result:
        """Return what the file system knows of the directory."""
        return os.fstat(self._descriptor)

    def names(self, key: str = "") -> list[str]:
        """Return the names directly below ``key``, sorted."""
        flags = os.O_RDONLY | os.O_DIRECTORY
        try:  # a descriptor of its own: other threads may list it, too
            opened = os.open(key or ".", flags, dir_fd=self._descriptor)
            try:
                return sorted(os.listdir(opened))
            finally:
                os.close(opened)
        except (FileNotFoundError, NotADirectoryError):
            return []
        except OSError as error:
            refuse(error, what=self._what(key))

    def size(self, key: str) -> int | None:
        """Return the size of the file."""
        status = self.status_of(key)
        if status is None or stat.S_ISDIR(status.st_mode):
            return None
        if not stat.S_ISREG(status.st_mode):
            raise not_regular(status.st_mode, what=self._what(key))
        return status.st_size

    def fingerprint(self, key: str) -> Fingerprint | None:
        """Return inode, size and times of the file; None while it is too new to tell by them."""
        return stable_fingerprint(self.status_of(key))

    def open_file(self, key: str) -> int | None:
        """Return a descriptor of the file."""
        return open_regular(key, what=self._what(key), dir_fd=self._descriptor)

    def map(self, key: str) -> memoryview | None:
        """Map the file; the mapping lives as long as a view of it, or as it is kept."""
        found = self.mapped(key)
        return None if found is None else found.data

    def mapped(self, key: str) -> _Mapped | None:
        """Return the file, mapped, and what the file system knows of it."""
        status = self.status_of(key)
        if status is None:
            return None
        place = (status.st_dev, status.st_ino)
        kept: _Mapped | None = self._kept.peek(place, fingerprint(status))
        if kept is not None:
            return kept
        descriptor = self.open_file(key)
        if descriptor is None:
            return None
        found = _mapped(descriptor, self._what(key))
        if found.data.nbytes <= _KEPT_BYTES and is_stable(found.status):
            self._kept.keep(place, fingerprint(found.status), found)
        return found

    def files(self, document: str, parts: PartNames) -> PropertyFiles | None:
        """Open files that belong together; None if there is no such document.

        The same document before and after opening the others means that they do.

        Raises
        ------
        InUseError
            They are replaced again and again.
        """
        for _ in range(_LOOKS):
            first = self.mapped(document)
            if first is None:
                return None
            found = {name: self.mapped(name) for name in parts(bytes(first.data))}
            now = self.status_of(document)
            if now is not None and os.path.samestat(first.status, now):
                files = {name: one for name, one in found.items() if one is not None}
                return PropertyFiles(self.path, document, {document: first, **files})
        raise errors.InUseError(
            f"{self.path}/{document}: it is replaced again and again; read it when that is done"
        )

    def status_of(self, key: str) -> os.stat_result | None:
        """Return what the file system knows of a file; None if it is absent."""
        try:
            return os.stat(key, dir_fd=self._descriptor)
        except (FileNotFoundError, NotADirectoryError):
            return None
        except OSError as error:
            refuse(error, what=self._what(key))

    def _what(self, key: str) -> str:
        return f"{self.path}/{key}" if key else self.path


def _mapped(descriptor: int, what: str) -> _Mapped:
    """Return a file, mapped or, if it is small, read; the descriptor is closed."""
    with os.fdopen(descriptor, "rb") as file:
        try:
            status = os.fstat(descriptor)
            if status.st_size <= _SMALL_BYTES:
                return _Mapped(status, memoryview(file.read()))
            return _Mapped(status, map_file(descriptor, status.st_size, what=what))
        except OSError as error:
            refuse(error, what=what)


@dataclass(eq=False)
class PropertyFiles(Snapshot):
    """Files that belong together, mapped; see `Snapshot`, whose keys are their names."""

    _folder: str
    _document: str
    _files: Mapping[str, _Mapped]

    def identity(self) -> Hashable:
        """Return what differs whenever one of the files was replaced or written to."""
        return files_identity([(n, one.status) for n, one in self._files.items()])

    def version(self) -> Hashable:
        """Return inode, size and times of each file, which any process sees alike."""
        return stable(self.identity)

    @property
    def place(self) -> Hashable:
        """Which file the document is; of an empty one, the inode alone may be used again."""
        status = self._files[self._document].status
        return status.st_dev, status.st_ino, status.st_mtime_ns

    def map(self, key: str) -> memoryview | None:
        """Return the bytes of a file, mapped."""
        found = self._files.get(key)
        return None if found is None else found.data

    def fingerprint(self, key: str) -> Fingerprint | None:
        """Return inode, size and times of a file; None while it is too new to tell by them."""
        found = self._files.get(key)
        return None if found is None else stable_fingerprint(found.status)

    def open_file(self, key: str) -> int | None:
        """Return a descriptor of a file; None if another one has taken its place."""
        found = self._files.get(key)
        path = os.path.join(self._folder, key)
        descriptor = None if found is None else open_regular(path, what=path)
        if found is None or descriptor is None:
            return None
        if os.path.samestat(found.status, os.fstat(descriptor)):
            return descriptor
        os.close(descriptor)
        return None


class DirectoryStore:
    """Bytes by key in the files of a directory.

    Parameters
    ----------
    root
        The directory; it need not exist until something is written.
    location
        The name used in messages; the path of ``root`` by default.
    """

    is_append_only = False
    """What is there can be replaced and removed."""

    def __init__(self, root: str | Path, *, location: str | None = None) -> None:
        self.root = Path(os.path.abspath(root))
        self._root_path = os.fspath(self.root)  # a prefix is joined to it for each node
        self._staging = self.root / STAGING_NAME
        self.location = location or str(root)
        # To map a file again costs a page fault for each page that is touched, and to read a small
        # one takes ten times as long as to look at its times, which is done whenever it is used.
        self.kept = DecodedCache(max_bytes=_KEPT_BYTES)
        """Its files, mapped or read, kept while they are what they were; also deleted ones."""
        self._was_there = False
        self._batches = 0
        self._shared: Token | None = None
        self._tokens_lock = ForkLock()

    def snapshot(self, prefix: str) -> DirectorySnapshot | None:
        """Return a view of the directory at ``prefix`` that no writer can change.

        Raises
        ------
        SourceNotFoundError
            The store was there, and was deleted or moved.
        """
        found = self._snapshot(prefix)
        if found is None and prefix:  # where two names cannot be exchanged, one is absent for once
            for _ in looks():
                was_replaced = self._is_being_replaced(prefix)
                found = self._snapshot(prefix)
                if found is not None or not (was_replaced or self._is_being_replaced(prefix)):
                    break
        if found is None and self._was_there and not os.path.isdir(self._root_path):
            raise errors.SourceNotFoundError(  # to have nothing any more is no answer
                f"{self.location}: the directory was deleted, or moved, since it was opened; "
                "put it back, or open it where it is now"
            )
        self._was_there = self._was_there or found is not None
        return found

    def files(self, folder: str, document: str, parts: PartNames) -> PropertyFiles | None:
        """Return files of a directory that belong together; None if there is no such document.

        Parameters
        ----------
        parts
            From the bytes of the document to the names of the other files, if they are there.
        """
        key = f"{folder}/{document}" if folder else document
        for _ in looks():
            is_replaced = False
            replaced = (old for name, old in self._records() if name == key)
            for place in itertools.chain([folder], replaced):  # noted before it goes
                is_replaced = place != folder
                directory = self.snapshot(place)
                found = None if directory is None else directory.files(document, parts)
                if found is not None:
                    return found
            if not is_replaced:
                break  # or else it has been put in place since
        directory = self.snapshot(folder)
        return None if directory is None else directory.files(document, parts)

    def replaced_documents(self, folder: str) -> set[str]:
        """Return the names of documents in a directory that a writer has taken away for a moment.

        Or a crashed one, until another one opens the store for writing.
        """
        start = f"{folder}/" if folder else ""
        below = (key.removeprefix(start) for key, _ in self._records() if key.startswith(start))
        return {name for name in below if "/" not in name}

    def _records(self) -> Iterator[tuple[str, str]]:
        """Yield what writers replace, or had been replacing, and where the old files are."""
        for token in names_in(self._staging):
            for number in names_in(self._staging / token) if not token.startswith(TRASH) else ():
                for folder, record in records_in(self._staging / token / number):
                    if record.is_restored:
                        yield record.old[0], os.path.relpath(folder / OLD, self.root)

    def _is_being_replaced(self, prefix: str) -> bool:
        """Return whether a writer has moved ``prefix`` away to put another in its place."""
        return any(f"{prefix}/".startswith(f"{target}/") for target, _ in self._records())

    def _snapshot(self, prefix: str) -> DirectorySnapshot | None:
        path = f"{self._root_path}/{prefix}" if prefix else self._root_path
        while True:
            try:
                descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
            except (FileNotFoundError, NotADirectoryError):
                return None
            except OSError as error:
                refuse(error, what=f"{self.location}: {prefix}" if prefix else self.location)
            # The root is never deleted, and its lock is the writers' (see `lock`).
            if not prefix or (try_lock(descriptor) and is_at(descriptor, path)):
                return DirectorySnapshot(descriptor, path, self.kept)
            os.close(descriptor)  # replaced or deleted this very moment: look again

    @contextmanager
    def transaction(self) -> Iterator[DirectoryTransaction]:
        """Begin changes; what was not published when the block ends is discarded."""
        for name in names_in(self._staging):
            if name.startswith(TRASH):
                discard(self._staging / name)
        with os_errors(self.location):
            token = self._token()
        try:
            with os_errors(self.location):
                changes = DirectoryTransaction(self.root, token, self.location)
            try:
                yield changes
            finally:
                if not discard(changes.folder):  # a reader has a part of it pinned
                    with suppress(OSError):
                        os.rename(changes.folder, self._staging / f"{TRASH}{uuid.uuid4().hex}")
        finally:
            with self._tokens_lock:
                token.users -= 1
                if not token.users and token is not self._shared:
                    token.end()

    def _token(self) -> Token:
        """Return a directory for changes: in a batch, the one of the batch."""
        with self._tokens_lock:
            shared = self._shared
            if shared is None or not shared.is_own:
                shared = self._new_token()
                self._shared = shared if self._batches else None
            shared.users += 1
            return shared

    def _new_token(self) -> Token:
        def name() -> Path:
            make_directories(self._staging)
            return self._staging / uuid.uuid4().hex

        try:
            return Token(*new_locked_directory(name))
        except FileExistsError as error:  # a file in the place of the directory
            raise errors.from_os_error(error) from error
        except PermissionError as error:
            raise errors.ReadOnlyError(
                f"{self.location}: no permission to write here; open it with mode 'r', "
                "or ask for write access to the directory"
            ) from error

    @contextmanager
    def batch(self) -> Iterator[None]:
        """Prepare everything that is published within the block below one token.

        Each publication is complete by itself.  The token tells the next writer of a crash in the
        middle, when what belongs to all of them together may be missing.
        """
        with self._tokens_lock:
            self._batches += 1
        try:
            yield
        finally:
            with self._tokens_lock:
                self._batches -= 1
                if not self._batches:
                    self._end_shared()

    def _end_shared(self) -> None:
        """Clear away the directory of the batch, if there is one; another one may follow."""
        with self._tokens_lock:
            token, self._shared = self._shared, None
            if token is not None and not token.users:
                token.end()

    @contextmanager
    def lock(self) -> Iterator[None]:
        """Exclude other writers of this directory; the lock dies with the process."""
        while True:
            with locked(self.root) as descriptor:
                if is_at(descriptor, self.root):  # or else it was rebuilt meanwhile
                    yield
                    return

    @contextmanager
    def rebuilt(self, without: list[str]) -> Iterator[DirectoryStore]:
        """Hand out a copy beside this directory, of hard links; the two are exchanged at the end.

        Raises
        ------
        InUseError
            Another writer is preparing something: it would be lost.
        """
        root = Path(os.path.realpath(self.root))
        with os_errors(self.location), self.lock():
            self._end_shared()
            self.recover()
            self._refuse_other_writers()
            try:
                with scratch(root) as aside:
                    link_tree(root, aside, without)
                    yield DirectoryStore(aside, location=self.location)
                    self._refuse_other_writers()
                    throw_away(put_in_place(aside, root, replace=True), root)
            except PermissionError as error:
                if isinstance(error, errors.DafError):
                    raise
                raise errors.ReadOnlyError(
                    f"{root}: this needs permission to write in the directory {root.parent}"
                ) from error

    def _refuse_other_writers(self) -> None:
        if self.has_leftovers():
            raise errors.InUseError(
                f"{self.location}: another writer is at work; try again when it is done"
            )

    def has_leftovers(self) -> bool:
        """Return whether a writer is at work, or has crashed and left something behind."""
        return any(not name.startswith(TRASH) for name in names_in(self._staging))

    def recover(self) -> bool:
        """Undo or clear away what crashed writers left; return whether there was anything."""
        staging = self._staging
        found = False
        for token in [staging / name for name in names_in(staging)]:
            with suppress(OSError), exclusive(token):
                for name in names_in(token):
                    for folder, record in records_in(token / name):
                        record.undo(self.root, folder)
                discard(token)
                found = found or not token.name.startswith(TRASH)
        remove_if_empty(staging)
        return found


def looks() -> Iterator[None]:
    """Yield once, and then again after each short pause, a bounded number of times."""
    yield
    for _ in range(_LOOKS):
        time.sleep(_LOOK_SECONDS)
        yield

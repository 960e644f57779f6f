"""A view of a directory as it was when opened, and files of it that belong together.

A `DirectorySnapshot` holds the directory open and locked.  Of several files of one directory that
belong together and change together, the first one, the *document*, says which others there are.
Whoever replaces them takes the document away first and puts the new one in place last.  So whoever
finds the same document before and after opening the others has files that belong together; a crash
in between is undone, by a record with other names of the old ones.
"""

from __future__ import annotations

import json
import os
import stat
import time
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final, NamedTuple, TypeAlias

from daf_storage import errors
from daf_storage.base import DecodedCache
from daf_storage.stores._directories import names_in
from daf_storage.stores._files import (
    directory_identity,
    files_identity,
    fingerprint,
    is_stable,
    listing_identity,
    map_file,
    names_at,
    not_regular,
    open_regular,
    refuse,
    stable,
)
from daf_storage.stores._protocol import Snapshot


@dataclass(frozen=True, slots=True)
class _Mapped:
    """A file that was opened and mapped."""

    status: os.stat_result
    """What the file system knows of it."""
    data: memoryview
    """Its bytes."""

    def fingerprint(self) -> list[int] | None:
        """Return inode, size and times; None while it is too new to tell by them."""
        return list(fingerprint(self.status)) if is_stable(self.status) else None


_SMALL_BYTES: Final = 1 << 16
"""A file of so many bytes is read, which takes less time than to map it."""
_KEPT_BYTES: Final = 1 << 32
_KEPT_FILES: Final = 1 << 11


class _Kept(NamedTuple):
    """What is kept of a file: it counts for its share of the number of files, too."""

    data: memoryview

    @property
    def nbytes(self) -> int:
        return max(self.data.nbytes, _KEPT_BYTES // _KEPT_FILES)


def file_cache() -> DecodedCache:
    """Return a cache of files, mapped or read, bounded in their number and in their bytes.

    To map a file again costs a page fault for each page that is touched, and to read a small one
    takes ten times as long as to look at its times.  An entry counts only for the inode, size and
    times that its file had: they are looked at whenever it is used.
    """
    return DecodedCache(max_bytes=_KEPT_BYTES)


class DirectorySnapshot(Snapshot):
    """A view of one directory, held by its descriptor; see `Snapshot`.

    Parameters
    ----------
    descriptor
        Of the directory; closed with this object.
    path
        Where the directory is.
    kept
        What is kept of files from one snapshot to the next.
    """

    _descriptor = -1  # of one that Ctrl-C kept from being made

    def __init__(self, descriptor: int, path: str, kept: DecodedCache | None = None) -> None:
        self._descriptor = descriptor
        self.path = path
        """Where the directory was when it was opened."""
        self._kept = file_cache() if kept is None else kept

    def __del__(self) -> None:
        """Let go of the directory."""
        if self._descriptor >= 0:
            os.close(self._descriptor)

    def identity(self) -> Hashable:
        """Return what tells this directory from any other and from itself after a change.

        It looks at each file: programs rewrite files in place, which no directory shows.
        """
        return directory_identity(self._descriptor)

    def version(self) -> Hashable:
        """Return inode, size and times of each file, which any process sees alike."""
        return stable(self.identity)

    def listing_identity(self, files: Iterable[str]) -> Hashable:
        """Return what changes with the directories directly below, or these files in them."""
        return listing_identity(self._descriptor, files)

    def files_identity(self, endings: tuple[str, ...]) -> Hashable:
        """Return what changes with the files directly below whose names end so."""
        found = [("", self.status())]
        for name in self.names():
            status = self.status_of(name) if name.endswith(endings) else None
            if status is not None:
                found.append((name, status))
        return files_identity(found)

    def is_same(self, other: object) -> bool:
        """Return whether another pin is of the same directory."""
        return isinstance(other, DirectorySnapshot) and os.path.samestat(  # both hold it open
            self.status(), other.status()
        )

    def status(self) -> os.stat_result:
        """Return what the file system knows of the directory."""
        return os.fstat(self._descriptor)

    def names(self, key: str = "") -> list[str]:
        """Return the names directly below ``key``, sorted."""
        try:
            return names_at(self._descriptor, key or ".")
        except (FileNotFoundError, NotADirectoryError):
            return []
        except OSError as error:
            refuse(error, what=self._what(key))

    def read(self, key: str) -> bytes | None:
        """Return a copy of the file's bytes."""
        found = self.mapped(key)
        return None if found is None else bytes(found.data)

    def size(self, key: str) -> int | None:
        """Return the size of the file."""
        status = self.status_of(key)
        if status is None or stat.S_ISDIR(status.st_mode):
            return None
        if not stat.S_ISREG(status.st_mode):
            raise not_regular(status.st_mode, what=self._what(key))
        return status.st_size

    def fingerprint(self, key: str) -> list[int] | None:
        """Return inode, size and times of the file; None while it is too new to tell by them."""
        status = self.status_of(key)
        return None if status is None else _Mapped(status, memoryview(b"")).fingerprint()

    def open_file(self, key: str) -> int | None:
        """Return a descriptor of the file."""
        return self._open(key)

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
        kept = self._kept.peek(place, fingerprint(status))
        if kept is not None:
            return _Mapped(status, kept.data)
        descriptor = self._open(key)
        if descriptor is None:
            return None
        found = _mapped(descriptor, self._what(key))
        if found.data.nbytes <= _KEPT_BYTES and is_stable(found.status):
            place = (found.status.st_dev, found.status.st_ino)
            self._kept.keep(place, fingerprint(found.status), _Kept(found.data))
        return found

    def status_of(self, key: str) -> os.stat_result | None:
        """Return what the file system knows of a file; None if it is absent."""
        try:
            return os.stat(key, dir_fd=self._descriptor)
        except (FileNotFoundError, NotADirectoryError):
            return None
        except OSError as error:
            refuse(error, what=self._what(key))

    def _open(self, key: str) -> int | None:
        """Return a descriptor of the file, to be closed; None if it is absent."""
        return open_regular(key, what=self._what(key), dir_fd=self._descriptor)

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


# Files that belong together.

PartNames: TypeAlias = Callable[[bytes], Iterable[str]]
"""From the bytes of a document to the names of the other files."""

RECORD_FOLDER: Final = "files-"
_RECORD: Final = "record"
OLD: Final = "old"
"""The directory beside a record in which the old files have the names that they had."""
_LOOKS: Final = 100
_LOOK_SECONDS: Final = 0.001


class PropertyFiles(Snapshot):
    """Files that belong together, mapped; see `Snapshot`, whose keys are their names."""

    def __init__(self, folder: str, document: str, files: Mapping[str, _Mapped]) -> None:
        self._folder = folder
        self._document = document
        self._files = files

    def identity(self) -> Hashable:
        """Return what differs whenever one of the files was replaced or written to."""
        return files_identity([(n, one.status) for n, one in self._files.items()])

    def version(self) -> Hashable:
        """Return inode, size and times of each file, which any process sees alike."""
        return stable(self.identity)

    def is_same(self, other: object) -> bool:
        """Return whether another snapshot has the same document."""
        return isinstance(other, PropertyFiles) and self.place == other.place

    @property
    def place(self) -> tuple[int, int, int]:
        """Return which file the document is; of an empty one, the inode alone may be used again."""
        status = self._files[self._document].status
        return status.st_dev, status.st_ino, status.st_mtime_ns

    def names(self, key: str = "") -> list[str]:
        """Return the names of the files."""
        return [] if key else sorted(self._files)

    def map(self, key: str) -> memoryview | None:
        """Return the bytes of a file, mapped."""
        found = self._files.get(key)
        return None if found is None else found.data

    def fingerprint(self, key: str) -> list[int] | None:
        """Return inode, size and times of a file; None while it is too new to tell by them."""
        found = self._files.get(key)
        return None if found is None else found.fingerprint()

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


def open_files(
    directory: DirectorySnapshot, document: str, parts: PartNames
) -> PropertyFiles | None:
    """Open files of a directory that belong together; None if there is no such document.

    Raises
    ------
    InUseError
        They are replaced again and again.
    """
    for _ in range(_LOOKS):
        first = directory.mapped(document)
        if first is None:
            return None
        found = {name: directory.mapped(name) for name in parts(bytes(first.data))}
        now = directory.status_of(document)
        if now is not None and os.path.samestat(first.status, now):
            files = {name: one for name, one in found.items() if one is not None}
            return PropertyFiles(directory.path, document, {document: first, **files})
    raise errors.InUseError(
        f"{directory.path}/{document}: it is replaced again and again; read it when that is done"
    )


@dataclass(frozen=True, slots=True)
class Record:
    """What is being replaced or removed, written down before anything is moved."""

    is_restored: bool
    """Whether a crash brings the old files back; if not, the rest of them goes."""
    old: tuple[str, ...]
    """The files that are there, the document first; they have other names beside the record."""
    new: tuple[str, ...]
    """The files that take their place, the document first."""

    def write(self, folder: Path) -> None:
        """Write it into its folder, which has the old files by now."""
        document = {"restore": self.is_restored, "old": self.old, "new": self.new}
        (folder / _RECORD).write_text(json.dumps(document))


def records_in(token: Path) -> Iterator[tuple[Path, Record]]:
    """Yield the folders below a token that have a record, and what each says.

    One that was not written whole is none: nothing was moved yet.
    """
    for name in names_in(token):
        if name.startswith(RECORD_FOLDER):
            try:
                document = json.loads((token / name / _RECORD).read_text())
                record = Record(document["restore"], tuple(document["old"]), tuple(document["new"]))
            except (OSError, ValueError, KeyError, TypeError):
                continue
            yield token / name, record


def looks() -> Iterator[None]:
    """Yield once, and then again after each short pause, a bounded number of times."""
    yield
    for _ in range(_LOOKS):
        time.sleep(_LOOK_SECONDS)
        yield

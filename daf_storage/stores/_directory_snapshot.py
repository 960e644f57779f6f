"""The snapshot of a directory below a key, as it was when opened; its descriptor is locked."""

from __future__ import annotations

import functools
import os
import stat
from collections.abc import Callable, Hashable, Iterable
from typing import Any, ParamSpec, TypeVar

from daf_storage import errors
from daf_storage.stores import _identity
from daf_storage.stores._kept_files import MAX_DOCUMENT_BYTES, KeptFiles
from daf_storage.stores._mapping import map_file
from daf_storage.stores._protocol import Snapshot
from daf_storage.stores._regular import not_regular, open_regular, refuse

P = ParamSpec("P")


T = TypeVar("T")


class DirectorySnapshot(Snapshot):
    """A view of one directory, held by its descriptor; see `Snapshot`.

    Parameters
    ----------
    descriptor
        Of the directory; closed with this object.
    path
        Where the directory is.
    kept
        What is kept of files from one snapshot to the next; nothing by default.
    """

    _descriptor = -1  # of one that Ctrl-C kept from being made

    def __init__(self, descriptor: int, path: str, kept: KeptFiles | None = None) -> None:
        self._descriptor = descriptor
        self.path = path
        """Where the directory was when it was opened."""
        self._kept = KeptFiles(max_files=0) if kept is None else kept
        self._statuses: dict[str, os.stat_result | None] = {}

    def __del__(self) -> None:
        """Let go of the directory."""
        if self._descriptor >= 0:
            os.close(self._descriptor)

    def identity(self) -> tuple[Hashable, ...]:
        """Return what tells this directory from any other and from itself after a change.

        It looks at each file: programs rewrite files in place, which no directory shows.
        """
        return _identity.directory_identity(self._descriptor)

    def version(self) -> Hashable:
        """Return inode, size and times of each file, which any process sees alike."""
        return _identity.directory_version(self._descriptor)

    def listing_identity(self, files: Iterable[str]) -> tuple[Hashable, ...]:
        """Return what changes with the directories directly below, or these files in them."""
        return _identity.listing_identity(self._descriptor, files)

    def files_identity(self, endings: tuple[str, ...]) -> tuple[Hashable, ...]:
        """Return what changes with the files directly below whose names end so."""
        found = [("", self.status())]
        for name in self.names():
            status = self.status_of(name) if name.endswith(endings) else None
            if status is not None:
                found.append((name, status))
        return _identity.files_identity(found)

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
        status = self._first_status(key)
        if status is None:
            return None
        kept = self._kept.find(status, is_mapped=False)
        if kept is not None:
            return bytes(kept)
        descriptor = self.open_key(key)
        if descriptor is None:
            return None
        with os.fdopen(descriptor, "rb") as file:
            try:
                status = os.fstat(descriptor)
                data = file.read()
            except OSError as error:
                refuse(error, what=self._what(key))
        if len(data) <= MAX_DOCUMENT_BYTES:
            self._kept.keep(status, self._what(key), memoryview(data), is_mapped=False)
        return data

    def size(self, key: str) -> int | None:
        """Return the size of the file, as it was when this was first asked for."""
        status = self._first_status(key)
        if status is None or stat.S_ISDIR(status.st_mode):
            return None
        if not stat.S_ISREG(status.st_mode):
            raise not_regular(status.st_mode, what=self._what(key))
        return status.st_size

    def fingerprint(self, key: str) -> list[int] | None:
        """Return inode, size and times of the file; None while it is too new to tell by them."""
        status = self.status_of(key)
        if status is None:
            return None
        return list(_identity.fingerprint(status)) if _identity.is_settled(status) else None

    def open_file(self, key: str) -> int | None:
        """Return a descriptor of the file."""
        return self.open_key(key)

    def map(self, key: str) -> memoryview | None:
        """Map the file; the mapping lives as long as a view of it, or as it is kept."""
        status = self.status_of(key)
        if status is None:
            return None
        kept = self._kept.find(status, is_mapped=True)
        if kept is not None:
            return kept
        descriptor = self.open_key(key)
        if descriptor is None:
            return None
        try:
            status = os.fstat(descriptor)
            data = map_file(descriptor, status.st_size, what=self._what(key))
        except OSError as error:
            refuse(error, what=self._what(key))
        finally:
            os.close(descriptor)
        self._kept.keep(status, self._what(key), data, is_mapped=True)
        return data

    def open_key(self, key: str) -> int | None:
        """Return a descriptor of the file, to be closed; None if it is absent."""
        return open_regular(key, what=self._what(key), dir_fd=self._descriptor)

    def status_of(self, key: str) -> os.stat_result | None:
        """Return what the file system knows of a file; None if it is absent."""
        try:
            return os.stat(key, dir_fd=self._descriptor)
        except (FileNotFoundError, NotADirectoryError):
            return None
        except OSError as error:
            refuse(error, what=self._what(key))

    def _first_status(self, key: str) -> os.stat_result | None:
        """Return the status of a file as this snapshot first saw it.

        Only of what is read at once: a file that is mapped may have become shorter since.
        """
        if key not in self._statuses:
            self._statuses[key] = self.status_of(key)
        return self._statuses[key]

    def _what(self, key: str) -> str:
        return f"{self.path}/{key}" if key else self.path


def translated_errors(method: Callable[P, T]) -> Callable[P, T]:
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

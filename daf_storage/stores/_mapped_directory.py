"""The directory of a property as it was mapped, kept as long as nothing in it changes.

A property is a few files: documents, and a chunk for each of its arrays.  Once all of them are in
memory, neither a descriptor nor a lock is needed to read them as they belong together.  One look at
each file and each directory says whether they are still what is there.
"""

from __future__ import annotations

import os
import stat
from collections import Counter, OrderedDict
from collections.abc import Hashable, Iterable
from typing import Any, Final

from daf_storage.base import ForkLock
from daf_storage.stores import _identity
from daf_storage.stores._directory_snapshot import DirectorySnapshot
from daf_storage.stores._kept_files import KeptFiles
from daf_storage.stores._protocol import LocalReads
from daf_storage.stores._regular import open_regular

MOST_FILES: Final = 24
"""How many files and directories are kept of a property; others are opened for each use."""
MOST_BYTES: Final = 1 << 30
"""How large its files may be, in all."""
MAX_DIRECTORIES: Final = 1 << 8
"""Of how many properties of a store."""

_MAX_SEEN: Final = 1 << 10
_OFTEN: Final = 3
_COPIED_BYTES: Final = 1 << 12


class MappedDirectory(LocalReads):
    """The files below a directory, in memory as they were when it was pinned; see `Snapshot`.

    Parameters
    ----------
    path
        Where the directory is.
    statuses
        What the file system said of the directory (``""``), and of what is below it, by key.
    files
        The bytes of the files.
    kept
        What counts the ranges that are asked for of a mapped file.
    """

    def __init__(
        self,
        path: str,
        statuses: dict[str, os.stat_result],
        files: dict[str, memoryview],
        kept: KeptFiles,
    ) -> None:
        self.path = path
        """Where the directory is."""
        self.derived: dict[Hashable, Any] = {}
        """What was made of it, which counts as long as it does."""
        self._statuses = statuses
        self._files = files
        self._kept = kept
        self._identity = _identity.files_identity(list(statuses.items()))
        self._looks = [
            (self._what(key), _identity.fingerprint(status)) for key, status in statuses.items()
        ]

    @classmethod
    def of(cls, directory: DirectorySnapshot, kept: KeptFiles) -> MappedDirectory | None:
        """Map a pinned directory; None if it is large, or was changed a moment ago."""
        statuses = directory.few_statuses(MOST_FILES)
        if statuses is None or not all(map(_identity.is_settled, statuses.values())):
            return None
        sizes = {key: s.st_size for key, s in statuses.items() if stat.S_ISREG(s.st_mode)}
        is_plain = all(stat.S_ISDIR(s.st_mode) for k, s in statuses.items() if k not in sizes)
        if not is_plain or sum(sizes.values()) > MOST_BYTES:
            return None
        files = {}
        for key, size in sizes.items():
            data: bytes | memoryview | None
            data = directory.read(key) if size <= _COPIED_BYTES else directory.map(key)
            if data is None:
                return None
            files[key] = memoryview(data)
        mapped = cls(directory.path, statuses, files, kept)
        return mapped if mapped.is_unchanged() else None

    def is_unchanged(self) -> bool:
        """Return whether each file and each directory is what it was, by a look at each."""
        try:
            for path, seen in self._looks:
                now = os.stat(path)
                if (now.st_ino, now.st_size, now.st_mtime_ns, now.st_ctime_ns) != seen:
                    return False
        except OSError:
            return False
        return True

    def identity(self) -> tuple[Hashable, ...]:
        """Return what tells this directory from any other and from itself after a change."""
        return self._identity

    def version(self) -> Hashable:
        """Return inode, size and times of each file, which any process sees alike."""
        return _identity.files_version(lambda: list(self._statuses.items()))

    def listing_identity(self, files: Iterable[str]) -> tuple[Hashable, ...]:
        """Return what changes with the directories directly below, or these files in them."""
        found = [("", self._statuses[""])]
        for name in self.names():
            firsts = (self._statuses.get(f"{name}/{file}") for file in files)
            found += [(name, status) for status in firsts if status is not None][:1]
        return _identity.files_identity(found)

    def is_same(self, other: object) -> bool:
        """Return whether another view is of the same directory.

        It is not held open, so another one may have its inode by now, but not its time.
        """
        if not isinstance(other, MappedDirectory | DirectorySnapshot):
            return False
        own, others = self.status(), other.status()
        return os.path.samestat(own, others) and own.st_ctime_ns == others.st_ctime_ns

    def status(self) -> os.stat_result:
        """Return what the file system said of the directory."""
        return self._statuses[""]

    def names(self, key: str = "") -> list[str]:
        """Return the names directly below ``key``, sorted."""
        start = f"{key}/" if key else ""
        below = (path.removeprefix(start) for path in self._statuses if path.startswith(start))
        return sorted(name for name in below if name and "/" not in name)

    def read(self, key: str) -> bytes | None:
        """Return a copy of the bytes of a file; of one that became shorter, those that are left."""
        data = self.map(key)
        return None if data is None else bytes(data)

    def size(self, key: str) -> int | None:
        """Return the length of a file."""
        data = self._files.get(key)
        return None if data is None else len(data)

    def fingerprint(self, key: str) -> list[int] | None:
        """Return inode, size and times of a file."""
        status = self._statuses.get(key)
        return None if status is None else list(_identity.fingerprint(status))

    def map(self, key: str) -> memoryview | None:
        """Return the bytes of a file.

        One that became shorter since would end the process when it is read, so it is looked at.
        """
        data = self._files.get(key)
        return data if data is None or self.is_whole(key) else data[: self._size_now(key)]

    def is_whole(self, key: str) -> bool:
        """Return whether a file has not become shorter, by a look at it."""
        seen = self._statuses[key]
        try:
            now = os.stat(f"{self.path}/{key}")
        except OSError:  # it was replaced or deleted; what is mapped stays
            return True
        return now.st_size >= seen.st_size or not os.path.samestat(now, seen)

    def _size_now(self, key: str) -> int:
        try:
            return os.stat(self._what(key)).st_size
        except OSError:
            return 0

    def open_file(self, key: str) -> int | None:
        """Return a descriptor of a file; None if another one has taken its place."""
        if key not in self._files:
            return None
        descriptor = open_regular(self._what(key), what=self._what(key))
        if descriptor is None:
            return None
        if os.path.samestat(self._statuses[key], os.fstat(descriptor)):
            return descriptor
        os.close(descriptor)
        return None

    def _what(self, key: str) -> str:
        return f"{self.path}/{key}" if key else self.path


class KeptDirectories:
    """The small properties of a store that were asked for again and again, bounded in number."""

    def __init__(self, kept: KeptFiles) -> None:
        self._kept = kept
        kept.dropped = self._forget_file
        self._directories: OrderedDict[str, MappedDirectory] = OrderedDict()
        self._seen: Counter[str] = Counter()
        self._lock = ForkLock()

    def __len__(self) -> int:
        """Return how many are kept."""
        return len(self._directories)

    def find(self, path: str) -> MappedDirectory | None:
        """Return the directory at a path if it is kept, and what it was."""
        with self._lock:
            directory = self._directories.get(path)
            if directory is not None:
                self._directories.move_to_end(path)
        if directory is None or directory.is_unchanged():
            return directory
        self._drop(path)
        return None

    def see(self, directory: DirectorySnapshot) -> MappedDirectory | DirectorySnapshot:
        """Return a directory that was pinned, mapped if it was asked for often and is small."""
        path = directory.path
        with self._lock:
            if len(self._seen) >= _MAX_SEEN:
                self._seen.clear()
            self._seen[path] += 1
            is_rare = self._seen[path] < _OFTEN
        mapped = None if is_rare else MappedDirectory.of(directory, self._kept)
        if mapped is None:
            return directory
        with self._lock:
            self._directories[path] = mapped
            oldest = next(iter(self._directories))
        if len(self) > MAX_DIRECTORIES:
            self._drop(oldest)
        return mapped

    def _forget_file(self, path: str) -> None:
        """Let go of what has a file that is no longer kept."""
        with self._lock:
            paths = [each for each in self._directories if path.startswith(f"{each}/")]
        for each in paths:
            self._drop(each)

    def clear(self) -> None:
        """Let go of everything."""
        for path in list(self._directories):
            self._drop(path)

    def _drop(self, path: str) -> None:
        with self._lock:
            directory = self._directories.pop(path, None)
        if directory is not None:
            directory.derived.clear()  # which refers to it: mappings go now, not some time later

"""Changes to an archive that are prepared aside and become visible together."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from daf_storage import errors
from daf_storage.base import AnyArray
from daf_storage.stores.mmap_zip import _records as records

_RESERVED_IN_FILE_BYTES = 1 << 20


@dataclass(frozen=True, slots=True, eq=False)
class Reservation:
    """Data that is being filled and that no directory names yet."""

    key: str
    """The name of the entry that it is to be."""
    offset: int
    """Where its local header is."""
    data: memoryview
    """The mapped file, writable."""

    @property
    def stop(self) -> int:
        """Where its data ends."""
        header_bytes = records.local_header_bytes(self.key.encode(), self.offset)
        return self.offset + header_bytes + len(self.data)

    @property
    def array(self) -> AnyArray:
        """The data as an array of bytes."""
        return np.frombuffer(self.data, dtype=np.uint8)


class Appendable(Protocol):
    """What a transaction asks of its archive."""

    @property
    def location(self) -> str:
        """The archive as messages name it."""
        ...

    def lock(self) -> AbstractContextManager[None]:
        """Exclude other writers."""
        ...

    def together(self) -> AbstractContextManager[None]:
        """Make everything within the block visible at once, to threads and on the disk."""
        ...

    def count_below(self, prefix: str) -> int:
        """Return how many entries there are below a prefix."""
        ...

    def get(self, key: str) -> memoryview | None:
        """Return the bytes of an entry."""
        ...

    def append_parts(self, key: str, parts: Sequence[bytes | memoryview]) -> None:
        """Add an entry."""
        ...

    def begin(self, key: str, size_bytes: int) -> Reservation:
        """Make room for an entry that is filled in place."""
        ...

    def complete(self, reservation: Reservation) -> None:
        """Add the entry that was filled in place."""
        ...

    def abandon(self, reservation: Reservation) -> None:
        """Give a reservation up."""
        ...


class ArchiveTransaction:
    """Prepared entries; see `Transaction`.

    Small ones wait in memory.  Large ones that are to be filled in place lie in the file already,
    where nothing names them yet.
    """

    def __init__(self, archive: Appendable) -> None:
        self._archive = archive
        self._parts: dict[str, list[bytes | memoryview]] = {}
        self._reserved: dict[str, Reservation] = {}

    def write(self, key: str, data: bytes | memoryview) -> None:
        """Remember ``data``, which must not change before it is published."""
        self._parts.setdefault(key, []).append(data)

    def adopt(self, key: str, descriptor: int, *, link: bool) -> bool:  # noqa: ARG002 - see below
        """Do nothing: all entries are in one file."""
        return False

    def reserve(self, key: str, size_bytes: int) -> AnyArray:
        """Return zeros to be filled: those of the file itself if there are many."""
        if size_bytes >= _RESERVED_IN_FILE_BYTES:
            self._reserved[key] = self._archive.begin(key, size_bytes)
            return self._reserved[key].array
        zeros = np.zeros(size_bytes, dtype=np.uint8)
        self._parts[key] = [zeros.data]
        return zeros

    def publish(self, prefix: str, *, replace: bool) -> None:
        """Add the prepared entries below ``prefix``, all at once.

        The smallest comes last, so that whoever checks the last entry of the archive, as the
        reference implementation does when it opens one for writing, has little to read.
        """
        with self._archive.lock():
            if self._archive.count_below(prefix) or self._archive.get(prefix) is not None:
                if replace:
                    raise errors.append_only(self._archive.location, prefix)
                raise FileExistsError(f"{prefix} exists")
            reserved = [key for key in self._reserved if _is_below(key, prefix)]
            written = [key for key in self._parts if _is_below(key, prefix)]
            with self._archive.together():
                for key in reserved:
                    self._archive.complete(self._reserved[key])
                    del self._reserved[key]
                for key in sorted(written, key=self._size_of, reverse=True):
                    self._archive.append_parts(key, self._parts.pop(key))

    def make_directory(self, key: str) -> None:
        """Do nothing: an archive has entries, and no directories."""

    def publish_files(
        self,
        document: str,
        others: Sequence[str],
        stale: Sequence[str],  # noqa: ARG002 - nothing can be there without its document
        *,
        replace: bool,
    ) -> None:
        """Add entries that belong together, the document last."""
        with self._archive.lock():
            if self._archive.get(document) is not None:
                if replace:
                    raise errors.append_only(self._archive.location, document)
                raise FileExistsError(f"{document} exists")
            with self._archive.together():
                for key in (*others, document):
                    self.publish(key, replace=False)

    def remove_files(self, document: str, others: Sequence[str]) -> None:  # noqa: ARG002 - as above
        """Refuse to take away what is there."""
        self.remove(document)

    def remove(self, prefix: str) -> None:
        """Refuse to take away what is there."""
        if self._archive.count_below(prefix) or self._archive.get(prefix) is not None:
            raise errors.append_only(self._archive.location, prefix)

    def replace_file(self, key: str, data: bytes) -> None:
        """Add an entry that is not there, or is there with these very bytes."""
        with self._archive.lock():
            found = self._archive.get(key)
            if found is None:
                self._archive.append_parts(key, [data])
            elif found != data:
                raise errors.append_only(self._archive.location, key)

    def leave_sign(self) -> None:
        """Do nothing: an archive changes in one step."""

    def abandon(self) -> None:
        """Give up what was not published."""
        self._parts.clear()
        for reservation in self._reserved.values():
            self._archive.abandon(reservation)
        self._reserved.clear()

    def _size_of(self, key: str) -> int:
        return sum(map(len, self._parts[key]))


def _is_below(key: str, prefix: str) -> bool:
    return not prefix or key == prefix or key.startswith(f"{prefix}/")

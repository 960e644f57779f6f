"""A consistent view of the entries of an archive below one prefix."""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from typing import Protocol

from daf_storage.stores._read_estimate import ReadEstimate


class Entries(Protocol):
    """What a pin asks of its archive; ``limit`` hides what was added later."""

    @property
    def is_local(self) -> bool:
        """Whether bytes cost nothing."""
        ...

    def find_ranges(self, name: str, ranges: list[tuple[int, int]], limit: int) -> list[memoryview]:
        """Return parts of the bytes of an entry, which must exist."""
        ...

    def estimate_ranges(
        self, name: str, ranges: list[tuple[int, int]], limit: int, estimate: ReadEstimate
    ) -> None:
        """Add what `find_ranges` would cost."""
        ...

    def find_names(self, prefix: str, limit: int) -> list[str]:
        """Return the first parts of the names below ``prefix``, sorted."""
        ...

    def versions(self, prefix: str, limit: int) -> tuple[Hashable, ...]:
        """Return name, place, size and CRC of the entries below ``prefix``."""
        ...

    def find_bytes(self, name: str, limit: int) -> memoryview | None:
        """Return the bytes of an entry; None if there is none."""
        ...

    def find_size(self, name: str, limit: int) -> int | None:
        """Return the length of an entry; None if there is none."""
        ...

    def is_mapped(self, name: str, alignment: int, limit: int) -> bool:
        """Return whether the bytes of an entry are in a mapping, at a multiple of so many."""
        ...


class ArchiveSnapshot:
    """A view of the entries that an archive had at one moment; see `Snapshot`."""

    __slots__ = ("_archive", "_limit", "_prefix", "_start", "_state", "entries")

    def __init__(
        self,
        archive: Entries,
        prefix: str,
        limit: int,
        entries: tuple[Hashable, ...],
        state: Hashable,
    ) -> None:
        self._archive = archive
        self._start = f"{prefix}/" if prefix else ""
        self._prefix = prefix
        self._limit = limit
        self.entries = entries
        """What changes whenever something is added below the prefix."""
        self._state = state

    @property
    def directory_identity(self) -> Hashable:
        """What changes whenever an entry that was there is taken out or replaced."""
        return self.entries[:-1]

    @property
    def archive_identity(self) -> Hashable:
        """What changes whenever that is so, or an entry is written to in place."""
        return self.entries[:-1], self._state

    @property
    def is_local(self) -> bool:
        """Whether `map` costs nothing."""
        return self._archive.is_local

    def read_ranges(self, key: str, ranges: list[tuple[int, int]]) -> list[memoryview]:
        """Return parts of the bytes of an entry."""
        return self._archive.find_ranges(self._start + key, ranges, self._limit)

    def estimate_ranges(
        self, key: str, ranges: list[tuple[int, int]], estimate: ReadEstimate
    ) -> None:
        """Add what `read_ranges` would cost."""
        self._archive.estimate_ranges(self._start + key, ranges, self._limit, estimate)

    def identity(self) -> Hashable:
        """Return what changes whenever something is added below the prefix, or rewritten."""
        return self.entries, self._state

    def version(self) -> Hashable:
        """Return name, place, size and CRC of the entries, which any process sees alike."""
        return self._archive.versions(self._prefix, self._limit)

    def listing_identity(self, files: Iterable[str]) -> Hashable:  # noqa: ARG002 - as for all pins
        """Return what changes whenever something is added below the prefix, or rewritten."""
        return self.entries, self._state

    def fingerprint(self, key: str) -> list[int] | None:  # noqa: ARG002 - as for all pins
        """Return nothing: an entry has no times of its own, and a rewritten one its old CRC."""
        return None

    def is_entry_mapped(self, key: str, alignment: int) -> bool:
        """Return whether the bytes of an entry are in the mapping, at a multiple of so many."""
        return self._archive.is_mapped(self._start + key, alignment, self._limit)

    def open_file(self, key: str) -> int | None:  # noqa: ARG002 - as for all pins
        """Return nothing: the bytes are not in a file of their own."""
        return None

    def is_same(self, other: object) -> bool:
        """Return whether another pin is of the very same entries."""
        return isinstance(other, ArchiveSnapshot) and self.entries == other.entries

    def names(self, key: str = "") -> list[str]:
        """Return the names directly below ``key``, sorted."""
        return self._archive.find_names(f"{self._start}{key}" if key else self._prefix, self._limit)

    def read(self, key: str) -> bytes | None:
        """Return a copy of the bytes."""
        data = self.map(key)
        return None if data is None else bytes(data)

    def size(self, key: str) -> int | None:
        """Return the number of bytes."""
        return self._archive.find_size(self._start + key, self._limit)

    def map(self, key: str) -> memoryview | None:
        """Return the bytes as they lie in the mapping; those of compressed entries are decoded."""
        return self._archive.find_bytes(self._start + key, self._limit)

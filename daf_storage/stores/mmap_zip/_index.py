"""The entries of an archive by name, while they are being added to.

Entries are numbered in the order in which they became visible.  Since nothing is ever replaced, a
consistent view is a number: whoever holds it sees the entries below it and none that came later.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterable

from daf_storage.stores.mmap_zip._records import Entry

_MANY = 64
_AFTER_SLASH = chr(ord("/") + 1)


class EntryIndex:
    """Entries by name and by prefix."""

    def __init__(self, entries: Iterable[Entry] = ()) -> None:
        self.keep(entries)

    def __len__(self) -> int:
        return len(self.entries)

    def find(self, name: str, limit: int | None = None) -> Entry | None:
        """Return the entry of this name, if its number is below ``limit``."""
        number = self._numbers.get(name)
        if number is None or (limit is not None and number >= limit):
            return None
        return self.entries[number]

    def find_size(self, name: str, limit: int | None = None) -> int | None:
        """Return the length of the data of an entry when uncompressed; see `find`."""
        entry = self.find(name, limit)
        return None if entry is None else entry.size_bytes

    def add(self, entries: list[Entry]) -> None:
        """Add entries under the next numbers; their names must be new."""
        first = len(self.entries)
        self.entries.extend(entries)
        self._numbers.update((e.name, first + i) for i, e in enumerate(entries))
        if len(entries) > _MANY:
            self._names.extend(e.name for e in entries)
            self._names.sort()
        else:
            for entry in entries:
                insort(self._names, entry.name)

    def keep(self, kept: Iterable[Entry]) -> None:
        """Forget all entries but these."""
        self.entries = list(kept)
        """All entries by number; a name that occurs twice means the later one."""
        self._numbers = {
            entry.name: number
            for number, entry in enumerate(self.entries)
            if not entry.name.endswith("/")
        }
        self._names = sorted(self._numbers)

    def names(self) -> list[str]:
        """Return all names, sorted, without those of directories."""
        return list(self._names)

    def below(self, prefix: str, limit: int | None = None) -> list[str]:
        """Return the names that begin with ``prefix`` and a slash, sorted."""
        start, stop = self._range(prefix)
        found = self._names[start:stop]
        if limit is None or limit >= len(self.entries):
            return found
        return [name for name in found if self._numbers[name] < limit]

    def count_below(self, prefix: str, limit: int | None = None) -> int:
        """Return how many names begin with ``prefix`` and a slash."""
        if limit is not None and limit < len(self.entries):
            return len(self.below(prefix, limit))
        start, stop = self._range(prefix)
        return stop - start

    def children(self, prefix: str, limit: int | None = None) -> list[str]:
        """Return the first parts of the names below ``prefix``, sorted, each once."""
        cut = len(prefix) + 1 if prefix else 0
        return sorted({name[cut:].split("/", 1)[0] for name in self.below(prefix, limit)})

    def _range(self, prefix: str) -> tuple[int, int]:
        if not prefix:
            return 0, len(self._names)
        start = bisect_left(self._names, f"{prefix}/")
        return start, bisect_left(self._names, f"{prefix}{_AFTER_SLASH}", start)

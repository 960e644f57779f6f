"""A memory of what was decoded, bounded in bytes, so that no query decodes it again."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Any

from daf_storage.base._threads import ForkLock

MAX_BYTES = 512 << 20
"""How much is remembered if nobody says."""


class _LRU:
    """The entries of all parts of a cache, the least recently used first."""

    def __init__(self, max_bytes: int) -> None:
        self.max_bytes = max_bytes
        self.entries: OrderedDict[Hashable, tuple[Hashable, Any, int]] = OrderedDict()
        self.size_bytes = 0
        self.lock = ForkLock()

    def find(self, key: Hashable, identity: Hashable) -> Any:
        """Return what was decoded under an identity, or None; the lock is held."""
        entry = self.entries.get(key)
        if entry is None or entry[0] != identity:
            return None
        self.entries.move_to_end(key)
        return entry[1]

    def put(self, key: Hashable, identity: Hashable, decoded: Any) -> None:
        """Remember, and forget others if there is too much; the lock is held."""
        self.drop(key)
        self.entries[key] = (identity, decoded, int(decoded.nbytes))
        self.size_bytes += int(decoded.nbytes)
        while len(self.entries) > 1 and self.size_bytes > self.max_bytes:
            self.drop(next(iter(self.entries)))

    def drop(self, key: Hashable) -> None:
        """Forget one entry, if it is there; the lock is held."""
        entry = self.entries.pop(key, None)
        self.size_bytes -= 0 if entry is None else entry[2]


class DecodedCache:
    """Recently decoded Arrow arrays, and whatever has ``nbytes``, by key, bounded in bytes.

    An entry counts only for the identity it was decoded under: a property that was replaced since,
    by whomever, is decoded again.

    Parameters
    ----------
    max_bytes
        How much is remembered, about; the newest entry stays even if it is larger.
    """

    def __init__(self, *, max_bytes: int = MAX_BYTES) -> None:
        self._room = _LRU(max_bytes)
        self._owner: object = self
        self.hits = 0
        """How often something was found here."""

    def part(self) -> DecodedCache:
        """Return a cache with keys of its own, which shares the room of this one."""
        shared = DecodedCache()
        shared._room = self._room
        return shared

    def counter(self) -> DecodedCache:
        """Return a cache with the same entries as this one, and a count of hits of its own."""
        twin = self.part()
        twin._owner = self._owner  # noqa: SLF001 - our own
        return twin

    @property
    def nbytes(self) -> int:
        """How many bytes are remembered, by all parts together."""
        return self._room.size_bytes

    def get(self, key: Hashable, identity: Hashable, decode: Callable[[], Any]) -> Any:
        """Return the array of ``key``, decoding it if it is not here or was replaced."""
        with self._room.lock:
            array = self._room.find((self._owner, key), identity)
        if array is not None:
            self.hits += 1
            return array
        decoded = decode()
        with self._room.lock:
            self._room.put((self._owner, key), identity, decoded)
        return decoded

    def keep(self, key: Hashable, identity: Hashable, decoded: Any) -> None:
        """Remember an array that was not here."""
        with self._room.lock:
            self._room.put((self._owner, key), identity, decoded)

    def peek(self, key: Hashable, identity: Hashable) -> Any:
        """Return the array of ``key`` if it is here; None if not, and nothing is decoded."""
        with self._room.lock:
            array = self._room.find((self._owner, key), identity)
        self.hits += array is not None
        return array

    def clear(self) -> None:
        """Forget everything of this part."""
        with self._room.lock:
            for key in [key for key in self._room.entries if self._is_own(key)]:
                self._room.drop(key)

    def _is_own(self, key: Hashable) -> bool:
        return isinstance(key, tuple) and key[0] is self._owner

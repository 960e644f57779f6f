"""A small memory of decoded strings, so that one query does not decode a vector many times."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Any

_MAX_BYTES = 256 << 20


class DecodedCache:
    """Recently decoded Arrow arrays by key, bounded in bytes.

    An entry counts only for the identity it was decoded under: a property that was replaced since,
    by whomever, is decoded anew.
    """

    def __init__(self, *, max_bytes: int = _MAX_BYTES) -> None:
        self._max_bytes = max_bytes
        self._entries: OrderedDict[Hashable, tuple[Hashable, Any]] = OrderedDict()
        self._lock = threading.Lock()
        self.hits = 0
        """How often something was found here."""

    def get(self, key: Hashable, identity: Hashable, decode: Callable[[], Any]) -> Any:
        """Return the array of ``key``, decoding it if it is not here or was replaced."""
        with self._lock:
            found = self._entries.get(key)
            if found is not None and found[0] == identity:
                self._entries.move_to_end(key)
                self.hits += 1
                return found[1]
        decoded = decode()
        with self._lock:
            self._entries[key] = (identity, decoded)
            self._entries.move_to_end(key)
            while len(self._entries) > 1 and self._size_bytes() > self._max_bytes:
                self._entries.popitem(last=False)
        return decoded

    def peek(self, key: Hashable, identity: Hashable) -> Any:
        """Return the array of ``key`` if it is here; None if not, and nothing is decoded."""
        with self._lock:
            found = self._entries.get(key)
            return found[1] if found is not None and found[0] == identity else None

    def clear(self) -> None:
        """Forget everything."""
        with self._lock:
            self._entries.clear()

    def _size_bytes(self) -> int:
        return sum(array.nbytes for _, array in self._entries.values())

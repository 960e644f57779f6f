"""The common part of stores whose entries are Python objects by key: nothing outlives a crash.

Each publication is complete by itself, and what is prepared is in memory.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext

from daf_storage.base import ForkLock
from daf_storage.stores._protocol import SnapshotBase


class EntryStore(ABC):
    """Entries by key, which the threads of one process change."""

    is_append_only = False
    """What is there can be replaced and removed."""

    def __init__(self, location: str) -> None:
        self.location = location
        self._lock = ForkLock()

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.location!r})"

    @abstractmethod
    def keys(self) -> Collection[str]:
        """Return the present keys."""

    def has(self, prefix: str) -> bool:
        """Return whether there is something at or below ``prefix``."""
        return any(is_below(key, prefix) for key in self.keys())

    def batch(self) -> AbstractContextManager[None]:
        """Do nothing: each publication is complete by itself."""
        return nullcontext()

    @contextmanager
    def lock(self) -> Iterator[None]:
        """Exclude other threads that use this object."""
        with self._lock:
            yield

    def recover(self) -> bool:
        """Return that there is nothing to recover."""
        return False


class EntrySnapshot(SnapshotBase, ABC):
    """A view of some entries; a store says how one is mapped.  See `Snapshot`.

    Parameters
    ----------
    keys
        Those below the prefix of the view, without it.
    """

    def __init__(self, keys: Collection[str]) -> None:
        self._present = keys

    @abstractmethod
    def map(self, key: str) -> memoryview | None:
        """Return the bytes of an entry, read-only."""

    def names(self, key: str = "") -> list[str]:
        """Return the names directly below ``key``, sorted."""
        start = f"{key}/" if key else ""
        below = (entry[len(start) :] for entry in self._present if entry.startswith(start))
        return sorted({entry.split("/", 1)[0] for entry in below})


def is_below(key: str, prefix: str) -> bool:
    """Return whether a key is a prefix, or below it."""
    return not prefix or key == prefix or key.startswith(f"{prefix}/")

"""A store whose keys are entries of a dictionary, for data sets that never touch a disk."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager

import numpy as np

from daf_storage.base import AnyArray
from daf_storage.stores._entries import EntrySnapshot, EntryStore, is_below


class MemoryStore(EntryStore):
    """Bytes by key in memory.

    The dictionary is replaced and never changed, so that a snapshot is a reference to it.
    """

    def __init__(self, *, location: str = "<memory>") -> None:
        super().__init__(location)
        self._entries: Mapping[str, memoryview] = {}

    def keys(self) -> Collection[str]:
        """Return the present keys."""
        return self._entries.keys()

    def snapshot(self, prefix: str) -> MemorySnapshot | None:
        """Return a view of the present entries below ``prefix``."""
        snapshot = MemorySnapshot(self._entries, prefix)
        return snapshot if snapshot.names() else None

    @contextmanager
    def transaction(self) -> Iterator[MemoryTransaction]:
        """Begin changes; what was not published when the block ends is dropped."""
        yield MemoryTransaction(self)

    @contextmanager
    def rebuilt(self, token: str, without: list[str]) -> Iterator[MemoryStore]:  # noqa: ARG002 - nothing is left to be found
        """Hand out a copy that takes the place of this store at the end."""
        with self._lock:
            copy = MemoryStore(location=self.location)
            copy.fill(
                {
                    key: data
                    for key, data in self._entries.items()
                    if not any(is_below(key, prefix) for prefix in without)
                }
            )
            yield copy
            self._entries = copy._entries

    def entries(self) -> Mapping[str, memoryview]:
        """Return all entries by key."""
        return self._entries

    def fill(self, entries: Mapping[str, memoryview]) -> None:
        """Hold these entries and no others."""
        with self._lock:
            self._entries = dict(entries)

    def _change(self, removed: str, added: Mapping[str, memoryview]) -> None:
        with self._lock:
            kept = {k: v for k, v in self._entries.items() if not is_below(k, removed)}
            self._entries = {**kept, **added}


class MemorySnapshot(EntrySnapshot):
    """A view of one state of a `MemoryStore`; see `Snapshot`."""

    def __init__(self, entries: Mapping[str, memoryview], prefix: str) -> None:
        start = f"{prefix}/" if prefix else ""
        self._entries = {k[len(start) :]: v for k, v in entries.items() if k.startswith(start)}
        super().__init__(self._entries.keys())

    def identity(self) -> _Held:
        """Return a value that is equal for the very same entries only."""
        return _Held(tuple(self._entries.values()))

    def map(self, key: str) -> memoryview | None:
        """Return the bytes themselves, read-only."""
        return self._entries.get(key)


class _Held:
    """Entries compared by identity; holding them keeps their identities from being reused."""

    def __init__(self, entries: tuple[memoryview, ...]) -> None:
        self._entries = entries

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, _Held) or len(other._entries) != len(self._entries):
            return False
        return all(a is b for a, b in zip(self._entries, other._entries, strict=True))

    def __hash__(self) -> int:
        return len(self._entries)


class MemoryTransaction:
    """Changes prepared in a dictionary of their own; see `Transaction`."""

    def __init__(self, store: MemoryStore) -> None:
        self._store = store
        self._parts: dict[str, list[bytes]] = {}
        self._reserved: dict[str, AnyArray] = {}

    def write(self, key: str, data: bytes | memoryview) -> None:
        """Append a copy of ``data``."""
        self._parts.setdefault(key, []).append(bytes(data))

    def adopt(self, key: str, descriptor: int, *, link: bool) -> bool:  # noqa: ARG002 - see below
        """Do nothing: there are no files here."""
        return False

    def reserve(self, key: str, size_bytes: int) -> AnyArray:
        """Return zeros to be filled."""
        self._reserved[key] = np.zeros(size_bytes, dtype=np.uint8)
        return self._reserved[key]

    def publish(self, prefix: str, *, replace: bool) -> None:
        """Make the prepared entries part of the store."""
        with self._store.lock():
            if not replace and self._store.has(prefix):
                raise FileExistsError(f"{prefix} exists")
            self._store._change(prefix, self.take(prefix))  # noqa: SLF001 - the two classes are one unit

    def take(self, prefix: str) -> dict[str, memoryview]:
        """Return the prepared entries at and below ``prefix``; they are no longer prepared."""
        taken = {k: memoryview(b"".join(v)) for k, v in self._parts.items() if is_below(k, prefix)}
        for key, data in self._reserved.items():
            if is_below(key, prefix):
                taken[key] = data.data.toreadonly()
        for key in taken:
            self._parts.pop(key, None)
            self._reserved.pop(key, None)
        return taken

    def remove(self, prefix: str) -> None:
        """Take the entries below ``prefix`` away."""
        self._store._change(prefix, {})  # noqa: SLF001 - the two classes are one unit

    def replace_file(self, key: str, data: bytes) -> None:
        """Replace one entry."""
        self._store._change(key, {key: memoryview(data)})  # noqa: SLF001 - one unit

    def leave_sign(self) -> None:
        """Do nothing: nothing outlives the process."""

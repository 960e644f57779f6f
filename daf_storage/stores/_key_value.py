"""A store over any mutable mapping from keys to bytes: a database, a cache, an object store."""

from __future__ import annotations

from collections.abc import Collection, Hashable, Iterator, Mapping, MutableMapping
from contextlib import contextmanager
from typing import Any

from daf_storage import errors
from daf_storage.stores._entries import EntrySnapshot, EntryStore, is_below
from daf_storage.stores._memory import MemoryStore, MemoryTransaction

_DOCUMENTS = (".zarray", ".zgroup", ".zattrs", "zarr.json")


class MappingStore(EntryStore):
    """The keys and values of a mutable mapping, as Zarr has always allowed them to be a store.

    A mapping changes one key at a time.  So data is put in place before the metadata that makes it
    visible, and taken away after it: whoever is stopped in between leaves no property without its
    data.  Replacing a property is not atomic, nor is reordering an axis.

    Parameters
    ----------
    mapping
        Values are bytes, or anything with a buffer.  What other programs put into it is seen by
        the next read; only changes of values under the same keys may go unnoticed in what a
        session has decoded.
    location
        The name used in messages; by default the type of the mapping.

    Examples
    --------
    >>> import daf_storage
    >>> entries = {}
    >>> daf_storage.ZarrDaf(entries, "w").set_scalar("n", 5)
    >>> sorted(key for key in entries if key.startswith("scalars/n"))
    ['scalars/n/.zarray', 'scalars/n/.zattrs', 'scalars/n/0']
    >>> daf_storage.ZarrDaf(entries).get_scalar("n")
    5
    """

    def __init__(self, mapping: MutableMapping[str, Any], *, location: str | None = None) -> None:
        super().__init__(location or f"<{type(mapping).__name__}>")
        self._mapping = mapping
        self._token = object()  # unlike an id, it is not that of another one later
        self._version = 0
        self._versions: dict[str, int] = {}

    def keys(self) -> Collection[str]:
        """Return the present keys."""
        return list(self._mapping)

    def snapshot(self, prefix: str) -> MappingSnapshot | None:
        """Return a view of the keys that are below ``prefix`` now."""
        with self._lock:
            start = f"{prefix}/" if prefix else ""
            keys = {key[len(start) :]: key for key in self.keys() if key.startswith(start)}
            versions = frozenset((key, self._versions.get(key, 0)) for key in keys.values())
            return MappingSnapshot(self, keys, (self._token, versions)) if keys else None

    def value(self, key: str) -> memoryview | None:
        """Return the bytes of a key; None if it is absent."""
        try:
            value = self._mapping[key]
        except KeyError:
            return None
        try:
            return memoryview(value).cast("B").toreadonly()
        except TypeError:
            raise errors.CorruptDataError(
                f"{self.location}: the value of {key!r} is {type(value).__name__}, not bytes"
            ) from None

    @contextmanager
    def transaction(self) -> Iterator[MappingTransaction]:
        """Begin changes; what was not published when the block ends is dropped."""
        yield MappingTransaction(self)

    @contextmanager
    def rebuilt(self, token: str, without: list[str]) -> Iterator[MemoryStore]:  # noqa: ARG002 - nothing is left to be found
        """Hand out a copy in memory whose changes are put in place at the end, key by key."""
        with self._lock:
            kept = [key for key in self._mapping if not any(is_below(key, p) for p in without)]
            copy = MemoryStore(location=self.location)
            entries = {key: self.value(key) for key in kept}
            copy.fill({key: data for key, data in entries.items() if data is not None})
            yield copy
            added = {k: v for k, v in copy.entries().items() if v is not entries.get(k)}
            gone = [key for key in self.keys() if key not in copy.entries()]
            self.change([*gone, *(key for key in added if key in self._mapping)], added)

    def below(self, prefix: str) -> list[str]:
        """Return the keys at or below ``prefix``."""
        return [key for key in self.keys() if is_below(key, prefix)]

    def change(self, removed: list[str], added: Mapping[str, memoryview]) -> None:
        """Take keys away, metadata first, and put others in place, metadata last."""
        with self._lock:
            self._version += 1
            for key in sorted(removed, key=_is_document, reverse=True):
                self._mapping.pop(key, None)
            for key in sorted(added, key=_is_document):
                self._versions[key] = self._version
                self._mapping[key] = bytes(added[key])


class MappingSnapshot(EntrySnapshot):
    """A view of the keys that a mapping had below a prefix; see `Snapshot`."""

    def __init__(self, store: MappingStore, keys: Mapping[str, str], identity: Hashable) -> None:
        super().__init__(keys.keys())
        self._store = store
        self._keys = keys
        self._identity = identity

    def identity(self) -> Hashable:
        """Return what changes with the keys, and with each change made through the store."""
        return self._identity

    def map(self, key: str) -> memoryview | None:
        """Return the bytes, read-only."""
        return self._store.value(self._keys[key]) if key in self._keys else None


class MappingTransaction(MemoryTransaction):
    """Changes prepared in memory; see `Transaction`."""

    def __init__(self, store: MappingStore) -> None:
        super().__init__(MemoryStore(location=store.location))
        self._target = store

    def publish(self, prefix: str, *, replace: bool) -> None:
        """Put the prepared entries into the mapping."""
        with self._target.lock():
            if not replace and self._target.has(prefix):
                raise FileExistsError(f"{prefix} exists")
            self._target.change(self._target.below(prefix), self.take(prefix))

    def remove(self, prefix: str) -> None:
        """Take the entries below ``prefix`` away."""
        self._target.change(self._target.below(prefix), {})

    def replace_file(self, key: str, data: bytes) -> None:
        """Replace one entry."""
        self._target.change([], {key: memoryview(data)})


def _is_document(key: str) -> bool:
    return key.rpartition("/")[2] in _DOCUMENTS

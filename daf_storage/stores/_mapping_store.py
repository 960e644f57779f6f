"""Stores whose keys are those of a mapping: a database, a cache, an object store, or memory.

Each publication is complete by itself, and what is prepared is in memory: nothing outlives a crash.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Collection, Hashable, Iterator, Mapping, MutableMapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from daf_storage import errors
from daf_storage.base import METADATA_NAMES, AnyArray, ForkLock
from daf_storage.stores._files import Snapshot


class MappingStore:
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

    is_append_only = False
    """What is there can be replaced and removed."""

    def __init__(self, mapping: MutableMapping[str, Any], *, location: str | None = None) -> None:
        self.location = location or f"<{type(mapping).__name__}>"
        self._mapping = mapping
        self._lock = ForkLock()
        self._token = object()  # unlike an id, it is not that of another one later
        self._version = 0
        self._versions: dict[str, int] = {}

    def snapshot(self, prefix: str) -> MappingSnapshot | None:
        """Return a view of the keys that are below ``prefix`` now."""
        with self._lock:
            start = len(prefix) + bool(prefix)
            keys = {key[start:]: key for key in self.below(prefix) if key != prefix}
            versions = frozenset((key, self._versions.get(key, 0)) for key in keys.values())
            return MappingSnapshot(self._values(), keys, (self._token, versions)) if keys else None

    def _values(self) -> Callable[[str], memoryview | None]:
        return self.value

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

    def batch(self) -> AbstractContextManager[None]:
        """Do nothing: each publication is complete by itself."""
        return nullcontext()

    def lock(self) -> AbstractContextManager[Any]:
        """Exclude other threads that use this object."""
        return self._lock

    def recover(self) -> bool:
        """Return that there is nothing to recover."""
        return False

    @contextmanager
    def rebuilt(self, without: list[str]) -> Iterator[MemoryStore]:
        """Hand out a copy in memory whose changes are put in place at the end, key by key."""
        with self._lock:
            kept = [key for key in self.below("") if not any(is_below(key, p) for p in without)]
            copy = MemoryStore(location=self.location)
            values = {key: value for key in kept if (value := self.value(key)) is not None}
            copy.change([], values)
            yield copy
            added = {key: data for key in copy.below("") if (data := copy.value(key)) is not None}
            new = {key: data for key, data in added.items() if data is not values.get(key)}
            self.change([key for key in self.below("") if key not in added or key in new], new)

    def below(self, prefix: str) -> list[str]:
        """Return the keys at or below ``prefix``."""
        return [key for key in list(self._mapping) if is_below(key, prefix)]

    def change(self, removed: Collection[str], added: Mapping[str, memoryview]) -> None:
        """Take keys away, metadata first, and put others in place, metadata last."""
        with self._lock:
            self._version += 1
            for key in sorted(removed, key=_is_document, reverse=True):
                self._mapping.pop(key, None)
            for key in sorted(added, key=_is_document):
                self._versions[key] = self._version
                self._mapping[key] = self._stored(added[key])

    def _stored(self, data: memoryview) -> Any:
        return bytes(data)


class MemoryStore(MappingStore):
    """Bytes by key in memory, for data sets that never touch a disk.

    A snapshot has the values of its time.  The keys are sorted, so that those below another one are
    found without a look at all.
    """

    def __init__(self, *, location: str = "<memory>") -> None:
        super().__init__({}, location=location)

    def _values(self) -> Callable[[str], memoryview | None]:
        return dict(self._mapping).get

    def below(self, prefix: str) -> list[str]:
        """Return the keys at or below ``prefix``."""
        with self._lock:  # or the keys may not be sorted yet
            keys = list(self._mapping)
        if not prefix:
            return keys
        start, stop = (bisect_left(keys, prefix + end) for end in "/0")  # which comes after "/"
        return [key for key in (prefix,) if key in self._mapping] + keys[start:stop]

    def change(self, removed: Collection[str], added: Mapping[str, memoryview]) -> None:
        """Take keys away, and put others in place."""
        with self._lock:
            super().change(removed, added)
            self._mapping = dict(sorted(self._mapping.items()))

    def value(self, key: str) -> memoryview | None:
        """Return the bytes of a key themselves; None if it is absent."""
        return self._mapping.get(key)

    def _stored(self, data: memoryview) -> memoryview:
        return data if data.readonly else data.toreadonly()  # the same, as `rebuilt` compares them


@dataclass(frozen=True, slots=True)
class MappingSnapshot(Snapshot):
    """A view of the keys that a mapping had below a prefix; see `Snapshot`."""

    value_of: Callable[[str], memoryview | None]
    """Returns the bytes of a key."""
    keys: Mapping[str, str]
    """The key in the mapping of each one below the prefix."""
    _identity: Hashable

    def identity(self) -> Hashable:
        """Return what changes with the keys, and with each change made through the store."""
        return self._identity

    def map(self, key: str) -> memoryview | None:
        """Return the bytes, read-only."""
        return self.value_of(self.keys[key]) if key in self.keys else None

    def names(self, key: str = "") -> list[str]:
        """Return the names directly below ``key``, sorted."""
        start = f"{key}/" if key else ""
        below = (entry[len(start) :] for entry in self.keys if entry.startswith(start))
        return sorted({entry.partition("/")[0] for entry in below})


@dataclass(eq=False)
class MappingTransaction:
    """Changes prepared in memory; see `Transaction`."""

    _store: MappingStore
    _prepared: dict[str, Any] = field(default_factory=dict)
    """Bytes or arrays of them, by key."""

    def write(self, key: str, data: bytes | memoryview) -> None:
        """Append a copy of ``data``."""
        self._prepared.setdefault(key, bytearray()).extend(data)

    def reserve(self, key: str, size_bytes: int) -> AnyArray:
        """Return zeros to be filled."""
        self._prepared[key] = values = np.zeros(size_bytes, dtype=np.uint8)
        return values

    def publish(self, key: str, *, replace: bool) -> None:
        """Put the prepared entries in place."""
        with self._store.lock():
            there = self._store.below(key)
            if there and not replace:
                raise FileExistsError(f"{key} exists")
            taken = [each for each in self._prepared if is_below(each, key)]
            self._store.change(there, {key: memoryview(self._prepared.pop(key)) for key in taken})

    def remove(self, key: str) -> None:
        """Take the entries below ``key`` away."""
        self._store.change(self._store.below(key), {})

    def replace_file(self, key: str, data: bytes) -> None:
        """Replace one entry."""
        self._store.change([], {key: memoryview(data)})

    def leave_sign(self) -> None:
        """Do nothing: nothing outlives the process."""


def is_below(key: str, prefix: str) -> bool:
    """Return whether a key is a prefix, or below it."""
    return not prefix or key == prefix or key.startswith(f"{prefix}/")


def _is_document(key: str) -> bool:
    return key.rpartition("/")[2] in METADATA_NAMES

"""A store of zarr-python over a snapshot of ours, and ours over those of zarr-python.

The former is zarr's own store of a dictionary, over a mapping of what a snapshot has: zarr decodes
through it what is not read here.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator, MutableMapping
from pathlib import Path
from typing import Any

import numpy as np
import zarr.storage
from zarr.abc.store import ByteRequest, RangeByteRequest, Store
from zarr.core.buffer import Buffer, BufferPrototype, default_buffer_prototype
from zarr.core.sync import sync

from daf_storage import errors
from daf_storage.base import METADATA_NAMES
from daf_storage.stores._files import Snapshot

_MAX_DOCUMENT_BYTES = 1 << 24


class _SnapshotValues:
    """What a snapshot holds, as zarr has it; it is asked for each value."""

    def __init__(self, snapshot: Snapshot) -> None:
        self._snapshot = snapshot

    def __getitem__(self, key: str) -> Buffer:
        data = self._snapshot.map(key)
        if data is None:
            raise KeyError(key)
        is_document = "/" in key and key.rpartition("/")[2] in METADATA_NAMES
        if is_document and len(data) > _MAX_DOCUMENT_BYTES:
            raise errors.CorruptDataError(
                f"{key} has {len(data):,} bytes, and metadata have no more than "
                f"{_MAX_DOCUMENT_BYTES:,}"
            )
        return _as_buffer(data)

    def __contains__(self, key: object) -> bool:
        return isinstance(key, str) and self._snapshot.size(key) is not None

    def __iter__(self) -> Iterator[str]:
        left = self._snapshot.names()
        while left:
            key = left.pop()
            below = self._snapshot.names(key)
            left += [f"{key}/{name}" for name in below]
            if not below:
                yield key


class SnapshotZarrStore(zarr.storage.MemoryStore):
    """What a `Snapshot` holds, as zarr-python wants it."""

    supports_writes = False
    supports_deletes = False

    def __init__(self, snapshot: Snapshot) -> None:
        values: Any = _SnapshotValues(snapshot)  # nothing is set in what is only read
        super().__init__(values, read_only=True)
        self._snapshot = snapshot

    __eq__ = object.__eq__
    __hash__ = object.__hash__

    async def get(
        self,
        key: str,
        prototype: BufferPrototype | None = None,
        byte_range: ByteRequest | None = None,
    ) -> Buffer | None:
        """Return bytes; of a server, no more of them than are asked for.

        Raises
        ------
        ValueError
            A range is empty or beyond the end, as a damaged index of a shard has them: zarr-python
            would take the missing bytes for a chunk of fill values.
        """
        prototype = prototype or default_buffer_prototype()
        if isinstance(byte_range, RangeByteRequest):
            return self._range(key, byte_range, prototype)
        return await super().get(key, prototype, byte_range)

    def get_sync(
        self,
        key: str,
        *,
        prototype: BufferPrototype | None = None,
        byte_range: ByteRequest | None = None,
    ) -> Buffer | None:
        """Return bytes as `get` does, without a coroutine; zarr-python 3.1.3 has no such method."""
        if isinstance(byte_range, RangeByteRequest):
            return self._range(key, byte_range, prototype)
        return super().get_sync(key, prototype=prototype, byte_range=byte_range)

    def _range(
        self, key: str, requested: RangeByteRequest, prototype: BufferPrototype | None
    ) -> Buffer | None:
        size, (start, stop) = self._snapshot.size(key), (requested.start, requested.end)
        if size is None:
            return None
        if not 0 <= start < stop <= size:
            raise ValueError(
                f"the bytes {start:,} to {stop:,} of {size:,} are needed: the file was cut, or the "
                "index of its chunks is damaged"
            )
        return _as_buffer(self._snapshot.read_ranges(key, [(start, stop)])[0], prototype)

    async def list_dir(self, prefix: str) -> AsyncIterator[str]:
        """Yield the names directly below ``prefix``."""
        for name in self._snapshot.names(prefix.rstrip("/")):
            yield name


class StoreMapping(MutableMapping[str, bytes]):
    """The keys of a store of zarr-python, and their bytes."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def __getitem__(self, key: str) -> bytes:
        found: Buffer | None = sync(self._store.get(key, default_buffer_prototype()))
        if found is None:
            raise KeyError(key)
        return found.to_bytes()

    def __setitem__(self, key: str, data: bytes) -> None:
        self._check_writable()
        sync(self._store.set(key, _as_buffer(memoryview(data))))

    def __delitem__(self, key: str) -> None:
        self._check_writable()
        sync(self._store.delete(key))

    def __iter__(self) -> Iterator[str]:
        return iter(sync(self._keys()))

    def __len__(self) -> int:
        return len(sync(self._keys()))

    async def _keys(self) -> list[str]:
        return [key async for key in self._store.list()]

    def _check_writable(self) -> None:
        if self._store.read_only:
            raise errors.ReadOnlyError(
                f"{self._store}: this store of zarr-python is read-only; open it with mode 'r', or "
                "make it with read_only=False"
            )


def path_or_mapping(store: Store) -> Path | StoreMapping:
    """Return the path of a store in a directory or an archive; of any other its keys and bytes."""
    for name in ("root", "path"):
        place = getattr(store, name, None)
        if isinstance(place, Path):
            return place
    return StoreMapping(store)


def _as_buffer(data: memoryview, prototype: BufferPrototype | None = None) -> Buffer:
    """Return bytes as zarr has them, without copying them."""
    values = np.frombuffer(data, dtype=np.uint8) if data else np.empty(0, dtype=np.uint8)
    return (prototype or default_buffer_prototype()).buffer.from_array_like(values)

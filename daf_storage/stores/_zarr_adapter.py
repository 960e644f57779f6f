"""A read-only ``zarr.abc.store.Store`` over a pin, so that zarr-python can read what we do not.

Compressed, chunked and otherwise foreign arrays are decoded by zarr itself; this adapter is all
that it needs.  And the other way round: a store of zarr-python as a mapping.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Iterator, Mapping, MutableMapping
from pathlib import Path
from typing import Any

import numpy as np
from zarr.abc.store import (
    ByteRequest,
    OffsetByteRequest,
    RangeByteRequest,
    Store,
    SuffixByteRequest,
)
from zarr.core.buffer import Buffer, BufferPrototype, default_buffer_prototype
from zarr.core.sync import sync

from daf_storage.errors import ReadOnlyError
from daf_storage.stores._protocol import Snapshot


class BytesZarrStore(Store):
    """What stores that have the bytes of a key at hand have in common."""

    supports_listing = True

    def find_bytes(self, key: str) -> memoryview | None:
        """Return the bytes of ``key``; None if it is absent."""
        raise NotImplementedError

    async def get(
        self, key: str, prototype: BufferPrototype, byte_range: ByteRequest | None = None
    ) -> Buffer | None:
        """Return the bytes of ``key``, or the part of them that is asked for."""
        data = self.find_bytes(key)
        return None if data is None else self.part_of(data, prototype, byte_range)

    @staticmethod
    def part_of(
        data: memoryview, prototype: BufferPrototype, byte_range: ByteRequest | None
    ) -> Buffer:
        """Return the part of some bytes that is asked for, as far as it is there."""
        part = data if byte_range is None else data[_request_slice(byte_range)]
        return _as_buffer(prototype, part)

    async def get_partial_values(
        self,
        prototype: BufferPrototype,
        key_ranges: Iterable[tuple[str, ByteRequest | None]],
    ) -> list[Buffer | None]:
        """Return several parts, one after the other."""
        return [await self.get(key, prototype, part) for key, part in key_ranges]


class SnapshotZarrStore(BytesZarrStore):
    """What a `Snapshot` holds, as zarr-python wants it.

    Parameters
    ----------
    snapshot
        What is to be read.
    shown
        Contents of keys that are shown instead of what is stored.
    """

    supports_writes = False
    supports_deletes = False

    def __init__(self, snapshot: Snapshot, shown: Mapping[str, bytes] | None = None) -> None:
        super().__init__(read_only=True)
        self._snapshot = snapshot
        self._shown = shown or {}

    def __eq__(self, other: object) -> bool:
        return isinstance(other, SnapshotZarrStore) and other._snapshot is self._snapshot

    __hash__ = object.__hash__

    def find_bytes(self, key: str) -> memoryview | None:
        """Return the bytes of ``key``."""
        return memoryview(self._shown[key]) if key in self._shown else self._snapshot.map(key)

    async def get(
        self, key: str, prototype: BufferPrototype, byte_range: ByteRequest | None = None
    ) -> Buffer | None:
        """Return bytes; of a server, no more of them than are asked for.

        Raises
        ------
        ValueError
            A range is empty or beyond the end, as a damaged index of a shard has them: zarr-python
            would take the missing bytes for a chunk of fill values.
        """
        size = None if self._snapshot.is_local or byte_range is None else self._snapshot.size(key)
        if size is None:
            return await super().get(key, prototype, byte_range)
        _check_range(byte_range, size)
        span = range(size)[_request_slice(byte_range)]
        part = self._snapshot.read_ranges(key, [(span.start, max(span.stop, span.start))])
        return _as_buffer(prototype, part[0])

    @staticmethod
    def part_of(
        data: memoryview, prototype: BufferPrototype, byte_range: ByteRequest | None
    ) -> Buffer:
        """Return the part of some bytes that is asked for, which has to be there."""
        _check_range(byte_range, data.nbytes)
        return BytesZarrStore.part_of(data, prototype, byte_range)

    async def exists(self, key: str) -> bool:
        """Return whether there are bytes for ``key``."""
        return self._snapshot.size(key) is not None

    async def set(self, key: str, value: Buffer) -> None:  # noqa: ARG002 - zarr's signature
        """Refuse: a pin is read-only."""
        self._check_writable()

    async def delete(self, key: str) -> None:  # noqa: ARG002 - zarr's signature
        """Refuse: a pin is read-only."""
        self._check_writable()

    async def list(self) -> AsyncIterator[str]:
        """Yield every key."""
        async for key in self.list_prefix(""):
            yield key

    async def list_prefix(self, prefix: str) -> AsyncIterator[str]:
        """Yield every key below ``prefix``."""
        async for name in self.list_dir(prefix):
            key = f"{prefix}/{name}" if prefix else name
            if self._snapshot.names(key):
                async for below in self.list_prefix(key):
                    yield below
            else:
                yield key

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
        sync(self._store.set(key, _as_buffer(default_buffer_prototype(), memoryview(data))))

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
            raise ReadOnlyError(
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


def _as_buffer(prototype: BufferPrototype, data: memoryview) -> Buffer:
    """Return bytes as zarr has them, without copying them."""
    values = np.frombuffer(data, dtype=np.uint8) if data else np.empty(0, dtype=np.uint8)
    return prototype.buffer.from_array_like(values)


def _check_range(request: ByteRequest | None, size_bytes: int) -> None:
    """Raise if a range is empty or goes beyond so many bytes; see `SnapshotZarrStore.get`."""
    if not isinstance(request, RangeByteRequest) or 0 <= request.start < request.end <= size_bytes:
        return
    raise ValueError(
        f"the bytes {request.start:,} to {request.end:,} of {size_bytes:,} are needed: the file "
        "was cut, or the index of its chunks is damaged"
    )


def _request_slice(request: Any) -> slice:
    match request:
        case RangeByteRequest(start, end):
            return slice(start, end)
        case OffsetByteRequest(offset):
            return slice(offset, None)
        case SuffixByteRequest(suffix):
            return slice(-suffix, None) if suffix else slice(0)
        case _:
            raise TypeError(f"Unexpected byte_range, got {request!r}")

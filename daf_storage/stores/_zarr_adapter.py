"""Stores of zarr-python over ours, and ours over those of zarr-python.

Both kinds are zarr's own store of a dictionary, over a mapping of what a snapshot or an archive
holds.  zarr decodes through the one what is not read here; through the other it adds to an archive.
"""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Iterable, Iterator, MutableMapping
from pathlib import Path
from typing import Any

import numpy as np
import zarr.storage
from zarr.abc.store import ByteRequest, RangeByteRequest, Store
from zarr.core.buffer import Buffer, BufferPrototype, default_buffer_prototype
from zarr.core.sync import sync

from daf_storage import errors
from daf_storage.base import METADATA_NAMES, OpenMode
from daf_storage.stores._protocol import Snapshot
from daf_storage.stores.mmap_zip import MAX_FILE_SIZE, MmapZipStore

_MAX_DOCUMENT_BYTES = 1 << 24


class _SnapshotValues(MutableMapping[str, Buffer]):
    """What a snapshot holds, as zarr has it; nothing can be changed."""

    def __init__(self, snapshot: Snapshot) -> None:
        self.snapshot = snapshot

    def __getitem__(self, key: str) -> Buffer:
        data = self.snapshot.map(key)
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
        return isinstance(key, str) and self.snapshot.size(key) is not None

    def __iter__(self) -> Iterator[str]:
        return self._below("")

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def __setitem__(self, key: str, value: Buffer) -> None:
        raise TypeError(f"{key} cannot be set")

    def __delitem__(self, key: str) -> None:
        raise TypeError(f"{key} cannot be deleted")

    def _below(self, prefix: str) -> Iterator[str]:
        for name in self.snapshot.names(prefix):
            key = f"{prefix}/{name}" if prefix else name
            if self.snapshot.names(key):
                yield from self._below(key)
            else:
                yield key


class SnapshotZarrStore(zarr.storage.MemoryStore):
    """What a `Snapshot` holds, as zarr-python wants it."""

    supports_writes = False
    supports_deletes = False

    def __init__(self, snapshot: Snapshot) -> None:
        super().__init__(_SnapshotValues(snapshot), read_only=True)
        self._snapshot = snapshot

    def __eq__(self, other: object) -> bool:
        return isinstance(other, SnapshotZarrStore) and other._snapshot is self._snapshot

    __hash__ = object.__hash__

    def get_sync(
        self,
        key: str,
        *,
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
        if not isinstance(byte_range, RangeByteRequest):
            return super().get_sync(key, prototype=prototype, byte_range=byte_range)
        size, (start, stop) = self._snapshot.size(key), (byte_range.start, byte_range.end)
        if size is None:
            return None
        if not 0 <= start < stop <= size:
            raise ValueError(
                f"the bytes {start:,} to {stop:,} of {size:,} are needed: the file was cut, or the "
                "index of its chunks is damaged"
            )
        return _as_buffer(self._snapshot.read_ranges(key, [(start, stop)])[0], prototype)

    async def get(
        self,
        key: str,
        prototype: BufferPrototype | None = None,
        byte_range: ByteRequest | None = None,
    ) -> Buffer | None:
        """Return bytes, as above."""
        return self.get_sync(key, prototype=prototype, byte_range=byte_range)

    async def list_dir(self, prefix: str) -> AsyncIterator[str]:
        """Yield the names directly below ``prefix``."""
        for name in self._snapshot.names(prefix.rstrip("/")):
            yield name


class _ArchiveValues(MutableMapping[str, Buffer]):
    """The entries of an archive, which is opened when it is first needed."""

    def __init__(self, path: Path, mode: OpenMode, options: dict[str, Any]) -> None:
        self._how = (path, mode, options)
        self._archive: MmapZipStore | None = None

    @property
    def archive(self) -> MmapZipStore:
        """The archive."""
        if self._archive is None:
            path, mode, options = self._how
            self._archive = MmapZipStore(path, mode, **options)
        return self._archive

    def close(self) -> None:
        """Close the archive, so that others can write."""
        if self._archive is not None:
            self._archive.close()
            self._archive = None

    def __getitem__(self, key: str) -> Buffer:
        data = self.archive.get(key)
        if data is None:
            raise KeyError(key)
        return _as_buffer(data)

    def __contains__(self, key: object) -> bool:
        return key in self.archive

    def __iter__(self) -> Iterator[str]:
        return iter(self.archive)

    def __len__(self) -> int:
        return len(self.archive)

    def __setitem__(self, key: str, value: Buffer) -> None:
        data, found = value.as_numpy_array().view("u1").data, self.archive.get(key)
        if found is None:
            self.archive.append(key, data)
        elif found != data:
            raise errors.append_only(self.archive.location, repr(key))

    def __delitem__(self, key: str) -> None:
        if key not in self.archive:
            raise KeyError(key)
        raise errors.append_only(self.archive.location, repr(key))


class ZarrArchiveStore(zarr.storage.MemoryStore):
    """A memory-mapped archive as zarr-python wants it.

    Arrays and groups can be created and chunks be written once; nothing can be replaced or
    deleted, except that writing the very same bytes again is no error.

    Parameters
    ----------
    path
        The archive; created if it is missing, unless ``read_only``.
    read_only
        Whether to open it for reading.
    max_file_size, sync
        As for `MmapZipStore`.

    Examples
    --------
    >>> import tempfile, pathlib, numpy, zarr
    >>> store = ZarrArchiveStore(pathlib.Path(tempfile.mkdtemp()) / "x.zip")
    >>> array = zarr.create_array(store, name="a", data=numpy.arange(3), zarr_format=2)
    >>> zarr.open_array(store, path="a")[:].tolist()
    [0, 1, 2]
    """

    supports_deletes = False

    def __init__(
        self,
        path: str | Path,
        *,
        read_only: bool = False,
        max_file_size: int = MAX_FILE_SIZE,
        sync: bool = False,
    ) -> None:
        self.path = Path(os.path.abspath(path))
        self._options: dict[str, Any] = {"max_file_size": max_file_size, "sync": sync}
        self._values = _ArchiveValues(self.path, "r" if read_only else "w+", self._options)
        super().__init__(self._values, read_only=read_only)

    @property
    def archive(self) -> MmapZipStore:
        """The archive, opened when it is first needed."""
        return self._values.archive

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ZarrArchiveStore) and other._place == self._place

    def __hash__(self) -> int:
        return hash(self._place)

    @property
    def _place(self) -> tuple[Path, bool]:
        return self.path, self.read_only

    def __str__(self) -> str:
        return f"zip://{self.path}"

    def __repr__(self) -> str:
        return f"ZarrArchiveStore({str(self.path)!r}, read_only={self.read_only})"

    def __getstate__(self) -> dict[str, Any]:
        """Return what another process needs to open the archive itself."""
        return {"path": self.path, "read_only": self.read_only, **self._options}

    def __setstate__(self, state: dict[str, Any]) -> None:
        path = state.pop("path")
        self.__init__(path, **state)  # type: ignore[misc] # a new object of the same options

    async def _open(self) -> None:
        self.archive  # noqa: B018 - opens it
        await super()._open()

    def close(self) -> None:
        """Close the archive, so that others can write."""
        self._values.close()
        super().close()

    def with_read_only(self, read_only: bool = False) -> ZarrArchiveStore:  # noqa: FBT001, FBT002 - zarr's signature
        """Return another store of the same archive."""
        return type(self)(self.path, read_only=read_only, **self._options)

    async def _set_many(self, values: Iterable[tuple[str, Buffer]]) -> None:
        """Add several entries at once."""
        with self.archive.batch():
            for key, value in values:
                await self.set(key, value)

    async def delete_dir(self, prefix: str) -> None:
        """Refuse to delete what is there."""
        self._check_writable()
        if self.archive.count_below(prefix.rstrip("/")):
            raise errors.append_only(self.archive.location, repr(prefix))

    async def clear(self) -> None:
        """Refuse to delete what is there."""
        await self.delete_dir("")

    async def list_dir(self, prefix: str) -> AsyncIterator[str]:
        """Yield the names directly below ``prefix``."""
        for name in self.archive.children(prefix.rstrip("/")):
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

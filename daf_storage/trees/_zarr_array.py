"""Arrays that are files of a store, and what their trees share: mapped if possible, or decoded.

The chunks of an array are each in a file of its own, or many small ones in a file.  Daf packs
arrays in the latter way, in the shape of the Zarr v3 sharding codec; others cut an array into
several such files, which are read alike.  zarr-python reads them too and is what the tests compare
with; here a chunk costs microseconds, and only those that are asked for are decoded.

Which version of Zarr it is, their metadata say to nobody here.  Source: the specification of
``sharding_indexed``.
"""

from __future__ import annotations

import math
import operator
import struct
from abc import ABC, abstractmethod
from collections.abc import Hashable, Iterable, Iterator
from dataclasses import replace
from functools import cached_property
from typing import Any, Final

import google_crc32c
import numpy as np
import pyarrow as pa

from daf_storage.base import AnyArray, DecodedCache, Span, fetched, new_chunk_cache
from daf_storage.base import strings as vlen
from daf_storage.errors import CorruptDataError, FormatError, ReadOnlyError
from daf_storage.stores import Fingerprint, ReadableStore, ReadEstimate, Snapshot, estimate_ranges
from daf_storage.trees._chunked_array import (
    MAX_CHUNKS,
    ChunkedArray,
    Position,
    limit_of_stored,
    wrong_size,
)
from daf_storage.trees._metadata import ArrayMetadata, ShardLayout, key_below
from daf_storage.trees._stored_array import (
    STRING_BYTES,
    Node,
    NodeKind,
    StoredArray,
    byte_ranges,
    estimate_strings,
    frozen,
    rows_of,
)

_MAX_FILES: Final = 1 << 20
_MAX_FILLED_BYTES: Final = 1 << 34
_MANY_CHUNKS: Final = 1 << 8
_MOST_PER_BYTE: Final = 1 << 17
_LENGTH_BYTES: Final = 4
_ABSENT: Final = 2**64 - 1
CHECKSUM_BYTES: Final = 4
"""Length of the checksum of the index of a file of small chunks."""
ENTRY_BYTES: Final = 16
"""Length of an entry of that index."""
_FETCHED_CHUNKS: Final = 4096


class StoreTree(ABC):
    """A tree whose nodes are files below a prefix of a store.

    Parameters
    ----------
    store
        Where the bytes are.
    root
        The prefix within the store; empty for the whole store.
    """

    def __init__(self, store: ReadableStore, root: str = "") -> None:
        self._store = store
        self._root = root
        self._chunk_cache = new_chunk_cache()

    @property
    def location(self) -> str:
        """Where the tree is, for messages."""
        return f"{self._store.location}#/{self._root}" if self._root else self._store.location

    def key(self, path: str) -> str:
        """Return the key of a path in the store."""
        return key_below(self._root, path) if path else self._root

    @abstractmethod
    def node(self, path: str) -> Node | None:
        """Return what is at ``path``, pinned."""

    def kind(self, path: str) -> NodeKind | None:
        """Return what is at ``path``; None if nothing is.

        What cannot be opened is an array: the reason is raised when it is used.
        """
        try:
            node = self.node(path)
        except (FormatError, ReadOnlyError):
            if not path:
                raise
            return "array"
        return None if node is None else node.kind


def open_zarr_array(
    snapshot: Snapshot, path: str, metadata: ArrayMetadata, *, cache: DecodedCache, what: str
) -> ChunkedArray:
    """Return an array by its metadata: mapped, or decoded chunk by chunk."""
    info, encoding = metadata.info, metadata.encoding
    if metadata.has_plain_chunk:
        key = key_below(path, metadata.chunk_key((0,) * len(info.shape)))
        is_at_hand = info.storage_type.is_string or not snapshot.is_local
        if is_at_hand or snapshot.is_mapped(key, alignment=metadata.item_bytes):
            return PlainArray(snapshot, path, metadata, cache=cache, what=what)
    stored_as = (encoding.dtype, encoding.order, metadata.fill_value)
    memory = cache.named(repr((what, info, *stored_as)))  # it knows its hash
    return FileArray(snapshot, path, metadata, cache=memory, what=what)


class FileArray(ChunkedArray):
    """An array of chunks that have a file each, or of small ones in files of many.

    Of what Daf packs, all are in one file; see `ChunkedArray`.
    """

    def __init__(
        self,
        snapshot: Snapshot,
        path: str,
        metadata: ArrayMetadata,
        *,
        cache: DecodedCache,
        what: str,
    ) -> None:
        is_plain = isinstance(self, PlainArray) and metadata.info.is_mappable
        info = replace(metadata.info, is_mappable=is_plain and snapshot.is_local)
        most_chunks = _MAX_FILES if metadata.shard is None else MAX_CHUNKS
        super().__init__(info, metadata.encoding, cache, what, most_chunks)
        self.snapshot = snapshot
        self._path = path
        self._metadata = metadata
        self._first: Position = (0,) * len(info.shape)
        self._key = self.key(self._first)
        self.layout = metadata.shard
        """How each of its files is made up; None of those that are one chunk each."""
        self._grid = (1,) * len(info.shape) if metadata.shard is None else metadata.shard.grid
        self._files: dict[Position, _ChunkFile] = {}

    @cached_property
    def most_bytes(self) -> int:
        """How many bytes a file may have that is expanded."""
        n_chunks = math.prod(self._grid)
        count = math.prod(self.info.chunks) * n_chunks
        return limit_of_stored(count, self._metadata.item_bytes, n_chunks=n_chunks)

    def unstored_chunks(self, *, asks_server: bool) -> list[tuple[str, Span]]:
        """Return the chunks of a list in whose place the fill value is read."""
        if not (asks_server or self.snapshot.is_local):
            return []
        length, height = self.info.shape[0], self.info.chunks[0]
        return [
            (f"{self.what}: {self.chunk_name((n // height,))}", Span(n, min(n + height, length)))
            for n in range(0, length, height)
            if not self._is_stored((n // height,))
        ]

    def _is_stored(self, position: Position) -> bool:
        """Return whether a chunk is there, by the size of its file, or by the index of that."""
        return bool(self._file(position).places([position]))

    def chunk_name(self, position: Position) -> str:
        """Return what messages call a chunk."""
        if self.layout is not None:
            return f"chunk {list(position)}"
        return f"the chunk file {self._metadata.chunk_key(position)!r}"

    def version(self, position: Position) -> Hashable | None:
        """Return what changes with the file of a chunk; None where nothing is decoded."""
        return self._file(position).version if self.encoding.codecs else None

    def fetch(self, positions: list[Position]) -> Iterator[tuple[Position, Any]]:
        """Yield the stored bytes of chunks, file by file; of those that take time, of several."""
        for first in range(0, len(positions), _FETCHED_CHUNKS):
            some = list(self._in_files(positions[first : first + _FETCHED_CHUNKS]).items())
            if self.snapshot.is_mapped(some[0][0].key):
                read: Iterable[Any] = ((each, _read(each)) for each in some)
            else:
                read = fetched(some, _read)
            for _, found in read:
                yield from found

    def fill_value(self, position: Position) -> Any:
        """Return what stands in for a missing chunk."""
        if self._metadata.fill_value is None:
            raise self._missing(f"{self.what}: {self.chunk_name(position)}")
        return self._metadata.fill_value

    def add_stored(self, positions: list[Position], estimate: ReadEstimate) -> None:
        """Add the bytes of chunks, also by the indexes of their files; of others on a server about.

        That is what they expand to.
        """
        if self.layout is None and not self.snapshot.is_local:
            item_bytes = self._metadata.item_bytes or STRING_BYTES
            size_bytes = len(positions) * math.prod(self.info.chunks) * item_bytes
            estimate.add_inexact(size_bytes, requests=len(positions))
            return
        for file, some in self._in_files(positions).items():
            estimate_ranges(
                file.places(some).values(),
                estimate,
                snapshot=self.snapshot,
                file=file,
                file_bytes=file.size or 0,
                is_begun=True,
            )

    def _file(self, position: Position) -> _ChunkFile:
        """Return the file of a chunk; one of many is the same for all of them."""
        if self.layout is None:
            return _ChunkFile(self, position)
        outer = tuple(map(operator.floordiv, position, self._grid))
        if outer not in self._files:
            self._files[outer] = _ChunkFile(self, outer)
        return self._files[outer]

    def _in_files(self, positions: list[Position]) -> dict[_ChunkFile, list[Position]]:
        """Return chunks by their file."""
        files: dict[_ChunkFile, list[Position]] = {}
        for position in positions:
            files.setdefault(self._file(position), []).append(position)
        return files

    def check_stored(self, *, is_complete: bool = False) -> None:
        """Raise if the first or the last file is missing or too short, or some between are missing.

        By their sizes alone; asks no server.
        """
        metadata, info = self._metadata, self._metadata.info
        if info.size == 0 or not self.snapshot.is_local:
            return
        is_needed = is_complete or metadata.fill_value is None
        lengths = zip(info.shape, info.chunks, self._grid, strict=True)
        grid = [-(-n // (c * count)) for n, c, count in lengths]
        for position in {(0,) * len(grid), tuple(n - 1 for n in grid)}:
            size_bytes = self.snapshot.size(self.key(position))
            if size_bytes is not None:
                self._check_size(position, size_bytes)
            elif is_needed:
                raise self._missing(self._file_name(position))
        count = math.prod(grid)
        is_listed = len(grid) == 1 or metadata.separator == "."
        if is_needed and count > _MANY_CHUNKS and is_listed:
            stored = len(self.snapshot.names(key_below(self._path, metadata.prefix)))
            if stored < count:
                raise CorruptDataError(
                    f"{self.what}: {count:,} chunks are needed, and there are at most {stored:,}"
                )

    def _check_size(self, position: Position, size_bytes: int) -> None:
        """Raise if a file has too few bytes for its chunk, or of plain numbers too many."""
        info, encoding = self._metadata.info, self._metadata.encoding
        if self.layout is not None:
            index_bytes(self.layout, size_bytes, what=self.what)
            return
        what, count = self._file_name(position), math.prod(info.chunks)
        elements = min(count, info.size)
        least = elements // _MOST_PER_BYTE if encoding.codecs else elements * _LENGTH_BYTES
        if not encoding.codecs and encoding.dtype is not None:
            if size_bytes != count * encoding.dtype.itemsize:
                raise wrong_size(what, size_bytes, info.chunks, encoding.dtype)
        elif size_bytes < least:
            raise CorruptDataError(
                f"{what} is truncated: it has {size_bytes:,} bytes, which cannot hold "
                f"{elements:,} elements"
            )

    def _file_name(self, position: Position) -> str:
        return f"{self.what}: the chunk file {self._metadata.chunk_key(position)!r}"

    def _missing(self, name: str) -> CorruptDataError:
        """Say that a chunk, or the file of it, is missing."""
        has_fill = self._metadata.fill_value is not None
        reason = "must not be filled" if has_fill else "has no fill value to stand in for it"
        return CorruptDataError(f"{name} is missing, and the array {reason}")

    def fingerprint(self) -> Fingerprint | None:
        """Return what tells the single plain chunk from any other."""
        if not self._metadata.has_plain_chunk:
            return None
        return self.snapshot.fingerprint(self._key)

    def key(self, position: Position) -> str:
        """Return the key of a file."""
        return key_below(self._path, self._metadata.chunk_key(position))


class PlainArray(FileArray):
    """An array in one chunk that is neither compressed nor filtered; see `StoredArray`."""

    @property
    def _is_numeric(self) -> bool:
        return self._metadata.info.is_mappable

    def read(self) -> AnyArray:
        """Return all elements; a read-only view of the mapped file where that is possible."""
        return self._mapped() if self._is_numeric else super().read()

    def read_spans(self, spans: list[Span], within: Span | None = None) -> list[AnyArray]:
        """Return several ranges of the first dimension; of a server, asked for together."""
        if not self._is_numeric:
            return super().read_spans(spans, within)
        is_at_hand = self.info.is_mappable or not self.info.size
        size = None if is_at_hand else self.snapshot.size(self._key)
        if size is None:
            return StoredArray.read_spans(self, spans, within)
        self._check_size(self._first, size)
        parts = self.snapshot.read_ranges(self._key, byte_ranges(self.info, spans))
        return rows_of(self.info, parts, within)

    read_joined = StoredArray.read_joined

    def estimate(
        self, spans: list[Span], estimate: ReadEstimate, within: Span | None = None
    ) -> None:
        """Add what `read_spans` would cost."""
        if self.info.is_mappable:
            StoredArray.estimate(self, spans, estimate, within)
        elif self._is_numeric and self.info.size:
            ranges, size = byte_ranges(self.info, spans), self.info.size * self.info.item_bytes
            estimate_ranges(ranges, estimate, snapshot=self.snapshot, file=self, file_bytes=size)
        else:
            estimate_strings(self, self.snapshot, spans, estimate)

    def string_pieces(self) -> Iterator[pa.Array]:
        """Yield all strings in pieces, each of which has a string once; few are in memory."""
        data = self._mapped_chunk() if self.info.size else None
        if data is None:
            yield self.read_strings()
            return
        for piece in vlen.decode_vlen_pieces(data, what=self.what, count=self.info.size):
            yield piece.dictionary_encode()

    def plain_strings(self) -> memoryview | None:
        """Return the chunk, if it is one of strings, mapped."""
        return self._mapped_chunk() if self.info.storage_type.is_string else None

    def mapped_strings(self) -> memoryview | None:
        """Return the chunk of strings, unless it has to be downloaded or expanded."""
        return self.plain_strings() if self.snapshot.is_mapped(self._key) else None

    def open_file(self) -> int | None:
        """Return a descriptor of the chunk's file, if it has one of its own."""
        return self.snapshot.open_file(self._key) if self.info.size else None

    def _name(self, position: Position) -> str:  # noqa: ARG002 - it has one
        return self.what

    def _mapped(self) -> AnyArray:
        if self.info.size == 0:
            return frozen(np.empty(self.info.shape, self.info.storage_type.dtype))
        data = self._mapped_chunk()
        if data is None:
            return self._filled()
        self._check_size(self._first, len(data))
        return np.frombuffer(data, self.info.storage_type.dtype).reshape(self.info.shape)

    def _mapped_chunk(self) -> memoryview | None:
        is_numeric = self._is_numeric
        most_bytes = self.info.size * self.info.item_bytes if is_numeric else self.most_bytes
        return self.snapshot.map_within(self._key, most_bytes, what=self.what)

    def _filled(self) -> AnyArray:
        """Return what stands in for a missing chunk, as the Zarr specification has it."""
        fill_value = self.fill_value(self._first)
        size_bytes = self.info.size * self.info.item_bytes
        if size_bytes > _MAX_FILLED_BYTES:
            raise CorruptDataError(
                f"{self.what}: the array is said to have the shape {list(self.info.shape)}, and "
                f"there is no data for its {size_bytes:,} bytes"
            )
        return frozen(np.full(self.info.shape, fill_value, self.info.storage_type.dtype))


def _read(chunks: tuple[_ChunkFile, list[Position]]) -> list[tuple[Position, memoryview | None]]:
    """Return the stored bytes of chunks of a file; None for one that is not stored."""
    file, positions = chunks
    places = file.places(positions)
    parts = file.read_ranges(list(places.values())) if places else []  # or no file
    found = dict(zip(places, parts, strict=True))
    return [(position, found.get(position)) for position in positions]


class _ChunkFile:
    """One file of chunks: where each of them is."""

    def __init__(self, array: FileArray, outer: Position) -> None:
        self._array = array
        self._snapshot = array.snapshot
        self.key = array.key(outer)
        self.version = self._snapshot.bytes_version(self.key)
        """What changes with its bytes, looked at before they are read."""
        self._index: AnyArray | None = None

    @cached_property
    def size(self) -> int | None:
        """How many bytes it has; None if it is not there."""
        return self._snapshot.size(self.key)

    def places(self, positions: list[Position]) -> dict[Position, tuple[int, int]]:
        """Return where chunks are in the file, as start and stop, of those that are stored."""
        layout, size = self._array.layout, self.size
        if size is None:
            return {}
        if layout is None:
            return {positions[0]: (0, size)}
        if self._index is None:
            self._index = self._read_index(layout, size)
        local = np.array(positions, np.int64) % layout.grid
        offsets, sizes = self._index[np.ravel_multi_index(tuple(local.T), layout.grid)].T
        is_absent = (offsets == _ABSENT) & (sizes == _ABSENT)
        most = np.uint64(size)
        is_outside = ~is_absent & ((sizes > most) | (offsets > most - np.minimum(sizes, most)))
        if is_outside.any():
            first = int(np.argmax(is_outside))
            raise CorruptDataError(
                f"{self._array.what}: chunk {list(positions[first])} is said to be at "
                f"{int(offsets[first]):,} with {int(sizes[first]):,} bytes, but the file has "
                f"{size:,}; it is truncated"
            )
        found = zip(positions, is_absent.tolist(), offsets.tolist(), sizes.tolist(), strict=True)
        return {at: (start, start + size) for at, absent, start, size in found if not absent}

    def _read_index(self, layout: ShardLayout, size: int) -> AnyArray:
        needed = index_bytes(layout, size, what=self._array.what)
        start = 0 if layout.index_at_start else size - needed
        data = self.read_ranges([(start, start + needed)])[0]
        stored = data[: needed // ENTRY_BYTES * ENTRY_BYTES]
        if layout.has_checksum:
            checksum = struct.unpack("<I", data[len(stored) :])[0]
            if google_crc32c.value(bytes(stored)) != checksum:
                raise CorruptDataError(
                    f"{self._array.what}: damaged: the checksum of the index of its chunks is wrong"
                )
        return np.frombuffer(stored, "<u8").reshape(-1, 2)

    def read_ranges(self, ranges: list[tuple[int, int]]) -> list[memoryview]:
        """Return parts of the file; one that is compressed itself, in an archive, is remembered."""
        snapshot, version = self._snapshot, self.version
        snapshot.check_within(self.key, self._array.most_bytes, what=self._array.what)
        is_read_again = self._array.layout is not None and snapshot.is_local
        if version is None or not is_read_again or snapshot.is_mapped(self.key):
            return snapshot.read_ranges(self.key, ranges)
        whole = self._array.memory.get(
            self.key, version, lambda: np.frombuffer(snapshot.map(self.key) or b"", np.uint8)
        )
        return [whole[start:stop].data for start, stop in ranges]


def index_bytes(layout: ShardLayout, size: int, *, what: str) -> int:
    """Return the length of the index with its checksum; a file may be too short."""
    count = math.prod(layout.grid)
    needed = count * ENTRY_BYTES + layout.has_checksum * CHECKSUM_BYTES
    if size < needed:
        raise CorruptDataError(
            f"{what}: the file has {size:,} bytes and no room for the index of its {count:,} "
            "chunks; it is truncated"
        )
    return needed

"""The chunks of a Zarr array: each in a file of its own, or many small ones in a file.

Daf packs arrays in the latter way, in the shape of the Zarr v3 sharding codec; others cut an array
into several such files, which are read alike.  zarr-python reads them too and is what the tests
compare with; here a chunk costs microseconds, and only those that are asked for are decoded.

What is written is compressed on all cores, and stands in the file in its order.  The file is not
known before its index is, so chunks wait in memory or, if they are many, in a temporary file.

Source: the specification of ``sharding_indexed``.
"""

from __future__ import annotations

import functools
import itertools
import math
import struct
from collections.abc import Callable, Hashable, Iterable, Iterator
from tempfile import TemporaryFile, gettempdir
from typing import IO, TYPE_CHECKING, Any, Final

import google_crc32c
import numpy as np
import pyarrow as pa

from daf_storage._lazy import lazy_module
from daf_storage.base import AnyArray, DecodedCache, Packing, StorageType
from daf_storage.base import strings as vlen
from daf_storage.errors import CorruptDataError, os_errors
from daf_storage.stores import (
    ReadEstimate,
    Snapshot,
    estimate_ranges,
)
from daf_storage.trees._chunked_array import MAX_CHUNKS, Position, groups, wrong_size
from daf_storage.trees._decompress import computed, fetched, limit_of_stored
from daf_storage.trees._metadata import ArrayMetadata, ShardLayout, key_below
from daf_storage.trees._stored_array import STRING_BYTES

if TYPE_CHECKING:
    import numcodecs
else:
    numcodecs = lazy_module("numcodecs")


_MAX_FILES: Final = 1 << 20
_MAX_READ_BYTES: Final = 1 << 24
_MANY_CHUNKS: Final = 1 << 8
_MOST_PER_BYTE: Final = 1 << 17
_STRING_BYTES: Final = 4
_ABSENT: Final = 2**64 - 1
_CHECKSUM_BYTES: Final = 4
_ENTRY_BYTES: Final = 16
_FETCHED_CHUNKS: Final = 4096


class FileChunks:
    """Chunks of which each is a file of its own; see `ChunkLocator`."""

    most_chunks = _MAX_FILES

    def __init__(
        self, snapshot: Snapshot, path: str, metadata: ArrayMetadata, *, what: str
    ) -> None:
        self.snapshot = snapshot
        self._path = path
        self._metadata = metadata
        self.what = what
        count = math.prod(metadata.info.chunks)
        is_small = count * metadata.item_bytes <= _MAX_READ_BYTES
        self.most_bytes = limit_of_stored(count, metadata.item_bytes)
        is_file = snapshot.is_local and not snapshot.has_entries
        self._is_read = bool(metadata.encoding.codecs) and is_file and is_small

    def is_stored(self, position: Position, *, asks_server: bool) -> bool:
        """Return whether a chunk is there, by the size of its file."""
        is_known = asks_server or self.snapshot.is_local
        return not is_known or self.snapshot.size(self.key(position)) is not None

    def name(self, position: Position) -> str:
        """Return what messages call a chunk."""
        return f"chunk {self._metadata.chunk_key(position)!r}"

    def version(self, position: Position) -> Hashable | None:
        """Return what changes with the file of a chunk; None where nothing is decoded."""
        key = self.key(position)
        if not self._metadata.encoding.codecs and self.snapshot.is_mapped(key):
            return None
        return self.snapshot.bytes_version(key)

    def fetch(self, positions: list[Position]) -> Iterator[tuple[Position, Any]]:
        """Yield the stored bytes of chunks; those that take time several at a time."""
        if not positions or self.snapshot.is_mapped(self.key(positions[0])):
            return ((position, self._stored(position)) for position in positions)
        return fetched(positions, self._stored)

    def fill_value(self, position: Position) -> Any:
        """Return what stands in for a missing chunk."""
        if self._metadata.fill_value is None:
            raise self._missing(position)
        return self._metadata.fill_value

    def add_stored(self, positions: list[Position], estimate: ReadEstimate) -> None:
        """Add the bytes of files; of a server, about what they expand to."""
        if self.snapshot.is_local:
            sizes = (self.snapshot.size(self.key(position)) for position in positions)
            estimate.add_bytes(sum(size or 0 for size in sizes))
            return
        each = math.prod(self._metadata.info.chunks) * (self._metadata.item_bytes or STRING_BYTES)
        estimate.add_inexact(len(positions) * each, requests=len(positions))

    def check_stored(self, *, is_complete: bool) -> None:
        """Raise if the first or the last file is missing or too short, or some between are missing.

        By their sizes alone; asks no server.
        """
        metadata, info = self._metadata, self._metadata.info
        if info.size == 0 or not self.snapshot.is_local:
            return
        is_needed = is_complete or metadata.fill_value is None
        grid = [-(-n // c) for n, c in zip(info.shape, info.chunks, strict=True)]
        for position in {(0,) * len(grid), tuple(n - 1 for n in grid)}:
            size_bytes = self.snapshot.size(self.key(position))
            if size_bytes is not None:
                self._check_size(position, size_bytes)
            elif is_needed:
                raise self._missing(position)
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
        what = f"{self.what}: the chunk file {self._metadata.chunk_key(position)!r}"
        count = math.prod(info.chunks)
        if not encoding.codecs and encoding.dtype is not None:
            if size_bytes != count * encoding.dtype.itemsize:
                raise wrong_size(what, size_bytes, info.chunks, encoding.dtype)
        elif self._metadata.has_plain_chunk and size_bytes < _STRING_BYTES * (info.size + 1):
            raise CorruptDataError(
                f"{what} is truncated: it has {size_bytes:,} bytes, which cannot hold "
                f"{info.size:,} strings"
            )
        elements = min(count, info.size)
        if elements > max(size_bytes, 1) * (_MOST_PER_BYTE if encoding.codecs else 1):
            raise CorruptDataError(
                f"{what} has {size_bytes:,} bytes, which cannot hold {elements:,} elements"
            )

    def _missing(self, position: Position) -> CorruptDataError:
        """Say that the file of a chunk is missing."""
        has_fill = self._metadata.fill_value is not None
        reason = "must not be filled" if has_fill else "has no fill value to stand in for it"
        return CorruptDataError(
            f"{self.what}: the chunk file {self._metadata.chunk_key(position)!r} is missing, and "
            f"the array {reason}"
        )

    def fingerprint(self) -> list[int] | None:
        """Return what tells the single plain chunk from any other."""
        if not self._metadata.has_plain_chunk:
            return None
        return self.snapshot.fingerprint(self.key((0,) * len(self._metadata.info.shape)))

    def _stored(self, position: Position) -> memoryview | bytes | None:
        """Return the bytes of a chunk; to map a file takes longer than to read a small one."""
        key = self.key(position)
        if self._is_read:
            return self.snapshot.read(key)
        return self.snapshot.map_within(key, self.most_bytes, what=self.what)

    def key(self, position: Position) -> str:
        """Return the key of a file."""
        return key_below(self._path, self._metadata.chunk_key(position))


class _ShardFile:
    """One file of small chunks: where each of them is."""

    def __init__(self, chunks: ShardChunks, outer: Position) -> None:
        self._chunks = chunks
        self._snapshot = chunks.snapshot
        self.key = chunks.key(outer)
        self.version = self._snapshot.bytes_version(self.key)
        """What changes with its bytes, looked at before they are read."""
        self.size = self._snapshot.size(self.key)
        self._index: AnyArray | None = None

    def places(self, numbers: AnyArray, positions: list[Position]) -> list[tuple[int, int] | None]:
        """Return where chunks are in the file, as start and stop; None for those not stored.

        Parameters
        ----------
        numbers, positions
            The place of each chunk in the index, and within the array.
        """
        if self.size is None:
            return [None] * len(positions)
        if self._index is None:
            self._index = self._read_index(self.size)
        offsets, sizes = self._index[numbers].T
        is_absent = (offsets == _ABSENT) & (sizes == _ABSENT)
        most = np.uint64(self.size)
        is_outside = ~is_absent & ((sizes > most) | (offsets > most - np.minimum(sizes, most)))
        if is_outside.any():
            first = int(np.argmax(is_outside))
            raise CorruptDataError(
                f"{self._chunks.what}: chunk {list(positions[first])} is said to be at "
                f"{int(offsets[first]):,} with {int(sizes[first]):,} bytes, but the file has "
                f"{self.size:,}; it is truncated"
            )
        found = zip(is_absent.tolist(), offsets.tolist(), sizes.tolist(), strict=True)
        return [None if absent else (offset, offset + size) for absent, offset, size in found]

    def _read_index(self, size: int) -> AnyArray:
        layout = self._chunks.layout
        index_bytes, needed = self.index_bytes(size)
        start = 0 if layout.index_at_start else size - needed
        data = self.read_ranges([(start, start + needed)])[0]
        stored = data[:index_bytes]
        if layout.has_checksum:
            checksum = struct.unpack("<I", data[index_bytes:])[0]
            if google_crc32c.value(bytes(stored)) != checksum:
                raise CorruptDataError(
                    f"{self._chunks.what}: the checksum of the index of its chunks is wrong; "
                    "the file is damaged"
                )
        return np.frombuffer(stored, "<u8").reshape(-1, 2)

    def read_ranges(self, ranges: list[tuple[int, int]]) -> list[memoryview]:
        """Return parts of the file; one that is compressed itself, in an archive, is remembered."""
        self._snapshot.check_within(self.key, self._chunks.most_bytes, what=self._chunks.what)
        if not self._snapshot.is_local or self._snapshot.is_mapped(self.key):
            return self._snapshot.read_ranges(self.key, ranges)
        version = self.version
        whole = None if version is None else self._chunks.cache.peek(self.key, version)
        if whole is None:
            whole = np.frombuffer(self._snapshot.map(self.key) or b"", np.uint8)
            if version is not None:
                self._chunks.cache.keep(self.key, version, whole)
        return [whole[start:stop].data for start, stop in ranges]

    def index_bytes(self, size: int) -> tuple[int, int]:
        """Return the length of the index without and with its checksum; a file may be too short."""
        count = math.prod(self._chunks.layout.grid)
        index_bytes = count * _ENTRY_BYTES
        needed = index_bytes + self._chunks.layout.has_checksum * _CHECKSUM_BYTES
        if size < needed:
            raise CorruptDataError(
                f"{self._chunks.what}: the file has {size:,} bytes and no room for the index of "
                f"its {count:,} chunks; it is truncated"
            )
        return index_bytes, needed


class ShardChunks(FileChunks):
    """Small chunks in files of many; of what Daf packs, in one file; see `ChunkLocator`."""

    most_chunks = MAX_CHUNKS

    def __init__(
        self,
        snapshot: Snapshot,
        path: str,
        metadata: ArrayMetadata,
        layout: ShardLayout,
        *,
        cache: DecodedCache,
        what: str,
    ) -> None:
        super().__init__(snapshot, path, metadata, what=what)
        self.layout = layout
        self.cache = cache
        self._files: dict[Position, _ShardFile] = {}
        info = metadata.info
        heights = [count * chunk for count, chunk in zip(layout.grid, info.chunks, strict=True)]
        self._grid = [-(-n // h) for n, h in zip(info.shape, heights, strict=True)]
        self.most_bytes = limit_of_stored(
            math.prod(heights), metadata.item_bytes, n_chunks=math.prod(layout.grid)
        )
        self._first = self._file((0,) * len(self._grid))

    def is_stored(self, position: Position, *, asks_server: bool) -> bool:
        """Return whether a chunk is there, by the index of its file."""
        is_known = asks_server or self.snapshot.is_local
        return not is_known or any(self._places([position]).values())

    def name(self, position: Position) -> str:
        """Return what messages call a chunk."""
        return f"chunk {list(position)}"

    def version(self, position: Position) -> Hashable | None:
        """Return what changes with the file of a chunk; None where nothing is decoded."""
        if not self._metadata.encoding.codecs:
            return None
        outer = tuple(n // g for n, g in zip(position, self.layout.grid, strict=True))
        return self._file(outer).version

    def fetch(self, positions: list[Position]) -> Iterator[tuple[Position, Any]]:
        """Yield the compressed bytes of chunks; None for one that is not stored."""
        for first in range(0, len(positions), _FETCHED_CHUNKS):
            some = positions[first : first + _FETCHED_CHUNKS]
            found: dict[Position, memoryview] = {}
            for file, places in self._places(some).items():
                parts = file.read_ranges(list(places.values())) if places else []  # or no file
                found.update(zip(places, parts, strict=True))
            for position in some:
                yield position, found.get(position)

    def fill_value(self, position: Position) -> Any:  # noqa: ARG002 - the same for all
        """Return what stands in for chunks that are not stored."""
        if self._metadata.fill_value is None:
            raise CorruptDataError(
                f"{self.what}: chunks are missing, and the array has no fill value"
            )
        return self._metadata.fill_value

    def add_stored(self, positions: list[Position], estimate: ReadEstimate) -> None:
        """Add the bytes of chunks; where they are is read from the indexes."""
        for first in range(0, len(positions), _FETCHED_CHUNKS):
            for places in self._places(positions[first : first + _FETCHED_CHUNKS]).values():
                estimate_ranges(self.snapshot, list(places.values()), estimate)

    def check_stored(self, *, is_complete: bool) -> None:
        """Raise if the first or the last file is missing, or has no room for its index."""
        for outer in {(0,) * len(self._grid), tuple(n - 1 for n in self._grid)}:
            file = self._file(outer)
            if file.size is not None:
                file.index_bytes(file.size)
            elif is_complete or self._metadata.fill_value is None:
                raise self._missing(outer)

    def _file(self, outer: Position) -> _ShardFile:
        """Return the file at a position of the grid of files."""
        if outer not in self._files:
            self._files[outer] = _ShardFile(self, outer)
        return self._files[outer]

    def _places(
        self, positions: list[Position]
    ) -> dict[_ShardFile, dict[Position, tuple[int, int]]]:
        """Return where the chunks are that are stored, by their file."""
        grid = self.layout.grid
        outer, local = np.divmod(np.array(positions, np.int64).reshape(-1, len(grid)), grid)
        numbers = np.ravel_multi_index(tuple(local.T), grid)
        found: dict[_ShardFile, dict[Position, tuple[int, int]]] = {}
        for file, members in self._by_file(outer):
            some = positions if members is None else [positions[n] for n in members]
            within = numbers if members is None else numbers[members]
            places = zip(some, file.places(within, some), strict=True)
            found[file] = {position: place for position, place in places if place is not None}
        return found

    def _by_file(self, outer: AnyArray) -> Iterator[tuple[_ShardFile, list[int] | None]]:
        """Yield files, and which of some chunks are in each; None: all of them."""
        if math.prod(self._grid) == 1:
            yield self._first, None
            return
        members: dict[Position, list[int]] = {}
        for number, position in enumerate(map(tuple, outer.tolist())):
            members.setdefault(position, []).append(number)
        for position, numbers in members.items():
            yield self._file(position), numbers


_PART_BYTES: Final = 1 << 24
_HELD_BYTES: Final = 1 << 22
"""So many compressed bytes wait in memory."""
_TASK_BYTES: Final = 1 << 18
"""About how many bytes a thread compresses at a time."""
_SHUFFLES: Final = {"shuffle": 1, "bitshuffle": 2}


class ShardWriter:
    """Compresses an array chunk by chunk; memory does not grow with it.

    Parameters
    ----------
    shape, storage_type, packing
        Of the array; its chunks follow from them.
    """

    def __init__(self, shape: tuple[int, ...], storage_type: StorageType, packing: Packing) -> None:
        chunks = packing.chunks(shape, storage_type)
        if chunks is None:
            raise TypeError("the array is too small to be packed")
        self._width = math.prod(chunks)
        self._is_flat = chunks[1:] == shape[1:]  # the elements of a chunk follow each other
        self._dtype = None if storage_type.is_string else storage_type.dtype
        self._per_task = max(_TASK_BYTES // (packing.chunk_kb << 10), 1)
        self._compress: Callable[[Any], bytes] = _compressor(packing)
        self._rest = np.empty(0, self._dtype or np.uint8)
        self._places: list[tuple[int, int]] = []
        count = math.prod(math.ceil(n / c) for n, c in zip(shape, chunks, strict=True))
        self._end = count * _ENTRY_BYTES + _CHECKSUM_BYTES
        self._waiting = _Waiting()

    def add_numbers(self, block: AnyArray) -> None:
        """Add the next range of the first dimension."""
        if not self._is_flat:
            self._run(piece for row in block for piece in self._pieces(row))
            return
        values = block.reshape(-1)
        if self._rest.size:
            values = np.concatenate([self._rest, values])
        stop = values.size // self._width * self._width
        self._run(self._pieces(values[:stop]))
        self._rest = values[stop:].copy()

    def add_strings(self, strings: pa.Array) -> None:
        """Add all strings of a vector."""
        self._run(self._pieces(strings))

    def parts(self) -> Iterator[bytes | memoryview]:
        """Yield the bytes of the file: the index, then the chunks; they stay what they are."""
        self._run(self._pieces(self._rest))
        index = np.array(self._places, "<u8").tobytes()
        yield index + struct.pack("<I", google_crc32c.value(index))
        yield from self._waiting.parts()

    def _pieces(self, values: Any) -> Iterator[Any]:
        """Yield the elements of each chunk; the last one may have fewer."""
        return (values[n : n + self._width] for n in range(0, len(values), self._width))

    def _run(self, pieces: Iterable[Any]) -> None:
        """Compress chunks side by side, and note them in their order."""
        tasks = (functools.partial(self._packed, group) for group in groups(pieces, self._per_task))
        for chunk in itertools.chain.from_iterable(computed(tasks)):
            self._waiting.add(chunk)
            self._places.append((self._end, len(chunk)))
            self._end += len(chunk)

    def _packed(self, pieces: list[Any]) -> list[bytes]:
        return [self._compress(self._filled(piece)) for piece in pieces]

    def _filled(self, piece: Any) -> Any:
        """Return what is compressed of a chunk; the last one is filled up."""
        missing = self._width - len(piece)
        if self._dtype is None:
            if missing:
                piece = pa.concat_arrays([piece, pa.repeat(pa.scalar("", piece.type), missing)])
            return b"".join(map(bytes, vlen.encode_vlen_utf8(piece)))
        if missing:
            piece = np.concatenate([piece, np.zeros(missing, piece.dtype)])
        return np.ascontiguousarray(piece, self._dtype)


class _Waiting:
    """Bytes that wait to be written: in memory, or in a temporary file that goes with them."""

    def __init__(self) -> None:
        self._held = bytearray()
        self._file: IO[bytes] | None = None

    def add(self, data: bytes) -> None:
        """Add bytes."""
        self._held += data
        if len(self._held) > _HELD_BYTES:
            with os_errors(gettempdir()):
                if self._file is None:
                    self._file = TemporaryFile()  # noqa: SIM115 - it goes with this object
                self._file.write(self._held)
            self._held = bytearray()

    def parts(self) -> Iterator[bytes | memoryview]:
        """Yield all of them; those of a file are mapped."""
        if self._file is not None:
            with os_errors(gettempdir()), self._file as file:
                file.flush()
                mapped: AnyArray = np.memmap(file, np.uint8, "r")
            for start in range(0, mapped.size, _PART_BYTES):
                yield mapped[start : start + _PART_BYTES].data
        yield bytes(self._held)


def _compressor(packing: Packing) -> Callable[[Any], bytes]:
    """Return the function that compresses a chunk."""
    codec: dict[str, Any] = {"id": packing.codec, "level": packing.level}
    if packing.codec.startswith("blosc"):
        shuffle = _SHUFFLES[packing.shuffle]
        codec = {"id": "blosc", "cname": packing.compressor, "clevel": packing.level}
        codec |= {"shuffle": shuffle, "blocksize": 0}
    encode: Callable[[Any], bytes] = numcodecs.get_codec(codec).encode
    return encode

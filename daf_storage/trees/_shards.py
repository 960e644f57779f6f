"""Files of many small chunks, each compressed by itself: reading a part.

Others cut an array into several such files, which are read alike.  Daf packs arrays like this
(`daf_storage.trees._shard_writer`), in the shape of the Zarr v3 sharding codec.  zarr-python reads
them too and is what the tests compare with; here a chunk costs microseconds, and only those that
are asked for are decoded.  Source: the specification of ``sharding_indexed``.
"""

from __future__ import annotations

import math
import posixpath
import struct
from collections.abc import Hashable, Iterator
from typing import Any, Final

import google_crc32c
import numpy as np
import pyarrow as pa

from daf_storage.base import AnyArray, Span
from daf_storage.base import strings as vlen
from daf_storage.errors import CorruptDataError
from daf_storage.stores import (
    ReadEstimate,
    Snapshot,
    bytes_version,
    check_within,
    estimate_ranges,
    is_mapped,
)
from daf_storage.trees._array_bases import STRING_BYTES
from daf_storage.trees._chunk_grid import ChunkedRead, Position
from daf_storage.trees._chunk_reader import (
    ChunkMemory,
    coded_string_chunks,
    estimate_decoded,
    read_chunks,
    read_ranges,
    read_string_chunks,
)
from daf_storage.trees._decompress import decompress, limit_of_stored, limit_of_strings
from daf_storage.trees._joined_ranges import Ranges
from daf_storage.trees._metadata import ArrayMetadata, ShardLayout

_ABSENT: Final = 2**64 - 1
_CHECKSUM_BYTES: Final = 4
_ENTRY_BYTES: Final = 16
_FETCHED_CHUNKS: Final = 4096


class _ShardFile:
    """One file of small chunks: where each of them is."""

    def __init__(
        self,
        snapshot: Snapshot,
        key: str,
        layout: ShardLayout,
        *,
        memory: ChunkMemory,
        most_bytes: int,
        what: str,
    ) -> None:
        self.key = key
        self._most_bytes = most_bytes
        self._memory = memory
        self._snapshot = snapshot
        self._layout = layout
        self._what = what
        self.version = bytes_version(snapshot, key)
        """What changes with its bytes, looked at before they are read."""
        self.size = snapshot.size(key)
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
                f"{self._what}: chunk {list(positions[first])} is said to be at "
                f"{int(offsets[first]):,} with {int(sizes[first]):,} bytes, but the file has "
                f"{self.size:,}; it is truncated"
            )
        found = zip(is_absent.tolist(), offsets.tolist(), sizes.tolist(), strict=True)
        return [None if absent else (offset, offset + size) for absent, offset, size in found]

    def _read_index(self, size: int) -> AnyArray:
        layout = self._layout
        index_bytes, needed = self.index_bytes(size)
        start = 0 if layout.index_at_start else size - needed
        data = self.read_ranges([(start, start + needed)])[0]
        stored = data[:index_bytes]
        if layout.has_checksum:
            checksum = struct.unpack("<I", data[index_bytes:])[0]
            if google_crc32c.value(bytes(stored)) != checksum:
                raise CorruptDataError(
                    f"{self._what}: the checksum of the index of its chunks is wrong; "
                    "the file is damaged"
                )
        return np.frombuffer(stored, "<u8").reshape(-1, 2)

    def read_ranges(self, ranges: list[tuple[int, int]]) -> list[memoryview]:
        """Return parts of the file; one that is compressed itself, in an archive, is remembered."""
        check_within(self._snapshot, self.key, self._most_bytes, what=self._what)
        if not self._snapshot.is_local or is_mapped(self._snapshot, self.key):
            return self._snapshot.read_ranges(self.key, ranges)
        whole = self._memory.find(self.key, self.version)
        if whole is None:
            whole = np.frombuffer(self._snapshot.map(self.key) or b"", np.uint8)
            self._memory.keep(self.key, self.version, whole)
        return [whole[start:stop].data for start, stop in ranges]

    def index_bytes(self, size: int) -> tuple[int, int]:
        """Return the length of the index without and with its checksum; a file may be too short."""
        count = math.prod(self._layout.grid)
        index_bytes = count * _ENTRY_BYTES
        needed = index_bytes + self._layout.has_checksum * _CHECKSUM_BYTES
        if size < needed:
            raise CorruptDataError(
                f"{self._what}: the file has {size:,} bytes and no room for the index of its "
                f"{count:,} chunks; it is truncated"
            )
        return index_bytes, needed


class ShardReader:
    """The chunks of one array in its files; of what Daf packs, that is one.

    Parameters
    ----------
    snapshot, path
        Where the array is.
    metadata
        Its metadata, which say that it is stored like this.
    what
        The array as messages name it.
    """

    def __init__(
        self,
        snapshot: Snapshot,
        path: str,
        metadata: ArrayMetadata,
        *,
        memory: ChunkMemory,
        what: str,
    ) -> None:
        if metadata.shard is None:
            raise TypeError("the array is not one of many small chunks")
        self._snapshot = snapshot
        self._path = path
        self._metadata = metadata
        self._layout: ShardLayout = metadata.shard
        self.info = metadata.info
        self.what = what
        self.memory = memory
        self.decodes_in_threads = self._layout.codec is not None
        self._fill_value = metadata.fill_value
        self._files: dict[Position, _ShardFile] = {}
        per_file = zip(self._layout.grid, self.info.chunks, strict=True)
        heights = [count * chunk for count, chunk in per_file]
        self._grid = [-(-n // h) for n, h in zip(self.info.shape, heights, strict=True)]
        item_bytes = 0 if self.info.storage_type.is_string else self.dtype.itemsize
        self._most_bytes = limit_of_stored(
            math.prod(heights), item_bytes, n_chunks=math.prod(self._layout.grid)
        )
        self._first = self._file((0,) * len(self._grid))

    @property
    def dtype(self) -> np.dtype[Any]:
        """The type of the elements."""
        return self.info.storage_type.dtype

    def _file(self, outer: Position) -> _ShardFile:
        """Return the file at a position of the grid of files."""
        if outer not in self._files:
            key = posixpath.join(self._path, self._metadata.chunk_key(outer))
            self._files[outer] = _ShardFile(
                self._snapshot,
                key,
                self._layout,
                memory=self.memory,
                most_bytes=self._most_bytes,
                what=self.what,
            )
        return self._files[outer]

    @property
    def _has_no_file(self) -> bool:
        """Whether the only file is missing."""
        return math.prod(self._grid) == 1 and self._first.size is None

    def check_stored(self, *, is_complete: bool) -> None:
        """Raise if the first or the last file is missing, or has no room for its index."""
        for outer in ((0,) * len(self._grid), tuple(n - 1 for n in self._grid)):
            file = self._file(outer)
            if file.size is None and (is_complete or self._fill_value is None):
                name = self._metadata.chunk_key(outer)
                raise CorruptDataError(f"{self.what}: the chunk file {name!r} is missing")
            if file.size is not None:
                file.index_bytes(file.size)

    def read_spans(self, spans: list[Span], within: Span | None = None) -> list[AnyArray]:
        """Return ranges of the first dimension of numbers; each chunk is decoded once.

        Parameters
        ----------
        within
            Of the second dimension of a matrix, only this range.
        """
        if self._has_no_file:
            return self._filled_spans(spans, within)
        return read_chunks(self, spans, within)

    def read_joined(self, ranges: Ranges) -> AnyArray | None:
        """Return ranges of a vector, one after the other; None if nothing is stored."""
        return None if self._has_no_file else read_ranges(self, ranges)

    def _filled_spans(self, spans: list[Span], within: Span | None) -> list[AnyArray]:
        """Return ranges of an array of which nothing is stored."""
        self._refuse_missing()
        rest = list(self.info.shape[1:])
        if within is not None:
            rest[0] = within.size
        dtype = self.info.storage_type.dtype
        out = [np.full((span.size, *rest), self._fill_value, dtype) for span in spans]
        for values in out:
            values.flags.writeable = False
        return out

    def estimate(self, spans: list[Span], estimate: ReadEstimate, within: Span | None) -> None:
        """Add what the chunks of `read_spans` cost; where they are is read from the indexes."""
        read = ChunkedRead.of(self.info, spans, within, what=self.what)
        wanted = read.positions()
        for first in range(0, len(wanted), _FETCHED_CHUNKS):
            for file, places in self._places(wanted[first : first + _FETCHED_CHUNKS]).items():
                estimate_ranges(self._snapshot, file.key, list(places.values()), estimate)
        if self.decodes_in_threads:
            kind = self.info.storage_type
            item_bytes = STRING_BYTES if kind.is_string else kind.dtype.itemsize
            estimate_decoded(read, item_bytes, estimate)

    def coded_strings(self) -> Iterator[pa.Array]:
        """Yield all strings of a vector in pieces, each string of a piece once."""
        if self._has_no_file:
            return iter([self._filled(self.info.size)])
        return coded_string_chunks(self)

    def read_strings(self, span: Span) -> pa.StringArray | pa.LargeStringArray:
        """Return a range of the first dimension of strings, flattened; decodes only its chunks."""
        if self._has_no_file:
            return self._filled(span.size * math.prod(self.info.shape[1:]))
        return read_string_chunks(self, span)

    def version(self, position: Position) -> Hashable | None:
        """Return what changes with the file of a chunk; None where nothing is decoded."""
        if self._layout.codec is None:
            return None
        outer = tuple(n // g for n, g in zip(position, self._layout.grid, strict=True))
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

    def _places(
        self, positions: list[Position]
    ) -> dict[_ShardFile, dict[Position, tuple[int, int]]]:
        """Return where the chunks are that are stored, by their file."""
        grid = self._layout.grid
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

    def decode(self, position: Position, stored: Any) -> AnyArray:
        """Return the elements of a chunk."""
        data: memoryview | None = stored
        dtype, shape = self.info.storage_type.dtype, self.info.chunks
        if data is None:
            self._refuse_missing()
            return np.broadcast_to(np.array(self._fill_value, dtype), shape)
        size_bytes = math.prod(shape) * dtype.itemsize
        decoded = self._decoded(position, data, size_bytes)
        if len(decoded) != size_bytes:
            raise CorruptDataError(
                f"{self.what}: chunk {list(position)} holds {len(decoded):,} bytes, but "
                f"{list(shape)} of {dtype} needs {size_bytes:,}"
            )
        return np.frombuffer(decoded, dtype).reshape(shape)

    def string_bytes(self, position: Position, stored: Any) -> memoryview | None:
        """Return a chunk as ``vlen-utf8`` has it; None if it is not stored."""
        return None if stored is None else memoryview(self._decoded(position, stored, None))

    def decode_strings(self, position: Position, stored: Any) -> pa.Array:
        """Return the strings of a chunk."""
        data: memoryview | None = stored
        count = self.info.chunks[-1]
        if data is None:
            return self._filled(count)
        what = f"{self.what}: chunk {list(position)}"
        strings = vlen.decode_vlen_utf8(memoryview(self._decoded(position, data, None)), what=what)
        if len(strings) != count:
            raise CorruptDataError(f"{what} holds {len(strings):,} strings instead of {count:,}")
        return strings

    def _filled(self, count: int) -> pa.Array:
        """Return strings that stand in for those of missing chunks."""
        self._refuse_missing()
        try:
            return pa.repeat(pa.scalar(self._fill_value, pa.string()), count)
        except pa.ArrowException as error:
            raise CorruptDataError(
                f"{self.what}: {count:,} times the fill value does not fit into memory ({error})"
            ) from None

    def _refuse_missing(self) -> None:
        if self._fill_value is None:
            raise CorruptDataError(
                f"{self.what}: chunks are missing, and the array has no fill value"
            )

    def _decoded(
        self, position: Position, data: memoryview, size_bytes: int | None
    ) -> bytes | memoryview:
        """Decompress a chunk; of numbers, into no more bytes than it should have."""
        if self._layout.codec is None:
            return data
        limit = size_bytes
        if limit is None:
            limit = limit_of_strings(self.info.chunks[-1], len(data))
        try:
            return decompress(self._layout.codec, data, limit)
        except Exception as error:  # each codec raises its own
            reason = " ".join(str(error).split()) or type(error).__name__
            raise CorruptDataError(
                f"{self.what}: chunk {list(position)} cannot be decompressed ({reason})"
            ) from error

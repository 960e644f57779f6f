"""Arrays of which each chunk is a file of its own, without zarr-python.

What is left when the compressions of a chunk are undone is its elements, or its strings one after
the other.  zarr-python reads the arrays of other codecs.
"""

from __future__ import annotations

import math
import posixpath
from collections.abc import Hashable, Iterator
from typing import Any, Final

import numpy as np
import pyarrow as pa

from daf_storage.base import AnyArray, Span
from daf_storage.base import strings as vlen
from daf_storage.errors import CorruptDataError, UnsupportedDataError
from daf_storage.stores import (
    ReadEstimate,
    Snapshot,
    bytes_version,
    has_entries,
    is_mapped,
    map_within,
)
from daf_storage.trees._array_bases import decoded_bytes
from daf_storage.trees._chunk_grid import ChunkedRead, Position
from daf_storage.trees._chunk_reader import (
    ChunkMemory,
    estimate_decoded,
    read_chunks,
    read_string_chunks,
)
from daf_storage.trees._decode_threads import fetched
from daf_storage.trees._decompress import decompress, limit_of_stored, limit_of_strings
from daf_storage.trees._metadata import ArrayMetadata

_MAX_FILES: Final = 1 << 20
_MAX_LOOKED_UP: Final = 1 << 12
_MAX_READ_BYTES: Final = 1 << 24


class ChunkFiles:
    """The chunks of one array; see `ChunkSource` and `StringChunks`.

    Parameters
    ----------
    snapshot, path
        Where the array is.
    metadata
        Its metadata, which say that `can_read` holds.
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
        self.info = metadata.info
        self.what = what
        self.memory = memory
        self.decodes_in_threads = bool(metadata.compressions)
        self._snapshot = snapshot
        self._path = path
        self._metadata = metadata
        count = math.prod(metadata.info.chunks)
        is_small = count * metadata.item_bytes <= _MAX_READ_BYTES
        self._most_bytes = limit_of_stored(
            count, 0 if metadata.has_plain_strings else metadata.item_bytes
        )
        is_file = snapshot.is_local and not has_entries(snapshot)
        self._is_read = bool(metadata.compressions) and is_file and is_small

    @staticmethod
    def can_read(metadata: ArrayMetadata) -> bool:
        """Return whether an array is stored like this."""
        stored, is_string = metadata.chunk_dtype, metadata.info.storage_type.is_string
        is_fixed = stored is not None and stored.itemsize == metadata.item_bytes > 0
        if is_string and is_fixed and metadata.fill_value:
            return False  # it is written in ways of its own
        return (is_fixed or metadata.has_plain_strings) and metadata.info.size > 0

    def read_spans(self, spans: list[Span], within: Span | None = None) -> list[AnyArray]:
        """Return ranges of the first dimension of numbers; each chunk is decoded once."""
        self._refuse_many(spans, within)
        return read_chunks(self, spans, within)

    def read_scalar(self) -> AnyArray:
        """Return the only element of an array without dimensions."""
        values = self.decode((), self._stored(()))
        values.flags.writeable = False
        return values

    @property
    def dtype(self) -> np.dtype[Any]:
        """The type of the elements; strings of a fixed length are of one of numpy's."""
        kind, stored = self.info.storage_type, self._metadata.chunk_dtype
        return kind.dtype if stored is None or not kind.is_string else stored

    def read_fixed_strings(self) -> AnyArray:
        """Return all strings of a fixed length, as numpy has them."""
        if not self.info.shape:
            return self.read_scalar()
        return self.read_spans([Span(0, self.info.shape[0])])[0]

    def read_strings(self) -> pa.StringArray | pa.LargeStringArray:
        """Return all strings."""
        if not self.info.shape:
            return self.decode_strings((), self._stored(()))
        return self.string_rows(Span(0, self.info.shape[0]))

    def string_rows(self, span: Span) -> pa.StringArray | pa.LargeStringArray:
        """Return a range of the strings; decodes only its chunks."""
        self._refuse_many([span], None)
        return read_string_chunks(self, span)

    def estimate(self, spans: list[Span], estimate: ReadEstimate, within: Span | None) -> None:
        """Add the stored bytes of the chunks; of a server, about what they expand to."""
        self._refuse_many(spans, within)
        read = ChunkedRead.of(self.info, spans, within, what=self.what)
        positions = read.positions()
        if not self._snapshot.is_local or len(positions) > _MAX_LOOKED_UP:
            requests = 0 if self._snapshot.is_local else len(positions)
            estimate.add_inexact(decoded_bytes(self.info, spans, within), requests=requests)
        else:
            sizes = (self._snapshot.size(self._key(position)) for position in positions)
            estimate.add_bytes(sum(size or 0 for size in sizes))
        if self._metadata.compressions and not self._metadata.has_plain_strings:
            estimate_decoded(read, self.dtype.itemsize, estimate)

    def version(self, position: Position) -> Hashable | None:
        """Return what changes with the file of a chunk; None where nothing is decoded."""
        key = self._key(position)
        if not self._metadata.compressions and is_mapped(self._snapshot, key):
            return None
        return bytes_version(self._snapshot, key)

    def fetch(self, positions: list[Position]) -> Iterator[tuple[Position, Any]]:
        """Yield the stored bytes of chunks; those that take time several at a time."""
        if not positions or is_mapped(self._snapshot, self._key(positions[0])):
            return ((position, self._stored(position)) for position in positions)
        return fetched(positions, self._stored)

    def decode(self, position: Position, stored: Any) -> AnyArray:
        """Return the elements of a chunk, padded at the end of the array."""
        shape, dtype = self.info.chunks, self.dtype
        if stored is None:
            return np.broadcast_to(np.array(self._fill_value(position), dtype), shape)
        chunk_dtype = self._metadata.chunk_dtype
        if chunk_dtype is None:
            raise TypeError("the array is not one of numbers")
        size_bytes = math.prod(shape) * chunk_dtype.itemsize
        data = self._decompressed(position, stored, size_bytes)
        if len(data) != size_bytes:
            raise self._undecodable(
                position,
                f"has {len(data):,} bytes, and {list(shape)} of {chunk_dtype} needs {size_bytes:,}",
            )
        values = np.frombuffer(data, chunk_dtype)
        if self._metadata.is_fortran:
            return values.reshape(shape[::-1]).T.astype(dtype, copy=False)
        return values.reshape(shape).astype(dtype, copy=False)

    def string_bytes(self, position: Position, stored: Any) -> memoryview | None:
        """Return a chunk as ``vlen-utf8`` has it; None if it is not stored."""
        if stored is None:
            return None
        limit = limit_of_strings(math.prod(self.info.chunks), len(stored))
        return self._decompressed(position, stored, limit)

    def decode_strings(self, position: Position, stored: Any) -> pa.Array:
        """Return the strings of a chunk."""
        count = math.prod(self.info.chunks)
        data = self.string_bytes(position, stored)
        if data is None:
            return pa.repeat(pa.scalar(self._fill_value(position), pa.string()), count)
        what = f"{self.what}: chunk {self._metadata.chunk_key(position)!r}"
        claimed = int.from_bytes(data[:4], "little")
        if len(data) < 4 or claimed != count:
            raise CorruptDataError(
                f"{what} claims to hold {claimed:,} strings instead of {count:,}"
            )
        return vlen.decode_vlen_utf8(data, what=what)

    def _stored(self, position: Position) -> memoryview | bytes | None:
        """Return the bytes of a chunk; to map a file takes longer than to read a small one."""
        key = self._key(position)
        if self._is_read:
            return self._snapshot.read(key)
        return map_within(self._snapshot, key, self._most_bytes, what=self.what)

    def _key(self, position: Position) -> str:
        return posixpath.join(self._path, self._metadata.chunk_key(position))

    def _decompressed(
        self, position: Position, stored: memoryview | bytes, limit: int
    ) -> memoryview:
        data = memoryview(stored)
        for codec in self._metadata.compressions:
            try:
                data = memoryview(decompress(codec, data, limit))
            except Exception as error:  # each codec raises its own
                reason = " ".join(str(error).split()) or type(error).__name__
                raise self._undecodable(position, f"cannot be decompressed ({reason})") from error
        return data

    def _undecodable(self, position: Position, problem: str) -> CorruptDataError:
        return CorruptDataError(
            f"{self.what}: the stored chunks cannot be decoded: "
            f"{self._metadata.chunk_key(position)!r} {problem}"
        )

    def _fill_value(self, position: Position) -> Any:
        """Return what stands in for a missing chunk."""
        if self._metadata.fill_value is None:
            raise CorruptDataError(
                f"{self.what}: the chunk file {self._metadata.chunk_key(position)!r} is missing, "
                "and the array has no fill value to stand in for it"
            )
        return self._metadata.fill_value

    def _refuse_many(self, spans: list[Span], within: Span | None) -> None:
        """Raise if so many files are needed that nobody would wait for them."""
        height, *widths = self.info.chunks
        rest = [Span(0, n) for n in self.info.shape[1:]]
        if within is not None:
            rest[0] = within
        across = zip(rest, widths, strict=True)
        columns = math.prod(-(-each.stop // width) - each.start // width for each, width in across)
        rows = sum(-(-span.stop // height) - span.start // height for span in spans)
        rows = min(rows, -(-self.info.shape[0] // height))
        if rows * columns > _MAX_FILES:
            raise UnsupportedDataError(
                f"{self.what}: it is cut into {rows * columns:,} chunks of shape "
                f"{list(self.info.chunks)}; write it in larger ones"
            )

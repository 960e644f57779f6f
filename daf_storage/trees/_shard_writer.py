"""Files of many small chunks, each compressed by itself: writing.

Chunks are compressed on all cores, and stand in the file in their order.  The file is not known
before its index is, so chunks wait in memory or, if they are many, in a temporary file.
"""

from __future__ import annotations

import functools
import math
import struct
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from tempfile import TemporaryFile, gettempdir
from typing import IO, TYPE_CHECKING, Any, Final

import google_crc32c
import numpy as np
import pyarrow as pa

from daf_storage._lazy import lazy_module
from daf_storage.base import AnyArray, Packing, StorageType
from daf_storage.base import strings as vlen
from daf_storage.errors import os_errors
from daf_storage.trees._decompress import computed

if TYPE_CHECKING:
    import numcodecs
else:
    numcodecs = lazy_module("numcodecs")

_CHECKSUM_BYTES: Final = 4
_ENTRY_BYTES: Final = 16
_PART_BYTES: Final = 1 << 24
_HELD_BYTES: Final = 1 << 22
"""So many compressed bytes wait in memory."""
_TASK_BYTES: Final = 1 << 18
"""About how many bytes a thread compresses at a time."""
_SHUFFLES: Final = {"shuffle": 1, "bitshuffle": 2}


@dataclass(frozen=True, slots=True)
class PackedChunk:
    """A chunk that was compressed."""

    data: bytes
    """What it became."""
    size_bytes: int = 0
    """How many bytes an archive would say that it has."""
    crc: int = 0
    """The checksum that an archive would give it."""


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
        self._task_chunks = max(_TASK_BYTES // (packing.chunk_kb << 10), 1)
        self.compress = _compressor(packing)
        """The function that compresses a chunk."""
        self._rest = np.empty(0, self._dtype or np.uint8)
        self._places: list[tuple[int, int]] = []
        self.grid = [math.ceil(n / c) for n, c in zip(shape, chunks, strict=True)]
        """How many chunks there are along each dimension."""
        self.end = math.prod(self.grid) * _ENTRY_BYTES + _CHECKSUM_BYTES
        """How many bytes the file has so far."""
        self._waiting = _Waiting()

    def add_numbers(self, block: AnyArray) -> None:
        """Add the next range of the first dimension."""
        if not self._is_flat:
            self._add(piece for row in block for piece in self._pieces(row))
            return
        block, width = block.reshape(-1), self._width
        if self._rest.size:
            missing = width - self._rest.size
            start, block = np.concatenate([self._rest, block[:missing]]), block[missing:]
            self._rest = start
            if start.size < width:
                return
            self._add([start])
        stop = block.size // width * width
        self._add(self._pieces(block[:stop]))
        self._rest = block[stop:].copy()

    def add_strings(self, strings: pa.Array) -> None:
        """Add all strings of a vector."""
        height = self._width
        starts = range(0, len(strings), height)
        self._run(functools.partial(self._encoded, strings.slice(n, height)) for n in starts)

    def parts(self) -> Iterator[bytes | memoryview]:
        """Yield the bytes of the file: the index, then the chunks; they stay what they are."""
        if self._rest.size:
            self._add(self._pieces(self._rest))
        index = np.array(self._places, "<u8").tobytes()
        yield index + struct.pack("<I", google_crc32c.value(index))
        yield from self._waiting.parts()
        yield self.tail()

    def pack(self, data: Any) -> PackedChunk:
        """Compress a chunk, in whatever thread."""
        return PackedChunk(self.compress(data))

    def framed(self, chunk: PackedChunk) -> tuple[bytes, bytes]:
        """Return what comes before the next chunk, and what the index points at."""
        return b"", chunk.data

    def tail(self) -> bytes:
        """Return what follows the chunks: nothing."""
        return b""

    def _pieces(self, values: AnyArray) -> Iterator[AnyArray]:
        """Yield chunks; the last one is filled up."""
        width = self._width
        for start in range(0, values.size, width):
            part = values[start : start + width]
            missing = width - part.size
            yield np.concatenate([part, np.zeros(missing, part.dtype)]) if missing else part

    def _encoded(self, strings: pa.Array) -> PackedChunk:
        missing = self._width - len(strings)
        if missing:
            strings = pa.concat_arrays([strings, pa.repeat(pa.scalar("", strings.type), missing)])
        return self.pack(b"".join(bytes(block) for block in vlen.encode_vlen_utf8(strings)))

    def _numbers(self, values: AnyArray) -> PackedChunk:
        return self.pack(np.ascontiguousarray(values, self._dtype))

    def _add(self, pieces: Iterable[AnyArray]) -> None:
        self._run(functools.partial(self._numbers, piece) for piece in pieces)

    def _run(self, packing: Iterator[Callable[[], PackedChunk]]) -> None:
        """Compress chunks side by side, and note them in their order."""
        for chunks in computed(_grouped(packing, self._task_chunks)):
            for chunk in chunks:
                header, stored = self.framed(chunk)
                self._waiting.add(header + stored)
                self.end += len(header)
                self._places.append((self.end, len(stored)))
                self.end += len(stored)


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


def _grouped(
    packing: Iterable[Callable[[], PackedChunk]], count: int
) -> Iterator[Callable[[], list[PackedChunk]]]:
    """Yield tasks that pack so many chunks each."""
    group: list[Callable[[], PackedChunk]] = []
    for pack in packing:
        group.append(pack)
        if len(group) == count:
            yield functools.partial(_packed, group)
            group = []
    if group:
        yield functools.partial(_packed, group)


def _packed(group: list[Callable[[], PackedChunk]]) -> list[PackedChunk]:
    return [pack() for pack in group]


def _compressor(packing: Packing) -> Any:
    """Return the function that compresses a chunk."""
    if packing.codec == "zstd":
        return numcodecs.Zstd(packing.level).encode
    if packing.codec == "gzip":
        return numcodecs.GZip(packing.level).encode
    name, shuffle = packing.compressor.encode(), _SHUFFLES[packing.shuffle]

    def compress(data: Any) -> bytes:
        values = np.frombuffer(data, np.uint8) if isinstance(data, bytes) else data
        return bytes(numcodecs.blosc.compress(values, name, packing.level, shuffle))

    return compress

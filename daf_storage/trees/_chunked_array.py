"""Arrays in chunks, whatever container these lie in: read, decoded side by side, and remembered.

Where the chunks are, a subclass knows: in files of their own, several in a file, in an HDF5 file.
Which chunks a read needs, what they hold, and what is said of those that are damaged or missing, is
the same for all.  What was decoded is remembered by all arrays of the process together,
within a budget; not where a read used most of its chunks of an array larger than that, as a pass
over it does.

A few kilobytes can claim, or truly expand to, any number of gigabytes.  Every decoder here stops at
a limit instead.  Decompression releases the interpreter's lock.
"""

from __future__ import annotations

import functools
import itertools
import lzma
import math
import re
import struct
import zlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any, Final, TypeAlias, TypeVar

import google_crc32c
import numpy as np
import pyarrow as pa

from daf_storage import settings
from daf_storage._lazy import numcodecs
from daf_storage.base import (
    AnyArray,
    DecodedCache,
    Span,
    decode_vlen_chunks,
    one_array,
    optional_import,
    run_all,
)
from daf_storage.base import strings as vlen
from daf_storage.errors import CorruptDataError, DafError, UnsupportedDataError, reason_of
from daf_storage.stores import ReadEstimate, translated
from daf_storage.trees._metadata import ChunkEncoding, Codec
from daf_storage.trees._stored_array import (
    STRING_BYTES,
    ArrayInfo,
    Ranges,
    StoredArray,
    chunks_of,
    frozen,
)


def has_equal_bytes(one: AnyArray, other: AnyArray) -> bool:
    """Return whether two arrays of one shape and type have the same bytes.

    NaN is then equal to itself, and -0 is not 0.

    Examples
    --------
    >>> has_equal_bytes(np.array([0.0, np.nan]), np.array([0.0, np.nan]))
    True
    >>> has_equal_bytes(np.array([0.0]), np.array([-0.0]))
    False
    """
    opaque = f"u{one.dtype.itemsize}"
    first, second = (np.ascontiguousarray(each).reshape(-1).view(opaque) for each in (one, other))
    return np.array_equal(first, second)


_BLOSC_HEADER_BYTES: Final = 16
_CHECKSUM_BYTES: Final = 4
_LZ4_HEADER_BYTES: Final = 4
_GZIP: Final = 31
_WINDOW_BYTES: Final = 1 << 9
_PADDING_END: Final = re.compile(rb"[^\0]")
_LZMA_MEMORY_BYTES: Final = 1 << 28

_STORED_BYTES: Final = 1 << 20
_CHUNK_OVERHEAD_BYTES: Final = 1 << 8
_FREE_BYTES: Final = 1 << 28
_STRING_BYTES: Final = 1 << 20
_STRING_RATIO: Final = 64
_FILTERED_RATIO: Final = 16


def undone(
    codecs: Iterable[Codec], stored: memoryview | bytes, limit: int, *, what: str
) -> memoryview:
    """Undo codecs, in this order; filters that are not known here are those of numcodecs.

    What a codec makes of small or random data is longer than these: what comes out before the
    last codec is undone may be a little more than the limit; of filters, more.

    Raises
    ------
    CorruptDataError
        The data, which messages call ``what``, is damaged, or expands to more than the limit.
    UnsupportedDataError
        A codec is not available.
    """
    data, codecs = memoryview(stored), list(codecs)
    between = limit * 9 // 8 + len(codecs) * _CHUNK_OVERHEAD_BYTES
    if any(codec["id"] not in _DECODERS for codec in codecs):
        between += limit * _FILTERED_RATIO
    for n_undone, codec in enumerate(codecs, start=1):
        most_bytes = limit if n_undone == len(codecs) else between
        decoder = _DECODERS.get(codec["id"], _filter)
        try:
            data = memoryview(decoder(codec, data, most_bytes))
            if len(data) > most_bytes:
                raise ValueError(f"it expands to more than the {most_bytes:,} bytes it may have")
        except DafError as error:
            raise type(error)(f"{what}: {error}") from error
        except Exception as error:  # each codec raises its own
            raise CorruptDataError(f"{what} cannot be decompressed ({reason_of(error)})") from error
    return data


def limit_of_strings(count: int, compressed_bytes: int) -> int:
    """Return how many bytes a chunk of strings may expand to; far more than real ones do.

    >>> limit_of_strings(5, 1000) == 1 << 28
    True
    """
    return max(_FREE_BYTES, count * _STRING_BYTES, compressed_bytes * _STRING_RATIO)


def limit_of_stored(count: int, item_bytes: int, *, n_chunks: int = 1) -> int:
    """Return how many bytes a file of chunks may have, compressed or not; far more than real ones.

    Parameters
    ----------
    count, item_bytes
        How many elements the file holds, and the size of one; 0 if that varies.
    """
    if not item_bytes:
        return limit_of_strings(count, 0)
    return count * item_bytes * 9 // 8 + n_chunks * _CHUNK_OVERHEAD_BYTES + _STORED_BYTES


def _filter(codec: Codec, data: memoryview, limit: int) -> memoryview:  # noqa: ARG001 - undone chunks are checked
    """Undo a codec of numcodecs, which adds little: it is no compression, or a rare one."""
    try:
        found = numcodecs.get_codec(dict(codec)).decode(data)
    except numcodecs.errors.UnknownCodecError as error:
        raise UnsupportedDataError(
            f"it is stored with a codec that is not available here ({codec['id']}); install it "
            "for numcodecs, or rewrite the array"
        ) from error
    return np.ascontiguousarray(found).data.cast("B")


def _zlib(codec: Codec, data: memoryview, limit: int) -> bytes:
    """Decompress one stream, or of gzip one after the other."""
    is_gzip = codec["id"] == "gzip"
    parts: list[bytes] = []
    at, size_bytes, window = 0, 0, len(data)
    while at < len(data) and size_bytes <= limit:
        decoder = _inflate_module().decompressobj(_GZIP if is_gzip else zlib.MAX_WBITS)
        while not decoder.eof and size_bytes <= limit:
            piece = data[at : at + window]
            if not piece:
                raise ValueError("the compressed data is cut off")
            parts.append(decoder.decompress(piece, limit + 1 - size_bytes))
            size_bytes += len(parts[-1])
            at += len(piece) - len(decoder.unused_data)
            window *= 2
        if not is_gzip:
            break
        window = _WINDOW_BYTES  # what follows may be any number of short ones
        more = _PADDING_END.search(data, at)
        at = len(data) if more is None else more.start()
    return parts[0] if len(parts) == 1 else b"".join(parts)


@functools.cache
def _inflate_module() -> Any:
    """Return isal's zlib, which takes half the time and the same calls; Python's without it."""
    try:
        return optional_import("isal.isal_zlib", extra="hdf5")
    except ImportError:  # not installed, or built for another machine
        return zlib


def _lzma(codec: Codec, data: memoryview, limit: int) -> bytes:
    form = codec.get("format", lzma.FORMAT_XZ)
    memory = None if form == lzma.FORMAT_RAW else _LZMA_MEMORY_BYTES
    filters = codec.get("filters") if form == lzma.FORMAT_RAW else None
    decoder = lzma.LZMADecompressor(form, memory, filters)
    found = decoder.decompress(bytes(data), limit + 1)
    if not decoder.eof and len(found) <= limit:
        raise ValueError("the compressed data is cut off")
    return found


def _streamed(codec: Codec, data: memoryview, limit: int) -> bytes:
    """Decompress what Arrow has a stream for, frame by frame."""
    with pa.CompressedInputStream(pa.BufferReader(pa.py_buffer(data)), codec["id"]) as stream:
        parts: list[bytes] = []
        size_bytes = 0
        while size_bytes <= limit and (part := stream.read(min(limit + 1 - size_bytes, 1 << 24))):
            parts.append(part)
            size_bytes += len(part)
    return b"".join(parts)


def _blosc(codec: Codec, data: memoryview, limit: int) -> bytes:  # noqa: ARG001 - as above
    if len(data) < _BLOSC_HEADER_BYTES:
        raise ValueError("no room for a header")
    uncompressed, _, compressed = struct.unpack("<III", data[4:_BLOSC_HEADER_BYTES])
    if compressed != len(data) or uncompressed > limit:
        raise ValueError(f"the header tells {compressed:,} and {uncompressed:,} bytes")
    return bytes(numcodecs.blosc.decompress(data))


def _lz4(codec: Codec, data: memoryview, limit: int) -> bytes:  # noqa: ARG001 - as above
    if len(data) < _LZ4_HEADER_BYTES:
        raise ValueError("no room for a header")
    stated = int.from_bytes(data[:_LZ4_HEADER_BYTES], "little")
    if stated > limit:
        raise ValueError(f"the header states {stated:,} bytes")
    return bytes(numcodecs.LZ4().decode(data))


def _crc32c(codec: Codec, data: memoryview, limit: int) -> memoryview:  # noqa: ARG001 - as above
    """Check and take off a checksum, which Zarr v3 counts among the codecs."""
    if len(data) < _CHECKSUM_BYTES:
        raise ValueError("no room for a checksum")
    stored = struct.unpack("<I", data[-_CHECKSUM_BYTES:])[0]
    if google_crc32c.value(bytes(data[:-_CHECKSUM_BYTES])) != stored:
        raise ValueError("the checksum is wrong")
    return data[:-_CHECKSUM_BYTES]


def _shuffle(codec: Codec, data: memoryview, limit: int) -> memoryview:
    """Put the bytes of elements together that were stored byte by byte; a rest is as it was."""
    rest = len(data) % codec.get("elementsize", 4)
    whole = _filter(codec, data[: len(data) - rest], limit)
    return memoryview(bytes(whole) + data[len(data) - rest :]) if rest else whole


_DECODERS: Final[Mapping[str, Callable[[Codec, memoryview, int], bytes | memoryview]]] = {
    "gzip": _zlib,
    "zlib": _zlib,
    "bz2": _streamed,
    "lzma": _lzma,
    "zstd": _streamed,
    "blosc": _blosc,
    "lz4": _lz4,
    "crc32c": _crc32c,
    "shuffle": _shuffle,
}


MAX_CHUNKS: Final = 1 << 24
"""How many chunks are read at once."""

_MOST_LOOKED_UP: Final = 1 << 16
"""Of more chunks, an estimate looks for so many."""

_TASK_BYTES: Final = 1 << 18
"""About how many decoded bytes a thread is given at a time."""

_TASK_STRINGS: Final = 1 << 14
"""About how many strings a thread is given at a time."""

_CODED_STRINGS: Final = 1 << 16
"""About of how many strings codes are made at a time."""

_T = TypeVar("_T")

Position: TypeAlias = tuple[int, ...]
"""The number of a chunk along each dimension."""


_remembers: ContextVar[bool] = ContextVar("remembers", default=True)


@contextmanager
def passing_over() -> Iterator[None]:
    """Remember nothing of what is decoded for this block: everything is read, and only once."""
    token = _remembers.set(False)
    try:
        yield
    finally:
        _remembers.reset(token)


# Which chunks a read needs, and what it takes of each.


@dataclass(frozen=True, slots=True)
class ChunkedRead:
    """Ranges of the first dimension of an array, put one after the other, by chunks."""

    shape: tuple[int, ...]
    """The shape of the result."""
    rows: dict[int, Ranges]
    """What is taken of each row of chunks that is needed, by its number."""
    across: dict[Position, tuple[tuple[slice, ...], ...]]
    """What is taken of the chunks of each such row along the other dimensions, and where it goes in
    the result, by the rest of their position; nothing if there are no others."""

    @classmethod
    def of(cls, info: ArrayInfo, ranges: Ranges, within: Span | None) -> ChunkedRead:
        """Plan a read; of a matrix, only of the range ``within`` of columns."""
        rest = [Span(0, n) for n in info.shape[1:]]
        if within is not None:
            rest[0] = within
        shape = (ranges.size, *(span.size for span in rest))
        if 0 in shape:
            return cls(shape, {}, {})
        along = [_along(span, chunk) for span, chunk in zip(rest, info.chunks[1:], strict=True)]
        across = {
            numbers: tuple(zip(*map(dict.__getitem__, along, numbers), strict=True))
            for numbers in itertools.product(*along)
        }
        return cls(shape, _rows(ranges, info.chunks[0]), across)

    def positions(self) -> list[Position]:
        """Return the chunks that are needed, in the order of the grid."""
        return [(row, *rest) for row in sorted(self.rows) for rest in self.across]

    def take(self, position: Position, chunk: AnyArray, out: AnyArray) -> None:
        """Copy into the result what is needed of a chunk."""
        self.rows[position[0]].copy(chunk, out, *self.across[position[1:]])


def _share_of(spans: list[Span], share: float) -> list[Span]:
    """Return the first of some ranges, as large a share of all their rows; nothing if of none.

    >>> _share_of([Span(0, 4), Span(10, 40)], 0.5)
    [Span(start=0, stop=4), Span(start=10, stop=23)]
    """
    left, found = int(sum(span.size for span in spans) * share), []
    for span in spans:
        if left > 0:
            found.append(Span(span.start, min(span.stop, span.start + left)))
        left -= span.size
    return found


def _along(span: Span, chunk: int) -> dict[int, tuple[slice, ...]]:
    """Return what a range of one dimension takes of each chunk along it, and where that goes.

    >>> for number, (taken, goes) in _along(Span(3, 9), 4).items():
    ...     print(number, taken, goes)
    0 slice(3, 4, None) slice(0, 1, None)
    1 slice(0, 4, None) slice(1, 5, None)
    2 slice(0, 1, None) slice(5, 6, None)
    """
    found = {}
    for number in range(span.start // chunk, -(-span.stop // chunk)):
        start = number * chunk
        first, last = max(span.start, start), min(span.stop, start + chunk)
        places = (slice(first - begin, last - begin) for begin in (start, span.start))
        found[number] = tuple(places)
    return found


def _rows(ranges: Ranges, height: int) -> dict[int, Ranges]:
    """Return what ranges take of the chunks along the first dimension, by the chunk's number."""
    firsts = ranges.starts // height
    counts = -(-ranges.stops // height) - firsts
    numbers, pieces = ranges.cut(firsts, counts, lambda numbers: numbers * height)
    order = np.argsort(numbers, kind="stable")
    in_order = numbers[order]
    begins = np.flatnonzero(np.diff(in_order, prepend=-1))
    ends = [*begins[1:].tolist(), in_order.size]
    found: dict[int, Ranges] = {}
    for number, first, last in zip(in_order[begins].tolist(), begins.tolist(), ends, strict=True):
        found[number] = pieces.some(order[first:last])
    return found


@dataclass(eq=False, repr=False)
class ChunkedArray(StoredArray, ABC):
    """An array in chunks, which lie in some container; see `StoredArray`."""

    info: ArrayInfo
    encoding: ChunkEncoding
    """What the bytes of its chunks are."""
    memory: DecodedCache
    """Where decoded chunks are remembered, as those of this array alone."""
    what: str
    """The array as messages name it."""
    most_chunks: int
    """Nobody would wait for a read of more."""

    @abstractmethod
    def chunk_name(self, position: Position) -> str:
        """Return what messages call a chunk."""

    @abstractmethod
    def version(self, position: Position) -> Hashable | None:
        """Return what changes whenever the chunk does; None if it is not to be remembered."""

    @abstractmethod
    def fetch(self, positions: list[Position]) -> Iterator[tuple[Position, Any]]:
        """Yield what is stored of each chunk, of one dimension in order; None where nothing is."""

    @abstractmethod
    def fill_value(self, position: Position) -> Any:
        """Return what a chunk holds that is not stored; raise if it had to be."""

    @abstractmethod
    def add_stored(self, positions: list[Position], estimate: ReadEstimate) -> None:
        """Add what fetching chunks would cost."""

    def read(self) -> AnyArray:
        """Return all elements, decoded; of strings, as objects."""
        if self.info.shape:
            return self.read_rows(Span(0, self.info.shape[0]))
        [(position, stored)] = self.fetch([()])
        return frozen(self.decode(position, stored))

    def read_spans(self, spans: list[Span], within: Span | None = None) -> list[AnyArray]:
        """Return ranges of the first dimension; each chunk is decoded at most once."""
        self._check_count(spans, within)
        values = frozen(self._read(ChunkedRead.of(self.info, Ranges.of(spans), within)))
        stops = itertools.accumulate(span.size for span in spans)
        return [values[stop - span.size : stop] for span, stop in zip(spans, stops, strict=True)]

    def read_joined(self, ranges: Ranges) -> AnyArray:
        """Return ranges of an array of one dimension in one array."""
        return self._read(ChunkedRead.of(self.info, ranges, None))

    def estimate(
        self, spans: list[Span], estimate: ReadEstimate, within: Span | None = None
    ) -> None:
        """Add the stored bytes of the chunks, and what they expand to."""
        self._check_count(spans, within)
        count = chunks_of(self.info, spans, within)
        if count > _MOST_LOOKED_UP and (first := _share_of(spans, _MOST_LOOKED_UP / count)):
            part = ReadEstimate()
            self.estimate(first, part, within)
            estimate.add_share(part, sum(s.size for s in spans) / sum(s.size for s in first))
            return
        read = ChunkedRead.of(self.info, Ranges.of(spans), within)
        positions = read.positions()
        self.add_stored(positions, estimate)
        if self.encoding.codecs:
            dtype = self.encoding.dtype
            item_bytes = STRING_BYTES if dtype is None else dtype.itemsize
            estimate.decoded_bytes += len(positions) * math.prod(self.info.chunks) * item_bytes
            estimate.used_bytes += math.prod(read.shape) * item_bytes

    def read_strings(self) -> pa.StringArray | pa.LargeStringArray:
        """Return all strings."""
        if len(self.info.shape) == 1:
            return self.string_rows(Span(0, self.info.shape[0]))
        return as_strings(self.read(), what=self.what)

    def string_rows(self, span: Span) -> pa.StringArray | pa.LargeStringArray:
        """Return a range of the first dimension of strings; only its chunks are decoded."""
        if self.encoding.dtype is not None or len(self.info.shape) != 1:
            return as_strings(self.read_rows(span), what=self.what)
        self._check_count([span], None)
        height = self.info.chunks[0]
        last = -(-span.stop // height) if span.size else 0
        positions: list[Position] = [(n,) for n in range(span.start // height, last)]
        parts: dict[Position, pa.Array] = {}

        def run(stored: Iterable[tuple[Position, Any]]) -> None:
            for position, strings in self._decoded_strings(list(stored)):
                start = position[0] * height
                first, last = max(span.start, start), min(span.stop, start + len(strings))
                parts[position] = strings.slice(first - start, last - first)

        _run(self.fetch(positions), len(positions), _TASK_STRINGS / height, run)
        return _joined([parts[position] for position in positions if position in parts])

    def string_pieces(self) -> Iterator[pa.Array]:
        """Yield all strings of a vector in pieces, each of which has a string once."""
        length, height = self.info.shape[0], self.info.chunks[0]
        step = max(_CODED_STRINGS // height, 1) * height
        for start in range(0, length, step):
            yield self.string_rows(Span(start, min(start + step, length))).dictionary_encode()

    @property
    def dtype(self) -> np.dtype[Any]:
        """The type of the elements of a read: strings are objects, or of one of numpy's types."""
        kind, stored = self.info.storage_type, self.encoding.dtype
        if kind.is_string:
            return np.dtype(object) if stored is None else stored
        return kind.dtype

    def decode(self, position: Position, stored: Any) -> AnyArray:
        """Return the elements of a chunk, padded at the end of the array."""
        shape, encoded, order = self.info.chunks, self.encoding.dtype, self.encoding.order
        if stored is None:
            fill = np.array(self.fill_value(position), self.dtype)
            return np.broadcast_to(fill, shape)
        if encoded is None:
            strings = self._decode_strings(position, stored)
            values: AnyArray = strings.to_numpy(zero_copy_only=False)
        else:
            size_bytes = math.prod(shape) * encoded.itemsize
            name = self._name(position)
            data = undone(self._codecs_of(position), stored, size_bytes, what=name)
            if len(data) != size_bytes:
                raise wrong_size(name, len(data), shape, encoded)
            values = np.frombuffer(data, encoded)
        if order is not None:
            values = values.reshape([shape[axis] for axis in order]).transpose(np.argsort(order))
        return values.reshape(shape).astype(self.dtype, copy=False)

    def _codecs_of(self, position: Position) -> tuple[Codec, ...]:  # noqa: ARG002 - of HDF5 they may differ
        """Return what is undone of a chunk."""
        return self.encoding.codecs

    def _name(self, position: Position) -> str:
        return f"{self.what}: {self.chunk_name(position)}"

    def _check_count(self, spans: list[Span], within: Span | None) -> None:
        """Raise if so many chunks are needed that nobody would wait for them."""
        count = chunks_of(self.info, spans, within)
        if count > self.most_chunks:
            raise UnsupportedDataError(
                f"{self.what}: it is cut into {count:,} chunks of shape {list(self.info.chunks)}; "
                "write it in larger ones"
            )

    # Strings.

    def _string_bytes(self, position: Position, stored: Any) -> memoryview:
        """Return a chunk as ``vlen-utf8`` has it."""
        limit = limit_of_strings(math.prod(self.info.chunks), len(stored))
        return undone(self._codecs_of(position), stored, limit, what=self._name(position))

    def _decode_strings(self, position: Position, stored: Any) -> pa.Array:
        """Return the strings of a whole chunk."""
        count = math.prod(self.info.chunks)
        if stored is None:
            problem = f"{self.what}: {count:,} times the fill value does not fit into memory"
            with translated(pa.ArrowException, CorruptDataError, problem):
                return pa.repeat(pa.scalar(self.fill_value(position), pa.string()), count)
        data = self._string_bytes(position, stored)
        return vlen.decode_vlen_utf8(data, what=self._name(position), count=count)

    def _decoded_strings(
        self, stored: list[tuple[Position, Any]]
    ) -> Iterator[tuple[Position, pa.Array]]:
        """Yield the strings of some chunks; those of neighbours together, if none is damaged."""
        if len(stored) > 1 and all(data is not None for _, data in stored):
            chunks = [self._string_bytes(position, data) for position, data in stored]
            strings = decode_vlen_chunks(chunks, [self.info.chunks[0]] * len(chunks))
            if strings is not None:
                yield stored[0][0], strings
                return
        for position, data in stored:
            yield position, self._decode_strings(position, data)

    # Chunks that are remembered, and those that are not.

    def _read(self, read: ChunkedRead) -> AnyArray:
        out = np.empty(read.shape, self.dtype)
        missing: dict[Position, Hashable | None] = {}
        for position in read.positions():
            version = self.version(position)
            chunk = None if version is None else self.memory.peek(position, version)
            if chunk is None:
                missing[position] = version
            else:
                read.take(position, chunk, out)
        if missing:
            self._read_missing(read, missing, out)
        return out

    def _read_missing(
        self, read: ChunkedRead, missing: dict[Position, Hashable | None], out: AnyArray
    ) -> None:
        """Decode chunks and copy them into the result."""
        item_bytes = self.dtype.itemsize
        chunk_bytes = max(math.prod(self.info.chunks) * item_bytes, 1)
        is_small = 2 * self.info.size * item_bytes <= settings.DAF_DECODED_CHUNKS_MAX_BYTES
        decoded = len(read.rows) * len(read.across) * math.prod(self.info.chunks)
        remembers = _remembers.get() and self.encoding.dtype is not None
        remembers = remembers and (is_small or 2 * math.prod(read.shape) < decoded)

        def run(stored: Iterable[tuple[Position, Any]]) -> None:
            for position, data in stored:
                chunk = self.decode(position, data)
                read.take(position, chunk, out)
                version = missing[position]
                if remembers and version is not None:
                    self.memory.keep(position, version, chunk)

        per_task = _TASK_BYTES / chunk_bytes if self.encoding.codecs else math.inf
        _run(self.fetch(list(missing)), len(missing), per_task, run)


def _run(
    stored: Iterable[tuple[Position, Any]],
    count: int,
    per_task: float,
    run: Callable[[Iterable[tuple[Position, Any]]], None],
) -> None:
    """Work on chunks: on a few at once, on more of them side by side."""
    if count <= per_task:
        run(stored)
    else:
        some = groups(stored, max(int(per_task), 1))
        run_all(functools.partial(run, group) for group in some)


def groups(items: Iterable[_T], count: int) -> Iterator[list[_T]]:
    """Yield so many items at a time."""
    items = iter(items)
    while group := list(itertools.islice(items, count)):
        yield group


def _joined(parts: list[pa.Array]) -> pa.StringArray | pa.LargeStringArray:
    """Return strings one after the other, with wide offsets where these are needed."""
    if any(pa.types.is_large_string(part.type) for part in parts):
        parts = [part.cast(pa.large_string()) for part in parts]
    return one_array(pa.chunked_array(parts, parts[0].type if parts else pa.string()))


# What is said of damage, and stands in for what is missing.


def as_strings(values: AnyArray, *, what: str) -> pa.StringArray:
    """Turn strings that numpy has (objects, ``<U`` or ``|S``) into Arrow strings."""
    flat, caught = values.reshape(-1), (pa.ArrowException, ValueError, SystemError)
    with translated(caught, CorruptDataError, f"{what}: the strings cannot be decoded"):
        if flat.dtype.kind == "S":
            flat = np.char.decode(flat, "utf-8")
        return pa.array(flat.astype(object), pa.string())


def wrong_size(
    what: str, size_bytes: int, shape: tuple[int, ...], dtype: np.dtype[Any]
) -> CorruptDataError:
    """Say that a chunk has another size than its elements need."""
    needed = math.prod(shape) * dtype.itemsize
    problem = "truncated" if size_bytes < needed else "too long"
    return CorruptDataError(
        f"{what} is {problem}: it has {size_bytes:,} bytes, but shape {list(shape)} of {dtype} "
        f"needs {needed:,}"
    )

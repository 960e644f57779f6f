"""Read parts of an array that is stored in chunks: each is decoded once, side by side, and kept.

Whatever a format calls a chunk is a `ChunkSource`: one that fetches what is stored, and one
that decodes it.  What was decoded is remembered by all arrays of the process together, within a
budget; not where a read used whole chunks of an array larger than that, as a pass over it does.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Hashable, Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, Final, Protocol

import numpy as np
import pyarrow as pa

from daf_storage import settings
from daf_storage.base import AnyArray, DecodedCache, Span, decode_vlen_chunks
from daf_storage.errors import UnsupportedDataError
from daf_storage.stores import ReadEstimate
from daf_storage.trees._chunk_grid import ChunkedRead, Position, positions_within, split_rows
from daf_storage.trees._decode_threads import computed, run_all
from daf_storage.trees._joined_ranges import Ranges, join_views
from daf_storage.trees._protocol import ArrayInfo

_TASK_BYTES: Final = 1 << 18
"""About how many decoded bytes a thread is given at a time."""

_TASK_STRINGS: Final = 1 << 14
"""About how many strings a thread is given at a time."""

_CODED_STRINGS: Final = 1 << 16
"""About how many strings a thread makes codes of at a time."""

LARGE_BYTES: Final = 2**31
"""From this size on, the offsets of strings need 64 bits."""


class ChunkSource(Protocol):
    """The chunks of one array of elements of a fixed size."""

    @property
    def info(self) -> ArrayInfo:
        """The array."""
        ...

    @property
    def dtype(self) -> np.dtype[Any]:
        """The elements as `decode` returns them."""
        ...

    @property
    def what(self) -> str:
        """The array as messages name it."""
        ...

    @property
    def decodes_in_threads(self) -> bool:
        """Whether `decode` may run in several threads, and gains by it."""
        ...

    @property
    def memory(self) -> ChunkMemory:
        """Where decoded chunks are remembered."""
        ...

    def version(self, position: Position) -> Hashable | None:
        """Return what changes whenever the chunk does; None if nothing shows that."""
        ...

    def fetch(self, positions: list[Position]) -> Iterator[tuple[Position, Any]]:
        """Yield what is stored of each chunk, in this order; None where nothing is."""
        ...

    def decode(self, position: Position, stored: Any) -> AnyArray:
        """Return the elements of a chunk, in its shape; what is not stored is filled."""
        ...


class StringChunks(Protocol):
    """The chunks of one vector of strings."""

    @property
    def info(self) -> ArrayInfo:
        """The vector."""
        ...

    def fetch(self, positions: list[Position]) -> Iterator[tuple[Position, Any]]:
        """Yield what is stored of each chunk, in this order; None where nothing is."""
        ...

    def string_bytes(self, position: Position, stored: Any) -> memoryview | None:
        """Return a chunk as ``vlen-utf8`` has it; None where nothing is stored."""
        ...

    def decode_strings(self, position: Position, stored: Any) -> pa.Array:
        """Return the strings of a whole chunk."""
        ...


class ChunkMemory:
    """The chunks of one array among all that are remembered.

    Parameters
    ----------
    cache
        Those of one file or tree: a part of the process's.
    array
        What the array is called in it.
    """

    def __init__(self, cache: DecodedCache, array: Hashable) -> None:
        self._cache = cache
        self._array = array

    def find(self, place: Hashable, version: Hashable | None) -> AnyArray | None:
        """Return the chunk of a place that is remembered; None if it is not."""
        if version is None:
            return None
        found: AnyArray | None = self._cache.peek((self._array, place), version)
        return found

    def keep(self, place: Hashable, version: Hashable | None, chunk: AnyArray) -> None:
        """Remember a chunk."""
        if version is not None:
            self._cache.keep((self._array, place), version, chunk)


_remembers: ContextVar[bool] = ContextVar("remembers", default=True)


@contextmanager
def passing_over() -> Iterator[None]:
    """Remember nothing of what is decoded for this block: everything is read, and only once."""
    token = _remembers.set(False)
    try:
        yield
    finally:
        _remembers.reset(token)


@functools.cache
def _process_cache() -> DecodedCache:
    return DecodedCache(max_bytes=settings.DAF_DECODED_CHUNKS_MAX_BYTES)


def new_chunk_cache() -> DecodedCache:
    """Return a cache for the chunks of a file or tree, which shares its budget with all others."""
    return _process_cache().part()


def read_chunks(
    source: ChunkSource, spans: list[Span], within: Span | None = None
) -> list[AnyArray]:
    """Return ranges of the first dimension; of a matrix, only the range ``within`` of columns.

    Each chunk is decoded at most once.
    """
    read = ChunkedRead.of(source.info, spans, within, what=source.what)
    out = _read(source, read)
    out.flags.writeable = False
    return split_rows(out, spans)


def read_ranges(source: ChunkSource, ranges: Ranges) -> AnyArray:
    """Return ranges of an array of one dimension, one after the other."""
    remembered = _remembered_ranges(source, ranges)
    if remembered is not None:
        return remembered
    return _read(source, ChunkedRead.of_ranges(source.info, ranges, None, what=source.what))


def _remembered_ranges(source: ChunkSource, ranges: Ranges) -> AnyArray | None:
    """Return ranges of chunks that are all remembered, copied at once; None if one is not."""
    if not ranges.sizes.size or len(source.info.chunks) != 1:
        return None
    height = source.info.chunks[0]
    firsts = ranges.starts // height
    counts = -(-ranges.stops // height) - firsts
    numbers, pieces = ranges.cut(firsts, counts, lambda numbers: numbers * height)
    needed, places = np.unique(numbers, return_inverse=True)
    chunks: list[AnyArray] = []
    for number in needed.tolist():
        position = (number,)
        chunk = source.memory.find(position, source.version(position))
        if chunk is None:
            return None
        chunks.append(np.ascontiguousarray(chunk))  # what is not stored is one element, repeated
    return join_views(chunks, places, pieces)


def _read(source: ChunkSource, read: ChunkedRead) -> AnyArray:
    out = np.empty(read.shape, source.dtype)
    missing: dict[Position, Hashable | None] = {}
    for position in read.positions():
        version = source.version(position)
        chunk = source.memory.find(position, version)
        if chunk is None:
            missing[position] = version
        else:
            read.take(position, chunk, out)
    if missing:
        _read_missing(source, read, missing, out)
    return out


def _read_missing(
    source: ChunkSource, read: ChunkedRead, missing: dict[Position, Hashable | None], out: AnyArray
) -> None:
    """Decode chunks and copy them into the result."""
    info = source.info
    item_bytes = source.dtype.itemsize
    chunk_bytes = max(math.prod(info.chunks) * item_bytes, 1)
    remembers = _remembers.get()
    is_small = 2 * info.size * item_bytes <= settings.DAF_DECODED_CHUNKS_MAX_BYTES

    def run(stored: Iterable[tuple[Position, Any]]) -> None:
        for position, data in stored:
            chunk = source.decode(position, data)
            read.take(position, chunk, out)
            if remembers and (is_small or read.is_partial(position)):
                source.memory.keep(position, missing[position], chunk)

    stored = source.fetch(list(missing))
    if not source.decodes_in_threads or len(missing) * chunk_bytes <= _TASK_BYTES:
        run(stored)
    else:
        run_all(_tasks(stored, max(_TASK_BYTES // chunk_bytes, 1), run))


def _tasks(
    stored: Iterable[tuple[Position, Any]],
    count: int,
    run: Callable[[Iterable[tuple[Position, Any]]], None],
) -> Iterator[Callable[[], None]]:
    """Group chunks into tasks of so many."""
    return (functools.partial(run, group) for group in _groups(stored, count))


def _groups(
    stored: Iterable[tuple[Position, Any]], count: int
) -> Iterator[list[tuple[Position, Any]]]:
    """Yield so many chunks at a time."""
    group: list[tuple[Position, Any]] = []
    for item in stored:
        group.append(item)
        if len(group) == count:
            yield group
            group = []
    if group:
        yield group


def estimate_decoded(read: ChunkedRead, item_bytes: int, estimate: ReadEstimate) -> None:
    """Add what the chunks of a read expand to, and how much of that is used."""
    count = len(read.rows) * len(read.across)
    estimate.add_decoded(
        count * math.prod(read.info.chunks) * item_bytes,
        used_bytes=math.prod(read.shape) * item_bytes,
    )


def _decoded_strings(
    source: StringChunks, stored: list[tuple[Position, Any]], height: int
) -> Iterator[tuple[Position, pa.Array]]:
    """Yield the strings of some chunks; those of neighbours together, where none is damaged."""
    if len(stored) > 1 and len(source.info.chunks) == 1:
        chunks = [source.string_bytes(position, data) for position, data in stored]
        plain = [chunk for chunk in chunks if chunk is not None]
        is_whole = len(plain) == len(chunks)
        strings = decode_vlen_chunks(plain, [height] * len(plain)) if is_whole else None
        if strings is not None:
            yield stored[0][0], strings
            return
    for position, data in stored:
        yield position, source.decode_strings(position, data)


def read_string_chunks(source: StringChunks, span: Span) -> pa.StringArray | pa.LargeStringArray:
    """Return a range of the first dimension of strings; only its chunks are decoded, side by side.

    A chunk of a matrix has to lie within one of its columns, which is the last dimension as stored.
    """
    *across, height = source.info.chunks
    if any(width != 1 for width in across):
        raise UnsupportedDataError(
            f"chunks of shape {list(source.info.chunks)} of strings are not read; write the array "
            "again"
        )
    inner = Span(0, source.info.shape[-1]) if across else span
    positions = list(positions_within(source.info, span))
    parts: dict[Position, pa.Array] = {}

    def run(stored: Iterable[tuple[Position, Any]]) -> None:
        for position, strings in _decoded_strings(source, list(stored), height):
            start = position[-1] * height
            first, last = max(inner.start, start), min(inner.stop, start + len(strings))
            parts[position] = strings.slice(first - start, last - first)

    if len(positions) * height <= _TASK_STRINGS:
        run(source.fetch(positions))
    else:
        run_all(_tasks(source.fetch(positions), max(_TASK_STRINGS // height, 1), run))
    found = [parts[position] for position in positions if position in parts] or [
        pa.array([], pa.string())
    ]
    return _joined(found)


def _joined(parts: list[pa.Array]) -> pa.StringArray | pa.LargeStringArray:
    """Return strings one after the other, with wide offsets where these are needed."""
    if (
        any(pa.types.is_large_string(part.type) for part in parts)
        or sum(part.nbytes for part in parts) >= LARGE_BYTES
    ):
        parts = [part.cast(pa.large_string()) for part in parts]
    return parts[0] if len(parts) == 1 else pa.concat_arrays(parts)


def coded_string_chunks(source: StringChunks) -> Iterator[pa.DictionaryArray]:
    """Yield all strings of a vector in pieces, each of which has a string once.

    Pieces are decoded side by side, and a few are in memory at a time.
    """
    height, length = source.info.chunks[0], source.info.shape[0]

    def coded(stored: list[tuple[Position, Any]]) -> pa.DictionaryArray:
        parts = [strings for _, strings in _decoded_strings(source, stored, height)]
        left = length - stored[0][0][0] * height  # the last chunk is filled up
        return _joined(parts).slice(0, left).dictionary_encode()

    stored = source.fetch(list(positions_within(source.info, Span(0, length))))
    return computed(
        functools.partial(coded, list(group))
        for group in _groups(stored, max(_CODED_STRINGS // height, 1))
    )

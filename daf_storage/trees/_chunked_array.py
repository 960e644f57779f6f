"""Arrays in chunks, whatever container these lie in: read, decoded side by side, and remembered.

A `ChunkLocator` knows where the chunks are: in files of their own, several in a file, in an HDF5
file.  What they hold, and what is said of those that are damaged or missing, is the same for all.
What was decoded is remembered by all arrays of the process together, within a budget; not where a
read used whole chunks of an array larger than that, as a pass over it does.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Hashable, Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any, Final, Protocol

import numpy as np
import pyarrow as pa

from daf_storage import settings
from daf_storage.base import AnyArray, DecodedCache, Span, decode_vlen_chunks
from daf_storage.base import strings as vlen
from daf_storage.errors import CorruptDataError, UnsupportedDataError
from daf_storage.stores import ReadEstimate
from daf_storage.trees._array_bases import STRING_BYTES, NotFileBacked, chunks_of
from daf_storage.trees._chunk_grid import (
    ChunkedRead,
    Position,
    check_count,
    positions_within,
    split_rows,
)
from daf_storage.trees._decode_threads import computed, run_all
from daf_storage.trees._decompress import Codec, limit_of_strings, undone
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

_COUNT_BYTES: Final = 4


@dataclass(frozen=True, slots=True)
class ChunkEncoding:
    """What the bytes of a chunk are."""

    codecs: tuple[Codec, ...]
    """What is undone, in this order."""
    dtype: np.dtype[Any] | None
    """The elements that are left; None for strings as ``vlen-utf8`` has them."""
    is_fortran: bool = False
    """Whether the first dimension varies fastest."""


class ChunkLocator(Protocol):
    """Where the chunks of one array are."""

    most_chunks: int
    """Nobody would wait for a read of more."""
    most_looked_up: int
    """Of more, an estimate does not look for each."""

    @property
    def is_absent(self) -> bool:
        """Whether it is known that nothing of the array is stored."""
        ...

    def name(self, position: Position) -> str:
        """Return what messages call a chunk."""
        ...

    def version(self, position: Position) -> Hashable | None:
        """Return what changes whenever the chunk does; None if it is not to be remembered."""
        ...

    def fetch(self, positions: list[Position]) -> Iterator[tuple[Position, Any]]:
        """Yield what is stored of each chunk, in this order; None where nothing is."""
        ...

    def fill_value(self, position: Position) -> Any:
        """Return what a chunk holds that is not stored; raise if it had to be."""
        ...

    def add_stored(self, positions: list[Position], estimate: ReadEstimate) -> None:
        """Add what fetching chunks would cost."""
        ...

    def check_stored(self, *, is_complete: bool) -> None:
        """Raise if chunks are missing or too short, by the sizes of files alone."""
        ...

    def fingerprint(self) -> list[int] | None:
        """Return what tells the stored bytes from any others, if that is known."""
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


class ChunkedArray(NotFileBacked):
    """An array in chunks; see `StoredArray`.

    Parameters
    ----------
    encoding
        What the bytes of its chunks are.
    locator
        Where they are.
    memory
        Where decoded chunks are remembered.
    what
        The array as messages name it.
    """

    def __init__(
        self,
        info: ArrayInfo,
        encoding: ChunkEncoding,
        locator: ChunkLocator,
        *,
        memory: ChunkMemory,
        what: str,
    ) -> None:
        self.info = info
        self.memory = memory
        self._encoding = encoding
        self._locator = locator
        self.what = what
        """The array as messages name it."""

    def read(self) -> AnyArray:
        """Return all elements, decoded."""
        if self.info.shape:
            return self.read_rows(Span(0, self.info.shape[0]))
        [(position, stored)] = self._locator.fetch([()])
        return _frozen(self.decode(position, stored))

    def read_spans(self, spans: list[Span], within: Span | None = None) -> list[AnyArray]:
        """Return ranges of the first dimension; each chunk is decoded at most once."""
        if self._locator.is_absent:
            rest = list(self.info.shape[1:])
            if within is not None:
                rest[0] = within.size
            fill = self._locator.fill_value(())
            return [_frozen(np.full((span.size, *rest), fill, self.dtype)) for span in spans]
        self._check_count(spans, within)
        return split_rows(_frozen(self._read(ChunkedRead.of(self.info, spans, within))), spans)

    def read_joined(self, ranges: Ranges) -> AnyArray | None:
        """Return ranges of an array of one dimension in one array; None if nothing is stored."""
        if self._locator.is_absent:
            return None
        remembered = self._remembered_ranges(ranges)
        if remembered is not None:
            return remembered
        return self._read(ChunkedRead.of_ranges(self.info, ranges, None))

    def estimate(
        self, spans: list[Span], estimate: ReadEstimate, within: Span | None = None
    ) -> None:
        """Add the stored bytes of the chunks, and what they expand to."""
        self._check_count(spans, within)
        if chunks_of(self.info, spans, within) > self._locator.most_looked_up:
            super().estimate(spans, estimate, within)
            return
        read = ChunkedRead.of(self.info, spans, within)
        self._locator.add_stored(read.positions(), estimate)
        if self._encoding.codecs:
            dtype = self._encoding.dtype
            item_bytes = STRING_BYTES if dtype is None else dtype.itemsize
            count = len(read.rows) * len(read.across)
            estimate.add_decoded(
                count * math.prod(self.info.chunks) * item_bytes,
                used_bytes=math.prod(read.shape) * item_bytes,
            )

    def check_stored(self, *, is_complete: bool = False) -> None:
        """Raise if chunks are missing or too short, by the sizes of files alone."""
        if self.info.size:
            self._locator.check_stored(is_complete=is_complete)

    def fingerprint(self) -> list[int] | None:
        """Return what tells the stored bytes from any others, if that is known."""
        return self._locator.fingerprint()

    def read_strings(self) -> pa.StringArray | pa.LargeStringArray:
        """Return all strings."""
        if self._encoding.dtype is not None:
            return as_strings(self.read(), what=self.what)
        if not self.info.shape:
            [(position, stored)] = self._locator.fetch([()])
            return self._decode_strings(position, stored)
        return self.string_rows(Span(0, self.info.shape[0]))

    def string_rows(self, span: Span) -> pa.StringArray | pa.LargeStringArray:
        """Return a range of the first dimension of strings; only its chunks are decoded.

        A chunk of a matrix has to lie within one of its columns, which is the last dimension as
        stored.
        """
        if self._encoding.dtype is not None:
            return as_strings(self.read_rows(span), what=self.what)
        if self._locator.is_absent:
            return self._filled((), span.size * math.prod(self.info.shape[1:]))
        self._check_count([span], None)
        *across, height = self.info.chunks
        if any(width != 1 for width in across):
            raise UnsupportedDataError(
                f"chunks of shape {list(self.info.chunks)} of strings are not read; write the "
                "array again"
            )
        inner = Span(0, self.info.shape[-1]) if across else span
        positions = list(positions_within(self.info, span))
        parts: dict[Position, pa.Array] = {}

        def run(stored: Iterable[tuple[Position, Any]]) -> None:
            for position, strings in self._decoded_strings(list(stored)):
                start = position[-1] * height
                first, last = max(inner.start, start), min(inner.stop, start + len(strings))
                parts[position] = strings.slice(first - start, last - first)

        _run(self._locator.fetch(positions), len(positions), _TASK_STRINGS / height, run)
        found = [parts[position] for position in positions if position in parts]
        return _joined(found or [pa.array([], pa.string())])

    def string_pieces(self) -> Iterator[pa.Array]:
        """Yield all strings of a vector in pieces, each of which has a string once.

        Pieces are decoded side by side, and a few are in memory at a time.
        """
        if self._locator.is_absent or self._encoding.dtype is not None:
            return iter([self.read_strings()])
        height, length = self.info.chunks[0], self.info.shape[0]

        def coded(stored: list[tuple[Position, Any]]) -> pa.DictionaryArray:
            parts = [strings for _, strings in self._decoded_strings(stored)]
            left = length - stored[0][0][0] * height  # the last chunk is filled up
            return _joined(parts).slice(0, left).dictionary_encode()

        stored = self._locator.fetch(list(positions_within(self.info, Span(0, length))))
        groups = _groups(stored, max(_CODED_STRINGS // height, 1))
        return computed(functools.partial(coded, list(group)) for group in groups)

    @property
    def dtype(self) -> np.dtype[Any]:
        """The type of the elements; strings of a fixed length are of one of numpy's."""
        kind, stored = self.info.storage_type, self._encoding.dtype
        return kind.dtype if stored is None or not kind.is_string else stored

    @property
    def decodes_in_threads(self) -> bool:
        """Whether `decode` may run in several threads, and gains by it."""
        return bool(self._encoding.codecs)

    def decode(self, position: Position, stored: Any) -> AnyArray:
        """Return the elements of a chunk, padded at the end of the array."""
        shape, encoded = self.info.chunks, self._encoding.dtype
        if stored is None:
            fill = np.array(self._locator.fill_value(position), self.dtype)
            return np.broadcast_to(fill, shape)
        if encoded is None:
            raise TypeError("the array is not one of numbers")
        size_bytes = math.prod(shape) * encoded.itemsize
        name = self._name(position)
        data = undone(self._codecs_of(position), stored, size_bytes, what=name)
        if len(data) != size_bytes:
            raise wrong_size(name, len(data), shape, encoded)
        values = np.frombuffer(data, encoded)
        if self._encoding.is_fortran:
            return values.reshape(shape[::-1]).T.astype(self.dtype, copy=False)
        return values.reshape(shape).astype(self.dtype, copy=False)

    def _codecs_of(self, position: Position) -> tuple[Codec, ...]:  # noqa: ARG002 - of HDF5 they may differ
        """Return what is undone of a chunk."""
        return self._encoding.codecs

    def _name(self, position: Position) -> str:
        return f"{self.what}: {self._locator.name(position)}"

    def _check_count(self, spans: list[Span], within: Span | None) -> None:
        """Raise if so many chunks are needed that nobody would wait for them."""
        check_count(self.info, spans, within, self._locator.most_chunks, what=self.what)

    # Strings.

    def _string_bytes(self, position: Position, stored: Any) -> memoryview | None:
        """Return a chunk as ``vlen-utf8`` has it; None where nothing is stored."""
        if stored is None:
            return None
        limit = limit_of_strings(math.prod(self.info.chunks), len(stored))
        return undone(self._codecs_of(position), stored, limit, what=self._name(position))

    def _decode_strings(self, position: Position, stored: Any) -> pa.Array:
        """Return the strings of a whole chunk."""
        count = math.prod(self.info.chunks)
        data = self._string_bytes(position, stored)
        if data is None:
            return self._filled(position, count)
        check_string_count(data, count, what=self._name(position))
        return vlen.decode_vlen_utf8(data, what=self._name(position))

    def _filled(self, position: Position, count: int) -> pa.Array:
        """Return strings that stand in for those that are not stored."""
        fill = pa.scalar(self._locator.fill_value(position), pa.string())
        try:
            return pa.repeat(fill, count)
        except pa.ArrowException as error:
            raise CorruptDataError(
                f"{self.what}: {count:,} times the fill value does not fit into memory ({error})"
            ) from None

    def _decoded_strings(
        self, stored: list[tuple[Position, Any]]
    ) -> Iterator[tuple[Position, pa.Array]]:
        """Yield the strings of some chunks; those of neighbours together, if none is damaged."""
        height = self.info.chunks[-1]
        if len(stored) > 1 and len(self.info.chunks) == 1:
            chunks = [self._string_bytes(position, data) for position, data in stored]
            plain = [chunk for chunk in chunks if chunk is not None]
            is_whole = len(plain) == len(chunks)
            strings = decode_vlen_chunks(plain, [height] * len(plain)) if is_whole else None
            if strings is not None:
                yield stored[0][0], strings
                return
        for position, data in stored:
            yield position, self._decode_strings(position, data)

    # Chunks that are remembered, and those that are not.

    def _remembered_ranges(self, ranges: Ranges) -> AnyArray | None:
        """Return ranges of chunks that are all remembered, copied at once; None if one is not."""
        if not ranges.sizes.size or len(self.info.chunks) != 1:
            return None
        height = self.info.chunks[0]
        firsts = ranges.starts // height
        counts = -(-ranges.stops // height) - firsts
        numbers, pieces = ranges.cut(firsts, counts, lambda numbers: numbers * height)
        needed, places = np.unique(numbers, return_inverse=True)
        chunks: list[AnyArray] = []
        for number in needed.tolist():
            position = (number,)
            chunk = self.memory.find(position, self._locator.version(position))
            if chunk is None:
                return None
            chunks.append(np.ascontiguousarray(chunk))  # what is not stored is one, repeated
        return join_views(chunks, places, pieces)

    def _read(self, read: ChunkedRead) -> AnyArray:
        out = np.empty(read.shape, self.dtype)
        missing: dict[Position, Hashable | None] = {}
        for position in read.positions():
            version = self._locator.version(position)
            chunk = self.memory.find(position, version)
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
        remembers = _remembers.get()
        is_small = 2 * self.info.size * item_bytes <= settings.DAF_DECODED_CHUNKS_MAX_BYTES

        def run(stored: Iterable[tuple[Position, Any]]) -> None:
            for position, data in stored:
                chunk = self.decode(position, data)
                read.take(position, chunk, out)
                if remembers and (is_small or read.is_partial(position)):
                    self.memory.keep(position, missing[position], chunk)

        per_task = _TASK_BYTES / chunk_bytes if self.decodes_in_threads else math.inf
        _run(self._locator.fetch(list(missing)), len(missing), per_task, run)


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
        groups = _groups(stored, max(int(per_task), 1))
        run_all(functools.partial(run, group) for group in groups)


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


def _joined(parts: list[pa.Array]) -> pa.StringArray | pa.LargeStringArray:
    """Return strings one after the other, with wide offsets where these are needed."""
    if (
        any(pa.types.is_large_string(part.type) for part in parts)
        or sum(part.nbytes for part in parts) >= LARGE_BYTES
    ):
        parts = [part.cast(pa.large_string()) for part in parts]
    return parts[0] if len(parts) == 1 else pa.concat_arrays(parts)


def _frozen(values: AnyArray) -> AnyArray:
    values.flags.writeable = False
    return values


def as_strings(values: AnyArray, *, what: str) -> pa.StringArray:
    """Turn strings that numpy has (objects, ``<U`` or ``|S``) into Arrow strings."""
    flat = values.reshape(-1)
    try:
        if flat.dtype.kind == "S":
            flat = np.char.decode(flat, "utf-8")
        return pa.array(flat.astype(object), pa.string())
    except (pa.ArrowException, ValueError, SystemError) as error:
        raise CorruptDataError(f"{what}: the strings cannot be decoded ({error})") from error


# What is said of damage.


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


def check_string_count(data: memoryview, count: int, *, what: str) -> None:
    """Raise unless a chunk of strings says that it has so many: as many would be made."""
    claimed = int.from_bytes(data[:_COUNT_BYTES], "little")
    if len(data) < _COUNT_BYTES or claimed != count:
        raise CorruptDataError(f"{what} claims to hold {claimed:,} strings instead of {count:,}")

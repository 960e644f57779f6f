"""Undo the codecs of chunks of untrusted data sets, in threads: never into too many bytes.

A few kilobytes can claim, or truly expand to, any number of gigabytes.  Every decoder here stops at
a limit instead.  The threads are as many as cores, and those that wait for servers a few more; all
arrays of the process share them.  Decompression releases the interpreter's lock.  Knows bytes and
codecs; knows no arrays of a tree.
"""

from __future__ import annotations

import functools
import lzma
import os
import re
import struct
import zlib
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import Future
from typing import Any, Final, TypeVar

import google_crc32c
import numpy as np
import pyarrow as pa

from daf_storage._lazy import numcodecs
from daf_storage.base import AnyArray, optional_import, pooled_threads
from daf_storage.errors import CorruptDataError, DafError, UnsupportedDataError

_T = TypeVar("_T")
_R = TypeVar("_R")

THREADS: Final = os.cpu_count() or 1
"""How many tasks run at a time."""

_CONNECTIONS: Final = 16


def run_all(tasks: Iterable[Callable[[], object]]) -> None:
    """Run tasks side by side, which write their results themselves; a few wait at a time.

    They must not call this function: they would wait for their own threads.

    Raises
    ------
    Exception
        What the first of them raises, when none of them runs any more.

    Examples
    --------
    >>> seen = []
    >>> run_all([lambda: seen.append(1), lambda: seen.append(2)])
    >>> sorted(seen)
    [1, 2]
    """
    for _ in computed(tasks):
        pass


def computed(
    tasks: Iterable[Callable[[], _R]], pool: str = "decode", threads: int = THREADS
) -> Iterator[_R]:
    """Yield what tasks return, in their order; a few of them run, and wait to be taken, at a time.

    They must not call this function, nor `run_all`, unless those of another pool do.  A single one
    in a list is run by the caller.

    >>> list(computed([lambda: 1, lambda: 2]))
    [1, 2]
    """
    if isinstance(tasks, list) and len(tasks) == 1:
        return iter([tasks[0]()])
    return _in_order(tasks, pool, threads)


def fetched(items: list[_T], fetch: Callable[[_T], _R]) -> Iterator[tuple[_T, _R]]:
    """Yield what is fetched for each item, in their order; several are fetched at a time.

    >>> list(fetched([1, 2], str))
    [(1, '1'), (2, '2')]
    """
    tasks = (functools.partial(fetch, item) for item in items)
    return zip(items, _in_order(tasks, "fetch", _CONNECTIONS), strict=True)


def _in_order(tasks: Iterable[Callable[[], _R]], pool: str, threads: int) -> Iterator[_R]:
    """Yield what tasks return; nobody waits for those that run when an error ends it."""
    pending: deque[Future[_R]] = deque()
    try:
        for task in tasks:
            pending.append(pooled_threads(pool, threads).submit(task))
            if len(pending) > 2 * threads:
                yield pending.popleft().result()
        while pending:
            yield pending.popleft().result()
    finally:
        for future in pending:
            if not future.cancel() and pool != "fetch":  # it writes into what is read
                future.exception()


def fill_blocks(out: AnyArray, blocks: Iterable[AnyArray]) -> None:
    """Fill an array with consecutive ranges of its first dimension."""
    start = 0
    for block in blocks:
        np.copyto(out[start : start + len(block)], block, casting="unsafe")
        start += len(block)


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

Codec = Mapping[str, Any]
"""Name (``id``) and options of a codec."""


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
            reason = " ".join(str(error).split()) or type(error).__name__
            raise CorruptDataError(f"{what} cannot be decompressed ({reason})") from error
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


def decompress_chunk(
    codecs: Iterable[Codec], data: memoryview, *, count: int, item_bytes: int
) -> memoryview:
    """Undo the compressions of a chunk of an untrusted array.

    Parameters
    ----------
    codecs
        Names (``id``) and options, in the order in which they are undone.
    count, item_bytes
        How many elements the chunk has, and the size of one; 0 if that varies.

    Raises
    ------
    CorruptDataError
        The data is damaged, or expands to more than such a chunk may have.

    Examples
    --------
    >>> import zlib
    >>> data = memoryview(zlib.compress(bytes(8)))
    >>> bytes(decompress_chunk([{"id": "zlib"}], data, count=1, item_bytes=8)) == bytes(8)
    True
    """
    limit = count * item_bytes if item_bytes else limit_of_strings(count, len(data))
    return undone(codecs, data, limit, what="it")


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


def _shuffle(codec: Codec, data: memoryview, limit: int) -> memoryview:  # noqa: ARG001 - as above
    """Put the bytes of elements together that were stored byte by byte."""
    width = codec.get("elementsize", 4)
    count = len(data) // width
    whole = np.frombuffer(data[: count * width], np.uint8).reshape(width, count)
    joined = np.ascontiguousarray(whole.T).reshape(-1)
    rest = data[count * width :]
    return memoryview(joined.tobytes() + bytes(rest)) if len(rest) else joined.data


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

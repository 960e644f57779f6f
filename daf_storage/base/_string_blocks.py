"""The strings of a ``vlen-utf8`` chunk where they lie, in blocks, without decoding them.

Where a string ends is known only from its length, so the chunk would have to be walked string by
string.  A *block* is walked all at once instead: lengths below 256 have three zero bytes, which
hardly any string has; where they are is where strings are guessed to begin.  The guess counts only
as far as each string ends where the next one begins, from the first string of the chunk on: by
induction, these are the strings.  Where it fails, Arrow decodes the next ones.

Strings of one length, such as barcodes, need no guess: where each begins follows from that, and
counts as far as their lengths are as expected.
Pure functions; no files.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from daf_storage.base._strings import decode_vlen_utf8, first_strings, string_offsets
from daf_storage.errors import CorruptDataError

_COUNT_BYTES: Final = 4
_LENGTH_BYTES: Final = 4
_BLOCK_BYTES: Final = 1 << 18
_ASCII: Final = 1 << 7
_LONG: Final = 1 << 8
_POOR_DIVISOR: Final = 8
_CODED_BYTES: Final = 1 << 20
_CODED_STRINGS: Final = 1 << 13
_MAX_CODED_BYTES: Final = 1 << 26
_MAX_SMALL_BYTES: Final = 1 << 30
_FEW_STRINGS: Final = 1 << 6

_Starts: TypeAlias = tuple[npt.NDArray[np.int64], npt.NDArray[Any]]


@dataclass(frozen=True, slots=True, eq=False)
class StringBlock:
    """Neighbouring strings of a chunk."""

    first: int
    """The row of the first of them."""
    start: int
    """Where its length lies, in bytes after the count of the chunk."""
    data: npt.NDArray[np.uint8]
    """The lengths and bytes of the strings; a view of the chunk."""
    starts: npt.NDArray[np.int64]
    """Where the length of each lies in ``data``."""
    lengths: npt.NDArray[Any]
    """The number of bytes of each."""
    stride: int | None = None
    """How far one lies from the next, if they are known to have one length."""

    def __len__(self) -> int:
        """Return the number of strings."""
        return self.starts.size

    def strings(self, rows: npt.NDArray[np.int64]) -> pa.Array:
        """Return some of the strings, counted from the first of the block; copies only them."""
        lengths = self.lengths.take(rows).astype(np.int64)
        offsets = np.zeros(rows.size + 1, np.int64)
        np.cumsum(lengths, out=offsets[1:])
        places = np.repeat(self.starts.take(rows) + _LENGTH_BYTES - offsets[:-1], lengths)
        places += np.arange(places.size)
        buffers = [None, pa.py_buffer(offsets), pa.py_buffer(self.data.take(places))]
        return pa.Array.from_buffers(pa.large_string(), rows.size, buffers)


def string_blocks(
    data: memoryview, *, what: str, block_bytes: int = _BLOCK_BYTES
) -> Iterator[StringBlock]:
    """Yield the strings of one ``vlen-utf8`` chunk, in blocks of about so many bytes.

    Parameters
    ----------
    data
        The bytes of the chunk, count included.
    what
        What the chunk is, for error messages.

    Raises
    ------
    CorruptDataError
        As `decode_vlen_utf8` does; blocks before what is broken may have been yielded.

    Examples
    --------
    >>> data = memoryview(bytes.fromhex("02000000 01000000 41 02000000 4243"))
    >>> (block,) = string_blocks(data, what="x")
    >>> block.starts.tolist()
    [0, 5]
    """
    count = int.from_bytes(data[:_COUNT_BYTES], "little")
    payload = np.frombuffer(data[_COUNT_BYTES:], np.uint8)
    start = row = 0
    if len(data) >= _COUNT_BYTES and count * _LENGTH_BYTES <= payload.size:
        for block in blocks_between(payload, 0, payload.size, count, block_bytes=block_bytes):
            yield block
            start, row = block.start + block.data.size, block.first + len(block)
    if row != count or start != payload.size or len(data) < _COUNT_BYTES:
        decode_vlen_utf8(data, what=what)  # says what is wrong
        raise CorruptDataError(f"{what}: the chunk of {count:,} strings cannot be walked")


def blocks_between(
    payload: npt.NDArray[np.uint8], start: int, stop: int, count: int, *, block_bytes: int
) -> Iterator[StringBlock]:
    """Yield blocks of at most ``count`` strings of those that begin from ``start`` to ``stop``.

    A string begins at ``start``.  Ends where something is broken, and before ``stop`` then.
    """
    row = 0
    is_poor = False
    while start < stop and row < count:
        end = min(start + block_bytes, stop)
        stride = _stride(payload, start, end)
        found = None
        if stride is not None:
            found = _of_one_length(payload, start, end, stride)
        elif not is_poor:
            found = _guessed(payload, start, end)
        if found is None:
            found = _decoded(payload, start, end, count - row)
            if found is None:
                return
        starts, lengths = (part[: count - row] for part in found)
        size = int(starts[-1]) + _LENGTH_BYTES + int(lengths[-1])
        block = StringBlock(row, start, payload[start : start + size], starts, lengths, stride)
        if not _is_utf8(block):
            return
        yield block
        start, row = start + size, row + starts.size
        was_guessed = stride is None and not is_poor
        is_poor = was_guessed and size * _POOR_DIVISOR < block_bytes  # what the guess broke off at


def _stride(payload: npt.NDArray[np.uint8], start: int, stop: int) -> int | None:
    """Return how far strings lie from each other, if some have one length; None if they do not."""
    stride = _LENGTH_BYTES + int.from_bytes(payload[start : start + _LENGTH_BYTES], "little")
    if stop - start < _FEW_STRINGS * stride:
        return None
    lengths = _numbers(payload, start, _FEW_STRINGS, stride)
    return stride if bool((lengths == lengths[0]).all()) else None


def _of_one_length(payload: npt.NDArray[np.uint8], start: int, stop: int, stride: int) -> _Starts:
    """Return where strings of one length begin, and that, as far as their lengths are the same.

    The first one begins at ``start``, so what is at the place of the next length is its length.
    """
    count = (stop - start) // stride
    fits = _numbers(payload, start, count, stride) == stride - _LENGTH_BYTES
    count = count if fits.all() else int(fits.argmin())
    starts = np.arange(0, count * stride, stride)
    return starts, np.broadcast_to(np.int64(stride - _LENGTH_BYTES), count)


def _numbers(
    payload: npt.NDArray[np.uint8], start: int, count: int, stride: int
) -> npt.NDArray[np.uint32]:
    """Return a view of the numbers that lie at equal distances, as lengths are stored."""
    return np.ndarray(count, "<u4", payload.data, offset=start, strides=(stride,))


def _guessed(payload: npt.NDArray[np.uint8], start: int, stop: int) -> _Starts | None:
    """Return where strings begin up to ``stop``, and their lengths, as far as they fit together."""
    window = payload[start : stop + _LENGTH_BYTES - 1]
    is_zero = window == 0
    is_start = is_zero[1:-2] & is_zero[2:-1]
    is_start &= is_zero[3:]
    starts = np.flatnonzero(is_start)
    lengths = window.take(starts)
    if not lengths.all():
        starts = _without_zeros_of_empty(starts, is_first_empty=window[0] == 0)
        lengths = window.take(starts)
    if not starts.size or starts[0] != 0:
        return None
    ends = starts + lengths
    ends += _LENGTH_BYTES
    fits = ends[:-1] == starts[1:]
    count = starts.size if fits.all() else int(fits.argmin()) + 1
    if start + int(ends[count - 1]) > payload.size:
        count -= 1
    return (starts[:count], lengths[:count]) if count else None


def _without_zeros_of_empty(
    starts: npt.NDArray[np.int64], *, is_first_empty: bool
) -> npt.NDArray[np.int64]:
    """Leave out what looks like a start among the zero bytes of empty strings.

    k empty strings are 4 k zero bytes, before which the last byte of another string or, if they
    come first, nothing looks like the start of one: of 4 k neighbours, each fourth is one.
    """
    begins = np.ones(starts.size, np.bool_)
    np.not_equal(starts[1:], starts[:-1] + 1, out=begins[1:])
    numbers = np.arange(starts.size)
    run_begins = np.where(begins, numbers, -1)
    if is_first_empty:
        run_begins[0] = -1
    within = numbers - np.maximum.accumulate(run_begins)
    is_alone = begins.copy()
    is_alone[:-1] &= begins[1:]
    is_alone[0] &= not is_first_empty
    left: npt.NDArray[np.int64] = starts[is_alone | (within % _LENGTH_BYTES == 1)]
    return left


def _decoded(payload: npt.NDArray[np.uint8], start: int, stop: int, count: int) -> _Starts | None:
    """Return where the next strings begin, and their lengths, as Arrow reads them."""
    strings = first_strings(payload.data[start:], count, max_bytes=stop - start)
    if strings is None:
        return None
    offsets = string_offsets(strings).astype(np.int64)
    lengths = np.diff(offsets)
    starts = offsets[:-1] - offsets[0] + _LENGTH_BYTES * np.arange(lengths.size)
    n = int(np.searchsorted(starts, stop - start))
    return starts[:n], lengths[:n]


def _is_utf8(block: StringBlock) -> bool:
    """Return whether all strings of a block are UTF-8.

    The bytes of lengths stand between them: ASCII, or replaced by zeros, they keep strings apart.
    """
    data, longest = block.data, block.lengths.max()
    if longest >= _ASCII:
        data = data.copy()
        for number in range(_LENGTH_BYTES if longest >= _LONG else 1):
            data[block.starts + number] = 0
    ends = np.array([0, data.size], np.int64)
    buffers = [None, pa.py_buffer(ends), pa.py_buffer(data)]
    try:
        pa.Array.from_buffers(pa.large_string(), 1, buffers).validate(full=True)
    except pa.ArrowInvalid:
        return False
    return True


def coded_blocks(
    data: memoryview, *, what: str, block_bytes: int | None = None
) -> Iterator[pa.DictionaryArray]:
    """Yield the strings of one ``vlen-utf8`` chunk as dictionaries, each string of a block once.

    Of ten million strings with few distinct ones, no more than a block is in memory; by default
    one of a MiB, or of 8,192 strings as they are on average.

    Raises
    ------
    CorruptDataError
        As `decode_vlen_utf8` does; strings before what is broken may have been yielded.

    Examples
    --------
    >>> data = memoryview(bytes.fromhex("02000000 01000000 41 01000000 41"))
    >>> [(b.dictionary.to_pylist(), b.indices.to_pylist()) for b in coded_blocks(data, what="x")]
    [(['A'], [0, 0])]
    """
    count = max(int.from_bytes(data[:_COUNT_BYTES], "little"), 1)
    size_bytes = min(max(_CODED_BYTES, len(data) // count * _CODED_STRINGS), _MAX_CODED_BYTES)
    for block in string_blocks(data, what=what, block_bytes=block_bytes or size_bytes):
        # A length and its string end where the next length begins, as in an array of Arrow.
        offsets = np.append(block.starts, block.data.size)
        buffers = [None, pa.py_buffer(offsets), pa.py_buffer(block.data)]
        stored = pa.Array.from_buffers(pa.large_binary(), len(block), buffers).dictionary_encode()
        yield pa.DictionaryArray.from_arrays(stored.indices, _without_lengths(stored.dictionary))


def _without_lengths(stored: Any) -> Any:
    """Return strings out of what is stored of them."""
    offsets = string_offsets(stored)
    data = np.frombuffer(stored.buffers()[2], np.uint8)
    block = StringBlock(0, 0, data, offsets[:-1], np.diff(offsets) - _LENGTH_BYTES)
    strings = block.strings(np.arange(len(block)))
    return strings if strings.nbytes > _MAX_SMALL_BYTES else strings.cast(pa.string())

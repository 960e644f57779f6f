r"""Strings as lines of text, one each: between bytes and Arrow, without an object per string.

Each line ends with ``\n``, the last one too.  Pure functions; no files.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa

from daf_storage._lazy import lazy_module
from daf_storage.base import AnyArray
from daf_storage.errors import CorruptDataError, UnsupportedInputError

if TYPE_CHECKING:
    import pyarrow.compute as pc
else:
    pc = lazy_module("pyarrow.compute")

_NEWLINE: Final = 10
_COUNT_BYTES: Final = 1 << 20
_LARGE_BYTES: Final = 2**31
_BLOCK_ROWS: Final = 1 << 18


def count_lines(data: memoryview, *, what: str) -> int:
    r"""Return how many lines there are.

    >>> count_lines(memoryview(b"A\nB\n"), what="x")
    2

    Raises
    ------
    CorruptDataError
        The last one does not end: the file is truncated.
    """
    if len(data) and data[-1] != _NEWLINE:
        raise CorruptDataError(
            f"{what}: its last line does not end with a newline, so it is truncated; write it again"
        )
    values = np.frombuffer(data, np.uint8)
    blocks = range(0, values.size, _COUNT_BYTES)
    return sum(int(np.count_nonzero(values[n : n + _COUNT_BYTES] == _NEWLINE)) for n in blocks)


def decode_lines(
    data: memoryview, count: int, *, what: str
) -> pa.StringArray | pa.LargeStringArray:
    r"""Return lines as Arrow strings, which own their memory.

    >>> decode_lines(memoryview("é\n\n".encode()), 2, what="x").to_pylist()
    ['é', '']

    Raises
    ------
    CorruptDataError
        There are more or fewer than ``count``, or they are not UTF-8.
    """
    n_lines = count_lines(data, what=what)
    if n_lines != count:
        raise CorruptDataError(f"{what}: it has {n_lines:,} lines instead of {count:,}")
    is_large = len(data) >= _LARGE_BYTES
    kind = pa.large_string() if is_large else pa.string()
    values = np.frombuffer(data, np.uint8)
    is_newline = values == _NEWLINE
    offsets = np.zeros(count + 1, np.int64 if is_large else np.int32)
    np.subtract(np.flatnonzero(is_newline), np.arange(count), out=offsets[1:], casting="unsafe")
    characters = values[~is_newline]
    array = pa.Array.from_buffers(
        kind, count, [None, pa.py_buffer(offsets), pa.py_buffer(characters)]
    )
    try:
        array.validate(full=True)
    except pa.ArrowException as error:
        raise CorruptDataError(f"{what}: its lines are not UTF-8 ({error})") from None
    return array


def encode_lines(strings: pa.Array, *, what: str) -> Iterator[bytes]:
    r"""Yield the lines of strings in blocks of bytes.

    >>> b"".join(encode_lines(pa.array(["A", ""]), what="x"))
    b'A\n\n'

    Raises
    ------
    UnsupportedInputError
        A string has a line break in it.
    """
    for start in range(0, len(strings), _BLOCK_ROWS):
        yield _encoded(strings.slice(start, _BLOCK_ROWS), start, what)


def lines_bytes(strings: pa.Array) -> int:
    """Return how many bytes the lines of strings have."""
    return len(strings) + (pc.sum(pc.binary_length(strings)).as_py() or 0)


def _encoded(strings: pa.Array, start: int, what: str) -> bytes:
    kind = np.int64 if pa.types.is_large_string(strings.type) else np.int32
    offsets = np.frombuffer(strings.buffers()[1], kind)[strings.offset :][: len(strings) + 1]
    data = strings.buffers()[2]
    first, last = int(offsets[0]), int(offsets[-1])
    characters: AnyArray = np.frombuffer(data if data is not None else b"", np.uint8)[first:last]
    newlines = np.flatnonzero(characters == _NEWLINE)
    if newlines.size:
        number = int(np.searchsorted(offsets, first + newlines[0], side="right")) - 1
        raise UnsupportedInputError(
            f"{what} has a line break in {strings[number].as_py()!r} at position "
            f"{start + number:,}, and FilesDaf stores a string a line; take the line break out, or "
            "use another format (.daf.zarr, .h5df)"
        )
    ends = offsets[1:].astype(np.int64) - first + np.arange(len(strings))
    out = np.empty(characters.size + len(strings), np.uint8)
    is_character = np.ones(out.size, bool)
    is_character[ends] = False
    out[is_character] = characters
    out[ends] = _NEWLINE
    return out.tobytes()

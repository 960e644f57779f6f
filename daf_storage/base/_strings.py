"""Strings between Zarr's ``vlen-utf8`` bytes and Arrow, without a Python object per string.

A ``vlen-utf8`` chunk is a 4-byte count and then, per string, a 4-byte little-endian length and the
UTF-8 bytes.  What follows the count is exactly Parquet's PLAIN encoding of BYTE_ARRAY, so decoding
wraps the payload in a minimal one-column, one-page Parquet file in memory and lets Arrow's own C++
reader do the work.  Pure functions; no files.
"""

from __future__ import annotations

import itertools
import struct
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from daf_storage._lazy import pc, pq
from daf_storage.base._model import one_array
from daf_storage.errors import CorruptDataError

_COUNT_BYTES = 4
_LENGTH_BYTES = 4
_MAX_PAGE_BYTES = 1 << 26
_PIECE_BYTES = 1 << 20
_ENCODE_BLOCK = 1 << 20

_I32, _I64, _BINARY, _LIST, _STRUCT = 5, 6, 8, 9, 12
_BYTE_ARRAY, _PLAIN, _RLE = 6, 0, 3


def decode_vlen_utf8(
    data: memoryview, *, what: str, count: int | None = None, max_page_bytes: int = _MAX_PAGE_BYTES
) -> pa.StringArray | pa.LargeStringArray:
    """Decode one ``vlen-utf8`` chunk into an Arrow array of strings.

    Parameters
    ----------
    data
        The bytes of the chunk, count included.
    what
        What the chunk is, for error messages.
    count
        How many strings it has to have, if that is known.
    max_page_bytes
        Payloads above this are split at item boundaries (Parquet pages are 32-bit).

    Returns
    -------
    pyarrow.StringArray
        Without nulls; owns its memory.  A ``LargeStringArray`` where the strings together
        exceed 2 GiB.

    Raises
    ------
    CorruptDataError
        The bytes are truncated, have bytes left over, are not UTF-8, or another number of strings.

    Examples
    --------
    >>> decode_vlen_utf8(memoryview(bytes.fromhex("01000000 02000000 6869")), what="x").to_pylist()
    ['hi']
    """
    pieces = decode_vlen_pieces(data, what=what, count=count, max_page_bytes=max_page_bytes)
    return one_array(pa.chunked_array(list(pieces), pa.string()))


def decode_vlen_pieces(
    data: memoryview, *, what: str, count: int | None = None, max_page_bytes: int = _PIECE_BYTES
) -> Iterator[pa.Array]:
    """Yield the strings of one ``vlen-utf8`` chunk in pieces; see `decode_vlen_utf8`."""
    for piece in _decoded(data, what=what, count=count, max_page_bytes=max_page_bytes):
        strings = _viewed(piece)
        try:
            strings.validate(full=True)
        except pa.ArrowException as error:
            raise _truncated(len(strings), error, what=what) from error
        yield strings


def _viewed(strings: pa.Array) -> Any:
    """Return bytes as strings; they are not checked to be UTF-8."""
    is_large = pa.types.is_large_binary(strings.type)
    return strings.view(pa.large_string() if is_large else pa.string())


def decode_vlen_chunks(chunks: Sequence[memoryview], counts: Sequence[int]) -> Any:
    """Decode several chunks as one, which is faster than one by one.

    Returns None if one of them is damaged, or has another number of strings: decoding it says so.

    Parameters
    ----------
    counts
        How many strings each has to have.

    >>> one, two = bytes.fromhex("01000000 01000000 41"), bytes.fromhex("02000000 0000000000000000")
    >>> decode_vlen_chunks([memoryview(one), memoryview(two)], [1, 2]).to_pylist()
    ['A', '', '']
    """
    for chunk, count in zip(chunks, counts, strict=True):
        if len(chunk) < _COUNT_BYTES or int.from_bytes(chunk[:_COUNT_BYTES], "little") != count:
            return None
    total = sum(counts)
    payloads = [chunk[_COUNT_BYTES:] for chunk in chunks]
    joined = b"".join([struct.pack("<I", total), *payloads])
    try:
        strings = decode_vlen_utf8(memoryview(joined), what="several chunks")
    except CorruptDataError:
        return None
    rows = np.cumsum([0, *counts])
    offsets = string_offsets(strings).astype(np.int64)[rows] if total else np.zeros(rows.size)
    sizes = np.diff(offsets + _LENGTH_BYTES * rows)
    return strings if sizes.tolist() == [len(payload) for payload in payloads] else None


def decode_vlen_bytes(data: memoryview, *, what: str) -> pa.BinaryArray | pa.LargeBinaryArray:
    r"""Decode one ``vlen-bytes`` chunk, which is laid out alike; see `decode_vlen_utf8`.

    >>> decode_vlen_bytes(memoryview(bytes.fromhex("01000000 01000000 ff")), what="x").to_pylist()
    [b'\xff']
    """
    pieces = _decoded(data, what=what, count=None, max_page_bytes=_MAX_PAGE_BYTES)
    return one_array(pa.chunked_array(list(pieces), pa.binary()))


def string_array(strings: Sequence[str]) -> pa.StringArray:
    """Return strings as Arrow has them.

    ``pa.array`` imports pandas first, where it is installed: longer than a short command takes.

    >>> string_array(["A", ""]).to_pylist()
    ['A', '']
    """
    return _viewed(_binary_array([string.encode() for string in strings]))


def _binary_array(values: Sequence[bytes | memoryview]) -> pa.BinaryArray:
    offsets = np.array([0, *itertools.accumulate(map(len, values))], np.int32)
    buffers = [None, pa.py_buffer(offsets), pa.py_buffer(b"".join(values))]
    return pa.Array.from_buffers(pa.binary(), len(values), buffers)


def encode_vlen_utf8(strings: pa.Array) -> Iterator[memoryview]:
    """Yield the bytes of a ``vlen-utf8`` chunk, in blocks of bounded size.

    >>> b"".join(encode_vlen_utf8(pa.array(["A", "B"]))).hex()
    '0200000001000000410100000042'
    """
    yield memoryview(struct.pack("<I", len(strings)))
    for start in range(0, len(strings), _ENCODE_BLOCK):
        yield _encode_block(strings.slice(start, _ENCODE_BLOCK))


def _encode_block(strings: pa.Array) -> memoryview:
    offsets = string_offsets(strings).astype(np.int64)
    text = np.frombuffer(strings.buffers()[2] or b"", dtype=np.uint8)[offsets[0] : offsets[-1]]
    lengths = np.diff(offsets).astype("<u4")
    starts = (offsets[:-1] - offsets[0]) + _LENGTH_BYTES * np.arange(len(strings))
    out = np.empty(text.size + _LENGTH_BYTES * len(strings), dtype=np.uint8)
    is_string = np.ones(out.size, dtype=bool)
    length_bytes: npt.NDArray[np.uint8] = lengths.view(np.uint8).reshape(-1, _LENGTH_BYTES)
    for byte in range(_LENGTH_BYTES):
        out[starts + byte] = length_bytes[:, byte]
        is_string[starts + byte] = False
    out[is_string] = text
    return out.data


def string_offsets(strings: pa.Array) -> npt.NDArray[Any]:
    """Return where each string begins in the buffer, and where the last one ends.

    >>> nothing = pa.Array.from_buffers(pa.string(), 0, [None, *[pa.py_buffer(b"")] * 2])
    >>> [string_offsets(each).tolist() for each in (pa.array(["a", "bc", "d"])[1:], nothing)]
    [[1, 3, 4], [0]]
    """
    is_large = pa.types.is_large_string(strings.type) or pa.types.is_large_binary(strings.type)
    buffer = strings.buffers()[1]
    if buffer is None or not buffer.size:  # Arrow allows that for no strings
        return np.zeros(1, np.int64)
    offsets: npt.NDArray[Any] = np.frombuffer(buffer, dtype=np.int64 if is_large else np.int32)
    return offsets[strings.offset : strings.offset + len(strings) + 1]


def _counted(data: memoryview, needed: int | None, *, what: str) -> tuple[int, memoryview]:
    """Return how many strings a chunk has, and the bytes after that; as many would be made."""
    if len(data) < _COUNT_BYTES:
        raise CorruptDataError(f"{what} is truncated: it has only {len(data)} bytes")
    count = int.from_bytes(data[:_COUNT_BYTES], "little")
    if needed not in (None, count):
        raise CorruptDataError(f"{what} claims to hold {count:,} strings instead of {needed:,}")
    payload = data[_COUNT_BYTES:]
    if count * _LENGTH_BYTES > len(payload):
        raise CorruptDataError(
            f"{what}: the chunk is truncated: {len(payload):,} bytes cannot hold {count:,} strings"
        )
    return count, payload


def _truncated(count: int, error: object, *, what: str) -> CorruptDataError:
    return CorruptDataError(
        f"{what}: the chunk of {count:,} strings is truncated or not UTF-8 ({error})"
    )


def _decoded(
    data: memoryview, *, what: str, count: int | None, max_page_bytes: int
) -> Iterator[Any]:
    """Decode a chunk in parts of about so many bytes, found without looking at each length.

    How many strings there are in the next bytes is guessed from the mean of those that are left,
    and guessed lower until they are.
    """
    count, payload = _counted(data, count, what=what)
    start = rows = 0
    while rows < count:
        strings = _first(payload[start:], count - rows, max_bytes=max_page_bytes)
        if strings is None:
            raise _truncated(count, "it ends within a string", what=what)
        rows, start = rows + len(strings), start + _stored_bytes(strings)
        if len(payload) - start < _LENGTH_BYTES * (count - rows):
            raise _truncated(count, "there is no room for all of them", what=what)
        yield strings
    if start != len(payload):
        raise CorruptDataError(f"{what}: {len(payload) - start:,} bytes follow the last string")


def first_strings(payload: memoryview, count: int, *, max_bytes: int) -> Any:
    """Return the first of so many strings, in about so many bytes; None if one is cut off.

    They are not checked to be UTF-8.

    >>> first_strings(memoryview(bytes.fromhex("01000000 41 01000000 42")), 2, max_bytes=5)[0]
    <pyarrow.StringScalar: 'A'>
    """
    found = _first(payload, count, max_bytes=max_bytes)
    return None if found is None else _viewed(found)


def _first(payload: memoryview, count: int, *, max_bytes: int) -> Any:
    left = len(payload)
    if count == 1 and left == _bytes_of_first(payload):  # for which Arrow's reader takes long
        return _binary_array([payload[_LENGTH_BYTES:]])
    n_bytes = min(max_bytes, left)
    n = max(int(count * n_bytes / left * 0.9), 1) if n_bytes < left else count
    strings = _read_page(payload[:n_bytes], n)
    while strings is None and n_bytes < left:
        if n == 1:  # a single string is larger than that
            n_bytes = min(_bytes_of_first(payload), left)
        n = max(n // 2, 1)
        strings = _read_page(payload[:n_bytes], n)
    return strings


def _bytes_of_first(payload: memoryview) -> int:
    return _LENGTH_BYTES + int.from_bytes(payload[:_LENGTH_BYTES], "little")


def _read_page(payload: memoryview, count: int) -> Any:
    """Return the first strings of a payload; None if they do not fit into it."""
    file = pa.BufferReader(pa.py_buffer(_parquet_file(payload, count)))
    try:
        table = pq.ParquetFile(file, pre_buffer=False).read(use_threads=False)
    except (pa.ArrowException, OSError):
        return None
    strings = one_array(table.column(0))
    return strings if len(strings) == count and _stored_bytes(strings) <= len(payload) else None


def _stored_bytes(strings: pa.Array) -> int:
    offsets = string_offsets(strings)
    return _LENGTH_BYTES * len(strings) + int(offsets[-1]) - int(offsets[0])


def _parquet_file(payload: memoryview, count: int) -> bytes:
    r"""Return a Parquet file whose only page is ``payload``.

    >>> import textwrap
    >>> print(*textwrap.wrap(_parquet_file(memoryview(b"\1\0\0\0a"), 1).hex(), 80), sep="\n")
    504152311500150a150a2c1502150015061506000001000000611502192c4806736368656d611502
    00150c2500180173001602191c191c26081c150c1915001918017315001602162c162c2608000016
    2c160200003b00000050415231
    """
    size = len(payload)
    page_header = _struct(
        (1, _I32, 0),
        (2, _I32, size),
        (3, _I32, size),
        (
            5,
            _STRUCT,
            _struct((1, _I32, count), (2, _I32, _PLAIN), (3, _I32, _RLE), (4, _I32, _RLE)),
        ),
    )
    chunk_bytes = len(page_header) + size
    root = _struct((4, _BINARY, b"schema"), (5, _I32, 1))
    leaf = _struct((1, _I32, _BYTE_ARRAY), (3, _I32, 0), (4, _BINARY, b"s"))
    column = _struct(
        (1, _I32, _BYTE_ARRAY),
        (2, _LIST, _list(_I32, _zigzag(_PLAIN))),
        (3, _LIST, _list(_BINARY, _varint(1) + b"s")),
        (4, _I32, 0),
        (5, _I64, count),
        (6, _I64, chunk_bytes),
        (7, _I64, chunk_bytes),
        (9, _I64, 4),
    )
    row_group = _struct(
        (1, _LIST, _list(_STRUCT, _struct((2, _I64, 4), (3, _STRUCT, column)))),
        (2, _I64, chunk_bytes),
        (3, _I64, count),
    )
    footer = _struct(
        (1, _I32, 1),
        (2, _LIST, _list(_STRUCT, root, leaf)),
        (3, _I64, count),
        (4, _LIST, _list(_STRUCT, row_group)),
    )
    return b"".join(
        (b"PAR1", page_header, payload, footer, struct.pack("<I", len(footer)), b"PAR1")
    )


def _varint(number: int) -> bytes:
    r"""Return a number in as many bytes as it needs, seven bits each.

    >>> _varint(127), _varint(128), _varint(300)
    (b'\x7f', b'\x80\x01', b'\xac\x02')
    """
    out = bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)
    return bytes(out)


def _zigzag(number: int) -> bytes:
    """Encode a number that is not negative, where others could be."""
    return _varint(number * 2)


def _list(kind: int, *items: bytes) -> bytes:
    return bytes([len(items) << 4 | kind]) + b"".join(items)


def _struct(*fields: tuple[int, int, int | bytes]) -> bytes:
    """Encode a struct in Thrift's compact protocol; field numbers ascend."""
    out = bytearray()
    last = 0
    for number, kind, value in fields:
        out.append((number - last) << 4 | kind)
        last = number
        if isinstance(value, int):
            out += _zigzag(value)
        elif kind == _BINARY:
            out += _varint(len(value)) + value
        else:
            out += value
    return bytes(out) + b"\0"


def first_duplicate(strings: Any) -> str | None:
    """Return a string that occurs more than once; None if all are unique.

    Parameters
    ----------
    strings
        An Arrow array of strings or of large strings, without nulls.

    Returns
    -------
    str or None
        Of several, the one that comes first in the array.

    Examples
    --------
    >>> import pyarrow as pa
    >>> first_duplicate(pa.array(["a", "b", "a"]))
    'a'
    >>> first_duplicate(pa.array(["a", "b"])) is None
    True
    """
    if len(pc.unique(strings)) == len(strings):
        return None
    counts = pc.value_counts(strings)
    repeated = counts.filter(pc.greater(counts.field("counts"), 1))
    return str(repeated.field("values")[0].as_py())

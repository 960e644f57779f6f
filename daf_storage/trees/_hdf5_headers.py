"""Object headers of an HDF5 file, by their bytes: what a group or a dataset is, in one visit.

HDF5 takes as long for each question about a dataset as it takes to read its whole header here.
Only what is in order, and of the usual kinds, is read; HDF5 is asked of all else, and says what is
wrong.

Pure: bytes in, values out.  Source: HDF5 file format specification, IV.A.1.a "Version 1 data object
header prefix", IV.A.2 "Data object header messages".
"""

from __future__ import annotations

import math
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from daf_storage.trees._protocol import NodeKind

_PREFIX: Final = struct.Struct("<BxHII4x")
"""Version, number of messages, references, bytes of the first block."""
_MESSAGE: Final = struct.Struct("<HHB3x")
"""Of a message: type, bytes, flags."""
_PAIR: Final = struct.Struct("<QQ")
_DATASPACE, _DATATYPE, _LAYOUT, _FILTERS, _ATTRIBUTE, _CONTINUATION, _LINKS = (
    *(0x1, 0x3, 0x8, 0xB),
    *(0xC, 0x10, 0x11),
)
_NOTED: Final = frozenset({_DATASPACE, _DATATYPE, _LAYOUT, _FILTERS, _LINKS})
_IGNORED: Final = frozenset({0x0, 0x4, 0x5, 0xD, 0xE, 0x12})
"""Messages that change nothing here: padding, fill values, comments and times."""
_ARRAY: Final = frozenset({_DATASPACE, _DATATYPE, _LAYOUT})
_IS_SHARED: Final = 0x2
_MAX_MESSAGES: Final = 1 << 12
_MAX_RANK: Final = 32
_MAX_ELEMENTS: Final = 1 << 62
_UNDEFINED: Final = (1 << 64) - 1
_CONTIGUOUS, _CHUNKED = 1, 2


class UnusualHeaderError(Exception):
    """Something that is not read here: HDF5 knows, or says what is wrong."""


@dataclass(frozen=True, slots=True)
class Place:
    """A range of bytes of a file."""

    start: int
    size: int


@dataclass(frozen=True, slots=True)
class DatasetHeader:
    """What an object header says of the elements of a dataset."""

    shape: tuple[int, ...]
    datatype: bytes
    """Their type, as it is stored, up to a multiple of 8 bytes."""
    item_bytes: int
    elements: Place | None
    """Where they lie in one piece; None where they do not, or nothing was written."""
    chunks: tuple[int, ...] | None
    """The shape of a chunk, if there are chunks."""
    filters: tuple[int, ...]
    """The numbers of the filters of the chunks."""
    tree: int | None = None
    """Where the B-tree of the chunks is; None where no chunk was written."""


@dataclass(frozen=True, slots=True, eq=False)
class ObjectHeader:
    """A group or a dataset; equal to itself alone, so that it is a cheap key."""

    links: tuple[int, int] | None
    """Of a group, where the B-tree and the heap of its links are."""
    dataset: DatasetHeader | None
    attributes: tuple[Place, ...]
    """Where the messages of its attributes are."""

    @property
    def kind(self) -> NodeKind:
        """Which of both it is."""
        return "group" if self.dataset is None else "array"


def object_header(data: memoryview, address: int) -> ObjectHeader:
    """Return what the object header at an address says.

    Raises
    ------
    UnusualHeaderError
        It is of a kind that is not read here, or damaged.
    """
    try:
        return _header(data, address)
    except (struct.error, ValueError, OverflowError):  # beyond the end of the file
        raise UnusualHeaderError from None


def require(condition: bool) -> None:  # noqa: FBT001 - as of an assertion
    """Raise ``UnusualHeaderError`` unless something holds."""
    if not condition:
        raise UnusualHeaderError


def _header(data: memoryview, address: int) -> ObjectHeader:
    noted: dict[int, Place] = {}
    attributes = []
    for kind, flags, place in _messages(data, address):
        if kind in _IGNORED:
            continue
        if flags & _IS_SHARED:
            raise UnusualHeaderError
        if kind == _ATTRIBUTE:
            attributes.append(place)
        elif kind in _NOTED and kind not in noted:
            noted[kind] = place
        else:
            raise UnusualHeaderError
    if noted.keys() == {_LINKS}:
        return ObjectHeader(_PAIR.unpack_from(data, noted[_LINKS].start), None, tuple(attributes))
    return ObjectHeader(None, _dataset(data, noted), tuple(attributes))


def _messages(data: memoryview, address: int) -> Iterator[tuple[int, int, Place]]:
    """Yield type, flags and place of each message of an object header."""
    version, count, _, block_bytes = _PREFIX.unpack_from(data, address)
    require(version == 1 and count <= _MAX_MESSAGES)
    blocks = [(address + _PREFIX.size, block_bytes)]
    for begin, size in blocks:
        at, stop = begin, begin + size
        while at + _MESSAGE.size <= stop and count:
            kind, message_bytes, flags = _MESSAGE.unpack_from(data, at)
            body = at + _MESSAGE.size
            at = body + message_bytes
            count -= 1
            if at > stop:
                raise UnusualHeaderError
            if kind == _CONTINUATION:
                blocks.append(_PAIR.unpack_from(data, body))
            else:
                yield kind, flags, Place(body, message_bytes)
    require(count == 0)


def _dataset(data: memoryview, noted: dict[int, Place]) -> DatasetHeader:
    require(noted.keys() - {_FILTERS} == _ARRAY)
    shape = shape_of(data, noted[_DATASPACE])
    place = noted[_DATATYPE]
    datatype, item_bytes = datatype_of(data, place)
    version, layout = data[noted[_LAYOUT].start : noted[_LAYOUT].start + 2]
    require(version == 3)
    if layout == _CONTIGUOUS and _FILTERS not in noted:
        elements = _contiguous(data, noted[_LAYOUT], math.prod(shape) * item_bytes)
        return DatasetHeader(shape, datatype, item_bytes, elements, None, ())
    require(layout == _CHUNKED)
    tree, chunks = _chunk_layout(data, noted[_LAYOUT], len(shape), item_bytes)
    filters = _filter_numbers(data, noted[_FILTERS]) if _FILTERS in noted else ()
    return DatasetHeader(shape, datatype, item_bytes, None, chunks, filters, tree)


def shape_of(data: memoryview, place: Place) -> tuple[int, ...]:
    """Return the shape that a message of a dataspace gives."""
    version, rank, flags, kind = data[place.start : place.start + 4]
    require(rank <= _MAX_RANK and flags <= 1)
    if version == 1:
        first = place.start + 8
    else:
        require(version == 2 and kind == (1 if rank else 0))
        first = place.start + 4
    require(first + rank * 8 * (1 + flags) <= place.start + place.size)
    shape: tuple[int, ...] = struct.unpack_from(f"<{rank}Q", data, first)
    require(math.prod(max(n, 1) for n in shape) <= _MAX_ELEMENTS)
    if flags:
        most = struct.unpack_from(f"<{rank}Q", data, first + rank * 8)
        require(all(n <= limit for n, limit in zip(shape, most, strict=True)))
    return shape


def datatype_of(data: memoryview, place: Place) -> tuple[bytes, int]:
    """Return a message of a type up to a multiple of 8 bytes, and the bytes of an element."""
    require(8 <= place.size <= 1 << 10)
    stored = bytes(data[place.start : place.start + place.size])
    require(len(stored) == place.size)
    return stored + bytes(-place.size % 8), int.from_bytes(stored[4:8], "little")


def _contiguous(data: memoryview, place: Place, size_bytes: int) -> Place | None:
    address, stored_bytes = _PAIR.unpack_from(data, place.start + 2)
    require(stored_bytes == size_bytes)
    if address == _UNDEFINED:
        return None
    require(address + size_bytes <= len(data))
    return Place(address, size_bytes)


def _chunk_layout(
    data: memoryview, place: Place, rank: int, item_bytes: int
) -> tuple[int | None, tuple[int, ...]]:
    """Return where the B-tree of chunks is, and the shape of a chunk."""
    dimensions, tree = struct.unpack_from("<BQ", data, place.start + 2)
    require(dimensions == rank + 1)
    sizes: tuple[int, ...] = struct.unpack_from(f"<{rank + 1}I", data, place.start + 11)
    require(rank > 0 and all(sizes) and sizes[-1] == item_bytes)
    return None if tree == _UNDEFINED else tree, sizes[:-1]


def _filter_numbers(data: memoryview, place: Place) -> tuple[int, ...]:
    version, count = data[place.start : place.start + 2]
    require(version == 1)
    at, numbers = place.start + 8, []
    for _ in range(count):
        number, name_bytes, _, values = struct.unpack_from("<4H", data, at)
        at += 8 + (name_bytes + 7 & ~7) + 4 * (values + values % 2)
        numbers.append(number)
    require(at <= place.start + place.size)
    return tuple(numbers)

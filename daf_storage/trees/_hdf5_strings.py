"""Strings of variable length, read from the bytes of an HDF5 file, many at a time with numpy.

An element is stored as its length and a reference: the address of a *global heap collection*, and
the index of an *object* in it.  HDF5 believes all of that: a changed length makes it allocate any
number of gigabytes, a changed size of an object makes it walk a collection for ever.  It also asks
for each string by itself, and h5py makes a Python object of it.  So strings are looked for here
first; HDF5 reads those that are not in order otherwise, out of collections that were walked.

Pure: bytes in, strings out.  Source: HDF5 file format specification, III.E "Global Heap".
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from daf_storage.base import one_array
from daf_storage.errors import CorruptDataError

REFERENCE: Final = np.dtype([("length", "<u4"), ("address", "<u8"), ("index", "<u4")])
"""How an element is stored, in files whose addresses and lengths have 8 bytes."""

_COLLECTION: Final = struct.Struct("<4sB3xQ")
"""The header of a collection: its signature, a version and its size."""
_OBJECT: Final = struct.Struct("<H6xQ")
"""The header of an object: its index, a count of references and padding, its size."""
HEADER_BYTES: Final = 16
"""How long the header of a collection is, and that of an object."""
_MAX_SIZE: Final = 1 << 32
_MAX_OBJECTS: Final = 1 << 16
_MAX_REMEMBERED: Final = 1 << 10
"""So many collections that were walked are remembered for one dataset."""
_MAX_WALKS: Final = 4
"""So many times the bytes of the file may be walked for one dataset."""
_OBJECTS_IN_ROW: Final = 8
"""So many objects have to follow each other on average for their places to be worked out."""

_BLOCK_BYTES: Final = 1 << 20
"""How many bytes of strings are gathered at once; there are 8 of places for each."""

Bytes: TypeAlias = npt.NDArray[np.uint8]
Numbers: TypeAlias = npt.NDArray[np.int64]
Objects: TypeAlias = dict[int, tuple[int, int]]
"""The places and sizes of the objects of a collection, by their indexes."""
Blocks: TypeAlias = Iterable[tuple[int | None, npt.NDArray[Any]]]
"""Elements, and the place of the first of them; those of a last chunk may lie beyond the end."""


def read_many(
    file: Bytes,
    blocks: Callable[[], Blocks],
    size: int,
    *,
    start_of: Callable[[int], int],
    what: str,
) -> pa.StringArray | pa.LargeStringArray | None:
    """Return the strings that blocks of elements refer to.

    Parameters
    ----------
    file
        The bytes of the whole file, or of all collections.
    blocks
        Returns the elements.
    size
        How many there are.
    start_of
        From the address of a collection to its place in these bytes.
    what
        The dataset as messages name it.

    Returns
    -------
    pyarrow.StringArray or pyarrow.LargeStringArray or None
        None, after a check of all of them, if HDF5 has to read them: where there are NUL
        characters, which end a string for HDF5, they are not UTF-8, or the blocks do not follow
        each other.

    Raises
    ------
    CorruptDataError
        A reference leads nowhere, a collection cannot be walked, lengths contradict each other, or
        the strings have more bytes together than the file.
    """
    heaps = _Heaps(file, start_of, what)
    total = count = 0
    found: list[pa.Array | None] = []
    for start, references in blocks():
        places, lengths = heaps.locate(references)
        total += int(lengths.sum())
        if total > file.size:
            raise CorruptDataError(
                f"{what}: its strings are said to have {total:,} bytes together, more than the file"
            )
        if start != count or None in found:  # the others are checked only
            found.append(None)
            continue
        rows = slice(0, size - count)
        found += [_gathered(file, *piece) for piece in _pieces(places[rows], lengths[rows])]
        count += min(lengths.size, size - count)
    if count == size and None not in found:
        return one_array(pa.chunked_array(found, pa.string()))
    for _, references in blocks():  # HDF5 reads collections as a whole
        for address in np.unique(references["address"]).tolist():
            if address:
                heaps.objects(address)
    return None


def collection_bytes(file: Bytes, start: int) -> int:
    """Return how long a collection says that it is; 0 for what is none."""
    signature, version, size = _COLLECTION.unpack_from(file.data, start)
    return int(size) if (signature, version) == (b"GCOL", 1) and size < _MAX_SIZE else 0


class _Heaps:
    """The collections of a file, as far as one dataset refers to them."""

    def __init__(self, file: Bytes, start_of: Callable[[int], int], what: str) -> None:
        self._file = file
        self._start_of = start_of
        self._what = what
        self._walked: dict[int, Objects] = {}
        self._stops: dict[int, int] = {}
        self._left_bytes = _MAX_WALKS * file.size

    def locate(self, references: npt.NDArray[Any]) -> tuple[Numbers, Numbers]:
        """Return where the string of each element begins in the file, and how many bytes it has.

        An element that refers to nothing has no bytes, as for HDF5.
        """
        places = np.zeros(references.size, np.int64)
        lengths = np.where(references["address"] != 0, references["length"], 0).astype(np.int64)
        stored = np.flatnonzero(lengths)
        if stored.size:
            used = references if stored.size == references.size else references[stored]
            wanted = used["address"], used["index"].astype(np.int64), lengths[stored]
            found = self._in_rows(*wanted)
            places[stored] = self._one_by_one(*wanted) if found is None else found
        return places, lengths

    def _in_rows(
        self, addresses: npt.NDArray[np.uint64], indexes: Numbers, lengths: Numbers
    ) -> Numbers | None:
        """Return where objects lie that were written one after the other; None if they do not.

        Where an object ends the next one begins, so a row of them needs no walk: that the header at
        each expected place has the expected index and size proves the place of the next.
        """
        is_first = np.append(True, (addresses[1:] != addresses[:-1]) | (np.diff(indexes) != 1))
        firsts = np.flatnonzero(is_first)
        if firsts.size * _OBJECTS_IN_ROW > indexes.size:
            return None
        needed = HEADER_BYTES + (lengths + 7 & ~7)
        counts = np.diff(np.append(firsts, indexes.size))
        rows = np.stack([indexes[firsts], counts, np.add.reduceat(needed, firsts)], 1).tolist()
        starts = addresses[firsts].tolist()
        begins, end = np.empty(firsts.size, np.int64), (0, 0, 0)
        for row in np.lexsort((indexes[firsts], addresses[firsts])).tolist():
            address, (index, count, size_bytes) = starts[row], rows[row]
            begin = end[2] if end[:2] == (address, index) else self._begin(address, index)
            end = address, index + count, begin + size_bytes
            if end[2] > self._stop(address):
                return None
            begins[row] = begin
        before = np.cumsum(needed) - needed
        at: Numbers = np.repeat(begins - before[firsts], counts) + before
        stored = self._file[at].astype(np.int64) | (self._file[at + 1].astype(np.int64) << 8)
        is_expected = (stored == indexes) & (_numbers_at(self._file, at + 8) == lengths)
        return at + HEADER_BYTES if bool(is_expected.all()) else None

    def _begin(self, address: int, index: int) -> int:
        """Return where the header of an object begins."""
        if index == 1:
            return self._start_of(address) + HEADER_BYTES
        found = self.objects(address).get(index)
        if found is None:
            raise self._wrong_length()
        return found[0] - HEADER_BYTES

    def _one_by_one(
        self, addresses: npt.NDArray[np.uint64], indexes: Numbers, lengths: Numbers
    ) -> Numbers:
        """Return where objects lie, in any order: each collection is walked once."""
        places, order = np.empty(indexes.size, np.int64), np.argsort(addresses, kind="stable")
        found, last, objects = [], 0, Objects()
        for address, index, length in zip(
            *(each[order].tolist() for each in (addresses, indexes, lengths)), strict=True
        ):
            if address != last:  # neighbours lie together
                last, objects = address, self.objects(address)
            place, size = objects.get(index, (0, -1))
            if size != length:
                raise self._wrong_length()
            found.append(place)
        places[order] = found
        return places

    def objects(self, address: int) -> Objects:
        """Return the objects of a collection."""
        start, stop = self._start_of(address), self._stop(address)
        objects = self._walked.get(start)
        if objects is None:
            self._left_bytes -= stop - start
            if self._left_bytes < 0:
                raise self._damaged("collections of strings are said to lie in each other")
            if len(self._walked) >= _MAX_REMEMBERED:
                self._walked.clear()
            objects = self._walked[start] = self._walk(start + HEADER_BYTES, stop)
        return objects

    def _stop(self, address: int) -> int:
        """Return where a collection ends, after a check of its header."""
        stop = self._stops.get(address)
        if stop is None:
            start, file_bytes = self._start_of(address), self._file.size
            if start + HEADER_BYTES > file_bytes:
                raise self._damaged("strings are said to be behind the end of the file")
            signature, version, size_bytes = _COLLECTION.unpack_from(self._file.data, start)
            if signature != b"GCOL" or version != 1:
                raise self._damaged("strings are said to be where none are")
            if not HEADER_BYTES <= size_bytes <= file_bytes - start:
                raise self._damaged("a collection of strings is said to be larger than the file")
            stop = self._stops[address] = start + size_bytes
        return stop

    def _walk(self, at: int, stop: int) -> Objects:
        data, objects = self._file.data, Objects()
        for _ in range(_MAX_OBJECTS + 1):
            if at + HEADER_BYTES > stop:
                return objects
            index, size = _OBJECT.unpack_from(data, at)
            # Of free space, the header counts.
            needed = size if index == 0 else HEADER_BYTES + (size + 7 & ~7)
            if not HEADER_BYTES <= needed <= stop - at:
                raise self._damaged("a string is said to be larger than its collection")
            if index in objects:
                raise self._damaged("two strings are stored under the same number")
            if index:
                objects[index] = at + HEADER_BYTES, size
            at += needed
        raise self._damaged("a collection of strings has no end")

    def _wrong_length(self) -> CorruptDataError:
        return self._damaged("the length of a string is not that of what is stored")

    def _damaged(self, problem: str) -> CorruptDataError:
        return CorruptDataError(
            f"{self._what}: the heap of its strings is damaged: {problem}; take the file from a "
            "backup"
        )


def _numbers_at(file: Bytes, places: Numbers) -> Numbers:
    """Return the unsigned numbers of 8 bytes at some places; those beyond int64 are negative."""
    return np.ascontiguousarray(file[places[:, None] + np.arange(8)]).view("<i8").reshape(-1)


def _pieces(places: Numbers, lengths: Numbers) -> Iterator[tuple[Numbers, Numbers]]:
    """Cut strings into ranges of so many bytes, unless one string alone has more."""
    ends = np.cumsum(lengths)
    first = 0
    while first < lengths.size:
        most = ends[first] - lengths[first] + _BLOCK_BYTES
        stop = max(int(np.searchsorted(ends, most, "right")), first + 1)
        yield places[first:stop], lengths[first:stop]
        first = stop


def _gathered(file: Bytes, places: Numbers, lengths: Numbers) -> pa.Array | None:
    """Return strings that lie at some places; None if HDF5 had better read them."""
    offsets = np.zeros(lengths.size + 1, np.int64)
    np.cumsum(lengths, out=offsets[1:])
    if lengths.size == 1:
        data = file[places[0] : places[0] + lengths[0]].copy()
    else:
        data = file[np.repeat(places - offsets[:-1], lengths) + np.arange(offsets[-1])]
    if offsets[-1] > np.iinfo(np.int32).max or not data.all():
        return None
    buffers = [None, pa.py_buffer(offsets.astype(np.int32)), pa.py_buffer(data)]
    strings = pa.Array.from_buffers(pa.string(), lengths.size, buffers)
    try:
        strings.validate(full=True)
    except pa.ArrowInvalid:
        return None
    return strings

"""Where the strings of a dataset lie in an HDF5 file, after a check of the heaps that hold them.

An element of variable length is stored as its length and a reference: the address of a *global heap
collection*, and the index of an *object* in it.  HDF5 believes all of that: a changed length makes
it allocate any number of gigabytes, a changed size of an object makes it walk a collection for
ever.  So all collections are walked here first: many side by side with numpy, few one by one.

Pure: bytes in, places out.  Source: HDF5 file format specification, III.E "Global Heap".
"""

from __future__ import annotations

import struct
from array import array
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from daf_storage.errors import CorruptDataError

REFERENCE: Final = np.dtype([("length", "<u4"), ("address", "<u8"), ("index", "<u4")])
"""How an element is stored, in files whose addresses and lengths have 8 bytes."""

_SIGNATURE: Final = np.frombuffer(b"GCOL\x01", np.uint8)
_HEADER_BYTES: Final = 16
_MAX_OBJECTS: Final = 1 << 16
_MAX_REMEMBERED: Final = 1 << 19
_UNDEFINED: Final = 2**64 - 1
_MANY: Final = 100
"""With fewer collections, a walk of each is faster than a walk side by side."""
_MAX_ROWS: Final = 1 << 12
_OBJECTS_IN_ROW: Final = 8
"""So many objects have to follow each other on average for their places to be worked out."""
_OBJECT: Final = struct.Struct("<H6xQ")
"""The header of an object: its index, a count of references and padding, its size."""
_TOO_LARGE: Final = "a string is said to be larger than its collection"
_ENDLESS: Final = "a collection of strings has no end"

Bytes = npt.NDArray[np.uint8]
Numbers = npt.NDArray[np.int64]


class WalkedHeaps:
    """The objects of collections that were walked one by one: many arrays may share a few."""

    def __init__(self) -> None:
        self._objects: dict[int, Numbers] = {}
        self._count = 0

    def find(self, start: int) -> Numbers | None:
        """Return the objects of a collection, by where it begins: indexes, sizes and places."""
        return self._objects.get(start)

    def keep(self, start: int, objects: Numbers) -> None:
        """Remember the objects of a collection."""
        self._count += objects.shape[1]
        if self._count > _MAX_REMEMBERED:
            self._objects.clear()
            self._count = objects.shape[1]
        self._objects[start] = objects


def locate_strings(
    file: Bytes,
    references: npt.NDArray[Any],
    *,
    base: int,
    what: str,
    walked: WalkedHeaps | None = None,
) -> tuple[Numbers, Numbers]:
    """Return where the string of each element begins in the file, and how many bytes it has.

    An element that refers to nothing has no bytes, as for HDF5.

    Parameters
    ----------
    file
        The bytes of the whole file.
    references
        The elements, of dtype `REFERENCE`.
    base
        Where the addresses count from: the size of the user block.
    what
        The dataset as messages name it.
    walked
        What was walked of the same bytes before.

    Raises
    ------
    CorruptDataError
        A reference leads nowhere, a collection cannot be walked, or lengths contradict each other.
    """
    places = np.zeros(references.size, np.int64)
    is_used = references["address"] != 0
    lengths = np.where(is_used, references["length"], 0).astype(np.int64)
    used = references if is_used.all() else references[is_used]
    if not used.size:
        return places, lengths
    addresses, number = _distinct(used["address"])
    starts, stops = _collections(file, addresses, base, what)
    walked = walked or WalkedHeaps()
    is_stored = lengths > 0
    has_string = used["length"] > 0
    wanted = _Wanted(number[has_string], used["index"][has_string], lengths[is_stored])
    found = _in_order(file, starts, stops, wanted, what, walked)
    if found is None:
        objects = _Objects(addresses.size, _walked_objects(file, starts, stops, what, walked), what)
        rows = objects.find(wanted)
        if bool(np.any(objects.sizes[rows] != wanted.lengths)):
            raise _damaged(what, "the length of a string is not that of what is stored")
        found = objects.places[rows]
    places[is_stored] = found
    return places, lengths


@dataclass(frozen=True)
class _Wanted:
    """The objects that elements refer to."""

    collections: Numbers
    indexes: npt.NDArray[np.uint32]
    lengths: Numbers


def _in_order(
    file: Bytes, starts: Numbers, stops: Numbers, wanted: _Wanted, what: str, walked: WalkedHeaps
) -> Numbers | None:
    """Return where objects lie that were written one after the other; None if they do not.

    Where an object ends the next one begins, so a row of them needs no walk: that the header at
    each expected place has the expected index and size proves the place of the next.
    """
    collections, lengths = wanted.collections, wanted.lengths
    indexes = wanted.indexes.astype(np.int64)
    is_first = np.append(True, (np.diff(collections) != 0) | (np.diff(indexes) != 1))
    firsts = np.flatnonzero(is_first)
    if not indexes.size or firsts.size > _MAX_ROWS or firsts.size * _OBJECTS_IN_ROW > indexes.size:
        return None
    needed = _HEADER_BYTES + (lengths + 7 & ~7)
    rows = _Rows(
        collections[firsts],
        indexes[firsts],
        np.diff(np.append(firsts, indexes.size)),
        np.add.reduceat(needed, firsts),
    )
    begins = rows.begins(
        starts, lambda number: _walk_of(file, int(starts[number]), int(stops[number]), what, walked)
    )
    if begins is None:
        return None
    before = np.cumsum(needed) - needed
    at = (begins - before[firsts])[np.cumsum(is_first) - 1] + before
    if bool(np.any(at + needed > stops[collections])):
        return None
    stored = file[at].astype(np.int64) | (file[at + 1].astype(np.int64) << 8)
    is_expected = (stored == indexes) & (_numbers_at(file, at + 8) == lengths)
    return at + _HEADER_BYTES if bool(is_expected.all()) else None


@dataclass(frozen=True)
class _Rows:
    """Objects with consecutive indexes, by their first ones."""

    collections: Numbers
    indexes: Numbers
    counts: Numbers
    """How many objects each row has."""
    sizes: Numbers
    """How many bytes they take together."""

    def begins(self, starts: Numbers, walk: Callable[[int], Numbers]) -> Numbers | None:
        """Return where each row begins; None if there is no such object.

        Behind the header of its collection, or where another row ends.  Only if there is none, the
        collection is walked.
        """
        begins = np.zeros_like(self.indexes)
        ends: dict[tuple[int, int], int] = {}
        for row in np.lexsort((self.indexes, self.collections)).tolist():
            number, index = int(self.collections[row]), int(self.indexes[row])
            begin = int(starts[number]) + _HEADER_BYTES if index == 1 else ends.get((number, index))
            if begin is None:
                known, _, places = walk(number)
                at = np.flatnonzero(known == index)
                if at.size != 1:
                    return None
                begin = int(places[at[0]]) - _HEADER_BYTES
            begins[row] = begin
            ends[number, index + int(self.counts[row])] = begin + int(self.sizes[row])
        return begins


def _distinct(values: npt.NDArray[np.uint64]) -> tuple[npt.NDArray[np.uint64], Numbers]:
    """Return the distinct values, sorted, and which of them each is; fast where they repeat."""
    begins = np.flatnonzero(np.append(True, values[1:] != values[:-1]))
    found, number = np.unique(values[begins], return_inverse=True)
    return found, np.repeat(number.astype(np.int64), np.diff(np.append(begins, values.size)))


class _Objects:
    """Objects by the number of their collection and their index in it.

    A table with a column for each index, since they count from 1 in each collection; sorted where
    that table would be mostly empty.  The last one stands for those that are not there.
    """

    def __init__(self, n_collections: int, objects: Numbers, what: str) -> None:
        collections, indexes, sizes, places = objects
        self.sizes, self.places = np.append(sizes, -1), np.append(places, 0)
        self._width = int(indexes.max(initial=0)) + 1
        cells = n_collections * self._width
        keys = collections * self._width + indexes
        self._table = None
        if cells <= 8 * (keys.size + 1024):
            self._table = np.full(cells, -1, np.int64)
            self._table[keys] = np.arange(keys.size)
            is_unique = np.count_nonzero(self._table >= 0) == keys.size
        else:
            self._keys, self._order = np.unique(keys, return_index=True)
            is_unique = self._keys.size == keys.size
        if not is_unique:
            raise _damaged(what, "two strings are stored under the same number")

    def find(self, wanted: _Wanted) -> Numbers:
        """Return which objects these are, as places in `sizes` and `places`; -1 for none."""
        collections, indexes = wanted.collections, wanted.indexes
        found = np.full(indexes.size, -1, np.int64)
        is_known = indexes < self._width
        keys = collections[is_known] * self._width + indexes[is_known]
        if self._table is not None:
            found[is_known] = self._table[keys]
            return found
        at = np.searchsorted(self._keys, keys)
        at[at == self._keys.size] = 0
        found[is_known] = np.where(self._keys[at] == keys, self._order[at], -1)
        return found


def _collections(
    file: Bytes, addresses: npt.NDArray[np.uint64], base: int, what: str
) -> tuple[Numbers, Numbers]:
    """Return where collections begin and end, after checking their headers."""
    if int(addresses.max()) >= min(_UNDEFINED, file.size):
        raise _damaged(what, "strings are said to be behind the end of the file")
    starts = addresses.astype(np.int64) + base
    if int(starts.max()) + _HEADER_BYTES > file.size:
        raise _damaged(what, "strings are said to be behind the end of the file")
    signatures = file[starts[:, None] + np.arange(_SIGNATURE.size)]
    sizes = _numbers_at(file, starts + 8)
    if bool(np.any(signatures != _SIGNATURE)):
        raise _damaged(what, "strings are said to be where none are")
    if bool(np.any(sizes < _HEADER_BYTES) or np.any(sizes > file.size - starts)):
        raise _damaged(what, "a collection of strings is said to be larger than the file")
    return starts, starts + sizes


def _walked_objects(
    file: Bytes, starts: Numbers, stops: Numbers, what: str, walked: WalkedHeaps
) -> Numbers:
    """Return the objects: the number of its collection, index, size and place of each."""
    at = starts + _HEADER_BYTES
    found, rounds = _side_by_side(file, at, stops, what)
    for number in np.flatnonzero(at + _HEADER_BYTES <= stops).tolist():
        start, stop = int(starts[number]), int(stops[number])
        if rounds == 0:
            objects = _walk_of(file, start, stop, what, walked)
        else:
            objects = _one_by_one(file[:stop], int(at[number]), _MAX_OBJECTS - rounds, what)
        found.append(np.insert(objects, 0, number, axis=0))
    return np.concatenate(found, axis=1)


def _side_by_side(file: Bytes, at: Numbers, stops: Numbers, what: str) -> tuple[list[Numbers], int]:
    """Walk collections, an object of each at a time, while there are many; move ``at`` along.

    Return the collections, indexes, sizes and places found, and the number of objects walked in
    each collection that is left.
    """
    found = [np.empty((4, 0), np.int64)]
    active = np.flatnonzero(at + _HEADER_BYTES <= stops)
    while active.size >= _MANY:
        if len(found) > _MAX_OBJECTS:
            raise _damaged(what, _ENDLESS)
        here, left = at[active], (stops - at)[active]
        index = file[here].astype(np.int64) | (file[here + 1].astype(np.int64) << 8)
        size = _numbers_at(file, here + 8)
        if bool(np.any(size < 0) or np.any(size > left)):
            raise _damaged(what, _TOO_LARGE)
        is_free = index == 0  # of free space, the header counts
        needed = np.where(is_free, size, _HEADER_BYTES + (size + 7 & ~7))
        if bool(np.any(needed < _HEADER_BYTES) or np.any(needed > left)):
            raise _damaged(what, _TOO_LARGE)
        found.append(np.stack([active, index, size, here + _HEADER_BYTES])[:, ~is_free])
        at[active] = here + needed
        active = active[at[active] + _HEADER_BYTES <= stops[active]]
    return found, len(found) - 1


def _walk_of(file: Bytes, start: int, stop: int, what: str, walked: WalkedHeaps) -> Numbers:
    """Return the objects of a collection, which is walked once: indexes, sizes and places."""
    objects = walked.find(start)
    if objects is None:
        objects = _one_by_one(file[:stop], start + _HEADER_BYTES, _MAX_OBJECTS, what)
        walked.keep(start, objects)
    return objects


def _one_by_one(file: Bytes, at: int, most: int, what: str) -> Numbers:
    """Walk one collection, which ends where the bytes end; return indexes, sizes and places."""
    data, stop = file.data, file.size
    found = array("q")
    for _ in range(most + 1):
        if at + _HEADER_BYTES > stop:
            return np.frombuffer(found, np.int64).reshape(-1, 3).T
        index, size = _OBJECT.unpack_from(data, at)
        needed = size if index == 0 else _HEADER_BYTES + (size + 7 & ~7)
        if not _HEADER_BYTES <= needed <= stop - at:
            raise _damaged(what, _TOO_LARGE)
        if index:
            found.extend((index, size, at + _HEADER_BYTES))
        at += needed
    raise _damaged(what, _ENDLESS)


def _numbers_at(file: Bytes, places: Numbers) -> Numbers:
    """Return the unsigned numbers of 8 bytes at some places; those beyond int64 are negative."""
    # Objects begin at multiples of 8 within the file, or all of them off by the same.
    first = int(places[0]) % 8 if places.size else 0
    if bool(np.all(places % 8 == first)):
        aligned = file[first : first + (file.size - first) // 8 * 8].view("<i8")
        if int(places.max(initial=0)) // 8 < aligned.size:
            found: Numbers = aligned[(places - first) // 8]
            return found
    return np.ascontiguousarray(file[places[:, None] + np.arange(8)]).view("<i8").reshape(-1)


def _damaged(what: str, problem: str) -> CorruptDataError:
    return CorruptDataError(
        f"{what}: the heap of its strings is damaged: {problem}; take the file from a backup"
    )

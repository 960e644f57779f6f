"""Check the heaps of an HDF5 file in which a dataset keeps its strings, before HDF5 reads them.

An element of variable length is stored as its length and a reference: the address of a *global heap
collection*, and the index of an *object* in it.  HDF5 believes all of that: a changed length makes
it allocate any number of gigabytes, a changed size of an object makes it walk a collection for
ever.  So all collections are walked here first: many side by side with numpy, few one by one.

Pure: bytes in, errors out.  Source: HDF5 file format specification, III.E "Global Heap".
"""

from __future__ import annotations

import struct
from array import array
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
_OBJECT: Final = struct.Struct("<H6xQ")
"""The header of an object: its index, a count of references and padding, its size."""
_TOO_LARGE: Final = "a string is said to be larger than its collection"
_ENDLESS: Final = "a collection of strings has no end"

Bytes = npt.NDArray[np.uint8]
Numbers = npt.NDArray[np.int64]


class WalkedHeaps:
    """The objects of collections that were walked one by one: many arrays may share a few."""

    def __init__(self) -> None:
        self._objects: dict[int, tuple[Numbers, Numbers]] = {}
        self._count = 0

    def find(self, start: int) -> tuple[Numbers, Numbers] | None:
        """Return the indexes and sizes of the objects of a collection, by where it begins."""
        return self._objects.get(start)

    def keep(self, start: int, objects: tuple[Numbers, Numbers]) -> None:
        """Remember the objects of a collection."""
        self._count += objects[0].size
        if self._count > _MAX_REMEMBERED:
            self._objects.clear()
            self._count = objects[0].size
        self._objects[start] = objects


def check_heaps(
    file: Bytes,
    references: npt.NDArray[Any],
    *,
    base: int,
    what: str,
    walked: WalkedHeaps | None = None,
) -> int:
    """Check all that some elements refer to; return how many bytes their strings have together.

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
    used = references[references["address"] != 0]
    if not used.size:
        return 0
    addresses, number = _distinct(used["address"])
    starts, stops = _collections(file, addresses, base, what)
    objects = _objects(file, starts, stops, what, walked or WalkedHeaps())
    sizes = _Sizes(addresses.size, *objects, what=what)
    stored = used["length"] > 0
    lengths = used["length"][stored].astype(np.int64)
    if bool(np.any(sizes.of(number[stored], used["index"][stored]) != lengths)):
        raise _damaged(what, "the length of a string is not that of what is stored")
    return int(lengths.sum())


def _distinct(values: npt.NDArray[np.uint64]) -> tuple[npt.NDArray[np.uint64], Numbers]:
    """Return the distinct values, sorted, and which of them each is; fast where they repeat."""
    begins = np.flatnonzero(np.append(True, values[1:] != values[:-1]))
    found, number = np.unique(values[begins], return_inverse=True)
    return found, np.repeat(number.astype(np.int64), np.diff(np.append(begins, values.size)))


class _Sizes:
    """The sizes of objects by the number of their collection and their index in it.

    A table with a column for each index, since they count from 1 in each collection; sorted where
    that table would be mostly empty.
    """

    def __init__(
        self,
        n_collections: int,
        collections: Numbers,
        indexes: Numbers,
        sizes: Numbers,
        *,
        what: str,
    ) -> None:
        self._width = int(indexes.max(initial=0)) + 1
        cells = n_collections * self._width
        keys = collections * self._width + indexes
        self._table = None
        if cells <= 8 * (keys.size + 1024):
            self._table = np.full(cells, -1, np.int64)
            self._table[keys] = sizes
            is_unique = np.count_nonzero(self._table >= 0) == keys.size
        else:
            self._keys, order = np.unique(keys, return_index=True)
            self._sizes = sizes[order]
            is_unique = self._keys.size == keys.size
        if not is_unique:
            raise _damaged(what, "two strings are stored under the same number")

    def of(self, collections: Numbers, indexes: npt.NDArray[np.uint32]) -> Numbers:
        """Return the sizes of some objects; -1 for those that are not there."""
        found = np.full(indexes.size, -1, np.int64)
        is_known = indexes < self._width
        keys = collections[is_known] * self._width + indexes[is_known]
        if self._table is not None:
            found[is_known] = self._table[keys]
            return found
        places = np.searchsorted(self._keys, keys)
        places[places == self._keys.size] = 0
        found[is_known] = np.where(self._keys[places] == keys, self._sizes[places], -1)
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


def _objects(
    file: Bytes, starts: Numbers, stops: Numbers, what: str, walked: WalkedHeaps
) -> tuple[Numbers, Numbers, Numbers]:
    """Return the collection, the index and the size of each object."""
    at = starts + _HEADER_BYTES
    found, rounds = _side_by_side(file, at, stops, what)
    for number in np.flatnonzero(at + _HEADER_BYTES <= stops).tolist():
        start = int(starts[number])
        objects = walked.find(start) if rounds == 0 else None
        if objects is None:
            rest = file[: stops[number]]
            objects = _one_by_one(rest, int(at[number]), _MAX_OBJECTS - rounds, what)
            if rounds == 0:
                walked.keep(start, objects)
        indexes, sizes = objects
        found.append(np.stack([np.full(indexes.size, number), indexes, sizes]))
    collections, indexes, sizes = np.concatenate(found, axis=1)
    return collections, indexes, sizes


def _side_by_side(
    file: Bytes, at: Numbers, stops: Numbers, what: str
) -> tuple[list[npt.NDArray[np.int64]], int]:
    """Walk collections, an object of each at a time, while there are many; move ``at`` along.

    Return the collections, indexes and sizes found, and the number of objects walked in each
    collection that is left.
    """
    found = [np.empty((3, 0), np.int64)]
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
        found.append(np.stack([active, index, size])[:, ~is_free])
        at[active] = here + needed
        active = active[at[active] + _HEADER_BYTES <= stops[active]]
    return found, len(found) - 1


def _one_by_one(file: Bytes, at: int, most: int, what: str) -> tuple[Numbers, Numbers]:
    """Walk one collection, which ends where the bytes end; return indexes and sizes."""
    data, stop = file.data, file.size
    indexes, sizes = array("q"), array("q")
    for _ in range(most + 1):
        if at + _HEADER_BYTES > stop:
            return np.frombuffer(indexes, np.int64), np.frombuffer(sizes, np.int64)
        index, size = _OBJECT.unpack_from(data, at)
        needed = size if index == 0 else _HEADER_BYTES + (size + 7 & ~7)
        if not _HEADER_BYTES <= needed <= stop - at:
            raise _damaged(what, _TOO_LARGE)
        if index:
            indexes.append(index)
            sizes.append(size)
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

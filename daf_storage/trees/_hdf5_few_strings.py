"""Read the few strings of a small dataset from the bytes of an HDF5 file, such as categories.

HDF5 takes as long to prepare as to read, for each of a hundred datasets; see `_hdf5_heaps` for how
the strings lie.  Only what is in order is read here: HDF5, and its checks, say what else is wrong.

Pure: bytes in, strings out.  Source: HDF5 file format specification, III.E "Global Heap".
"""

from __future__ import annotations

import struct
from typing import Any, Final

import numpy as np
import numpy.typing as npt

MAX_STRINGS: Final = 1 << 10
"""Of more, HDF5 reads a string as fast."""

_HEADER: Final = struct.Struct("<4sB3xQ")
"""The header of a collection: its signature, a version and its size."""
_OBJECT: Final = struct.Struct("<H6xQ")
"""The header of an object: its index, a count of references and padding, its size."""
_MAX_COLLECTION_BYTES: Final = 1 << 16
_MAX_COLLECTIONS: Final = 1 << 8

Places = dict[int, tuple[int, int]]
"""Where the objects of a collection begin and end, by their indexes."""


class FewStrings:
    """Reads small datasets of strings of one file.

    Parameters
    ----------
    file
        The bytes of the whole file.
    """

    def __init__(self, file: npt.NDArray[np.uint8]) -> None:
        self._data = file.data
        self._collections: dict[int, Places | None] = {}

    def read(self, references: npt.NDArray[Any]) -> list[str] | None:
        """Return the strings that some elements refer to; None where HDF5 had better read them."""
        data, strings = self._data, []
        known: dict[int, Places] = {0: {}}
        last, places = 0, known[0]
        for length, address, index in references.tolist():
            if length == 0 and address == 0:
                strings.append("")
                continue
            if address != last:  # neighbours lie together
                last, places = address, known.get(address) or self._places(address)
                known[address] = places
            place = places.get(index)
            if place is None or place[1] - place[0] != length:
                return None
            stored = data[place[0] : place[1]].tobytes()
            if b"\0" in stored:  # where HDF5 ends a string
                return None
            try:
                strings.append(stored.decode())
            except UnicodeDecodeError:
                return None
        return strings

    def _places(self, address: int) -> Places:
        """Return the objects of the collection at an address; none if HDF5 had better read it."""
        if address not in self._collections:
            if len(self._collections) >= _MAX_COLLECTIONS:
                self._collections.clear()
            self._collections[address] = self._walked(address)
        return self._collections[address] or {}

    def _walked(self, address: int) -> Places | None:
        """Return the objects of a collection; None if it is too large, or anything is wrong."""
        if address + _HEADER.size > len(self._data):
            return None
        signature, version, size_bytes = _HEADER.unpack_from(self._data, address)
        is_whole = (
            _HEADER.size <= size_bytes <= min(_MAX_COLLECTION_BYTES, len(self._data) - address)
        )
        if signature != b"GCOL" or version != 1 or not is_whole:
            return None
        places: Places = {}
        at, stop = address + _HEADER.size, address + size_bytes
        while at + _OBJECT.size <= stop:
            index, size = _OBJECT.unpack_from(self._data, at)
            needed = size if index == 0 else _OBJECT.size + (size + 7 & ~7)
            if not _OBJECT.size <= needed <= stop - at or index in places:
                return None
            if index:
                places[index] = at + _OBJECT.size, at + _OBJECT.size + size
            at += needed
        return places

"""The time that gathering a slice takes, by which its stored layout is chosen.

Bytes alone do not tell.  An element of a few scattered cells costs as much as ten that lie one
after the other; where both axes are filtered, each element is looked up; what is gathered by
columns is turned at the end; of a compressed matrix whole chunks are decoded.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final, TypeAlias

import numpy as np
import numpy.typing as npt

from daf_query.matrix._selection import Selection
from daf_storage.base import StorageType
from daf_storage.trees import StoredArray

_STRING_BYTES: Final = 16

Positions: TypeAlias = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class CostConstants:
    """How many nanoseconds of a processor the steps of gathering take.

    Fitted to 40 slices of a mapped matrix in both layouts (``benchmarks/gather.py --fit``): 1 to
    all of 2,000 columns and 100 to 30,000 of 100,000 rows, 9.8 million stored elements of Float32
    and Int32, on two virtual processors (x86-64, Linux 6.18), all pages cached.  They give the time
    of each of these slices within half of it.
    """

    range_ns: float = 76.0
    """Of a range of stored elements: its pointers, and the first access to its memory."""
    copied_byte_ns: float = 0.16
    """Of a byte that is copied."""
    filtered_element_ns: float = 1.4
    """Of an element whose minor is looked up among the selected ones."""
    selected_element_ns: float = 4.4
    """Of an element that is kept of those."""
    turned_element_ns: float = 8.4
    """Of an element that is put from columns into rows."""
    minor_ns: float = 1.0
    """Of a minor, selected or not, in the table in which minors are looked up."""
    decoded_byte_ns: float = 0.7
    """Of a byte of a compressed chunk that is decoded."""
    fetched_byte_ns: float = 10.0
    """Of a byte of a file on a server; at 100 MB/s, and not measured."""
    fetched_block_bytes: int = 32 << 10
    """In blocks of how many bytes files of a server are fetched."""
    line_bytes: int = 64
    """How many bytes of memory are read for a single element."""


CONSTANTS: Final = CostConstants()
"""Those by which layouts are chosen."""


@dataclass(frozen=True, slots=True)
class Gathering:
    """What gathering a slice from a layout takes."""

    nanoseconds: float
    """Without turning it, if it is gathered by columns."""
    likely_elements: float
    """About how many stored elements the slice has."""

    def turned(self) -> float:
        """Return what it takes if it is gathered by columns, and turned into rows."""
        return self.nanoseconds + self.likely_elements * CONSTANTS.turned_element_ns


def sparse_gathering(
    arrays: Iterable[StoredArray],
    starts: Positions,
    counts: Positions,
    minor: Selection,
    width: int,
) -> Gathering:
    """Return what gathering some ranges of stored elements takes.

    Parameters
    ----------
    arrays
        The row numbers, and the values if there are any.
    minor, width
        The selected minors, and how many there are in all.
    """
    elements = int(counts.sum())
    total = starts.size * CONSTANTS.range_ns
    for array in arrays:
        total += _taken_ns(array, starts, counts, elements)
    if minor.is_all:
        return Gathering(total, elements)
    likely = elements * minor.size / max(width, 1)
    total += elements * CONSTANTS.filtered_element_ns + likely * CONSTANTS.selected_element_ns
    return Gathering(total + width * CONSTANTS.minor_ns, likely)


def looking_at_all_ns(elements: int) -> float:
    """Return the least that it takes to look for some minors among all stored elements."""
    return elements * CONSTANTS.filtered_element_ns


def dense_gathering(array: StoredArray, major: Selection, minor: Selection) -> Gathering:
    """Return what gathering some majors and minors of a dense matrix takes.

    It has no stored elements to be turned: what is gathered by columns is returned as it is.
    """
    info = array.info
    if info.storage_type.is_string:
        return Gathering(info.size * _STRING_BYTES * CONSTANTS.decoded_byte_ns, 0)
    item_bytes = info.storage_type.dtype.itemsize
    majors, minors = major.size, minor.size
    if not info.is_mappable and info.chunks != info.shape:
        touched = [
            _chunks_of(positions, info.chunks[axis])
            for axis, positions in enumerate((major.positions, minor.positions))
        ]
        decoded_bytes = math.prod(touched) * math.prod(info.chunks) * item_bytes
        return Gathering(decoded_bytes * CONSTANTS.decoded_byte_ns, 0)
    row_bytes = info.shape[1] * item_bytes
    read_bytes = row_bytes if minor.is_all else min(row_bytes, minors * CONSTANTS.line_bytes)
    rate = CONSTANTS.copied_byte_ns if info.is_mappable else CONSTANTS.fetched_byte_ns
    return Gathering(majors * (CONSTANTS.range_ns + read_bytes * rate), 0)


def _taken_ns(array: StoredArray, starts: Positions, counts: Positions, elements: int) -> float:
    """Return what copying, decoding or fetching ranges of an array takes."""
    info = array.info
    item_bytes = _item_bytes(info.storage_type)
    if info.is_mappable:
        return elements * item_bytes * CONSTANTS.copied_byte_ns
    if info.chunks != info.shape:
        chunk = max(info.chunks[0], 1)
        return _sections(starts, counts, chunk) * chunk * item_bytes * CONSTANTS.decoded_byte_ns
    block = max(CONSTANTS.fetched_block_bytes // item_bytes, 1)
    return _sections(starts, counts, block) * block * item_bytes * CONSTANTS.fetched_byte_ns


def _item_bytes(storage_type: StorageType) -> int:
    return _STRING_BYTES if storage_type.is_string else storage_type.dtype.itemsize


def _chunks_of(positions: Positions, chunk: int) -> int:
    return int(np.unique(positions // max(chunk, 1)).size)


def _sections(starts: Positions, counts: Positions, size: int) -> int:
    """Return in how many sections of so many elements some ranges lie.

    >>> _sections(np.array([9, 0, 12]), np.array([3, 5, 0]), 4)
    3
    """
    is_filled = counts > 0
    starts, counts = starts[is_filled], counts[is_filled]
    if bool(np.any(starts[1:] < starts[:-1])):
        order = np.argsort(starts, kind="stable")
        starts, counts = starts[order], counts[order]
    firsts, lasts = starts // size, (starts + counts - 1) // size
    if not firsts.size:
        return 0
    before = np.maximum.accumulate(lasts)[:-1]  # sections up to these are counted
    new = lasts.copy()
    new[1:] -= np.maximum(firsts[1:] - 1, before)
    new[0] -= firsts[0] - 1
    return int(np.maximum(new, 0).sum())

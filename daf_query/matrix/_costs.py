"""The time that gathering a slice takes, by which its stored layout is chosen.

Bytes alone do not tell.  An element of a few scattered cells costs as much as ten that lie one
after the other; where both axes are filtered, each element is looked up; what is gathered by
columns is turned at the end; of a compressed matrix whole chunks are decoded.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

import numpy as np

from daf_query.matrix._slice_plan import Positions, Selection, SlicePlan
from daf_storage.base import StorageType
from daf_storage.trees import StoredArray

_STRING_BYTES: Final = 16


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


def gathering_ns(plan: SlicePlan, *, is_turned: bool) -> float:
    """Return what gathering a slice from a layout takes.

    Parameters
    ----------
    is_turned
        Whether it is gathered by columns, and turned into rows; a dense matrix is returned as it
        is, seen from the side.
    """
    info = plan.stored.info
    if not info.is_sparse:
        return dense_ns(plan.stored.dense(), plan.major, plan.minor)
    starts, counts = plan.ranges()
    if plan.major.is_all:  # one range
        starts, counts = starts[:1], counts.sum(keepdims=True)[: starts.size]
    elements = int(counts.sum())
    total = elements_ns(plan.stored.element_arrays(), starts, counts)
    likely: float = elements
    if not plan.minor.is_all:
        likely = elements * plan.minor.size / max(info.shape[0], 1)
        total += elements * CONSTANTS.filtered_element_ns + likely * CONSTANTS.selected_element_ns
        total += info.shape[0] * CONSTANTS.minor_ns
    return total + likely * CONSTANTS.turned_element_ns if is_turned else total


def elements_ns(arrays: Iterable[StoredArray], starts: Positions, counts: Positions) -> float:
    """Return what copying, decoding or fetching some ranges of stored elements takes."""
    elements = int(counts.sum())
    total = starts.size * CONSTANTS.range_ns
    return total + sum(_taken_ns(array, starts, counts, elements) for array in arrays)


def looking_at_all_ns(elements: int) -> float:
    """Return the least that it takes to look for some minors among all stored elements."""
    return elements * CONSTANTS.filtered_element_ns


def dense_ns(array: StoredArray, major: Selection, minor: Selection) -> float:
    """Return what gathering some majors and minors of a dense matrix takes."""
    info = array.info
    if info.storage_type.is_string:
        return info.size * _STRING_BYTES * CONSTANTS.decoded_byte_ns
    item_bytes = info.storage_type.dtype.itemsize
    majors, minors = major.size, minor.size
    if not info.is_mappable and info.chunks != info.shape:
        touched = [
            _chunks_of(positions, info.chunks[axis])
            for axis, positions in enumerate((major.positions, minor.positions))
        ]
        decoded_bytes = math.prod(touched) * math.prod(info.chunks) * item_bytes
        return decoded_bytes * CONSTANTS.decoded_byte_ns
    row_bytes = info.shape[1] * item_bytes
    read_bytes = row_bytes if minor.is_all else min(row_bytes, minors * CONSTANTS.line_bytes)
    rate = CONSTANTS.copied_byte_ns if info.is_mappable else CONSTANTS.fetched_byte_ns
    return majors * (CONSTANTS.range_ns + read_bytes * rate)


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

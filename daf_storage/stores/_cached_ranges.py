"""Ranges of a file that is in the page cache, read rather than looked for in a new mapping.

The first access to a page of a mapping has the system map sixteen, and unmap them at the end: of a
few thousand scattered ranges that takes three times as long as to read them one by one.  Once a
mapping has been used, it is the other way round, by far.  So the first ranges of a file are read,
up to about as much as mapping its pages would take.

What is not in the page cache is left to the mapping, which reads ahead.  So the first ranges, and
one in sixteen of the others, are asked for without waiting; a plain read costs half as much.  A
page at which the system means to read ahead counts as not there, though it mostly is: a few are
waited for.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from itertools import repeat
from typing import Final

import numpy as np
import numpy.typing as npt

from daf_storage.base import AnyArray

MOST_RANGES: Final = 1 << 12
"""Up to how many ranges are read at a time: the pages of more are close to each other."""
ENOUGH_RANGES: Final = 1 << 10
"""After how many ranges in all a file is used through its mapping."""

_FEW_WAITS: Final = 8
_RANGES_PER_WAIT: Final = 256
_LOOKS: Final = 16
_RANGES_PER_LOOK: Final = 16
_ONLY_CACHED: Final[int | None] = getattr(os, "RWF_NOWAIT", None)

Positions = npt.NDArray[np.int64]


class FirstRanges:
    """How many ranges of a mapped file were asked for.

    Examples
    --------
    >>> first = FirstRanges()
    >>> [first.are_read(count) for count in (1000, 3000, 10)]
    [True, True, False]
    >>> FirstRanges().are_read(MOST_RANGES + 1)
    False
    """

    def __init__(self) -> None:
        self._count = 0

    def are_read(self, count: int) -> bool:
        """Return whether so many ranges had better be read; they count from now on."""
        is_first = self._count < ENOUGH_RANGES
        self._count += count
        return is_first and count <= MOST_RANGES


def copy_first(
    first: FirstRanges,
    open_file: Callable[[], int | None],
    starts: Positions,
    sizes: Positions,
    target: AnyArray,
    *,
    offset: int = 0,
) -> bool:
    """Read the first few ranges of a mapped file, which is opened for that; see `copy_cached`.

    Parameters
    ----------
    first
        Counts the ranges that are asked for of the file.
    open_file
        Returns a descriptor, which is closed here; None if there is no such file any more.
    offset
        Where in the file the ranges count from.
    """
    descriptor = open_file() if first.are_read(starts.size) else None
    if descriptor is None:
        return False
    try:
        return copy_cached(descriptor, starts + offset, sizes, target)
    finally:
        os.close(descriptor)


def copy_cached(descriptor: int, starts: Positions, sizes: Positions, target: AnyArray) -> bool:
    """Read ranges of bytes of an open file into an array, one after the other.

    Parameters
    ----------
    starts, sizes
        The ranges, in bytes.
    target
        As many bytes, contiguous.

    Returns
    -------
    bool
        Whether it was done.  If not, since much of the file is not in memory, or the file ends
        before a range does, or the system cannot tell, the target has any content.
    """
    if _ONLY_CACHED is None:
        return False
    if not target.nbytes:
        return True
    stops = np.cumsum(sizes)
    if int(stops[-1]) != target.nbytes:
        return False
    # Into the target itself: parts of their own would cost a second copy, and memory to put it in.
    whole = target.reshape(-1).view(np.uint8).data
    begin = waits = copied = 0
    try:
        while begin < starts.size:
            if not _is_cached(descriptor, int(starts[begin])):
                waits += 1
                if waits > _FEW_WAITS + begin // _RANGES_PER_WAIT:
                    return False
            some = slice(begin, begin + (1 if begin < _LOOKS else _RANGES_PER_LOOK))
            ends = stops[some]
            slices = map(slice, (ends - sizes[some]).tolist(), ends.tolist())
            buffers = zip(map(whole.__getitem__, slices), strict=True)  # one for each range
            copied += sum(map(os.preadv, repeat(descriptor), buffers, starts[some].tolist()))
            begin = some.stop
    except OSError:  # the file system does not know the flag
        return False
    return copied == target.nbytes  # less where the file ends before


def _is_cached(descriptor: int, start: int) -> bool:
    """Return whether the byte at some place can be read without waiting for the disk."""
    try:
        os.preadv(descriptor, (bytearray(1),), start, _ONLY_CACHED or 0)
    except BlockingIOError:
        return False
    return True

"""Runs of chunks of an uncompressed HDF5 dataset that lie one after the other in the file."""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Callable
from typing import Any, Final, TypeAlias

import numpy as np

from daf_storage.base import AnyArray, Span
from daf_storage.trees._hdf5_chunk_tree import Numbers
from daf_storage.trees._hdf5_listing import ChunkListing
from daf_storage.trees._joined_ranges import Positions, Ranges, join_views
from daf_storage.trees._protocol import ArrayInfo

CopyRanges: TypeAlias = Callable[[int, Positions, Positions, AnyArray], bool]
"""Copies ranges of bytes of a file into an array, given where the dataset begins; says if so."""

_LONG_BYTES: Final = 1 << 14
"""Longer ranges are copied out of the mapping: they have most of the pages that it brings."""


class Runs:
    """The runs of an uncompressed dataset whose chunks are whole rows, and all there.

    Parameters
    ----------
    starts
        The row with which each run begins, and the number of rows.
    views
        The rows of each run, as they are in the file.
    offsets
        Where each run begins in the file.
    dtype
        What the elements are to be.
    copy_first
        Reads the first few ranges, rather than look for them in the mapping.
    """

    def __init__(
        self,
        starts: list[int],
        views: list[AnyArray],
        offsets: Numbers,
        dtype: np.dtype[Any],
        copy_first: CopyRanges,
    ) -> None:
        self._starts = starts
        self._views = views
        self._offsets = offsets
        self._dtype = dtype
        self._copy_first = copy_first
        self._is_native = all(view.flags.aligned and view.dtype == dtype for view in views)

    @classmethod
    def of(
        cls,
        info: ArrayInfo,
        stored: np.dtype[Any],
        listing: ChunkListing,
        file: memoryview,
        copy_first: CopyRanges,
    ) -> Runs | None:
        """Return the runs of a dataset; None where its chunks are not whole rows, or missing."""
        rows = info.chunks[0]
        row_elements = math.prod(info.shape[1:])
        chunk_bytes = math.prod(info.chunks) * stored.itemsize
        is_whole = info.chunks[1:] == info.shape[1:] and bool(np.all(listing.offsets >= 0))
        if not is_whole or bool(np.any(listing.sizes != chunk_bytes)):
            return None
        breaks = np.flatnonzero(np.diff(listing.offsets) != chunk_bytes) + 1
        firsts = [0, *breaks.tolist()]
        starts = [first * rows for first in firsts]
        stops = [min(start, info.shape[0]) for start in [*starts[1:], info.shape[0]]]
        views = []
        for first, start, stop in zip(firsts, starts, stops, strict=True):
            view = np.frombuffer(
                file, stored, (stop - start) * row_elements, int(listing.offsets[first])
            )
            views.append(view.reshape(stop - start, *info.shape[1:]))
        offsets = listing.offsets[firsts]
        return cls(starts, views, offsets, info.storage_type.dtype, copy_first)

    @property
    def whole(self) -> AnyArray | None:
        """All rows as a view; None if they lie in several runs, or are stored otherwise."""
        return self._views[0] if len(self._views) == 1 and self._is_native else None

    def read(self, span: Span) -> AnyArray:
        """Return a range of rows, as a view if it lies in one run."""
        first = bisect_right(self._starts, span.start) - 1
        start = self._starts[first]
        view = self._views[first]
        if span.stop <= start + len(view):
            return self._converted(view[span.start - start : span.stop - start])
        last = bisect_right(self._starts, span.stop - 1) - 1
        parts = [
            self._views[number][max(span.start - self._starts[number], 0) :][
                : span.stop - max(span.start, self._starts[number])
            ]
            for number in range(first, last + 1)
        ]
        return self._converted(np.concatenate(parts, dtype=self._dtype))

    def join(self, ranges: Ranges) -> AnyArray:
        """Return ranges of rows, one after the other."""
        numbers, pieces = self._cut(ranges)
        if self._is_native:
            first = self._first_read(numbers, pieces)
            return join_views(self._views, numbers, pieces) if first is None else first
        out = np.empty((ranges.total, *self._views[0].shape[1:]), self._dtype)
        for number in np.unique(numbers).tolist():
            pieces.some(np.flatnonzero(numbers == number)).copy(self._views[number], out)
        return out

    def copy_ranges(self, starts: Positions, sizes: Positions, target: AnyArray) -> bool:
        """Read ranges of bytes out of the file, one after the other; say if that was done.

        It is not where the mapping is faster.
        """
        row_bytes = self._row_bytes
        ranges = Ranges.joined(starts // row_bytes, sizes // row_bytes)
        return self._is_native and self._are_read(*self._cut(ranges), target)

    def _cut(self, ranges: Ranges) -> tuple[Positions, Ranges]:
        """Return the run of each piece of some ranges of rows, and the pieces."""
        starts = np.array([*self._starts, self._starts[-1] + len(self._views[-1])])
        firsts = np.searchsorted(starts, ranges.starts, "right") - 1
        lasts = np.searchsorted(starts, ranges.stops - 1, "right") - 1
        return ranges.cut(firsts, lasts - firsts + 1, lambda numbers: starts[numbers])

    @property
    def _row_bytes(self) -> int:
        return math.prod(self._views[0].shape[1:]) * self._dtype.itemsize

    def _first_read(self, numbers: Positions, pieces: Ranges) -> AnyArray | None:
        """Return pieces of runs that are read out of the file; None where the mapping is faster."""
        out = np.empty((pieces.total, *self._views[0].shape[1:]), self._dtype)
        return out if self._are_read(numbers, pieces, out) else None

    def _are_read(self, numbers: Positions, pieces: Ranges, out: AnyArray) -> bool:
        row_bytes = self._row_bytes
        if not pieces.sizes.size or pieces.total * row_bytes > pieces.sizes.size * _LONG_BYTES:
            return False
        starts = self._offsets[numbers] + pieces.starts * row_bytes
        return self._copy_first(int(self._offsets[0]), starts, pieces.sizes * row_bytes, out)

    def _converted(self, values: AnyArray) -> AnyArray:
        if not self._is_native:
            values = np.array(values, self._dtype)
        values.flags.writeable = False
        return values

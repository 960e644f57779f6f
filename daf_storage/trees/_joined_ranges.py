"""Many ranges of the first dimension of an array, read or copied one after the other.

A slice of a sparse matrix is thousands of ranges of a few elements: what is done for each of them
counts more than what is done for an element.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from daf_storage.base import AnyArray, Span
from daf_storage.trees._stored_array import StoredArray

_LONG_ELEMENTS: Final = 64
"""From so many elements each, ranges are copied one by one rather than by the positions of all."""
_HUGE_ELEMENTS: Final = 1 << 12
"""From so many each, numpy copies them: it lets other threads of Python run meanwhile."""

Positions = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Ranges:
    """Ranges of a source, and where they go in a target."""

    starts: Positions
    """Where they begin in the source."""
    sizes: Positions
    """How many rows they have."""
    targets: Positions
    """Where they begin in the target."""

    @classmethod
    def of(cls, spans: list[Span]) -> Ranges:
        """Return ranges that are put one after the other.

        >>> Ranges.of([Span(5, 7), Span(0, 3)]).targets.tolist()
        [0, 2]
        """
        pairs = np.array([(span.start, span.stop) for span in spans], np.int64).reshape(-1, 2)
        return cls.joined(pairs[:, 0], pairs[:, 1] - pairs[:, 0])

    @classmethod
    def joined(cls, starts: Positions, sizes: Positions) -> Ranges:
        """Return ranges that are put one after the other; empty ones are left out."""
        starts, sizes = starts.astype(np.int64, copy=False), sizes.astype(np.int64, copy=False)
        targets = np.cumsum(sizes) - sizes
        if sizes.size and not sizes.min():
            has_rows = sizes > 0
            starts, sizes, targets = starts[has_rows], sizes[has_rows], targets[has_rows]
        return cls(starts, sizes, targets)

    @property
    def stops(self) -> Positions:
        """Where they end in the source."""
        return self.starts + self.sizes

    @property
    def total(self) -> int:
        """How many rows they have together."""
        return int(self.sizes.sum())

    def some(self, picked: npt.NDArray[np.intp]) -> Ranges:
        """Return some of them."""
        return Ranges(self.starts[picked], self.sizes[picked], self.targets[picked])

    def cut(
        self, firsts: Positions, counts: Positions, begin_of: Callable[[Positions], Positions]
    ) -> tuple[Positions, Ranges]:
        """Cut ranges where the sections of their source begin, which are numbered.

        Parameters
        ----------
        firsts, counts
            The section in which each range begins, and in how many it lies.
        begin_of
            Returns where sections begin; of the number after the last, where that ends.

        Returns
        -------
        tuple
            The section of each piece, and the pieces, whose source is that section.
        """
        of = np.repeat(np.arange(firsts.size), counts)
        numbers = firsts[of] + np.arange(of.size) - (np.cumsum(counts) - counts)[of]
        begins = begin_of(numbers)
        starts = np.maximum(self.starts[of], begins)
        stops = np.minimum(self.stops[of], begin_of(numbers + 1))
        targets = self.targets[of] + starts - self.starts[of]
        return numbers, Ranges(starts - begins, stops - starts, targets)

    def copy(
        self,
        source: AnyArray,
        target: AnyArray,
        source_rest: tuple[slice, ...] = (),
        target_rest: tuple[slice, ...] = (),
    ) -> None:
        """Copy them; of the other dimensions, only some elements."""
        total = self.total
        if self.sizes.size <= 1 or self.sizes.size * _LONG_ELEMENTS <= total:
            columns = (each.tolist() for each in (self.starts, self.sizes, self.targets))
            for start, size, to in zip(*columns, strict=True):
                picked = source[(slice(start, start + size), *source_rest)]
                target[(slice(to, to + size), *target_rest)] = picked
            return
        before = np.cumsum(self.sizes) - self.sizes
        each = np.arange(total)
        positions = np.repeat(self.starts - before, self.sizes) + each
        shifts = self.targets - before
        to_rows: Any = slice(int(shifts[0]), int(shifts[0]) + total)
        if bool(np.any(shifts != shifts[0])):
            to_rows = np.repeat(shifts, self.sizes) + each
        from_rows: Any = positions
        target[(to_rows, *target_rest)] = source[(from_rows, *source_rest)]


def join_views(views: Sequence[AnyArray], numbers: Positions, pieces: Ranges) -> AnyArray:
    """Return ranges of some arrays, one after the other, as a new array.

    Parameters
    ----------
    views
        Arrays of one type, contiguous, that differ in the number of their rows at most.
    numbers
        Of which of them each range is.
    pieces
        The ranges; each goes where the one before ends.
    """
    out_shape = (pieces.total, *views[0].shape[1:])
    borders = [0, *(np.flatnonzero(np.diff(numbers)) + 1).tolist(), numbers.size]
    size = pieces.sizes.size
    if size * _LONG_ELEMENTS <= out_shape[0] < size * _HUGE_ELEMENTS:
        row_bytes = views[0].itemsize * math.prod(out_shape[1:])
        parts: list[memoryview] = []
        starts, stops = pieces.starts * row_bytes, pieces.stops * row_bytes
        for first, last in itertools.pairwise(borders):
            stored = views[int(numbers[first])].reshape(-1).view(np.uint8).data
            slices = map(slice, starts[first:last].tolist(), stops[first:last].tolist())
            parts.extend(map(stored.__getitem__, slices))
        # A third of the time of copying them with numpy, of which most is not copying.
        joined = np.frombuffer(bytearray().join(parts), views[0].dtype)
        return joined.reshape(out_shape)
    out = np.empty(out_shape, views[0].dtype)
    for first, last in itertools.pairwise(borders):
        if last > first:
            some = pieces.some(np.arange(first, last))
            some.copy(views[int(numbers[first])], out)
    return out


def read_joined(array: StoredArray, starts: Positions, sizes: Positions) -> AnyArray:
    """Return ranges of an array of one dimension, one after the other, as a new array.

    At once, if the array is mapped, or has a method ``read_joined(ranges)`` that does not return
    None.

    Parameters
    ----------
    starts, sizes
        The ranges, in any order; they may overlap.
    """
    join = getattr(array, "read_joined", None)  # a check of protocols takes ten times as long
    ranges = Ranges.joined(starts, sizes)
    if array.info.is_mappable:
        return join_views([array.read()], np.zeros(ranges.sizes.size, np.int64), ranges)
    found: AnyArray | None = None if join is None else join(ranges)
    if found is not None:
        return found
    pairs = zip(starts.tolist(), sizes.tolist(), strict=True)
    parts = array.read_spans([Span(start, start + size) for start, size in pairs if size])
    return np.concatenate([np.empty(0, array.info.storage_type.dtype), *parts])

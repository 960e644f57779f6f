"""Positions of elements of a stored array: a range, a list, or runs.  Pure."""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from daf_storage.base import Span

Positions: TypeAlias = npt.NDArray[np.int64]


class EntrySelection:
    """The entries of an axis that a view shows, by their positions; a range is not copied."""

    def __init__(self, positions: Positions, length: int) -> None:
        self.length = length
        """How many entries the axis has."""
        self.size = int(positions.size)
        """How many of them are shown."""
        steps = np.diff(positions)
        self.is_ascending = bool(np.all(steps > 0))
        """Whether they are in the order of the axis."""
        self.span: Span | None = None
        """The range that they are; None if they are none."""
        self._positions = positions
        if bool(np.all(steps == 1)):
            start = int(positions[0]) if self.size else 0
            self.span = Span(start, start + self.size)

    @property
    def is_all(self) -> bool:
        """Whether all entries are shown, in their order."""
        return self.span == Span(0, self.length)

    @property
    def positions(self) -> Positions:
        """All positions."""
        return self._positions

    def part(self, span: Span) -> Positions:
        """Return the positions of a range of what is shown."""
        return self._positions[span.slice]

    def at(self, numbers: Positions) -> Positions:
        """Return the positions of some of what is shown."""
        return self._positions[numbers]

    def numbers(self) -> Positions:
        """Return the number of each entry among those that are shown, from 1; 0 of the others."""
        numbers = np.zeros(self.length, np.int64)
        numbers[self.positions] = np.arange(1, self.size + 1)
        return numbers

    def number_type(self, stored: np.dtype[Any]) -> np.dtype[Any]:
        """Return a type for `numbers`: the stored one, where it has room for all of them.

        Others store a few indices of a long axis in 8 bits; in another order they may be larger.
        """
        return np.promote_types(stored, np.min_scalar_type(self.size))


class RangePicks:
    """A range."""

    def __init__(self, span: Span) -> None:
        self.span: Span | None = span
        self.size = span.size

    def part(self, span: Span) -> Positions:
        """Return some of the positions."""
        return self.at(np.arange(span.start, span.stop))

    def at(self, numbers: Positions) -> Positions:
        """Return the positions of these numbers."""
        return numbers if self.span is None else numbers + self.span.start


class RunPicks:
    """Runs of neighbouring positions, one after the other; they are not written out."""

    span: Span | None = None

    def __init__(self, starts: Positions, counts: Positions) -> None:
        self._starts = starts
        self._stops = np.cumsum(counts)
        self._counts = counts
        self.size = int(self._stops[-1]) if counts.size else 0

    def part(self, span: Span) -> Positions:
        """Return some of the positions."""
        if not span.size:
            return np.zeros(0, np.int64)
        first = int(np.searchsorted(self._stops, span.start, side="right"))
        last = int(np.searchsorted(self._stops, span.stop, side="left")) + 1
        counts = self._counts[first:last]
        begins = self._stops[first:last] - counts
        positions = np.repeat(self._starts[first:last] - begins, counts)
        positions += np.arange(int(begins[0]), int(begins[0]) + positions.size)
        return positions[span.start - int(begins[0]) : span.stop - int(begins[0])]

    def at(self, numbers: Positions) -> Positions:
        """Return the positions of these numbers, which are searched for among the runs."""
        runs = np.searchsorted(self._stops, numbers, side="right")
        positions: Positions = self._starts[runs] + (numbers - (self._stops - self._counts)[runs])
        return positions


Picks: TypeAlias = EntrySelection | RangePicks | RunPicks
"""Positions along one dimension of an array, in the order in which they are shown."""


def numbers_in(spans: list[Span]) -> Positions:
    """Return all numbers in some ranges, one range after the other.

    >>> numbers_in([Span(5, 7), Span(0, 2)]).tolist()
    [5, 6, 0, 1]
    """
    starts = np.array([span.start for span in spans], np.int64)
    sizes = np.array([span.size for span in spans], np.int64)
    stops = np.cumsum(sizes)
    return np.repeat(starts - (stops - sizes), sizes) + np.arange(int(stops[-1]))

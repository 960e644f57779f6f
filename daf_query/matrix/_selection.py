"""The chosen entries of an axis, by their positions."""

from __future__ import annotations

from functools import partial
from typing import Any, Final

import numpy as np
import numpy.typing as npt

_STEPS: Final = ("i1", "i2", "i4", "i8")
"""Types of the steps between positions."""


class Selection:
    """Which entries of an axis, in which order; not to be changed.

    Parameters
    ----------
    positions
        0-based positions along the axis; any order, duplicates allowed.
    is_all
        Whether it is every entry in the order of the axis.
    """

    __slots__ = ("_positions", "is_all", "size")

    def __init__(self, positions: npt.NDArray[np.int64], *, is_all: bool) -> None:
        self._positions: npt.NDArray[np.int64] | None = positions
        self.is_all = is_all
        """Whether it is every entry in the order of the axis."""
        self.size = positions.size
        """How many entries are chosen."""

    def __repr__(self) -> str:
        return f"Selection({self.positions!r}, is_all={self.is_all})"

    @property
    def positions(self) -> npt.NDArray[np.int64]:
        """0-based positions along the axis; those of all are counted when first asked for."""
        if self._positions is None:
            self._positions = np.arange(self.size)
        return self._positions

    def __reduce__(self) -> Any:
        """Pickle the first position and the steps to the next ones, in few bytes.

        Neighbours take none, rows that a predicate selects mostly one byte each.
        """
        if self.is_all:
            return Selection.all, (self.size,)
        steps = np.diff(self.positions)
        if bool((steps == 1).all()):
            steps = steps[:0]
        largest = max(int(steps.max(initial=0)), -int(steps.min(initial=0)))
        step_type = next(name for name in _STEPS if largest <= np.iinfo(name).max)
        start = int(self.positions[0]) if self.size else 0
        packed = steps.astype(f"<{step_type}").tobytes()
        return partial(_unpacked, start, self.size, step_type, packed), ()

    def part(self, start: int, stop: int) -> Selection:
        """Return some of the chosen entries, by their offsets.

        >>> Selection.all(3).part(1, 3).positions.tolist()
        [1, 2]
        """
        if self.is_all and start == 0 and stop >= self.size:
            return self
        if self._positions is None:
            return Selection(np.arange(start, min(stop, self.size)), is_all=False)
        return Selection(self.positions[start:stop], is_all=False)

    def take(self, offsets: npt.NDArray[np.int64]) -> Selection:
        """Return some of the chosen entries, by their offsets, in the order of these.

        >>> Selection.all(3).take(np.array([2, 0])).positions.tolist()
        [2, 0]
        """
        return Selection(self.positions[offsets], is_all=False)

    @classmethod
    def of(cls, positions: npt.NDArray[np.int64], axis_length: int) -> Selection:
        """Return the selection of these positions of an axis.

        >>> Selection.of(np.array([0, 1]), 2).is_all, Selection.of(np.array([1, 0]), 2).is_all
        (True, False)
        """
        is_all = positions.size == axis_length and np.array_equal(positions, np.arange(axis_length))
        return cls(positions, is_all=bool(is_all))

    @classmethod
    def all(cls, axis_length: int) -> Selection:
        """Return the selection of every entry of an axis.

        >>> Selection.all(3).positions.tolist()
        [0, 1, 2]
        """
        whole = cls.__new__(cls)
        whole._positions = None  # noqa: SLF001 - of this class
        whole.is_all, whole.size = True, axis_length
        return whole


def _unpacked(start: int, size: int, step_type: str, steps: bytes) -> Selection:
    if not steps:
        return Selection(np.arange(start, start + size), is_all=False)
    positions = np.empty(size, np.int64)
    positions[0], positions[1:] = start, np.frombuffer(steps, f"<{step_type}")
    return Selection(np.cumsum(positions, out=positions), is_all=False)

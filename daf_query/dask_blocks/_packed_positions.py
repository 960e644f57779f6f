"""Positions along an axis in few bytes, for tasks that travel.  Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Self

import numpy as np
import numpy.typing as npt

_STEPS: Final = ("i1", "i2", "i4", "i8")


@dataclass(frozen=True, slots=True)
class PackedPositions:
    """Positions in their order, duplicates included: the first one, and the step to each next.

    A range takes no bytes; rows that a predicate selects mostly one byte each.

    >>> packed = PackedPositions.of(np.array([7, 8, 9]))
    >>> packed.steps, packed.positions().tolist()
    (b'', [7, 8, 9])
    >>> packed = PackedPositions.of(np.array([5, 2, 2, 300]))
    >>> packed.step_type, packed.positions().tolist()
    ('i2', [5, 2, 2, 300])
    """

    start: int
    """The first position."""
    count: int
    """How many there are."""
    step_type: str
    """The numpy type of the steps, little-endian."""
    steps: bytes
    """The difference of each position to the one before; empty if all are 1."""

    @classmethod
    def of(cls, positions: npt.NDArray[np.int64]) -> Self:
        """Pack positions."""
        if not positions.size:
            return cls(0, 0, "i1", b"")
        start, count = int(positions[0]), int(positions.size)
        steps = np.diff(positions)
        if bool((steps == 1).all()):
            return cls(start, count, "i1", b"")
        largest = max(int(steps.max()), -int(steps.min()))
        step_type = next(name for name in _STEPS if largest <= np.iinfo(name).max)
        return cls(start, count, step_type, steps.astype(f"<{step_type}").tobytes())

    def positions(self) -> npt.NDArray[np.int64]:
        """Return the positions, as a new array."""
        if not self.steps:
            return np.arange(self.start, self.start + self.count)
        positions = np.empty(self.count, np.int64)
        positions[0] = self.start
        positions[1:] = np.frombuffer(self.steps, f"<{self.step_type}")
        return np.cumsum(positions, out=positions)

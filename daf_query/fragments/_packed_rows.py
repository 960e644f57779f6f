"""Positions along an axis in few bytes: a range, or the compressed bits of one."""

from __future__ import annotations

import zlib
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from daf_query.matrix import Selection

Positions = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class PackedRows:
    """Ascending positions, each once; at most a bit for each entry between the first and the last.

    Examples
    --------
    >>> packed = PackedRows.of(np.array([3, 5, 6]))
    >>> packed.start, packed.stop, packed.positions().tolist()
    (3, 7, [3, 5, 6])
    """

    start: int
    """The first."""
    stop: int
    """Behind the last."""
    bits: bytes | None
    """Which of them; None for all."""

    @classmethod
    def of(cls, positions: Positions) -> PackedRows:
        """Pack positions."""
        if not positions.size:
            return cls(0, 0, None)
        start, stop = int(positions[0]), int(positions[-1]) + 1
        if stop - start == positions.size:
            return cls(start, stop, None)
        mask = np.zeros(stop - start, np.bool_)
        mask[positions - start] = True
        return cls(start, stop, zlib.compress(np.packbits(mask).tobytes(), level=1))

    @classmethod
    def of_selection(cls, selection: Selection) -> PackedRows | None:
        """Pack a selection in the order of its axis; None if it is all of it."""
        return None if selection.is_all else cls.of(selection.positions)

    def positions(self) -> Positions:
        """Return the positions."""
        if self.bits is None:
            return np.arange(self.start, self.stop)
        packed = np.frombuffer(zlib.decompress(self.bits), np.uint8)
        mask = np.unpackbits(packed, count=self.stop - self.start)
        return np.flatnonzero(mask) + self.start

"""The grouping of rows: the code of the group of each row."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

LEFT_OUT = -1
"""The code of a row that belongs to no group."""


@dataclass(frozen=True, slots=True)
class GroupedRows:
    """Selected rows of a matrix, each with the code of its group."""

    positions: npt.NDArray[np.int64]
    """0-based positions along the axis of rows; any order, a row that is there twice counts twice.
    """
    codes: npt.NDArray[np.int32]
    """The group of each, from 0; -1 leaves it out.  A row that is there twice has one group."""
    n_groups: int
    """Number of groups; one without rows is allowed."""

    def sizes(self) -> npt.NDArray[np.int64]:
        """Return the number of rows of each group.

        >>> GroupedRows(np.array([5, 5, 7]), np.array([1, 1, -1], np.int32), 2).sizes().tolist()
        [0, 2]
        """
        kept = self.codes[self.codes != LEFT_OUT]
        return np.bincount(kept, minlength=self.n_groups).astype(np.int64)


@dataclass(frozen=True, slots=True)
class Strata:
    """Each selected row once; the rows of a stratum are in one group, and count equally often.

    So the elements of a matrix need no weights: the moments of a stratum are scaled as a whole.
    """

    positions: npt.NDArray[np.int64]
    """The rows, ascending, each once."""
    codes: npt.NDArray[np.int32]
    """The stratum of each."""
    groups: npt.NDArray[np.int64]
    """The group of each stratum."""
    repeats: npt.NDArray[np.int64]
    """How often each row of a stratum counts."""

    @classmethod
    def of(cls, rows: GroupedRows) -> Strata:
        """Return the strata of grouped rows.

        >>> rows = GroupedRows(np.array([5, 3, 5]), np.array([0, 0, 0], np.int32), 1)
        >>> strata = Strata.of(rows)
        >>> strata.positions.tolist(), strata.codes.tolist(), strata.repeats.tolist()
        ([3, 5], [0, 1], [1, 2])
        """
        is_kept = rows.codes != LEFT_OUT
        positions, codes = rows.positions[is_kept], rows.codes[is_kept]
        unique, first, repeats = np.unique(positions, return_index=True, return_counts=True)
        codes = codes[first]
        if repeats.size == 0 or int(repeats.max()) == 1:
            each = np.arange(rows.n_groups)
            return cls(unique, codes, each, np.ones(rows.n_groups, np.int64))
        pairs, strata = np.unique(
            np.stack([codes.astype(np.int64), repeats]), axis=1, return_inverse=True
        )
        return cls(unique, strata.reshape(-1).astype(np.int32), pairs[0], pairs[1])

    def sizes(self) -> npt.NDArray[np.int64]:
        """Return the number of rows of each stratum, each row once."""
        return np.bincount(self.codes, minlength=self.groups.size).astype(np.int64)

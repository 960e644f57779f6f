"""Plan a slice in one stored layout of a matrix: what will be read, and what that costs."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

import numpy as np
import numpy.typing as npt

from daf_query.matrix._costs import Gathering, dense_gathering, sparse_gathering
from daf_query.matrix._selection import Selection
from daf_storage.data import StoredMatrix, ordered

_PAGE_BYTES: Final = 4096

Positions = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class SlicePlan:
    """How a slice will be read from one stored layout."""

    stored: StoredMatrix
    """The matrix in this orientation."""
    major: Selection
    """The selected entries of its columns axis."""
    minor: Selection
    """The selected entries of its rows axis."""
    colptr: Positions | None
    """Where the columns of a sparse matrix begin, from 0; None if dense."""

    @property
    def cost_bytes(self) -> int:
        """About how many bytes of the stored arrays it touches."""
        if self.colptr is None:
            return _dense_cost(self.stored, self.major, self.minor)
        element_bytes = sum(
            array.info.storage_type.dtype.itemsize for array in self.stored.element_arrays()
        )
        return self._count() * element_bytes + self.colptr.nbytes

    @property
    def gathering(self) -> Gathering:
        """What gathering it takes, by which layouts are chosen; computed when it is asked for."""
        if self.colptr is None:
            return dense_gathering(self.stored.dense(), self.major, self.minor)
        starts, counts = ranges_of(self.colptr, self.major)
        width = self.stored.info.shape[0]
        return sparse_gathering(self.stored.element_arrays(), starts, counts, self.minor, width)

    def _count(self) -> int:
        """Return how many stored elements the selected majors have."""
        if self.colptr is None:
            return 0
        return int(ranges_of(self.colptr, self.major)[1].sum())


def plan_slice(stored: StoredMatrix, major: Selection, minor: Selection) -> SlicePlan:
    """Plan a slice in one stored layout; reads ``colptr`` at the most."""
    if not stored.info.is_sparse:
        stored.dense()  # raises if there is none
        return SlicePlan(stored, major, minor, None)
    stored.element_arrays()
    return SlicePlan(stored, major, minor, stored.colptr())


def ordered_plan(plan: SlicePlan) -> SlicePlan:
    """Return a plan of a matrix whose elements are in order, each stored once.

    Of a file of others, all row numbers are read once to know it; if they are not, the plan is of
    a matrix in memory.
    """
    if plan.colptr is None:
        return plan
    stored = ordered(plan.stored)
    return plan if stored is plan.stored else replace(plan, stored=stored, colptr=stored.colptr())


def replan(plan: SlicePlan, major: Selection, minor: Selection) -> SlicePlan:
    """Plan another slice of the same stored layout; nothing is read."""
    if plan.colptr is None:
        return plan_slice(plan.stored, major, minor)
    return SlicePlan(plan.stored, major, minor, plan.colptr)


def ranges_of(colptr: Positions, major: Selection) -> tuple[Positions, Positions]:
    """Return where the elements of each selected major begin, and how many they are.

    Those of all majors are one range.
    """
    if major.is_all:
        return colptr[:1], colptr[-1:] - colptr[0]
    starts = colptr[major.positions]
    counts = colptr[major.positions + 1]
    counts -= starts
    return starts, counts


def _dense_cost(stored: StoredMatrix, major: Selection, minor: Selection) -> int:
    storage_type = stored.info.storage_type
    if storage_type.is_string:
        return 16 * stored.info.shape[0] * stored.info.shape[1]
    column_bytes = stored.info.shape[0] * storage_type.dtype.itemsize
    selected_bytes = minor.size * max(_PAGE_BYTES, storage_type.dtype.itemsize)
    return int(major.size * min(column_bytes, selected_bytes))

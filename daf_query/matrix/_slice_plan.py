"""Plan a slice in one stored layout of a matrix: what will be read, and what that costs."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

import numpy as np
import numpy.typing as npt

from daf_query.matrix._costs import Gathering, dense_gathering, sparse_gathering
from daf_query.matrix._selection import Selection
from daf_storage.spi import StoredMatrix, ordered

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
    cost_bytes: int
    """About how many bytes of the stored arrays it touches."""
    gathering: Gathering
    """What gathering it takes, by which layouts are chosen."""


def plan_slice(stored: StoredMatrix, major: Selection, minor: Selection) -> SlicePlan:
    """Estimate what a slice costs in one stored layout; reads ``colptr`` at the most."""
    if not stored.info.is_sparse:
        gathering = dense_gathering(stored.dense(), major, minor)
        return SlicePlan(stored, major, minor, None, _dense_cost(stored, major, minor), gathering)
    return _sparse_plan(stored, major, minor, stored.colptr())


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
    return _sparse_plan(plan.stored, major, minor, plan.colptr)


def _sparse_plan(
    stored: StoredMatrix, major: Selection, minor: Selection, colptr: Positions
) -> SlicePlan:
    starts, counts = ranges_of(colptr, major)
    arrays = [stored.indices, *([stored.entries("nzval")] if stored.has_values() else [])]
    element_bytes = sum(array.info.storage_type.dtype.itemsize for array in arrays)
    cost_bytes = int(counts.sum()) * element_bytes + colptr.nbytes
    gathering = sparse_gathering(arrays, starts, counts, minor, stored.info.shape[0])
    return SlicePlan(stored, major, minor, colptr, cost_bytes, gathering)


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

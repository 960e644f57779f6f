"""Estimate a slice before it is read: its stored elements, and what reading it costs."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from daf_query.matrix._dense_gather import dense_reads
from daf_query.matrix._gather import blocks_of, spans_of
from daf_query.matrix._layouts import Layout
from daf_query.matrix._slice_plan import Positions, SlicePlan
from daf_query.matrix._stored_elements import StoredElements
from daf_storage.stores import ReadEstimate

_STRING_BYTES = 16


@dataclass(frozen=True, slots=True)
class ElementCount:
    """How many elements a slice has, as far as that is known without reading them."""

    count: int
    """Of a sparse matrix those that are stored, of a dense one all."""
    is_exact: bool
    """Whether there are so many; if not, there are at most so many."""


def count_elements(layouts: Iterable[Layout]) -> ElementCount:
    """Return the number of elements of a slice: the least that any of its layouts allows."""
    return min((_count(layout.plan) for layout in layouts), key=lambda found: found.count)


def _count(plan: SlicePlan) -> ElementCount:
    if plan.colptr is None:
        return ElementCount(plan.major.size * plan.minor.size, is_exact=True)
    counts = major_counts(plan)
    return ElementCount(int(counts.sum()), is_exact=plan.minor.is_all or not counts.any())


def major_counts(plan: SlicePlan) -> Positions:
    """Return how many elements each selected major of a sparse matrix has, at most."""
    counts = plan.ranges()[1]
    if plan.minor.is_all:
        return counts
    _, repeats = np.unique(plan.minor.positions, return_counts=True)
    return np.minimum(counts * int(repeats.max(initial=1)), plan.minor.size)


def minor_counts(plan: SlicePlan) -> Positions:
    """Return how many elements each selected minor of a sparse matrix has; reads their numbers."""
    base = plan.stored.index_base
    elements = StoredElements(plan.stored)
    totals = np.zeros(plan.stored.info.shape[0] + base, np.int64)
    for _, starts, counts in blocks_of(plan):
        totals += np.bincount(elements.rows(starts, counts), minlength=totals.size)
    return totals[plan.minor.positions + base]


def estimate_read(plan: SlicePlan) -> ReadEstimate:
    """Return what gathering a slice costs beyond its plan; no values are read.

    In the order, and the pieces, in which gathering reads.
    """
    estimate = ReadEstimate()
    is_sparse = plan.stored.info.is_sparse
    arrays = plan.stored.element_arrays() if is_sparse else [plan.stored.dense()]
    if arrays[0].info.storage_type.is_string:
        estimate.add_inexact(_STRING_BYTES * arrays[0].info.size, requests=0)
    elif all(array.info.is_mappable for array in arrays):
        count = plan.ranges()[1].sum() if is_sparse else plan.major.size * plan.minor.size
        for array in arrays:
            estimate.add_bytes(int(count) * array.info.storage_type.dtype.itemsize)
    elif is_sparse:
        for _, starts, counts in blocks_of(plan):
            for array in arrays:
                array.estimate(spans_of(starts, counts), estimate)
    else:
        for read in dense_reads(arrays[0], plan.major.positions, plan.minor):
            arrays[0].estimate(read.runs, estimate, read.within)
    return estimate

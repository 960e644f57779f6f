"""Read a slice out of one stored layout of a sparse matrix, without the rest of it.

A matrix is stored by columns; the *major* axis is the one whose entries are those columns, the
*minor* axis the other.  The steps:

1. Group the selected majors into blocks of a bounded number of stored elements: as many as stay in
   the cache of a core from one step to the next.
2. For each block, take the elements of its majors (`daf_query.matrix._stored_elements`).
3. Translate their minors: stored indices count from 1, of files of others from 0, and those that
   are not selected are dropped.  The stored arrays are never shifted as a whole.
4. Join the blocks to CSR.  Where every minor is selected, ``colptr`` says where each block goes.
5. Repeat the minors that were selected more than once.

Memory: at most two times the result, and a block.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from daf_query.matrix._slice_plan import Positions, SlicePlan
from daf_query.matrix._stored_elements import StoredElements, joined_runs
from daf_storage._lazy import lazy_module
from daf_storage.base import Span

if TYPE_CHECKING:
    import scipy.sparse as sp
else:
    sp = lazy_module("scipy.sparse")

_BLOCK_ELEMENTS = 1 << 18
_FETCHED_ELEMENTS = 4 << 20
_KEPT_BYTES = 24 << 20


def gather_sparse(
    plan: SlicePlan, *, progress: Callable[[int], None] = lambda _: None
) -> sp.csr_array[Any]:
    """Return the slice of a sparse matrix as a CSR array of shape (majors, minors).

    Parameters
    ----------
    progress
        Called after each block with its number of stored elements.

    Raises
    ------
    CorruptDataError
        A row number of the slice leaves its axis.
    """
    keep_freed_memory()
    if plan.minor.is_all:
        return _gather_whole_majors(plan, progress)
    positions = plan.minor.positions
    unique, order = np.unique(positions, return_inverse=True)
    if unique.size == positions.size:
        return _gather_minors(plan, positions, progress)
    gathered = _gather_minors(plan, unique, progress)
    repeated: sp.csr_array[Any] = sp.csr_array(gathered[:, order])  # step 5
    repeated.sort_indices()
    return repeated


def _gather_whole_majors(plan: SlicePlan, progress: Callable[[int], None]) -> sp.csr_array[Any]:
    """Gather majors with all of their elements, each block straight into its place."""
    width, base = plan.stored.info.shape[0], plan.stored.index_base
    indptr = _indptr(plan.ranges()[1], width)
    elements = StoredElements(plan.stored)
    indices = np.empty(int(indptr[-1]), indptr.dtype)
    data = np.empty(indices.size, _dtype(plan))
    start = 0
    for _, starts, counts in blocks_of(plan):
        rows, values = elements.read(starts, counts)
        stop = start + rows.size
        np.subtract(rows, base, out=indices[start:stop], casting="unsafe")
        data[start:stop] = values
        progress(rows.size)
        start = stop
    return _csr((data, indices, indptr), width, is_ordered=plan.stored.is_ordered)


def _gather_minors(
    plan: SlicePlan, minors: Positions, progress: Callable[[int], None]
) -> sp.csr_array[Any]:
    """Gather the elements of some minors, each of which is given once, in their order."""
    elements, base = StoredElements(plan.stored), plan.stored.index_base
    offset_of_minor = np.full(plan.stored.info.shape[0] + base, -1, np.int32)
    offset_of_minor[minors + base] = np.arange(minors.size)  # by the stored index
    is_wanted = offset_of_minor >= 0
    sizes = np.zeros(plan.major.size, np.int64)
    likely = int(plan.ranges()[1].sum()) * minors.size // max(plan.stored.info.shape[0], 1)
    indices, data = np.empty(likely, np.int32), np.empty(likely, _dtype(plan))
    stop = 0
    for majors, starts, counts in blocks_of(plan):
        rows, values = elements.read(starts, counts)
        selected = np.flatnonzero(is_wanted[rows])
        sizes[majors.slice] = np.diff(np.searchsorted(selected, np.cumsum(counts)), prepend=0)
        start, stop = stop, stop + selected.size
        for array, found in ((indices, offset_of_minor[rows[selected]]), (data, values[selected])):
            if stop > array.size:
                array.resize(max(stop, array.size + (array.size >> 2)), refcheck=False)
            array[start:stop] = found
        progress(rows.size)
    indices.resize(stop, refcheck=False)
    data.resize(stop, refcheck=False)
    indptr = _indptr(sizes, minors.size)
    parts = data, indices.astype(indptr.dtype, copy=False), indptr
    return _csr(parts, minors.size, is_ordered=plan.stored.is_ordered)


def _dtype(plan: SlicePlan) -> np.dtype[Any]:
    return plan.stored.info.storage_type.dtype.newbyteorder("=")


def blocks_of(plan: SlicePlan) -> Iterator[tuple[Span, Positions, Positions]]:
    """Yield the selected majors in blocks of a bounded number of elements, with their ranges."""
    starts, counts = plan.ranges()
    is_mapped = plan.stored.indices.info.is_mappable
    # Of what is not mapped, several requests at a time.
    for majors, _ in plan.groups(_BLOCK_ELEMENTS if is_mapped else _FETCHED_ELEMENTS):
        yield majors, starts[majors.slice], counts[majors.slice]


def spans_of(starts: Positions, lengths: Positions) -> list[Span]:
    """Return the spans that are read for ranges of a stored array that is not mapped."""
    runs = zip(*(each.tolist() for each in joined_runs(starts, lengths)), strict=True)
    return [Span(start, start + size) for start, size in runs if size]


def _indptr(counts: Positions, width: int) -> npt.NDArray[Any]:
    """Return where each row of a CSR array begins, in the integers of all of its indices."""
    largest = max(int(counts.sum()), counts.size, width)
    indptr = np.zeros(counts.size + 1, np.int32 if largest < 2**31 else np.int64)
    np.cumsum(counts, out=indptr[1:])
    return indptr


def _csr(
    parts: tuple[npt.NDArray[Any], npt.NDArray[Any], npt.NDArray[Any]],
    width: int,
    *,
    is_ordered: bool,
) -> sp.csr_array[Any]:
    """Return a CSR array of data, indices and indptr, none of which is copied.

    Of a file of others, elements that are stored twice are added up.
    """
    data, indices, indptr = parts
    result: Any = sp.csr_array((indptr.size - 1, width), dtype=data.dtype)
    result.data, result.indices, result.indptr = data, indices, indptr
    # Asked first of foreign ones, which nearly all are: it is one pass for both questions.
    if is_ordered or not result.has_canonical_format:
        result.sort_indices()  # selected in another order, or stored so; else nothing is done
        if not is_ordered:
            result.sum_duplicates()
    found: sp.csr_array[Any] = result
    return found


@cache
def keep_freed_memory() -> None:
    """Have the allocator keep freed memory, up to twice 24 MiB; called once, it holds for good.

    glibc returns freed memory at once until larger arrays than those were freed.  Every block would
    have its pages mapped and cleared again, which takes longer than what is computed in them.
    """
    np.empty(_KEPT_BYTES, np.uint8)

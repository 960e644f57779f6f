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

Memory: at most two times the result, and a block.  Neither the blocks nor their parts outlive the
step in which they are joined.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from daf_query.matrix._slice_plan import Positions, SlicePlan
from daf_query.matrix._stored_elements import StoredElements, joined_runs, read_run
from daf_storage._lazy import lazy_module
from daf_storage.base import Span

if TYPE_CHECKING:
    import scipy.sparse as sp
else:
    sp = lazy_module("scipy.sparse")

_BLOCK_ELEMENTS = 1 << 18
_FETCHED_ELEMENTS = 4 << 20
_BLOCK_MAJORS = 1 << 20
_SPARE_ROOM = 1.02
_PIECE_ELEMENTS = 1 << 15
_KEPT_BYTES = 24 << 20
_FEW_MINORS = 6
"""Up to how many minors are compared with, rather than looked up in a table."""


@dataclass(frozen=True, slots=True)
class Block:
    """Ranges of the stored elements, each those of a major or of a part of one."""

    majors: Positions
    """The offset of each range's major within the selected majors, ascending."""
    starts: Positions
    """Where each range begins in the stored arrays, from 0."""
    counts: Positions
    """How many elements it has."""


def gather_sparse(
    plan: SlicePlan, *, progress: Callable[[int], None] = lambda _: None
) -> sp.csr_array[Any]:
    """Return the slice as a CSR array of shape (majors, minors).

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


def scatter_major(plan: SlicePlan) -> npt.NDArray[Any] | None:
    """Return the values of a single major at all minors, dense; None of any other slice.

    Nor of one whose row numbers do not ascend: elements may be stored twice, and are added up.

    Raises
    ------
    CorruptDataError
        A row number leaves its axis.
    """
    if plan.colptr is None or not plan.minor.is_all or plan.major.size != 1:
        return None
    keep_freed_memory()
    stored = plan.stored
    major = int(plan.major.positions[0])
    rows, values = read_run(stored, int(plan.colptr[major]), int(plan.colptr[major + 1]))
    if not (rows[1:] > rows[:-1]).all():
        return None
    base = stored.index_base
    dense = np.zeros(stored.info.shape[0] + base, values.dtype.newbyteorder("="))
    dense[rows] = values
    return dense[base:]


def _gather_whole_majors(plan: SlicePlan, progress: Callable[[int], None]) -> sp.csr_array[Any]:
    """Gather majors with all of their elements, each block straight into its place."""
    width = plan.stored.info.shape[0]
    indptr = _indptr(_counts(plan, plan.major.positions), width)
    elements = StoredElements(plan.stored)
    indices = np.empty(int(indptr[-1]), indptr.dtype)
    data = np.empty(indices.size, _dtype(plan))
    start = 0
    for block in _runs_of(plan) if elements.is_mapped else blocks_of(plan):
        stop = start + int(block.counts.sum())
        elements.read_into(block.starts, block.counts, indices[start:stop], data[start:stop])
        progress(stop - start)
        start = stop
    return _csr((data, indices, indptr), width, is_ordered=plan.stored.is_ordered)


def _gather_minors(
    plan: SlicePlan, minors: Positions, progress: Callable[[int], None]
) -> sp.csr_array[Any]:
    """Gather the elements of some minors, each of which is given once, in their order."""
    total = int(_counts(plan, plan.major.positions).sum())
    elements = StoredElements(plan.stored)
    base = plan.stored.index_base
    offset_of_minor = np.full(plan.stored.info.shape[0] + base, -1, dtype=np.int32)
    offset_of_minor[minors + base] = np.arange(minors.size)  # by the stored index
    is_wanted = offset_of_minor >= 0
    counts = np.zeros(plan.major.size, np.int64)
    indices, data = _Filled(np.dtype(np.int32)), _Filled(_dtype(plan))
    n_read = 0
    for block in blocks_of(plan):
        stored, values = elements.read(block.starts, block.counts)
        if minors.size <= _FEW_MINORS:
            selected = _equal_to_any(stored, (minors + base).tolist())
        else:
            selected = _looked_up(is_wanted, stored)
        borders = np.concatenate([[0], np.cumsum(block.counts)])
        np.add.at(counts, block.majors, np.diff(np.searchsorted(selected, borders)))
        n_read += stored.size
        share_read = n_read / max(total, 1)
        indices.add(offset_of_minor[stored[selected]], None, share_read=share_read)
        data.add(values, selected, share_read=share_read)
        progress(stored.size)
    indptr = _indptr(counts, minors.size)
    parts = (data.done(), indices.done().astype(indptr.dtype, copy=False), indptr)
    return _csr(parts, minors.size, is_ordered=plan.stored.is_ordered)


class _Filled:
    """An array that is filled from its beginning, with about as much room as it will need."""

    def __init__(self, dtype: np.dtype[Any]) -> None:
        self._values = np.empty(0, dtype)
        self._size = 0

    def add(
        self, source: npt.NDArray[Any], selected: npt.NDArray[np.intp] | None, *, share_read: float
    ) -> None:
        """Add some elements, or all; so large a share of what they are from is read by then."""
        start = self._size
        stop = start + (source if selected is None else selected).size
        if stop > self._values.size:
            room = stop if share_read >= 1 else int(stop / share_read * _SPARE_ROOM)
            self._reserve(max(room, stop))
        if selected is None:
            self._values[start:stop] = source
        else:
            source.take(selected, out=self._values[start:stop], mode="clip")
        self._size = stop

    def _reserve(self, size: int) -> None:
        if self._size:
            self._values.resize(size, refcheck=False)
        else:
            self._values = np.empty(size, self._values.dtype)

    def done(self) -> npt.NDArray[Any]:
        """Return what was added; the rest of the memory is given back."""
        self._values.resize(self._size, refcheck=False)
        return self._values


def _equal_to_any(rows: npt.NDArray[Any], wanted: list[int]) -> npt.NDArray[np.intp]:
    """Return which row numbers are one of a few.

    >>> _equal_to_any(np.array([3, 1, 2, 3]), [3, 2]).tolist()
    [0, 2, 3]
    """
    is_wanted = rows == wanted[0] if wanted else np.zeros(rows.size, bool)
    for number in wanted[1:]:
        is_wanted |= rows == number
    return np.flatnonzero(is_wanted)


def _looked_up(is_wanted: npt.NDArray[np.bool_], rows: npt.NDArray[Any]) -> npt.NDArray[np.intp]:
    """Return which row numbers are wanted, by a table of all, in which they are known to be.

    They are looked up in pieces that stay in the cache; of most elements nothing else is asked.
    """
    if rows.dtype == np.uint64:
        rows = rows.view(np.int64)
    found = np.empty(min(rows.size, _PIECE_ELEMENTS), bool)
    selected = [np.empty(0, np.intp)]
    for start in range(0, rows.size, _PIECE_ELEMENTS):
        piece = rows[start : start + _PIECE_ELEMENTS]
        is_wanted.take(piece, out=found[: piece.size], mode="clip")
        selected.append(np.flatnonzero(found[: piece.size]) + start)
    return np.concatenate(selected)


def _counts(plan: SlicePlan, majors: Positions) -> Positions:
    """Return the number of stored elements of each of some majors."""
    colptr = _colptr(plan)
    if majors is plan.major.positions and plan.major.is_all:
        return np.diff(colptr)
    counts = colptr[majors + 1]
    counts -= colptr[majors]
    return counts


def _dtype(plan: SlicePlan) -> np.dtype[Any]:
    return plan.stored.info.storage_type.dtype.newbyteorder("=")


def _colptr(plan: SlicePlan) -> Positions:
    if plan.colptr is None:
        raise TypeError("the plan is for a dense matrix")
    return plan.colptr


def blocks_of(plan: SlicePlan) -> Iterator[Block]:
    """Yield the stored elements of the selected majors in blocks of a bounded size."""
    is_mapped = plan.stored.indices.info.is_mappable
    limit = _BLOCK_ELEMENTS if is_mapped else _FETCHED_ELEMENTS  # several requests at a time
    for first in range(0, plan.major.size, _BLOCK_MAJORS):
        majors = plan.major.positions[first : first + _BLOCK_MAJORS]
        block = Block(
            np.arange(first, first + majors.size), _colptr(plan)[majors], _counts(plan, majors)
        )
        yield from _split(_cut(block, limit), limit)


def _runs_of(plan: SlicePlan) -> Iterator[Block]:
    """Yield the same elements in blocks whose ranges are runs of neighbouring majors."""
    majors = plan.major.positions
    starts, counts = joined_runs(_colptr(plan)[majors], _counts(plan, majors))
    if starts.size:
        block = Block(np.arange(starts.size), starts, counts)
        yield from _split(_cut(block, _BLOCK_ELEMENTS), _BLOCK_ELEMENTS)


def _cut(block: Block, limit: int) -> Block:
    """Cut each range that has more elements than the limit."""
    if int(block.counts.max()) <= limit:
        return block
    n_parts = np.maximum(-(-block.counts // limit), 1)
    number = np.arange(int(n_parts.sum())) - np.repeat(np.cumsum(n_parts) - n_parts, n_parts)
    return Block(
        np.repeat(block.majors, n_parts),
        np.repeat(block.starts, n_parts) + number * limit,
        np.minimum(np.repeat(block.counts, n_parts) - number * limit, limit),
    )


def _split(block: Block, limit: int) -> Iterator[Block]:
    """Split a block into some of about so many elements: less than twice the limit."""
    groups = np.cumsum(block.counts) // limit
    cuts = [0, *(np.flatnonzero(np.diff(groups)) + 1).tolist(), block.counts.size]
    for start, stop in pairwise(cuts):
        part = slice(start, stop)
        yield Block(block.majors[part], block.starts[part], block.counts[part])


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

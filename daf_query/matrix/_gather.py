"""Plan and read a slice out of one stored layout of a matrix, without the rest of it.

A matrix is stored by columns; the *major* axis is the one whose entries are those columns, the
*minor* axis the other.  The steps:

1. Estimate the bytes that each stored layout costs (`plan_slice`); a sparse one reads ``colptr``.
2. Group the selected majors into blocks of a bounded number of stored elements.
3. For each block, copy the runs of neighbouring majors out of the mapped arrays.
4. Translate the minors of that copy: stored indices count from 1, of files of others from 0, and
   those that are not selected are dropped.  The stored arrays are never shifted as a whole.
5. Join the blocks to CSR.  Where every minor is selected, ``colptr`` says where each block goes.
6. Repeat the minors that were selected more than once.

A dense matrix needs none of 2 to 6: it is indexed, or read chunk by chunk where it is not mapped.

Memory: at most two times the result, and a block.  Neither the blocks nor their parts outlive the
step in which they are joined.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from daf_query.matrix._selection import Selection
from daf_storage.spi import (
    Span,
    StoredMatrix,
    checked_indices,
    lazy_module,
    ordered,
    read_joined,
)

if TYPE_CHECKING:
    import scipy.sparse as sp
else:
    sp = lazy_module("scipy.sparse")

_BLOCK_ELEMENTS = 1 << 20
_FETCHED_ELEMENTS = 4 << 20
_BLOCK_MAJORS = 1 << 20
_BLOCK_BYTES = 32 << 20
_PAGE_BYTES = 4096

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


@dataclass(frozen=True, slots=True)
class Block:
    """Ranges of the stored elements, each those of a major or of a part of one."""

    majors: Positions
    """The offset of each range's major within the selected majors, ascending."""
    starts: Positions
    """Where each range begins in the stored arrays, from 0."""
    counts: Positions
    """How many elements it has."""


@dataclass(frozen=True, slots=True)
class DenseRead:
    """Some elements of a dense matrix that are read at a time."""

    first: int
    """The offset of the first major within the selected ones."""
    runs: list[Span]
    """The spans of majors."""
    within: Span | None
    """Of each, this span of minors; all if None."""
    minors: Positions
    """The offsets, within the selected minors, of those that it has."""


def plan_slice(stored: StoredMatrix, major: Selection, minor: Selection) -> SlicePlan:
    """Estimate what a slice costs in one stored layout; reads ``colptr`` at the most."""
    if not stored.info.is_sparse:
        return SlicePlan(stored, major, minor, None, _dense_cost(stored, major, minor))
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
    n_elements = int((colptr[major.positions + 1] - colptr[major.positions]).sum())
    element_bytes = stored.indices.info.storage_type.dtype.itemsize
    if stored.has_values():
        element_bytes += stored.entries("nzval").info.storage_type.dtype.itemsize
    return SlicePlan(stored, major, minor, colptr, n_elements * element_bytes + colptr.nbytes)


def _dense_cost(stored: StoredMatrix, major: Selection, minor: Selection) -> int:
    storage_type = stored.info.storage_type
    if storage_type.is_string:
        return 16 * stored.info.shape[0] * stored.info.shape[1]
    column_bytes = stored.info.shape[0] * storage_type.dtype.itemsize
    selected_bytes = minor.positions.size * max(_PAGE_BYTES, storage_type.dtype.itemsize)
    return int(major.positions.size * min(column_bytes, selected_bytes))


def gather_dense(plan: SlicePlan) -> npt.NDArray[Any]:
    """Return the slice as (majors, minors); a view where both are plain ranges."""
    array = plan.stored.dense()
    major, minor = plan.major, plan.minor
    if array.info.storage_type.is_string:
        strings = array.read_strings().to_numpy(zero_copy_only=False).reshape(array.info.shape)
        return _index(strings, major, minor)
    if array.info.is_mappable:
        return _index(array.read(), major, minor)
    return _read_dense(array, major.positions, minor)


def _read_dense(array: Any, majors: Positions, minor: Selection) -> npt.NDArray[Any]:
    """Read a dense matrix that is not mapped: block by block, each chunk as rarely as possible."""
    values = np.empty((majors.size, minor.positions.size), array.info.storage_type.dtype)
    for read in dense_reads(array, majors, minor):
        start = read.first
        for part in array.read_spans(read.runs, read.within):
            if read.within is None:
                values[start : start + len(part)] = part
            else:
                picked = minor.positions[read.minors] - read.within.start
                values[start : start + len(part), read.minors] = part[:, picked]
            start += len(part)
    return values


def dense_reads(array: Any, majors: Positions, minor: Selection) -> Iterator[DenseRead]:
    """Yield the reads of a dense matrix that is not mapped."""
    item_bytes = array.info.storage_type.dtype.itemsize
    for span, offsets in _spans_of_minors(array, minor):
        rows = max(_BLOCK_BYTES // max(span.size * item_bytes, 1), array.info.chunks[0], 1)
        for first in range(0, majors.size, rows):
            runs = list(_runs(majors[first : first + rows]))
            yield DenseRead(first, runs, None if minor.is_all else span, offsets)


def _spans_of_minors(array: Any, minor: Selection) -> Iterator[tuple[Span, Positions]]:
    """Yield the spans of minors to read, each with the offsets of what is selected of it."""
    if minor.is_all:
        yield Span(0, array.info.shape[1]), minor.positions
        return
    yield from _spans_of_chunks(minor.positions, array.info.chunks[1])


def _spans_of_chunks(positions: Positions, chunk: int) -> Iterator[tuple[Span, Positions]]:
    """Yield the span of each group of neighbouring chunks, and the offsets of its positions."""
    order = np.argsort(positions, kind="stable")
    chunks = positions[order] // chunk
    for offsets in np.split(order, np.flatnonzero(np.diff(chunks) > 1) + 1):
        if offsets.size:
            first, last = int(positions[offsets[0]]), int(positions[offsets[-1]])
            yield Span(first, last + 1), offsets


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
    if plan.minor.is_all:
        return _gather_whole_majors(plan, progress)
    positions = plan.minor.positions
    unique, order = np.unique(positions, return_inverse=True)
    if unique.size == positions.size:
        return _gather_minors(plan, positions, progress)
    gathered = _gather_minors(plan, unique, progress)
    repeated: sp.csr_array[Any] = sp.csr_array(gathered[:, order])  # step 6
    repeated.sort_indices()
    return repeated


def _gather_whole_majors(plan: SlicePlan, progress: Callable[[int], None]) -> sp.csr_array[Any]:
    """Gather majors with all of their elements, each block straight into its place."""
    counts = _counts(plan, plan.major.positions)
    width = plan.stored.info.shape[0]
    indptr = _indptr(counts, width)
    indices = np.empty(int(indptr[-1]), indptr.dtype)
    data = np.empty(indices.size, _dtype(plan))
    start = 0
    for block in blocks_of(plan):
        minors, values = _read_block(plan, block)
        stop = start + minors.size
        np.subtract(minors, plan.stored.index_base, out=indices[start:stop], casting="unsafe")
        data[start:stop] = values
        start = stop
        progress(minors.size)
    return _csr((data, indices, indptr), width, is_ordered=plan.stored.is_ordered)


def _gather_minors(
    plan: SlicePlan, minors: Positions, progress: Callable[[int], None]
) -> sp.csr_array[Any]:
    """Gather the elements of some minors, each of which is given once, in their order."""
    base = plan.stored.index_base
    offset_of_minor = np.full(plan.stored.info.shape[0] + base, -1, dtype=np.int32)
    offset_of_minor[minors + base] = np.arange(minors.size)  # by the stored index
    counts = np.zeros(plan.major.positions.size, np.int64)
    all_indices: list[npt.NDArray[Any]] = []
    all_values: list[npt.NDArray[Any]] = []
    for block in blocks_of(plan):
        stored, values = _read_block(plan, block)
        offsets = offset_of_minor[stored]
        selected = np.flatnonzero(offsets >= 0)
        borders = np.concatenate([[0], np.cumsum(block.counts)])
        np.add.at(counts, block.majors, np.diff(np.searchsorted(selected, borders)))
        all_indices.append(offsets[selected])
        all_values.append(values[selected])
        progress(stored.size)
    indptr = _indptr(counts, minors.size)
    indices = _joined(all_indices, indptr.dtype)
    parts = (_joined(all_values, _dtype(plan)), indices, indptr)
    return _csr(parts, minors.size, is_ordered=plan.stored.is_ordered)


def _counts(plan: SlicePlan, majors: Positions) -> Positions:
    """Return the number of stored elements of each of some majors."""
    colptr = _colptr(plan)
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
    for first in range(0, plan.major.positions.size, _BLOCK_MAJORS):
        majors = plan.major.positions[first : first + _BLOCK_MAJORS]
        block = Block(
            np.arange(first, first + majors.size), _colptr(plan)[majors], _counts(plan, majors)
        )
        yield from _split(_cut(block, limit), limit)


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


def _read_block(plan: SlicePlan, block: Block) -> tuple[npt.NDArray[Any], npt.NDArray[Any]]:
    """Return the minors, as they are stored, and the values of the elements of a block."""
    stored = plan.stored
    minors = read_minors(plan, block)
    if not stored.has_values():
        return minors, np.ones(minors.size, dtype=bool)
    return minors, copy_runs(stored.entries("nzval"), block.starts, block.counts)


def read_minors(plan: SlicePlan, block: Block) -> npt.NDArray[Any]:
    """Return the minors of the elements of a block as stored: from ``stored.index_base``.

    Raises
    ------
    CorruptDataError
        One of them leaves its axis.
    """
    stored = plan.stored
    return checked_indices(stored, copy_runs(stored.indices, block.starts, block.counts))


def copy_runs(array: Any, starts: Positions, lengths: Positions) -> npt.NDArray[Any]:
    """Copy ranges of a 1-D stored array, one after the other; adjacent ranges are one run."""
    run_starts, run_lengths = _joined_runs(starts, lengths)
    copied: npt.NDArray[Any] = read_joined(array, run_starts, run_lengths)
    return copied


def _joined_runs(starts: Positions, lengths: Positions) -> tuple[Positions, Positions]:
    """Return the starts and the lengths of ranges of which adjacent ones are joined."""
    is_first = np.ones(starts.size, dtype=bool)
    is_first[1:] = starts[1:] != starts[:-1] + lengths[:-1]
    first = np.flatnonzero(is_first)
    return starts[first], np.add.reduceat(lengths, first) if first.size else lengths


def spans_of(starts: Positions, lengths: Positions) -> list[Span]:
    """Return the spans that are read for ranges of a stored array that is not mapped."""
    runs = zip(*(each.tolist() for each in _joined_runs(starts, lengths)), strict=True)
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
    result.sort_indices()  # selected in another order, or by a foreign writer; else nothing is done
    if not is_ordered:
        result.sum_duplicates()
    return sp.csr_array(result)


def _joined(parts: list[npt.NDArray[Any]], dtype: npt.DTypeLike) -> npt.NDArray[Any]:
    """Return the parts as one array; the list is emptied, so that each ends when it is copied."""
    if len(parts) == 1:
        return parts.pop().astype(dtype, copy=False)
    joined = np.empty(sum(part.size for part in parts), dtype)
    stop = joined.size
    while parts:
        part = parts.pop()
        joined[stop - part.size : stop] = part
        stop -= part.size
    return joined


def _concatenated(
    parts: Iterable[npt.NDArray[Any]], empty: tuple[int, ...], dtype: np.dtype[Any]
) -> npt.NDArray[Any]:
    """Return the parts as one array, of the shape ``empty`` if there are none."""
    return np.concatenate([np.empty(empty, dtype), *parts])


def _index(values: npt.NDArray[Any], major: Selection, minor: Selection) -> npt.NDArray[Any]:
    rows = _as_slice(major.positions)
    columns = slice(None) if minor.is_all else _as_slice(minor.positions)
    if isinstance(rows, slice) or isinstance(columns, slice):
        return values[rows, columns]
    return values[np.ix_(rows, columns)]


def _as_slice(positions: Positions) -> slice | Positions:
    """Return a range of neighbours as a slice, which needs no copy."""
    if positions.size and positions[-1] - positions[0] == positions.size - 1:
        if bool(np.all(np.diff(positions) == 1)):
            return slice(int(positions[0]), int(positions[-1]) + 1)
    return positions


def _runs(positions: Positions) -> Iterator[Span]:
    """Yield the runs of neighbours in a list of positions."""
    if positions.size == 0:
        return
    for run in np.split(positions, np.flatnonzero(np.diff(positions) != 1) + 1):
        yield Span(int(run[0]), int(run[-1]) + 1)

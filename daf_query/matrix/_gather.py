"""Plan and read a slice out of one stored layout of a matrix, without the rest of it.

A matrix is stored by columns; the *major* axis is the one whose entries are those columns, the
*minor* axis the other.  The steps:

1. Estimate the bytes that each stored layout costs (`plan_slice`); a sparse one reads ``colptr``.
2. Group the selected majors into blocks of a bounded number of stored elements.
3. For each block, copy the runs of neighbouring majors out of the mapped arrays.
4. Translate the minors of that copy: stored indices count from 1, and those that are not selected
   are dropped.  The stored arrays are never shifted as a whole.
5. Join the blocks to CSR, and repeat or reorder the minors as they were selected.

A dense matrix needs none of 2 to 5: it is indexed, or read chunk by chunk where it is not mapped.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from daf_query.matrix._selection import Selection
from daf_storage import errors
from daf_storage.spi import Span, StoredMatrix, lazy_module

if TYPE_CHECKING:
    import scipy.sparse as sp
else:
    sp = lazy_module("scipy.sparse")

_BLOCK_ELEMENTS = 4 << 20
_MIN_RUN_ELEMENTS = 256
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
class _SparseBlock:
    """The selected elements of some majors, one major after the other."""

    counts: Positions
    """How many elements each major has."""
    indices: npt.NDArray[Any]
    """The minor of each element, from 0."""
    values: npt.NDArray[Any]


def plan_slice(stored: StoredMatrix, major: Selection, minor: Selection) -> SlicePlan:
    """Estimate what a slice costs in one stored layout; reads ``colptr`` at the most."""
    if not stored.info.is_sparse:
        return SlicePlan(stored, major, minor, None, _dense_cost(stored, major, minor))
    colptr = stored.colptr()
    n_elements = int((colptr[major.positions + 1] - colptr[major.positions]).sum())
    element_bytes = stored.entries("rowval").info.storage_type.dtype.itemsize
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
    spans = list(_runs(major.positions))
    dtype = array.info.storage_type.dtype
    if minor.is_all:
        return _concatenated(array.read_spans(spans), (0, array.info.shape[1]), dtype)
    values = np.empty((major.positions.size, minor.positions.size), dtype)
    for span, offsets in _spans_of_chunks(minor.positions, array.info.chunks[1]):
        block = _concatenated(array.read_spans(spans, span), (0, span.size), dtype)
        values[:, offsets] = block[:, minor.positions[offsets] - span.start]
    return values


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
    colptr = _colptr(plan)
    n_minor = plan.stored.info.shape[0]
    # Each selected minor once, ascending; `order` repeats and reorders them as they were selected.
    unique, order = np.unique(plan.minor.positions, return_inverse=True)
    offset_of_minor = None
    if not plan.minor.is_all:
        offset_of_minor = np.full(n_minor + 1, -1, dtype=np.int32)  # by the stored index, from 1
        offset_of_minor[unique + 1] = np.arange(unique.size)
    blocks = []
    for majors in _blocks(plan):  # step 2
        blocks.append(_gather_block(plan, majors, offset_of_minor))  # steps 3 and 4
        progress(int((colptr[majors + 1] - colptr[majors]).sum()))
    # Step 5.
    gathered = _csr(plan, blocks, n_minor if offset_of_minor is None else unique.size)
    if offset_of_minor is None or np.array_equal(order, np.arange(unique.size)):
        return gathered
    reordered: sp.csr_array[Any] = sp.csr_array(gathered[:, order])
    reordered.sort_indices()
    return reordered


def _colptr(plan: SlicePlan) -> Positions:
    if plan.colptr is None:
        raise TypeError("the plan is for a dense matrix")
    return plan.colptr


def _blocks(plan: SlicePlan) -> Iterator[Positions]:
    """Yield the selected majors in groups of bounded numbers of stored elements."""
    colptr, majors = _colptr(plan), plan.major.positions
    if majors.size == 0:
        return
    ends = np.cumsum(colptr[majors + 1] - colptr[majors])
    groups = ends // _BLOCK_ELEMENTS
    yield from np.split(majors, np.flatnonzero(np.diff(groups)) + 1)


def _gather_block(
    plan: SlicePlan, majors: Positions, offset_of_minor: npt.NDArray[np.int32] | None
) -> _SparseBlock:
    """Return the elements of some majors, without those of minors that are not selected."""
    stored, colptr = plan.stored, _colptr(plan)
    # Step 3: copy the runs.
    starts, counts = colptr[majors], colptr[majors + 1] - colptr[majors]
    minors = _copy_runs(stored.entries("rowval"), starts, counts)
    n_minor = stored.info.shape[0]
    if minors.size and (int(minors.min()) < 1 or int(minors.max()) > n_minor):
        raise errors.CorruptDataError(
            f"{stored.what}: rowval leaves the range 1 to {n_minor:,} of its rows axis"
        )
    if stored.has_values():
        values = _copy_runs(stored.entries("nzval"), starts, counts)
    else:
        values = np.ones(minors.size, dtype=bool)
    # Step 4: count from 0, and drop what is not selected.
    if offset_of_minor is None:
        return _SparseBlock(counts, minors - minors.dtype.type(1), values)
    offsets = offset_of_minor[minors]
    is_selected = offsets >= 0
    selected_before = np.concatenate([[0], np.cumsum(is_selected)])
    borders = np.concatenate([[0], np.cumsum(counts)])
    return _SparseBlock(
        np.diff(selected_before[borders]), offsets[is_selected], values[is_selected]
    )


def _copy_runs(array: Any, starts: Positions, lengths: Positions) -> npt.NDArray[Any]:
    """Copy ranges of a 1-D stored array, one after the other; adjacent ranges are one run."""
    is_first = np.ones(starts.size, dtype=bool)
    is_first[1:] = starts[1:] != starts[:-1] + lengths[:-1]
    first = np.flatnonzero(is_first)
    run_starts = starts[first]
    run_lengths = np.add.reduceat(lengths, first) if first.size else lengths
    total = int(run_lengths.sum())
    runs = list(zip(run_starts.tolist(), run_lengths.tolist(), strict=True))
    if not array.info.is_mappable:
        spans = [Span(start, start + size) for start, size in runs if size]
        return _concatenated(array.read_spans(spans), (0,), array.info.storage_type.dtype)
    mapped = array.read()
    if run_starts.size * _MIN_RUN_ELEMENTS <= total:  # long runs: slice by slice
        copied = np.empty(total, mapped.dtype)
        end = 0
        for start, size in runs:
            copied[end : end + size] = mapped[start : start + size]
            end += size
        return copied
    # Short runs: one fancy index for all.
    shifts = np.repeat(run_starts - (np.cumsum(run_lengths) - run_lengths), run_lengths)
    taken: npt.NDArray[Any] = mapped[shifts + np.arange(total)]
    return taken


def _csr(plan: SlicePlan, blocks: list[_SparseBlock], width: int) -> sp.csr_array[Any]:
    height = plan.major.positions.size
    dtype = plan.stored.info.storage_type.dtype.newbyteorder("=")
    result: Any = sp.csr_array((height, width), dtype=dtype)
    if not blocks:
        return sp.csr_array(result)
    nnz = sum(block.values.size for block in blocks)
    index_type = np.int32 if max(nnz, height, width) < 2**31 else np.int64
    counts = np.concatenate([block.counts for block in blocks])
    result.indptr = np.concatenate([[0], np.cumsum(counts)]).astype(index_type)
    result.indices = _joined([block.indices for block in blocks]).astype(index_type, copy=False)
    result.data = _joined([block.values for block in blocks])
    result.sort_indices()  # foreign writers need not have sorted them; else nothing is done
    return sp.csr_array(result)


def _joined(parts: list[npt.NDArray[Any]]) -> npt.NDArray[Any]:
    """Return the parts as one array; a single one without a copy."""
    return parts[0] if len(parts) == 1 else np.concatenate(parts)


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

"""Gathering a slice out of a stored matrix without reading the rest of it.

A matrix is stored by columns; *major* is the axis whose entries are those columns, *minor* the
other.  Selected majors are copied range by range out of the mapped arrays; selected minors are then
picked from that copy.  Stored indices count from 1: only the copy is shifted, never the whole.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from daf_query.slice._selector import Selection
from daf_storage import errors
from daf_storage.spi import Span, StoredMatrix

_BLOCK_ELEMENTS = 4 << 20
_MIN_RUN_ELEMENTS = 256
_PAGE_BYTES = 4096

Ranges = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class SlicePlan:
    """How a slice will be read from one stored layout."""

    stored: StoredMatrix
    """The matrix in this orientation."""
    major: Selection
    """What is wanted along its columns axis."""
    minor: Selection
    """What is wanted along its rows axis."""
    colptr: Ranges | None
    """Where the columns of a sparse matrix begin, from 0; None if dense."""
    cost_bytes: int
    """About how many bytes of the stored arrays it touches."""


def plan_slice(stored: StoredMatrix, major: Selection, minor: Selection) -> SlicePlan:
    """Estimate what a slice costs in one stored layout; reads ``colptr`` at the most."""
    info = stored.info
    if not info.is_sparse:
        return SlicePlan(stored, major, minor, None, _dense_cost(stored, major, minor))
    colptr = stored.colptr()
    wanted = int((colptr[major.positions + 1] - colptr[major.positions]).sum())
    item_bytes = stored.entries("rowval").info.storage_type.dtype.itemsize
    if stored.has_values():
        item_bytes += stored.entries("nzval").info.storage_type.dtype.itemsize
    return SlicePlan(stored, major, minor, colptr, wanted * item_bytes + colptr.nbytes)


def _dense_cost(stored: StoredMatrix, major: Selection, minor: Selection) -> int:
    kind = stored.info.storage_type
    if kind.is_string:
        return 16 * stored.info.shape[0] * stored.info.shape[1]
    column_bytes = stored.info.shape[0] * kind.dtype.itemsize
    picked_bytes = minor.positions.size * max(_PAGE_BYTES, kind.dtype.itemsize)
    return int(major.positions.size * min(column_bytes, picked_bytes))


def gather_dense(plan: SlicePlan) -> npt.NDArray[Any]:
    """Return the slice as (majors, minors); a view where both are plain ranges."""
    array = plan.stored.dense()
    major, minor = plan.major, plan.minor
    if array.info.storage_type.is_string:
        strings = array.read_strings().to_numpy(zero_copy_only=False).reshape(array.info.shape)
        return _pick(strings, major, minor)
    if array.info.is_mappable:
        return _pick(array.read(), major, minor)
    spans = list(_runs(major.positions))
    dtype = array.info.storage_type.dtype
    if minor.is_all:
        parts = array.read_spans(spans)
        return np.concatenate([np.empty((0, array.info.shape[1]), dtype), *parts])
    out = np.empty((major.positions.size, minor.positions.size), dtype)
    for within, places in _chunks_of(minor.positions, array.info.chunks[1]):
        parts = array.read_spans(spans, within)
        block = np.concatenate([np.empty((0, within.size), dtype), *parts])
        out[:, places] = block[:, minor.positions[places] - within.start]
    return out


def _chunks_of(positions: Ranges, chunk: int) -> Iterator[tuple[Span, Ranges]]:
    """Yield the ranges of neighbouring chunks that hold positions, and which these are."""
    order = np.argsort(positions, kind="stable")
    chunks = positions[order] // chunk
    for places in np.split(order, np.flatnonzero(np.diff(chunks) > 1) + 1):
        if places.size:
            yield Span(int(positions[places[0]]), int(positions[places[-1]]) + 1), places


def gather_sparse(
    plan: SlicePlan, *, progress: Callable[[int], None] = lambda _: None
) -> sp.csr_array[Any]:
    """Return the slice as a CSR array of shape (majors, minors).

    Parameters
    ----------
    progress
        Told the number of stored elements done after each block.

    Raises
    ------
    CorruptDataError
        A row number of the slice leaves its axis.
    """
    if plan.colptr is None:
        raise TypeError("the plan is for a dense matrix")
    n_minor = plan.stored.info.shape[0]
    kept, inverse = np.unique(plan.minor.positions, return_inverse=True)
    lookup = None
    if not plan.minor.is_all:
        lookup = np.full(n_minor + 1, -1, dtype=np.int32)
        lookup[kept + 1] = np.arange(kept.size)
    counts, indices, values = [], [], []
    for block in _blocks(plan):
        block_counts, block_indices, block_values = _gather_block(plan, block, lookup)
        counts.append(block_counts)
        indices.append(block_indices)
        values.append(block_values)
        progress(int((plan.colptr[block + 1] - plan.colptr[block]).sum()))
    width = n_minor if lookup is None else kept.size
    picked = _csr(plan, counts, indices, values, width)
    if lookup is None or np.array_equal(inverse, np.arange(kept.size)):
        return picked
    reordered: sp.csr_array[Any] = sp.csr_array(picked[:, inverse])
    reordered.sort_indices()
    return reordered


def _blocks(plan: SlicePlan) -> Iterator[Ranges]:
    """Yield the wanted majors in groups of bounded numbers of stored elements."""
    colptr, wanted = plan.colptr, plan.major.positions
    if colptr is None or wanted.size == 0:
        return
    ends = np.cumsum(colptr[wanted + 1] - colptr[wanted])
    groups = ends // _BLOCK_ELEMENTS
    yield from np.split(wanted, np.flatnonzero(np.diff(groups)) + 1)


def _gather_block(
    plan: SlicePlan, majors: Ranges, lookup: npt.NDArray[np.int32] | None
) -> tuple[Ranges, npt.NDArray[Any], npt.NDArray[Any]]:
    """Return the kept counts per major, and the 0-based minors and values of one block."""
    if plan.colptr is None:
        raise TypeError("the plan is for a dense matrix")
    stored = plan.stored
    starts, lengths = plan.colptr[majors], plan.colptr[majors + 1] - plan.colptr[majors]
    minors = _take(stored.entries("rowval"), starts, lengths)
    n_minor = stored.info.shape[0]
    if minors.size and (int(minors.min()) < 1 or int(minors.max()) > n_minor):
        raise errors.CorruptDataError(
            f"{stored.what}: rowval leaves the range 1 to {n_minor:,} of its rows axis"
        )
    if stored.has_values():
        values = _take(stored.entries("nzval"), starts, lengths)
    else:
        values = np.ones(minors.size, dtype=bool)
    if lookup is None:
        return lengths, minors - minors.dtype.type(1), values
    picked = lookup[minors]
    is_kept = picked >= 0
    ends = np.concatenate([[0], np.cumsum(is_kept)])
    borders = np.concatenate([[0], np.cumsum(lengths)])
    return np.diff(ends[borders]), picked[is_kept], values[is_kept]


def _take(array: Any, starts: Ranges, lengths: Ranges) -> npt.NDArray[Any]:
    """Copy ranges of a 1-D stored array, one after the other."""
    is_first = np.ones(starts.size, dtype=bool)
    is_first[1:] = starts[1:] != starts[:-1] + lengths[:-1]
    first = np.flatnonzero(is_first)
    run_starts = starts[first]
    run_lengths = np.add.reduceat(lengths, first) if first.size else lengths
    total = int(run_lengths.sum())
    if not array.info.is_mappable:
        spans = zip(run_starts.tolist(), run_lengths.tolist(), strict=True)
        parts = array.read_spans([Span(start, start + size) for start, size in spans if size])
        return np.concatenate([np.empty(0, array.info.storage_type.dtype), *parts])
    mapped = array.read()
    if run_starts.size * _MIN_RUN_ELEMENTS <= total:
        out = np.empty(total, mapped.dtype)
        place = 0
        for start, size in zip(run_starts.tolist(), run_lengths.tolist(), strict=True):
            out[place : place + size] = mapped[start : start + size]
            place += size
        return out
    offsets = np.repeat(run_starts - (np.cumsum(run_lengths) - run_lengths), run_lengths)
    taken: npt.NDArray[Any] = mapped[offsets + np.arange(total)]
    return taken


def _csr(
    plan: SlicePlan,
    counts: list[Ranges],
    indices: list[npt.NDArray[Any]],
    values: list[npt.NDArray[Any]],
    width: int,
) -> sp.csr_array[Any]:
    height = plan.major.positions.size
    dtype = plan.stored.info.storage_type.dtype.newbyteorder("=")
    result: Any = sp.csr_array((height, width), dtype=dtype)
    if not counts:
        return sp.csr_array(result)
    nnz = sum(part.size for part in values)
    index_type = np.int32 if max(nnz, height, width) < 2**31 else np.int64
    result.indptr = np.concatenate([[0], np.cumsum(np.concatenate(counts))]).astype(index_type)
    result.indices = _joined(indices).astype(index_type, copy=False)
    result.data = _joined(values)
    result.sort_indices()  # foreign writers need not have sorted them; else nothing is done
    return sp.csr_array(result)


def _joined(parts: list[npt.NDArray[Any]]) -> npt.NDArray[Any]:
    return parts[0] if len(parts) == 1 else np.concatenate(parts)


def _pick(values: npt.NDArray[Any], major: Selection, minor: Selection) -> npt.NDArray[Any]:
    rows = _as_slice(major.positions)
    columns = slice(None) if minor.is_all else _as_slice(minor.positions)
    if isinstance(rows, slice) or isinstance(columns, slice):
        return values[rows, columns]
    return values[np.ix_(rows, columns)]


def _as_slice(positions: Ranges) -> slice | Ranges:
    """Return a range of neighbours as a slice, which needs no copy."""
    if positions.size and positions[-1] - positions[0] == positions.size - 1:
        if bool(np.all(np.diff(positions) == 1)):
            return slice(int(positions[0]), int(positions[-1]) + 1)
    return positions


def _runs(positions: Ranges) -> Iterator[Span]:
    """Yield the runs of neighbours in a list of positions."""
    if positions.size == 0:
        return
    for run in np.split(positions, np.flatnonzero(np.diff(positions) != 1) + 1):
        yield Span(int(run[0]), int(run[-1]) + 1)

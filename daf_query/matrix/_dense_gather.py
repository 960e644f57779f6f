"""Read a slice out of a dense matrix: indexed where it is mapped, else read chunk by chunk."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from daf_query.matrix._slice_plan import Positions, Selection, SlicePlan
from daf_storage.base import Span

_BLOCK_BYTES: Final = 32 << 20


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
    values = np.empty((majors.size, minor.size), array.info.storage_type.dtype)
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
    everything = [(Span(0, array.info.shape[1]), minor.positions)]
    spans = everything if minor.is_all else _spans_of_chunks(minor.positions, array.info.chunks[1])
    for span, offsets in spans:
        rows = max(_BLOCK_BYTES // max(span.size * item_bytes, 1), array.info.chunks[0], 1)
        for first in range(0, majors.size, rows):
            runs = list(_runs(majors[first : first + rows]))
            yield DenseRead(first, runs, None if minor.is_all else span, offsets)


def _spans_of_chunks(positions: Positions, chunk: int) -> Iterator[tuple[Span, Positions]]:
    """Yield the span of each group of neighbouring chunks, and the offsets of its positions.

    >>> [str(span) for span, _ in _spans_of_chunks(np.array([25, 3, 9, 18, 71]), 10)]
    ['Span(start=3, stop=26)', 'Span(start=71, stop=72)']
    """
    order = np.argsort(positions, kind="stable")
    chunks = positions[order] // chunk
    for offsets in np.split(order, np.flatnonzero(np.diff(chunks) > 1) + 1):
        if offsets.size:
            first, last = int(positions[offsets[0]]), int(positions[offsets[-1]])
            yield Span(first, last + 1), offsets


def _index(values: npt.NDArray[Any], major: Selection, minor: Selection) -> npt.NDArray[Any]:
    rows = as_slice(major.positions)
    columns = slice(None) if minor.is_all else as_slice(minor.positions)
    if isinstance(rows, slice) or isinstance(columns, slice):
        return values[rows, columns]
    return values[np.ix_(rows, columns)]


def as_slice(positions: Positions) -> slice | Positions:
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

"""Reduce a sparse layout: blocks of its stored elements, each sorted by group and column.

The stored columns of a layout, its majors, are the columns of the matrix, or its rows.  Each major
has a *label* and each minor a *bin*: one of them is the group, the other the column.  The elements
of a block are sorted by their bin, and within it by label, with scipy's conversion from rows to
columns, which counts instead of comparing.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from daf_query.matrix import SlicePlan, copy_runs
from daf_query.moments._segments import Segments, reduce_segments
from daf_query.moments._threads import BlockOptions
from daf_storage._lazy import lazy_module
from daf_storage.data import checked_indices
from daf_storage.trees import StoredArray

if TYPE_CHECKING:
    import scipy.sparse as sp
else:
    sp = lazy_module("scipy.sparse")

Positions = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Pieces:
    """Ranges of the stored elements, each within one major."""

    starts: Positions
    """Where each begins among the stored elements."""
    sizes: Positions
    """How many elements each has; none is empty."""
    labels: npt.NDArray[np.int32]
    """The label of the major of each."""
    blocks: Positions
    """The block of each, ascending."""

    def split(self) -> Iterator[Pieces]:
        """Yield the pieces of each block."""
        if self.starts.size == 0:
            return
        borders = np.flatnonzero(np.diff(self.blocks)) + 1
        for first, last in zip(
            [0, *borders.tolist()], [*borders.tolist(), self.starts.size], strict=True
        ):
            part = slice(first, last)
            yield Pieces(self.starts[part], self.sizes[part], self.labels[part], self.blocks[part])


def cut(
    starts: Positions,
    sizes: Positions,
    labels: npt.NDArray[np.int32],
    *,
    elements: int,
    by_place: bool,
) -> Pieces:
    """Cut the elements of majors into blocks.

    Parameters
    ----------
    starts, sizes, labels
        Of each major; ascending starts if ``by_place``.
    elements
        How many a block has at most.
    by_place
        Whether blocks end at multiples of ``elements`` in the stored arrays, where chunks end;
        otherwise all but the last have so many.

    >>> starts, sizes, labels = np.array([0, 9]), np.array([5, 2]), np.array([0, 1])
    >>> pieces = cut(starts, sizes, labels, elements=4, by_place=False)
    >>> pieces.starts.tolist(), pieces.sizes.tolist(), pieces.blocks.tolist()
    ([0, 4, 9], [4, 1, 2], [0, 1, 1])
    """
    places = starts if by_place else np.cumsum(sizes) - sizes
    is_filled = sizes > 0
    starts, sizes, places = starts[is_filled], sizes[is_filled], places[is_filled]
    labels = labels[is_filled]
    first_block = places // elements
    n_pieces = (places + sizes - 1) // elements - first_block + 1
    major = np.repeat(np.arange(starts.size), n_pieces)
    within = np.arange(major.size) - np.repeat(np.cumsum(n_pieces) - n_pieces, n_pieces)
    blocks = first_block[major] + within
    begins = np.maximum(places[major], blocks * elements)
    ends = np.minimum((places + sizes)[major], (blocks + 1) * elements)
    return Pieces(starts[major] + begins - places[major], ends - begins, labels[major], blocks)


@dataclass(frozen=True, slots=True)
class SparsePass:
    """How the elements of a sparse layout are labelled."""

    plan: SlicePlan
    """The layout; its majors are selected once each, ascending."""
    indices: StoredArray
    """The minor of each stored element, counted as the matrix counts them."""
    nzval: StoredArray | None
    """Its value; None if all are true."""
    major_labels: npt.NDArray[np.int32]
    """The label of each selected major."""
    minor_bins: npt.NDArray[np.int32]
    """The bin of each minor by its stored index; -1 leaves it out."""
    n_bins: int
    bins_are_groups: bool
    """Whether the bins are groups, and the labels columns."""
    n_columns: int
    """Number of columns, by which keys are made."""

    def blocks(self, options: BlockOptions) -> Iterator[Pieces]:
        """Yield the ranges of stored elements that are reduced together."""
        colptr, majors = self.plan.colptr, self.plan.major.positions
        if colptr is None:
            raise TypeError("the plan is for a dense matrix")
        starts, sizes, labels = colptr[majors], np.diff(colptr)[majors], self.major_labels
        indices = self.indices.info
        elements = max(options.elements, 1)
        if not indices.is_mappable:
            chunk = max(indices.chunks[0], 1)
            step = -(-elements // chunk) * chunk
            yield from cut(starts, sizes, labels, elements=step, by_place=True).split()
            return
        if not self.bins_are_groups:
            # Rows of one group together, so that segments are long; within windows, so that the
            # file is read from its beginning to its end.
            order = np.lexsort((labels, starts // options.window_elements))
            starts, sizes, labels = starts[order], sizes[order], labels[order]
            elements *= 4
        yield from cut(starts, sizes, labels, elements=elements, by_place=False).split()

    def reduce(self, pieces: Pieces) -> tuple[Positions, Segments]:
        """Return the segments of a block, and their keys: ``group * n_columns + column``.

        Raises
        ------
        CorruptDataError
            A row number leaves its axis.
        """
        indices, values = self._read(pieces)
        bins = self.minor_bins[indices]
        sizes, labels = pieces.sizes, pieces.labels
        if bins.size and int(bins.min()) < 0:
            is_kept = bins >= 0
            before = np.concatenate([[0], np.cumsum(is_kept)])
            ends = np.cumsum(sizes)
            sizes = before[ends] - before[ends - sizes]
            bins, values = bins[is_kept], values[is_kept]
        if bool(np.any(labels[1:] < labels[:-1])):
            bins, values, sizes, labels = _sorted_by_label(bins, values, sizes, labels)
        if bins.size == 0:
            empty = np.zeros(0, np.int64)
            return empty, reduce_segments(np.zeros(1), np.zeros(1, np.int64)).map(
                lambda each: each[:0]
            )
        return self._segments(bins, values, sizes, labels)

    def _segments(
        self,
        bins: npt.NDArray[np.int32],
        values: npt.NDArray[Any],
        sizes: Positions,
        labels: npt.NDArray[np.int32],
    ) -> tuple[Positions, Segments]:
        by_major: Any = sp.csr_array((sizes.size, self.n_bins), dtype=values.dtype)
        by_major.indptr = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int32)
        by_major.indices, by_major.data = bins, values
        by_bin = by_major.tocsc()
        pieces = by_bin.indices
        # Neighbouring pieces may have one label; else those of the elements need not be looked up.
        is_distinct = bool(np.all(labels[1:] != labels[:-1]))
        sorted_labels = pieces if is_distinct else labels[pieces]
        is_first = np.empty(bins.size, bool)
        is_first[0] = True
        np.not_equal(sorted_labels[1:], sorted_labels[:-1], out=is_first[1:])
        bin_starts = by_bin.indptr[:-1]
        is_first[bin_starts[bin_starts < bins.size]] = True
        starts = np.flatnonzero(is_first)
        bin_of_segment = np.searchsorted(by_bin.indptr, starts, side="right") - 1
        label_of_segment = labels[pieces[starts]].astype(np.int64)
        groups, columns = bin_of_segment, label_of_segment
        if not self.bins_are_groups:
            groups, columns = columns, groups
        return groups * self.n_columns + columns, reduce_segments(by_bin.data, starts)

    def _read(self, pieces: Pieces) -> tuple[npt.NDArray[Any], npt.NDArray[Any]]:
        read = _read_pieces(self.indices, pieces)
        indices = _native(checked_indices(self.plan.stored, read))
        if self.nzval is None:
            return indices, np.ones(indices.size, np.bool_)
        return indices, _native(_read_pieces(self.nzval, pieces))

    def element_bytes(self) -> int:
        """Return how many bytes are read of each stored element."""
        arrays = [self.indices] if self.nzval is None else [self.indices, self.nzval]
        return sum(array.info.storage_type.dtype.itemsize for array in arrays)


def _read_pieces(array: StoredArray, pieces: Pieces) -> npt.NDArray[Any]:
    """Return the elements of some pieces; a view where they follow each other in a mapped file."""
    starts, ends = pieces.starts, pieces.starts + pieces.sizes
    if array.info.is_mappable and bool(np.all(starts[1:] == ends[:-1])):
        return array.read()[int(starts[0]) : int(ends[-1])]
    return copy_runs(array, starts, pieces.sizes)


def _native(values: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Return values in the byte order of the machine, which scipy needs."""
    return values.astype(values.dtype.newbyteorder("="), copy=False)


def _sorted_by_label(
    bins: npt.NDArray[np.int32],
    values: npt.NDArray[Any],
    sizes: Positions,
    labels: npt.NDArray[np.int32],
) -> tuple[npt.NDArray[np.int32], npt.NDArray[Any], Positions, npt.NDArray[np.int32]]:
    """Return the elements of pieces in the order of their labels."""
    order = np.argsort(labels, kind="stable")
    starts = (np.cumsum(sizes) - sizes)[order]
    sizes = sizes[order]
    shifts = np.repeat(starts - (np.cumsum(sizes) - sizes), sizes)
    places = shifts + np.arange(shifts.size)
    return bins[places], values[places], sizes, labels[order]

"""Reduce a dense layout: windows of its stored columns and rows, each sorted by group."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from daf_query.matrix import SlicePlan
from daf_query.moments._segments import Segments, reduce_segments
from daf_query.moments._threads import BlockOptions
from daf_storage.base import Span
from daf_storage.trees import StoredArray

Positions = npt.NDArray[np.int64]
_STRIP = 1024


@dataclass(frozen=True, slots=True)
class RowOrder:
    """Rows of a window, group by group."""

    order: npt.NDArray[np.intp]
    """Where they are among those of the window."""
    groups: Positions
    """The groups that they have, ascending."""
    starts: Positions
    """Where each group begins in the order."""

    @classmethod
    def of(cls, codes: npt.NDArray[np.int32]) -> RowOrder:
        """Return the order of rows with these groups.

        >>> rows = RowOrder.of(np.array([2, 0, 2], np.int32))
        >>> rows.order.tolist(), rows.groups.tolist(), rows.starts.tolist()
        ([1, 0, 2], [0, 2], [0, 1])
        """
        order = np.argsort(codes, kind="stable")
        in_order = codes[order]
        starts = np.flatnonzero(np.diff(in_order, prepend=-1))
        return cls(order, in_order[starts].astype(np.int64), starts)


@dataclass(frozen=True, slots=True)
class Window:
    """Selected majors and minors that are reduced together."""

    majors: slice
    """Which of the selected majors."""
    minors: slice
    """Which of the selected minors."""
    rows: RowOrder
    """The order of those of them that are rows."""


@dataclass(frozen=True, slots=True)
class DensePass:
    """How the elements of a dense layout are labelled."""

    plan: SlicePlan
    """The layout; its majors and minors are selected once each, ascending."""
    array: StoredArray
    """Its elements."""
    codes: npt.NDArray[np.int32]
    """The group of each selected row."""
    rows_are_major: bool
    """Whether the stored columns are the rows of the matrix."""
    n_columns: int
    """Number of columns, by which keys are made."""

    def blocks(self, options: BlockOptions) -> Iterator[Window]:
        """Yield the windows; they end where chunks end, if the matrix is stored in chunks."""
        array = self.array.info
        n_minor = self.plan.stored.info.shape[0]
        chunk = (1, 1) if array.is_mappable else (max(array.chunks[0], 1), max(array.chunks[1], 1))
        most = max(options.elements, 1) * (4 if self.rows_are_major else 1)
        # Of rows, strips of some columns: so that there are many rows of a group in a window.
        wide = min(most, _STRIP) if self.rows_are_major else most
        minor_step = chunk[1] * min(max(wide // (chunk[0] * chunk[1]), 1), -(-n_minor // chunk[1]))
        major_step = chunk[0] * max(most // (chunk[0] * max(minor_step, 1)), 1)
        by_place = not array.is_mappable
        minors = _steps(self.plan.minor.positions, minor_step, by_place=by_place)
        # Each order is made once: all windows over the same rows share it.
        of_minors = [] if self.rows_are_major else [RowOrder.of(self.codes[s]) for s in minors]
        for majors in _steps(self.plan.major.positions, major_step, by_place=by_place):
            of_majors = RowOrder.of(self.codes[majors]) if self.rows_are_major else None
            for number, part in enumerate(minors):
                yield Window(majors, part, of_majors or of_minors[number])

    def reduce(self, window: Window) -> tuple[Positions, Segments]:
        """Return the segments of a window, and their keys: ``group * n_columns + column``."""
        majors = self.plan.major.positions[window.majors]
        minors = self.plan.minor.positions[window.minors]
        first_column = (window.minors if self.rows_are_major else window.majors).start
        values = _read(self.array, majors, minors)
        by_column = values.T if self.rows_are_major else values
        sorted_values = np.ascontiguousarray(by_column.take(window.rows.order, axis=1))
        columns = np.arange(first_column, first_column + by_column.shape[0])
        keys = window.rows.groups[np.newaxis, :] * self.n_columns + columns[:, np.newaxis]
        segments = reduce_segments(sorted_values, window.rows.starts)
        return keys.reshape(-1), segments.map(np.ravel)

    def window_bytes(self, window: Window) -> int:
        """Return how many bytes are read of a window."""
        item_bytes = self.plan.stored.info.storage_type.dtype.itemsize
        height = window.majors.stop - window.majors.start
        return int(height * (window.minors.stop - window.minors.start) * item_bytes)


def _steps(positions: Positions, step: int, *, by_place: bool) -> list[slice]:
    """Return ranges of ascending positions: of a number, or that end at multiples of it."""
    if positions.size == 0:
        return []
    if by_place:
        borders = (np.flatnonzero(np.diff(positions // step)) + 1).tolist()
    else:
        borders = list(range(step, positions.size, step))
    return [
        slice(first, last)
        for first, last in zip([0, *borders], [*borders, positions.size], strict=True)
    ]


def _read(array: StoredArray, majors: Positions, minors: Positions) -> npt.NDArray[Any]:
    """Return the elements of ascending majors and minors, majors first."""
    columns = _range_of(minors)
    if array.info.is_mappable:
        rows = _range_of(majors)
        mapped = array.read()
        if isinstance(rows, slice) or isinstance(columns, slice):
            return _native(mapped[rows, columns])
        return _native(mapped[np.ix_(majors, minors)])
    borders = np.flatnonzero(np.diff(majors) != 1) + 1
    spans = [Span(int(run[0]), int(run[-1]) + 1) for run in np.split(majors, borders)]
    within = Span(int(minors[0]), int(minors[-1]) + 1)
    values = _native(np.concatenate(array.read_spans(spans, within)))
    return values if isinstance(columns, slice) else values[:, minors - within.start]


def _range_of(positions: Positions) -> slice | Positions:
    """Return ascending positions as a slice if they are neighbours."""
    first, last = int(positions[0]), int(positions[-1])
    return slice(first, last + 1) if last - first == positions.size - 1 else positions


def _native(values: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Return values in the byte order of the machine."""
    return values.astype(values.dtype.newbyteorder("="), copy=False)

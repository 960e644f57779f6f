"""The moments of groups of rows of a stored matrix: one pass over the layout that fits.

Where both layouts are stored, the one by columns is read, of which each column is a few segments;
unless the rows are so few that those of the other one are far fewer bytes.  Blocks of a layout are
reduced by threads: their elements are sorted by group and column.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from typing import Any, Final, TypeAlias, TypeVar

import numpy as np
import numpy.typing as npt

from daf_query._runs import check_cancelled
from daf_query.matrix import (
    PlannedLayouts,
    Selection,
    SlicePlan,
    StoredElements,
    cut_at,
    estimate_read,
    find_layouts,
    gather_dense,
    keep_freed_memory,
)
from daf_query.moments._grouping import GroupedRows
from daf_query.moments._segments import (
    Accumulator,
    Moments,
    reduce_segments,
    with_zeros,
)
from daf_storage import DafReader, errors
from daf_storage._lazy import sp
from daf_storage.stores import ReadEstimate

_ROWS_ADVANTAGE: Final = 2
"""How many times fewer bytes the layout by rows must be to be read first."""
_STRIP: Final = 1024
"""Of a dense layout by rows, how many columns are read together: many rows of a group."""
_BLOCK_CHUNKS: Final = 4
"""How many chunks a block has at least: those at its ends may be decoded for its neighbours too."""

_T = TypeVar("_T")

Positions: TypeAlias = npt.NDArray[np.int64]
Reduced: TypeAlias = tuple[Positions, Moments]
"""Moments, and their keys: ``group * number of columns + column``."""
Tasks: TypeAlias = Iterator[Callable[[], tuple[Reduced | None, int]]]
"""Reduce a block; None if it has no elements.  With the number of bytes that were read."""


BLOCK_ELEMENTS: Final = 1 << 18
"""About how many elements a block has: as many as fit the cache of a core."""
WINDOW_ELEMENTS: Final = 1 << 24
"""Within how many stored elements rows are taken group by group, not in their order."""
THREADS: Final = os.cpu_count() or 1
"""How many blocks are reduced at a time."""


def in_order(tasks: Iterable[Callable[[], _T]], *, threads: int) -> Iterator[_T]:
    """Yield the results of tasks in their order; few more are begun than there are threads.

    Examples
    --------
    >>> list(in_order([lambda: 1, lambda: 2], threads=2))
    [1, 2]
    """
    pending: deque[Future[_T]] = deque()
    with ThreadPoolExecutor(threads, thread_name_prefix="daf-moments") as pool:
        try:
            for task in tasks:
                check_cancelled()
                pending.append(pool.submit(task))
                if len(pending) > threads:
                    yield pending.popleft().result()
            while pending:
                yield pending.popleft().result()
        finally:
            for future in pending:
                future.cancel()


def group_segments(
    daf: DafReader,
    axes: tuple[str, str],
    name: str,
    rows: GroupedRows,
    columns: Selection,
    progress: Callable[[int], None],
    *,
    is_transposed: bool = False,
) -> Moments:
    """Return a segment for each group and selected column of a matrix.

    Parameters
    ----------
    axes
        That of the rows, and that of the columns.
    columns
        Any order; a column that is there twice is returned twice.
    progress
        Called with the bytes that were read, block by block.
    is_transposed
        Whether it is the columns of the matrix that are grouped, and ``columns`` are rows.

    Returns
    -------
    Moments
        Of shape ``(groups, columns)``.

    Raises
    ------
    MatrixNotFoundError
        There is no such matrix.
    UnsupportedInputError
        It is a matrix of strings.
    FormatError
        No layout is whole.

    Warns
    -----
    DamagedLayoutWarning
        One of two layouts is damaged, and the other one is read.
    """
    unique, order = np.unique(columns.positions, return_inverse=True)
    grouped, other = axes[::-1] if is_transposed else axes
    selected = Selection.of(unique, daf.axis_length(other))
    accumulator = Accumulator(rows.n_groups * unique.size)
    for once in rows.rounds():
        of_rows = Selection.of(once.positions, daf.axis_length(grouped))
        both = (selected, of_rows) if is_transposed else (of_rows, selected)
        found = layouts_of_numbers(daf, axes, name, *both)
        transposed = (
            replace(each, rows_are_major=each.rows_are_major != is_transposed) for each in found
        )
        layouts = PlannedLayouts(sorted(transposed, key=_cost), found.faults)
        read = partial(_accumulated, once, progress=progress)
        accumulator.merge(slice(None), layouts.read(read).map(np.ravel))
    segments = accumulator.moments(rows.n_groups, unique.size)
    if np.array_equal(order, np.arange(unique.size)):
        return segments
    return segments.map(lambda each: each[:, order.reshape(-1)])


def estimate_segments(
    daf: DafReader, axes: tuple[str, str], name: str, rows: Selection, columns: Selection
) -> ReadEstimate:
    """Return what `group_segments` reads of rows and columns; column pointers are read at most."""
    return estimate_read(min(layouts_of_numbers(daf, axes, name, rows, columns), key=_cost))


def layouts_of_numbers(
    daf: DafReader, axes: tuple[str, str], name: str, rows: Selection, columns: Selection
) -> PlannedLayouts:
    """Plan a slice in each layout of a matrix; see `find_layouts`.  One of strings is refused."""
    found = find_layouts(daf, axes, name, rows, columns)
    stored = found.first.stored
    if stored.info.storage_type.is_string:
        raise errors.UnsupportedInputError(
            f"{stored.what}: it is a matrix of strings, which have no sums and means; choose one "
            "of numbers or Bool"
        )
    return found


def _cost(layout: SlicePlan) -> int:
    return layout.cost_bytes * (_ROWS_ADVANTAGE if layout.rows_are_major else 1)


def _accumulated(
    once: GroupedRows, layout: SlicePlan, *, progress: Callable[[int], None]
) -> Moments:
    """Return a segment for each group and column, of rows that ascend, each of which is once."""
    keep_freed_memory()
    n_columns = layout.columns.size
    accumulator = Accumulator(once.n_groups * n_columns)
    is_sparse = layout.stored.info.is_sparse
    tasks = _sparse_tasks if is_sparse else _dense_tasks
    for reduced, n_bytes in in_order(tasks(once, layout), threads=THREADS):
        if reduced is not None:
            accumulator.merge(*reduced)
        progress(n_bytes)
    segments = accumulator.moments(once.n_groups, n_columns)
    if not is_sparse:
        return segments
    return with_zeros(segments, once.sizes()[:, np.newaxis], what=layout.stored.what)


def _sparse_tasks(once: GroupedRows, layout: SlicePlan) -> Tasks:
    """Yield what reduces blocks of stored elements.

    The stored columns of a layout, its majors, are the columns of the matrix, or its rows.  Each
    major has a *label* and each minor a *bin*: one of them is the group, the other the column.
    """
    plan = layout.in_order()
    elements, base = StoredElements(plan.stored), plan.stored.index_base
    columns = np.arange(layout.columns.size, dtype=np.int32)
    n_bins, labels, bins = once.n_groups, columns, once.codes
    if layout.rows_are_major:
        n_bins, labels, bins = columns.size, once.codes, columns
    bin_of_minor = np.full(plan.stored.info.shape[0] + base, n_bins, np.int32)
    bin_of_minor[plan.minor.positions + base] = bins  # by the stored index
    starts, counts = plan.ranges()
    indices, target = plan.stored.indices.info, BLOCK_ELEMENTS
    if not indices.is_mappable:
        target = max(target, _BLOCK_CHUNKS * indices.chunks[0])
    elif layout.rows_are_major:
        # Rows of one group together, so that segments are long; within windows, so that the file
        # is read from its beginning to its end.
        order = np.lexsort((labels, starts // WINDOW_ELEMENTS))
        starts, counts, labels, target = starts[order], counts[order], labels[order], 4 * target
    item_bytes = sum(a.info.storage_type.dtype.itemsize for a in plan.stored.element_arrays())

    def reduce(part: slice) -> tuple[Reduced | None, int]:
        rows, values = elements.read(starts[part], counts[part])
        sizes, own = counts[part], labels[part]
        by_major: Any = sp.csr_array((sizes.size, n_bins + 1), dtype=values.dtype)
        by_major.indptr = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int32)
        by_major.indices, by_major.data = bin_of_minor[rows], _native(values)
        if bool(np.any(own[1:] < own[:-1])):
            order = np.argsort(own, kind="stable")
            by_major, own = by_major[order], own[order]
        found = _by_bin(by_major, own)
        if found is None:
            return None, rows.size * item_bytes
        of_bins, of_labels, segments = found
        groups, of_columns = (of_labels, of_bins) if layout.rows_are_major else (of_bins, of_labels)
        return (groups * columns.size + of_columns, segments), rows.size * item_bytes

    for span in cut_at(counts, max(target, 1)):
        yield partial(reduce, span.slice)


def _by_bin(
    by_major: Any, labels: npt.NDArray[np.int32]
) -> tuple[Positions, Positions, Moments] | None:
    """Return the bin and the label of each segment, and the segments; the last bin is left out.

    Elements are sorted by their bin, and within it by label, with scipy's conversion from rows to
    columns, which counts instead of comparing.
    """
    by_bin = by_major.tocsc()
    count = int(by_bin.indptr[-2])
    if not count:
        return None
    label_of = labels[by_bin.indices[:count]]
    is_first = np.empty(count, bool)
    is_first[0] = True
    np.not_equal(label_of[1:], label_of[:-1], out=is_first[1:])
    bin_starts = by_bin.indptr[:-2]
    is_first[bin_starts[bin_starts < count]] = True
    starts = np.flatnonzero(is_first)
    bins = np.searchsorted(by_bin.indptr, starts, side="right") - 1
    segments = reduce_segments(by_bin.data[:count], starts)
    return bins, label_of[starts].astype(np.int64), segments


def _dense_tasks(once: GroupedRows, layout: SlicePlan) -> Tasks:
    """Yield what reduces windows of a dense layout: some columns of all rows, or strips of rows."""
    plan, n_columns = layout, layout.columns.size
    array, codes = plan.stored.dense().info, once.codes
    item_bytes = plan.stored.info.storage_type.dtype.itemsize

    def reduce(
        window: SlicePlan, rows: _SortedRows, first_column: int
    ) -> tuple[Reduced | None, int]:
        order, groups, starts = rows
        values = _native(gather_dense(window))
        by_column = values.T if layout.rows_are_major else values
        columns = np.arange(first_column, first_column + by_column.shape[0])
        keys = groups[np.newaxis, :] * n_columns + columns[:, np.newaxis]
        segments = reduce_segments(np.ascontiguousarray(by_column.take(order, axis=1)), starts)
        return (keys.reshape(-1), segments.map(np.ravel)), values.size * item_bytes

    if not codes.size or not n_columns:
        return
    if not layout.rows_are_major:
        every = _sorted(codes)
        for span, _ in plan.groups(BLOCK_ELEMENTS):
            window = plan.at(plan.major.part(span.start, span.stop), plan.minor)
            yield partial(reduce, window, every, span.start)
        return
    width = min(_STRIP, 4 * BLOCK_ELEMENTS)
    width = width if array.is_mappable else max(width // array.chunks[1], 1) * array.chunks[1]
    for first in range(0, n_columns, width):
        strip = plan.at(plan.major, plan.minor.part(first, first + width))
        for span, _ in strip.groups(4 * BLOCK_ELEMENTS):
            window = strip.at(plan.major.part(span.start, span.stop), strip.minor)
            yield partial(reduce, window, _sorted(codes[span.slice]), first)


_SortedRows: TypeAlias = tuple[npt.NDArray[np.intp], Positions, Positions]


def _sorted(codes: npt.NDArray[np.int32]) -> _SortedRows:
    """Return rows group by group, the groups that they have, and where each of these begins."""
    order = np.argsort(codes, kind="stable")
    starts = np.flatnonzero(np.diff(codes[order], prepend=-1))
    return order, codes[order][starts].astype(np.int64), starts


def _native(values: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Return values in the byte order of the machine, which scipy needs."""
    return values.astype(values.dtype.newbyteorder("="), copy=False)

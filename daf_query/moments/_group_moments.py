"""The moments of groups of rows of a stored matrix: one pass over the layout that fits.

Where both layouts are stored, the one by columns is read, of which each column is a few segments;
unless the rows are so few that those of the other one are far fewer bytes.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial

import numpy as np
import numpy.typing as npt

from daf_query.matrix import (
    Layout,
    Selection,
    keep_freed_memory,
    ordered_plan,
    plan_layouts,
    read_first,
)
from daf_query.moments._accumulator import (
    Accumulator,
    Moments,
    moments_of,
    repeated,
    with_zeros,
)
from daf_query.moments._dense_blocks import DensePass
from daf_query.moments._grouping import GroupedRows, Strata
from daf_query.moments._segments import Segments
from daf_query.moments._sparse_blocks import SparsePass
from daf_query.moments._threads import DEFAULT_BLOCKS, BlockOptions, in_order
from daf_storage import DafReader, errors

_ROWS_ADVANTAGE = 2
"""How many times fewer bytes the layout by rows must be to be read first."""


def group_moments(
    daf: DafReader,
    axes: tuple[str, str],
    name: str,
    rows: GroupedRows,
    columns: Selection,
    *,
    options: BlockOptions = DEFAULT_BLOCKS,
    progress: Callable[[int], None] = lambda _: None,
) -> Moments:
    """Return the moments of each group of rows in each selected column of a matrix.

    Parameters
    ----------
    axes
        That of the rows, and that of the columns.
    columns
        Any order; a column that is there twice is returned twice.
    progress
        Called with the bytes that were read, block by block.

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

    Examples
    --------
    >>> import daf_storage
    >>> daf = daf_storage.MemoryDaf()
    >>> daf.add_axis("cell", ["A", "B", "C"])
    >>> daf.add_axis("gene", ["FOXA1"])
    >>> daf.set_matrix("cell", "gene", "UMIs", [[1], [3], [7]])
    >>> rows = GroupedRows(np.arange(3), np.array([0, 0, 1], np.int32), 2)
    >>> group_moments(daf, ("cell", "gene"), "UMIs", rows, Selection.all(1)).mean.tolist()
    [[2.0], [7.0]]
    """
    segments = group_segments(daf, axes, name, rows, columns, options=options, progress=progress)
    return moments_of(segments, rows.sizes())


def group_segments(
    daf: DafReader,
    axes: tuple[str, str],
    name: str,
    rows: GroupedRows,
    columns: Selection,
    *,
    options: BlockOptions,
    progress: Callable[[int], None],
) -> Segments:
    """Return a segment for each group and selected column; see `group_moments`."""
    strata = Strata.of(rows)
    unique, order = np.unique(columns.positions, return_inverse=True)
    selected_rows = Selection.of(strata.positions, daf.axis_length(axes[0]))
    selected_columns = Selection.of(unique, daf.axis_length(axes[1]))
    layouts = plan_layouts(daf, axes, name, selected_rows, selected_columns)
    info = layouts[0].plan.stored.info
    if info.storage_type.is_string:
        raise errors.UnsupportedInputError(
            f"{layouts[0].plan.stored.what}: it is a matrix of strings, which have no sums and "
            "means; choose one of numbers or Bool"
        )
    read = partial(_accumulated, strata, options=options, progress=progress)
    segments, _ = read_first(sorted(layouts, key=_cost), read)
    segments = _of_groups(segments, strata, rows.n_groups)
    if np.array_equal(order, np.arange(unique.size)):
        return segments
    return segments.map(lambda each: each[:, order.reshape(-1)])


def _cost(layout: Layout) -> int:
    return layout.plan.cost_bytes * (_ROWS_ADVANTAGE if layout.rows_are_major else 1)


def _accumulated(
    strata: Strata,
    layout: Layout,
    *,
    options: BlockOptions,
    progress: Callable[[int], None],
) -> Segments:
    """Return a segment for each stratum and column, of shape ``(strata, columns)``."""
    n_columns = layout.columns.positions.size
    accumulator = Accumulator(strata.groups.size * n_columns)
    if layout.plan.stored.info.is_sparse:
        layout = replace(layout, plan=ordered_plan(layout.plan))
        sparse = _sparse_pass(strata, layout)
        element_bytes = sparse.element_bytes()
        tasks = (
            (partial(sparse.reduce, pieces), int(pieces.sizes.sum()) * element_bytes)
            for pieces in sparse.blocks(options)
        )
    else:
        dense = DensePass(
            layout.plan,
            layout.plan.stored.dense(),
            strata.codes,
            rows_are_major=layout.rows_are_major,
            n_columns=n_columns,
        )
        tasks = (
            (partial(dense.reduce, window), dense.window_bytes(window))
            for window in dense.blocks(options)
        )
    keep_freed_memory()
    counted = (partial(_with_bytes, reduce, n_bytes) for reduce, n_bytes in tasks)
    for (keys, segments), n_bytes in in_order(counted, threads=options.threads):
        accumulator.merge(keys, segments)
        progress(n_bytes)
    segments = accumulator.segments().reshaped(strata.groups.size, n_columns)
    if not layout.plan.stored.info.is_sparse:
        return segments
    return with_zeros(segments, strata.sizes()[:, np.newaxis], what=layout.plan.stored.what)


def _with_bytes(
    reduce: Callable[[], tuple[npt.NDArray[np.int64], Segments]], n_bytes: int
) -> tuple[tuple[npt.NDArray[np.int64], Segments], int]:
    return reduce(), n_bytes


def _sparse_pass(strata: Strata, layout: Layout) -> SparsePass:
    plan, columns = layout.plan, layout.columns.positions
    column_offsets = np.arange(columns.size, dtype=np.int32)
    stored = plan.stored
    base = stored.index_base
    bins = np.full(stored.info.shape[0] + base, -1, np.int32)  # by the stored index
    if layout.rows_are_major:
        bins[columns + base] = column_offsets
        labels = strata.codes
    else:
        bins[strata.positions + base] = strata.codes
        labels = column_offsets
    return SparsePass(
        plan,
        stored.indices,
        stored.entries("nzval") if stored.has_values() else None,
        major_labels=labels,
        minor_bins=bins,
        n_bins=columns.size if layout.rows_are_major else strata.groups.size,
        bins_are_groups=not layout.rows_are_major,
        n_columns=columns.size,
    )


def _of_groups(segments: Segments, strata: Strata, n_groups: int) -> Segments:
    """Merge the strata of each group; of shape ``(strata, columns)`` to ``(groups, columns)``."""
    if bool(np.all(strata.repeats == 1)) and strata.groups.size == n_groups:
        return segments
    n_columns = segments.n.shape[1]
    accumulator = Accumulator(n_groups * n_columns)
    columns = np.arange(n_columns)
    for stratum, (group, repeats) in enumerate(
        zip(strata.groups.tolist(), strata.repeats.tolist(), strict=True)
    ):
        row = segments.map(partial(np.take, indices=stratum, axis=0))
        accumulator.merge(
            group * n_columns + columns, repeated(row, np.full(n_columns, repeats, np.int64))
        )
    return accumulator.segments().reshaped(n_groups, n_columns)

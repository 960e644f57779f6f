"""Cut a slice into blocks of rows, of a number of rows or of bounded bytes each."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

import numpy as np
import numpy.typing as npt

from daf_query.matrix import Layout, PlannedLayouts, Selection, major_counts, minor_counts
from daf_query.slice._byte_sizes import ByteSize, byte_count
from daf_query.slice._explanation import Figures
from daf_storage import errors
from daf_storage.spi import Span

BLOCK_BYTES: Final = 128 << 20
"""How large a block is by default, and a slice that is saved as a whole: 128 MiB."""


def row_spans(
    figures: Figures,
    layouts: Iterable[Layout],
    rows: object,
    max_bytes: ByteSize | None,
) -> Iterator[Span]:
    """Return the spans of the rows of each block; see `MatrixSlice.blocks`.

    Raises
    ------
    InvalidInputError
        Both sizes are given, or one that is no size.
    """
    if rows is None:
        budget = byte_count(BLOCK_BYTES if max_bytes is None else max_bytes, keyword="max_bytes")
        if budget == 0:
            raise errors.InvalidInputError("max_bytes=0 has no room for a row; pass a larger one")
        return _spans_of_bytes(figures, layouts, budget)
    if max_bytes is not None:
        raise errors.InvalidInputError("blocks() takes rows= or max_bytes=, not both")
    if isinstance(rows, bool) or not isinstance(rows, int | np.integer) or rows < 1:
        raise errors.InvalidInputError(f"rows={rows!r} is no number of rows; pass 1 or more")
    return _spans_of_rows(figures.shape[0], int(rows))


def _spans_of_rows(n_rows: int, height: int) -> Iterator[Span]:
    for start in range(0, n_rows, height):
        yield Span(start, min(start + height, n_rows))


def _spans_of_bytes(figures: Figures, layouts: Iterable[Layout], max_bytes: int) -> Iterator[Span]:
    """Yield spans of at most so many bytes, but of one row at least."""
    if not figures.is_sparse:
        row_bytes = max(figures.shape[1] * figures.item_bytes, 1)
        yield from _spans_of_rows(figures.shape[0], max(max_bytes // row_bytes, 1))
        return
    ends = np.cumsum(_row_counts(layouts) * figures.element_bytes + figures.index_bytes)
    start = 0
    while start < ends.size:
        before = int(ends[start - 1]) if start else 0
        fitting = int(np.searchsorted(ends, before + max_bytes - figures.index_bytes, side="right"))
        stop = max(fitting, start + 1)
        yield Span(start, stop)
        start = stop


def _row_counts(layouts: Iterable[Layout]) -> npt.NDArray[np.int64]:
    """Return how many elements each row has, at most.

    Where the matrix is stored by columns alone, they are counted: that reads the row numbers of
    the selected columns once.
    """
    for layout in (found := list(layouts)):
        if layout.rows_are_major:
            return major_counts(layout.plan)
    return minor_counts(found[0].plan)


def likely_row_counts(figures: Figures, layouts: Iterable[Layout]) -> npt.NDArray[np.float64]:
    """Return about how many elements each row has; nothing is read.

    Where the matrix is stored by columns alone, all rows are taken to have equally many.
    """
    n_rows, n_columns = figures.shape
    if not figures.is_sparse:
        return np.full(n_rows, float(n_columns))
    for layout in layouts:
        if layout.rows_are_major:
            return major_counts(layout.plan).astype(np.float64)
    return np.full(n_rows, figures.elements.count / max(n_rows, 1))


def planned_rows(planned: PlannedLayouts, span: Span) -> PlannedLayouts:
    """Return the layouts with plans of some rows; nothing is read."""
    layouts = [layout.of_rows(span.start, span.stop) for layout in planned.whole]
    layouts.sort(key=lambda layout: layout.cost_ns)
    return planned.with_layouts(layouts)


def planned_at(planned: PlannedLayouts, rows: Selection, columns: Selection) -> PlannedLayouts:
    """Return the layouts with plans of other entries of the matrix; nothing is read."""
    layouts = [layout.at(rows, columns) for layout in planned.whole]
    layouts.sort(key=lambda layout: layout.cost_ns)
    return planned.with_layouts(layouts)


def without_damaged(planned: PlannedLayouts, used: Layout, first: Layout) -> PlannedLayouts:
    """Return the layouts that are still worth a try, after a block was read from one of them.

    Parameters
    ----------
    used, first
        The layout from which the block was read, and the one that came first.
    """
    if used.rows_are_major == first.rows_are_major:
        return planned
    whole = [layout for layout in planned.whole if layout.rows_are_major == used.rows_are_major]
    return planned.with_layouts(whole)

"""Cut the rows of a table into partitions.  Pure: lengths in, spans out.

A *fragment* is the partitions that one thread scans; a *batch* is the rows that are passed on at
once.  Both end where chunks end, as far as the chunks of the columns have common ends.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable, Sequence
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from daf_storage.base import Span

_T = TypeVar("_T")


def common_step(chunk_rows: Iterable[int], *, length: int) -> int:
    """Return the distance of rows at which the chunks of all columns end together.

    Columns in a single chunk can be cut anywhere and do not count.  Where the grids have no
    common end within the axis, the largest chunk is the step: reading it twice costs most.

    >>> common_step([100, 100], length=100), common_step([2, 3, 100], length=100)
    (1, 6)
    """
    steps = {rows for rows in chunk_rows if 0 < rows < length}
    if not steps:
        return 1
    common = math.lcm(*steps)
    return common if common < length else max(steps)


def step_of(first: Iterable[int], others: Iterable[int], *, length: int) -> int:
    """Return the distance of rows at which to cut.

    If not all chunks end together, those of the columns that are read everywhere (of a filter) do;
    the others are read where rows are left.

    >>> step_of([100], [30], length=1000), step_of([100], [301], length=1000)
    (300, 100)
    """
    first, others = list(first), list(others)
    step = common_step([*first, *others], length=length)
    is_common = all(step % rows == 0 for rows in (*first, *others) if 0 < rows < length)
    return step if is_common or not first else common_step(first, length=length)


def split_chunks(spans: Sequence[Span], chunk_rows: int, *, length: int) -> int:
    """Return how many chunks of a column lie in two spans, and are decoded for both.

    >>> spans = [Span(0, 6), Span(6, 10)]
    >>> split_chunks(spans, 3, length=10), split_chunks(spans, 4, length=10)
    (0, 1)
    """
    if not 0 < chunk_rows < length:
        return 0
    cuts = [
        after.start for before, after in itertools.pairwise(spans) if before.stop == after.start
    ]
    return len({cut // chunk_rows for cut in cuts if cut % chunk_rows})


def aligned_spans(length: int, *, step: int, target_rows: int) -> list[Span]:
    """Cut ``length`` rows into spans of about ``target_rows``, each ending on the grid.

    >>> [(s.start, s.stop) for s in aligned_spans(10, step=3, target_rows=4)]
    [(0, 6), (6, 10)]
    >>> aligned_spans(0, step=1, target_rows=4)
    []
    """
    rows = max(math.ceil(target_rows / step), 1) * step
    return [Span(start, min(start + rows, length)) for start in range(0, length, rows)]


def narrowed(
    spans: Sequence[Span], zones: npt.NDArray[np.int64], *, zone_rows: int, step: int
) -> list[Span]:
    """Return what is left of spans around some zones, each still ending on the grid.

    >>> left = narrowed([Span(0, 12), Span(12, 20)], np.array([1]), zone_rows=4, step=3)
    >>> [(span.start, span.stop) for span in left]
    [(3, 9)]
    """
    kept = []
    for span in spans:
        inside = zones[(zones >= span.start // zone_rows) & (zones * zone_rows < span.stop)]
        if inside.size:
            start = max(int(inside[0]) * zone_rows // step * step, span.start)
            stop = -(-(int(inside[-1]) + 1) * zone_rows // step) * step
            kept.append(Span(start, min(stop, span.stop)))
    return kept


def balanced(items: Sequence[_T], size: Callable[[_T], int], *, max_groups: int) -> list[list[_T]]:
    """Divide items into groups of neighbours of about the same size, one for a thread each.

    >>> spans = [Span(i, i + 1) for i in range(5)]
    >>> [len(group) for group in balanced(spans, lambda span: span.size, max_groups=2)]
    [3, 2]
    """
    sizes = [size(item) for item in items]
    total, done = sum(sizes), 0
    count = min(max_groups, len(items))
    groups: list[list[_T]] = []
    for item, item_size in zip(items, sizes, strict=True):
        if not groups or (done * count >= total * len(groups) and len(groups) < count):
            groups.append([])
        groups[-1].append(item)
        done += item_size
    return groups

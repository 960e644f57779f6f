"""R-tree indexes of points: two columns of coordinates."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from daf_query.index._faults import UnfitIndexError
from daf_query.index._rtree import RTree
from daf_query.scan import Compare, Positions, Predicate, ScanOptions


class PointIndex:
    """An R-tree over two columns of coordinates."""

    def __init__(self, x: str, y: str, tree: RTree) -> None:
        self.columns = (x, y)
        self._tree = tree

    def divisor(self, options: ScanOptions) -> int:
        """Return how selective it has to be."""
        return options.point_index_divisor

    def find(self, conditions: Sequence[Predicate], max_rows: int) -> Positions | None:
        """Return the rows for which all conditions on the columns may be true, ascending.

        ``None`` if there are more than ``max_rows``, or the conditions leave a side of the box
        open.
        """
        (left, right), (bottom, top) = (_interval(name, conditions) for name in self.columns)
        if not all(map(math.isfinite, (left, right, bottom, top))):
            return None
        if left > right or bottom > top:
            return np.empty(0, np.int64)
        try:
            rows = self._tree.search((left, bottom, right, top))
        except UnfitIndexError:  # it was changed this very moment; the next query says so
            return None
        return None if rows.size > max_rows else rows


def _interval(column: str, conditions: Sequence[Predicate]) -> tuple[float, float]:
    """Return the bounds that conditions set to a column.

    >>> _interval("x", [Compare("x", ">", 1), Compare("x", "<=", 2), Compare("y", "==", 0)])
    (1.0, 2.0)
    """
    low, high = -math.inf, math.inf
    for condition in conditions:
        if not isinstance(condition, Compare) or condition.column != column:
            continue
        if condition.operator != "!=":
            value = float(condition.value)  # rounds as the coordinates were rounded
            low = max(low, value) if condition.operator in ("==", ">", ">=") else low
            high = min(high, value) if condition.operator in ("==", "<", "<=") else high
    return low, high

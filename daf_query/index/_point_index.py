"""R-tree indexes over two columns of coordinates: the rows whose point lies in a box."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np

from daf_query.index._faults import UnfitIndexError
from daf_query.index._rtree import RTree
from daf_query.scan import Compare, Positions, Predicate


class PointIndex:
    """An R-tree over two columns."""

    def __init__(self, x: str, y: str, tree: RTree) -> None:
        self.columns = (x, y)
        self._tree = tree

    def find(self, conditions: Mapping[str, Sequence[Predicate]], most: int) -> Positions | None:
        """Return the rows for which all conditions may be true, ascending.

        None if they are more than ``most``, or the conditions leave the box open at a side.
        """
        sides = [_interval(conditions.get(name, ())) for name in self.columns]
        (left, right), (bottom, top) = sides
        if not all(map(math.isfinite, (left, right, bottom, top))):
            return None
        if left > right or bottom > top:
            return np.empty(0, np.int64)
        try:
            rows = self._tree.search((left, bottom, right, top))
        except UnfitIndexError:  # it was changed this very moment; the next query says so
            return None
        return None if rows.size > most else rows


def _interval(conditions: Sequence[Predicate]) -> tuple[float, float]:
    """Return between which numbers conditions leave a column.

    >>> _interval([Compare("x", ">", 1), Compare("x", "<=", 2)])
    (1.0, 2.0)
    """
    low, high = -math.inf, math.inf
    for condition in conditions:
        if isinstance(condition, Compare) and condition.operator != "!=":
            value = float(condition.value)  # rounds as the coordinates were rounded
            low = max(low, value) if condition.operator in ("==", ">", ">=") else low
            high = min(high, value) if condition.operator in ("==", "<", "<=") else high
    return low, high

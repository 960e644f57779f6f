"""Which rows have their point in a box, by an R-tree over two columns of coordinates."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from daf_query.evaluating import Positions
from daf_query.predicates import Compare, Predicate
from daf_storage import DafError, optional_import

_MAGIC = 0xFB
_HEADER_BYTES = 8


class PointLookup:
    """An R-tree over two columns, as the library geo-index stores it."""

    def __init__(self, x: str, y: str, tree: npt.NDArray[np.uint8], rtree: Any) -> None:
        self.columns = (x, y)
        self._tree = tree
        self._rtree = rtree

    @classmethod
    def of(cls, x: str, y: str, tree: npt.NDArray[np.uint8], length: int) -> PointLookup | None:
        """Return it; None if it is none, is of another length, or the library is missing."""
        if len(tree) < _HEADER_BYTES or tree[0] != _MAGIC:  # the library would panic
            return None
        try:
            rtree = optional_import("geoindex_rs.rtree", extra="spatial")
            metadata = rtree.RTreeMetadata.from_index(tree)
        except (DafError, ValueError):
            return None
        is_sound = metadata.num_items == length and metadata.num_bytes == len(tree)
        return cls(x, y, tree, rtree) if is_sound else None

    def find(self, conditions: Mapping[str, Sequence[Predicate]], most: int) -> Positions | None:
        """Return the rows for which all conditions may be true, ascending.

        None if they are more than ``most``, or the conditions leave the box open at a side.
        """
        sides = [_interval(conditions.get(name, ())) for name in self.columns]
        box = [side[n] for n in (0, 1) for side in sides]
        if not all(map(math.isfinite, box)):
            return None
        if box[0] > box[2] or box[1] > box[3]:
            return np.empty(0, np.int64)
        rows = np.asarray(self._rtree.search(self._tree, *box)).astype(np.int64)
        return None if rows.size > most else np.sort(rows)


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

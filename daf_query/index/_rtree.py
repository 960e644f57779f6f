"""R-trees as the library geo-index stores them: built by it, checked as a whole, and searched.

Everything but the items and the boxes follows from the number of items: how many nodes each level
has, and where the children of a node begin.  So the numbers that say so are not looked at; that a
box contains those of its children is checked, or rows would be left out.

Layout, little-endian: magic ``0xFB``; version (high half) and type of coordinates (low half); size
of a node, uint16; number of items, uint32; four coordinates per box, level by level, the items'
first; then a number per box, uint16 or uint32: the item's, or four times the number of the box of
the first child.
"""

from __future__ import annotations

import itertools
import math
import struct
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from daf_query.scan import Compare, Positions, Predicate
from daf_storage.base import optional_import

Bounds = tuple[float, float, float, float]
"""Smallest x and y, then largest x and y."""

_MAGIC: Final = 0xFB
_VERSION: Final = 3
_HEADER: Final = struct.Struct("<BBHI")
_COORDINATES: Final[dict[int, np.dtype[Any]]] = {7: np.dtype("<f4"), 8: np.dtype("<f8")}
_NARROW_NODES: Final = 1 << 14
_SIDES: Final = 4


class UnfitIndexError(ValueError):
    """The arrays of an index do not make sense; the message says why, without naming the index."""


def rtree_of(sides: Sequence[npt.NDArray[Any]]) -> npt.NDArray[np.uint8]:
    """Build an R-tree of boxes, at least one.

    A box that is not finite is put elsewhere: false positives are allowed.

    Parameters
    ----------
    sides
        Smallest x and y, then largest x and y of each item.

    Raises
    ------
    MissingDependencyError
        The extra ``spatial`` is not installed.
    """
    library = optional_import("geoindex_rs.rtree", extra="spatial")
    # The library takes native arrays alone, by the format of their buffers.
    boxes = [side.astype("=f8") for side in sides]
    is_finite = np.all(np.isfinite(boxes), axis=0)
    anywhere = int(np.argmax(is_finite))
    for side in boxes:
        side[~is_finite] = side[anywhere] if is_finite.any() else 0.0
    builder = library.RTreeBuilder(num_items=len(is_finite))
    builder.add(*boxes)
    return np.frombuffer(builder.finish(), np.uint8)


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class RTree:
    """An R-tree over a number of items; `open` makes one of bytes."""

    boxes: npt.NDArray[Any]
    """Those of all levels, the items' first."""
    items: npt.NDArray[Any]
    """The number of each item."""
    levels: Sequence[int]
    """How many boxes each level has."""
    node_size: int
    """How many boxes a node has."""

    @property
    def nbytes(self) -> int:
        """How much memory it takes, if it is not mapped."""
        return int(self.boxes.nbytes + self.items.nbytes)

    @classmethod
    def open(cls, data: npt.NDArray[np.uint8], n_items: int) -> RTree:
        """Return a stored R-tree, after checking all of it.

        Raises
        ------
        UnfitIndexError
            The bytes are none, or one over another number of items.
        """
        coordinates, node_size, stored_items = _header(data)
        if stored_items != n_items:
            raise UnfitIndexError(f"it has {stored_items:,} items for {n_items:,} rows")
        levels = levels_of(n_items, node_size)
        n_boxes = sum(levels)
        number = np.dtype("<u2" if n_boxes < _NARROW_NODES else "<u4")
        stop = _HEADER.size + n_boxes * _SIDES * coordinates.itemsize
        needed = stop + n_boxes * number.itemsize
        if len(data) != needed:
            raise UnfitIndexError(f"it has {len(data):,} bytes, and its items need {needed:,}")
        boxes = data[_HEADER.size : stop].view(coordinates).reshape(-1, _SIDES)
        items = data[stop:].view(number)[:n_items]
        check_items(items)
        start = 0
        for count, above in itertools.pairwise(levels):
            end = start + count
            _check_boxes(boxes[start:end], boxes[end : end + above], node_size)
            start = end
        return cls(boxes, items, levels, node_size)

    def search(self, bounds: Bounds) -> Positions:
        """Return the items whose boxes overlap a box, ascending."""
        left, bottom, right, top = self._rounded(bounds)
        start, node_size = len(self.boxes), self.node_size
        found = np.zeros(1, np.int64)
        for number, count in enumerate(reversed(self.levels)):
            start -= count
            boxes = self.boxes[start : start + count]
            is_few = found.size * node_size < count // 4
            if number and is_few:
                below = (found[:, None] * node_size + np.arange(node_size)).reshape(-1)
                below = below[below < count]
                boxes = boxes[below]
            overlaps = (boxes[:, 0] <= right) & (boxes[:, 1] <= top)
            overlaps &= (boxes[:, 2] >= left) & (boxes[:, 3] >= bottom)
            # A box that overlaps is within one that does: to look at all of them finds no others.
            found = below[overlaps] if number and is_few else np.flatnonzero(overlaps)
        return np.sort(self.items[found].astype(np.int64))

    def _rounded(self, bounds: Bounds) -> Bounds:
        """Return a box that is no smaller where the tree has narrower numbers than the query."""
        if self.boxes.itemsize == np.dtype(np.float64).itemsize:
            return bounds
        sides = np.array(bounds, np.float64).astype(np.float32)
        outwards = np.array([-np.inf, -np.inf, np.inf, np.inf], np.float32)
        for _ in range(2):  # the query was rounded, and the boxes may have been
            sides = np.nextafter(sides, outwards)
        low_x, low_y, high_x, high_y = sides.tolist()
        return low_x, low_y, high_x, high_y


def levels_of(n_items: int, node_size: int) -> list[int]:
    """Return how many boxes each level has, the items' first.

    >>> levels_of(40, 4)
    [40, 10, 3, 1]
    >>> levels_of(1, 16)
    [1]
    """
    levels = [n_items]
    while levels[-1] != 1:
        levels.append(-(-levels[-1] // node_size))
    return levels


def _header(data: npt.NDArray[np.uint8]) -> tuple[np.dtype[Any], int, int]:
    """Return the type of the coordinates, the size of a node, and the number of items."""
    if data.dtype != np.uint8 or data.ndim != 1:
        raise UnfitIndexError("it is no R-tree: it is not a list of bytes")
    if len(data) < _HEADER.size or data[0] != _MAGIC:
        raise UnfitIndexError("it is no R-tree")
    _, version_and_type, node_size, n_items = _HEADER.unpack(data[: _HEADER.size].tobytes())
    version = version_and_type >> 4
    if version != _VERSION:
        raise UnfitIndexError(f"it is an R-tree of version {version}, not {_VERSION}")
    coordinates = _COORDINATES.get(version_and_type & 0xF)
    if coordinates is None:
        raise UnfitIndexError("it is an R-tree over other coordinates than floats")
    if node_size < 2 or n_items < 1:
        raise UnfitIndexError("it is no R-tree: it has no nodes")
    return coordinates, node_size, n_items


def check_items(items: npt.NDArray[Any]) -> None:
    """Raise unless each item is there once."""
    is_there = np.zeros(len(items), np.bool_)
    if int(items.max(initial=0)) >= max(len(items), 1):
        raise UnfitIndexError("it names rows that there are not")
    is_there[items] = True
    if not is_there.all():
        raise UnfitIndexError("it names rows twice and others not at all")


def _check_boxes(children: npt.NDArray[Any], parents: npt.NDArray[Any], node_size: int) -> None:
    """Raise unless each node's box contains those of its children, except where these are NaN."""
    starts = np.arange(0, len(children), node_size)
    low = np.fmin.reduceat(children[:, :2], starts, axis=0)
    high = np.fmax.reduceat(children[:, 2:], starts, axis=0)
    is_below = (parents[:, :2] <= low) | np.isnan(low)
    is_above = (parents[:, 2:] >= high) | np.isnan(high)
    if not (is_below.all() and is_above.all()):
        raise UnfitIndexError("the boxes of its nodes do not contain those below them")


class PointIndex:
    """An R-tree over two columns of coordinates."""

    def __init__(self, x: str, y: str, tree: RTree) -> None:
        self.columns = (x, y)
        self._tree = tree

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
        rows = self._tree.search((left, bottom, right, top))
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

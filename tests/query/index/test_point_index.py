"""Tests of points within boxes: what is found, boxes without a point, boxes that are open."""

from __future__ import annotations

import numpy as np
import pytest

from daf_query.index import PointIndex, RTree
from daf_query.scan import Compare

rtree = pytest.importorskip("geoindex_rs.rtree")
POINTS = [(0.0, 0.0), (1.0, 5.0), (2.0, 4.0), (3.0, 3.0)]


@pytest.fixture
def index() -> PointIndex:
    """Return an index of four points."""
    builder = rtree.RTreeBuilder(num_items=len(POINTS))
    x, y = np.array(POINTS).T.copy()
    builder.add(x, y, x, y)
    tree = RTree.open(np.frombuffer(builder.finish(), np.uint8), len(POINTS))
    return PointIndex("x", "y", tree)


def found(index: PointIndex, box: tuple[float, float, float, float], most: int = 10) -> object:
    """Return the rows in a box."""
    conditions = [
        *(Compare("x", ">=", box[0]), Compare("x", "<=", box[2])),
        *(Compare("y", ">=", box[1]), Compare("y", "<=", box[3])),
    ]
    rows = index.find(conditions, most)
    return None if rows is None else rows.tolist()


def test_points_of_a_box(index: PointIndex) -> None:
    """Its borders belong to it, also where both are the same; a turned one holds none."""
    assert found(index, (1, 3, 3, 5)) == [1, 2, 3]
    assert found(index, (1, 5, 1, 5)) == [1]
    assert found(index, (2, 3, 1, 5)) == []
    assert found(index, (1, 5, 3, 3)) == []


def test_boxes_for_which_the_index_is_not_used(index: PointIndex) -> None:
    """They are open at a side, or hold more points than are worth it."""
    assert found(index, (1, 3, 3, 5), most=3) == [1, 2, 3]
    assert found(index, (1, 3, 3, 5), most=2) is None
    assert found(index, (1, 3, float("inf"), 5)) is None
    assert index.find([Compare("x", "==", 1.0)], 10) is None
    assert index.find([], 10) is None

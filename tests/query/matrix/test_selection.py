"""Tests of the value that says which entries of an axis are chosen."""

from __future__ import annotations

import numpy as np
import pytest

from daf_query.matrix._selection import Selection


@pytest.mark.parametrize(
    "positions",
    [[0, 2, 1], [0, 1], [0, 1, 1], []],
)
def test_only_every_entry_in_order_is_all(positions: list[int]) -> None:
    """A permutation, a part and repeated entries are not the whole axis."""
    assert not Selection.of(np.array(positions, np.int64), 3).is_all
    assert Selection.of(np.arange(3), 3).is_all
    assert Selection.all(3).is_all
    assert Selection.of(np.array([], np.int64), 0).is_all

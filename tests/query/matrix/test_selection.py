"""Tests of the value that says which entries of an axis are chosen."""

from __future__ import annotations

import pickle
from typing import Any

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


@pytest.mark.parametrize("positions", [[], [4], [0, 1, 2], [3, 4, 5], [5, 4], [0, 2], [1, 1]])
@pytest.mark.parametrize("is_all", [True, False])
def test_a_pickled_selection_is_the_same(positions: list[int], is_all: Any) -> None:
    """Its positions, their type, and whether it is all of the axis."""
    selection = Selection(np.array(positions, np.int64), is_all=is_all)
    again = pickle.loads(pickle.dumps(selection))
    assert (again.positions.tolist(), again.is_all) == (positions, is_all)
    assert again.positions.dtype == np.int64


def test_a_pickled_range_has_no_positions() -> None:
    """However many they are; others have theirs."""
    assert len(pickle.dumps(Selection.all(1_000_000))) < 300
    assert len(pickle.dumps(Selection.all(1_000_000).part(10, 900_000))) < 300
    assert len(pickle.dumps(Selection.all(1_000).take(np.arange(0, 1_000, 2)))) > 4_000


def test_all_of_an_axis_takes_no_memory() -> None:
    """However long it is, until its positions are asked for."""
    whole = Selection.all(1 << 50)
    assert (whole.size, whole.is_all) == (1 << 50, True)
    assert whole.part(0, 1 << 50) is whole
    assert pickle.loads(pickle.dumps(whole)).size == 1 << 50
    assert Selection.all(3).positions.tolist() == [0, 1, 2]

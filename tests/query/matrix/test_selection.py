"""Tests of the value that says which entries of an axis are chosen."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from daf_query.matrix import Selection


@pytest.mark.parametrize("positions", [[0, 2, 1], [0, 1], [0, 1, 1], []])
def test_only_every_entry_in_order_is_all(positions: list[int]) -> None:
    """A permutation, a part and repeated entries are not the whole axis."""
    assert not Selection.of(np.array(positions, np.int64), 3).is_all
    assert Selection.of(np.arange(3), 3).is_all
    assert Selection.all(3).is_all
    assert Selection.of(np.array([], np.int64), 0).is_all


@given(
    st.lists(st.integers(0, 1 << 40))
    | st.lists(st.integers(0, 300))
    | st.integers(3, 23).map(lambda stop: list(range(3, stop)))
)
def test_a_pickled_selection_is_the_same(positions: list[int]) -> None:
    """Its positions in their order, duplicates included, and their type."""
    selection = Selection(np.array(positions, np.int64))
    again = pickle.loads(pickle.dumps(selection))
    assert (again.positions.tolist(), again.is_all) == (positions, False)
    assert again.positions.dtype == np.int64


@pytest.mark.parametrize(
    ("positions", "size"),
    [
        (np.arange(10**6, 2 * 10**6), 1_000),
        (np.arange(0, 10**5, 3), 100),
        (np.array([0, 10**9]), 0),
    ],
)
def test_a_pickled_selection_is_small(positions: Any, size: int) -> None:
    """A range takes next to nothing, rows of a predicate less than a byte each, few far ones little."""
    assert len(pickle.dumps(Selection(positions))) < size + 250
    assert len(pickle.dumps(Selection.all(positions.size))) < 200


def test_all_of_an_axis_takes_no_memory() -> None:
    """However long it is, until its positions are asked for."""
    whole = Selection.all(1 << 50)
    assert (whole.size, whole.is_all) == (1 << 50, True)
    assert whole.part(0, 1 << 50) is whole
    assert pickle.loads(pickle.dumps(whole)).size == 1 << 50
    assert Selection.all(3).positions.tolist() == [0, 1, 2]

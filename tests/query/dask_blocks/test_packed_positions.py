"""Tests of positions in few bytes."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from daf_query.dask_blocks import PackedPositions

POSITIONS = st.one_of(
    st.lists(st.integers(0, 1 << 40)),
    st.lists(st.integers(0, 300)),
    st.builds(
        lambda start, count: list(range(start, start + count)),
        st.integers(0, 9),
        st.integers(0, 20),
    ),
)


@given(POSITIONS)
def test_positions_come_back(positions: list[int]) -> None:
    """In their order, duplicates included; as int64 that the caller may change."""
    packed = PackedPositions.of(np.array(positions, np.int64))
    result = packed.positions()
    assert result.tolist() == positions
    assert result.dtype == np.int64
    assert result.flags.writeable


@pytest.mark.parametrize(
    ("positions", "size"),
    [
        (np.arange(10**6, 2 * 10**6), 0),
        (np.arange(0, 10**5, 3), 33_333),
        (np.array([0, 10**9]), 4),
    ],
)
def test_sizes(positions: np.ndarray, size: int) -> None:
    """A range takes nothing, rows of a predicate a byte each, few far ones as much as they need."""
    assert len(PackedPositions.of(positions).steps) == size

"""Tests of slices of dense matrices: what numpy's indexing gives, without an index of their size."""

from __future__ import annotations

import tracemalloc
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from daf_query.matrix import Selection, gather_dense, plan_slice
from daf_query.matrix import _dense_gather as dense_gathering
from daf_storage import DafWriter, ZarrDaf


@st.composite
def selections(draw: st.DrawFn, length: int) -> Selection:
    """Return all entries, neighbours, or any positions in any order, duplicates too."""
    positions = draw(
        st.just(range(length))
        | st.tuples(st.integers(0, length), st.integers(0, length)).map(
            lambda pair: range(min(pair), max(pair))
        )
        | st.lists(st.integers(0, length - 1), max_size=2 * length)
    )
    return Selection.of(np.array(positions, np.int64), length)


@given(data=st.data())
def test_picking_is_indexing(data: st.DataObject) -> None:
    """Whatever is selected, of whichever type and order in memory, in blocks of whatever size."""
    shape = data.draw(st.tuples(st.integers(1, 7), st.integers(1, 24)))
    dtype: Any = data.draw(
        st.sampled_from([np.float32, np.int64, np.uint8, np.bool_, ">f4", object])
    )
    values: Any = (np.arange(shape[0] * shape[1]) % 251).astype(dtype).reshape(shape)
    order = data.draw(st.sampled_from(["C", "F", "gaps"]))
    values = np.repeat(values, 2, axis=1)[:, ::2] if order == "gaps" else values.copy(order)
    major, minor = data.draw(selections(shape[0])), data.draw(selections(shape[1]))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(dense_gathering, "_PICKED_ELEMENTS", data.draw(st.integers(1, 40)))
        found = dense_gathering._index(values, major, minor)
    expected = values[major.positions][:, minor.positions]
    assert found.dtype == values.dtype
    np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize(("rows", "columns"), [([0, 4], [1, 3]), ([0, -1], [1, 3]), ([0], [3, 24])])
def test_positions_off_their_axis_are_refused(rows: list[int], columns: list[int]) -> None:
    """They are an error, as of numpy's indexing: nothing beside them is returned."""
    values = np.zeros((4, 24), np.float32)
    selections = (Selection(np.array(each), is_all=False) for each in (rows, columns))
    with pytest.raises(IndexError, match="a selected position leaves the range 0 to"):
        dense_gathering._index(values, *selections)


@pytest.mark.parametrize("columns", [np.arange(0, 600, 2), np.arange(0, 600, 30)])
def test_no_index_of_the_size_of_the_slice(tmp_path: Path, columns: Any) -> None:
    """Of few columns as of many, the result is all that is allocated, and a block."""
    daf = ZarrDaf(tmp_path / "x.daf.zarr", "w")
    assert isinstance(daf, DafWriter)
    values = np.arange(600 * 9000, dtype=np.float32).reshape(600, 9000)
    daf.add_axis("r", [f"r{i}" for i in range(600)])
    daf.add_axis("c", [f"c{i}" for i in range(9000)])
    daf.set_matrix("r", "c", "m", values, relayout=False)
    rows = np.arange(0, 9000, 3)[::-1]
    major, minor = Selection.of(rows, 9000), Selection.of(columns, 600)
    plan = plan_slice(daf.open_matrix("r", "c", "m"), major, minor)
    gather_dense(plan)
    tracemalloc.start()
    try:
        found = gather_dense(plan)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    np.testing.assert_array_equal(found, values.T[rows][:, columns])
    assert peak < found.nbytes + 3 * 8 * dense_gathering._PICKED_ELEMENTS

"""Tests of slices of dense matrices: what numpy's indexing gives, without an index of their size."""

from __future__ import annotations

import tracemalloc
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from daf_query.matrix import Selection, SlicePlan, gather_dense
from daf_storage import DafWriter, MemoryDaf, ZarrDaf


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


def filled(daf: DafWriter, values: Any) -> DafWriter:
    """Return a data set with a matrix, of which the columns are stored one after the other."""
    daf.add_axis("r", [f"r{i}" for i in range(values.shape[0])])
    daf.add_axis("c", [f"c{i}" for i in range(values.shape[1])])
    daf.set_matrix("r", "c", "m", values, relayout=False)
    return daf


@given(data=st.data())
def test_gathering_is_indexing(data: st.DataObject) -> None:
    """Whatever is selected, of whichever type."""
    shape = data.draw(st.tuples(st.integers(1, 7), st.integers(1, 24)))
    dtype: Any = data.draw(st.sampled_from([np.float32, np.int64, np.uint8, np.bool_, object]))
    values: Any = (np.arange(shape[0] * shape[1]) % 251).reshape(shape)
    values = values.astype(str).astype(object) if dtype is object else values.astype(dtype)
    major, minor = data.draw(selections(shape[1])), data.draw(selections(shape[0]))
    stored = filled(MemoryDaf(), values).open_matrix("r", "c", "m")
    found = gather_dense(SlicePlan(stored, major, minor))
    expected = values.T[major.positions][:, minor.positions]
    assert found.dtype == values.dtype
    np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("columns", [np.arange(0, 600, 2), np.arange(0, 600, 30)])
def test_no_index_of_the_size_of_the_slice(tmp_path: Path, columns: Any) -> None:
    """Of few columns as of many, the result is all that is allocated, and a little."""
    daf = ZarrDaf(tmp_path / "x.daf.zarr", "w")
    assert isinstance(daf, DafWriter)
    values = np.arange(600 * 9000, dtype=np.float32).reshape(600, 9000)
    rows = np.arange(0, 9000, 3)[::-1]
    major, minor = Selection.of(rows, 9000), Selection.of(columns, 600)
    plan = SlicePlan(filled(daf, values).open_matrix("r", "c", "m"), major, minor)
    gather_dense(plan)
    tracemalloc.start()
    try:
        found = gather_dense(plan)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    np.testing.assert_array_equal(found, values.T[rows][:, columns])
    assert peak < found.nbytes + (1 << 20)

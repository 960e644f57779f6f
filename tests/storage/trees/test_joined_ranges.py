"""Tests of many ranges of an array that are read or copied at once, beside slices of numpy."""

from __future__ import annotations

from typing import Any

import h5py
import hypothesis.strategies as st
import numpy as np
import pytest
import zarr
from hypothesis import given

from daf_storage.stores import DirectoryStore
from daf_storage.trees import Hdf5File, Hdf5Tree, Ranges, StoredArray, ZarrTree

LENGTH = 2000
VALUES = np.random.default_rng(0).integers(0, 1000, LENGTH).astype(np.float64)


@pytest.fixture(scope="module")
def arrays(tmp_path_factory: pytest.TempPathFactory) -> dict[str, StoredArray]:
    """Return the same vector, stored in each way."""
    folder = tmp_path_factory.mktemp("ranges")
    with h5py.File(folder / "x.h5", "w") as file:
        grown = file.create_dataset("runs", (0,), "f8", maxshape=(None,), chunks=(64,))
        for start in range(0, LENGTH, 500):
            grown.resize((start + 500,))
            grown[start:] = VALUES[start : start + 500]
            file.flush()
            file[f"between/{start}"] = np.ones(5000)
        file.create_dataset("gzip", data=VALUES, chunks=(64,), compression="gzip")
        file.create_dataset("big", data=VALUES.astype(">f8"), chunks=(64,))
        file.create_dataset("whole", data=VALUES)
    root = zarr.open_group(folder / "z", mode="w")
    root.create_array("files", data=VALUES, chunks=(64,))
    root.create_array("sharded", data=VALUES, chunks=(64,), shards=(256,))
    root.create_array("plain", data=VALUES, chunks=(LENGTH,), compressors=None)
    root.create_array("missing", shape=(LENGTH,), chunks=(64,), shards=(2048,), dtype="f8")
    trees: list[Any] = [
        Hdf5Tree(Hdf5File(h5py.File(folder / "x.h5", "r"), location="x.h5")),
        ZarrTree(DirectoryStore(folder / "z")),
    ]
    found = {}
    for tree in trees:
        for name, kind in tree.children("").items():
            if kind == "array":
                found[name] = tree.node(name).array()
    assert len(found) == 8
    return found


@given(st.data())
def test_many_ranges_equal_slices(arrays: dict[str, StoredArray], data: st.DataObject) -> None:
    """Short and long ones, in any order, overlapping, empty, over the ends of chunks and runs."""
    array = arrays[data.draw(st.sampled_from(sorted(arrays)))]
    most = data.draw(st.sampled_from([3, 90, 400, LENGTH]))
    starts = np.array(data.draw(st.lists(st.integers(0, LENGTH), max_size=30)), np.int64)
    if data.draw(st.booleans()):
        starts.sort()
    given_sizes = data.draw(
        st.lists(st.integers(0, most), min_size=starts.size, max_size=starts.size)
    )
    sizes = np.minimum(np.array(given_sizes, np.int64), LENGTH - starts)
    values = np.zeros(LENGTH) if array is arrays["missing"] else VALUES
    expected = [values[start : start + size] for start, size in zip(starts, sizes, strict=True)]
    if data.draw(st.booleans()):  # its chunks are remembered, some or all
        some = data.draw(st.integers(0, 30))
        array.read_joined(Ranges.joined(starts[:some], sizes[:some]))
    found = array.read_joined(Ranges.joined(starts, sizes))
    assert found.dtype == np.float64
    assert found.flags.writeable
    assert np.array_equal(found, np.concatenate([np.empty(0), *expected]))

"""Tests of many ranges of an array that are read or copied at once, beside slices of numpy."""

from __future__ import annotations

from typing import Any

import h5py
import hypothesis.strategies as st
import numpy as np
import pytest
import zarr
from hypothesis import given, settings

from daf_storage.base import Span
from daf_storage.stores import DirectoryStore
from daf_storage.trees import Hdf5File, Hdf5Tree, StoredArray, ZarrTree, read_joined
from daf_storage.trees._joined_ranges import Ranges, join_views

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


@settings(max_examples=80)
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
        read_joined(array, starts[:some], sizes[:some])
    found = read_joined(array, starts, sizes)
    assert found.dtype == np.float64
    assert found.flags.writeable
    assert np.array_equal(found, np.concatenate([np.empty(0), *expected]))


@pytest.mark.parametrize("size", [5, 100, 5_000])
def test_ranges_of_several_views_are_copied_once(size: int) -> None:
    """Short ones by their positions, long ones as bytes, huge ones by numpy; also whole rows."""
    random = np.random.default_rng(1)
    for rest in ((), (3,)):
        views = [random.random((n, *rest)).astype(np.float32) for n in (6_000, 9_000, 7_000)]
        numbers = np.array([1, 1, 0, 2, 2, 2, 0])
        starts = np.array([0, 4_000, 1_000, 2_000, 2_000, 100, 0])
        sizes = np.array([size, size, size, size, size, size, 1])
        joined = join_views(views, numbers, Ranges.joined(starts, sizes))
        parts = [
            views[number][start : start + count]
            for number, start, count in zip(numbers, starts, sizes, strict=True)
        ]
        assert np.array_equal(joined, np.concatenate(parts))
        assert joined.dtype == np.float32
        assert joined.flags.writeable
        none = join_views(views, numbers[:0], Ranges.joined(starts[:0], sizes[:0]))
        assert none.shape == (0, *rest)


@pytest.mark.parametrize("count", [3, 300])
def test_of_other_dimensions_only_some_elements(count: int) -> None:
    """Copied range by range, or with one index for all."""
    random = np.random.default_rng(0)
    source = random.random((400, 5))
    starts = random.integers(0, 390, count)
    spans = [Span(int(start), int(start) + 1 + int(start) % 9) for start in starts]
    ranges = Ranges.of(spans)
    target = np.zeros((ranges.total, 4))
    rest = (slice(1, 4),), (slice(0, 3),)
    ranges.copy(source, target, *rest)
    assert np.array_equal(target[:, :3], np.concatenate([source[s.slice, 1:4] for s in spans]))
    assert not target[:, 3].any()
    back = Ranges(ranges.targets, ranges.sizes, ranges.starts)
    copied = np.zeros((400, 5))
    back.copy(target, copied, (slice(0, 3),), (slice(1, 4),))
    for span in spans:
        assert np.array_equal(copied[span.slice, 1:4], source[span.slice, 1:4])

"""Tests of chunks of HDF5 files that are read without HDF5, beside h5py."""

from __future__ import annotations

import os
import time
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import h5py
import hypothesis.strategies as st
import numcodecs
import numpy as np
import pytest
from hypothesis import given

from daf_storage import errors
from daf_storage.base import Span
from daf_storage.stores import ReadEstimate
from daf_storage.trees import ChunkedArray, Hdf5File, Hdf5Tree
from tests.limits import lower
from tests.suites.examples import array_of
from tests.support import recorded_calls

LENGTH = 1003
OPTIONS: dict[str, dict[str, Any]] = {
    "plain": {},
    "gzip": {"compression": "gzip"},
    "shuffle": {"compression": "gzip", "shuffle": True},
    "lzf": {"compression": "lzf", "shuffle": True},
    "sum": {"fletcher32": True, "compression": "gzip"},
}
DTYPES = {
    "f4": "<f4",
    "big": ">i4",
    "f8": ">f8",
    "u1": "u1",
    "u2": "<u2",
    "i1": "i1",
    "bool": "?",
    "i8": "<i8",
}
NAMES = [
    *(f"{name}/{dtype}/{kind}" for name in OPTIONS for dtype in DTYPES for kind in "12r"),
    "gap/plain",
    "gap/gzip",
]


def settle(path: Path) -> None:
    """Make a file look as old as it must be for its times to tell versions apart."""
    past = time.time_ns() - 10**9
    os.utime(path, ns=(past, past))
    while time.time_ns() - path.stat().st_ctime_ns < 110_000_000:
        time.sleep(0.01)


def tree_of(path: Path, mode: Any = "r") -> Hdf5Tree:
    """Open a file."""
    return Hdf5Tree(Hdf5File(h5py.File(path, mode), location=str(path)))


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a file with datasets of every type, in one and two dimensions, of every filter."""
    path = tmp_path_factory.mktemp("chunks") / "x.h5"
    numbers = np.random.default_rng(0).integers(0, 100, LENGTH)
    with h5py.File(path, "w") as file:
        for name, options in OPTIONS.items():
            for called, dtype in DTYPES.items():
                values = numbers > 50 if dtype == "?" else numbers
                at = f"{name}/{called}"
                grown = file.create_dataset(
                    f"{at}/1", (0,), dtype, maxshape=(None,), chunks=(64,), **options
                )
                for start in range(0, LENGTH, 100):  # as a writer adds them: in several runs
                    grown.resize((min(start + 100, LENGTH),))
                    grown[start:] = values[start : start + 100]
                    if start == 500:
                        file.flush()
                        file.create_dataset(f"{at}/between", data=np.ones(5000))
                table = values[:1000].reshape(50, 20)
                file.create_dataset(f"{at}/2", data=table.astype(dtype), chunks=(8, 7), **options)
                file.create_dataset(f"{at}/r", data=table.astype(dtype), chunks=(8, 20), **options)
        for name in ("plain", "gzip"):
            gap = file.create_dataset(
                f"gap/{name}", (30, 20), "<i2", chunks=(8, 8), fillvalue=7, **OPTIONS[name]
            )
            gap[8:20, 3:9] = 1
    settle(path)
    return path


@pytest.fixture(scope="module")
def opened(path: Path) -> Iterator[tuple[Hdf5Tree, h5py.File]]:
    """Return the file as both read it."""
    with h5py.File(path, "r") as file:
        yield tree_of(path), file


@given(st.data())
def test_parts_equal_those_of_h5py(opened: tuple[Hdf5Tree, h5py.File], data: st.DataObject) -> None:
    """Any ranges of rows and of columns, of any type and filter; the type is the native one."""
    tree, file = opened
    name = data.draw(st.sampled_from(NAMES))
    array: Any = array_of(tree, name)
    stored = file[name]
    assert isinstance(stored, h5py.Dataset)
    picks = st.integers(0, stored.shape[0]).flatmap(
        lambda start: st.integers(start, stored.shape[0]).map(lambda stop: Span(start, stop))
    )
    spans = data.draw(st.lists(picks, max_size=4))
    within = None
    if stored.ndim == 2 and data.draw(st.booleans()):
        within = Span(*sorted(data.draw(st.tuples(*[st.integers(0, stored.shape[1])] * 2))))
    columns = () if within is None else (within.slice,)
    found = array.read_spans(spans, within)
    assert array._chunks(spans) is not None
    for part, span in zip(found, spans, strict=True):
        assert part.dtype == array.info.storage_type.dtype
        assert not part.flags.writeable
        assert np.array_equal(part, stored[(span.slice, *columns)])
    assert np.array_equal(array.read(), stored[()])


def test_estimates_say_what_is_decoded_and_what_is_used(path: Path) -> None:
    """The stored bytes of the chunks, what they expand to, and what is needed of that."""
    tree, spans, found = tree_of(path), [Span(0, 3), Span(5, 9), Span(60, 70)], {}
    for name in ("gzip", "plain"):
        found[name] = estimate = ReadEstimate()
        array_of(tree, f"{name}/f4/1").estimate(spans, estimate)
        assert estimate.is_exact
    with h5py.File(path) as file:
        sizes = [file["gzip/f4/1"].id.get_chunk_info(n).size for n in (0, 1)]  # type: ignore[union-attr] # it is there
    assert (found["plain"].size_bytes, found["plain"].decoded_bytes) == (17 * 4, 0)
    packed = found["gzip"]
    assert packed.size_bytes == sum(sizes)
    assert (packed.decoded_bytes, packed.used_bytes) == (128 * 4, 17 * 4)


def test_only_what_is_decoded_is_remembered(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also what HDF5 decodes; elements that are in the file as they are take no memory twice."""
    decoded = recorded_calls(monkeypatch, (ChunkedArray, "decode"), lambda _, at, __: at)
    tree = tree_of(path)
    for name, count in (("gzip", 0), ("sum", 0), ("plain", 21)):
        array = array_of(tree, f"{name}/f4/2")
        first = array.read()
        decoded.clear()
        assert np.array_equal(array.read(), first)
        assert len(decoded) == count


@pytest.mark.parametrize("mode", ["r", "r+"])
@pytest.mark.parametrize("options", [{}, {"fletcher32": True}, {"scaleoffset": 0}])
def test_a_chunk_that_expands_too_far(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, options: dict[str, Any], mode: Any
) -> None:
    """It is an error that names the chunk, and costs no memory; so is one that is too short.

    Also where HDF5 is to read it: out of a file that is written, or with a filter of its own.
    """
    lower(monkeypatch, free_bytes=1, deflate_ratio=1 << 40)
    damaged = [zlib.compress(bytes(1 << 24)), b"bad"]
    if mode == "r" and "scaleoffset" not in options:
        damaged.append(zlib.compress(b"x"))
    for number, data in enumerate(damaged):
        path = tmp_path / f"{number}.h5"
        with h5py.File(path, "w") as file:
            dataset = file.create_dataset(
                "x", (25,), "<u2", chunks=(10,), compression="gzip", **options
            )
            dataset[:] = 1
            is_summed = "fletcher32" in options
            stored = numcodecs.Fletcher32().encode(data) if is_summed else data
            dataset.id.write_direct_chunk((10,), stored, 0)
        array = array_of(tree_of(path, mode), "x")
        assert array.read_rows(Span(0, 10)).tolist() == [1] * 10
        with pytest.raises(errors.CorruptDataError, match=r"x: (the chunk at \[10|chunk \[1)\]"):
            array.read()


def test_filters_that_are_not_there_and_those_that_fail(tmp_path: Path) -> None:
    """Of the one, the message says its number and the package; of the other, that it is damage."""
    with h5py.File(tmp_path / "x.h5", "w") as file:
        for name, number in (("unknown", 40_004), ("damaged", h5py.h5z.FILTER_LZF)):
            options: Any = {"compression": number, "allow_unknown_filter": True}
            dataset = file.create_dataset(name, (10,), "<u2", chunks=(10,), **options)
            dataset.id.write_direct_chunk((0,), b"bad")
    tree = tree_of(tmp_path / "x.h5")
    with pytest.raises(
        errors.UnsupportedDataError, match=r"unknown: .*\(number 40004\).*hdf5plugin"
    ):
        array_of(tree, "unknown").read()
    with pytest.raises(errors.CorruptDataError, match="damaged: cannot be read"):
        array_of(tree, "damaged").read()


def test_more_chunks_than_any_list_has(tmp_path: Path) -> None:
    """HDF5 looks up those that are read."""
    with h5py.File(tmp_path / "x.h5", "w") as file:
        file.create_dataset("x", (1 << 40,), "<u2", chunks=(1,))[5] = 1
    assert array_of(tree_of(tmp_path / "x.h5"), "x").read_rows(Span(4, 7)).tolist() == [0, 1, 0]

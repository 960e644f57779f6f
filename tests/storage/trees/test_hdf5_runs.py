"""Tests of runs of chunks: the first ranges are read out of the file, later ones out of a mapping."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest

from daf_storage.trees import Hdf5File, Hdf5Tree, _hdf5_array, read_joined
from daf_storage.trees._hdf5_array import Hdf5Array

N_ROWS = 100_000


def array_of(path: Path) -> Hdf5Array:
    """Return the dataset x of a file."""
    node = Hdf5Tree(Hdf5File(h5py.File(path, "r"), location=str(path))).node("x")
    assert node is not None
    array = node.array()
    assert array is not None
    return array


@pytest.fixture(params=["<f4", ">f4"])
def path(tmp_path: Path, request: pytest.FixtureRequest) -> Path:
    """Return a file with an uncompressed dataset whose chunks lie in many runs."""
    path = tmp_path / "x.h5"
    with h5py.File(path, "w") as file:
        x = file.create_dataset("x", (N_ROWS,), request.param, chunks=(1_000,))
        y = file.create_dataset("y", (N_ROWS,), request.param, chunks=(1_000,))
        for start in range(0, N_ROWS, 3_000):
            rows = slice(start, min(start + 3_000, N_ROWS))
            x[rows] = np.arange(rows.start, rows.stop)
            y[rows] = 0
    return path


@pytest.fixture
def joins(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Return a list of how many pieces were copied out of the mapping, each time that some were."""
    done: list[int] = []
    original = vars(_hdf5_array)["join_views"]

    def recorded(views: Any, numbers: Any, pieces: Any) -> Any:
        done.append(numbers.size)
        return original(views, numbers, pieces)

    monkeypatch.setattr(_hdf5_array, "join_views", recorded)
    return done


def test_ranges_of_several_runs(path: Path, joins: list[int]) -> None:
    """In any order, overlapping, empty, and across the borders of runs."""
    array = array_of(path)
    random = np.random.default_rng(1)
    for count in (1, 700, 700, 700, 5_000):
        starts = random.integers(0, N_ROWS - 150, count)
        sizes = random.integers(0, 150, count)
        found = read_joined(array, starts, sizes)
        parts = [np.arange(s, s + n) for s, n in zip(starts.tolist(), sizes.tolist(), strict=True)]
        assert np.array_equal(found, np.concatenate(parts))
    assert len(joins) == 5


def test_long_ranges(path: Path, joins: list[int]) -> None:
    """Their pieces are copied at once."""
    array = array_of(path)
    starts, sizes = np.array([0, 50_000]), np.array([20_000, 30_000])
    found = read_joined(array, starts, sizes)
    assert np.array_equal(found, np.r_[np.arange(20_000), np.arange(50_000, 80_000)])
    assert len(joins) == 1

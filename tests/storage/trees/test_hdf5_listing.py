"""Tests of the lists of the chunks of HDF5 datasets."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import h5py
import numpy as np
import pytest

from daf_storage import errors
from daf_storage.base import StorageType
from daf_storage.trees import ArrayInfo, Hdf5File, Hdf5Tree
from daf_storage.trees._hdf5_array import ChunkListing, Hdf5Array
from tests.limits import lower


def array_of(path: Path) -> Hdf5Array:
    """Return the dataset x of a file."""
    node = Hdf5Tree(Hdf5File(h5py.File(path, "r"), location=str(path))).node("x")
    assert node is not None
    array = node.array()
    assert array is not None
    return array


class _Listed:
    """A dataset whose list of chunks was changed."""

    def __init__(self, chunks: list[tuple[tuple[int, ...], int, Any, int]]) -> None:
        self._chunks = chunks

    def chunk_iter(self, note: Any) -> Any:
        names = ("chunk_offset", "filter_mask", "byte_offset", "size")
        for chunk in self._chunks:
            problem = note(SimpleNamespace(**dict(zip(names, chunk, strict=True))))
            if problem is not None:
                return problem
        return None


@pytest.mark.parametrize(
    ("chunks", "problem"),
    [
        ([((0,), 0, 990, 20)], "outside the file"),
        ([((0,), 0, 2**40, 20)], "outside the file"),
        ([((0,), 0, 2**63 - 1, 20)], "outside the file"),
        ([((0,), 0, 100, 2**62)], "outside the file"),
        ([((5,), 0, 100, 20)], "outside its shape"),
        ([((30,), 0, 100, 20)], "outside its shape"),
        ([((0,), 0, 100, 20), ((0,), 0, 200, 20)], "at the same place"),
        ([((0,), 0, 2**64 - 1, 20)], "some nowhere"),
        ([((0,), 0, None, 20)], "some nowhere"),
        ([((0,), 0, 100, 20)] * 9, "more chunks than"),
    ],
)
def test_lists_of_chunks_that_lie(chunks: Any, problem: str) -> None:
    """Nothing outside the file or the dataset is read: it is an error."""
    small = ArrayInfo((25,), StorageType.UINT16, (10,), is_mappable=False)
    with pytest.raises(errors.CorruptDataError, match=problem):
        ChunkListing.of(_Listed(chunks), small, 1000, what="x")
    fine = ChunkListing.of(_Listed([((10,), 1, 100, 20)]), small, 1000, what="x")
    assert fine.offsets.tolist() == [-1, 100, -1]
    assert fine.masks[1] == 1


def test_lists_of_too_many_chunks_are_not_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """HDF5 reads such a dataset itself."""
    path = tmp_path / "x.h5"
    values = np.arange(160)
    with h5py.File(path, "w") as file:
        file.create_dataset("x", data=values, chunks=(10,), compression="gzip")
    lower(monkeypatch, listed_chunks=15)
    array = array_of(path)
    assert array._chunks() is None
    assert np.array_equal(array.read(), values)


@pytest.mark.parametrize("libver", ["earliest", "latest"])
def test_chunks_of_any_version_are_listed(tmp_path: Path, libver: str) -> None:
    """As HDF5 says of each by itself."""
    path = tmp_path / "x.h5"
    values = np.arange(1000).reshape(100, 10)
    with h5py.File(path, "w", libver=libver) as file:
        file.create_dataset("x", data=values, chunks=(7, 3), compression="gzip")
    array = array_of(path)
    assert np.array_equal(array.read(), values)
    with h5py.File(path, "r") as file:
        dataset: Any = file["x"]
        listed = ChunkListing.of(dataset.id, array.info, path.stat().st_size, what="x")
        stored = [dataset.id.get_chunk_info(n) for n in range(dataset.id.get_num_chunks())]
    for each in stored:
        number = each.chunk_offset[0] // 7 * 4 + each.chunk_offset[1] // 3
        found = listed.offsets[number], listed.sizes[number], listed.masks[number]
        assert found == (each.byte_offset, each.size, each.filter_mask)
    assert listed.offsets.size == len(stored)

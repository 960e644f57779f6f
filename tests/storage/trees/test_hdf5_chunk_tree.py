"""Tests of B-trees of chunks that are read from the bytes of a file, beside what HDF5 says."""

from __future__ import annotations

import zlib
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest

from daf_storage.trees._hdf5_chunk_tree import chunks_in_tree

MOST = 1 << 16


def said_by_hdf5(dataset: Any) -> list[tuple[int, ...]]:
    """Return what HDF5 says of the chunks, in order."""
    found: list[tuple[int, ...]] = []
    dataset.id.chunk_iter(
        lambda chunk: found.append(
            (*chunk.chunk_offset, chunk.byte_offset, chunk.size, chunk.filter_mask)
        )
    )
    return sorted(found)


def said_by_bytes(path: Path, name: str, data: Any = None, most: int = MOST) -> Any:
    """Return the same as it is read from the bytes; None if HDF5 had better be asked."""
    with h5py.File(path, "r") as file:
        dataset: Any = file[name]
        header = int(h5py.h5o.get_info(dataset.id).addr)
        chunks = dataset.chunks or (1,)
    data = np.fromfile(path, np.uint8) if data is None else data
    table = chunks_in_tree(data, header, chunks, most=most)
    return None if table is None else sorted(map(tuple, table.tolist()))


def nodes_of(data: Any) -> list[int]:
    """Return where the nodes of trees of chunks are."""
    return [at for at in range(0, data.size, 8) if bytes(data[at : at + 5]) == b"TREE\1"]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Return a file with datasets of few chunks and of many, in one to three dimensions."""
    path = tmp_path / "x.h5"
    random = np.random.default_rng(3)
    with h5py.File(path, "w") as file:
        file.create_dataset("one", data=np.arange(5), chunks=(10,), maxshape=(None,))
        file.create_dataset("many", data=np.arange(9_001), chunks=(1,))
        file.create_dataset("flat", data=random.random((50, 30)), chunks=(7, 4))
        file.create_dataset("deep", data=random.random((9, 8, 7)), chunks=(2, 3, 4), shuffle=True)
        file.create_dataset("packed", data=np.arange(5_000), chunks=(3,), compression="gzip")
        gaps = file.create_dataset("gaps", (100, 100), "i4", chunks=(10, 10))
        gaps[25:45, 60:80] = 1
        mixed = file.create_dataset("mixed", (30,), "<u2", chunks=(10,), compression="gzip")
        mixed.id.write_direct_chunk((0,), bytes(20), 1)
        mixed.id.write_direct_chunk((20,), zlib.compress(bytes(20)), 0)
        shrunk = file.create_dataset("shrunk", (90,), "i4", chunks=(4,), maxshape=(None,))
        shrunk[:] = 1
        shrunk.resize((17,))
        for number in range(40):  # so that the header goes on elsewhere
            shrunk.attrs[f"attribute {number}"] = "x" * 50
        file.create_dataset("contiguous", data=np.arange(5))
        file.create_dataset("empty", (0,), "i4", chunks=(10,), maxshape=(None,))
    return path


@pytest.mark.parametrize(
    "name", ["one", "many", "flat", "deep", "packed", "gaps", "mixed", "shrunk"]
)
def test_the_bytes_say_what_hdf5_says(path: Path, name: str) -> None:
    """Places, sizes and filters of all chunks are the same, in trees of one to three levels."""
    with h5py.File(path, "r") as file:
        expected = said_by_hdf5(file[name])
    assert expected
    assert said_by_bytes(path, name) == expected


def test_hdf5_is_asked_of_what_is_no_tree(path: Path, tmp_path: Path) -> None:
    """Contiguous datasets, those without chunks, and files of the latest version alone."""
    assert said_by_bytes(path, "contiguous") is None
    assert said_by_bytes(path, "empty") is None
    latest = tmp_path / "latest.h5"
    with h5py.File(latest, "w", libver="latest") as file:
        file.create_dataset("x", data=np.arange(100), chunks=(10,))
        file.create_dataset("y", data=np.arange(100), chunks=(10,), maxshape=(None,))
    assert said_by_bytes(latest, "x") is None
    assert said_by_bytes(latest, "y") is None


def test_more_chunks_than_there_can_be_are_left_to_hdf5(path: Path) -> None:
    """The list is never longer than the grid, whatever the file says."""
    assert said_by_bytes(path, "many", most=9_000) is None
    assert said_by_bytes(path, "one", most=0) is None


def test_a_damaged_tree_is_left_to_hdf5_or_says_other_numbers(tmp_path: Path) -> None:
    """No byte of a header or of a node makes it raise, loop, or list a chunk before the file."""
    path = tmp_path / "x.h5"
    with h5py.File(path, "w") as file:
        dataset = file.create_dataset("x", data=np.arange(70), chunks=(1,), compression="gzip")
        header = int(h5py.h5o.get_info(dataset.id).addr)
    data = np.fromfile(path, np.uint8)
    starts = [header, *nodes_of(data)]
    random = np.random.default_rng(5)
    for place in (at for start in starts for at in range(start, start + 120)):
        before = data[place]
        for value in (0, 255, int(random.integers(256))):
            data[place] = value
            table = chunks_in_tree(data, header, (1,), most=100)
            assert table is None or (len(table) <= 100 and bool(np.all(table[:, 1] >= 0)))
        data[place] = before


@pytest.mark.parametrize("length", [0, 1, 100, 2_000, 6_000])
def test_a_file_that_was_cut_is_left_to_hdf5(path: Path, length: int) -> None:
    """What is not there is not read."""
    data = np.fromfile(path, np.uint8)[:length]
    assert said_by_bytes(path, "many", data) is None


def test_a_tree_that_leads_back_to_itself_ends(path: Path) -> None:
    """A node that is its own child is no tree."""
    data = np.fromfile(path, np.uint8)
    roots = [node for node in nodes_of(data) if data[node + 5] == 2]
    assert roots
    for root in roots:
        data[root + 24 + 24 : root + 24 + 32].view("<i8")[:] = root
    assert said_by_bytes(path, "many", data) is None

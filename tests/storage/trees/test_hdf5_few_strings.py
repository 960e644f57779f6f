"""Few strings that are read from the bytes of a file, compared with what HDF5 reads."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest

from daf_storage.trees import Hdf5File, Hdf5Tree
from daf_storage.trees._hdf5_few_strings import FewStrings
from daf_storage.trees._hdf5_heaps import REFERENCE

NAMES = {
    "usual": ["T cell", "B cell", "NK"],
    "empty": ["", "é", "", "x" * 300],
    "one": ["a"],
    "large": ["y" * 5000, "", "z" * 20_000],
    "many": [f"type{n}" for n in range(900)],
}


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a file of small datasets of strings."""
    path = tmp_path_factory.mktemp("strings") / "x.h5"
    with h5py.File(path, "w") as file:
        for name, strings in NAMES.items():
            file.create_dataset(name, data=strings, dtype=h5py.string_dtype())
    return path


def stored(path: Path, name: str) -> tuple[Any, Any]:
    """Return the bytes of a file, and how the elements of a dataset are stored in it."""
    with h5py.File(path) as file:
        offset, size = file[name].id.get_offset(), file[name].size
    data = np.frombuffer(path.read_bytes(), np.uint8)
    return data, data[offset : offset + size * REFERENCE.itemsize].view(REFERENCE)


@pytest.mark.parametrize("name", NAMES)
def test_the_strings_are_those_of_hdf5(path: Path, name: str) -> None:
    """Short, long, empty and many strings are read as h5py reads them."""
    with h5py.File(path) as file:
        expected = file[name].asstr()[()].tolist()
    assert FewStrings(*stored(path, name)[:1]).read(stored(path, name)[1]) == expected


def test_what_is_not_in_order_is_left_to_hdf5(path: Path) -> None:
    """A changed reference, header or byte never gives other strings, nor an error, nor memory."""
    data, references = stored(path, "usual")
    heap = int(references["address"][0])
    changed: dict[tuple[str, int], Any] = {
        ("length", 0): 2**32 - 1,
        ("length", 1): 2,
        ("length", 2): 0,
        ("address", 0): 2**64 - 1,
        ("address", 1): heap + 8,
        ("address", 2): 0,
        ("index", 0): 60_000,
        ("index", 1): 0,
    }
    for (field, row), value in changed.items():
        damaged = references.copy()
        damaged[field][row] = value
        assert FewStrings(data).read(damaged) is None, (field, row)
    places = {
        heap: ord("X"),  # the signature
        heap + 4: 2,  # the version
        heap + 14: 1,  # the size of the collection
        heap + 9: 0,  # the same: it ends at once, or is too small for its objects
        heap + 16: 3,  # two objects have this index
        heap + 30: 1,  # the size of an object
        heap + 32: 0,  # where HDF5 ends a string
        heap + 33: 0xFF,  # no UTF-8
    }
    for place, value in places.items():
        bad = data.copy()
        bad[place] = value
        assert FewStrings(bad).read(references) is None, place - heap


def test_random_changes_of_the_bytes(path: Path) -> None:
    """Whatever a byte of a collection is changed to, the strings keep their lengths, or are none."""
    data, references = stored(path, "usual")
    heap = int(references["address"][0])
    rng = np.random.default_rng(5)
    for _ in range(400):
        bad = data.copy()
        bad[heap + rng.integers(120)] = rng.integers(256)
        found = FewStrings(bad).read(references)
        assert found is None or [len(text.encode()) for text in found] == [6, 6, 2]


def test_a_tree_reads_them_without_hdf5(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a file that is read, a small dataset of strings is not read through h5py."""
    monkeypatch.setattr(h5py.Dataset, "asstr", lambda *_: pytest.fail("read through h5py"))
    with h5py.File(path) as file:
        tree = Hdf5Tree(Hdf5File(file, location="x.h5", file_identity=(1, 1)))
        for name, strings in NAMES.items():
            node = tree.node(name)
            array = None if node is None else node.array()
            assert array is not None
            assert array.read_strings().to_pylist() == strings

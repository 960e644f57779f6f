"""Tests that whatever leads out of an HDF5 file is found."""

from __future__ import annotations

from pathlib import Path

import h5py
import numpy as np
import pytest

from daf_storage.errors import CorruptDataError, UnsupportedDataError
from daf_storage.trees import check_contained
from tests.support import edited_bytes


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Return a file with links of all kinds that stay within it."""
    path = tmp_path / "x.h5"
    with h5py.File(path, "w") as file:
        file["group/values"] = np.arange(3)
        file["group/loop"] = file["group"]
        file["near"] = h5py.SoftLink("/group/values")
        file["nothing"] = h5py.SoftLink("/not/there")
        file["group/type"] = np.dtype("i4")
        file["group/type"].attrs["categories"] = file["group/values"].ref
        file["codes"] = np.arange(3)
        file["codes"].attrs["categories"] = file["group/values"].ref
        file["group"].attrs["categories"] = "none"
    return path


def check(path: Path) -> None:
    """Check a file."""
    with h5py.File(path) as file:
        check_contained(file, what="x.h5")


def test_links_within_the_file(path: Path) -> None:
    """Circles, links to nothing and references within it are no offence."""
    check(path)


@pytest.mark.parametrize("name", ["out", "group/out", "group/deep/er/out"])
def test_a_link_to_another_file(path: Path, name: str) -> None:
    """It is named by its path in the file; what it leads to need not be there."""
    with h5py.File(path, "r+") as file:
        file[name] = h5py.ExternalLink("other.h5", "/")
    with pytest.raises(UnsupportedDataError, match=f"^x.h5: {name}: it is a link to another file"):
        check(path)


def test_elements_in_other_files(path: Path) -> None:
    """Bytes of another file, and parts of other datasets."""
    layout = h5py.VirtualLayout((3,), "i8")
    layout[:] = h5py.VirtualSource("other.h5", "values", (3,))
    with h5py.File(path, "r+") as file:
        file.create_virtual_dataset("group/virtual", layout)
    with pytest.raises(UnsupportedDataError, match="x.h5: group/virtual: its elements are in"):
        check(path)
    with h5py.File(path, "r+") as file:
        del file["group/virtual"]
        file.create_dataset("raw", (3,), "u1", external=[("other", 0, 3)])
    with pytest.raises(UnsupportedDataError, match="x.h5: raw: its elements are in"):
        check(path)


def test_categories_that_no_link_leads_to(path: Path) -> None:
    """They are below a group that only a reference finds: anndata follows it."""
    with h5py.File(path, "r+") as file:
        hidden = file.create_group(None)
        hidden["out"] = h5py.ExternalLink("other.h5", "/")
        file["codes"].attrs["categories"] = hidden.ref
        with pytest.raises(UnsupportedDataError, match="x.h5: out: it is a link to another file"):
            check_contained(file, what="x.h5")


def test_a_damaged_file(path: Path) -> None:
    """It is no file that can be trusted to lead nowhere."""
    with h5py.File(path) as file:
        address = h5py.h5o.get_info(file["group"].id).addr
    with edited_bytes(path) as data:
        data[address : address + 64] = bytes(64)
    with pytest.raises(CorruptDataError, match="x.h5 cannot be read"):
        check(path)

"""Tests that whatever leads out of an HDF5 file is found."""

from __future__ import annotations

from pathlib import Path
from typing import Any

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


def virtual(file: h5py.File, name: str) -> None:
    """Make a dataset of parts of another file's."""
    layout = h5py.VirtualLayout((3,), "i8")
    layout[:] = h5py.VirtualSource("other.h5", "values", (3,))
    file.create_virtual_dataset(name, layout)


def hidden(file: h5py.File, name: str) -> h5py.Group:
    """Make a link below a group that only a reference finds: anndata follows it."""
    group = file.create_group(None)
    group[name] = LINK
    file["codes"].attrs["categories"] = group.ref
    return group


LINK = h5py.ExternalLink("other.h5", "/")
RAW = [("other", 0, 3)]


@pytest.mark.parametrize(
    ("add", "name", "message"),
    [
        (lambda file, name: file.update({name: LINK}), "out", "it is a link to another file"),
        (lambda file, name: file.update({name: LINK}), "group/out", "it is a link to"),
        (lambda file, name: file.update({name: LINK}), "group/deep/er/out", "it is a link to"),
        (hidden, "out", "it is a link to another file"),
        (virtual, "group/virtual", "its elements are in"),
        (lambda file, name: file.create_dataset(name, (3,), "u1", external=RAW), "raw", "its el"),
    ],
)
def test_what_leads_out_of_the_file(path: Path, add: Any, name: str, message: str) -> None:
    """It is named by its path in the file; what it leads to need not be there."""
    with h5py.File(path, "r+") as file:
        _held = add(file, name)  # as long as it is held, there is a group without a name
        with pytest.raises(UnsupportedDataError, match=f"^x.h5: {name}: {message}"):
            check_contained(file, what="x.h5")


def test_a_damaged_file(path: Path) -> None:
    """It is no file that can be trusted to lead nowhere."""
    with h5py.File(path) as file:
        address = h5py.h5o.get_info(file["group"].id).addr
    with edited_bytes(path) as data:
        data[address : address + 64] = bytes(64)
    with pytest.raises(CorruptDataError, match="x.h5 cannot be read"):
        check(path)

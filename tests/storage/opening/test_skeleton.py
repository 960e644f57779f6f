"""Tests of what opening finds: names of data sets, groups in the way, files that are replaced."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest

from daf_storage import H5df, ZarrDaf, errors, open_daf, verify
from daf_storage.trees import WritableTree
from tests import seams
from tests.storage.trees.test_foreign_arrays import put
from tests.support import create, fill


def test_a_name_that_is_none(tmp_path: Path) -> None:
    """A scalar of two elements, or one that cannot be read, is no name: the path is."""
    path = tmp_path / "x.daf.zarr"
    create(path).set_scalar("name", "mine")
    put(path, "scalars/name", np.array([1, 2]))
    assert ZarrDaf(path).name.startswith(str(path))
    (path / "scalars/name/.zarray").write_text("{")
    assert ZarrDaf(path).name.startswith(str(path))


@pytest.mark.parametrize("group", ["axes", "scalars", "vectors", "matrices"])
def test_groups_in_the_way(tmp_path: Path, group: str) -> None:
    """A group with something in it is not made into a data set, and is left; an empty one is."""
    path = tmp_path / "x.daf.zarr"
    for folder in (path, path / group):
        folder.mkdir()
        (folder / ".zgroup").write_text('{"zarr_format":2}')
    put(path, f"{group}/x", np.arange(3))
    with pytest.raises(errors.NotADafError, match=f"its group '{group}' is not empty"):
        ZarrDaf(path, "w+")
    assert (path / group / "x/0").exists()
    with pytest.raises(errors.NotADafError):
        ZarrDaf(path)
    shutil.rmtree(path / group / "x")
    fill(ZarrDaf(path, "w+"))
    assert ZarrDaf(path).axes_set() == {"cell", "gene"}


def test_a_rebuilding_that_fails_leaves_nothing_behind(tmp_path: Path) -> None:
    """The data set is as it was, and the failure is the one that is seen."""
    path = tmp_path / "x.h5df"
    daf = H5df(path, "w")
    fill(daf)
    tree: Any = daf.writable_tree
    with pytest.raises(ValueError, match="on purpose"), tree.rebuilt(["axes"]):
        raise ValueError("on purpose")
    assert daf.axes_set() == {"cell", "gene"}
    daf.close()
    with h5py.File(path) as file:
        assert not [name for name in file if name.startswith(".")]


@pytest.mark.parametrize("name", ["x.daf.zarr", "x.daf"])
def test_two_programs_make_the_same_data_set(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """The one that waited for the lock finds what the other one made, and leaves it."""
    path = tmp_path / name
    made = seams.real(seams.CREATE_SKELETON)

    def overtaken(tree: WritableTree) -> None:
        monkeypatch.undo()
        with open_daf(path, "w+") as other:
            other.set_scalar("first", 1)
        made(tree)

    monkeypatch.setattr(seams.CREATE_SKELETON, overtaken)
    with open_daf(path, "w+") as daf:
        daf.set_scalar("second", 2)
    with open_daf(path) as read:
        assert read.scalars_set() == {"first", "second"}
    assert verify(path) == []

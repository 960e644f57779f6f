"""Tests of what opening finds: names of data sets, groups in the way, files that are replaced."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest

from daf_storage import DafWriter, H5df, ZarrDaf, errors
from tests.storage.trees.test_foreign_arrays import put
from tests.support import create, fill


@pytest.mark.parametrize("value", [5, 2.5, True, "mine"])
def test_a_data_set_is_called_by_its_scalar(tmp_path: Path, value: Any) -> None:
    """Whatever its type; one that was given comes before it."""
    path = tmp_path / "x.daf.zarr"
    create(path).set_scalar("name", value)
    assert ZarrDaf(path).name.startswith(str(value))
    assert ZarrDaf(path, name="given").name.startswith("given")
    writer = ZarrDaf(path, "r+")
    assert writer.name.startswith(str(value))
    assert not writer.name.endswith(".read_only")


@pytest.mark.parametrize("group", ["axes", "scalars", "vectors", "matrices"])
def test_groups_in_the_way(tmp_path: Path, group: str) -> None:
    """A group with something in it is not made into a data set, and is left as it is."""
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


def test_a_rebuilding_that_fails_leaves_nothing_behind(tmp_path: Path) -> None:
    """The data set is as it was, and the failure is the one that is seen."""
    path = tmp_path / "x.h5df"
    daf = H5df(path, "w")
    assert isinstance(daf, DafWriter)
    fill(daf)
    tree: Any = daf.writable_tree
    with pytest.raises(ValueError, match="on purpose"), tree.rebuilt("token", ["axes"]):
        raise ValueError("on purpose")
    assert daf.axes_set() == {"cell", "gene"}
    daf.close()
    with h5py.File(path) as file:
        assert not [name for name in file if name.startswith(".")]

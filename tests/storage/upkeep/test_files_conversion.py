"""Tests of conversions from and to data sets of plain files."""

from __future__ import annotations

import itertools
import os
from pathlib import Path

import numpy as np
import pytest

from daf_storage import DafWriter, FilesDaf, MemoryDaf, convert, copy_all, open_daf, verify
from tests.suites.examples import contents, fill_served

PATHS = ["x.daf", "x.daf.zip", "x.dafs.zip#/g/h", "x.daf.zarr", "x.daf.zarr.zip", "x.h5df"]


@pytest.fixture(scope="module")
def served() -> DafWriter:
    """Return a data set with every encoding."""
    return fill_served(MemoryDaf())


def test_between_all_formats(tmp_path: Path, served: DafWriter) -> None:
    """There and on: each format holds what each other one does."""
    expected = contents(served)
    with FilesDaf(tmp_path / "first.daf", "w") as daf:
        copy_all(served, daf)
    chain = ["first.daf", *PATHS, "last.daf"]
    for source, destination in itertools.pairwise(chain):
        convert(f"{tmp_path}/{source}", f"{tmp_path}/{destination}")
    assert verify(f"{tmp_path}/last.daf") == verify(f"{tmp_path}/x.daf.zip") == []
    with open_daf(tmp_path / "last.daf") as daf:
        assert contents(daf) == expected
    first, last = tmp_path / "first.daf", tmp_path / "last.daf"
    files = {p.relative_to(first): p.read_bytes() for p in first.rglob("*") if p.is_file()}
    assert files == {p.relative_to(last): p.read_bytes() for p in last.rglob("*") if p.is_file()}


def test_files_are_shared(tmp_path: Path, served: DafWriter) -> None:
    """In both directions the numbers are the same files; or copies, on request."""
    with FilesDaf(tmp_path / "x.daf", "w") as daf:
        copy_all(served, daf)
    convert(tmp_path / "x.daf", tmp_path / "y.daf.zarr", zarr_format=3, link=True)
    convert(tmp_path / "y.daf.zarr", tmp_path / "z.daf", link=True)
    convert(tmp_path / "y.daf.zarr", tmp_path / "copy.daf")
    name = "matrices/cell/gene/UMIs.data"
    files = [tmp_path / p for p in (f"x.daf/{name}", f"z.daf/{name}", f"copy.daf/{name}")]
    files.append(tmp_path / "y.daf.zarr/matrices/cell/gene/UMIs/c/0/0")
    inodes = [os.stat(file).st_ino for file in files]
    assert inodes[0] == inodes[1] == inodes[3] != inodes[2]
    for path in ("z.daf", "copy.daf"):
        with open_daf(tmp_path / path) as daf:
            assert contents(daf) == contents(served)


@pytest.mark.parametrize("changed", ["x.daf.zarr", "y.daf"])
def test_shared_files_are_never_written_in_place(tmp_path: Path, changed: str) -> None:
    """Whatever is written to one of the two data sets, the other keeps every byte."""
    with open_daf(tmp_path / "x.daf.zarr", "w") as daf:
        daf.add_axis("cell", ["a", "b", "c"])
        for name in ("replaced", "filled", "left", "deleted"):
            daf.set_vector("cell", name, np.arange(3.0))
        daf.set_matrix("cell", "cell", "near", np.eye(3))
    convert(tmp_path / "x.daf.zarr", tmp_path / "y.daf", link=True)
    other = tmp_path / ("y.daf" if changed == "x.daf.zarr" else "x.daf.zarr")
    before = {path: path.read_bytes() for path in other.rglob("*") if path.is_file()}
    assert sum(path.stat().st_nlink == 2 for path in before) == 5
    with open_daf(tmp_path / changed, "r+") as daf:
        daf.set_vector("cell", "replaced", np.ones(3), if_exists="replace")
        with daf.empty_dense_vector("cell", "filled", np.float64, if_exists="replace") as values:
            values[:] = 7
        with daf.empty_dense_matrix(
            "cell", "cell", "near", np.float64, if_exists="replace"
        ) as elements:
            elements[:] = 7
        daf.delete_vector("cell", "deleted")
        daf.reorder_axis("cell", [2, 0, 1])
        assert daf.get_np_vector("cell", "left").tolist() == [2, 0, 1]
    assert {path: path.read_bytes() for path in other.rglob("*") if path.is_file()} == before

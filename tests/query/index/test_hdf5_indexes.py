"""Tests of the indexes of HDF5 files: they are beside the file, which is not touched for them."""

from __future__ import annotations

import io
import shutil
import time
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import daf_query
from daf_query import ScanOptions, rebuild_indexes
from daf_query.index import build_index, build_point_index
from daf_storage import H5df, convert, errors, open_daf, verify
from daf_storage.upkeep import IndexStorage
from tests.support import data_set

h5py = pytest.importorskip("h5py")

N = 300

connect = partial(daf_query.connect, scan_options=ScanOptions(index_divisor=4, sparse_divisor=4))
"""Connects so that indexes are used for a large part of so small a table."""

QUERY = "SELECT index FROM cell WHERE code = 'x7'"


def fill(daf: Any, *, is_reversed: bool = False) -> None:
    """Set a vector of numbers, one of strings, and coordinates."""
    ages = np.arange(N)
    data_set(daf, cell={"name": N, "age": ages})
    daf.set_vector("cell", "code", [f"x{i}" for i in (ages[::-1] if is_reversed else ages)])
    daf.set_vector("cell", "x", ages / 2)


def index(daf: Any) -> None:
    """Build indexes of all kinds."""
    assert build_index(daf, "cell", ["name", "age", "code"]) == ["name", "age", "code"]


def made(path: Path, *, is_reversed: bool = False, is_indexed: bool = False) -> Path:
    """Make a data set, and all indexes if they are wanted."""
    with open_daf(path, "w") as daf:
        fill(daf, is_reversed=is_reversed)
        if is_indexed:
            index(daf)
    return path


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Return the path of a data set with all indexes."""
    return made(tmp_path / "x.h5df", is_indexed=True)


def used(path: Any) -> list[str]:
    """Return the indexes that a query uses."""
    with connect(path) as session:
        return session.explain_analyze(QUERY).scans[0].indexes


def test_the_file_is_not_touched(tmp_path: Path) -> None:
    """Not a byte of it changes; a new session finds the indexes, and so does another process."""
    pytest.importorskip("geoindex_rs")
    path = made(tmp_path / "x.h5df")
    before = path.read_bytes()
    with open_daf(path, "r+") as daf:
        index(daf)
        assert build_point_index(daf, "cell", "x", "age") == N
        assert used(daf) == ["code"]
    assert path.read_bytes() == before
    assert sorted(p.name for p in tmp_path.iterdir()) == ["x.h5df", "x.h5df.indexes"]
    assert used(path) == ["code"]
    assert connect(path).sql(QUERY).to_pydict() == {"index": [7]}
    assert verify(path) == []
    with h5py.File(path) as file:
        assert "indexes" not in file


def test_data_sets_in_one_file(tmp_path: Path) -> None:
    """Each has its own indexes, also where one lies below another, or has an odd name."""
    path = tmp_path / "x.h5dfs"
    groups = ["a", "a/indexes", "day 1/é%", "é" * 120]
    for number, group in enumerate(groups):
        with open_daf(f"{path}#/{group}", "w") as daf:
            fill(daf, is_reversed=bool(number % 2))
            index(daf)
    for number, group in enumerate(groups):
        assert used(f"{path}#/{group}") == ["code"]
        with connect(f"{path}#/{group}") as db:
            found = db.sql(QUERY).to_pydict()
        assert found == {"index": [N - 8 if number % 2 else 7]}
    with open_daf(f"{path}#/a", "w") as daf:
        assert IndexStorage(daf).places() == []
    assert used(f"{path}#/{groups[2]}") == ["code"]


def test_a_copy_keeps_them(path: Path, tmp_path: Path) -> None:
    """If they are copied too; without them, everything is read."""
    shutil.copytree(tmp_path, tmp_path / "all", ignore=lambda *_: ["all"])
    assert used(tmp_path / "all/x.h5df") == ["code"]
    (tmp_path / "file").mkdir()
    shutil.copyfile(path, tmp_path / "file/x.h5df")
    assert used(tmp_path / "file/x.h5df") == []
    link = tmp_path / "link.h5df"
    link.symlink_to(path)
    assert used(link) == ["code"]


def test_stale_ones_are_passed_over(path: Path, tmp_path: Path) -> None:
    """Of another file under the same name, and of a vector that was replaced."""
    other = made(tmp_path / "y.h5df", is_reversed=True)
    time.sleep(0.15)
    session = connect(path)
    assert session.sql(QUERY).to_pydict() == {"index": [7]}
    session.close()
    shutil.move(other, path)
    assert used(path) == []
    assert connect(path).sql(QUERY).to_pydict() == {"index": [N - 8]}
    assert {one.level for one in verify(path)} == {"warning"}
    assert len(rebuild_indexes(path)) > 0
    assert used(path) == ["code"]
    with open_daf(path, "r+") as daf:
        daf.set_vector("cell", "code", [f"x{i + 1}" for i in range(N)], if_exists="replace")
        assert connect(daf).sql(QUERY).to_pydict() == {"index": [6]}
    assert connect(path).sql(QUERY).to_pydict() == {"index": [6]}


def test_they_go_with_the_data_set(tmp_path: Path) -> None:
    """When the file is emptied, or replaced by a conversion."""
    path = tmp_path / "x.h5df"
    for how in ("w", "convert"):
        made(path, is_indexed=True)
        if how == "w":
            open_daf(path, "w").close()
        else:
            convert(made(tmp_path / "y.daf.zarr", is_reversed=True), path, if_exists="replace")
        with open_daf(path) as daf:
            assert IndexStorage(daf).places() == []
        assert verify(path) == []


def test_listings_pass_them_over(tmp_path: Path) -> None:
    """Patterns, and what is said to be beside a path that does not exist."""
    for name in ("a.h5df", "b.h5df"):
        made(tmp_path / name, is_indexed=True)
    session = connect(str(tmp_path / "*"))
    query = "SELECT dataset, count(*) AS n FROM cell GROUP BY dataset ORDER BY dataset"
    assert session.sql(query).to_pydict() == {"dataset": ["a", "b"], "n": [N, N]}
    with pytest.raises(errors.SourceNotFoundError) as caught:
        open_daf(tmp_path / "c.daf.zarr")
    assert "indexes" not in str(caught.value).replace(tmp_path.name, "")


def test_open_files_and_files_in_memory(tmp_path: Path) -> None:
    """A handle of a file has its indexes beside it; without a file, they live as long as it."""
    path = made(tmp_path / "x.h5df")
    with h5py.File(path, "r+", alignment_threshold=1, alignment_interval=8) as file:
        daf = H5df(file, "r+")
        index(daf)
        assert used(daf) == ["code"]
        daf.close()
    assert used(path) == ["code"]
    with h5py.File(io.BytesIO(), "w", alignment_threshold=1, alignment_interval=8) as file:
        inside = H5df(file, "w")
        fill(inside)
        index(inside)
        assert connect(inside).sql(QUERY).to_pydict() == {"index": [7]}
        assert "indexes" not in file
        assert used(inside) == ["code"]


def test_a_crashed_build_is_cleared_away(path: Path, tmp_path: Path) -> None:
    """By the next open for writing."""
    staging = tmp_path / "x.h5df.indexes/.daf.staging/token/new"
    staging.mkdir(parents=True)
    open_daf(path).close()
    assert staging.exists()
    open_daf(path, "r+").close()
    assert not staging.exists()
    assert used(path) == ["code"]


def test_a_directory_that_cannot_be_written_to(tmp_path: Path) -> None:
    """The error names it."""
    path = made(tmp_path / "x.h5df")
    (tmp_path / "x.h5df.indexes").write_text("in the way")
    with open_daf(path, "r+") as daf, pytest.raises(errors.DafError, match="x.h5df.indexes"):
        build_index(daf, "cell", ["age"])  # type: ignore[arg-type] # of mode r+
    assert connect(path).sql(QUERY).to_pydict() == {"index": [7]}

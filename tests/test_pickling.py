"""Tests of pickling: readers, sessions, tables and slices go by path, and open it again."""

from __future__ import annotations

import copy
import multiprocessing
import os
import pickle
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow.compute as pc
import pytest
import zarr

from daf_query import DafSession, MatrixSlice, connect, zarr_table
from daf_storage import H5df, MemoryDaf, ZarrDaf, convert, errors, open_daf
from tests.support import CELLS, fill, filled, reopen


def again(thing: Any) -> Any:
    """Return what comes out of a pickle."""
    return pickle.loads(pickle.dumps(thing))


@pytest.fixture(params=["directory", "archive", "shared archive", "hdf5", "shared hdf5"])
def path(request: pytest.FixtureRequest, tiny_path: Path, tmp_path: Path) -> str:
    """Return the path of a small data set in each format."""
    kinds = {
        "archive": "x.daf.zarr.zip",
        "shared archive": "x.dafs.zarr.zip#/a/b",
        "hdf5": "x.h5df",
        "shared hdf5": "x.h5dfs#/a",
    }
    if request.param == "directory":
        return str(tiny_path)
    target = f"{tmp_path}/{kinds[request.param]}"
    convert(tiny_path, target)
    return target


def test_readers(path: str) -> None:
    """Of every format: the same data by the same name, a new reader."""
    daf = open_daf(path, name="mine")
    twin = again(daf)
    assert twin is not daf
    assert (twin.name, twin.description()) == (daf.name, daf.description())
    assert twin.get_np_vector("cell", "age").tolist() == [30, 60, 90]
    assert copy.copy(daf).name == daf.name
    daf.close()
    assert twin.axis_length("cell") == 3


def test_relative_paths(tiny_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """They lead to the same place from another directory."""
    monkeypatch.chdir(tiny_path.parent)
    group = zarr.open_group("z", mode="w").create_group("other")
    group.create_array("n", data=np.arange(10), chunks=(4,))
    daf, numbers = open_daf(tiny_path.name), zarr_table("z", "other").filter(pc.field("n") > 7)
    table, part = connect(daf).table("cell"), connect(daf).matrix("cell", "gene", "UMIs")
    made = pickle.dumps((daf, table, part, numbers))
    monkeypatch.chdir("/")
    daf, table, part, numbers = pickle.loads(made)
    assert daf.axis_length("cell") == table.count_rows() == part.shape[0] == 3
    assert numbers.to_table().to_pydict() == {"n": [8, 9]}


def test_an_open_hdf5_file(tmp_path: Path, tiny_path: Path) -> None:
    """Whoever has it opened it by itself, and may have it in memory."""
    h5py = pytest.importorskip("h5py")
    convert(tiny_path, tmp_path / "x.h5df")
    with (
        h5py.File(tmp_path / "x.h5df", alignment_threshold=1, alignment_interval=8) as file,
        pytest.raises(errors.InvalidInputError, match="no path leads to"),
    ):
        pickle.dumps(H5df(file))


def test_what_cannot_be_pickled_says_why(tiny_path: Path) -> None:
    """In memory, open for writing, closed, and results of queries."""
    memory = fill(MemoryDaf(name="tiny"))
    session = connect(memory)
    part = session.matrix("cell", "gene", "UMIs")
    for one in (session.table("cell"), part, connect([memory, open_daf(tiny_path)]).table("cell")):  # fmt: skip
        with pytest.raises(errors.InvalidInputError, match="no path leads to .*copy_all"):
            pickle.dumps(one)
    for writer in (memory, reopen(tiny_path), connect(reopen(tiny_path))):
        with pytest.raises(errors.InvalidInputError, match="open for writing cannot be pickled"):
            pickle.dumps(writer)
    daf = open_daf(tiny_path)
    result = connect(daf).sql("SELECT name FROM cell")
    with pytest.raises(errors.InvalidInputError, match=r"pickle its to_arrow_table\(\)"):
        pickle.dumps(result)
    daf.close()
    with pytest.raises(errors.InvalidInputError, match="was closed"):
        pickle.dumps(daf)


def test_a_path_that_is_gone(tiny_path: Path) -> None:
    """Is named when it is unpickled."""
    daf = open_daf(tiny_path)
    session = connect(daf)
    part = session.matrix("cell", "gene", "UMIs")
    made = [pickle.dumps(one) for one in (daf, session, session.table("cell"), part)]
    tiny_path.rename(tiny_path.with_name("elsewhere.daf.zarr"))
    for one in made:
        with pytest.raises(errors.SourceNotFoundError, match="tiny.daf.zarr; beside it: elsewh"):
            pickle.loads(one)


def test_a_file_that_was_replaced(tiny_path: Path, tmp_path: Path) -> None:
    """Positions of a slice are those of the file that it was made of, in folders of any name."""
    path = tmp_path / "runs#" / "x.h5df"
    path.parent.mkdir()
    convert(tiny_path, path)
    part = connect(path).matrix("cell", "gene", "UMIs")
    assert pickle.loads(pickle.dumps(part)).shape == part.shape
    os.replace(shutil.copy(path, tmp_path / "other"), path)
    with pytest.raises(errors.InvalidInputError, match="was changed or replaced since"):
        pickle.dumps(part)


def test_tables(path: str) -> None:
    """Filtered or not; those of a writer are opened for reading."""
    table = connect(path).table("cell")
    assert again(table).to_table().equals(table.to_table())
    old = table.filter(pc.field("age") > 30).filter(pc.field("age") < 90)
    assert again(old).to_table(columns=["name"]).to_pydict() == {"name": [CELLS[1]]}
    some = table.with_view(rows=np.array([0, 2]))
    assert again(again(some)).to_table(columns=["age"]).to_pydict() == {"age": [30, 90]}


def test_tables_and_slices_of_a_writer(tiny_path: Path) -> None:
    """Are opened for reading where they are unpickled."""
    session = connect(reopen(tiny_path))
    assert again(session.table("cell")).count_rows() == 3
    part = again(session.matrix("cell", "gene", "UMIs"))
    assert not part.daf.is_writable
    reader = reopen(tiny_path).read_only()
    assert (again(reader).name, again(reader).axis_length("cell")) == (reader.name, 3)
    assert part.shape == (3, 4)


def test_unions(tiny_path: Path, tmp_path: Path) -> None:
    """With the part of each data set, and what was filtered."""
    shutil.copytree(tiny_path, tmp_path / "other.daf.zarr")
    reopen(tmp_path / "other.daf.zarr").set_vector("cell", "extra", [1, 2, 3])
    session = connect(str(tmp_path / "*.daf.zarr"))
    table = session.table("cell")
    assert again(table).to_table().equals(table.to_table())
    few = table.filter(pc.field("extra") > 1)
    assert again(again(few)).to_table(columns=["dataset", "extra"]).to_pylist() == [
        {"dataset": "other", "extra": 2},
        {"dataset": "other", "extra": 3},
    ]
    query = "SELECT dataset, count(*) AS n FROM cell GROUP BY dataset ORDER BY dataset"
    assert again(session).sql(query).to_pydict() == {"dataset": ["other", "tiny"], "n": [3, 3]}


def test_slices(path: str) -> None:
    """With their rows and columns in order; the values are read again."""
    session = connect(path)
    part = session.matrix("cell", "gene", "UMIs", rows=[2, 0, 2], columns="name <> 'WNT6'")
    twin = again(part)
    assert isinstance(twin, MatrixSlice)
    assert twin.rows.tolist() == part.rows.tolist() == [CELLS[2], CELLS[0], CELLS[2]]
    assert twin.columns.tolist() == part.columns.tolist()
    assert twin.to_numpy().tolist() == part.to_numpy().tolist()


def test_sessions(tiny_path: Path, tmp_path: Path) -> None:
    """Their data sets by name, tables, views and default schema."""
    group = zarr.open_group(tmp_path / "z", mode="w").create_group("meta")
    group.create_array("n", data=np.arange(10), chunks=(4,))
    session = connect(tiny_path, cache_bytes=12345)
    session.register(zarr_table(tmp_path / "z"), "numbers")
    session.register(tiny_path, "more")
    session.register(pd.DataFrame({"id": ["a"]}), "samples")
    session.sql("CREATE VIEW old AS SELECT * FROM cell WHERE age > 30", allow="write")
    session.sql("CREATE VIEW more.oldest AS SELECT * FROM tiny.old WHERE age > 60", allow="write")
    twin = again(again(session))
    assert isinstance(twin, DafSession)
    assert twin.tables() == session.tables()
    assert twin._engine.connections.cache_bytes == 12345
    for query in (
        "SELECT name FROM cell ORDER BY name",
        "SELECT name FROM old ORDER BY name",
        "SELECT name FROM more.oldest",
        "SELECT sum(n) AS s FROM numbers",
        "SELECT id FROM samples",
        "SELECT count(*) AS n FROM more.cell",
    ):
        assert twin.sql(query).to_pydict() == session.sql(query).to_pydict()
    session.sql("CREATE TABLE few AS SELECT name FROM cell", allow="write")
    with pytest.raises(errors.InvalidInputError, match=r"queries created \(tiny.few\)"):
        pickle.dumps(session)
    session.sql("DROP TABLE few", allow="write")
    assert again(session).tables() == twin.tables()


def _count(session: DafSession, part: MatrixSlice, least: int) -> tuple[int, int, float]:
    query = f"SELECT count(*) AS n FROM cell WHERE age > {least}"
    return os.getpid(), session.sql(query).to_pydict()["n"][0], float(part.to_numpy().sum())


def test_other_processes_query_and_slice(tmp_path: Path) -> None:
    """Started by spawn and by joblib, with what this process made."""
    path = tmp_path / "x.daf.zarr"
    filled(path)
    session = connect(ZarrDaf(path))
    part = session.matrix("cell", "gene", "UMIs", rows="age > 30")
    expected = [_count(session, part, least)[1:] for least in (0, 30, 60)]
    work = [(session, part, least) for least in (0, 30, 60)]
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        found = pool.starmap(_count, work)
    assert [one[1:] for one in found] == expected
    assert os.getpid() not in {one[0] for one in found}
    joblib = pytest.importorskip("joblib")
    parallel = joblib.Parallel(n_jobs=2, backend="loky")
    found = parallel(joblib.delayed(_count)(*one) for one in work)
    assert [one[1:] for one in found] == expected

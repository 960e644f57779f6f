"""Tests of what files and AnnData say of where they come from, read back by other libraries."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import anndata
import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import scipy.sparse as sp

import daf_query
from daf_query import DafSession, MatrixSlice, connect
from daf_storage import DafReader, DafWriter, MemoryDaf, convert, export_h5ad, import_h5ad, open_daf
from tests.support import there

QUERY = "SELECT name, age FROM cell WHERE age > 1 ORDER BY name"


def fill(daf: DafWriter) -> DafWriter:
    """Add cells, genes and a matrix."""
    daf.add_axis("cell", ["a", "b", "c"], vectors={"age": [1, 2, 3], "type": ["T", "", "B"]})
    daf.add_axis("gene", ["x", "y"], vectors={"is_marker": [True, False]})
    daf.set_matrix("cell", "gene", "UMIs", sp.csr_array([[0, 1], [2, 0], [3, 4]]))
    daf.set_matrix("cell", "gene", "logs", np.ones((3, 2)))
    daf.set_scalar("organism", "human")
    return daf


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Return a data set in a folder whose name is nobody's business."""
    folder = tmp_path / "private"
    folder.mkdir()
    fill(open_daf(folder / "pbmc.daf.zarr", "w")).close()
    return folder / "pbmc.daf.zarr"


@pytest.fixture
def session(path: Path) -> DafSession:
    """Return a session of it."""
    return connect(path)


def part_of(session: DafSession, **options: Any) -> MatrixSlice:
    """Return a slice by two predicates."""
    chosen = {"rows": "age > $least", "columns": "is_marker", "params": {"least": 1}} | options
    return session.matrix("cell", "gene", "UMIs", **chosen)


def check_query(record: Any) -> None:
    """Compare a record with what `QUERY` has to say."""
    assert record["sql"] == QUERY
    (name, digest), *others = record["data_sets"].items()
    assert (name, others, len(digest)) == ("pbmc", [], 16)
    assert record["packages"]["pyarrow"] == pa.__version__
    assert {"datafusion", "numpy", "pyarrow"} <= set(record["packages"])
    assert set(record) == {"sql", "data_sets", "packages"}


def check_slice(record: Any) -> None:
    """Compare a record with what `part_of` has to say."""
    assert record["matrix"] == {"name": "UMIs", "rows_axis": "cell", "columns_axis": "gene"}
    assert record["rows"] == "age > 1"
    assert record["columns"] == "is_marker"
    assert record["shape"] == [2, 1]
    assert list(record["data_sets"]) == ["pbmc"]


def test_rows_in_files(session: DafSession, tmp_path: Path) -> None:
    """Parquet and Arrow have it in the schema, where pyarrow finds it; all read the same rows."""
    rows = {"name": ["b", "c"], "age": [2, 3]}
    for suffix in ("parquet", "arrow"):
        session.sql(QUERY).save(tmp_path / f"x.{suffix}")
        check_query(daf_query.provenance(str(tmp_path / f"x.{suffix}")))
    parquet = tmp_path / "x.parquet"
    of_arrow = pa.ipc.open_file(tmp_path / "x.arrow").read_all()
    for metadata in (
        pq.read_schema(parquet).metadata,
        pq.ParquetFile(parquet).metadata.metadata,
        of_arrow.schema.metadata,
    ):
        check_query(json.loads(metadata[b"daf_query"]))
    assert pq.read_table(parquet).to_pydict() == of_arrow.to_pydict() == rows
    assert pd.read_parquet(parquet).to_dict("list") == rows
    assert pl.read_parquet(parquet).to_dict(as_series=False) == rows
    assert duckdb.sql(f"SELECT * FROM '{parquet}'").fetchall() == [("b", 2), ("c", 3)]


def test_tables_in_memory(session: DafSession) -> None:
    """Only on request, and then every library takes the table as before."""
    plain = session.sql(QUERY).to_arrow_table()
    described = session.sql(QUERY).to_arrow_table(provenance=True)
    assert daf_query.provenance(plain) is None
    assert plain.schema.metadata is None
    check_query(daf_query.provenance(described))
    check_query(daf_query.provenance(described.schema))
    assert described.equals(plain)
    assert described.to_pandas().equals(plain.to_pandas())
    assert pl.DataFrame(described).equals(pl.DataFrame(plain))
    assert duckdb.sql("SELECT sum(age) FROM described").fetchall() == [(5,)]
    assert daf_query.provenance(pa.table(session.sql(QUERY))) is None
    check_slice(daf_query.provenance(part_of(session).to_arrow(provenance=True)))
    assert daf_query.provenance(part_of(session).to_arrow()) is None


def test_slices(session: DafSession, tmp_path: Path) -> None:
    """Both predicates, with the values of parameters, in an AnnData and in each kind of file."""
    adata = part_of(session).to_anndata()
    check_slice(daf_query.provenance(adata))
    for suffix in ("h5ad", "zarr", "parquet", "arrow"):
        part_of(session).save(tmp_path / f"x.{suffix}")
        check_slice(daf_query.provenance(tmp_path / f"x.{suffix}"))
    found = anndata.read_h5ad(tmp_path / "x.h5ad")
    check_slice(json.loads(found.uns["daf_query"]))
    adata.write_h5ad(tmp_path / "again.h5ad")
    check_slice(daf_query.provenance(tmp_path / "again.h5ad"))


def test_profiles(session: DafSession, tmp_path: Path) -> None:
    """Matrix, groups and predicates, in an AnnData and in files; and what is built upon them."""
    options: dict[str, Any] = {"rows": "age > $least", "params": {"least": 1}}
    profile = session.profile("cell", "gene", "UMIs", by="type", columns=["x"], **options)
    expected = {
        "profile": {"name": "UMIs", "rows_axis": "cell", "columns_axis": "gene"},
        "by": ["type"],
        "rows": "age > 1",
        "columns": "1 of 2, listed",
    }
    profile.save(tmp_path / "x.parquet")
    profile.filter("mean > 1").save(tmp_path / "y.parquet")
    profile.save_h5ad(tmp_path / "x.h5ad", statistic="sum")
    for record in (
        daf_query.provenance(profile.to_anndata()),
        daf_query.provenance(tmp_path / "x.parquet"),
        daf_query.provenance(tmp_path / "x.h5ad"),
        daf_query.provenance(profile.to_arrow_table(provenance=True)),
    ):
        assert record is not None
        assert {key: record[key] for key in expected} == expected
        assert set(record) == {*expected, "data_sets", "packages"}
    built = there(daf_query.provenance(tmp_path / "y.parquet"))
    assert (built["by"], built["then"]) == (["type"], ["filter('mean > 1')"])
    assert "daf_query" not in profile.to_anndata(provenance=False).uns
    assert daf_query.provenance(profile.to_arrow_table()) is None


def test_what_is_no_sql_is_counted(session: DafSession) -> None:
    """Lists are not repeated; a query result says its SQL, and what was built upon it."""
    record = part_of(session, rows=["a", "c"], columns=None, params=None).provenance()
    assert (record["rows"], record["columns"]) == ("2 of 3, listed", None)
    chosen = session.sql("SELECT name, age FROM cell").filter("age > 2").limit(5)
    record = part_of(session, rows=chosen, columns=[True, False], params=None).provenance()
    assert record["rows"] == {
        "sql": "SELECT name, age FROM cell",
        "then": ["filter('age > 2')", "limit(5, 0)"],
    }
    assert record["columns"] == "1 of 2, listed"


def test_what_is_built_upon_a_query(session: DafSession, tmp_path: Path) -> None:
    """The steps are listed as Python writes them."""
    result = session.sql("SELECT * FROM cell").filter("age > 1").select("name", "age AS years")
    result = result.sort("years DESC").drop("name").distinct().head(3)
    result.save(tmp_path / "x.parquet")
    record = there(daf_query.provenance(tmp_path / "x.parquet"))
    assert record["then"] == [
        "filter('age > 1')",
        "select('name', 'age AS years')",
        "sort('years DESC')",
        "drop('name')",
        "distinct()",
        "limit(3, 0)",
    ]


def test_it_can_be_switched_off(path: Path, tmp_path: Path) -> None:
    """For a session, and for a single call, which says the last word."""
    with connect(path, provenance=False) as silent, connect(path) as session:
        for source, choice, is_there in (
            (silent, None, False),
            (silent, True, True),
            (session, False, False),
            (session, None, True),
        ):
            for place, suffix in enumerate(("parquet", "arrow", "parquet", "arrow", "h5ad")):
                file = tmp_path / f"{place}.{suffix}"
                result = source.sql(QUERY) if place < 2 else part_of(source)
                result.save(file, provenance=choice)
                assert (daf_query.provenance(file) is not None) == is_there
                assert (b"daf_query" in file.read_bytes()) == is_there
            assert ("daf_query" in part_of(source).to_anndata(provenance=choice).uns) == is_there


def test_two_runs_write_the_same_bytes(path: Path, tmp_path: Path) -> None:
    """There is no date and no path in it, also where the data set was moved or copied."""
    copy = tmp_path / "elsewhere" / "pbmc.h5df"
    copy.parent.mkdir()
    convert(path, copy, progress="never")
    for number, source in enumerate((path, path, copy)):
        with connect(source) as session:
            session.sql(QUERY).save(tmp_path / f"{number}.parquet")
            session.sql(QUERY).save(tmp_path / f"{number}.arrow")
            part_of(session).save(tmp_path / f"{number}s.arrow")
            record = part_of(session).provenance()
            assert "private" not in json.dumps(record)
            assert str(tmp_path) not in json.dumps(record)
    for suffix in (".parquet", ".arrow", "s.arrow"):
        contents = {(tmp_path / f"{number}{suffix}").read_bytes() for number in range(3)}
        assert len(contents) == 1
        assert b"private" not in contents.pop()


def test_several_data_sets(path: Path, tmp_path: Path) -> None:
    """Each by its name; several as one by the names of their files."""
    other = tmp_path / "run2.daf.zarr"
    convert(path, other, progress="never")
    with connect({"one": path, "two": other}) as session:
        query = "SELECT count(*) AS n FROM one.cell"
        assert set(session.sql(query).provenance()["data_sets"]) == {"one", "two"}
        found = set(session.matrix("cell", "gene", "UMIs", schema="two").provenance()["data_sets"])
        assert found == {"two"}
    members = members_of(connect([path, other]))
    assert set(members) == {"pbmc", "run2"}
    assert len(set(members.values())) == 1
    twin = tmp_path / "other" / "pbmc.daf.zarr"
    twin.parent.mkdir()
    convert(path, twin, progress="never")
    for paths in ([path, twin], [path, twin, other]):
        members = members_of(connect(paths))
        assert not any(str(tmp_path) in name for name in members)
        assert len(members) == len(paths)


def members_of(session: DafSession) -> Any:
    """Return what a query records of the one source of a session."""
    [found] = session.sql("SELECT count(*) AS n FROM cell").provenance()["data_sets"].values()
    return found


def fingerprint(daf: DafReader) -> str:
    """Return what a query records of a data set."""
    return str(members_of(connect(daf)))


def test_the_fingerprint(path: Path, tmp_path: Path) -> None:
    """The same in every format and copy; another one for each change that it promises to see."""
    expected = fingerprint(fill(MemoryDaf()))
    assert fingerprint(open_daf(path)) == expected
    for suffix in ("daf.zarr.zip", "h5df"):
        convert(path, tmp_path / f"x.{suffix}", progress="never")
        assert fingerprint(open_daf(tmp_path / f"x.{suffix}")) == expected
    changes = {
        "axis": lambda daf: daf.add_axis("donor", []),
        "vector": lambda daf: daf.set_vector("cell", "new", [1, 2, 3]),
        "type": lambda daf: daf.set_vector("cell", "age", [1.0, 2, 3], if_exists="replace"),
        "length": lambda daf: daf.add_axis("cell", ["a", "b"], if_exists="replace"),
        "matrix": lambda daf: daf.delete_matrix("cell", "gene", "logs"),
        "elements": lambda daf: daf.set_matrix(
            "cell", "gene", "UMIs", sp.csr_array((3, 2), dtype="i8"), if_exists="replace"
        ),
        "scalar": lambda daf: daf.set_scalar("organism", "mouse", if_exists="replace"),
    }
    digests = {expected}
    for change in changes.values():
        daf = fill(MemoryDaf())
        change(daf)
        digests.add(fingerprint(daf))
    assert len(digests) == len(changes) + 1
    daf = fill(MemoryDaf())
    daf.delete_matrix("gene", "cell", "logs", relayout=False)
    assert fingerprint(daf) == expected


def test_files_that_say_nothing(tmp_path: Path) -> None:
    """None where there is no record; the table of messages has what is no such file."""
    (folder := tmp_path / "run#").mkdir()
    pq.write_table(pa.table({"a": [1]}), folder / "x.parquet")
    with pa.ipc.new_file(folder / "x.arrow", pa.schema({"a": pa.int64()})) as file:
        file.write_table(pa.table({"a": [1]}))
    anndata.AnnData(np.ones((1, 1))).write_h5ad(folder / "x.h5ad")
    fill(open_daf(folder / "x.daf.zarr", "w")).close()
    for suffix in ("parquet", "arrow", "h5ad", "daf.zarr"):
        assert daf_query.provenance(folder / f"x.{suffix}") is None


def test_an_import_keeps_it(session: DafSession, tmp_path: Path) -> None:
    """A data set that is made of an extract says what it was made of, and so does its export."""
    part_of(session).save(tmp_path / "x.h5ad")
    import_h5ad(tmp_path / "x.h5ad", tmp_path / "x.daf.zarr", progress="never")
    with open_daf(tmp_path / "x.daf.zarr") as daf:
        check_slice(daf_query.provenance(tmp_path / "x.daf.zarr"))
        export_h5ad(daf, tmp_path / "y.h5ad", progress="never")
    convert(tmp_path / "x.daf.zarr", f"{tmp_path}/y.dafs.zarr.zip#/run", progress="never")
    check_slice(daf_query.provenance(tmp_path / "y.h5ad"))
    check_slice(daf_query.provenance(f"{tmp_path}/y.dafs.zarr.zip#/run"))

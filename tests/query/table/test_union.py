"""Tests of a collection table: rows, types, what is missing, and what is read."""

from __future__ import annotations

import warnings
from pathlib import Path

import duckdb
import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from daf_query import DafSession, UnreadableVectorWarning, connect
from daf_query.table import UnionDataset
from daf_storage import DafWriter, MemoryDaf, convert, errors, open_daf
from tests.random_conditions import Conditions
from tests.support import create, data_set

N = {"monday": 300, "tuesday": 200, "friday": 150}


def fill(daf: DafWriter, day: str, rng: np.random.Generator) -> None:
    """Set vectors of which types and presence differ from day to day."""
    n = N[day]
    daf.add_axis("cell", [f"{day} {i}" for i in range(n)])
    daf.set_vector(
        "cell", "n_genes", rng.integers(0, 250, n).astype({"monday": "u1"}.get(day, "i4"))
    )
    daf.set_vector("cell", "score", rng.random(n).astype("f4" if day == "friday" else "f8"))
    daf.set_vector("cell", "donor", [f"N{i}" for i in rng.integers(0, 4, n)])
    daf.set_vector("cell", "half", rng.integers(-5, 5, n) / 2 if day == "monday" else np.arange(n))
    if day != "tuesday":
        daf.set_vector("cell", "is_good", rng.random(n) > 0.5)
        daf.set_vector("cell", "count", rng.integers(0, 9, n))
        daf.set_vector("cell", "note", ["", "é"] * (n // 2))
    if day == "friday":
        daf.add_axis("donor", ["N1", "N2"])


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return a folder of three data sets."""
    rng = np.random.default_rng(5)
    (tmp_path / "runs").mkdir()
    for day in N:
        fill(create(tmp_path / "runs" / f"{day}.daf.zarr"), day, rng)
    return tmp_path / "runs"


@pytest.fixture
def session(folder: Path) -> DafSession:
    """Return a session of all of them."""
    return connect(f"{folder}/*.daf.zarr")


@pytest.fixture
def expected(folder: Path) -> pa.Table:
    """Return the rows of all, as polars joins tables."""
    frames = []
    for day in sorted(N):
        frame = pl.from_arrow(connect(folder / f"{day}.daf.zarr").table("cell").to_table())
        assert isinstance(frame, pl.DataFrame)
        frames.append(frame.select(pl.lit(day).alias("dataset"), pl.all()))
    return pl.concat(frames, how="diagonal_relaxed").to_arrow()


def test_the_rows_of_all(session: DafSession, expected: pa.Table) -> None:
    """With a column that says of which each is; numbers as the smallest type that holds them."""
    table = session.table("cell").to_table()
    assert table.num_rows == sum(N.values())
    assert session.tables() == ["cell", "donor", "matrices", "relations"]
    kinds = {field.name: str(field.type) for field in table.schema}
    assert kinds["n_genes"] == "int32"
    assert (kinds["half"], kinds["score"]) == ("double", "double")
    assert table.schema.names[:3] == ["dataset", "name", "index"]
    assert not table.schema.field("donor").nullable
    assert table.schema.field("count").nullable
    order = table.schema.names
    assert table.to_pylist() == expected.select(order).to_pylist()
    assert session.sql("SELECT count(*) AS n FROM cell").to_pydict() == {"n": [650]}
    assert session.sql("SELECT count(*) AS n FROM runs.donor").to_pydict() == {"n": [2]}


def test_random_filters_equal_duckdb(session: DafSession, expected: pa.Table) -> None:
    """Through SQL, and as DuckDB itself scans the table of all."""
    connection = duckdb.connect()
    connection.register("whole", expected)
    connection.execute("CREATE TABLE cell AS SELECT * FROM whole")
    cell = session.table("cell")
    conditions = Conditions(cell.to_table(), 7)
    for _ in range(60):
        where = f"FROM cell WHERE {conditions.of_columns()}"
        query = f"SELECT dataset, count(*) AS n, sum(index) AS s {where} GROUP BY 1 ORDER BY 1"
        theirs = connection.sql(query).fetchall()
        assert [tuple(row.values()) for row in session.sql(query).to_pylist()] == theirs, query
        assert duckdb.sql(query).fetchall() == theirs, (query, cell)


def test_other_engines_scan_it(session: DafSession) -> None:
    """Polars and pyarrow, with filters of their own."""
    cell = session.table("cell")
    frame = pl.scan_pyarrow_dataset(cell).filter(pl.col("count") > 4).collect()
    wanted = (pc.field("count") > 4) & (pc.field("dataset") == "monday")
    assert frame.height == cell.count_rows(filter=pc.field("count") > 4)
    table = cell.filter(wanted).to_table(columns=["dataset", "count"])
    assert set(table.column("dataset").to_pylist()) == {"monday"}
    assert table.num_rows == frame.filter(pl.col("dataset") == "monday").height
    assert cell.filter(wanted).count_rows() == table.num_rows
    found = cell.head(3, columns=["name"]).to_pydict()
    assert found == {"name": ["friday 0", "friday 1", "friday 2"]}
    assert sum(f.to_table(columns=["name"]).num_rows for f in cell.get_fragments()) == 650
    assert repr(cell).startswith("UnionDataset(")


def test_what_cannot_match_is_not_read(session: DafSession) -> None:
    """A data set by its name; one in which the column is null; and the rest is as for one."""
    query = "SELECT score FROM cell WHERE dataset = 'monday' AND n_genes > 240"
    explanation = session.explain_analyze(query)
    assert [scan.table for scan in explanation.scans] == ["monday.cell"]
    explanation = session.explain_analyze("SELECT score FROM cell WHERE count > 7")
    assert {scan.table for scan in explanation.scans} == {"monday.cell", "friday.cell"}
    assert sum(scan.values["score"] for scan in explanation.scans) == explanation.rows


def test_types_without_a_common_one() -> None:
    """Are left out with a warning that names them; the other columns can be used."""
    one, two = MemoryDaf(name="numbers!"), MemoryDaf(name="words!")
    for daf, values in ((one, [1, 2]), (two, ["x", "y"])):
        data_set(daf, cell={"name": ["a", "b"], "mixed": values, "dataset": [1, 2], "age": [3, 4]})
    session = connect({"both": [one, two]})
    with pytest.warns(UnreadableVectorWarning) as caught:
        found = session.sql("SELECT * FROM cell ORDER BY 1, 2").to_pydict()
    assert list(found) == ["dataset", "name", "index", "age"]
    assert found["dataset"] == ["numbers!", "numbers!", "words!", "words!"]
    strings = " ".join(str(w.message) for w in caught)
    assert "has types that have none in common (numbers!: int64, words!: string)" in strings
    assert "a vector 'dataset' of its own" in strings
    with pytest.raises(errors.DafError, match="none in common"):
        session.sql("SELECT mixed FROM cell").to_pydict()


@pytest.mark.parametrize(
    ("first", "second", "common"),
    [
        ("uint8", "int8", "int16"),
        ("uint32", "int8", "int64"),
        ("int64", "uint64", None),
        ("float32", "int8", "float"),
        ("float32", "int32", "double"),
        ("bool", "int8", "int8"),
        ("str", "str", "string"),
    ],
)
def test_common_types(first: str, second: str, common: str | None) -> None:
    """Only such as hold all whole numbers."""
    members = [MemoryDaf(), MemoryDaf()]
    for daf, kind in zip(members, (first, second), strict=True):
        data_set(daf, cell={"name": ["a"], "x": np.zeros(1, kind)})
    with warnings.catch_warnings(action="error" if common else "ignore"):
        schema = connect(members).table("cell").schema
    assert [str(field.type) for field in schema if field.name == "x"] == [common] * bool(common)


def test_names_of_data_sets(folder: Path, tmp_path: Path) -> None:
    """File names; paths, where two files have the same name; schemas after the folder."""
    other = tmp_path / "other"
    other.mkdir()
    convert(folder / "monday.daf.zarr", other / "monday.daf.zarr", progress="never")
    paths = [folder / "monday.daf.zarr", other / "monday.daf.zarr", folder / "friday.daf.zarr"]
    session = connect({"some": paths, "one": folder / "friday.daf.zarr"})
    found = session.sql("SELECT DISTINCT dataset FROM some.cell ORDER BY dataset").to_pydict()
    assert found["dataset"] == sorted(["friday", str(paths[0]), str(paths[1])])
    assert sorted(session.schemas) == ["one"]
    session.register(f"{folder}/*day.daf.zarr")
    assert session.sql("SELECT count(*) AS n FROM runs.cell").to_pydict() == {"n": [650]}
    query = "SELECT count(*) AS n FROM runs.cell AS a JOIN one.cell AS b ON a.name = b.name"
    joined = session.sql(query)
    assert joined.to_pydict() == {"n": [150]}
    session.unregister("runs")
    assert "runs.cell" not in session.tables()
    recursive = connect(f"{tmp_path}/**/monday.daf.zarr")
    assert recursive.sql("SELECT count(*) AS n FROM all.cell").to_pydict() == {"n": [600]}


def test_a_file_whose_name_looks_like_a_pattern(tmp_path: Path) -> None:
    """Is that file."""
    path = tmp_path / "a[1].daf.zarr"
    create(path).add_axis("cell", ["x"])
    assert connect(path).sql("SELECT name FROM cell").to_pydict() == {"name": ["x"]}


def test_changes_show_in_the_next_query(folder: Path) -> None:
    """Of a writer of one of them."""
    writer = open_daf(folder / "tuesday.daf.zarr", "r+")
    session = connect([open_daf(folder / "monday.daf.zarr"), writer])
    query = "SELECT count(count) AS n FROM cell"
    assert session.sql(query).to_pydict() == {"n": [300]}
    writer.set_vector("cell", "count", np.arange(200))
    assert session.sql(query).to_pydict() == {"n": [500]}


def test_many_data_sets() -> None:
    """Are scanned in as many partitions as there are cores, not as there are data sets."""
    parts = {}
    for number in range(40):
        daf = data_set(cell=[f"{number} {i}" for i in range(10)])
        parts[f"run{number}"] = connect(daf).table("cell")
    table = UnionDataset("cell", parts, location="many")
    assert len(list(table.get_fragments())) <= 8
    assert table.count_rows() == 400

"""Tests of the rows of a query: shapes, copies, streams, files, and errors while computing."""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import datafusion
import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from daf_query import DafSession, DuplicateColumnsWarning, QueryResult, connect
from daf_storage import errors, open_daf
from tests.support import create, data_set, is_mapped, peaks, reopen

N = 200_000


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a data set with numbers, NaN, and strings."""
    path = tmp_path_factory.mktemp("results") / "x.daf.zarr"
    daf = data_set(create(path), cell={"name": N, "age": np.arange(N) % 90})
    daf.set_vector("cell", "score", np.where(np.arange(N) % 10, np.arange(N) / 7, np.nan))
    daf.set_vector("cell", "is_odd", np.arange(N) % 2 == 1)
    daf.set_vector("cell", "donor", [f"N{i % 5} é" for i in range(N)])
    return path


@pytest.fixture
def session(path: Path) -> DafSession:
    """Return a session."""
    return connect(path)


QUERY = "SELECT name, age, score, is_odd, donor FROM cell WHERE age >= 80 ORDER BY index"


def test_pandas_with_arrow_or_numpy(session: DafSession) -> None:
    """The same values; backed by Arrow, missing ones are NA, and types stay."""
    plain = session.sql(QUERY).to_pandas()
    backed = session.sql(QUERY).to_pandas(arrow_backed=True)
    assert [str(kind) for kind in plain.dtypes] == ["object", "int64", "float64", "bool", "object"]
    assert str(backed.dtypes["age"]) == "int64[pyarrow]"
    assert backed["score"].isna().sum() == plain["score"].isna().sum() > 0
    assert backed["donor"].tolist() == plain["donor"].tolist()
    assert isinstance(backed, pd.DataFrame)


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc/self/maps")
def test_numbers_are_not_copied(session: DafSession, path: Path) -> None:
    """From the mapped file through the engine into Arrow, pandas with Arrow, polars and DuckDB."""
    result = session.sql("SELECT age, score FROM cell")
    few = pa.Table.from_batches(result.limit(99).batches())
    for table in (result.to_arrow_table(), pa.table(result.to_pandas(arrow_backed=True)), few):
        for name in ("age", "score"):
            for chunk in table.column(name).chunks:
                address = chunk.buffers()[1].address + chunk.offset * chunk.type.bit_width // 8
                assert is_mapped(address, path / f"vectors/cell/{name}/0")
    for series in result.to_polars()["age"].get_chunks():
        values = series.to_numpy(allow_copy=False)
        assert is_mapped(values.__array_interface__["data"][0], path / "vectors/cell/age/0")
    relation = result.to_duckdb()
    assert relation.aggregate("sum(age)").fetchall() == [(int((np.arange(N) % 90).sum()),)]


def test_results_are_built_upon(session: DafSession) -> None:
    """By names, SQL and expressions of the engine, as DuckDB does it; each is a result again."""
    result = session.sql('SELECT index, age, score, is_odd AS "Is Odd" FROM cell').limit(2**70)
    built = (
        result.filter("age >= 80", datafusion.col("index") < 1000)
        .select("Is Odd", "index", "age / 10 AS decade", datafusion.col("age"))
        .sort("age DESC", datafusion.col("index").sort())
        .limit(50, offset=10)
    )
    assert isinstance(built, QueryResult)
    whole = result.to_arrow_table()
    expected = duckdb.sql(
        'SELECT "Is Odd", index, age // 10 AS decade, age FROM whole '
        "WHERE age >= 80 AND index < 1000 ORDER BY age DESC, index LIMIT 50 OFFSET 10"
    ).to_arrow_table()
    assert built.to_pylist() == [*built] == expected.to_pylist()
    assert result.drop("score", "Is Odd").column_names == ["index", "age"]
    with pytest.raises(errors.VectorNotFoundError, match="no column 'agee' to leave out; .*'age'"):
        result.drop("agee")
    assert len(result.select("age").distinct()) == 90
    assert whole.num_rows == len(result) == N


@pytest.mark.parametrize(
    "key", ["score", "score DESC", "score nulls first", "score DESC NULLS LAST", "-score asc"]
)
def test_missing_values_are_sorted_as_by_order_by(session: DafSession, key: str) -> None:
    """A key of `sort` means what it means in SQL."""
    query = "SELECT index, CASE WHEN index % 3 > 0 THEN age END AS score FROM cell WHERE index < 20"
    expected = session.sql(f"{query} ORDER BY {key}, index")
    assert session.sql(query).sort(key, "index").to_pydict() == expected.to_pydict()


def test_results_are_limited_before_they_are_sorted(session: DafSession) -> None:
    """Steps that are built upon a result keep its rows, and windows do, too."""
    cells = session.sql("SELECT index, -index AS x FROM cell WHERE index < 30")
    for query in (
        "SELECT index FROM cell ORDER BY index LIMIT 3 OFFSET 4",
        "SELECT index FROM cell WHERE index < 30 LIMIT 3 OFFSET 4",
    ):
        result = session.sql(query)
        assert result.sort("index DESC").to_pydict()["index"] == [6, 5, 4]
        numbered = result.select("index", "row_number() OVER (ORDER BY index) AS n")
        assert sorted(numbered.to_pydict()["index"]) == [4, 5, 6]
    assert cells.limit(3, 4).sort("index").to_pydict()["index"] == [4, 5, 6]
    assert cells.limit(3).sort("x").to_pydict()["index"] == [2, 1, 0]
    assert session.sql("SELECT 'a' AS k, count(*) FROM cell").filter("k = 'b'").to_pylist() == []


def test_lists_of_later_steps_are_not_merged(session: DafSession) -> None:
    """Of a query and of what its rows are filtered by, in one step or in two."""
    few = session.sql("SELECT index, age FROM cell WHERE index < 90")
    both = few.filter("age IN (1, 2)").select("index", "age").filter("age NOT IN (2, NULL)")
    assert both.to_pylist() == []
    assert few.filter("age IN (1, 2)", "age NOT IN (2, NULL)").to_pylist() == []
    assert few.filter("age IN (1, 2)", "age NOT IN (2, 3)").to_pydict()["index"] == [1]


def test_results_are_arrow_data(session: DafSession) -> None:
    """Whatever takes Arrow data takes a result, also one that is built upon another."""
    result = session.sql(QUERY)
    expected = result.to_arrow_table()
    assert pa.schema(result.schema) == expected.schema
    assert pl.DataFrame(result).equals(pl.DataFrame(expected))
    assert duckdb.sql("SELECT count(*) FROM result").fetchall() == [(len(result),)]
    assert pa.table(result.filter("age = 89")).num_rows == N // 90
    assert result.to_duckdb(duckdb.connect()).fetchall() == result.to_polars().rows()
    wanted = pa.schema([pa.field("age", pa.float32())])
    cast = pa.table(session.sql("SELECT age FROM cell LIMIT 3"), schema=wanted)
    assert cast.schema == wanted


@pytest.mark.parametrize("take", [pa.table, pl.DataFrame])
def test_errors_of_arrow_streams_are_ours(
    session: DafSession, take: Callable[[QueryResult], Any]
) -> None:
    """Also where a later batch fails, and not a text of the library that takes the stream."""
    result = session.sql(f"SELECT 1 / (index - {N - 5}) AS x FROM cell")
    with pytest.raises(errors.QueryError) as caught:
        take(result)
    assert str(caught.value).startswith("SQL error at line 1, column 8: Divide by zero error; ")
    with pytest.raises((duckdb.Error, errors.QueryError), match="Divide by zero error"):
        duckdb.sql("SELECT count(*) FROM result").fetchall()


def _of_rows(rows: list[dict[str, Any]]) -> dict[str, list[Any]]:
    return {name: [row[name] for row in rows] for name in rows[0]}


_read_csv = partial(pd.read_csv, dtype={"big": "uint64"}, keep_default_na=False)
READERS: dict[str, Callable[[Path], Any]] = {
    "parquet": lambda path: pq.read_table(path).to_pydict(),
    "arrow": lambda path: pa.ipc.open_file(path).read_all().to_pydict(),
    "csv": _read_csv,
    "tsv": partial(_read_csv, sep="\t"),
    "json": lambda path: _of_rows(json.loads(path.read_text())),
    "ndjson": lambda path: _of_rows([json.loads(x) for x in path.read_text().splitlines()]),
}


def test_types_in_files(tmp_path: Path) -> None:
    """Large whole numbers, infinities, missing values, empty results."""
    daf = data_set(open_daf(tmp_path / "t.daf.zarr", "w"), cell=["a", "", 'é\n,"'])
    daf.set_vector("cell", "big", np.array([2**64 - 1, 0, 2**63], "u8"))
    daf.set_vector("cell", "x", np.array([math.inf, math.nan, -0.5]))
    result = connect(daf).sql("SELECT * FROM cell ORDER BY index")
    for kind, read in READERS.items():
        target = tmp_path / f"rows.{kind}"
        assert result.save(target, format=kind) == 3  # type: ignore[arg-type] # each is one
        found = read(target)
        assert list(found["big"]) == [2**64 - 1, 0, 2**63]
        assert list(found["name"]) == ["a", "", 'é\n,"']
        assert float(found["x"][2]) == -0.5
    assert {path.name for path in tmp_path.iterdir()} == {
        "t.daf.zarr",
        *(f"rows.{kind}" for kind in READERS),
    }
    empty = connect(daf).sql("SELECT name, x FROM cell WHERE x > 5 AND x < 4")
    assert empty.save(tmp_path / "empty.parquet") == 0
    assert pq.read_schema(tmp_path / "empty.parquet").names == ["name", "x"]


def test_errors_while_computing_are_ours(tmp_path: Path) -> None:
    """In one sentence, of our classes, without a traceback of the depths."""
    path = tmp_path / "x.daf.zarr"
    data_set(create(path), cell={"name": ["a", "b", "c"], "age": [1, 2, 3]})
    result = connect(path).sql("SELECT age FROM cell WHERE age > 1")
    reopen(path).set_vector("cell", "age", ["x", "y", "'z\""], if_exists="replace")
    names = ("arrow_table", "pandas", "polars", "pydict", "pylist")
    attempts: list[Callable[[], Any]] = [getattr(result, f"to_{name}") for name in names]
    attempts += [result.collect, result.count]
    attempts += [lambda: list(result.batches()), lambda: result.save(tmp_path / "x.csv")]
    for attempt in attempts:
        with pytest.raises(errors.FormatError) as caught:
            attempt()
        assert str(caught.value).endswith("while it was being queried; run the query again")
        assert "Traceback" not in str(caught.value)


def test_few_batches_have_many_rows(tiny_session: DafSession) -> None:
    """A cross join of the engine has one for each row of the left, each of which took a thread."""
    query = "SELECT g.i, c.name FROM generate_series(1, 300) AS g(i) CROSS JOIN cell AS c"
    batches = list(tiny_session.sql(query).batches())
    assert sum(batch.num_rows for batch in batches) == 900
    assert len(batches) < 30


def save_wide(source: str, target: str) -> None:
    """Save ten columns of a data set."""
    columns = ", ".join(f"score * {n} AS x{n}" for n in range(10))
    connect(source).sql(f"SELECT {columns} FROM cell").save(target)


@pytest.mark.sampled(0)
@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc/self/status")
def test_results_larger_than_memory(tmp_path: Path) -> None:
    """Four million rows of 80 bytes are saved with a part of that in memory."""
    path, count = tmp_path / "big.daf.zarr", 4_000_000
    daf = data_set(create(path), cell=pc.cast(pa.array(np.arange(count)), pa.string()))
    daf.set_vector("cell", "score", np.random.default_rng(0).random(count))
    targets = [tmp_path / f"rows.{kind}" for kind in ("arrow", "parquet")]
    assert max(peaks(save_wide, path, targets)) < 80 * count / 2**20 * 2 / 3
    assert pq.read_metadata(targets[1]).num_rows == count
    assert pa.ipc.open_file(pa.memory_map(str(targets[0]))).count_rows() == count


def test_a_plan_is_shown_whole(session: DafSession) -> None:
    """A notebook has all lines of EXPLAIN, of which the engine can take no part."""
    query = "EXPLAIN SELECT donor, count(*) FROM cell GROUP BY donor"
    shown = session.sql(query)._repr_mimebundle_()
    for text in shown.values():
        assert "DatasetExec: number_of_fragments=" in text
        assert "projection=[donor]" in text
        assert "\ufffd" not in text


JOIN = "SELECT * FROM cell c JOIN louvain l ON c.cluster = l.name ORDER BY c.index"
EXPECTED = {
    "name": ["A", "B", "C"],
    "index": [0, 1, 2],
    "cluster": ["t", "u", "t"],
    "name_1": ["x", "y", "z"],
    "name_2": ["t", "u", "t"],
    "index_1": [0, 1, 0],
    "color": ["red", "blue", "red"],
}


@pytest.fixture
def result() -> QueryResult:
    """Return a join of two axes, with a vector that is called like a renamed column."""
    daf = data_set(
        name="joined",
        cell={"name": ["A", "B", "C"], "cluster": ["t", "u", "t"], "name_1": ["x", "y", "z"]},
        louvain={"name": ["t", "u"], "color": ["red", "blue"]},
    )
    with pytest.warns(DuplicateColumnsWarning) as warned:
        found = connect({"joined": daf}).sql(JOIN)
    assert [warning.filename for warning in warned] == [__file__]
    return found


@pytest.mark.parametrize(
    "form",
    [
        lambda r: r.to_pydict(),
        lambda r: r.to_arrow_table().to_pydict(),
        lambda r: r.to_pandas().to_dict("list"),
        lambda r: r.to_pandas(arrow_backed=True).to_dict("list"),
        lambda r: r.to_polars().to_dict(as_series=False),
        lambda r: {k: [row[k] for row in r.to_pylist()] for k in r.to_pylist()[0]},
        lambda r: pa.Table.from_batches(r.collect()).to_pydict(),
        lambda r: pa.Table.from_batches(list(r.batches())).to_pydict(),
        lambda r: pa.table(r).to_pydict(),
        lambda r: pl.DataFrame(r).to_dict(as_series=False),
        lambda r: {n: list(v) for n, v in zip(r.to_duckdb().columns, zip(*r.to_duckdb().fetchall(), strict=True), strict=True)},
        lambda r: r.limit(9).to_pydict(),
    ],
)  # fmt: skip
def test_no_form_loses_a_column(result: QueryResult, form: Any) -> None:
    """Each has all columns, with names of their own and the right values."""
    assert form(result) == EXPECTED

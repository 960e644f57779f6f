"""Tests of an axis as a pyarrow Dataset: in pyarrow, DataFusion, DuckDB and polars."""

from __future__ import annotations

import copy
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import datafusion
import duckdb
import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
import pytest
import zarr
from polars.testing import assert_frame_equal

from daf_query import AxisDataset, connect, zarr_table
from daf_query.scan import ScanOptions
from daf_query.table import UnionDataset
from daf_storage import MemoryDaf, ZarrDaf, errors
from tests.storage.trees.test_foreign_arrays import put
from tests.support import Interruption, create, data_set, recorded_reads, reopen


@pytest.fixture
def large() -> AxisDataset:
    """Return an axis of several fragments, with missing values, strings and a sparse vector."""
    random = np.random.default_rng(0)
    n = 300_000
    daf = data_set(cell=n)
    score = random.random(n)
    score[::7] = np.nan
    daf.set_vector("cell", "score", score)
    daf.set_vector("cell", "age", random.integers(0, 100, n).astype("u1"))
    daf.set_vector("cell", "donor", random.choice(["N1", "N2", "N3"], n))
    daf.set_vector("cell", "is_old", random.random(n) < 0.1)
    daf.set_vector("cell", "odd (name) in ", np.arange(n))
    return AxisDataset(daf, "cell")


def test_the_schema_has_name_index_and_the_vectors(tiny_path: Path) -> None:
    """In this order, with the stored types; only floats can be null."""
    reopen(tiny_path).set_vector("cell", "x", [1.0, 2.0, 3.0])
    schema = AxisDataset(ZarrDaf(tiny_path), "cell").schema
    assert schema.names == ["name", "index", "age", "type", "x"]
    assert schema.types == [pa.string(), pa.int64(), pa.uint8(), pa.string(), pa.float64()]
    assert [field.nullable for field in schema] == [False] * 4 + [True]


def test_fragments_are_the_rows_in_parts(large: AxisDataset) -> None:
    """Together they hold every row once."""
    fragments = list(large.get_fragments())
    assert len(fragments) > 1
    assert sum(fragment.to_table().num_rows for fragment in fragments) == 300_000
    tables = [fragment.to_table(columns=["index"]) for fragment in fragments]
    assert pa.concat_tables(tables).column(0).to_pylist() == list(range(300_000))
    first = fragments[0]
    rows = sum(part.size for _, part in first.pieces)
    assert sum(batch.num_rows for batch in first.to_batches(columns=["age"])) == rows


def test_inherited_members_work_or_refuse(large: AxisDataset) -> None:
    """None of the parent's members, which have no C++ dataset here, crashes the interpreter."""
    assert large.count_rows() == 300_000
    found = large.count_rows(pc.field("age") < 50)
    assert found == large.to_table(filter=pc.field("age") < 50).num_rows
    assert large.head(2, columns=["name"]).to_pydict() == {"name": ["c0", "c1"]}
    assert large.take([5, 1, 1], columns=["name"]).to_pydict() == {"name": ["c5", "c1", "c1"]}
    assert next(iter(large.to_batches(columns=["index"]))).num_rows > 0
    old = large.filter(pc.field("age") > 90).filter(pc.field("is_old"))
    assert old.count_rows() == large.count_rows((pc.field("age") > 90) & pc.field("is_old"))
    assert sum(f.to_table().num_rows for f in old.get_fragments()) == old.count_rows()
    assert large.partition_expression.equals(pc.scalar(True))


def test_a_scanner_is_asked_as_pyarrow_s_is(large: AxisDataset) -> None:
    """Also for a column twice; it is copied, and has no attribute that pyarrow's has not."""
    twice = large.to_table(columns=["age", "age"], filter=pc.field("age") > 90)
    assert twice.column_names == ["age", "age"]
    assert twice.num_rows == large.scanner(["age", "age"], pc.field("age") > 90).count_rows()
    assert large.scanner(columns=[]).to_table().num_rows == 300_000
    assert copy.copy(large.scanner(columns=["age"])).head(2).num_rows == 2
    with pytest.raises(AttributeError, match="'TableScanner' object has no attribute 'rows'"):
        _ = large.scanner().rows


def test_all_rows_are_read_where_ctrl_c_ends_it(large: AxisDataset) -> None:
    """In the thread that asks: in one of pyarrow's, nothing would end it before the last row."""
    with Interruption(0) as unread:
        large.scanner()
    for ask in (large.to_table, partial(large.count_rows, pc.field("score") + 1 > 1.5)):
        ask()  # decodes columns
        with Interruption(0) as whole:
            ask()
        assert whole.lines > 5 * unread.lines
        with pytest.raises(KeyboardInterrupt), Interruption(whole.lines // 2):
            ask()
    assert large.to_table(columns=["age"]).num_rows == 300_000


def test_three_engines_agree(large: AxisDataset) -> None:
    """DataFusion, DuckDB and polars filter it as DuckDB filters all of its rows."""
    query = (
        "SELECT donor, count(*) AS n, sum(age) AS ages, count(score) AS scores FROM cell "
        "WHERE age BETWEEN 3 AND 50 AND (score > 0.25 OR is_old) GROUP BY donor ORDER BY donor"
    )
    context = datafusion.SessionContext()
    context.register_table("cell", large)
    by_datafusion = [tuple(row.values()) for row in context.sql(query).to_pylist()]
    cell = large  # DuckDB finds it by this name
    by_duckdb = duckdb.sql(query).fetchall()
    by_polars = (
        pl.scan_pyarrow_dataset(large)
        .filter(pl.col("age").is_between(3, 50), (pl.col("score") > 0.25) | pl.col("is_old"))
        .group_by("donor")
        .agg(pl.len().alias("n"), pl.col("age").cast(pl.Int64).sum(), pl.col("score").count())
        .sort("donor")
        .collect()
        .rows()
    )
    oracle = cell.to_table()
    expected = duckdb.sql(query.replace("FROM cell", "FROM oracle")).fetchall()
    assert by_datafusion == by_duckdb == by_polars == expected, oracle


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("SELECT age FROM cell", ["vectors/cell/age/0"]),
        (
            "SELECT sum(age) FROM cell WHERE type > 'C'",
            ["vectors/cell/age/0", "vectors/cell/type/0"],
        ),
        ("SELECT count(*) FROM cell WHERE age = 30", ["vectors/cell/age/0"]),
        ("SELECT name FROM cell", ["axes/cell/0"]),
        ("SELECT index FROM cell", []),
        ("EXPLAIN SELECT age FROM cell WHERE type > 'C'", []),
    ],
)
def test_only_projected_and_filtered_columns_are_read(
    tiny_path: Path, monkeypatch: pytest.MonkeyPatch, query: str, expected: list[str]
) -> None:
    """And none at all to explain a plan."""
    session = connect(tiny_path)
    with recorded_reads(monkeypatch) as reads:
        session.sql(query).to_pylist()
        assert sorted(set(reads.chunks())) == expected


def test_fragments_end_where_chunks_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each chunk of a compressed vector is read by one fragment, once."""
    path = tmp_path / "x.daf.zarr"
    data_set(create(path), cell=1000)
    put(path, "vectors/cell/a", np.arange(1000), chunks=(70,))
    put(path, "vectors/cell/b", np.arange(1000), chunks=(35,))
    options = ScanOptions(min_partition_rows=100, threads=4)
    table = AxisDataset(ZarrDaf(path), "cell").with_options(options)
    spans = [span for fragment in table.get_fragments() for _, span in fragment.pieces]
    assert len(spans) == 8
    assert all(span.stop % 70 == 0 for span in spans[:-1])
    with recorded_reads(monkeypatch) as reads:
        assert sum(f.to_table(columns=["a", "b"]).num_rows for f in table.get_fragments()) == 1000
        chunks = [k for k in reads.chunks() if k.startswith("vectors/cell/a/")]
        assert sorted(chunks) == sorted({f"vectors/cell/a/{i}" for i in range(15)})


def test_a_vector_replaced_during_a_query_is_an_error(tiny_path: Path) -> None:
    """Not a wrong answer: another type or length than planned with is refused."""
    table, daf = AxisDataset(ZarrDaf(tiny_path), "cell"), MemoryDaf()
    daf.add_axis("cell", ["A"], vectors={"age": [1]})
    longer = AxisDataset(daf, "cell")
    daf.delete_axis("cell")
    daf.add_axis("cell", ["A", "B"], vectors={"age": [1, 2]})
    reopen(tiny_path).set_vector("cell", "age", ["a", "b", "c"], if_exists="replace")
    for replaced in (table, longer):
        with pytest.raises(errors.FormatError, match="was replaced while it was being queried"):
            replaced.to_table(columns=["age"])
    assert connect(tiny_path).sql("SELECT max(age) AS m FROM cell").to_pydict() == {"m": ["c"]}


def test_a_query_is_not_interrupted_where_the_engine_asks_for_columns() -> None:
    """It dies of an exception there, so there is no line of Python."""
    table = connect(data_set(cell=["A"])).table("cell").with_view(engine_strings=pa.string_view())
    with Interruption(1) as interruption:
        assert table.schema.names == ["name", "index"]
    assert interruption.lines == 0


# Where pyarrow wants a dataset of its own: written, passed on, never a crash


@pytest.fixture
def numbers(tmp_path: Path) -> Path:
    """Return the path of a Zarr group with a column of numbers and one of strings."""
    path = tmp_path / "numbers"
    group = zarr.open_group(path, mode="w", zarr_format=2).create_group("meta")
    group.create_array("n", data=np.arange(1000), chunks=(400,))
    group.create_array("donor", data=np.array(["N1", "N2"] * 500), chunks=(400,))
    return path


OLD = pc.field("is_old")
SOME = ["index", "donor"]
TABLES: dict[str, Callable[[AxisDataset, Path], Any]] = {
    "axis": lambda cell, _: cell,
    "filtered": lambda cell, _: cell.filter(OLD),
    "union": lambda cell, _: UnionDataset(
        "cell", {"a": cell.filter(OLD), "b": cell}, location="both"
    ),
    "zarr": lambda _, numbers: zarr_table(numbers),
    "scanner": lambda cell, _: cell.filter(OLD).scanner(columns=SOME),
    "filtered scanner": lambda cell, _: cell.filter(OLD).scanner(
        columns=SOME, filter=pc.field("score") * 2 > 1
    ),
}


@pytest.mark.sampled(2)
@pytest.mark.parametrize("kind", TABLES)
def test_write_dataset(large: AxisDataset, numbers: Path, tmp_path: Path, kind: str) -> None:
    """In one piece and partitioned, of each kind of table: all of its rows."""
    given = partial(TABLES[kind], large, numbers)
    expected = given().to_table()
    same = partial(
        assert_frame_equal, pl.DataFrame(expected), check_row_order=False, check_column_order=False
    )
    ds.write_dataset(given(), tmp_path / "whole", format="parquet", use_threads=False)
    whole = ds.dataset(tmp_path / "whole").to_table()
    assert whole.column_names == expected.column_names
    same(pl.DataFrame(whole))
    if kind == "zarr" and int(pa.__version__.split(".")[0]) < 26:
        return  # it does not partition by views of strings
    parts = tmp_path / "parts"
    ds.write_dataset(given(), parts, format="parquet", partitioning=["donor"], partitioning_flavor="hive")  # fmt: skip
    found = {path.name for path in parts.iterdir()}
    assert found == {f"donor={name}" for name in pc.unique(expected.column("donor")).to_pylist()}
    same(pl.DataFrame(ds.dataset(parts, partitioning="hive").to_table()))


def test_rows_as_a_stream(large: AxisDataset) -> None:
    """For whoever takes one: of a table, of a scanner, with and without columns."""
    assert pa.table(large).equals(large.to_table())
    some = large.scanner(columns=["donor"], filter=pc.field("index") < 10)
    assert pa.RecordBatchReader.from_stream(some).read_all().num_rows == 10
    reader = pa.RecordBatchReader.from_stream(large)
    assert reader.read_next_batch().num_rows > 0


def test_what_needs_the_rows_in_another_form_says_so(large: AxisDataset) -> None:
    """A table that is passed to pyarrow's C++ code, instead of its rows."""
    other = ds.dataset(pa.table({"index": [1], "site": ["Oslo"]}))
    for attempt in (
        lambda: ds.Scanner.from_dataset(large).to_table(),
        lambda: ds.UnionDataset(large.schema, [large]).count_rows(),
        lambda: other.join(large, "index"),
        lambda: large.join(other, "index"),
        lambda: large.join_asof(other, on="index", by=[], tolerance=-10),
        lambda: large.sort_by("index"),
    ):
        with pytest.raises(errors.InvalidInputError, match=r"pass its to_table\(\), its scanner"):
            attempt()

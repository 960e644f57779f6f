"""Tests of missing strings: stored as empty ones, NULL in tables, in every engine."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import anndata
import duckdb
import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from daf_query import DafSession, connect
from daf_query.index import build_index
from daf_query.scan import DEFAULT_OPTIONS, ZONE_ROWS, ScanOptions
from daf_storage import (
    ConventionWarning,
    DafWriter,
    MemoryDaf,
    ZarrDaf,
    convert,
    errors,
    export_h5ad,
    from_anndata,
    open_daf,
    to_anndata,
)
from tests.random_conditions import Conditions
from tests.support import create, data_set, served

pytestmark = pytest.mark.filterwarnings("ignore::daf_query.NeverNullWarning")

VALUES = ["", "a", "ab", "b", "ä", "it's"]
RELAXED = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])


# Random tables and filters, beside DuckDB


@st.composite
def tables(draw: st.DrawFn) -> tuple[DafWriter, pa.Table]:
    """Return an axis with vectors of which some have missing strings, and the same as Arrow."""
    random = np.random.default_rng(draw(st.integers(0, 2**32)))
    length = draw(st.integers(0, 40))
    daf = data_set(cell=length)
    columns: dict[str, Any] = {
        "name": pa.array([f"c{i}" for i in range(length)], pa.string()),
        "index": pa.array(range(length), pa.int64()),
    }
    for column in ("few", "many", "plain"):
        pool = [f"{v}{i}" for i in range(30) for v in "ab"] if column == "many" else VALUES[1:]
        share = draw(st.sampled_from([0.0, 0.3, 1.0]))
        picked = random.choice(np.array(pool, object), length)
        picked[random.random(length) < share] = ""
        strings = pa.array(picked.tolist(), pa.string())
        has_missing = column != "plain"
        daf.set_vector("cell", column, strings, empty_is_missing=has_missing)
        columns[column] = pa.array(
            [(one or None) if has_missing else one for one in picked], pa.string()
        )
    numbers = random.integers(0, 5, length)
    daf.set_vector("cell", "n", numbers)
    columns["n"] = pa.array(numbers)
    return daf, pa.table(columns)


@RELAXED
@given(st.data())
def test_filters_keep_the_rows_that_duckdb_keeps(data: st.DataObject) -> None:
    """In DataFusion, and in DuckDB over our table; as codes and as strings, and with an index."""
    daf, oracle = data.draw(tables())
    condition = Conditions(oracle, data.draw(st.integers(0, 1 << 32))).of_columns()
    if data.draw(st.booleans()):
        build_index(daf, "cell", ["few", "many"])
    expected = duckdb.sql(f"SELECT * FROM oracle WHERE {condition} ORDER BY index").fetchall()
    names = ", ".join(oracle.column_names)
    query = f"SELECT {names} FROM cell WHERE {condition} ORDER BY index"
    limit = data.draw(st.sampled_from([1 << 16, 3]))
    db = connect(daf, scan_options=ScanOptions(max_distinct_strings=limit))
    for _ in range(2):  # the second one reads what was decoded by the first
        found = db.sql(query).to_arrow_table()
        found.validate(full=True)
        rows = [tuple(row.values()) for row in found.to_pylist()]
        assert rows == expected, condition
    cell = db.table("cell")
    assert duckdb.sql(query).fetchall() == expected, (condition, cell)
    counts = "SELECT count(few), count(many), count(plain), count(*), min(few) FROM"
    found = db.sql(f"{counts} cell WHERE {condition}").to_pylist()[0]
    counted = duckdb.sql(f"{counts} oracle WHERE {condition}").fetchall()
    assert [tuple(found.values())] == counted, condition
    groups = f"WHERE {condition} GROUP BY few ORDER BY few NULLS FIRST"
    by_value = db.sql(f"SELECT few, count(*) FROM cell {groups}").to_pylist()
    query = f"SELECT few, count(*) FROM oracle {groups}"
    assert [tuple(row.values()) for row in by_value] == duckdb.sql(query).fetchall()


@RELAXED
@given(st.data())
def test_unions_keep_the_rows_that_duckdb_keeps(data: st.DataObject) -> None:
    """Data sets with and without missing strings as one; a column may be absent from one."""
    one, first = data.draw(tables())
    other, second = data.draw(tables())
    other.set_vector("cell", "few", second["few"].fill_null(""), if_exists="replace")
    second = second.set_column(2, "few", second["few"].fill_null(""))
    if data.draw(st.booleans()):
        other.delete_vector("cell", "many")
        second = second.drop_columns(["many"])
    oracle = pa.concat_tables([first, second], promote_options="default")
    condition = Conditions(oracle, data.draw(st.integers(0, 1 << 32))).of_columns()
    expected = duckdb.sql(f"SELECT name, few, many FROM oracle WHERE {condition}").fetchall()
    found = connect([one, other]).sql(f"SELECT name, few, many FROM cell WHERE {condition}")
    rows = [tuple(row.values()) for row in found.to_pylist()]
    key: Callable[[Any], Any] = str
    assert sorted(rows, key=key) == sorted(expected, key=key), condition
    assert len(oracle) == first.num_rows + second.num_rows


def test_a_column_that_one_of_empty_data_sets_lacks() -> None:
    """A filter that the engine looks into as a whole is right of what is missing, too."""
    members = [MemoryDaf(), MemoryDaf()]
    for daf in members:
        data_set(daf, cell={"name": [], "few": np.array([], "U1")})
    members[0].set_vector("cell", "many", np.array([], "U1"))
    condition = "few = '' OR (many LIKE 'a%' AND few IS NULL)"
    query = f"SELECT name, few, many FROM cell WHERE ({condition})"
    assert connect(members).sql(query).to_pylist() == []


# Ranges of rows, indexes, and what replaces a vector


def session_of(strings: list[str], options: ScanOptions = DEFAULT_OPTIONS) -> DafSession:
    """Return a session over one vector of strings of which some are missing."""
    daf = data_set(cell=len(strings))
    daf.set_vector("cell", "donor", strings, empty_is_missing=True)
    return connect(daf, scan_options=options)


@pytest.mark.parametrize("distinct", [3, 300])
def test_ranges_without_missing_strings_are_left_out(distinct: int) -> None:
    """By the bits of each range, or its smallest and largest code; never one that has some."""
    strings = [f"d{i % distinct:03}" for i in range(3 * ZONE_ROWS)]
    strings[ZONE_ROWS + 5] = ""
    options = ScanOptions(partition_rows=ZONE_ROWS)
    db = session_of(strings, options)
    db.sql("SELECT count(*) FROM cell WHERE donor = 'd001'").to_pylist()
    scan = db.explain_analyze("SELECT index FROM cell WHERE donor IS NULL").scans[0]
    assert (scan.rows_out, scan.pruned) == (1, 2)
    found = db.sql("SELECT index FROM cell WHERE donor IS NULL").to_pydict()
    assert found == {"index": [ZONE_ROWS + 5]}
    count = db.sql("SELECT count(*) AS n FROM cell WHERE donor IS NOT NULL").to_pydict()
    assert count == {"n": [3 * ZONE_ROWS - 1]}


def test_a_few_rows_found_by_an_index(tmp_path: Path) -> None:
    """Strings that are read singly are null where they are missing; an index of '' finds none."""
    daf = data_set(create(tmp_path / "x.daf.zarr"), cell=40_000)
    strings = [f"s{i}" if i % 100 else "" for i in range(40_000)]
    daf.set_vector("cell", "tag", strings, empty_is_missing=True)
    build_index(daf, "cell", ["name", "tag"])
    with open_daf(tmp_path / "x.daf.zarr") as reader:
        db = connect(reader)
        found = db.sql("SELECT index, tag FROM cell WHERE name IN ('c100', 'c101')").to_pydict()
        assert found == {"index": [100, 101], "tag": [None, "s101"]}
        assert db.sql("SELECT name FROM cell WHERE tag = ''").to_pylist() == []
        assert db.sql("SELECT name FROM cell WHERE tag = 's7'").to_pydict() == {"name": ["c7"]}
        query = "SELECT name FROM cell WHERE name IN ('c100', 'c7') AND tag IS NULL"
        assert db.sql(query).to_pydict() == {"name": ["c100"]}


def test_the_convention_goes_with_the_vector() -> None:
    """Replaced or deleted, and set again: `''` is a string then, in an open session too."""
    db = session_of(["a", "", "b"])
    daf = db.reader()
    assert isinstance(daf, DafWriter)
    query = "SELECT name FROM cell WHERE donor IS NULL"
    assert db.sql(query).to_pydict() == {"name": ["c1"]}
    assert daf.get_np_vector("cell", "donor").tolist() == ["a", "", "b"]
    assert daf.get_pa_vector("cell", "donor").to_pylist() == ["a", "", "b"]
    daf.set_vector("cell", "donor", ["a", "", "b"], if_exists="replace")
    assert not daf.vector_info("cell", "donor").empty_is_missing
    assert db.sql("SELECT name FROM cell WHERE donor = ''").to_pydict() == {"name": ["c1"]}
    daf.set_vector("cell", "donor", ["", "", "b"], if_exists="replace", empty_is_missing=True)
    assert db.sql(query).to_pydict() == {"name": ["c0", "c1"]}
    daf.delete_vector("cell", "donor")
    daf.set_vector("cell", "donor", ["", "x", "b"])
    assert db.sql("SELECT donor FROM cell WHERE donor < 'c'").to_pydict() == {"donor": ["", "b"]}


def test_a_query_that_was_planned_before_the_vector_was_replaced() -> None:
    """It would yield nulls where it said that there are none: an error says so."""
    db = session_of(["a", "", "b"])
    daf = db.reader()
    assert isinstance(daf, DafWriter)
    daf.set_vector("cell", "donor", ["a", "", "b"], if_exists="replace")
    frame = db.sql("SELECT donor FROM cell")
    daf.set_vector("cell", "donor", ["a", "", "b"], if_exists="replace", empty_is_missing=True)
    with pytest.raises(errors.DafError, match="replaced while it was being queried"):
        frame.to_pylist()


def test_saving_a_vector_with_missing_strings() -> None:
    """A query that yields NULL stores '' that stands for it; not where '' is a value too."""
    db = session_of(["a", "", "b"])
    db.save_vector("cell", "copy", "donor")
    assert db.sql("SELECT copy FROM cell").to_pydict() == {"copy": ["a", None, "b"]}
    db.save_vector("cell", "upper", "CASE WHEN donor = 'a' THEN upper(donor) END")
    assert db.reader().get_np_vector("cell", "upper").tolist() == ["A", "", ""]
    assert db.reader().vector_info("cell", "upper").empty_is_missing
    db.save_vector("cell", "filled", "coalesce(donor, '')")
    assert not db.reader().vector_info("cell", "filled").empty_is_missing
    with pytest.raises(errors.QueryError, match="nullif"):
        db.save_vector("cell", "both", "CASE WHEN index = 0 THEN '' ELSE donor END")


# Imports


@pytest.fixture
def adata() -> Any:
    """Return an AnnData with missing text in every kind of column that can have it."""
    obs = pd.DataFrame(
        {
            "category": pd.Categorical(["x", None, "y", "x"]),
            "text": pd.array(["t", "u", pd.NA, "w"], dtype="string"),
            "objects": np.array(["o", None, "p", "q"], dtype=object),
            "date": pd.to_datetime(["2024-01-01", "NaT", "2024-01-03", "2024-01-04"]),
            "flag": pd.array([True, None, False, True], dtype="boolean"),
            "big": pd.array([2**60, None, 3, 4], dtype="Int64"),
            "whole": ["a", "", "b", "c"],
            "both": np.array(["a", "", None, "c"], dtype=object),
        },
        index=list("ABCD"),
    )
    return anndata.AnnData(obs=obs, X=np.zeros((4, 1), np.float32))


MISSING = ["category", "text", "objects", "date", "flag", "big"]


def check_imported(db: DafSession, adata: Any) -> None:
    """Compare NULL with what pandas says is missing, and the columns with each other."""
    chosen = "SELECT index, name, '{0}' AS of FROM obs WHERE "
    nulls, empty = (
        " UNION ALL ".join((chosen + condition).format(column) for column in MISSING)
        for condition in ('"{0}" IS NULL', "CAST(\"{0}\" AS VARCHAR) = ''")
    )
    found = db.sql(f"SELECT name, of FROM ({nulls}) ORDER BY of, index").to_pylist()
    missing = adata.obs[sorted(MISSING)].isna()
    expected = [(of, name) for of, gone in missing.items() for name in gone.index[gone]]
    assert [(each["of"], each["name"]) for each in found] == expected
    counts = ", ".join(f'count("{column}")' for column in MISSING)
    assert [*db.sql(f"SELECT {counts} FROM obs").to_pylist()[0].values()] == [3] * len(MISSING)
    assert db.sql(empty).to_pylist() == []
    assert db.sql("SELECT name FROM obs WHERE whole = ''").to_pydict() == {"name": ["B"]}
    frame = db.sql("SELECT objects FROM obs ORDER BY index").to_pandas()
    assert frame["objects"].isna().tolist() == [False, True, False, False]


def test_every_kind_of_column(adata: Any, tmp_path: Path) -> None:
    """Imported, copied to every format, reordered, added to, and on a server; then exported."""
    daf = from_anndata(adata)
    check_imported(connect(daf), adata)
    assert daf.get_np_vector("obs", "category").tolist() == ["x", "", "y", "x"]
    path = tmp_path / "a.daf.zarr"
    with ZarrDaf(path, "w") as new:
        from_anndata(adata, new)
    for name in ("b.daf.zarr.zip", "c.h5df", "d.daf.zarr"):
        convert(path, tmp_path / name, zarr_format=3 if name[0] == "d" else None, progress="never")
        path = tmp_path / name
        if name[0] != "c":
            with served(path) as server, open_daf(server.url) as remote:
                check_imported(connect(remote), adata)
        with open_daf(path, "r+") as found:
            found.set_vector("obs", f"more {name[0]}", [1, 2, 3, 4])
            check_imported(connect(found), adata)
            if not found.is_append_only:
                found.reorder_axis("obs", [3, 1, 0, 2], progress="never")
                check_imported(connect(found), adata[[3, 1, 0, 2]])
                found.reorder_axis("obs", [2, 1, 3, 0], progress="never")
            export_h5ad(found, tmp_path / "back.h5ad", if_exists="replace", progress="never")
            exported = anndata.read_h5ad(tmp_path / "back.h5ad").obs
            for obs in (to_anndata(found).obs, exported.drop(columns="date")):
                names = [name for name in MISSING if name in obs]  # h5ad has no dates
                assert obs[names].isna().equals(adata.obs[names].isna())
                assert obs["whole"].tolist() == ["a", "", "b", "c"]


def test_what_was_set_later_is_exported_as_missing(adata: Any) -> None:
    """By whoever stored a vector in which an empty string stands for a missing value."""
    daf = from_anndata(adata)
    daf.set_vector("obs", "later", ["a", "", "b", ""], empty_is_missing=True)
    daf.set_vector("obs", "later too", ["a", "", "b", ""])
    connect(daf).save_vector("obs", "saved", "nullif(later, 'a')")
    daf.add_axis("kind", ["a", "b"])
    daf.set_vector("obs", "kind", ["a", "", "b", ""], empty_is_missing=True)
    obs = to_anndata(daf).obs
    assert obs["later"].isna().tolist() == [False, True, False, True]
    assert obs["later too"].tolist() == ["a", "", "b", ""]
    assert obs["saved"].isna().tolist() == [True, True, False, True]
    assert obs["kind"].isna().tolist() == [False, True, False, True]
    assert obs["kind"].cat.categories.tolist() == ["a", "b"]


def test_nothing_missing_leaves_no_convention() -> None:
    """A column without gaps can hold '' later on, and cannot be NULL."""
    frame = pd.DataFrame({"c": pd.Categorical(["x", "y"]), "s": ["", "b"]}, index=["A", "B"])
    daf = from_anndata(anndata.AnnData(obs=frame, X=np.zeros((2, 1), np.float32)))
    assert not connect(daf).table("obs").schema.field("c").nullable
    assert not daf.vector_info("obs", "s").empty_is_missing


def test_a_damaged_convention_is_ignored(tmp_path: Path) -> None:
    """With a warning; the strings are then what is stored."""
    path = tmp_path / "x.daf.zarr"
    daf = data_set(create(path), cell=["A", "B"])
    daf.set_vector("cell", "s", ["", "b"], empty_is_missing=True)
    (path / "vectors/cell/s/.zattrs").write_text('{"daf_convention": "empty-is-mi')
    with pytest.warns(ConventionWarning, match="vectors/cell/s"):
        found = connect(open_daf(path)).sql("SELECT name FROM cell WHERE s = ''").to_pydict()
    assert found == {"name": ["A"]}

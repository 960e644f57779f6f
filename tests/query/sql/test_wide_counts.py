"""Tests of arithmetic with counts and vectors of few bits, against DuckDB and Python's numbers."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import anndata as ad
import duckdb
import numpy as np
import numpy.typing as npt
import pandas as pd
import pyarrow as pa
import pyarrow.parquet
import pytest
import scipy.sparse as sp
import zarr

from daf_query import DafSession, connect, zarr_table
from daf_storage import DafWriter, errors, from_anndata
from tests.support import data_set

SMALL = ["i1", "u1", "i2", "u2", "i4", "u4"]
OPERATORS = ["=", "<>", "<", "<=", ">", ">="]


def extremes(dtype: str) -> npt.NDArray[Any]:
    """Return a matrix of two genes, whose values are the extremes of a type in all pairs."""
    limits = np.iinfo(dtype)
    values = [0, 1, limits.min, limits.max, limits.max // 2]
    return np.array([(first, second) for first in values for second in values], dtype)


def stored(values: npt.NDArray[Any], form: str = "dense") -> DafWriter:
    """Return a data set with a matrix of two genes, in one of its forms."""
    daf = data_set(cell=len(values), gene=["A", "B"])
    if form == "gathered":
        daf.set_matrix("gene", "cell", "X", values.T, relayout=False)
    else:
        daf.set_matrix("cell", "gene", "X", sp.csc_array(values) if form == "sparse" else values)
    return daf


def column(session: DafSession, query: str) -> list[Any]:
    """Return the only column of a query."""
    result: list[Any] = session.sql(query).to_arrow_table()[0].to_pylist()
    return result


def by_duckdb(values: npt.NDArray[Any], query: str) -> list[Any]:
    """Return what DuckDB answers over the two genes as columns of 64 bits."""
    first, second = values.T.astype("i8")
    table = pa.table({"A": first, "B": second, "index": range(len(values))})
    with duckdb.connect() as other:
        other.register("cell", table)
        rows = other.sql(re.sub(r"X\['(\w)'\]", r"\1", query)).fetchall()
    return [row[0] for row in rows]


@pytest.mark.sampled(9)
@pytest.mark.parametrize("form", ["dense", "sparse", "gathered"])
@pytest.mark.parametrize("dtype", SMALL)
def test_arithmetic_of_entries_is_exact(dtype: str, form: str) -> None:
    """Sums, differences, products, negations of the extremes of each type, and their sums."""
    values = extremes(dtype)
    db = connect(stored(values, form))
    expressions = [
        "X['A'] + X['B']",
        "X['A'] - X['B']",
        "X['A'] * 200 - 1",
        "-X['A']",
        "abs(X['A'])",
        "coalesce(X['A'], 0) - X['B']",
        "CASE WHEN X['A'] > 1 THEN X['A'] ELSE X['B'] END * 3",
        "X['A'] - lag(X['A'], 1, -1) OVER (ORDER BY index)",
        "sum(X['A'] - X['B']) OVER (ORDER BY index)",
    ]
    queries = [f"SELECT {each} FROM cell ORDER BY index" for each in expressions]
    queries.append("SELECT sum(X['B']) - sum(X['A'] + 3) FROM cell")
    if dtype not in ("i4", "u4"):  # the sum of whose squares has more than 63 bits
        queries.append("SELECT sum(X['A'] * X['A']) FROM cell")
    for query in queries:
        assert column(db, query) == by_duckdb(values, query), query


@pytest.mark.sampled(1)
@pytest.mark.parametrize(("dtype", "was_float"), [("i1", False), ("u2", True), ("u4", False)])
def test_conditions_are_evaluated_as_stored(dtype: str, *, was_float: bool) -> None:
    """Constants beyond the type, negative ones, fractions, infinity: pushed down or not."""
    values = extremes(dtype)
    daf = stored(values)
    if was_float:
        daf.set_scalar("anndata_notes", '{"matrices": {"X": {"dtype": "<f4"}}}')
        for key, name in (("obs_is", "cell"), ("var_is", "gene")):
            daf.set_scalar(key, name)
    db = connect(daf)
    limits = np.iinfo(dtype)
    constants = [0, -1, 2.5, -0.5, 0.0, limits.max + 1, limits.min - 1, limits.max, 1e300, -1e300]
    listed = ", ".join(map(repr, constants))
    conditions = [f"{sign} {each!r}" for each in constants for sign in OPERATORS]
    conditions += [f"{said} ({listed})" for said in ("IN", "NOT IN")]
    conditions += ["BETWEEN -0.5 AND 1e9", "< 'NaN'::DOUBLE"]
    counts = ", ".join(f"count(*) FILTER (WHERE X['A'] {each})" for each in conditions)
    expected = by_duckdb(values, f"SELECT unnest([{counts}]) FROM cell")
    for condition, count in zip(conditions, expected, strict=True):
        for rest in (
            f"cell WHERE X['A'] {condition}",
            f"matrix('cell', 'gene', 'X') WHERE gene = 'A' AND value {condition}",
        ):
            assert column(db, f"SELECT count(*) FROM {rest}") == [count], rest


@pytest.mark.parametrize("dtype", ["uint8", "uint16", "uint32"])
def test_counts_as_changes_no_answer(dtype: Any) -> None:
    """Imported as integers or as the floats of the file, SQL says the same, quotients included."""
    counts = np.array([[3, 0], [0, 2], [7, 7], [200, 201]], np.float32)
    adata = ad.AnnData(
        sp.csr_array(counts),
        obs=pd.DataFrame(index=list("abcd")),
        var=pd.DataFrame(index=["A", "B"]),
        layers={"twice": counts / 2},
    )
    plain, small = from_anndata(adata), from_anndata(adata, counts_as=dtype)
    assert small.matrix_info("obs", "var", "X").storage_type.dtype == np.dtype(dtype)
    query = "SELECT X['A'] FROM obs"
    assert connect(small).sql(query).to_arrow_table().schema.types == [pa.float64()]
    for sql in (
        "SELECT X['A'] / 2, X['A'] / X['B'], X['A'] % 2, X['A'] - X['B'] FROM obs ORDER BY name",
        "SELECT sum(X['A']), avg(X['A']), max(X['A']) - min(X['B']), sum(X['A'] / 4) FROM obs",
        "SELECT X['A'], count(*) AS n FROM obs GROUP BY X['A'] ORDER BY X['A'] DESC",
        "SELECT name FROM obs WHERE X['A'] / 2 > 1.4 AND X['B'] IN (0, 7) ORDER BY name",
        "SELECT value / 2 AS half, obs FROM matrix('obs', 'var', 'X') ORDER BY half, obs",
        "SELECT value / 2 AS half, obs FROM matrix('var', 'obs', 'X') ORDER BY half, obs",
    ):
        answer, expected = (connect(each).sql(sql).to_pandas() for each in (small, plain))
        pd.testing.assert_frame_equal(answer, expected, check_dtype=False, rtol=1e-6)


def vectors(values: npt.NDArray[Any]) -> DafWriter:
    """Return a data set with the columns of an array as vectors ``a`` and ``b``."""
    vectors = {**dict(zip("ab", values.T, strict=True)), "x": np.linspace(0, 1, len(values))}
    return data_set(cell={"name": len(values), **vectors})


def test_types_stay_where_nothing_is_computed() -> None:
    """Columns keep theirs, beside arithmetic with others, too; constants widen by themselves."""
    db = connect(vectors(extremes("u1")))
    for sql, expected in {
        "SELECT a FROM cell": pa.uint8(),
        "SELECT a, x * 2 FROM cell": pa.uint8(),
        "SELECT a, b + 1 FROM cell": pa.uint8(),
        "SELECT a, a + 1, a * 2.5 AS y FROM cell": pa.uint8(),
        "SELECT a, CAST(b AS DOUBLE) / 2 FROM cell": pa.uint8(),
        "SELECT a, 'a - b' FROM cell WHERE name <> 'a - b'": pa.uint8(),
        "SELECT max(a), sum(x) / count(*) FROM cell": pa.uint8(),
        "SELECT a - b FROM cell": pa.int64(),
    }.items():
        assert db.sql(sql).to_arrow_table().schema.types[0] == expected, sql


def test_several_data_sets_and_zarr_tables(tmp_path: Path) -> None:
    """Unions of members of different types; groups of Zarr arrays."""
    members = []
    for dtype in ("u1", "i2"):
        numbers = {"a": np.array([1, 100], dtype), "b": np.array([2, 100], dtype)}
        members.append(data_set(cell={"name": [f"{dtype}0", f"{dtype}1"], **numbers}))
    db = connect(members)
    sql = "SELECT a * b * b - b FROM cell ORDER BY name"
    assert column(db, sql) == [2, 999_900, 2, 999_900]
    root = zarr.open_group(tmp_path / "t.zarr", mode="w", zarr_format=3)
    for name, values in (("a", [1, 200]), ("b", [2, 100])):
        root.create_array(f"meta/{name}", data=np.array(values, np.uint8))
    table = zarr_table(tmp_path / "t.zarr")
    assert table.schema.types == [pa.uint8(), pa.uint8()]
    db.register(table, "z")
    assert column(db, "SELECT a - b FROM z ORDER BY a") == [-1, 100]


def test_a_changed_type_is_planned_anew() -> None:
    """Of any column that a query names, in either direction; and a table in its place, too."""
    daf = vectors(np.array([[1, 2]], "f4"))
    db = connect(daf)
    query = "SELECT a - b AS x FROM cell"
    for dtype in ("f4", "u2", "f4", "u1", "i8", "u4"):
        for name, value in (("a", 1), ("b", 2)):
            daf.set_vector("cell", name, np.array([value], dtype), if_exists="replace")
        for _ in range(3):
            assert column(db, query) == [-1], dtype
    daf.set_vector("cell", "b", np.array(["two"]), if_exists="replace")
    with pytest.raises(errors.QueryError):
        column(db, query)
    daf.set_vector("cell", "b", np.array([3], "u1"), if_exists="replace")
    assert column(db, query) == [-2]

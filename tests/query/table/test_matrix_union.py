"""Tests of the long form of a matrix of several data sets; polars judges."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import polars as pl
import pyarrow.compute as pc
import pytest

from daf_query import DafSession, connect
from daf_query.table import MatrixEntry
from daf_storage import errors
from tests.query.collection.cases import RUNS, daf_of, frame_of, session_of, session_with
from tests.support import create, data_set


@pytest.fixture(scope="module")
def db() -> DafSession:
    """Return a session of a collection of four data sets."""
    return session_of()


@pytest.fixture(scope="module")
def expected() -> pl.DataFrame:
    """Return the stored elements of all."""
    rows = [
        (name, cell, gene, float(value))
        for name, run in RUNS.items()
        for cell, values in frame_of(name, run).iterrows()
        for gene, value in values.items()
        if value
    ]
    return pl.DataFrame(rows, ["dataset", "cell", "gene", "value"], orient="row")


def same(got: Any, expected: pl.DataFrame) -> None:
    """Compare rows in any order."""
    order = ["dataset", "cell", "gene", "value"]
    assert sorted(map(tuple, got)) == sorted(expected.select(order).rows())


CONDITIONS = [
    "true",
    "dataset = 'friday'",
    "dataset <> 'friday' AND gene = 'g1'",
    "dataset = 'friday' OR value > 3",
    "cell = 'a'",
    "gene IN ('g0', 'g5') OR dataset IN ('tuesday')",
    "value = 2",
    "value > 2.5 AND cell < 'c'",
    "dataset > 'm' AND value IS NOT NULL",
    "value < -1",
    "dataset = 'sunday'",
]


@pytest.mark.parametrize("condition", CONDITIONS)
def test_filters(db: DafSession, expected: pl.DataFrame, condition: str) -> None:
    """Those of the whole table, also on numbers that are of a wider type than they are stored."""
    check(db, expected, f"matrix('cell', 'gene', 'X') WHERE {condition}", condition)


def test_predicates_of_the_function(db: DafSession, expected: pl.DataFrame) -> None:
    """The fourth and fifth argument choose rows of the union tables."""
    call = "matrix('cell', 'gene', 'X', 'dataset = ''monday'' AND age > 6', 'is_odd')"
    condition = "dataset = 'monday' AND cell <> 'a' AND gene IN ('g1', 'g3', 'g5')"
    check(db, expected, call, condition)


def check(db: DafSession, expected: pl.DataFrame, source: str, condition: str) -> None:
    """Compare what SQL reads with what polars leaves of all elements."""
    found = db.sql(f"SELECT dataset, cell, gene, value FROM {source}")
    wanted = pl.SQLContext(t=expected).execute(f"SELECT * FROM t WHERE {condition}", eager=True)
    same([tuple(row.values()) for row in found.to_pylist()], wanted)


def test_other_engines_scan_it(db: DafSession, expected: pl.DataFrame) -> None:
    """With the rows and columns that were chosen; names that only some have among them."""
    table = db.matrix_table("cell", "gene", "X", rows="age > 6", columns=["g5", "g2"])
    assert str(table.schema.field("value").type) == "double"
    connection = duckdb.connect()
    connection.register("long", table)
    few = "value > 1 AND cell < 'g' AND gene IN ('g5', 'g2', 'g9')"
    query = f"SELECT dataset, cell, gene, value FROM long WHERE {few}"
    rows = connection.sql(query).fetchall()
    chosen = expected.filter(
        pl.col("gene").is_in(["g5", "g2"])
        & (pl.col("value") > 1)
        & (pl.col("cell") < "g")
        & ~(pl.concat_str("dataset", "cell").is_in(["mondaya", "fridayg"]))
    )
    same(rows, chosen)
    filtered = db.matrix_table("cell", "gene", "X").filter(pc.field("dataset") == "friday")
    assert filtered.count_rows() == expected.filter(pl.col("dataset") == "friday").height
    assert db.matrix_table("cell", "gene", "X").count_rows() == expected.height
    with pytest.raises(errors.InvalidInputError, match="not the table of an axis"):
        filtered.with_matrix_columns({"g1": MatrixEntry("gene", "X", "g1")})


def test_a_filter_on_dataset_reads_no_other_file(tmp_path: Path) -> None:
    """A file that is damaged, and left out, does no harm."""
    for name in ("good", "bad"):
        with create(tmp_path / f"{name}.daf.zarr") as daf:
            data_set(daf, cell=["a"], gene=["g1"])
            daf.set_matrix("cell", "gene", "X", np.array([[3.0]]))
    db = connect(f"{tmp_path}/*.daf.zarr")
    for chunk in (tmp_path / "bad.daf.zarr").rglob("X/0*"):
        chunk.write_bytes(b"")
    table = db.matrix_table("cell", "gene", "X")
    again = pickle.loads(pickle.dumps(table.filter(pc.field("dataset") == "good")))
    found = again.to_table().to_pydict()
    assert found == {"dataset": ["good"], "cell": ["a"], "gene": ["g1"], "value": [3.0]}
    query = "SELECT sum(value) AS total FROM matrix('cell', 'gene', 'X')"
    assert db.sql(f"{query} WHERE dataset = 'good'").to_pydict() == {"total": [3.0]}


def test_axes_and_types_that_do_not_fit() -> None:
    """An axis of the name dataset gets a number; strings and numbers are an error."""
    daf = data_set(dataset=["x"], gene=["g"], matrices={("dataset", "gene", "X"): [[1]]})
    db = session_with({"one": daf})
    row = {"dataset": "one", "dataset_2": "x", "gene": "g", "value": 1}
    assert db.sql("SELECT * FROM matrix('dataset', 'gene', 'X')").to_pylist() == [row]
    part = db.matrix("dataset", "gene", "X")
    assert part.to_arrow().to_pylist() == [row]
    assert part.to_polars().columns == ["dataset", "dataset_2", "g"]
    dafs = {name: daf_of(name, RUNS[name]) for name in ("monday", "friday")}
    dafs["monday"].set_matrix("cell", "gene", "Y", np.full((4, 5), "x"))
    dafs["friday"].set_matrix("cell", "gene", "Y", np.zeros((2, 4)))
    with pytest.raises(errors.UnsupportedDataError, match="monday: string, friday: double"):
        session_with(dafs).matrix_table("cell", "gene", "Y")

"""Tests of profiles in parts, merged by the query that Spark executes; here DuckDB does."""

from __future__ import annotations

import math
import pickle
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pytest

from daf_query import connect
from daf_query.spark import DafDataSource
from daf_query.spark._query import merging
from daf_query.syntax import to_local
from daf_storage import errors
from tests.support import create


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Return the pattern of two data sets: one stored by both axes, one that lacks a column."""
    folder = tmp_path_factory.mktemp("profiles")
    rng = np.random.default_rng(0)
    for number, genes in enumerate((["CD8A", "CST3", "NKG7"], ["NKG7", "CD8A"])):
        with create(folder / f"run{number}.daf.zarr") as daf:
            rows = 40
            daf.add_axis("cell", [f"{number} {i}" for i in range(rows)])
            daf.add_axis("gene", genes)
            daf.set_vector("cell", "donor", rng.choice(["N1", "N2", ""], rows).tolist())
            values = rng.integers(0, 4, (rows, len(genes))).astype("f8")
            values[3, 0] = np.nan
            values[5] = 1e9 + np.arange(len(genes))
            daf.set_matrix("cell", "gene", "X", values, relayout=number == 0)
    return f"{folder}/*.daf.zarr"


def parts_of(path: str, **options: str) -> list[pa.Table]:
    """Return the parts of a profile, each as another process reads it."""
    given = {"path": path, "table": "profile", "matrix": "X", "axes": "cell, gene", **options}
    source = DafDataSource(given)
    reader = source.reader(pa.schema([]))
    partitions = reader.partitions()
    tables = []
    for partition in pickle.loads(pickle.dumps(partitions)):
        assert len(pickle.dumps(partition)) < 2000
        batches = list(pickle.loads(pickle.dumps(reader)).read(partition))
        tables += [pa.Table.from_batches(batches)] if batches else []
    return tables


def merged(parts: list[pa.Table], keys: list[str]) -> dict[tuple[Any, ...], tuple[Any, ...]]:
    """Return the moments by group and column."""
    everything = pa.concat_tables(parts)
    query = to_local(merging(keys, "gene")).format(parts="everything")
    rows = duckdb.sql(query).fetchall()
    assert everything.num_rows
    width = len(keys) + 1
    return {tuple(row[:width]): tuple(row[width:]) for row in rows}


CASES: list[tuple[dict[str, Any], list[str]]] = [
    ({"by": "donor"}, ["donor"]),
    ({}, []),
    ({"by": "donor, name LIKE '%1' AS one", "rows": "name NOT LIKE '%3'"}, ["donor", "one"]),
    ({"by": "nullif(donor, '') AS d", "columns": "name <> 'NKG7'"}, ["d"]),
]


@pytest.mark.parametrize(("choice", "keys"), CASES, ids=str)
@pytest.mark.parametrize("which", ["*", "run0", "run1"])
def test_parts_are_merged_to_the_profile_of_the_session(
    runs: str, which: str, choice: dict[str, Any], keys: list[str]
) -> None:
    """Numbers exactly; sums and squares to the last digits, with values that differ a lot."""
    path = runs.replace("*", which)
    parts = parts_of(path, rows_per_partition="25", **choice)
    assert len(parts) > (0 if "columns" in choice else 1)
    with connect(path) as session:
        table = session.profile("cell", "gene", "X", progress="never", **choice).to_arrow_table()
    rows = merged(parts, keys)
    assert len(rows) == table.num_rows
    for expected in table.to_pylist():
        found = rows[tuple(expected.pop(name) for name in [*keys, "gene"])]
        for name, value, other in zip(expected, expected.values(), found, strict=True):
            if isinstance(value, float):
                assert math.isclose(other, value, rel_tol=1e-12), name
            else:
                assert other == value, name


def test_a_part_reads_its_own_rows(runs: str) -> None:
    """Each row of the matrix is in one part, or each column."""
    (whole,) = parts_of(runs.replace("*", "run0"))
    totals = [row for row in whole.to_pylist() if row["gene"] is None]
    assert [row["count"] for row in totals] == [40]
    parts = parts_of(runs.replace("*", "run0"), rows_per_partition="25")
    counts = [row["count"] for part in parts for row in part.to_pylist() if row["gene"] is None]
    assert (sum(counts), len(parts) >= 3) == (40, True)


def test_columns_of_a_profile_are_checked(runs: str, tmp_path: Path) -> None:
    """Filters of Spark are its own; what is wrong is an error of the session."""
    source = DafDataSource(
        {"path": runs, "table": "profile", "matrix": "X", "axes": "cell, gene", "by": "donr"}
    )
    with pytest.raises(errors.DafError, match="donr"):
        source.schema()
    source = DafDataSource(
        {
            "path": runs,
            "table": "profile",
            "matrix": "X",
            "axes": "cell, gene",
            "select": "gene,men",
        }
    )
    with pytest.raises(errors.NotFoundError, match="no column 'men'; it has .*mean"):
        source.schema()
    with pytest.raises(errors.SourceNotFoundError):
        parts_of(str(tmp_path / "none.daf.zarr"))


def test_parts_of_a_file_that_was_replaced_are_refused(tmp_path: Path) -> None:
    """Also where the new one has the same rows, columns and types."""
    path = tmp_path / "one.daf.zarr.zip"

    def write(value: float) -> None:
        with create(path) as daf:
            daf.add_axis("cell", ["A", "B"])
            daf.add_axis("gene", ["g"])
            daf.set_matrix("cell", "gene", "X", np.array([[1.0], [value]]))

    write(2.0)
    given = {"path": str(path), "table": "profile", "matrix": "X", "axes": "cell, gene"}
    reader = DafDataSource(given).reader(pa.schema([]))
    (partition,) = reader.partitions()
    assert list(reader.read(partition))
    write(3.0)
    with pytest.raises(errors.InvalidInputError, match=r"was changed .*run the query again"):
        list(reader.read(partition))

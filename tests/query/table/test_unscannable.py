"""Tests of tables where pyarrow wants a dataset of its own: written, passed on, never a crash."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
import pytest
import zarr

from daf_query import AxisDataset, zarr_table
from daf_query.table import UnionDataset
from daf_storage import errors
from tests.support import data_set


@pytest.fixture
def cell() -> AxisDataset:
    """Return an axis of several batches, with numbers, strings, Bool and missing values."""
    rng = np.random.default_rng(0)
    daf = data_set(cell=100_000)
    score = rng.random(100_000)
    score[::7] = np.nan
    daf.set_vector("cell", "score", score)
    daf.set_vector("cell", "donor", rng.choice(["N1", "N2", "N3"], 100_000))
    daf.set_vector("cell", "is_old", rng.random(100_000) < 0.1)
    return AxisDataset(daf, "cell")


@pytest.fixture
def numbers(tmp_path: Path) -> Path:
    """Return the path of a Zarr group with a column of numbers and one of strings."""
    path = tmp_path / "numbers"
    group = zarr.open_group(path, mode="w", zarr_format=2).create_group("meta")
    group.create_array("n", data=np.arange(1000), chunks=(400,))
    group.create_array("donor", data=np.array(["N1", "N2"] * 500), chunks=(400,))
    return path


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    "kind", ["axis", "filtered", "union", "zarr", "scanner", "filtered scanner"]
)
def test_write_dataset(cell: AxisDataset, numbers: Path, tmp_path: Path, kind: str) -> None:
    """In one piece and partitioned, of each kind of table: all of its rows."""
    filtered = cell.filter(pc.field("is_old"))
    kinds: dict[str, Any] = {
        "axis": cell,
        "filtered": filtered,
        "union": UnionDataset("cell", {"a": filtered, "b": cell}, location="both"),
        "zarr": zarr_table(numbers),
    }

    def given() -> Any:
        if "scanner" not in kind:
            return kinds[kind]
        filter_ = pc.field("score") * 2 > 1 if kind == "filtered scanner" else None
        return filtered.scanner(columns=["index", "donor"], filter=filter_)

    expected = given().to_table()
    ds.write_dataset(given(), tmp_path / "whole", format="parquet", use_threads=False)
    whole = ds.dataset(tmp_path / "whole").to_table()
    assert whole.column_names == expected.column_names
    assert as_rows(whole) == as_rows(expected)
    if kind == "zarr" and int(pa.__version__.split(".")[0]) < 26:
        return  # it does not partition by views of strings
    parts = tmp_path / "parts"
    ds.write_dataset(given(), parts, format="parquet", partitioning=["donor"], partitioning_flavor="hive")  # fmt: skip
    found = {path.name for path in parts.iterdir()}
    assert found == {f"donor={name}" for name in pc.unique(expected.column("donor")).to_pylist()}
    assert as_rows(ds.dataset(parts, partitioning="hive").to_table()) == as_rows(expected)


def as_rows(table: pa.Table) -> list[str]:
    """Return the rows of a table, in any order."""
    columns = sorted(table.column_names)
    return sorted(map(str, zip(*(table.column(name).to_pylist() for name in columns), strict=True)))


def test_rows_as_a_stream(cell: AxisDataset) -> None:
    """For whoever takes one: of a table, of a scanner, with and without columns."""
    assert pa.table(cell).equals(cell.to_table())
    some = cell.scanner(columns=["donor"], filter=pc.field("index") < 10)
    assert pa.RecordBatchReader.from_stream(some).read_all().num_rows == 10
    reader = pa.RecordBatchReader.from_stream(cell)
    assert reader.read_next_batch().num_rows > 0


def test_what_needs_the_rows_in_another_form_says_so(cell: AxisDataset) -> None:
    """A table that is passed to pyarrow's C++ code, instead of its rows."""
    other = ds.dataset(pa.table({"index": [1], "site": ["Oslo"]}))
    for attempt in (
        lambda: ds.Scanner.from_dataset(cell).to_table(),
        lambda: ds.UnionDataset(cell.schema, [cell]).count_rows(),
        lambda: other.join(cell, "index"),
        lambda: cell.join(other, "index"),
        lambda: cell.join_asof(other, on="index", by=[], tolerance=-10),
        lambda: cell.sort_by("index"),
    ):
        with pytest.raises(errors.InvalidInputError, match=r"pass its to_table\(\), its scanner"):
            attempt()

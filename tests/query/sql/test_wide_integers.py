"""Tests of arithmetic with vectors of few bits, or without a sign, against Python's numbers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet
import pytest
import zarr

from daf_query import connect, zarr_table
from daf_storage import DafWriter, errors
from tests.query.sql.test_wide_counts import column, extremes
from tests.support import data_set


def stored(values: npt.NDArray[Any]) -> DafWriter:
    """Return a data set with the columns of an array as vectors ``a`` and ``b``."""
    vectors = {**dict(zip("ab", values.T, strict=True)), "x": np.linspace(0, 1, len(values))}
    return data_set(cell={"name": len(values), **vectors})


def test_types_stay_where_nothing_is_computed() -> None:
    """Columns keep theirs, beside arithmetic with others, too; constants widen by themselves."""
    db = connect(stored(extremes("u1")))
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
    daf = stored(np.array([[1, 2]], "f4"))
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

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

from daf_query import DafSession, connect, zarr_table
from daf_query.index import build_index
from daf_storage import DafWriter, MemoryDaf, ZarrDaf, errors

TYPES = ["i1", "u1", "i2", "u2", "i4", "u4", "u8"]


def extremes(dtype: str) -> npt.NDArray[Any]:
    """Return pairs of the extremes of a type; of UInt64, those of Int64."""
    limits = np.iinfo(dtype)
    most = min(limits.max, 2**62)
    values = [0, 1, limits.min, most, most // 2]
    return np.array([(first, second) for first in values for second in values], dtype)


def stored(values: npt.NDArray[Any]) -> DafWriter:
    """Return a data set with the columns of an array as vectors ``a`` and ``b``."""
    daf = MemoryDaf()
    daf.add_axis("cell", [f"c{i}" for i in range(len(values))])
    for name, column in zip("ab", values.T, strict=True):
        daf.set_vector("cell", name, column)
    daf.set_vector("cell", "x", np.linspace(0, 1, len(values)))
    daf.set_vector("cell", "half", np.where(np.arange(len(values)) % 2, "odd", "even"))
    return daf


def column(session: DafSession, query: str) -> list[Any]:
    """Return the only column of a query."""
    result: list[Any] = session.sql(query).to_arrow_table()[0].to_pylist()
    return result


@pytest.mark.parametrize("dtype", TYPES)
def test_arithmetic_is_exact(dtype: str) -> None:
    """Directly, in aggregates, windows, subqueries, joins, filters, CASE and HAVING."""
    values = extremes(dtype)
    pairs = [(int(a), int(b)) for a, b in values]
    differences = [a - b for a, b in pairs]
    db = connect(stored(values))
    where = "FROM cell ORDER BY index"
    for sql, expected in {
        f"SELECT a - b {where}": differences,
        f"SELECT -a {where}": [-a for a, _ in pairs],
        f"SELECT abs(a) {where}": [abs(a) for a, _ in pairs],
        f"SELECT CASE WHEN x >= 0 THEN a - b ELSE a END {where}": differences,
        f"SELECT coalesce(a, b) - b {where}": differences,
        f"SELECT p - q FROM (SELECT a AS p, b AS q, index FROM cell) {where[9:]}": differences,
        f"WITH t AS (SELECT a p, b q, index FROM cell) SELECT p - q FROM t {where[9:]}": differences,
        f"SELECT first_value(a) OVER (ORDER BY index) - b {where}": [-b for _, b in pairs],
        "SELECT s.a - t.b FROM cell s JOIN cell t ON s.name = t.name ORDER BY s.index": differences,
        "SELECT min(a) - max(b) FROM cell": [min(values[:, 0]).item() - max(values[:, 1]).item()],
        "SELECT count(*) FROM cell WHERE a - b < 0": [sum(d < 0 for d in differences)],
        "SELECT half FROM cell GROUP BY half HAVING min(a) - max(b) > 0": [],
        "SELECT count(*) FROM cell WHERE a - b > -1 AND b >= 1": [
            sum(a - b > -1 and b >= 1 for a, b in pairs)
        ],
    }.items():
        assert column(db, sql) == expected, sql
    if dtype != "u8":
        for sql, expected in {
            f"SELECT a + b {where}": [a + b for a, b in pairs],
            f"SELECT (a - b) * 2 {where}": [2 * d for d in differences],
            "SELECT sum(a) - sum(b + 1) FROM cell": [-len(pairs)],
            "SELECT sum(a - b) FROM cell": [0],
        }.items():
            assert column(db, sql) == expected, sql


def test_types_stay_where_nothing_is_computed() -> None:
    """Columns keep theirs, beside arithmetic with others, too; constants widen by themselves."""
    db = connect(stored(extremes("u1")))
    for sql, expected in {
        "SELECT a FROM cell": pa.uint8(),
        "SELECT a, x * 2 FROM cell": pa.uint8(),
        "SELECT a, b + 1 FROM cell": pa.uint8(),
        "SELECT a, a + 1, a * 2.5 AS y FROM cell": pa.uint8(),
        "SELECT a, CAST(b AS DOUBLE) / 2 FROM cell": pa.uint8(),
        "SELECT a, 'a - b' FROM cell WHERE half <> 'a - b'": pa.uint8(),
        "SELECT max(a), sum(x) / count(*) FROM cell": pa.uint8(),
        "SELECT a - b FROM cell": pa.int64(),
    }.items():
        assert db.sql(sql).to_arrow_table().schema.types[0] == expected, sql


def test_unsigned_numbers_beyond_int64() -> None:
    """An error that says what to write where they are computed with; else they are as stored."""
    daf = stored(np.array([[2**64 - 1, 1], [3, 5]], "u8"))
    db = connect(daf)
    assert column(db, "SELECT a FROM cell WHERE x * 2 >= 0") == [2**64 - 1, 3]
    for constant, expected in (("+ 1", [2**64, 4]), ("% 10", [5, 3])):  # the engine has decimals
        assert [int(each) for each in column(db, f"SELECT a {constant} FROM cell")] == expected
    with pytest.raises(errors.DafError, match=r"CAST\(a AS DECIMAL\(20, 0\)\)"):
        db.sql("SELECT a - b FROM cell").to_arrow_table()
    sql = "SELECT CAST(a AS DECIMAL(20, 0)) - CAST(b AS DECIMAL(20, 0)) FROM cell"
    assert [int(each) for each in column(db, sql)] == [2**64 - 2, -2]


@pytest.mark.parametrize("dtype", ["i1", "u1", "u4", "u8"])
def test_filters_with_indexes_and_zones(dtype: str, tmp_path: Path) -> None:
    """Constants within the stored type and beyond, beside arithmetic; rows are those of numpy."""
    rng = np.random.default_rng(1)
    a = np.sort(rng.integers(0, 100, 300)).astype(dtype)
    path = tmp_path / "x.daf.zarr"
    with ZarrDaf(path, "w") as daf:
        daf.add_axis("cell", [f"c{i}" for i in range(300)])
        daf.set_vector("cell", "a", a)
        daf.set_vector("cell", "b", a[::-1].copy())
        build_index(daf, "cell", "a")
    wide = a.astype(object)
    is_negative = wide - wide[::-1] < 0
    db = connect(path)
    for condition, mask in {
        "a > 97": wide > 97,
        "a < 300": wide < 300,
        "a > -1": wide > -1,
        "a < -5": wide < -5,
        "a IN (3, -3, 300, 5, 7)": np.isin(a, [3, 5, 7]),
        "a NOT IN (3, -3, 300, 5, 7)": ~np.isin(a, [3, 5, 7]),
        "a > 2.5 AND a < 1e6": wide > 2,
        "a = 50": wide == 50,
        "a BETWEEN -10 AND 5": wide <= 5,
    }.items():
        sql = f"SELECT count(*) FROM cell WHERE {condition} AND a - b < 0"
        assert column(db, sql) == [int(np.sum(mask.astype(bool) & is_negative.astype(bool)))], sql


def test_what_is_written_and_built_upon(tmp_path: Path) -> None:
    """Tables, files, views, vectors and selections of rows are those of exact arithmetic."""
    values = extremes("u1")
    differences = [int(a) - int(b) for a, b in values]
    daf = stored(values)
    db = connect(daf)
    db.sql("CREATE TABLE t AS SELECT index, a - b AS d FROM cell", allow="write")
    assert column(db, "SELECT d FROM t ORDER BY index") == differences
    db.sql("CREATE VIEW v AS SELECT index, a AS p, b AS q FROM cell", allow="write")
    assert column(db, "SELECT p - q FROM v ORDER BY index") == differences
    path = tmp_path / "d.parquet"
    db.sql(f"COPY (SELECT a - b AS d FROM cell) TO '{path}'", allow="write").to_arrow_table()
    assert sorted(pa.parquet.read_table(path)["d"].to_pylist()) == sorted(differences)
    assert db.sql("SELECT a - b AS d FROM cell").frame.schema().types == [pa.int64()]


def test_several_data_sets_and_zarr_tables(tmp_path: Path) -> None:
    """Unions of members of different types; groups of Zarr arrays."""
    members = []
    for dtype in ("u1", "i2"):
        daf = MemoryDaf(name=f"few-bits-{dtype}")
        daf.add_axis("cell", [f"{dtype}{i}" for i in range(2)])
        daf.set_vector("cell", "a", np.array([1, 100], dtype))
        daf.set_vector("cell", "b", np.array([2, 100], dtype))
        members.append(daf)
    db = connect(members)
    sql = "SELECT a * b * b - b FROM cell ORDER BY name"
    assert column(db, sql) == [2, 999_900, 2, 999_900]
    root = zarr.open_group(tmp_path / "t.zarr", mode="w", zarr_format=3)
    for name, numbers in (("a", [1, 200]), ("b", [2, 100])):
        root.create_array(f"meta/{name}", data=np.array(numbers, np.uint8))
    table = zarr_table(tmp_path / "t.zarr")
    assert table.schema.types == [pa.uint8(), pa.uint8()]
    db.register(table, "z")
    assert column(db, "SELECT a - b FROM z ORDER BY a") == [-1, 100]


def test_entries_of_64_bits_without_a_sign() -> None:
    """Genes of UInt64 are those where they are shown, and signed where they are computed with."""
    daf = stored(extremes("u1"))
    daf.add_axis("gene", ["A", "B"])
    daf.set_matrix("cell", "gene", "X", extremes("u1").astype(np.uint64))
    db = connect(daf)
    expected = [int(a) - int(b) for a, b in extremes("u1")]
    assert column(db, "SELECT X['A'] - X['B'] FROM cell ORDER BY index") == expected
    assert column(db, "SELECT -X['A'] FROM cell ORDER BY index") == [
        -int(a) for a, _ in extremes("u1")
    ]
    assert db.sql("SELECT X['A'] FROM cell").to_arrow_table().schema.types == [pa.uint64()]


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("SELECT n FROM t WHERE i - u < 0 OR big > 9223372036854775813", [1, 2]),
        ("SELECT n FROM t WHERE NOT (u + 1 > 9 AND (big = 9223372036854775813 OR i = 7))", [0, 2]),
        ("SELECT CASE WHEN big > 9223372036854775809 THEN u ELSE i END - i FROM t", [0, 18, 297]),
        ("SELECT CASE WHEN i > 2 AND big > 5 THEN u WHEN i > 0 THEN i END - u FROM t", [0, -18, 0]),
        ("SELECT i - u < 0 AND big IN (9223372036854775813) FROM t", [False, True, False]),
        ("SELECT n FROM t WHERE i - u > big OR n = 1", [1]),
    ],
)
def test_large_numbers_beside_what_is_computed(query: str, expected: list[Any]) -> None:
    """A column that is only compared keeps its type, however large its values are."""
    daf = MemoryDaf(name="beside")
    daf.add_axis("t", ["A", "B", "C"])
    daf.set_vector("t", "n", np.arange(3))
    daf.set_vector("t", "u", np.array([1, 20, 300], "u2"))
    daf.set_vector("t", "i", np.array([1, 2, 3], "i2"))
    daf.set_vector("t", "big", np.array([2**63, 2**63 + 5, 2**64 - 1], "u8"))
    with connect(daf) as session:
        assert [next(iter(row.values())) for row in session.sql(query).to_pylist()] == expected


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("SELECT - - w - w FROM t", [0, 0]),
        ("SELECT greatest(u, v) - v - v AS d, greatest(u, v) AS g FROM t", [-200, 50]),
        ("SELECT greatest(u, v) - v - v, greatest(u, v) AS g FROM t", [-200, 50]),
        ("SELECT [u, v][1] - [u, v][2] FROM t", [-100, 150]),
        ("SELECT l[1] - l[2] FROM (SELECT [u, v] AS l FROM t)", [-100, 150]),
        ("SELECT unnest([u, v]) - v AS d FROM t ORDER BY d", [-100, 0, 0, 150]),
        ("SELECT (SELECT min(u) FROM t) - (SELECT max(v) FROM t)", [-100]),
        ("SELECT -(SELECT min((SELECT min(w) FROM t)) FROM t)", [128]),
        ('SELECT "u AS v" - v FROM t', [-100, 150]),
        ('SELECT CASE u WHEN 100 THEN "u AS v" END - v FROM t', [-100, None]),
    ],
)
def test_where_what_is_computed_does_not_show(query: str, expected: list[Any]) -> None:
    """Signs alone, what is computed once for several, elements of lists, subqueries, names."""
    daf = MemoryDaf(name="hidden")
    daf.add_axis("t", ["A", "B"])
    daf.set_vector("t", "u", [100, 250], dtype="uint8")
    daf.set_vector("t", "v", [200, 100], dtype="uint8")
    daf.set_vector("t", "w", [-128, 7], dtype="int8")
    daf.set_vector("t", "u AS v", [100, 250], dtype="uint8")
    with connect(daf) as session:
        assert session.sql(query).to_arrow_table()[0].to_pylist() == expected


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

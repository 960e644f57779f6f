"""Tests of what conditions and joins that the engine evaluates say of columns: never more than is so."""

from __future__ import annotations

import os
import random
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import datafusion
import numpy as np
import pyarrow as pa
import pytest

from daf_query import DafSession, ScanOptions, connect
from daf_query.index import build_point_index
from daf_query.scan import ZONE_ROWS
from daf_storage import DafWriter, MemoryDaf
from tests.support import create, data_set

N = 2 * ZONE_ROWS


@pytest.fixture(scope="module")
def daf() -> DafWriter:
    """Return an axis with sorted columns of types for which the engine converts constants."""
    rng = np.random.default_rng(2)
    daf = data_set(cell=[f"c{i:06}" for i in range(N)])
    daf.set_vector("cell", "f", np.sort(rng.random(N)).astype("f4"))
    daf.set_vector("cell", "g", np.sort(rng.random(N)).astype("f4")[::-1].copy())
    daf.set_vector("cell", "n", np.sort(rng.integers(0, 1000, N)).astype("i4"))
    daf.set_vector("cell", "donor", [f"d{i * 50 // N:02}" for i in range(N)])
    return daf


@pytest.fixture(scope="module")
def session(daf: DafWriter) -> DafSession:
    """Return a session that knows the ranges already."""
    options = ScanOptions(partition_rows=ZONE_ROWS)
    session = connect({"one": daf}, scan_options=options)
    session.sql("SELECT count(*) AS n FROM cell WHERE f > 2 OR g > 2 OR n > 2000").to_pydict()
    session.sql("SELECT count(*) AS n FROM cell WHERE donor = ''").to_pydict()
    return session


@pytest.mark.parametrize(
    ("condition", "zones"),
    [
        ("f > 0.9", 1),
        ("0.9 < f", 1),
        ("f BETWEEN 0.1 AND 0.2", 1),
        ("n > 998.5", 1),
        ("donor LIKE 'd4%'", 1),
        ("starts_with(donor, 'd01')", 1),
        ("donor LIKE 'd4_'", 1),
        (" AND ".join(["f > 0.9", *(f"f > 0.0{i:02}" for i in range(60))]), 1),
        ("donor = 'd49' AND f > 0.1", 1),
        ("f < 0.1 OR n < 3", 1),
        ("f < 0.1 OR donor LIKE 'd49%'", 2),
        ("f < 0.1 OR upper(donor) = 'D01'", 2),
        ("NOT (f > 0.1)", 1),
        ("f < 0.1 AND upper(donor) = 'D01'", 1),
        ("donor NOT LIKE 'd4%'", 2),
        ("donor ILIKE 'D4%'", 2),
        ("donor LIKE '%4'", 2),
        ("(f < 0.1 AND f + g < 0.1) OR n < 3", 1),
        ("f <> 0.1", 2),
        ("n NOT IN (2.5, 3)", 2),
        *((" OR ".join(f"(f < 0.{n:03} AND donor LIKE '%{n}')" for n in range(m)), 1) for m in (20, 200)),
    ],
)  # fmt: skip
def test_ranges_are_left_out_by_conditions_of_the_engine(
    session: DafSession, condition: str, zones: int
) -> None:
    """Of Float32, compared with a decimal; by LIKE; and the rows are those of the whole table."""
    query = f"SELECT count(*) AS n, sum(index) AS s FROM cell WHERE {condition}"
    explanation = session.explain_analyze(query)
    assert sum(scan.read for scan in explanation.scans) == zones
    assert session.sql(query).to_pylist() == plainly(session, query)


def plainly(session: DafSession, query: str) -> list[dict[str, Any]]:
    """Return what the engine answers over the same table in memory."""
    rows: list[dict[str, Any]] = plain(session, ["cell"]).sql(query).to_pylist()
    return rows


def plain(session: DafSession, axes: Iterable[str]) -> datafusion.SessionContext:
    """Return an engine over the same tables in memory, all of whose columns are nullable."""
    config = datafusion.SessionConfig().with_default_catalog_and_schema("daf", "one")
    context = datafusion.SessionContext(config)
    for axis in axes:
        table = session.table(axis).to_table()
        nullable = pa.schema([field.with_nullable(True) for field in table.schema])
        context.register_record_batches(axis, [table.cast(nullable).to_batches()])
    return context


@pytest.mark.parametrize("dtype", ["f4", "f8"])
def test_cells_within_a_polygon(tmp_path: Path, dtype: str) -> None:
    """By a box of two columns, with and without an R-tree over them; the same rows."""
    geodatafusion = pytest.importorskip("geodatafusion")
    pytest.importorskip("geoindex_rs")
    rng = np.random.default_rng(3)
    path = tmp_path / "slide.daf.zarr"
    daf = data_set(create(path), cell={"name": 20_000, "x": rng.random(20_000).astype(dtype) * 100})
    daf.set_vector("cell", "y", rng.integers(0, 100, 20_000))
    query = (
        "SELECT name FROM cell WHERE ST_Within(ST_Point(x, y), "
        "ST_GeomFromText('POLYGON((10 10, 20 10, 20 20, 10 10))')) ORDER BY name"
    )
    x, y = daf.get_np_vector("cell", "x"), daf.get_np_vector("cell", "y")
    inside = (x > y) & (x < 20) & (y > 10)
    expected = sorted(daf.axis_entries("cell")[inside])

    for indexes in ([], ["x, y"]):
        if indexes:
            build_point_index(daf, "cell", "x", "y")
        session = connect(path)
        geodatafusion.register_all(session.context)
        scan = session.explain_analyze(query).scans[0]
        assert session.sql(query).to_pydict()["name"] == expected
        assert scan.indexes == indexes
        assert len(expected) <= scan.rows_out < 500


AXES = ("cell", "gene", "donor")
COLUMNS = "name, f, i, s, k, b"


def linked() -> DafWriter:
    """Return three axes with columns of the same names, some with gaps, and links between them."""
    rng = np.random.default_rng(1)
    daf = MemoryDaf(name="one")
    for axis, length in zip(AXES, (60, 12, 5), strict=True):
        daf.add_axis(axis, [f"{axis[0]}{number}" for number in range(length)])
        floats = (rng.integers(0, 6, length) / 4).astype("f4")
        floats[rng.random(length) < 0.3] = np.nan
        daf.set_vector(axis, "f", floats)
        daf.set_vector(axis, "i", rng.integers(0, 5, length).astype("i4"))
        strings = rng.choice(["ab", "ac", "b", "", "abc"], length)
        daf.set_vector(axis, "s", strings, empty_is_missing=True)
        daf.set_vector(axis, "k", [f"d{number}" for number in rng.integers(0, 7, length)])
        daf.set_vector(axis, "b", rng.random(length) < 0.5)
    return daf


class Written:
    """Writes random queries."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)

    def leaf(self, tables: list[str]) -> str:
        """Return a condition that the engine keeps to itself, or not."""
        pick, table = self._random.choice, self._random.choice(tables)
        return pick(
            [
                f"{table}.f {pick(['<', '>', '=', '<=', '<>'])} {pick(['0.5', '0.3', '1'])}",
                f"{table}.s {pick(['', 'NOT '])}LIKE '{pick(['a%', 'ab_', '%b', 'zz%'])}'",
                f"{table}.i {pick(['<', '>', '='])} {pick(['1.5', '2', '3e0'])}",
                f"{table}.{pick('fs')} IS {pick(['', 'NOT '])}NULL",
                f"{table}.s IN ('ab', 'b')",
                f"starts_with({table}.s, 'a')",
                f"{table}.b",
                f"upper({table}.s) = 'AB'",
            ]
        )

    def condition(self, tables: list[str], depth: int = 0) -> str:
        """Return a condition of several."""
        kind = self._random.random()
        if depth > 2 or kind < 0.4:
            return self.leaf(tables)
        if kind < 0.55:
            return f"NOT ({self.condition(tables, depth + 1)})"
        word = self._random.choice([" AND ", " OR "])
        return f"({word.join(self.condition(tables, depth + 1) for _ in range(2))})"

    def query(self, depth: int = 0) -> str:
        """Return a query of one to three tables, some of them queries."""
        pick, names = self._random.choice, list("abc"[: self._random.choice([1, 2, 2, 3])])

        def relation(name: str) -> str:
            kind = self._random.random()
            inner = f"({self.query(depth + 1)})" if kind < 0.15 and depth < 2 else pick(AXES)
            return f"{pick(['w', 'v']) if kind > 0.85 else inner} {name}"

        text = relation(names[0])
        for name in names[1:]:
            kind = pick(["JOIN", "JOIN", "LEFT JOIN", "RIGHT JOIN", "FULL JOIN", "CROSS JOIN"])
            on = pick([f"a.k = {name}.name", f"a.i = {name}.i AND {self.leaf([name])}"])
            text += f" {kind} {relation(name)}" + (f" ON {on}" if kind != "CROSS JOIN" else "")
            text = f"({text})" if self._random.random() < 0.25 else text
        where = self.condition(names)
        if self._random.random() < 0.4:
            asks = pick(["EXISTS", "NOT EXISTS"])
            inner = f"SELECT 1 FROM {pick(AXES)} z WHERE z.k = a.k AND {self.condition(['z'])}"
            where += f" {pick(['AND', 'OR'])} {asks} ({inner})"
        selected = ", ".join(f"a.{name}" for name in COLUMNS.split(", "))
        return f"SELECT {selected} FROM {text} WHERE {where}"


def _rows_or_none(context: datafusion.SessionContext, query: str) -> list[str] | None:
    """Return rows in an order of their own; None of a query that the engine cannot plan."""
    try:
        return sorted(map(str, context.sql(query).to_pylist()))
    except Exception:  # noqa: BLE001 - it raises plain Exceptions
        return None


@pytest.mark.sampled(7)
@pytest.mark.parametrize("seed", range(int(os.environ.get("DAF_RANDOM_QUERIES", "96")) // 8))
def test_random_queries_over_linked_axes(seed: int) -> None:
    """Rows that conditions leave unread are needed by nothing: outer joins, views, subqueries."""
    options = ScanOptions(min_joined_rows=1) if seed % 2 else ScanOptions()  # small ones in memory
    session, written = connect(linked(), scan_options=options), Written(seed)
    oracle = plain(session, AXES)
    view = f"CREATE VIEW v AS SELECT {COLUMNS} FROM cell a WHERE {written.condition(['a'])}"
    session.sql(view, allow="write")
    oracle.sql(view)
    within = f"WITH w AS (SELECT {COLUMNS} FROM gene a WHERE {written.condition(['a'])}) "
    for _ in range(3):
        query = within + written.query()
        expected = _rows_or_none(oracle, query)
        if expected is not None:
            assert sorted(map(str, session.sql(query).to_pylist())) == expected, query


def test_small_tables_are_in_memory_beside_long_ones() -> None:
    """The engine knows how many rows they have, and makes a hash table of them in a join."""
    query = "SELECT color, X['x'] AS x FROM cell c JOIN type t ON c.type = t.name ORDER BY c.name"
    daf = data_set(
        type={"name": ["B", "T", "NK", "é"], "color": ["blue", "teal", "red", "grey"]},
        cell={"name": ["a", "b", "c", "d", "e"], "type": ["T", "B", "", "T", "X"]},
        gene=["x"],
        matrices={("cell", "gene", "X"): [[1], [3], [5], [7], [9]]},
    )
    options = ScanOptions(min_joined_rows=5, max_values_in_memory=12)
    with connect(daf, scan_options=options) as session:
        report = session.explain_analyze(query)
        assert "mode=CollectLeft" in report.plan
        assert report.plan.count("DatasetExec") == 1
        tables = {scan.table: dict(scan.values) for scan in report.scans}
        assert tables == {
            "type": {"name": 4, "index": 4, "color": 4},
            "cell": {"name": 5, "type": 5, "X['x']": 5},
        }
        daf.set_vector("type", "color", ["1", "2", "3", "4"], if_exists="replace")
        assert session.sql(query).to_pydict() == {"color": ["2", "1", "2"], "x": [1, 3, 7]}
        fewer = ScanOptions(min_joined_rows=5, max_values_in_memory=11)
        assert connect(daf, scan_options=fewer).explain(query).physical.count("DatasetExec") == 2

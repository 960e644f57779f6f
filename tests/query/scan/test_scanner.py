"""Tests of what a scan touches: chunks, ranges, rows; and of telling it."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from daf_query import DafSession, connect
from daf_query.scan import ZONE_ROWS, ScanOptions, ScanReport
from daf_storage import DafWriter, MemoryDaf, Packing, errors
from daf_storage.trees import ChunkedArray
from tests.support import create, data_set, recorded_calls, recorded_reads

N = 3 * ZONE_ROWS + 1000
BY_ZONE = ScanOptions(partition_rows=ZONE_ROWS)
"""Each zone is a partition of its own."""


@cache
def _columns() -> tuple[pa.Array, dict[str, Any]]:
    """Return the entries and the columns of `daf`, which take longer to make than to add."""
    rng = np.random.default_rng(0)
    batch = np.sort(rng.integers(0, 40, N)).astype("u1")
    score = rng.random(N)
    score[: ZONE_ROWS // 2] = np.nan
    return pa.array([f"c{i}" for i in range(N)]), {
        "batch": batch,
        "day": pa.array([f"day {i:02}" for i in range(40)]).take(pa.array(batch)),
        "score": score,
        "is_odd": np.arange(N) % 2 == 1,
    }


@pytest.fixture
def daf() -> DafWriter:
    """Return an axis of four zones with sorted, random and text columns."""
    entries, columns = _columns()
    return data_set(cell={"name": entries, **columns})


@pytest.fixture
def session(daf: DafWriter) -> DafSession:
    """Return a session in which each zone is a partition of its own."""
    return connect(daf, scan_options=BY_ZONE)


@pytest.mark.sampled(8)
@pytest.mark.parametrize(
    ("condition", "parts"),
    [
        ("batch < 3", 1),
        ("batch = 39", 2),
        ("batch BETWEEN 4 AND 6 AND score > 0.5", 1),
        ("batch IN (0, 39)", 3),
        ("NOT (batch > 2)", 1),
        ("batch < 3 OR batch > 37", 3),
        ("day = 'day 01'", 1),
        ("day IN ('day 00', 'day 39', 'nope')", 3),
        ("day > 'day 38'", 2),
        ("score > 2", 0),
        ("score IS NULL", 1),
        ("index < 10", 1),
        ("index >= 0", 4),
        ("is_odd", 4),
    ],
)
def test_ranges_in_which_a_filter_cannot_be_true_are_left_out(
    session: DafSession, condition: str, parts: int
) -> None:
    """After the first time: reading a column computes its zone map. The rows are the same."""
    query = f"SELECT count(*) AS n, sum(index) AS s FROM cell WHERE {condition}"
    first = session.sql(query).to_pydict()
    session.sql(
        "SELECT count(*) AS n FROM cell WHERE score > 0.5 OR batch > 100 OR day = ''"
    ).to_pydict()
    explanation = session.explain_analyze(query)
    assert session.sql(query).to_pydict() == first
    assert sum(scan.read for scan in explanation.scans) == parts
    if parts:
        assert explanation.scans[0].ranges == 4
        assert explanation.scans[0].pruned == 4 - parts


def test_zone_maps_are_dropped_with_the_vector(session: DafSession, daf: DafWriter) -> None:
    """Another vector of the same name is read again; a stale zone map would be a wrong answer."""
    query = "SELECT count(*) AS n FROM cell WHERE batch = 39"
    before = session.sql(query).to_pydict()["n"][0]
    assert before > 0
    daf.set_vector("cell", "batch", np.full(N, 39, np.uint8), if_exists="replace")
    assert session.sql(query).to_pydict() == {"n": [N]}
    daf.set_vector("cell", "day", np.full(N, "x"), if_exists="replace")
    assert session.sql("SELECT count(*) AS n FROM cell WHERE day = 'x'").to_pydict() == {"n": [N]}
    daf.reorder_axis("cell", np.arange(N)[::-1], progress="never")
    query = "SELECT name FROM cell WHERE index = 0"
    assert session.sql(query).to_pydict() == {"name": [f"c{N - 1}"]}


def test_other_columns_are_read_where_rows_are_left(session: DafSession) -> None:
    """Values of a filter's columns, cheap ones first, and of the others only those that are returned."""
    query = "SELECT score, name FROM cell WHERE day = 'day 07' AND is_odd AND score > 0.99"
    session.explain_analyze(query)
    explanation = session.explain_analyze(query)
    scan = explanation.scans[0]
    assert scan.values["day"] == ZONE_ROWS
    assert scan.values["is_odd"] == ZONE_ROWS
    assert scan.values["score"] < 5_000
    assert scan.values["name"] == explanation.rows
    assert scan.rows_out == explanation.rows


def test_packed_columns_are_decoded_where_rows_are_left(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each chunk of the filter once, and of the other column those chunks that have a row."""
    numbers = np.arange(100_000.0)
    daf = MemoryDaf(packed=Packing("zstd", chunk_kb=8))
    data_set(daf, cell={"name": len(numbers), "a": numbers, "b": numbers % 7})
    decoded = recorded_calls(
        monkeypatch,
        (ChunkedArray, "decode"),
        lambda each, at, *_: (each.what.rsplit("/", 1)[1], at),
    )
    db = connect(daf)
    query = "SELECT b FROM cell WHERE a IN (5, 70000) OR a = 70001 ORDER BY index"
    assert db.sql(query).to_pydict() == {"b": [5.0, 0.0, 1.0]}
    assert len(decoded) == len(set(decoded))
    assert sorted(p for name, p in decoded if name == "b") == [(0,), (68,)]
    decoded.clear()
    found = db.sql("SELECT a FROM cell WHERE a > 99990 AND b = 3 ORDER BY a").to_pydict()
    assert found == {"a": [float(n) for n in range(99_991, 100_000) if n % 7 == 3]}
    assert {name for name, _ in decoded} == {"b"}  # the other is remembered
    assert all(position[0] >= 60 for _, position in decoded)  # zone maps exclude the rest


def test_what_is_decoded_is_remembered_within_a_budget(monkeypatch: pytest.MonkeyPatch) -> None:
    """By all data sets of a session together; what does not fit is decoded again."""
    decoded = recorded_calls(monkeypatch, (ChunkedArray, "decode"), lambda *_: None)
    data_sets = {}
    for number in range(3):
        daf = MemoryDaf(packed=Packing("zstd", chunk_kb=8))
        cells = {"name": 20_000, "a": np.arange(20_000.0) + number}
        data_sets[f"d{number}"] = data_set(daf, cell=cells)
    queries = [f"SELECT sum(a) AS s FROM {name}.cell WHERE a > 5" for name in data_sets]
    for budget, expected in ((1 << 20, 0), (200_000, 60), (0, 60)):
        session = connect(data_sets, cache_bytes=budget)
        first = [session.sql(query).to_pydict() for query in queries]
        decoded.clear()
        assert [session.sql(query).to_pydict() for query in queries] == first
        assert len(decoded) == expected
        assert session.cached_bytes <= max(budget, 160_000) + 50_000
    session.unregister("d0")
    session.close()
    assert session.cached_bytes == 0


def test_a_limit_stops_early(session: DafSession) -> None:
    """Without an order, parts behind the rows that were asked for are not read."""
    explanation = session.explain_analyze("SELECT score FROM cell WHERE is_odd LIMIT 5")
    assert explanation.rows == 5
    assert explanation.scans[0].read < explanation.scans[0].ranges


def test_counting_reads_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nor does it scan: the engine knows the number of rows, in joins and subqueries too."""
    daf = data_set(create(tmp_path / "x.daf.zarr"), cell=["a", "b", "c"], gene=["x", "y"], none=[])
    session = connect(daf)
    with recorded_reads(monkeypatch) as reads:
        for query, expected in (
            ("SELECT count(*) AS n FROM cell", 3),
            ("SELECT count(1) AS n FROM none", 0),
            ("SELECT count(*) AS n FROM cell CROSS JOIN gene", 6),
            ("SELECT (SELECT count(*) FROM cell) + (SELECT count(*) FROM gene) AS n", 5),
        ):
            assert session.sql(query).to_pydict() == {"n": [expected]}
        assert reads.chunks() == []
    with pytest.raises(errors.VectorNotFoundError):
        session.sql("SELECT count(nope) AS n FROM cell")


def test_an_explanation(session: DafSession) -> None:
    """Text for people, plain values for machines."""
    query = "SELECT avg(score) AS s FROM cell WHERE batch = 3 AND day <> 'x'"
    session.explain_analyze(query)
    explanation = session.explain_analyze(query)
    text = str(explanation)
    assert text.startswith("1 rows in ")
    assert "table cell: 197,608 rows" in text
    assert "ranges   4, of which 3 left out and 1 read" in text
    assert "filter   batch = 3 AND day <> 'x'" in text.replace("==", "=").replace("!=", "<>")
    assert "column   batch: 65,536 values, 65,536 bytes" in text
    assert "column   day: " in text
    assert explanation.cache_hits > 0
    assert json.loads(json.dumps(explanation.as_dict()))["scans"][0]["pruned"] == 3
    assert explanation._repr_html_().startswith("<pre>")
    assert "Exec" in explanation.plan
    assert session.explain_analyze("SELECT 1").scans == ()


def test_other_engines_leave_ranges_out(daf: DafWriter) -> None:
    """DuckDB and polars hand their filters to the same table."""
    cell = connect(daf, scan_options=BY_ZONE).table("cell")
    cell.to_table(columns=["index"], filter=pc.field("batch") == 77)  # learns the ranges
    reports: list[ScanReport] = []
    cell = cell.with_view(reports=reports)
    found = duckdb.sql("SELECT count(*), sum(index) FROM cell WHERE batch < 3").fetchall()
    frame = pl.scan_pyarrow_dataset(cell).filter(pl.col("batch") < 3).select("index").collect()
    batch = daf.get_np_vector("cell", "batch")
    assert found == [(int((batch < 3).sum()), int(np.flatnonzero(batch < 3).sum()))]
    assert frame["index"].sum() == found[0][1]
    read = [report for report in reports if report.read]
    assert len(read) == 2
    assert all((report.read, report.pruned) == (1, 3) for report in read)

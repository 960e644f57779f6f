"""Tests of SQL that the engine answers wrongly: right here, or refused, and nothing else is."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pytest
from datafusion import SessionConfig, SessionContext

from daf_query import DafSession, connect
from daf_storage import MemoryDaf


def by_duckdb(session: DafSession, query: str) -> list[str]:
    """Return the rows of a query as DuckDB has them, over the same tables in memory."""
    connection = duckdb.connect()
    for axis in ("cell", "gene"):
        connection.register(axis, session.table(axis).to_table())
    return sorted(map(repr, connection.sql(query).fetchall()))


def by_us(session: DafSession, query: str) -> list[str]:
    """Return the rows of a query, in any order."""
    return sorted(repr(tuple(row.values())) for row in session.sql(query).to_pylist())


def test_the_documented_limits_are_still_so(tiny_session: DafSession) -> None:
    """A release of the engine that answers one rightly makes this fail; then shorten the page."""
    page = Path(__file__).parents[3] / "docs" / "reference" / "limits.md"
    assert "sum(" in page.read_text()

    def one(query: str) -> Any:
        return next(iter(tiny_session.sql(query).to_pylist()[0].values()))

    assert one("SELECT sum(v) FROM (VALUES (CAST(9223372036854775807 AS BIGINT)), (1)) AS t(v)") < 0
    assert one("SELECT 9223372036854775807 + 1") < 0
    assert one("SELECT 5 ^ 1") == 4
    assert one("SELECT 'xabc' SIMILAR TO 'abc'") is True
    same = "SELECT 2 AS x UNION ALL SELECT 2"
    assert len(tiny_session.sql(f"({same}) INTERSECT ALL SELECT 2").to_pylist()) == 2
    assert one("SELECT CAST(100 AS TINYINT) + CAST(100 AS TINYINT)") == -56
    assert one("SELECT min(v) FROM (VALUES (1, 'inf'::DOUBLE)) AS t(k, v) GROUP BY k") < np.inf
    for wrong in ("nullif(v, 0.0) IS NOT NULL", "v NOT IN (0.0, 2.0, 3.0, 4.0, 5.0)", "CASE v WHEN 0.0 THEN false ELSE true END"):  # fmt: skip
        assert one(f"SELECT {wrong} FROM (VALUES (-1e-300 * 1e-300)) AS t(v)") is True


@pytest.mark.parametrize("function", ["nvl", "ifnull", "IfNull", "coalesce"])
def test_sums_of_counts_are_not_rounded(function: str) -> None:
    """A sum of unsigned counts beside a signed 0 keeps all of its digits."""
    daf = MemoryDaf(name="sums")
    daf.add_axis("cell", ["A", "B"])
    daf.set_vector("cell", "n", [2**24, 1], dtype="uint32")
    daf.set_vector("cell", "big", [2**53, 1], dtype="uint64")
    with connect(daf) as session:
        query = f"SELECT {function}(sum(n), 0) AS n, {function}(sum(big), -1) AS big FROM cell"
        assert session.sql(query).to_pylist() == [{"n": 2**24 + 1, "big": 2**53 + 1}]
        rows = session.sql("SELECT sum(n) AS n FROM cell")
        assert rows.filter(f"{function} (n, -1) = 16777217").count() == 1


WITH_FLOATS = [
    "coalesce(n, f)",
    "coalesce(f, n)",
    "n + f",
    "greatest(n, f)",
    "CASE WHEN f > 1 THEN f ELSE n END",
    "n = f",
    "coalesce(n, CAST(f AS DOUBLE))",
    "n = CAST(f AS DOUBLE)",
]


@pytest.mark.sampled(17)
@pytest.mark.parametrize("expression", WITH_FLOATS)
@pytest.mark.parametrize("kind", ["int32", "uint32", "int64", "uint64"])
def test_integers_that_meet_floats_are_those_of_duckdb(kind: str, expression: str) -> None:
    """Of the type of the float, also where that rounds them: as the reference on types says."""
    daf = MemoryDaf(name="floats")
    daf.add_axis("cell", ["A", "B", "C"])
    daf.set_vector("cell", "n", [2**24 + 1, 2**24 + 3, 5], dtype=kind)
    daf.set_vector("cell", "f", [2**24, np.nan, 2.5], dtype="float32")
    daf.add_axis("gene", ["u"])
    query = f"SELECT {expression} AS x FROM cell"
    assert by_us(connect(daf), query) == by_duckdb(connect(daf), query)


CORRECTED = {
    "lists": ("SELECT count(*) FROM t WHERE NOT (n IN (1, 2) AND n IN (3, 4))", [2]),
    "chains": ("SELECT count(*) FROM t WHERE NOT ((n = 1 OR n = 2) AND (n = 3 OR n = 4))", [2]),
    "limits": ("SELECT x FROM (SELECT x FROM t ORDER BY x LIMIT 2 OFFSET 1) ORDER BY x", [2, 3]),
    "offsets": ("SELECT x FROM (SELECT x FROM t ORDER BY x DESC OFFSET 1) ORDER BY x", [1, 2]),
    "quantified": ("SELECT count(*) FROM t WHERE x >= ALL (SELECT x FROM t)", [1]),
    "nvl": ("SELECT max(nvl(big, 0)) FROM t", [2**53 + 1]),
    "distinct from": ("SELECT count(*) FROM t WHERE x IS DISTINCT FROM 5 AND x = 1", [1]),
    "narrow integers": ("SELECT min(u - v) FROM t", [-1]),
    "ranks": ("SELECT min(rank() OVER (ORDER BY x) - 2) FROM t", [-1]),
    "ranks of both": ("SELECT min(d) FROM (SELECT rank() OVER (ORDER BY x) - rank() OVER (ORDER BY x DESC) AS d FROM t)", [-2]),
    "no NULL: IS NULL": ("SELECT (SELECT x FROM s WHERE x > 9) IS NULL", [True]),
    "no NULL: bits": ("SELECT max(x & -x) FROM s", [2]),
    "no NULL: NOT IN": ("SELECT count(*) FROM s WHERE nullif(x, 1) NOT IN (SELECT x FROM s WHERE x > 2)", [1]),
    "many groups": ("SELECT count(*) FROM (SELECT DISTINCT x FROM t ORDER BY x LIMIT 3000000000000000000)", [3]),
}  # fmt: skip


@pytest.mark.parametrize("name", CORRECTED)
def test_the_engine_by_itself_is_still_wrong(name: str) -> None:
    """A release of it that answers a query rightly makes this fail; then its rule can go."""
    query, right = CORRECTED[name]
    context = SessionContext(SessionConfig().with_target_partitions(2))
    numbers = {
        "n": [1, 2, None],
        "x": [1, 2, 3],
        "big": pa.array([2**53 + 1, 1, None], pa.uint64()),
    }
    narrow = {"u": pa.array([2, 3, 1], pa.uint8()), "v": pa.array([1, 2, 2], pa.uint8())}
    context.register_table("t", context.from_arrow(pa.table({**numbers, **narrow})))
    never = pa.schema([pa.field("x", pa.int64(), nullable=False), pa.field("k", pa.int64())])
    rows = pa.table({"x": [1, 2, 3], "k": [None, 1, 2]}, schema=never)
    context.register_table("s", context.from_arrow(rows))
    try:
        answer = context.sql(query).to_arrow_table().column(0).to_pylist()
    except BaseException as error:  # noqa: BLE001 - some are panics
        answer = str(error)
    assert answer != right

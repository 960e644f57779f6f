"""Tests that what the engine answers wrongly by itself still is: right answers are in the table of queries."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from datafusion import SessionConfig, SessionContext

from daf_query import DafSession


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

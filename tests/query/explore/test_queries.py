"""Tests of SQL that the page sends, and of what becomes of it."""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa
import pytest
from starlette.testclient import TestClient

from daf_query import connect
from daf_query.explore import ExploreLimits
from tests.query.explore.conftest import AXIS, CELLS, HOSTILE, explored, table_of, tiny


def sent(client: TestClient, sql: str, name: str = "1", **more: Any) -> Any:
    """Send a query."""
    return client.post("/api/query", json={"id": name, "sql": sql, **more})


def how_ended(reply: Any) -> dict[str, Any]:
    """Return what is behind the rows of an answer."""
    found: dict[str, Any] = json.loads(reply.content.rpartition(b"\xff\xff\xff\xff\0\0\0\0")[2])
    return found


def test_rows_are_those_of_the_session(client: TestClient) -> None:
    """As an Arrow stream, in types that every reader knows."""
    cross = pa.ipc.open_stream(sent(client, "SELECT cell.name FROM cell, gene").content)
    parts = [batch.num_rows for batch in cross]  # the engine has one for each cell
    assert (sum(parts), len(parts) < CELLS // 2) == (3 * CELLS, True)
    sql = f'SELECT name, type, age / 2 AS half, "{HOSTILE.replace(chr(34), chr(34) * 2)}" FROM cell ORDER BY age DESC'
    reply = sent(client, sql)
    assert reply.headers["content-type"] == "application/vnd.apache.arrow.stream"
    table = table_of(reply)
    assert table.column_names[-1] == HOSTILE
    with connect({"tiny": tiny()}) as session:
        assert table.to_pylist() == session.sql(sql).to_arrow_table().to_pylist()
    assert table.num_rows == CELLS
    assert how_ended(reply)["truncated"] is False


@pytest.mark.parametrize(
    ("requested", "rows", "truncated"),
    [(10, 10, True), (0, 0, True), (299, 299, True), (300, 300, False), (10**9, 300, False)],
)
def test_no_more_rows_than_asked_for(
    client: TestClient, requested: int, rows: int, *, truncated: bool
) -> None:
    """The end says whether there were more; exactly as many are not cut."""
    reply = sent(client, "SELECT name FROM cell", rows=requested)
    assert table_of(reply).num_rows == rows
    assert how_ended(reply)["truncated"] is truncated


def test_limits_of_the_server() -> None:
    """Rows beyond the limits are left out, whatever is asked for; the header says the limit."""
    few = explored(tiny(), limits=ExploreLimits(rows=7))
    reply = sent(few, "SELECT name FROM cell", rows=100)
    assert reply.headers["X-Daf-Row-Limit"] == "7"
    assert table_of(reply).num_rows == 7
    small = explored(tiny(), limits=ExploreLimits(bytes=2000))
    reply = sent(small, "SELECT name, name || name FROM cell")
    assert table_of(reply).num_rows == 0
    assert how_ended(reply)["truncated"]
    reply = small.post("/api/points", json={**AXIS, "embedding": "X_umap"})
    found = (reply.status_code, reply.json()["remedy"])
    assert found == (413, "start daf explore with a larger --max-bytes")


def test_plans_and_descriptions(client: TestClient) -> None:
    """EXPLAIN, DESCRIBE and SHOW answer, upon which no LIMIT can be built."""
    for sql in (
        "EXPLAIN SELECT name FROM cell",
        "explain analyze select 1",
        "DESCRIBE cell",
        "SHOW TABLES",
    ):
        reply = sent(client, sql)
        assert table_of(reply).num_rows > 0

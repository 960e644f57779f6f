"""Tests of SQL that the page sends, and of what becomes of it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from starlette.testclient import TestClient

from daf_query import connect
from daf_query.explore import ExploreLimits, app
from tests.query.explore.conftest import CELLS, HOSTILE, TOKEN, client_of, tiny


def sent(client: TestClient, sql: str, name: str = "1", **more: Any) -> Any:
    """Send a query."""
    return client.post("/api/query", json={"id": name, "sql": sql, **more})


def how_ended(reply: Any) -> dict[str, Any]:
    """Return what is behind the rows of an answer."""
    found: dict[str, Any] = json.loads(reply.content.rpartition(b"\xff\xff\xff\xff\0\0\0\0")[2])
    return found


def test_rows_are_those_of_the_session(client: TestClient) -> None:
    """As an Arrow stream, in types that every reader knows."""
    sql = f'SELECT name, type, age / 2 AS half, "{HOSTILE.replace(chr(34), chr(34) * 2)}" FROM cell ORDER BY age DESC'
    reply = sent(client, sql)
    assert reply.headers["content-type"] == "application/vnd.apache.arrow.stream"
    table = pa.ipc.open_stream(reply.content).read_all()
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
    assert pa.ipc.open_stream(reply.content).read_all().num_rows == rows
    assert how_ended(reply)["truncated"] is truncated


def test_limits_of_the_server() -> None:
    """Rows beyond the limits are left out, whatever is asked for; the header says the limit."""
    with connect({"tiny": tiny()}) as session:
        few = client_of(app(session, token=TOKEN, limits=ExploreLimits(rows=7)))
        reply = sent(few, "SELECT name FROM cell", rows=100)
        assert reply.headers["X-Daf-Row-Limit"] == "7"
        assert pa.ipc.open_stream(reply.content).read_all().num_rows == 7
        small = client_of(app(session, token=TOKEN, limits=ExploreLimits(bytes=2000)))
        reply = sent(small, "SELECT name, name || name FROM cell")
        assert pa.ipc.open_stream(reply.content).read_all().num_rows == 0
        assert how_ended(reply)["truncated"]
        points = {"schema": "tiny", "axis": "cell", "embedding": "X_umap"}
        reply = small.post("/api/points", json=points)
        assert (reply.status_code, reply.json()["remedy"]) == (
            413,
            "start daf explore with a larger --max-bytes",
        )


def test_no_files_are_read(tmp_path: Path, client: TestClient) -> None:
    """Neither in a query, nor in a condition, nor within a table function."""
    path = tmp_path / "sheet.csv"
    path.write_text("name\nC0\n")
    inner = f"SELECT name FROM '{path}'"
    for sql in (
        inner,
        f"SELECT * FROM (WITH t AS ({inner}) SELECT * FROM t)",
        f"EXPLAIN {inner}",
        f'SELECT f.name FROM cell c JOIN "{path}" f ON c.name = f.name',
        f"SELECT (SELECT max(name) FROM `{path}`) AS n FROM cell",
        f"SELECT name FROM cell WHERE EXISTS ({inner} t WHERE t.name = cell.name)",
        f"SELECT name FROM cell UNION {inner}",
        "SELECT * FROM 'file://localhost/etc/x.csv'",
    ):
        reply = sent(client, sql)
        assert reply.status_code == 400
        assert "a service reads no files but its data sets" in reply.text


def test_plans_and_descriptions(client: TestClient) -> None:
    """EXPLAIN, DESCRIBE and SHOW answer, upon which no LIMIT can be built."""
    for sql in (
        "EXPLAIN SELECT name FROM cell",
        "explain analyze select 1",
        "DESCRIBE cell",
        "SHOW TABLES",
    ):
        reply = sent(client, sql)
        assert pa.ipc.open_stream(reply.content).read_all().num_rows > 0


@pytest.mark.parametrize(
    ("sql", "status", "said", "place"),
    [
        ("SELECT name FROM\n cell WHERE WHERE a", 400, "SQL syntax error", (2, 19)),
        ("SELECT name,\n  agee FROM cell", 404, "did you mean 'age'", (2, 3)),
        ("SELECT * FROM cels", 404, "there is no table 'cels'", (1, 15)),
        ("SELECT fou(age) FROM cell", 400, "Invalid function 'fou'", (1, 8)),
        ("SELECT 1; SELECT 2", 400, "several statements", (None, None)),
        ("", 400, "", (None, None)),
        ("SELECT * FROM '/etc/passwd'", 404, "there is no table", (1, 15)),
        ("SELECT * FROM read_csv('/etc/passwd')", 400, "there is no table function", (1, 15)),
    ],
)
def test_queries_that_fail(
    client: TestClient, sql: str, status: int, said: str, place: tuple[int | None, int | None]
) -> None:
    """The error says what is wrong, and where."""
    reply = sent(client, sql)
    error = reply.json()
    assert (reply.status_code, (error["line"], error["column"])) == (status, place)
    assert said in error["message"]


@pytest.mark.parametrize(
    "sql",
    [
        "CREATE EXTERNAL TABLE t STORED AS CSV LOCATION '/etc/passwd'",
        "COPY cell TO '/tmp/cells.csv'",
        "INSERT INTO cell SELECT * FROM cell",
        "CREATE TABLE t AS SELECT 1",
        "SET datafusion.execution.batch_size = 1",
        "DROP TABLE cell",
    ],
)
def test_what_changes_something_is_refused(client: TestClient, sql: str) -> None:
    """Also where the server was started to save vectors."""
    reply = sent(client, sql)
    assert reply.status_code == 403
    assert "--write" in reply.json()["remedy"]


@pytest.mark.parametrize(
    ("body", "said"),
    [
        (b"", "'id', a string"),
        (b"[1]", "no JSON object"),
        (b"[" * 100_000, "nested"),
        (b'{"id": "1"}', "'sql', a string"),
        (b'{"sql": "SELECT 1"}', "'id', a string"),
        (b'{"id": "", "sql": "SELECT 1"}', "1 to 200"),
        (b'{"id": "1", "sql": "SELECT 1", "rows": -1}', "negative"),
        (b'{"id": "1", "sql": "SELECT 1", "rows": true}', "'rows', a whole number"),
        (b'{"id": "1", "sql": "\\ud800"}', ""),
    ],
)
def test_requests_that_are_none(client: TestClient, body: bytes, said: str) -> None:
    """Each is answered with what is wrong with it."""
    reply = client.post("/api/query", content=body)
    assert reply.status_code == 400
    assert said in reply.json()["message"]

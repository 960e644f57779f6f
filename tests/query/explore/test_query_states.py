"""Tests of what is remembered of the queries of a page: their states, and their rows."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from starlette.testclient import TestClient

from tests.query.explore.conftest import CELLS

AXIS = {"schema": "tiny", "axis": "cell"}


def ask(client: TestClient, name: str, sql: str, **more: Any) -> int:
    """Run a query; return the status."""
    status: int = client.post("/api/query", json={"id": name, "sql": sql, **more}).status_code
    return status


def rows(client: TestClient, name: str) -> Any:
    """Return the answer to which rows an earlier query sent."""
    return client.post("/api/rows", json={**AXIS, "query": name})


def test_the_states_of_a_query(client: TestClient) -> None:
    """Done with its rows, or failed with its error; asked again it begins again."""
    unknown = client.get("/api/query/states")
    assert (unknown.status_code, "never sent" in unknown.json()["message"]) == (404, True)
    assert ask(client, "states", "SELECT agee FROM cell") == 404
    failed = client.get("/api/query/states").json()
    assert (failed["state"], failed["error"]["line"]) == ("failed", 1)
    assert ask(client, "states", "SELECT age FROM cell", rows=7) == 200
    done = client.get("/api/query/states").json()
    assert (done["state"], done["rows"], done["truncated"], done["error"]) == (
        "done",
        7,
        True,
        None,
    )
    assert client.get("/api/query/states").json() == done


def test_rows_of_four_queries_are_held(client: TestClient) -> None:
    """Those that began last; of each the rows that it sent, and not those that were left out."""
    for number in range(5):
        sql = f"SELECT name, age FROM cell WHERE age >= {number} ORDER BY age"
        assert ask(client, f"held {number}", sql, rows=3) == 200
    for number in range(1, 5):
        positions = np.frombuffer(rows(client, f"held {number}").content, "<u4")
        assert positions.tolist() == [number, number + 1, number + 2]
    gone = rows(client, "held 0")
    assert (gone.status_code, gone.json()["remedy"]) == (404, "run it again")


def test_of_large_rows_the_keys_are_held(
    client: TestClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They say which rows are shown, and a download is computed again."""
    monkeypatch.setattr("daf_query.explore._explorer._MOST_BYTES", 1000)
    sql = "SELECT name, random() AS chance FROM cell"
    assert ask(client, "large", sql) == 200
    assert len(rows(client, "large").content) == 4 * CELLS


def test_rows_without_a_name_are_of_nobody(client: TestClient) -> None:
    """An index alone may be of any axis."""
    assert ask(client, "index", 'SELECT "index" FROM cell') == 200
    assert "nobody can tell" in rows(client, "index").json()["message"]

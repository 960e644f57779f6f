"""Tests of rows that SQL chooses, and of the selection of the page."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from starlette.testclient import TestClient

from tests.query.explore.conftest import (
    AXIS,
    CELLS,
    HOSTILE,
    explored,
    select,
    table_of,
    tiny,
    write,
)


def chosen(client: TestClient, sql: str, **axis: str) -> list[int]:
    """Return the positions that SQL chooses."""
    reply = client.post("/api/rows", json={**AXIS, **axis, "sql": sql})
    assert reply.status_code == 200, reply.text
    positions: list[int] = np.frombuffer(reply.content, "<u4").tolist()
    assert reply.headers["X-Daf-Rows"] == str(len(positions))
    return positions


def rows_of(client: TestClient, sql: str) -> list[dict[str, Any]]:
    """Return the rows of a query."""
    reply = client.post("/api/query", json={"id": "rows", "sql": sql})
    rows: list[dict[str, Any]] = table_of(reply).to_pylist()
    return rows


@pytest.mark.parametrize(
    "sql",
    [
        "age >= 297",
        "age == 297 or age > 297",
        "age > 0 ORDER BY age DESC LIMIT 3",
        "SELECT name FROM cell WHERE age >= 297 ORDER BY age DESC",
        'SELECT "index" FROM cell WHERE age >= 297',
        "SELECT * FROM cell WHERE age >= 297",
        "SELECT name FROM cell JOIN (SELECT 297 AS least UNION ALL SELECT 298) ON age >= least",
        f'"{HOSTILE.replace(chr(34), chr(34) * 2)}" >= 2 * 297',
        "WITH old AS (SELECT name FROM cell WHERE age >= 297) SELECT name FROM old",
    ],
)
def test_rows_that_sql_chooses(client: TestClient, sql: str) -> None:
    """Ascending and each once, whatever the order and the duplicates of the query."""
    assert chosen(client, sql) == [297, 298, 299]


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT name FROM cell WHERE age % 2 = 0 ORDER BY random() LIMIT 9",
        "SELECT * FROM cell ORDER BY random() LIMIT 7",
        'SELECT name, NULL AS "index" FROM cell WHERE random() < 0.5',
    ],
)
def test_rows_that_were_sent(client: TestClient, sql: str) -> None:
    """Those of the last four queries are remembered, so that the map shows what the table does."""
    for number in range(5):
        reply = client.post("/api/query", json={"id": f"q{number}", "sql": sql})
    sent = {int(name.removeprefix("C")) for name in table_of(reply).column("name").to_pylist()}
    found = client.post("/api/rows", json={**AXIS, "query": "q4"})
    assert np.frombuffer(found.content, "<u4").tolist() == sorted(sent)
    assert client.post("/api/rows", json={**AXIS, "query": "q0"}).status_code == 404


def test_a_selection_is_a_table(client: TestClient) -> None:
    """Its rows are what was selected, until another one replaces it."""
    assert client.get("/api/selection").json() == {"id": None, "count": 0}
    first = select(client, [5, 3, 3, 299]).json()
    assert first["count"] == 3
    assert client.get("/api/selection").json() == {**first, **AXIS}
    expected = [{"name": f"C{number}", "index": number} for number in (3, 5, 299)]
    assert rows_of(client, 'SELECT * FROM selection ORDER BY "index"') == expected
    ages = "SELECT age FROM cell WHERE name IN (SELECT name FROM selection) ORDER BY age"
    assert rows_of(client, ages) == [{"age": 3}, {"age": 5}, {"age": 299}]
    second = select(client, [7]).json()
    assert second["id"] != first["id"]
    assert rows_of(client, ages) == [{"age": 7}]
    assert select(client, []).json()["count"] == 0
    assert rows_of(client, ages) == []
    client.delete("/api/selection")
    assert client.get("/api/selection").json() == {"id": None, "count": 0}
    gone = client.post("/api/query", json={"id": "2", "sql": ages})
    assert "no table 'selection'" in gone.json()["message"]


def test_a_query_sees_one_selection_or_the_next(client: TestClient) -> None:
    """While the selection changes there is always one: no query of it fails."""
    select(client, [0])
    with ThreadPoolExecutor(1) as pool:
        selecting = pool.submit(lambda: [select(client, [*range(n % 7)]) for n in range(60)])
        while not selecting.done():
            assert len(rows_of(client, "SELECT name FROM selection")) < 7


def test_several_data_sets(tmp_path: Path) -> None:
    """Positions count through; the selection has the data set of each row."""
    for name in ("one", "two"):
        write(tmp_path / f"{name}.daf.zarr")
    runs = {"schema": "runs"}
    client = explored(str(tmp_path / "*.daf.zarr"), schema="runs")
    assert chosen(client, "age = 2", **runs) == [2, CELLS + 2]
    assert chosen(client, "SELECT * FROM cell WHERE age = 2", **runs) == [2, CELLS + 2]
    assert chosen(client, "dataset = 'two' AND age = 2", **runs) == [CELLS + 2]
    reply = client.get("/api/entries", params={**AXIS, **runs, "prefix": "c29", "limit": "1"})
    assert reply.json() == {"entries": ["C29"], "total": 11}
    reply = client.post("/api/rows", json={**AXIS, **runs, "sql": "SELECT name FROM cell"})
    assert "occurs in 2 data sets" in reply.json()["message"]
    requested = {"id": "q", "sql": "SELECT * FROM cell WHERE dataset = 'two' AND age < 2"}
    client.post("/api/query", json=requested)
    lit = client.post("/api/rows", json={**AXIS, **runs, "query": "q"})
    assert np.frombuffer(lit.content, "<u4").tolist() == [CELLS, CELLS + 1]
    client.post("/api/query", json={"id": "q", "sql": "SELECT name FROM cell WHERE age < 2"})
    lit = client.post("/api/rows", json={**AXIS, **runs, "query": "q"})
    assert lit.status_code == 400  # names alone do not say of which data set
    select(client, [CELLS + 3, 4], **runs)
    assert rows_of(client, "SELECT dataset, name FROM selection ORDER BY dataset") == [
        {"dataset": "one", "name": "C4"},
        {"dataset": "two", "name": "C3"},
    ]


def test_an_axis_called_selection() -> None:
    """It stays what it is, and the table of the selection has the next free name."""
    daf = tiny()
    daf.add_axis("selection", ["a", "b"])
    client = explored(daf)
    assert client.get("/api/catalogue").json()["selection"] == "selection_2"
    assert select(client, [0]).json()["table"] == "selection_2"
    assert select(client, [1]).json()["table"] == "selection_2"
    assert client.get("/api/catalogue").json()["selection"] == "selection_2"
    assert rows_of(client, "SELECT name FROM selection") == [{"name": "a"}, {"name": "b"}]
    assert chosen(client, "name IN (SELECT name FROM selection_2)") == [1]

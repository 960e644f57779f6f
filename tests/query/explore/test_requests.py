"""Tests of requests that no page would send: none is a fault of the server."""

from __future__ import annotations

import json
from typing import Any, Final

import pytest
from starlette.testclient import TestClient

from tests.query.explore.conftest import AXIS, SLICE

ODD: Final[tuple[Any, ...]] = (
    None,
    -1,
    1e400,
    "\0",
    "\ud800",
    "'",
    "1) OR (1=1",
    "X['",
    "SELECT 1",
    ["x"],
    {"vector": "\ud800"},
    {"gene": {"matrix": "X", "columns": "gene", "name": "\0"}},
    {"gene": []},
)
"""Values of every type, and SQL that is none."""

REQUESTS: Final[dict[str, dict[str, Any]]] = {
    "query": {"id": "1", "sql": "SELECT 1", "rows": 5},
    "points": {**AXIS, "embedding": "X_umap"},
    "colour": {**AXIS, "sql": "age"},
    "rows": {**AXIS, "sql": "age > 1"},
    "extract/estimate": {**SLICE, "rows": None, "columns": None, "selection": False},
    "extract": {**SLICE, "rows": None, "columns": None},
    "export": {"sql": "SELECT 1", "format": "csv"},
    "profile": {**SLICE, "by": "type", "columns": ["CD8A"], "rows": None},
    "save": {**AXIS, "name": "x", "values": {"sql": "age"}},
}


@pytest.mark.sampled(3)
@pytest.mark.parametrize("path", REQUESTS)
def test_odd_values_are_no_faults_of_the_server(client: TestClient, path: str) -> None:
    """Whatever is in the place of one value, the answer says what is wrong with it."""
    requested = REQUESTS[path]
    for name in requested:
        for value in ODD:
            content = json.dumps({**requested, name: value}).encode()
            reply = client.post(f"/api/{path}", content=content)
            assert reply.status_code < 500, (name, value, reply.text)
            if reply.status_code != 200:
                assert set(reply.json()) >= {"error", "message", "line", "column", "remedy"}


@pytest.mark.parametrize("path", ["summary", "entries"])
@pytest.mark.parametrize("name", ["schema", "axis", "vector", "prefix", "limit"])
def test_odd_addresses_are_no_faults_of_the_server(
    client: TestClient, path: str, name: str
) -> None:
    """The same of what stands in an address."""
    for value in ("", "\0", "'", "☃" * 2000, "1e9", "9" * 4301):
        requested = {**AXIS, "vector": "age", name: value}
        assert client.get(f"/api/{path}", params=requested).status_code < 500, (name, value)


@pytest.mark.parametrize(("more", "status"), [(0, 404), (1, 413)])
def test_as_many_bytes_as_a_request_may_have(client: TestClient, more: int, status: int) -> None:
    """Four mebibytes, of which SQL may have one."""
    requested = json.dumps({**AXIS, "embedding": "none"}).encode()
    content = requested + b" " * ((4 << 20) - len(requested) + more)
    assert client.post("/api/points", content=content).status_code == status
    sql = "SELECT 1" + " " * ((1 << 20) - 8 + more)
    reply = client.post("/api/query", json={"id": "long", "sql": sql})
    assert reply.status_code == (413 if more else 200)
    reply = client.post("/api/query", json={"id": "x" * (200 + more), "sql": "SELECT 1"})
    assert reply.status_code == (400 if more else 200)

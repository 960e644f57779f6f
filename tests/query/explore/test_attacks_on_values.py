"""Tests that what the page shows is what the data are: rows that are lit, summaries, colours."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from starlette.testclient import TestClient

from daf_query import connect
from daf_query.explore import ExploredData, app
from daf_storage import copy_all, open_daf
from tests.query.explore.conftest import TOKEN, client_of, table_of, write
from tests.support import data_set

AXIS = {"schema": "odd", "axis": "cell"}
COUNT = 40
LARGE = 2**53
WHOLE: dict[str, Any] = {
    "large": LARGE + np.arange(COUNT),
    "unsigned": np.uint64(2**63) + np.arange(COUNT).astype(np.uint64),
    "wide": np.where(np.arange(COUNT) % 2, np.iinfo(np.int64).max, np.iinfo(np.int64).min),
    "small": np.where(np.arange(COUNT) % 2, 127, -128).astype(np.int8),
    "digits": (123_456_789 + np.arange(COUNT)).astype(np.int32),
}


@pytest.fixture(scope="module")
def odd() -> Iterator[TestClient]:
    """Return a client of cells with numbers that few programs keep."""
    names = [f"C{number}" for number in range(COUNT)]
    daf = data_set(name="odd", cell={"name": names, **WHOLE}, gene=["A", "B"])
    daf.set_vector("cell", "narrow", np.where(np.arange(COUNT) % 2, 1e300, np.nextafter(1e300, 0)))
    daf.set_vector("cell", "group", np.where(np.arange(COUNT) % 2, np.nan, 1.0))
    daf.set_matrix("cell", "gene", "X", np.ones((COUNT, 2)))
    with connect({"odd": daf}) as session:
        yield client_of(app(session, token=TOKEN))


def run(client: TestClient, name: str, sql: str, **more: Any) -> pa.Table:
    """Return the rows of a query."""
    return table_of(client.post("/api/query", json={"id": name, "sql": sql, **more}))


def lit(client: TestClient, name: str, **axis: str) -> Any:
    """Ask for the positions of the rows that a query sent."""
    return client.post("/api/rows", json={**AXIS, **axis, "query": name})


@pytest.mark.parametrize(
    "sql",
    ["SELECT * FROM cell ORDER BY random() LIMIT 7", "SELECT name FROM cell WHERE random() < 0.5"],
)
def test_the_rows_that_are_lit_are_those_of_the_table(odd: TestClient, sql: str) -> None:
    """Also where the query would have other rows if it were computed once more."""
    names = run(odd, sql, sql)["name"].to_pylist()
    reply = lit(odd, sql)
    assert reply.status_code == 200, reply.text
    positions = np.frombuffer(reply.content, "<u4").tolist()
    assert positions == sorted(int(name[1:]) for name in names)


@pytest.mark.parametrize("vector", WHOLE)
def test_summaries_of_whole_numbers_are_exact(odd: TestClient, vector: str) -> None:
    """Beyond 2**53, where neighbours are one and the same float, too."""
    reply = odd.get("/api/summary", params={**AXIS, "vector": vector})
    assert reply.status_code == 200, reply.text
    shown = reply.json()
    values = [int(value) for value in WHOLE[vector]]
    counts = {value: values.count(value) for value in values}
    assert (shown["min"], shown["max"]) == (min(values), max(values))
    assert (shown["count"], shown["nulls"], shown["distinct"]) == (COUNT, 0, len(counts))
    assert all(counts[int(value)] == count for value, count in shown["top"])
    assert sum(shown["bins"]) == COUNT
    assert (shown["bins"][0] > 0, shown["bins"][-1] > 0) == (True, True)


def test_a_group_of_missing_values_has_a_name(odd: TestClient) -> None:
    """Which is not that of an empty string."""
    ask = {"schema": "odd", "rows_axis": "cell", "columns_axis": "gene", "matrix": "X"}
    reply = odd.post("/api/profile", json={**ask, "by": '"group"', "columns": ["B"], "rows": None})
    assert reply.json()["groups"] == ["1.0", "(missing)"]


def test_a_page_of_data_that_were_replaced_is_refused(tmp_path: Path) -> None:
    """Another tab has loaded the new ones: the positions that this page holds are of the old."""
    path = tmp_path / "odd.daf.zarr.zip"

    def write(to: Path, entries: list[str]) -> None:
        daf = data_set(name="odd", cell=entries)
        with open_daf(to, "w") as stored:
            copy_all(daf, stored)

    write(path, ["A", "B"])
    data = ExploredData(lambda: connect({"odd": path}), [str(path)])
    client = client_of(app(data, token=TOKEN))

    def held(version: int) -> int:
        headers = {"X-Daf-Version": str(version)}
        content = np.array([0], "<u4").tobytes()
        reply = client.post("/api/selection", params=AXIS, content=content, headers=headers)
        return int(reply.status_code)

    first = client.get("/api/catalogue").json()["version"]
    assert held(first) == 200
    write(tmp_path / "new.daf.zarr.zip", ["B", "A"])
    os.replace(tmp_path / "new.daf.zarr.zip", path)
    old = {"X-Daf-Version": str(first)}
    second = client.get("/api/catalogue", headers=old).json()["version"]
    assert (held(first), held(second)) == (409, 200)
    data.close()


def test_lit_rows_of_data_sets_as_one(tmp_path: Path) -> None:
    """Entries of the same name are distinguished by their data set."""
    for name in ("a", "b"):
        write(tmp_path / f"{name}.daf.zarr")
    with connect(tmp_path / "*.daf.zarr") as session:
        client = client_of(app(session, token=TOKEN))
        schema = client.get("/api/catalogue").json()["data_sets"][0]["schema"]
        run(client, "b", "SELECT * FROM cell WHERE dataset = 'b' AND age < 2")
        reply = lit(client, "b", schema=schema)
        assert np.frombuffer(reply.content, "<u4").tolist() == [300, 301]
        run(client, "names", "SELECT name FROM cell WHERE age < 2")
        assert lit(client, "names", schema=schema).status_code == 400

"""Tests of downloads, of vectors that are saved, and of data sets that are replaced."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import anndata
import numpy as np
import pyarrow.parquet as pq
import pytest
from starlette.testclient import TestClient

from daf_query import connect
from daf_query.explore import ExploredData, ExploreLimits, app
from daf_storage import open_daf
from tests.query.explore.conftest import (
    AXIS,
    CELLS,
    SLICE,
    TOKEN,
    client_of,
    explored,
    select,
    tiny,
    write,
)


def ticket_of(client: TestClient, path: str, requested: dict[str, Any]) -> str:
    """Ask for a download."""
    reply = client.post(path, json=requested)
    assert reply.status_code == 200, reply.text
    ticket: str = reply.json()["ticket"]
    return ticket


def fetched(client: TestClient, ticket: str, path: Path) -> Path:
    """Fetch a download, without the header of the token."""
    reply = client.get(f"/download/{ticket}", headers={"Authorization": ""})
    assert reply.status_code == 200, reply.text
    assert reply.headers["content-disposition"].startswith('attachment; filename="')
    path.write_bytes(reply.content)
    return path


@pytest.mark.filterwarnings("ignore:obs.*no missing text")
@pytest.mark.parametrize(
    ("requested", "cells", "genes"),
    [
        ({}, range(CELLS), ["CD8A", "it's", "CST3"]),
        ({"rows": "age < 9", "columns": "name != 'it''s'"}, range(9), ["CD8A", "CST3"]),
        ({"selection": True}, [3, 5, 80], ["CD8A", "it's", "CST3"]),
        ({"selection": True, "rows": "age > 3"}, [5, 80], ["CD8A", "it's", "CST3"]),
    ],
)
def test_cells_as_an_h5ad(
    client: TestClient, tmp_path: Path, requested: dict[str, Any], cells: Any, genes: list[str]
) -> None:
    """Its size is known before; the file has these cells and genes, and what belongs to them."""
    assert select(client, [3, 5, 80]).status_code == 200
    size = client.post("/api/extract/estimate", json={**SLICE, **requested}).json()
    assert (size["rows"], size["columns"]) == (len(cells), len(genes))
    assert size["stored"] == len(cells) * len(genes)
    ticket = ticket_of(client, "/api/extract", {**SLICE, **requested})
    adata = anndata.read_h5ad(fetched(client, ticket, tmp_path / "x.h5ad"))
    assert adata.obs_names.tolist() == [f"C{number}" for number in cells]
    assert adata.var_names.tolist() == genes
    assert adata.X[:, 0].tolist() == list(cells)
    assert 0 < size["bytes"] < 2 * (tmp_path / "x.h5ad").stat().st_size


def test_rows_of_a_query_as_a_file(client: TestClient, tmp_path: Path) -> None:
    """Parquet and CSV, of all rows."""
    sql = "SELECT name, age FROM cell WHERE age < 3 ORDER BY age DESC"
    parquet = ticket_of(client, "/api/export", {"sql": sql, "format": "parquet"})
    rows = pq.read_table(fetched(client, parquet, tmp_path / "x.parquet"))
    assert rows.to_pydict() == {"name": ["C2", "C1", "C0"], "age": [2, 1, 0]}
    csv = ticket_of(client, "/api/export", {"sql": sql, "format": "csv"})
    text = fetched(client, csv, tmp_path / "x.csv").read_text()
    assert text.splitlines() == ['"name","age"', '"C2",2', '"C1",1', '"C0",0']


def test_a_ticket_is_good_once(client: TestClient, tmp_path: Path) -> None:
    """Nor does HEAD use it up, nor does any other word fetch something; a hundred are good."""
    ticket = ticket_of(client, "/api/export", {"sql": "SELECT 1", "format": "csv"})
    assert client.head(f"/download/{ticket}").status_code == 405
    fetched(client, ticket, tmp_path / "x.csv")
    again = client.get(f"/download/{ticket}")
    assert (again.status_code, again.json()["remedy"]) == (404, "ask for it in the page again")
    for other in ("x", "..%2f..%2fetc%2fpasswd", "%00"):
        assert client.get(f"/download/{other}").status_code == 404
    cross = {"Sec-Fetch-Site": "cross-site"}
    ticket = ticket_of(client, "/api/export", {"sql": "SELECT 1", "format": "csv"})
    assert client.get(f"/download/{ticket}", headers=cross).status_code == 403
    tickets = [ticket] + [
        ticket_of(client, "/api/export", {"sql": "SELECT 1", "format": "csv"}) for _ in range(100)
    ]
    assert [client.get(f"/download/{each}").status_code for each in tickets[:2]] == [404, 200]


def test_downloads_that_fail(
    client: TestClient, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is too large is refused before, and nothing is left of what fails meanwhile."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    small = explored(tiny(), limits=ExploreLimits(bytes=500))
    assert small.post("/api/extract", json=SLICE).status_code == 413
    ticket = ticket_of(small, "/api/export", {"sql": "SELECT * FROM cell", "format": "csv"})
    assert small.get(f"/download/{ticket}").status_code == 413
    ticket = ticket_of(
        client, "/api/export", {"sql": "SELECT CAST(name AS INT) FROM cell", "format": "parquet"}
    )
    reply = client.get(f"/download/{ticket}")
    assert (reply.status_code, reply.json()["error"]) == (400, "QueryError")
    assert not list(tmp_path.iterdir())
    client.delete("/api/selection")
    nothing = client.post("/api/extract", json={**SLICE, "selection": True})
    assert (nothing.status_code, nothing.json()["message"]) == (409, "nothing is selected")
    assert select(client, [1]).status_code == 200
    other = {**SLICE, "rows_axis": "gene", "columns_axis": "cell", "selection": True}
    assert client.post("/api/extract", json=other).status_code == 409


@pytest.fixture
def stored(tmp_path: Path) -> Path:
    """Return the path of the data set."""
    return write(tmp_path / "tiny.daf.zarr.zip")


@pytest.fixture
def writing(stored: Path) -> Iterator[TestClient]:
    """Return a client of an explorer that saves into an overlay."""
    overlay = str(stored.parent / "notes.daf.zarr")
    data = ExploredData(
        lambda: connect(str(stored), overlay=overlay), [str(stored)], overlay=overlay
    )
    yield client_of(app(data, token=TOKEN))
    data.close()


def save(client: TestClient, name: str, values: Any, **more: Any) -> Any:
    """Save a vector."""
    return client.post("/api/save", json={**AXIS, "name": name, "values": values, **more})


def test_vectors_are_saved_into_the_overlay(writing: TestClient, stored: Path) -> None:
    """A selection and an expression; the data set below stays as it was."""
    before = stored.read_bytes()
    assert writing.get("/api/catalogue").json()["writable"]
    assert select(writing, [2, 4]).status_code == 200
    found = save(writing, "mine", {"selection": True, "true": "in", "false": "out"}).json()
    assert found == {"name": "mine"}
    assert save(writing, "is_mine", {"selection": True}).status_code == 200
    assert save(writing, "half", {"sql": "age / 2.0"}).status_code == 200
    again = save(writing, "half", {"sql": "age"})
    found = (again.status_code, again.json()["remedy"])
    assert found == (409, "choose another name, or overwrite it")
    assert save(writing, "half", {"sql": "age / 4.0"}, overwrite=True).status_code == 200
    names = [
        vector["name"]
        for vector in writing.get("/api/catalogue").json()["data_sets"][0]["axes"][0]["vectors"]
    ]
    assert {"mine", "is_mine", "half"} <= set(names)
    with open_daf(stored.parent / "notes.daf.zarr") as overlay:
        mine = overlay.get_np_vector("cell", "mine")
        assert np.flatnonzero(mine == "in").tolist() == [2, 4]
        assert set(mine) == {"in", "out"}
        assert np.flatnonzero(overlay.get_np_vector("cell", "is_mine")).tolist() == [2, 4]
        assert overlay.get_np_vector("cell", "half")[8] == 2.0
    assert stored.read_bytes() == before


def test_a_data_set_that_is_replaced(writing: TestClient, stored: Path) -> None:
    """Every answer says so until the page is loaded again; of another tab, which has the old one, also then."""
    ask = {"id": "1", "sql": "SELECT max(age) AS age FROM cell"}
    assert writing.post("/api/query", json=ask).status_code == 200
    save(writing, "half", {"sql": "age / 2.0"})
    assert select(writing, [1]).status_code == 200
    version = writing.get("/api/catalogue").json()["version"]
    other = stored.parent / "other.zip"
    shutil.copy(stored, other)
    with open_daf(other.rename(stored.parent / "other.daf.zarr.zip"), "r+") as daf:
        daf.set_vector("cell", "new", np.zeros(CELLS))
    os.replace(stored.parent / "other.daf.zarr.zip", stored)
    for _ in range(2):
        for reply in (
            writing.post("/api/query", json=ask),
            writing.post("/api/colour", json={**AXIS, "sql": "age"}),
            writing.get("/api/selection"),
        ):
            found = (reply.status_code, reply.json()["remedy"])
            assert found == (409, "reload the page to see the new one")
    shown = writing.get("/api/catalogue", headers={"X-Daf-Version": str(version)}).json()
    for held, status in ((version, 409), (shown["version"], 200)):
        headers = {"X-Daf-Version": str(held)}
        reply = writing.post("/api/selection", params=AXIS, content=bytes(4), headers=headers)
        assert reply.status_code == status
    writing.delete("/api/selection")
    names = [vector["name"] for vector in shown["data_sets"][0]["axes"][0]["vectors"]]
    assert {"new", "half"} <= set(names)
    assert writing.post("/api/query", json=ask).status_code == 200
    assert writing.get("/api/selection").json()["id"] is None
    hidden = stored.rename(stored.parent / "hidden.daf.zarr.zip")
    assert writing.get("/api/catalogue").status_code == 404
    hidden.rename(stored)
    assert writing.post("/api/query", json=ask).status_code == 409
    assert writing.get("/api/catalogue").status_code == 200
    assert writing.post("/api/query", json=ask).status_code == 200

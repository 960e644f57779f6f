"""A small data set, and its explorer."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from starlette.testclient import TestClient

from daf_query import DafSession, connect
from daf_query.explore import app
from daf_storage import DafWriter, copy_all, open_daf
from tests.support import data_set, there

TOKEN = "correct-horse-battery-staple"  # noqa: S105 - of these tests alone
HOST = "http://127.0.0.1:8765"
CELLS = 300
AXIS = {"schema": "tiny", "axis": "cell"}
SLICE = {"schema": "tiny", "rows_axis": "cell", "columns_axis": "gene", "matrix": "X"}
HOSTILE = """x" <script>alert('1'); <img src=x onerror=1> ☃ %s"""
"""A name as no program would choose it."""


def tiny() -> DafWriter:
    """Return a data set with cells, genes and an embedding."""
    daf = data_set(name="tiny", cell=[f"C{number}" for number in range(CELLS)])
    data_set(daf, gene=["CD8A", "it's", "CST3"], X_umap=["0", "1"])
    numbers = np.arange(CELLS)
    daf.set_vector("cell", "age", numbers)
    daf.set_vector("cell", "score", np.where(numbers % 7 == 0, np.nan, numbers / 3))
    daf.set_vector("cell", "type", np.array(["T", "B", "NK"])[numbers % 3].tolist())
    daf.set_vector("cell", "note", np.where(numbers % 2, "odd", "").tolist(), empty_is_missing=True)
    daf.set_vector("cell", HOSTILE, (numbers * 2).astype(np.int32))
    daf.set_vector("cell", "tsne_1", numbers.astype(np.float32))
    daf.set_vector("cell", "tsne_2", -numbers.astype(np.float32))
    daf.set_matrix("cell", "X_umap", "X_umap", np.stack([numbers / 2, -numbers / 4], axis=1))
    daf.set_matrix("cell", "gene", "X", np.stack([numbers, numbers * 3, numbers % 5], axis=1))
    return daf


def write(path: Path) -> Path:
    """Write it to a path, and return that."""
    with open_daf(path, "w") as daf:
        copy_all(tiny(), daf)
    return path


def table_of(reply: Any) -> pa.Table:
    """Return the rows of an answer that has some."""
    assert reply.status_code == 200, reply.text
    return pa.ipc.open_stream(reply.content).read_all()


def select(client: TestClient, positions: list[int], **axis: str) -> Any:
    """Select entries."""
    content = np.array(positions, "<u4").tobytes()
    return client.post("/api/selection", params={**AXIS, **axis}, content=content)


def client_of(application: object) -> TestClient:
    """Return a client that has the token."""
    return TestClient(
        application,  # type: ignore[arg-type] # a Starlette
        base_url=HOST,
        headers={"Authorization": f"Bearer {TOKEN}"},
    )


def explored(source: Any, *, schema: str = "tiny", **options: Any) -> TestClient:
    """Return a client of the explorer of a data set, or of several."""
    return client_of(app(connect({schema: source}), token=TOKEN, **options))


def points(client: TestClient, embedding: str) -> Any:
    """Return the points of an embedding."""
    reply = client.post("/api/points", json={**AXIS, "embedding": embedding})
    assert reply.status_code == 200, reply.text
    assert reply.headers["content-type"] == "application/octet-stream"
    values = np.frombuffer(reply.content, "<f4").reshape(-1, 2)
    assert reply.headers["X-Daf-Rows"] == str(len(values))
    return values


@contextmanager
def running_explorer(folder: Path, *arguments: str) -> Iterator[str]:
    """Run daf explore in a folder; yield the address that it prints, and end it by Ctrl-C."""
    command = [sys.executable, "-m", "daf_query.cli", "explore", *arguments, "--no-browser"]
    pipes: Any = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    with subprocess.Popen(command, cwd=folder, **pipes) as process:
        try:
            yield there(process.stdout).readline().split()[-1]
            process.send_signal(signal.SIGINT)
            _, said = process.communicate(timeout=30)
            assert (process.returncode, "Traceback" in said) == (0, False)
        finally:
            process.kill()


def data_sets_of(session: DafSession) -> list[dict[str, Any]]:
    """Return the data sets as the page sees them."""
    client = client_of(app(session, token=TOKEN))
    listed: list[dict[str, Any]] = client.get("/api/catalogue").json()["data_sets"]
    return listed


@pytest.fixture(scope="module")
def client() -> Iterator[TestClient]:
    """Return a client of the explorer of a small data set."""
    with connect({"tiny": tiny()}) as session:
        yield client_of(app(session, token=TOKEN))

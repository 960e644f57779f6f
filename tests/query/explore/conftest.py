"""A small data set, and its explorer."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from starlette.testclient import TestClient

from daf_query import DafSession, connect
from daf_query.explore import app
from daf_storage import DafWriter, MemoryDaf

TOKEN = "correct-horse-battery-staple"  # noqa: S105 - of these tests alone
HOST = "http://127.0.0.1:8765"
CELLS = 300
HOSTILE = """x" <script>alert('1'); <img src=x onerror=1> ☃ %s"""
"""A name as no program would choose it."""


def tiny() -> DafWriter:
    """Return a data set with cells, genes and an embedding."""
    daf = MemoryDaf(name="tiny")
    daf.add_axis("cell", [f"C{number}" for number in range(CELLS)])
    daf.add_axis("gene", ["CD8A", "it's", "CST3"])
    daf.add_axis("X_umap", ["0", "1"])
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


def client_of(application: object) -> TestClient:
    """Return a client that has the token."""
    return TestClient(
        application,  # type: ignore[arg-type] # a Starlette
        base_url=HOST,
        headers={"Authorization": f"Bearer {TOKEN}"},
    )


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

"""Tests of answers: the limit of bytes, and links to the page."""

from __future__ import annotations

from starlette.testclient import TestClient

from daf_query import connect
from daf_query.explore import ExploreLimits, app
from tests.query.explore.conftest import CELLS, TOKEN, client_of, tiny


def test_as_many_bytes_of_points_as_the_limit() -> None:
    """Eight for each point."""
    asked = {"schema": "tiny", "axis": "cell", "embedding": "X_umap"}
    for most, status in ((8 * CELLS, 200), (8 * CELLS - 1, 413)):
        with connect({"tiny": tiny()}) as session:
            limits = ExploreLimits(bytes=most)
            client = client_of(app(session, token=TOKEN, limits=limits))
            assert client.post("/api/points", json=asked).status_code == status


def test_links_to_the_page_from_elsewhere(client: TestClient) -> None:
    """It may be opened from a page of another site, which may ask for no data."""
    cross = {"Sec-Fetch-Site": "cross-site"}
    assert client.get("/", headers=cross).status_code != 403
    assert client.get("/assets/x", headers=cross).status_code != 403
    assert client.get("/open/x", headers=cross).status_code == 403

"""Tests of who may ask the explorer, and of the files of its page."""

from __future__ import annotations

from pathlib import Path

import pytest
from starlette.testclient import TestClient

from tests.query.explore.conftest import HOST, TOKEN, explored, tiny


@pytest.mark.parametrize(
    "authorization",
    ["", "Bearer", f"Bearer {TOKEN}x", f"Bearer {TOKEN[:-1]}", f"Basic {TOKEN}", "Bearer é"],
)
def test_data_needs_the_token(client: TestClient, authorization: str) -> None:
    """Without it, or with another, every path of data answers 401; also paths that are none."""
    headers = {"Authorization": authorization.encode()}
    for path in ("/api/catalogue", "/api/query/1", "/api/nothing", "/api/"):
        reply = client.get(path, headers=headers)
        assert reply.status_code == 401
        assert reply.json()["error"] == "RequestError"
    assert client.get("/api/catalogue").status_code == 200


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({}, 200),
        ({"Host": "localhost:8765"}, 200),
        ({"Host": "127.0.0.1"}, 200),
        ({"Host": "evil.example:8765"}, 403),
        ({"Host": "127.0.0.1:8766"}, 200),
        ({"Host": "127.0.0.1.evil.example:8765"}, 403),
        ({"Origin": HOST}, 200),
        ({"Origin": "http://localhost:8765"}, 403),
        ({"Origin": "https://evil.example"}, 403),
        ({"Origin": "null"}, 403),
        ({"Sec-Fetch-Site": "cross-site"}, 403),
        ({"Sec-Fetch-Site": "same-site"}, 403),
        ({"Sec-Fetch-Site": "same-origin"}, 200),
        ({"Sec-Fetch-Site": "none"}, 200),
    ],
)
def test_other_hosts_and_origins_are_refused(
    client: TestClient, headers: dict[str, str], status: int
) -> None:
    """Also of whoever has the token: a name that was made to point here is not this server."""
    assert client.get("/api/catalogue", headers=headers).status_code == status


def test_answers_protect_the_page(client: TestClient) -> None:
    """Every answer has a policy, and none is stored; methods and paths that are none are named."""
    for path in ("/", "/api/catalogue", "/api/nothing", "/nothing"):
        headers = client.get(path).headers
        assert "default-src 'self'" in headers["Content-Security-Policy"]
        assert "frame-ancestors 'none'" in headers["Content-Security-Policy"]
        assert headers["X-Content-Type-Options"] == "nosniff"
    assert client.get("/api/catalogue").headers["Cache-Control"] == "no-store"
    refused = client.put("/api/catalogue")
    assert refused.status_code == 405
    assert "PUT /api/catalogue" in refused.json()["message"]


@pytest.fixture
def page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> TestClient:
    """Return a client of a folder beside which there is a secret."""
    folder = tmp_path / "static"
    (folder / "assets").mkdir(parents=True)
    (folder / "index.html").write_text("the page")
    (folder / "assets" / "page.js").write_text("1")
    (tmp_path / "secret").write_text("secret")
    (folder / "assets" / "link").symlink_to(tmp_path / "secret")
    monkeypatch.setattr("daf_query.explore._app._BUILT", folder)
    return explored(tiny())


def test_files_of_the_page(page: TestClient) -> None:
    """The page, and what belongs to it, with types that do not depend on the machine."""
    assert page.get("/").text == "the page"
    script = page.get("/assets/page.js").headers
    assert script["content-type"].startswith("text/javascript")
    assert script["cache-control"] == "no-cache"


@pytest.mark.parametrize(
    "path",
    [
        "/../secret",
        "/%2e%2e/secret",
        "/assets/%2e%2e%2f%2e%2e%2fsecret",
        "/assets/link",
        "/assets/",
        "/%00",
    ],
)
def test_no_path_leads_out_of_the_page(page: TestClient, path: str) -> None:
    """Neither by dots, nor by links, nor to a folder."""
    reply = page.get(path)
    assert reply.status_code == 404
    assert reply.text != "secret"


def test_a_page_that_was_not_built(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It says how to build it."""
    monkeypatch.setattr("daf_query.explore._app._BUILT", tmp_path / "no")
    reply = explored(tiny()).get("/")
    assert reply.status_code == 503
    assert "make web" in reply.text

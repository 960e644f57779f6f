"""Tests of the server of the explorer: real requests on the loopback address."""

from __future__ import annotations

import socket
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from daf_query import connect
from daf_query.cli import main
from daf_query.explore import ExploreLimits, ExploreServer
from daf_storage import open_daf
from tests.query.explore.conftest import CELLS, running_explorer, table_of, tiny, write
from tests.support import wait_until

ENDLESS = "SELECT count(*) FROM cell a, cell b, cell c, cell d WHERE a.age + b.age + c.age > d.age"
MANY = "SELECT a.name || b.name || c.name AS names FROM cell a, cell b, cell c"


@pytest.fixture(scope="module")
def server() -> Iterator[ExploreServer]:
    """Return a server of a small data set."""
    with (
        connect({"tiny": tiny()}) as session,
        ExploreServer(session, limits=ExploreLimits(queries=2, rows=30_000_000)) as running,
    ):
        yield running


def client_of(server: ExploreServer, **options: Any) -> httpx.Client:
    """Return a client that has the token."""
    headers = {"Authorization": f"Bearer {server.token}"}
    return httpx.Client(base_url=f"http://127.0.0.1:{server.port}", headers=headers, **options)


def test_only_this_machine_can_ask(server: ExploreServer) -> None:
    """It listens on the loopback address alone."""
    assert server.url.startswith(f"http://127.0.0.1:{server.port}/?token={server.token}")
    addresses = {str(info[4][0]) for info in socket.getaddrinfo(socket.gethostname(), None)}
    for address in addresses - {"127.0.0.1", "127.0.1.1", "::1"}:
        with socket.socket(socket.AF_INET6 if ":" in address else socket.AF_INET) as other:
            other.settimeout(0.5)
            with pytest.raises(OSError):  # noqa: PT011 - refused, or no such network
                other.connect((address, server.port))


def test_a_query_that_hangs_up_ends(server: ExploreServer) -> None:
    """The engine stops to compute as soon as the connection is gone."""
    ask = {"id": "gone", "sql": ENDLESS}
    with client_of(server, timeout=0.5) as client, pytest.raises(httpx.ReadTimeout):
        client.post("/api/query", json=ask)
    wait_until(lambda: server.running_queries == 0)


@pytest.mark.parametrize(
    "large", ["repeat('x', 2000000000)", "array_repeat(1, 300000000)", "range(1000000000)"]
)
def test_a_value_of_gigabytes_is_refused(server: ExploreServer, large: str) -> None:
    """At once: the engine computed it while it planned, and nobody else was answered."""
    with client_of(server, timeout=20) as client:
        answer = client.post("/api/query", json={"id": "large", "sql": f"SELECT {large}"})
        assert answer.status_code == 400
        assert "the query makes a value of" in answer.json()["message"]
        assert client.get("/api/catalogue").status_code == 200


def test_a_slow_reader_holds_the_query_back(server: ExploreServer) -> None:
    """Rows wait in the engine, not in memory; whoever hangs up then ends it."""
    ask = {"id": "slow", "sql": MANY, "rows": 10**8}
    with (
        client_of(server, timeout=20) as client,
        client.stream("POST", "/api/query", json=ask) as reply,
    ):
        parts = reply.iter_raw()
        next(parts)
        remembered = server._explorer.sent
        counts = [0, -1]
        while counts[-1] != counts[-2]:
            time.sleep(0.3)
            counts.append(sum(each.num_rows for each in remembered["slow"]))
        assert server.running_queries == 1
        assert counts[-1] < CELLS**3 / 2
    wait_until(lambda: server.running_queries == 0)


def test_no_more_queries_than_the_limit(server: ExploreServer) -> None:
    """The next is refused until one of them ends."""
    with client_of(server, timeout=20) as client:
        ask = {"sql": MANY, "rows": 10**8}
        with (
            client.stream("POST", "/api/query", json={"id": "a", **ask}) as first,
            client.stream("POST", "/api/query", json={"id": "b", **ask}) as second,
        ):
            assert (first.status_code, second.status_code) == (200, 200)
            refused = client.post("/api/query", json={"id": "c", **ask})
            assert refused.status_code == 503
            assert "2 queries are running" in refused.json()["message"]
        wait_until(lambda: server.running_queries == 0)
        reply = client.post("/api/query", json={"id": "c", "sql": "SELECT 1 AS one"})
        assert table_of(reply).to_pydict() == {"one": [1]}


def test_a_query_that_takes_too_long() -> None:
    """It ends, and says which option lets it."""
    limits = ExploreLimits(seconds=0.5)
    with (
        connect({"tiny": tiny()}) as session,
        ExploreServer(session, limits=limits) as server,
        client_of(server, timeout=20) as client,
    ):
        reply = client.post("/api/query", json={"id": "1", "sql": ENDLESS})
        assert (reply.status_code, reply.json()["remedy"]) == (413, "a larger --seconds lets it")
        assert "0.5 seconds" in reply.json()["message"]
        wait_until(lambda: server.running_queries == 0)


def test_the_command(tmp_path: Path) -> None:
    """It prints an address that answers; Ctrl-C ends it as it ends daf serve."""
    write(tmp_path / "tiny.daf.zarr")
    with running_explorer(tmp_path, "tiny.daf.zarr") as address:
        base, _, token = address.partition("/?token=")
        headers = {"Authorization": f"Bearer {token}"}
        reply = httpx.get(f"{base}/api/catalogue", headers=headers, timeout=30)
        assert reply.json()["data_sets"][0]["schema"] == "tiny"


def test_the_browser_is_opened(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With an address that leads to the page, unless --no-browser says otherwise."""
    write(tmp_path / "tiny.daf.zarr")
    opened: list[str] = []

    def browser(address: str) -> bool:
        opened.append(httpx.get(address, timeout=30).headers["location"])
        raise KeyboardInterrupt

    monkeypatch.setattr("webbrowser.open", browser)
    monkeypatch.setenv("DISPLAY", ":0")
    assert main(["explore", str(tmp_path / "tiny.daf.zarr")]) == 0
    assert opened[0] in capsys.readouterr().out
    start = ["--query", 'SELECT 1 AS "é&#"', "--color", "age / 2"]
    assert main(["explore", str(tmp_path / "tiny.daf.zarr"), *start]) == 0
    assert opened[1].endswith("#sql=SELECT+1+AS+%22%C3%A9%26%23%22&expression=age+%2F+2")
    assert opened[1] in capsys.readouterr().out
    with open_daf(tmp_path / "tiny.daf.zarr", "r+") as daf:
        daf.set_vector("cell", "Cell Type", daf.get_np_vector("cell", "age"))
    assert main(["explore", str(tmp_path / "tiny.daf.zarr"), "--color", "Cell Type"]) == 0
    assert opened[2].endswith("#expression=Cell+Type")

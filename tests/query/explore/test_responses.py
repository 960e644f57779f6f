"""Tests of answers: their parts and lengths, the limit of bytes, and how they end with the server."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest
from starlette.testclient import TestClient

from daf_query import connect
from daf_query.explore import ExploredData, ExploreLimits, app
from daf_query.explore._app import _names
from daf_query.explore._explorer import Explorer
from daf_query.explore._http import (
    CancelledError,
    Head,
    Part,
    RequestError,
    endings,
    failure,
    json_parts,
    parts_of,
)
from daf_storage import errors
from tests.query.explore.conftest import CELLS, TOKEN, client_of, tiny

MIB = 1 << 20


@pytest.mark.parametrize("size", [0, 1, MIB, MIB + 1, 3 * MIB - 1])
def test_parts_of_a_mebibyte(size: int) -> None:
    """A head that says the length, then all bytes in their order."""
    content = np.arange(size, dtype=np.uint8)
    head, *parts = parts_of(Head("x", {"A": "b"}), content)
    assert head == Head("x", {"A": "b", "Content-Length": str(size)})
    assert all(isinstance(part, bytes) for part in parts)
    whole = [bytes(part) for part in parts if isinstance(part, bytes)]
    assert [len(part) for part in whole[:-1]] == [MIB] * (len(whole) - 1)
    assert len(whole) == -(-size // MIB)
    assert b"".join(whole) == content.tobytes()


def test_json_has_no_nan_and_any_letters() -> None:
    """Also half of a letter, which UTF-8 has not."""
    head, content = json_parts({"é": "\ud800"})
    assert head == Head("application/json", {"Content-Length": "11"})
    assert content == '{"é": "?"}'.encode()
    with pytest.raises(ValueError, match="not JSON compliant"):
        list(json_parts(float("nan")))


@pytest.fixture
def explorer() -> Iterator[Explorer]:
    """Return an explorer of 100 bytes."""
    with connect({"tiny": tiny()}) as session:
        yield Explorer(ExploredData(lambda: session), ExploreLimits(bytes=100))


def test_as_many_bytes_as_the_limit(explorer: Explorer) -> None:
    """They are given, and no more."""
    explorer.check_bytes(100)
    with pytest.raises(RequestError, match="has 101 bytes, more than the limit of 100") as large:
        explorer.check_bytes(101)
    assert large.value.status == 413


def test_as_many_bytes_of_points_as_the_limit() -> None:
    """Eight for each point."""
    asked = {"schema": "tiny", "axis": "cell", "embedding": "X_umap"}
    for most, status in ((8 * CELLS, 200), (8 * CELLS - 1, 413)):
        with connect({"tiny": tiny()}) as session:
            limits = ExploreLimits(bytes=most)
            client = client_of(app(session, token=TOKEN, limits=limits))
            assert client.post("/api/points", json=asked).status_code == status


def test_closing_ends_answers_and_downloads(explorer: Explorer) -> None:
    """Those that are computed, and none begins afterwards."""

    def produce() -> Iterator[Part]:
        while True:
            yield Head("x")

    both = (explorer.runs, explorer.exports)
    running = [each.start(produce, is_abandoned=lambda: False) for each in both]
    for run in running:
        assert next(run) == Head("x")
    explorer.close()
    for run, runs in zip(running, both, strict=True):
        with pytest.raises(RequestError, match="the server is closing") as closing:
            list(run)
        assert closing.value.status == 503
        with pytest.raises(RequestError, match="the server is closing"):
            runs.start(produce, is_abandoned=lambda: False)


def test_how_queries_end_early() -> None:
    """Each with its status, and with what to do."""
    early = endings("--most")
    described = [
        (getattr(error, "status", None), str(error), str(getattr(error, "remedy", "") or ""))
        for error in (early.overdue(2.5), early.busy(3), early.cancelled("x"), early.closing("y"))
    ]
    assert [status for status, *_ in described] == [413, 503, 499, 503]
    assert "has not ended after 2.5 seconds" in described[0][1]
    assert described[0][2] == "a larger --most lets it"
    assert "3 queries are running" in described[1][1]
    assert isinstance(early.cancelled("x"), CancelledError)


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (errors.BudgetError("x"), 413),
        (errors.SizeLimitError("x"), 413),
        (errors.ReadOnlyError("x"), 403),
        (errors.MissingDependencyError("x"), 501),
        (errors.VectorNotFoundError("x"), 404),
        (errors.ExistsError("x"), 409),
        (errors.InUseError("x"), 409),
        (errors.RemoteError("x"), 502),
        (errors.StorageFullError("x"), 507),
        (errors.QueryError("x"), 400),
        (errors.DafError("x"), 500),
        (RequestError("x"), 400),
        (MemoryError(), 413),
        (ZeroDivisionError("a secret"), 500),
    ],
)
def test_statuses(error: BaseException, status: int, capsys: pytest.CaptureFixture[str]) -> None:
    """Of each error; what is a fault of the server goes into its log, and not to the page."""
    found, shown = failure(error)
    assert found == status
    is_fault = isinstance(error, ZeroDivisionError)
    assert ("a secret" in capsys.readouterr().err) == is_fault
    assert "secret" not in shown.message
    assert shown.error == (
        "BudgetError" if isinstance(error, MemoryError) else type(error).__name__
    )


def test_names_of_the_server() -> None:
    """With the port, unless it is that of HTTP."""
    assert _names({"server": ("127.0.0.1", 8765)}) == {"127.0.0.1:8765", "localhost:8765"}
    with_80 = {"127.0.0.1:80", "localhost:80", "127.0.0.1", "localhost"}
    assert (
        _names({"server": ("127.0.0.1", 80)}) == _names({"server": None}) == _names({}) == with_80
    )


def test_links_to_the_page_from_elsewhere(client: TestClient) -> None:
    """It may be opened from a page of another site, which may ask for no data."""
    cross = {"Sec-Fetch-Site": "cross-site"}
    assert client.get("/", headers=cross).status_code != 403
    assert client.get("/assets/x", headers=cross).status_code != 403
    assert client.get("/open/x", headers=cross).status_code == 403

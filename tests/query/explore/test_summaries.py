"""Tests of summaries of vectors, of entries by their beginning, and of profiles."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from starlette.testclient import TestClient

from daf_query import connect
from tests.query.explore.conftest import AXIS, CELLS, SLICE, explored, tiny
from tests.support import data_set


def summary(client: TestClient, vector: str) -> dict[str, Any]:
    """Return the summary of a vector."""
    reply = client.get("/api/summary", params={**AXIS, "vector": vector})
    assert reply.status_code == 200, reply.text
    shown: dict[str, Any] = reply.json()
    return shown


def test_summaries(client: TestClient) -> None:
    """Counts, missing values, the range with a histogram, and the most frequent values."""
    age = summary(client, "age")
    assert (age["count"], age["nulls"], age["min"], age["max"]) == (CELLS, 0, 0.0, 299.0)
    assert (sum(age["bins"]), age["distinct"]) == (CELLS, CELLS)
    score = summary(client, "score")
    assert score["nulls"] == len(range(0, CELLS, 7))
    assert sum(score["bins"]) == CELLS - score["nulls"]
    assert summary(client, "type")["top"] == [["B", 100], ["NK", 100], ["T", 100]]
    note = summary(client, "note")
    assert (note["nulls"], note["distinct"], note["top"]) == (150, 1, [["odd", 150]])
    assert summary(client, "name")["distinct"] == CELLS
    assert client.get("/api/summary", params={**AXIS, "vector": "agee"}).status_code == 404


def summarised(values: Any) -> dict[str, Any]:
    """Return the summary of a vector of these values."""
    daf = data_set(name="tiny", cell=[str(number) for number in range(len(values))])
    daf.set_vector("cell", "v", values)
    return summary(explored(daf), "v")


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ([], {"count": 0, "nulls": 0, "min": None, "bins": [], "distinct": 0}),
        ([np.nan], {"count": 1, "nulls": 1, "min": None, "bins": [], "distinct": 0}),
        ([np.inf, 1.0, -np.inf], {"nulls": 0, "min": 1.0, "max": 1.0, "distinct": 3}),
        ([-1e308, 1e308], {"min": -1e308, "max": 1e308, "bins": [1, *[0] * 30, 1]}),
        ([3.0, 3.0], {"min": 3.0, "max": 3.0, "top": [["3", 2]]}),
    ],
)
def test_numbers_of_every_sort(values: list[float], expected: dict[str, Any]) -> None:
    """Neither what is missing nor what is infinite breaks a summary."""
    shown = summarised(np.array(values, np.float64))
    assert {name: shown[name] for name in expected} == expected


def test_bins_and_top_values() -> None:
    """32 equal parts with both ends (fewer of whole numbers that are fewer), and the 20 most frequent values, the least first of equals."""
    assert summarised(np.arange(32.0))["bins"] == [1] * 32
    assert summarised(np.arange(33))["bins"] == [1] * 31 + [2]
    assert summarised(np.array([5, 5]))["bins"] == [2]
    ends = summarised(np.array([-(2**63), 2**63 - 1, 2**63 - 1]))
    assert (ends["min"], ends["max"]) == (-(2**63), 2**63 - 1)
    assert (ends["bins"][0], ends["bins"][-1]) == (1, 2)
    assert ends["top"] == [[str(2**63 - 1), 2], [str(-(2**63)), 1]]
    large = 2**53 + np.arange(40)  # neighbours are one and the same float
    for values in (large, large.astype(np.uint64) + np.uint64(2**63)):
        found = summarised(values)
        assert (found["min"], found["max"], found["distinct"]) == (min(values), max(values), 40)
        assert found["top"] == [[str(each), 1] for each in values[:20]]
        assert (found["bins"][0] > 0, found["bins"][-1] > 0, sum(found["bins"])) == (1, 1, 40)
    unsigned = summarised(np.array([2**64 - 1, 0], np.uint64))
    assert (unsigned["bins"][0], unsigned["bins"][-1], sum(unsigned["bins"])) == (1, 1, 2)
    assert summarised(np.array([7, 9, 9]))["bins"] == [1, 0, 2]
    assert summarised(np.array([127, -128], np.int8))["bins"] == [1, *[0] * 30, 1]
    many = [*range(25), 24, 24, 7]
    top = [["24", 3], ["7", 2], *([str(each), 1] for each in range(19) if each != 7)]
    assert summarised(np.array(many, np.int8))["top"] == top
    assert summarised(np.array([1.5, -2.0, np.inf]))["top"] == [["-2", 1], ["1.5", 1], ["inf", 1]]
    shown = summarised([*"zabcdefghijklmnopqrstuvwxy", "b"])
    assert shown["top"] == [["b", 2], ["a", 1], *([each, 1] for each in "cdefghijklmnopqrst")]
    assert (shown["count"], shown["nulls"], shown["distinct"]) == (27, 0, 26)
    assert (shown["min"], shown["max"], shown["bins"]) == (None, None, [])


@pytest.mark.parametrize(
    ("requested", "entries", "total"),
    [
        ({"axis": "gene", "prefix": "c"}, ["CD8A", "CST3"], 2),
        ({"axis": "gene", "prefix": "IT'"}, ["it's"], 1),
        ({"axis": "gene", "prefix": "%"}, [], 0),
        ({"axis": "cell", "prefix": "c29", "limit": "2"}, ["C29", "C290"], 11),
        ({"axis": "cell", "limit": "0"}, [], CELLS),
        ({"axis": "cell", "limit": "1000"}, [f"C{number}" for number in range(CELLS)], CELLS),
        ({"axis": "cell"}, [f"C{number}" for number in range(50)], CELLS),
    ],
)
def test_entries_by_their_beginning(
    client: TestClient, requested: dict[str, str], entries: list[str], total: int
) -> None:
    """In any case; the first of them, and how many there are."""
    reply = client.get("/api/entries", params={**AXIS, **requested})
    assert reply.json() == {"entries": entries, "total": total}


def test_a_profile(client: TestClient) -> None:
    """It is that of the session, without NaN."""
    chosen: Any = {"by": "type", "columns": ["CST3", "CD8A"], "rows": "age > 9"}
    shown = client.post("/api/profile", json={**SLICE, **chosen}).json()
    with connect({"tiny": tiny()}) as session:
        made = session.profile("cell", "gene", "X", **chosen)
        assert shown["mean"] == made.statistic("mean").tolist()
        assert shown["fraction"] == made.statistic("fraction").tolist()
    assert (shown["groups"], shown["columns"]) == (["B", "NK", "T"], ["CST3", "CD8A"])
    assert sum(shown["sizes"]) == CELLS - 10


def test_groups_of_a_profile() -> None:
    """Those that are missing are named; JSON has null for no mean, and for an infinite one."""
    daf = data_set(name="tiny", cell=["a", "b", "c", "d"], gene=["g"])
    daf.set_vector("cell", "type", ["T", "B", "", "NK"], empty_is_missing=True)
    daf.set_vector("cell", "score", [1.0, np.nan, np.nan, 1.0])
    daf.set_matrix("cell", "gene", "X", [[1.0], [np.inf], [0.0], [np.nan]])
    requested = {**SLICE, "by": "type", "columns": ["g"]}
    client = explored(daf)
    shown = client.post("/api/profile", json=requested).json()
    scores = client.post("/api/profile", json={**requested, "by": "score"}).json()
    assert scores["groups"] == ["1.0", "(missing)"]
    by_group = dict(zip(shown["groups"], shown["mean"], strict=True))
    assert by_group == {"T": [1.0], "B": [None], "(missing)": [0.0], "NK": [None]}
    assert shown["sizes"] == [1, 1, 1, 1]

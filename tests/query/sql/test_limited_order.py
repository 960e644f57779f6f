"""Tests of rows that are limited and then sorted: none is lost, and the first ones stay so."""

from __future__ import annotations

import numpy as np
import pytest

from daf_query import DafSession, connect
from daf_storage import MemoryDaf

SORTED = "SELECT index, x FROM cell ORDER BY index LIMIT 3 OFFSET 4"
UNSORTED = "SELECT index, x FROM cell LIMIT 3 OFFSET 4"


@pytest.fixture
def session() -> DafSession:
    """Return an axis with a vector in another order."""
    daf = MemoryDaf(name="m")
    daf.add_axis("cell", [f"c{n}" for n in range(30)])
    daf.set_vector("cell", "x", np.arange(30) * 7 % 30)
    return connect({"m": daf})


@pytest.mark.parametrize("query", [SORTED, UNSORTED])
def test_results_are_limited_before_they_are_sorted(session: DafSession, query: str) -> None:
    """Steps that are built upon a result keep its rows, and windows do, too."""
    result = session.sql(query)
    assert result.sort("index DESC").to_pydict()["index"] == [6, 5, 4]
    assert result.sort("index").to_pydict()["index"] == [4, 5, 6]
    numbered = result.select("index", "row_number() OVER (ORDER BY index) AS n")
    assert sorted(numbered.to_pydict()["index"]) == [4, 5, 6]
    cells = session.sql("SELECT index, x FROM cell")
    assert cells.limit(3, 4).sort("index").to_pydict()["index"] == [4, 5, 6]
    assert cells.limit(3).sort("x DESC").to_pydict()["index"] == [2, 1, 0]


def test_created_tables_have_all_rows(session: DafSession) -> None:
    """What is created from limited rows, or from a view of them, has them all."""
    ordered = f"SELECT * FROM ({SORTED}) ORDER BY index"
    for kind in ("TABLE", "VIEW"):
        session.sql(f"CREATE {kind} made_{kind} AS {ordered}", allow="write")
        assert session.sql(f"SELECT count(*) AS n FROM made_{kind}").to_pylist() == [{"n": 3}]


@pytest.mark.parametrize("limited", [SORTED, f"{UNSORTED} -- the end", f"({SORTED})"])
def test_views_that_pass_over_rows_can_be_sorted(session: DafSession, limited: str) -> None:
    """A view has the rows that its query limits, whatever is done with them."""
    session.sql(f"CREATE VIEW plain AS {limited}", allow="write")
    assert len(session.sql("SELECT * FROM plain").to_pylist()) == 3
    found = session.sql("SELECT index FROM plain ORDER BY index").to_pydict()
    assert found == {"index": [4, 5, 6]}

"""Tests of lists of values: two of them for one column are what SQL says, beside DuckDB."""

from __future__ import annotations

import numpy as np
import pytest

from daf_query import DafSession, connect
from daf_storage import MemoryDaf

_X = [1, 2, 3, 4, 2, 6]
_F = [1.0, 2.0, np.nan, 4.0, 3.0, 7.0]
_S = ["1", "2", "3", "4", "", "6"]
_CREATED = (
    (
        "CREATE TABLE t AS SELECT * FROM (VALUES ('a', 1, 1, '1'), ('b', 2, NULL, '2'), "
        "('c', 3, 2, '3'), ('d', NULL, 4, NULL), ('e', 5, NULL, '5'), ('f', NULL, 2, NULL)"
        ") AS t(name, x, y, s)"
    ),
    (
        "CREATE VIEW v AS SELECT name, x AS z, x NOT IN (2, 8, 9, NULL) AS p "
        "FROM cell WHERE x IN (1, 2, 3, 4)"
    ),
)


@pytest.fixture(scope="module")
def session() -> DafSession:
    """Return an axis with numbers, of which some are missing, and a table with NULLs."""
    daf = MemoryDaf(name="m")
    daf.add_axis("cell", list("abcdef"))
    daf.set_vector("cell", "x", _X)
    daf.set_vector("cell", "i", np.array(_X, np.int8))
    daf.set_vector("cell", "y", [1, 2, 1, 3, 3, 6])
    daf.set_vector("cell", "f", _F)
    daf.set_vector("cell", "s", _S)
    daf.set_matrix("cell", "cell", "m", np.eye(6))
    found = connect({"m": daf})
    for statement in _CREATED:
        found.sql(statement, allow="write")
    return found


@pytest.mark.parametrize(
    ("query", "predicate"),
    [
        (
            "SELECT name FROM cell WHERE x IN (1, 2) AND s IN ('1', 'b') AND (y = 1 OR y = 2)",
            "x IN (1, 2) AND s IN ('1', 'b') AND (y == 1 OR y == 2)",
        ),
        ("SELECT upper(name) FROM cell WHERE x IN (1, 2)", "x IN (1, 2)"),
        (
            "SELECT upper(name) FROM cell WHERE x IN (1, 2) AND x IN (2, 3)",
            "x IN (1, 2) AND x IN (2, 3)",
        ),
    ],
)
def test_tables_use_lists(session: DafSession, query: str, predicate: str) -> None:
    """Those of different columns, and those of one that are kept apart."""
    assert session.explain_analyze(query).scans[0].predicate == predicate


def test_lists_of_later_steps_are_kept_apart(session: DafSession) -> None:
    """Of a query and of what its rows are filtered by, in one step or in two."""
    rows = session.sql("SELECT name, x FROM t WHERE x IN (1, 2)")
    assert rows.filter("x NOT IN (2, NULL)").to_pylist() == []
    rows = session.sql("SELECT name, x FROM t")
    both = rows.filter("x IN (1, 2)").select("name", "x").filter("x NOT IN (2, NULL)")
    assert both.to_pylist() == []
    assert rows.filter("x IN (1, 2)", "x NOT IN (2, NULL)").to_pylist() == []
    assert rows.filter("x IN (1, 2)", "x NOT IN (2, 3)").to_pydict()["name"] == ["a"]

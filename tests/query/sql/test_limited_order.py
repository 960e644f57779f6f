"""Tests of rows that are limited and then sorted: none is lost, and the first ones stay so."""

from __future__ import annotations

import duckdb
import numpy as np
import pytest

from daf_query import DafSession, connect
from daf_query.sql._limited_order import with_barriers
from daf_storage import MemoryDaf, errors

SORTED = "SELECT index, x FROM cell ORDER BY index LIMIT 3 OFFSET 4"
UNSORTED = "SELECT index, x FROM cell LIMIT 3 OFFSET 4"


@pytest.fixture
def session() -> DafSession:
    """Return an axis with a vector in another order."""
    daf = MemoryDaf(name="m")
    daf.add_axis("cell", [f"c{n}" for n in range(30)])
    daf.set_vector("cell", "x", np.arange(30) * 7 % 30)
    return connect({"m": daf})


@pytest.mark.parametrize("limited", [SORTED, UNSORTED, UNSORTED.replace("OFFSET 4", "")])
@pytest.mark.parametrize(
    "query",
    [
        "SELECT * FROM ({}) ORDER BY index",
        "SELECT * FROM ({}) AS t ORDER BY x",
        "SELECT index FROM ({}) ORDER BY index DESC LIMIT 2",
        "WITH t AS ({}) SELECT * FROM t ORDER BY index",
        "WITH t AS ({}), u AS (SELECT x FROM t) SELECT * FROM u ORDER BY x",
        "({}) ORDER BY index",
        "({0}) UNION ALL ({0}) ORDER BY index",
        "SELECT index, row_number() OVER (ORDER BY index) AS n FROM ({}) ORDER BY index",
        "SELECT array_agg(index ORDER BY x) AS n FROM ({})",
        "SELECT (SELECT index FROM ({}) ORDER BY index LIMIT 1) AS n",
        "SELECT count(*) AS n FROM (SELECT * FROM ({}) ORDER BY x LIMIT 2) AS t",
        'SELECT * FROM ({}) AS "a\nb" ORDER BY x',
        "SELECT 'a\nb' AS y, * FROM ({}) ORDER BY index",
        'SELECT array_agg("a\nb" ORDER BY "a\nb") AS n FROM (SELECT x AS "a\nb" FROM ({}))',
    ],
)
def test_rows_are_limited_before_they_are_sorted(
    session: DafSession, query: str, limited: str
) -> None:
    """Orders of a query do not reach below the limits of its subqueries, as in DuckDB."""
    written = query.format(limited)
    with duckdb.connect() as other:
        other.register("cell", session.table("cell").to_table())
        try:
            expected = other.execute(written).fetchall()
        except duckdb.ParserException as error:  # of version 1.4
            pytest.skip(f"DuckDB cannot parse it: {error}")
    assert [tuple(row.values()) for row in session.sql(written).to_pylist()] == expected


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


def test_views_that_pass_over_rows_are_not_sorted(session: DafSession) -> None:
    """A query that would lose rows of a view is refused, and the way around is right."""
    session.sql(f"CREATE VIEW plain AS {SORTED}", allow="write")
    assert len(session.sql("SELECT * FROM plain").to_pylist()) == 3
    with pytest.raises(errors.QueryError, match="a view with OFFSET"):
        session.sql("SELECT * FROM plain ORDER BY index").to_pylist()
    around = f"CREATE VIEW kept AS SELECT * FROM ({SORTED}) WHERE random() >= 0"
    session.sql(around, allow="write")
    found = session.sql("SELECT index FROM kept ORDER BY index").to_pydict()
    assert found == {"index": [4, 5, 6]}


def test_other_brackets_stay_as_they_are() -> None:
    """Values of subqueries and limits within other words are left alone."""
    for query in (
        "SELECT * FROM t WHERE n IN (SELECT n FROM u LIMIT 3 OFFSET 1) ORDER BY n",
        "SELECT (n + 1) AS m, '(SELECT 1 LIMIT 1)' FROM (SELECT n FROM t) ORDER BY n LIMIT 3",
    ):
        assert with_barriers(query) == query

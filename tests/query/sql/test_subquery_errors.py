"""Tests of errors of subqueries that are no condition."""

from __future__ import annotations

import pytest

from daf_query import DafSession, connect
from daf_storage import MemoryDaf, errors


@pytest.fixture(scope="module")
def session() -> DafSession:
    """Return cells and genes with a number each."""
    daf = MemoryDaf(name="m")
    daf.add_axis("cell", ["A", "B", "C"])
    daf.set_vector("cell", "x", [1, 2, 3])
    daf.add_axis("gene", ["u", "v"])
    daf.set_vector("gene", "x", [2, 5])
    return connect(daf)


VALUES = [
    "x > ANY (SELECT x FROM gene)",
    "x <> ALL (SELECT x FROM gene)",
    "x = SOME (SELECT x FROM gene)",
    "x IN (SELECT x FROM gene)",
    "x NOT IN (SELECT x FROM gene)",
    "EXISTS (SELECT 1 FROM gene g WHERE g.x = cell.x)",
]
QUERIES = [
    "SELECT {} FROM cell",
    "SELECT {} AS b FROM cell",
    "SELECT DISTINCT NOT {} FROM cell",
    "SELECT CASE WHEN {} THEN 1 END FROM cell",
    "SELECT x = 1 OR {} FROM cell",
    "SELECT x FROM cell ORDER BY {}",
    "SELECT count(*) AS n FROM cell GROUP BY {}",
    "SELECT sum(CASE WHEN {} THEN 1 ELSE 0 END) AS n FROM cell",
    "SELECT count(*) FILTER (WHERE {}) FROM cell",
    "SELECT row_number() OVER (PARTITION BY {}) FROM cell",
    "SELECT b FROM (SELECT x, {} AS b FROM cell) WHERE x > 1",
]


@pytest.mark.parametrize("value", VALUES)
@pytest.mark.parametrize("query", QUERIES)
def test_a_subquery_that_is_no_condition_is_an_error_in_our_words(
    session: DafSession, query: str, value: str
) -> None:
    """Wherever it stands, and whatever step of the engine fails."""
    with pytest.raises(errors.QueryError, match=r"^IN, EXISTS, ANY and ALL of a subquery are ans"):
        session.sql(query.format(value)).to_pylist()


@pytest.mark.parametrize(
    "query",
    [
        "SELECT (SELECT max(x) FROM gene WHERE gene.x < cell.x) AS most FROM cell",
        "SELECT (SELECT name FROM gene WHERE gene.x = cell.x ORDER BY x LIMIT 1) AS g FROM cell",
        "SELECT x FROM cell WHERE (SELECT max(x) FROM gene WHERE gene.x = cell.x OR x = 5) > 1",
        "SELECT x FROM cell ORDER BY (SELECT max(x) FROM gene WHERE gene.x = cell.x)",
        "SELECT (SELECT max(x) FROM gene WHERE gene.x = cell.x) AS m FROM cell GROUP BY m",
    ],
)
def test_a_subquery_of_one_value_says_what_is_answered(session: DafSession, query: str) -> None:
    """Where it names columns of the query around it otherwise than the engine takes."""
    with pytest.raises(errors.QueryError, match="^a subquery of one value that names .* a join"):
        session.sql(query).to_pylist()


def test_not_in_of_what_is_around_says_not_exists(session: DafSession) -> None:
    """The engine has no anti-join by two keys that minds NULL."""
    query = "SELECT x FROM cell WHERE x NOT IN (SELECT x FROM gene WHERE gene.name = cell.name)"
    with pytest.raises(errors.QueryError, match="write NOT EXISTS"):
        session.sql(query).to_pylist()

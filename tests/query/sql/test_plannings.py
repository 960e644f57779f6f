"""Tests of how often a query is planned: once."""

from __future__ import annotations

from functools import partial
from typing import Any

import datafusion
import numpy as np
import pytest

from daf_query import DafSession, connect
from daf_storage import errors
from tests.support import data_set, recorded_calls


@pytest.fixture
def session() -> DafSession:
    """Return a session of its own, which remembers no query."""
    daf = data_set(cell=[f"one{n}" for n in range(6)], gene=["g1", "g2"])
    daf.set_vector("cell", "age", [1, 2, 3, 4, 5, 6])
    daf.set_vector("cell", "score", np.linspace(0, 1, 6, dtype=np.float32))
    daf.set_vector("cell", "donor", list("aabbcc"))
    daf.set_matrix("cell", "gene", "X", np.eye(6, 2, dtype=np.float32))
    found = connect({"one": daf})
    found.sql("CREATE VIEW old AS SELECT name, age FROM cell WHERE age > 2", allow="write")
    return found


@pytest.fixture
def plannings(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return the queries that the engine was given, as they come."""
    planned = (datafusion.SessionContext, "sql_with_options")
    return recorded_calls(monkeypatch, planned, lambda _, query, *__: query)


ONCE = [
    "SELECT name AS n FROM cell c",
    "SELECT name FROM cell WHERE age BETWEEN 3 AND 7 ORDER BY score LIMIT 2",
    "SELECT donor, count(*) AS n FROM cell GROUP BY donor",
    "select COUNT( 1 ) n from one.cell ;",
    "SELECT count(*) AS n FROM cell, gene",
    "SELECT * FROM scalars",
    "SELECT name FROM cell WHERE age NOT IN (NULL, 3)",
    "SELECT upper(name) FROM cell WHERE age > 2",
    "SELECT donor, count(*), avg(age) FROM cell GROUP BY donor HAVING count(*) > 1",
    "SELECT c.name, d.age FROM cell c JOIN cell d ON c.age = d.age + 1 ORDER BY 1",
    "SELECT name, rank() OVER (PARTITION BY donor ORDER BY age) FROM cell",
    "WITH w AS (SELECT age FROM cell LIMIT 3 OFFSET 1) SELECT max(age) FROM w",
    "SELECT age FROM cell UNION SELECT 7 ORDER BY 1",
    "SELECT upper(name), X['g1'] FROM cell WHERE X['g1'] = 0",
    "SELECT nvl(age, 0), age - 1, -age FROM cell ORDER BY donor",
    "SELECT upper(name) FROM cell WHERE age = (SELECT max(age) FROM cell)",
    "SELECT upper(name) FROM cell WHERE age >= ALL (SELECT age FROM cell)",
    "SELECT lpad(name, age, 'x'), repeat(donor, age) FROM cell",
    "SELECT c.* FROM cell c JOIN gene d USING (name)",
    "SELECT upper(name) FROM cell WHERE age IN (1, 2) AND age NOT IN (2, NULL)",
    "SELECT upper(name) FROM cell WHERE age IS NULL OR age > nullif(age, age)",
    "SELECT upper(name) FROM cell WHERE score > 0.5",
    "SELECT upper(name) FROM cell WHERE name LIKE 'one1%'",
    "SELECT upper(name) FROM cell WHERE starts_with(name, 'one1')",
]
OF_VIEWS = ["SELECT upper(name) FROM old", "SELECT old.name FROM old, old o"]


@pytest.mark.parametrize("query", ONCE + OF_VIEWS)
@pytest.mark.filterwarnings("ignore::daf_query.NeverNullWarning")
def test_a_query_is_planned_once(session: DafSession, plannings: list[str], query: str) -> None:
    """Whatever is put right in it, however its rows are asked for; and its view once more."""
    result = session.sql(query)
    assert result.to_arrow_table().num_rows == len(result)
    assert len(plannings) == 1 + (query in OF_VIEWS)


@pytest.mark.parametrize(
    "query",
    ["SELECT repeat(name, age + 0), nothing FROM cell", "SELECT repeat(name, donor) FROM cell"],
)
def test_a_query_that_fails_is_planned_once(
    session: DafSession, plannings: list[str], query: str
) -> None:
    """The message is of its own text, also where a size in it is checked."""
    with pytest.raises(errors.DafError) as raised:
        session.sql(query)
    assert len(plannings) == 1
    assert "daf_checked" not in str(raised.value)


def test_slices_and_plans_are_planned_once(session: DafSession, plannings: list[str]) -> None:
    """A slice once for each axis, or not at all; explaining, and what is built upon it, once."""
    sliced = partial(session.matrix, "cell", "gene", "X")
    for times, ask in (
        (1, lambda: session.explain("SELECT name FROM cell WHERE age > 2")),
        (1, lambda: session.explain_analyze("SELECT name FROM cell WHERE age > 2")),
        (2, lambda: sliced(rows="age + 0 > 2", columns="name LIKE 'g'")),
        (0, lambda: sliced(rows="age > 2", columns="name = 'g1'")),
        (1, lambda: session.sql("SELECT * FROM cell").filter("age < 6").limit(3).to_pydict()),
    ):
        plannings.clear()
        ask()
        assert len(plannings) == times


@pytest.mark.parametrize(
    "predicate",
    ["age IN (1, 2) AND donor IN ('a', 'b')", "age IN (1, 2) AND age IN (2, 3)"],
)
def test_tables_use_lists(session: DafSession, predicate: str) -> None:
    """Those of different columns, and two of one that the engine would merge."""
    query = f"SELECT upper(name) FROM cell WHERE {predicate}"
    assert session.explain_analyze(query).scans[0].predicate == predicate


QUERIES = [
    "SELECT name FROM cell c WHERE score > 0.5 ORDER BY name",
    "SELECT name FROM cell WHERE donor LIKE 'b%' AND age NOT IN (NULL, 3) ORDER BY name",
    "SELECT c.name, g.name AS g FROM cell c JOIN gene g ON c.age = g.index WHERE g.name LIKE 'g%' ORDER BY c.name",
    "SELECT count(*) AS n FROM cell WHERE age > (SELECT min(age) FROM cell) AND score > 0.1",
    "SELECT a.name, b.name FROM cell a JOIN gene b ON a.age = b.index ORDER BY a.name LIMIT 3",
]


@pytest.mark.filterwarnings("ignore::daf_query.DuplicateColumnsWarning")
def test_how_plans_are_printed_does_not_matter(
    session: DafSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rows, and what is read for them, are the same if the engine prints nonsense."""

    def found() -> list[Any]:
        explained = [connect(session.reader()).explain_analyze(query) for query in QUERIES]
        reads = [[(s.table, s.predicate, s.values) for s in each.scans] for each in explained]
        needs = [session.requirements(query).tables for query in QUERIES]
        return [[session.sql(query).to_pydict() for query in QUERIES], reads, needs]

    expected = found()
    for kind in (datafusion.plan.LogicalPlan, datafusion.plan.ExecutionPlan):
        for name in ("display", "display_indent", "display_indent_schema", "__repr__", "__str__"):
            monkeypatch.setattr(
                kind, name, lambda _: "Filter: TableScan: Boolean(NULL)", raising=False
            )
    for name in ("canonical_name", "schema_name", "__repr__", "__str__"):
        monkeypatch.setattr(datafusion.Expr, name, lambda _: "nonsense", raising=False)
    assert found() == expected

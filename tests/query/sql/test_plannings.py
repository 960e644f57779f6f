"""Tests of how often a query is planned: once."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import datafusion
import numpy as np
import pytest

from daf_query import DafSession, connect
from daf_storage import DafWriter, MemoryDaf, errors

PLAN = datafusion.SessionContext.sql_with_options


def _daf(name: str) -> DafWriter:
    daf = MemoryDaf(name=name)
    daf.add_axis("cell", [f"{name}{n}" for n in range(6)])
    daf.add_axis("gene", ["g1", "g2"])
    daf.set_vector("cell", "age", [1, 2, 3, 4, 5, 6])
    daf.set_vector("cell", "score", np.linspace(0, 1, 6, dtype=np.float32))
    daf.set_vector("cell", "donor", list("aabbcc"))
    daf.set_matrix("cell", "gene", "X", np.eye(6, 2, dtype=np.float32))
    return daf


@pytest.fixture
def session() -> DafSession:
    """Return a session of its own, which remembers no query."""
    found = connect({"one": _daf("one")})
    found.sql("CREATE VIEW old AS SELECT name, age FROM cell WHERE age > 2", allow="write")
    return found


@pytest.fixture
def plannings(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return the queries that the engine was given, as they come."""
    queries: list[str] = []

    def counting(
        context: datafusion.SessionContext, query: str, *rest: Any
    ) -> datafusion.DataFrame:
        queries.append(query)
        return PLAN(context, query, *rest)

    monkeypatch.setattr(datafusion.SessionContext, "sql_with_options", counting)
    return queries


ONCE = [
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


@pytest.mark.parametrize("query", ONCE)
@pytest.mark.filterwarnings("ignore::daf_query.NeverNullWarning")
def test_a_query_is_planned_once(session: DafSession, plannings: list[str], query: str) -> None:
    """Whatever is put right in it, and however its rows are asked for."""
    result = session.sql(query)
    assert result.to_arrow_table().num_rows == len(result)
    assert len(plannings) == 1


@pytest.mark.parametrize(
    "query", ["SELECT upper(name) FROM old", "SELECT old.name FROM old, old o"]
)
def test_a_view_is_planned_once_for_each_query(
    session: DafSession, plannings: list[str], query: str
) -> None:
    """However often the query names it."""
    session.sql(query).to_arrow_table()
    assert len(plannings) == 2


@pytest.mark.parametrize(
    "ask",
    [
        lambda db: db.sql("SELECT name FROM cell WHERE age > 2").to_arrow_table(),
        lambda db: db.sql("SELECT count(*) FROM cell").to_arrow_table(),
        lambda db: db.matrix("cell", "gene", "X", rows="age > 2").to_scipy(),
    ],
)
def test_simple_scans_are_not_planned(
    session: DafSession, plannings: list[str], ask: Callable[[DafSession], object]
) -> None:
    """Those of columns of one axis, of their count, and of most slices."""
    ask(session)
    assert plannings == []


def test_several_data_sets_are_planned_once(plannings: list[str]) -> None:
    """Also where not all columns of theirs are looked at."""
    session = connect([_daf("one"), _daf("two")])
    session.sql("SELECT upper(name) FROM cell WHERE age > 2").to_arrow_table()
    assert len(plannings) == 1


@pytest.mark.parametrize("query", ["SELECT nam FROM cell", "SELECT X['g1'] + nam FROM cell"])
def test_a_wrong_query_is_planned_twice_at_most(
    session: DafSession, plannings: list[str], query: str
) -> None:
    """Once for its error, and once for what the error says."""
    with pytest.raises(errors.DafError):
        session.sql(query).to_arrow_table()
    assert len(plannings) <= 2

"""Tests of how often a query is planned, and of the context in which it is."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import datafusion
import numpy as np
import pytest

from daf_query import DafSession, connect
from daf_query.sql import reporting
from daf_query.sql._planning import PlanningContext, current_context, planning
from daf_storage import MemoryDaf, errors


@pytest.fixture
def session() -> DafSession:
    """Return a session over two axes and a view."""
    daf = MemoryDaf(name="x")
    daf.add_axis("cell", [f"c{i}" for i in range(100)])
    daf.add_axis("donor", ["N0", "N1", "N2"])
    daf.set_vector("cell", "age", np.arange(100))
    daf.set_vector("cell", "score", np.arange(100, dtype="f4") / 7)
    daf.set_vector("cell", "donor", [f"N{i % 3}" for i in range(100)])
    daf.set_vector("donor", "site", ["Oslo", "Rome", "Oslo"])
    daf.set_matrix("cell", "donor", "votes", np.ones((100, 3)))
    return connect(daf)


@contextmanager
def recorded_plannings(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """Record the queries that DataFusion plans."""
    planned: list[str] = []
    plan = datafusion.SessionContext.sql_with_options

    def recorded(self: Any, query: str, *arguments: Any, **options: Any) -> Any:
        planned.append(query)
        return plan(self, query, *arguments, **options)

    with monkeypatch.context() as patch:
        patch.setattr(datafusion.SessionContext, "sql_with_options", recorded)
        yield planned


@pytest.mark.parametrize(
    ("query", "times"),
    [
        # A scan of one table that is certain to give what the engine would.
        ("SELECT name FROM cell", 0),
        ("SELECT name FROM cell WHERE age > 40 AND donor = 'N1'", 0),
        ("SELECT count(*) AS n FROM cell WHERE age > 3", 0),
        ("SELECT name FROM cell WHERE score > 0.5", 0),
        ("SELECT c.name FROM cell c WHERE score > 0.5", 0),
        ("SELECT name AS n FROM cell c", 1),
        ("SELECT name AS n FROM cell WHERE age > 40 AND donor = 'N1'", 1),
        ("SELECT name FROM cell WHERE age BETWEEN 3 AND 7 ORDER BY score LIMIT 2", 1),
        ("SELECT c.name FROM cell c JOIN donor d ON c.index = d.index WHERE site = 'Oslo'", 1),
        ("SELECT donor, count(*) AS n FROM cell GROUP BY donor", 1),
        ("SELECT count(*) AS n FROM cell", 0),
        ("select COUNT( 1 ) n from memory.cell ;", 1),
        ('SELECT count(*) AS "how many" FROM "cell"', 0),
        ("SELECT site, count(*) FROM cell JOIN donor ON cell.donor = donor.name GROUP BY site", 1),
        ("SELECT count(*) AS n FROM cell, donor", 1),
        ("SELECT count(*) AS n FROM cell c WHERE age > 3", 0),
        ("SELECT count(*) AS n FROM (SELECT age FROM cell)", 1),
        ("SELECT name FROM cell WHERE age IS NOT NULL", 1),
        ("SELECT name FROM cell WHERE age = NULL", 1),
        ("SELECT * FROM scalars", 1),
        ("SELECT name FROM cell WHERE age NOT IN (NULL, 3)", 1),
        ("SELECT name AS n FROM cell WHERE score > 0.5", 1),
        ("SELECT name FROM cell WHERE donor LIKE 'N1%'", 1),
    ],
)
@pytest.mark.filterwarnings("ignore::daf_query.NeverNullWarning")
def test_how_often_a_query_is_planned(
    session: DafSession, monkeypatch: pytest.MonkeyPatch, query: str, times: int
) -> None:
    """Once, unless its tables have to be others than it was planned with, or it is none for the engine."""
    with recorded_plannings(monkeypatch) as planned:
        session.sql(query).to_pydict()
    assert planned == [query] * times


def test_slices_and_plans_are_planned_once(
    session: DafSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A slice once for each axis; explaining a query, and what is built upon it, once."""
    query = "SELECT name FROM cell WHERE age > 40"
    for ask in (session.explain, session.explain_analyze):
        with recorded_plannings(monkeypatch) as planned:
            ask(query)
        assert len(planned) == 1
    with recorded_plannings(monkeypatch) as planned:
        session.matrix("cell", "donor", "votes", rows="age + 0 > 40", columns="name LIKE 'N1'")
    assert len(planned) == 2
    with recorded_plannings(monkeypatch) as planned:
        session.matrix("cell", "donor", "votes", rows="age > 40", columns="name = 'N1'")
    assert len(planned) == 0
    with recorded_plannings(monkeypatch) as planned:
        session.sql("SELECT * FROM cell").filter("age < 60").limit(3).to_pydict()
    assert len(planned) == 1


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("SELECT count(*) AS n FROM cell", {"n": [100]}),
        ("SELECT count(*) FROM cell", {"count(*)": [100]}),
        ('SELECT count(*) "FROM" FROM donor', {"FROM": [3]}),
        ("SELECT count(1) AS n FROM public.cells", None),
        ("SELECT count(*) AS n FROM few", {"n": [4]}),
        ("SELECT count(*) AS n FROM scalars", {"n": [0]}),
        ("SELECT count(*) AS n FROM cell WHERE age", None),
        ("SELECT count(*) AS n FROM nope", None),
    ],
)
def test_counting_the_rows_of_a_table(
    session: DafSession, query: str, expected: dict[str, list[int]] | None
) -> None:
    """Of an axis it is its length; views, other tables and errors are as ever."""
    session.sql("CREATE VIEW few AS SELECT * FROM cell WHERE age < 4", allow="write")
    if expected is None:
        with pytest.raises(errors.DafError):
            session.sql(query).to_pydict()
    else:
        assert session.sql(query).to_pydict() == expected


def test_a_table_that_hides_an_axis_is_counted(session: DafSession) -> None:
    """What a query created, not the axis that was added with its name later."""
    session.sql("CREATE TABLE later AS SELECT * FROM cell WHERE age < 7", allow="write")
    daf: Any = session.reader()
    daf.add_axis("later", ["a"])
    for query in ("SELECT count(*) AS n FROM later", "SELECT count(name) AS n FROM later"):
        assert session.sql(query).to_pydict() == {"n": [7]}


def test_a_context_is_of_its_block_and_its_thread() -> None:
    """After it, and in other threads, everything is as before."""
    seen: list[PlanningContext] = []
    context = PlanningContext(wide_columns=frozenset(["age"]))
    with planning(context):
        thread = threading.Thread(target=lambda: seen.append(current_context()))
        thread.start()
        thread.join()
        with reporting() as reports:
            assert current_context().reports is reports
            assert current_context().wide_columns == {"age"}
        assert current_context() is context
    assert seen == [PlanningContext()] == [current_context()]


QUERIES = [
    "SELECT name FROM cell c WHERE score > 0.5 ORDER BY name",
    "SELECT name FROM cell WHERE donor LIKE 'N1%' AND age NOT IN (NULL, 3) ORDER BY name",
    "SELECT c.name, site FROM cell c JOIN donor d ON c.donor = d.name WHERE d.name LIKE 'N%' ORDER BY c.name",
    "SELECT count(*) AS n FROM cell WHERE age > (SELECT min(age) FROM cell) AND score > 0.1",
    "SELECT a.name, b.name FROM cell a JOIN donor b ON a.donor = b.name ORDER BY a.name LIMIT 3",
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

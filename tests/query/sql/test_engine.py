"""Tests of planning: NULL as a constant in filters, and reports of one query among others."""

from __future__ import annotations

import os
import random

import datafusion
import duckdb
import numpy as np
import pytest

from daf_query import DafSession, connect
from daf_storage import MemoryDaf


@pytest.fixture(scope="module")
def session() -> DafSession:
    """Return an axis with a vector of each kind, some values missing."""
    rng = np.random.default_rng(4)
    daf = MemoryDaf(name="m")
    daf.add_axis("cell", [f"c{i}" for i in range(300)])
    daf.set_vector("cell", "n", rng.integers(0, 12, 300))
    daf.set_vector("cell", "u", rng.integers(0, 9, 300).astype("u1"))
    score = rng.integers(0, 12, 300) / 2
    score[::5] = np.nan
    daf.set_vector("cell", "f", score)
    daf.set_vector("cell", "s", rng.choice(["", "a", "b", "ab"], 300))
    daf.set_vector("cell", "y", rng.random(300) < 0.5)
    daf.set_scalar("version", 3)
    daf.set_matrix("cell", "cell", "m", np.eye(300))
    return connect({"m": daf})


class Oracles:
    """DuckDB and the engine itself, over the same table in memory."""

    def __init__(self, session: DafSession) -> None:
        table = session.table("cell").to_table()
        self._duckdb = duckdb.connect()
        self._duckdb.register("cell", table)
        self._engine = datafusion.SessionContext()
        self._engine.register_record_batches("cell", [table.to_batches()])

    def answers(self, query: str) -> tuple[list[str], list[str]]:
        """Return the rows that each has."""
        theirs = self._duckdb.sql(query).fetchall()
        own = [tuple(row.values()) for row in self._engine.sql(query).to_pylist()]
        return sorted(map(repr, theirs)), sorted(map(repr, own))


@pytest.fixture(scope="module")
def oracles(session: DafSession) -> Oracles:
    """Return what to compare with."""
    return Oracles(session)


def random_condition(rng: random.Random, depth: int) -> str:
    """Return a condition with NULL wherever a constant may stand."""
    if depth and rng.random() < 0.6:
        parts = [random_condition(rng, depth - 1) for _ in range(2)]
        form = rng.choice(["{} AND {}", "{} OR {}", "NOT ({})", "({}) IS NOT TRUE", "({}) IS FALSE", "({}) IS NULL", "NOT ({} AND {})"])  # fmt: skip
        return f"({form.format(*parts)})"
    column = rng.choice("nufsy")

    def constant() -> str:
        if rng.random() < 0.35:
            return "NULL"
        if column == "s":
            return rng.choice(["'a'", "''", "'b'"])
        if column == "y":
            return rng.choice(["true", "false"])
        return str(rng.randrange(10)) if column != "f" else str(rng.randrange(20) / 2)

    values = ", ".join(constant() for _ in range(rng.choice([1, 2, 3, 5, 7])))
    return rng.choice(
        [
            f"{column} {rng.choice(['=', '<>', '<', '>='])} {constant()}",
            f"{constant()} {rng.choice(['=', '<>', '<', '>='])} {column}",
            f"{column} {rng.choice(['IN', 'NOT IN'])} ({values})",
            f"{column} {rng.choice(['BETWEEN', 'NOT BETWEEN'])} {constant()} AND {constant()}",
            f"({column} IS {rng.choice(['', 'NOT '])}DISTINCT FROM {constant()})",
            f"{column} IS NULL",
            rng.choice(["NULL", "true", "y"]),
        ]
    )


@pytest.mark.filterwarnings("ignore::daf_query.NeverNullWarning")
def test_null_in_random_places(session: DafSession, oracles: Oracles) -> None:
    """The rows of DuckDB, unless the engine has others over a table of its own too."""
    rng = random.Random(5)
    count = int(os.environ.get("DAF_RANDOM_QUERIES", "150"))
    peculiar = 0
    for _ in range(count):
        query = f"SELECT index FROM cell WHERE {random_condition(rng, 2)}"
        theirs, own = oracles.answers(query)
        found = sorted(f"({row['index']},)" for row in session.sql(query).to_pylist())
        peculiar += theirs != own
        assert found in (theirs, own), query
    assert peculiar <= count // 50


def test_other_filters_are_still_handed_to_the_table(session: DafSession) -> None:
    """NULL among them is true for no row, and leaves the others as they are."""
    for condition in ("n = 3 AND s IS NOT NULL", "f IS NULL", "n IN (CAST(3 AS BIGINT))"):
        scan = session.explain_analyze(f"SELECT u FROM cell WHERE {condition}").scans[0]
        assert scan.predicate
    scan = session.explain_analyze("SELECT u FROM cell WHERE n IN (3, NULL)").scans[0]
    assert scan.predicate == "n == 3"

"""Tests of queries that nest too deeply for the stack of the engine."""

from __future__ import annotations

import pytest

from daf_query import connect
from daf_query.syntax import parsed
from daf_storage import MemoryDaf, errors

DEEP = {
    "sums": "SELECT " + "+".join(["1"] * 10_000),
    "strings": "SELECT " + "||".join(["name"] * 3000) + " FROM cell",
    "conditions": "SELECT * FROM cell WHERE " + " OR ".join(["age = 1"] * 20_000),
    "casts": "SELECT name" + "::text" * 5000 + " FROM cell",
    "nulls": "SELECT name" + " IS NULL" * 5000 + " FROM cell",
    "unions": " UNION ALL ".join(["SELECT 1"] * 20_000),
    "intervals": "SELECT " + "INTERVAL " * 3000 + "'1 day'",
    "explained": "EXPLAIN " * 3000 + "SELECT 1",
    "joins": "SELECT 1 FROM cell" + " JOIN cell" * 5000,
    "nested": "SELECT " + ("1" + "+1" * 300 + "+(") * 30 + "1" + ")" * 30,
    "nested first": "SELECT " + "(" * 30 + "1" + ("+1" * 300 + ")") * 30,
}


@pytest.mark.sampled(6)
@pytest.mark.parametrize("name", DEEP)
def test_chains_that_would_end_the_process_are_refused(name: str) -> None:
    """They came to an end of the engine's stack, and of the interpreter."""
    with pytest.raises(errors.QueryError, match="too many operators in one chain"):
        connect(MemoryDaf()).sql(DEEP[name])


def test_long_queries_that_are_not_deep_are_planned() -> None:
    """Many columns, conditions, values and short sums, whose operators do not nest."""
    conditions = " OR ".join(f"age = {number} AND age < 5 + 1" for number in range(900))
    columns = ", ".join(f"age * {number} + 1 AS a{number}" for number in range(3000))
    brackets = " + ".join(["(1 + 2 * 3)"] * 250)
    values = ", ".join(f"-{number} + 1" for number in range(3000))
    branches = " ".join(f"WHEN age = {number} THEN '{number}'" for number in range(3000))
    for query in (
        f"SELECT CASE {branches} END FROM cell",
        f"SELECT * FROM cell WHERE {conditions}",
        f"SELECT {columns} FROM cell",
        f"SELECT {brackets}",
        f"SELECT * FROM cell WHERE age IN ({values})",
        f"SELECT * FROM cell WHERE ({' AND '.join(['is_on'] * 2997)})",
        f"SELECT '{'+' * 10_000}', 1 -- {'+' * 10_000}",
    ):
        assert parsed(query) is not None
    assert parsed(")" * 3000) is None

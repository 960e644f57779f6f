"""Tests of long queries that do not nest; the table of messages has those that nest too deeply."""

from __future__ import annotations

from daf_query.syntax import parsed


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

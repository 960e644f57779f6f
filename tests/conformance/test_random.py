"""Random conditions choose the rows that DuckDB chooses, on every path."""

from __future__ import annotations

import os

import pytest

from tests.conformance.cases import LARGE, PATHS, Case
from tests.conformance.forms import Forms, entries, tables
from tests.conformance.oracles import Oracles, answer_of
from tests.random_conditions import Conditions

COUNT = int(os.environ.get("DAF_RANDOM_QUERIES", "3"))
LEFT_OUT = {"edge", "huge"}
"""Columns with values that engines compare in other ways: `docs/reference/limits.md`."""


@pytest.mark.parametrize("path", PATHS)
def test_conditions_choose_the_rows_of_duckdb(forms: Forms, path: str) -> None:
    """Rows, values of the condition itself, and groups; more with ``DAF_RANDOM_QUERIES``."""
    is_plain = path == "own" or path in LARGE
    table = (tables(path) if is_plain else entries(path))["cell"]
    left_out = LEFT_OUT | ({"day"} if path == "h5ad" else set())  # there dates are strings
    table = table.select([name for name in table.column_names if name not in left_out])
    conditions = Conditions(table, len(path))
    oracles = Oracles(path, "select" if is_plain else "entries")
    with forms.open(path) as session:
        for _ in range(COUNT // 3 if path in LARGE else COUNT):
            where = conditions.of_columns()
            for query in (
                f"SELECT name, donor, f FROM cell WHERE {where}",
                f"SELECT name, {where} AS v FROM cell WHERE index < 30",
                f"SELECT donor, count(*), count(f), max(x) FROM cell WHERE {where} GROUP BY donor",
            ):
                expected = oracles.answer(Case("random", 0, query), "duckdb")
                found = answer_of(session.sql(query).to_arrow_table())
                assert found.is_like(expected, ordered=False), (query, expected.error)

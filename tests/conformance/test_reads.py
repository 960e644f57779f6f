"""Reads of large axes: the ranges that a page promises to skip."""

from __future__ import annotations

import pytest

from tests.conformance.forms import N_LARGE, Forms

SKIPPING = [
    "total BETWEEN 300 AND 600",
    "batch = 17",
    "plate = 'plate 77'",
    "plate LIKE 'plate 77%'",
]


@pytest.mark.parametrize(
    ("path", "condition"),
    [
        *((path, each) for path in ("large_directory", "large_indexed") for each in SKIPPING),
        ("large_indexed", "name IN ('c012345', 'c012346')"),
    ],
)
def test_ranges_are_skipped(forms: Forms, path: str, condition: str) -> None:
    """From the third query on, at most half of the rows are read of a column that is sorted."""
    query = f"SELECT x FROM cell WHERE {condition}"
    with forms.open(path) as session:
        for _ in range(2):  # which make what is stored for no column
            session.sql(query).to_arrow_table()
        explanation = session.explain_analyze(query)
    assert explanation.scans[0].rows_in <= N_LARGE / 2


@pytest.mark.parametrize(
    "condition", ["name = 'c012345'", "code = 'k77'", "name IN ('c012345', 'c112345')"]
)
def test_indexes_leave_few_rows(forms: Forms, condition: str) -> None:
    """Single values and lists of an indexed column read no other values of it."""
    with forms.open("large_indexed") as session:
        explanation = session.explain_analyze(f"SELECT total FROM cell WHERE {condition}")
    assert explanation.scans[0].index_rows == explanation.rows


def test_a_column_with_two_bounds_is_counted_once(forms: Forms) -> None:
    """No more values are read than rows that were looked at, and the rows of the result."""
    with forms.open("large_directory") as session:
        explanation = session.explain_analyze(
            "SELECT name FROM cell WHERE total BETWEEN 300 AND 600"
        )
    scan = explanation.scans[0]
    assert scan.values["total"] <= scan.rows_in

"""Tests of the hint for those who compare with NULL."""

from __future__ import annotations

import warnings
from pathlib import Path

import pytest

from daf_query import DafSession, NeverNullWarning, connect
from tests.support import create


@pytest.fixture
def session(tmp_path: Path) -> DafSession:
    """Return a session over strings of which some are NULL, and others never."""
    daf = create(tmp_path / "x.daf.zarr")
    daf.add_axis("cell", ["A", "B"])
    daf.set_vector("cell", "plain", ["", "x"])
    daf.set_vector("cell", "a b", ["", "x"])
    daf.set_vector("cell", "marked", ["", "x"], empty_is_missing=True)
    daf.set_vector("cell", "score", [1.5, 2.5])
    return connect(daf)


@pytest.mark.parametrize(
    ("condition", "written"),
    [
        ("score = NULL", "score IS NULL"),
        ("NULL <> cell.plain", "cell.plain IS NOT NULL"),
        ("name = 'A' AND NOT (marked != NULL)", "marked IS NOT NULL"),
    ],
)
def test_a_comparison_with_null_is_warned_of(
    session: DafSession, condition: str, written: str
) -> None:
    """It is valid, and true for no row; once in a session for each column."""
    query = f"SELECT name FROM cell WHERE {condition}"
    with pytest.warns(NeverNullWarning, match=f"NULL, which equals nothing.*write {written}$"):
        assert session.sql(query).to_pydict() == {"name": []}
    session.sql(query)
    session.sql("SELECT NULL = NULL AS n, score IS NOT DISTINCT FROM NULL AS s FROM cell")


@pytest.mark.parametrize(
    "query",
    [
        "SELECT name FROM cell WHERE plain IS NULL",
        "SELECT name FROM cell WHERE plain = 'score = NULL' -- score = NULL",
        "SELECT NULL AS plain FROM cell",
    ],
)
def test_no_warning_where_null_can_be(session: DafSession, query: str) -> None:
    """IS NULL, text, comments and values."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        session.sql(query).to_pylist()

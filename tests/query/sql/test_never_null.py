"""Tests of the hint for those who ask for missing strings by IS NULL in vain."""

from __future__ import annotations

import warnings
from pathlib import Path

import pytest

from daf_query import DafSession, NeverNullWarning, connect
from daf_storage import DafWriter
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
    ("condition", "column"),
    [
        ("plain IS NULL", "plain"),
        ('cell."a b" is null', "a b"),
        ("score > 1 AND plain IS  NULL", "plain"),
        ("plain IS NULL OR score > 2", "plain"),
    ],
)
def test_a_warning_names_the_column_once(session: DafSession, condition: str, column: str) -> None:
    """And what to ask instead; not again in the same session."""
    query = f"SELECT name FROM cell WHERE {condition}"
    with pytest.warns(NeverNullWarning, match=f"'cell', since '{column}' holds strings.* = ''"):
        session.sql(query)
    session.sql(query)


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


def test_where_an_import_kept_missing_values_apart(session: DafSession) -> None:
    """An empty string was a value there as well: the vector that tells them apart is named."""
    daf = session.reader()
    assert isinstance(daf, DafWriter)
    daf.set_vector("cell", "plain_is_missing", [True, False])
    with pytest.warns(NeverNullWarning, match="which of them are missing is in 'plain_is_missing'"):
        session.sql("SELECT name FROM cell WHERE plain IS NULL")


@pytest.mark.parametrize(
    "query",
    [
        "SELECT name FROM cell WHERE marked IS NULL",
        "SELECT name FROM cell WHERE plain IS NOT NULL",
        "SELECT name FROM cell WHERE score IS NULL",
        "SELECT name FROM cell WHERE name IS NULL",
        "SELECT name FROM cell WHERE plain = 'plain IS NULL' -- plain IS NULL",
        "SELECT name FROM cell WHERE nullif(plain, '') IS NULL",
        "SELECT name FROM (SELECT name, nullif(plain, '') AS plain FROM cell) WHERE plain IS NULL",
        "SELECT a.name FROM cell a LEFT JOIN cell b ON a.name = b.plain WHERE b.plain IS NULL",
        "SELECT NULL AS plain FROM cell",
    ],
)
def test_no_warning_where_null_can_be(session: DafSession, query: str) -> None:
    """Columns and expressions that can be NULL, joins, other conditions, text and comments."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        session.sql(query).to_pylist()

"""Tests of the one statement of a SQL text."""

from __future__ import annotations

import pytest

from daf_query import DafSession
from daf_query.syntax import one_statement
from daf_storage import errors


@pytest.mark.parametrize(
    "text",
    [
        "SELECT 1",
        "SELECT 1;",
        "SELECT 1 ; ; -- the end;\n/* ; */",
        "-- what; it is\nSELECT ';' AS \"a;b\" /* no; */ ;",
        ";SELECT 1",
    ],
)
def test_one_statement_is_returned_as_it_is(text: str) -> None:
    """Comments, semicolons at the end and semicolons in strings are allowed; places stay."""
    found = one_statement(text)
    assert text.startswith(found)
    assert "SELECT" in found
    assert not found.rstrip().endswith(";")


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("SELECT 1; SELECT 2", "line 1, column 11"),
        ("SELECT 1;\n-- then\n  SELECT 2;\nSELECT 3", "line 3, column 3"),
        ("SELECT ';';DROP", "line 1, column 12"),
        ("\nSELECT 1; SELECT 2", "line 2, column 11"),
    ],
)
def test_several_statements_say_where_the_second_begins(text: str, place: str) -> None:
    """The message names the text, the line and the column."""
    with pytest.raises(errors.QueryError, match=rf"q\.sql has several statements.*{place}"):
        one_statement(text, source="q.sql")


@pytest.mark.parametrize(
    ("query", "why"),
    [("", "has no SQL"), ("-- none", "has no SQL"), ("SELECT 1;\nSELECT 2", "line 2, column 1")],
)
def test_sessions_say_the_same(tiny_session: DafSession, query: str, why: str) -> None:
    """A query of a session is one statement, as on the command line."""
    with pytest.raises(errors.QueryError, match=why):
        tiny_session.sql(query)

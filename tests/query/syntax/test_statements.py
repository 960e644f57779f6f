"""Tests of the one statement of a SQL text."""

from __future__ import annotations

import pytest

from daf_query.syntax import one_statement


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

"""Tests of tokens and the one statement of a text: what is in strings and comments is no SQL."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from daf_query.syntax import one_statement, tokens_of


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("a^b", ["A", "^", "b".upper()]),
        ("'it''s' x", ["'it''s'", "X"]),
        ("E'\\'^' x", ["E'\\'^'", "X"]),
        ("N'a' U&'b' x'0f'", ["N'a'", "U&'b'", "x'0f'"]),
        ('"a""b" `c``d`', ['"a""b"', "`c``d`"]),
        ("$$ a 'b $$ c", ["$$ a 'b $$", "C"]),
        ("$t$ a $$ b $t$ c", ["$t$ a $$ b $t$", "C"]),
        ("a -- b ' \n c", ["A", "C"]),
        ("a /* b /* c */ d */ e", ["A", "E"]),
        ("a /* b", ["A"]),
        ("1.5e3 + x1", ["1.5e3", "+", "X1"]),
        ("s ^@ 'a'", ["S", "^@", "'a'"]),
        ("größe = 1", ["GRÖSSE", "=", "1"]),
        ("'open", ["'", "OPEN"]),
        ("", []),
    ],
)
def test_tokens(query: str, expected: list[str]) -> None:
    """Literals and quoted names are one token each, comments none."""
    assert [token.text for token in tokens_of(query)] == expected


@given(st.text("ab'\"`$-/*\n e^(") | st.text())
def test_tokens_are_parts_of_any_text(query: str) -> None:
    """In order, without overlap, whatever the text; only space and comments are between."""
    stop = 0
    for token in tokens_of(query):
        assert stop <= token.start < token.stop <= len(query)
        stop = token.stop


def test_many_constants_in_a_bracket_are_one_token() -> None:
    """Up to the last one; not if something else is between them, or there are few."""
    constants = ", ".join(["'a, (b'", "''", "-1", "2.5", "'it''s'"] * 1000)
    kinds = ["word", "word", "operator", "constants", "string", "operator"]
    assert [token.kind for token in tokens_of(f"x IN ({constants})")] == kinds
    assert all(token.kind != "constants" for token in tokens_of(f"x IN (y, {constants})"))
    assert all(token.kind != "constants" for token in tokens_of(f"x IN ({constants[:40]}, 1)"))
    tokens = list(tokens_of(f"x IN (\n{constants}, NULL)"))
    assert (tokens[3].stop, tokens[4].text) == (8 + len(constants), "NULL")


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

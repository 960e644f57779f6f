"""Tests of entries of matrices as queries name them."""

from __future__ import annotations

import pytest

from daf_query.sql._entry_references import (
    column_name,
    malformed,
    references_in,
    with_known_columns,
)
from daf_query.sql._tokens import tokens_of


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("X['g']", [("X", "g", ())]),
        ("c.X [ 'g' ]", [("X", "g", ("c",))]),
        ("m.\"c c\".\"a.X\"['it''s']", [("a.X", "it's", ("m", "c c"))]),
        ("X['a'] + X['b']", [("X", "a", ()), ("X", "b", ())]),
        ('X["g"]', [("X", None, ())]),
        ("X[lower('g')]", [("X", None, ())]),
        ("X[e'g']", [("X", None, ())]),
        ("X[Y['g']]", [("X", None, ()), ("Y", "g", ())]),
        ("f(x)['g']", []),
        ("['g']", []),
        ("ARRAY['g']", []),
        ("X['g'", []),
        ("'X[''g'']'", []),
        ("-- X['g']", []),
    ],
)
def test_references(query: str, expected: list[tuple[str, str | None, tuple[str, ...]]]) -> None:
    """A name, its qualifier, and the string in the brackets."""
    references = references_in(query, tuple(tokens_of(query)))
    assert [(r.name, r.entry, r.qualifier) for r in references] == expected


def test_an_entry_has_one_spelling() -> None:
    """Quotes are doubled, as in SQL."""
    [reference] = references_in("X[ 'it''s' ]", tuple(tokens_of("X[ 'it''s' ]")))
    assert reference.column == column_name("X", "it's") == "X['it''s']"


def test_wrong_brackets_are_explained() -> None:
    """Double quotes become single ones."""
    [reference] = references_in('X["it\'s"]', tuple(tokens_of('X["it\'s"]')))
    assert "write X['it''s']" in str(malformed(reference, "X"))


def test_columns_of_a_result() -> None:
    """Only those that the result has are written as columns."""
    assert with_known_columns("age > 2", ["X['g']"]) == "age > 2"
    assert with_known_columns("X ['g']", ["X['g']"]) == "\"X['g']\""
    assert with_known_columns("X['h']", ["X['g']"]) == "X['h']"

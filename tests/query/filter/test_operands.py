"""Tests of operands of a condition: which are one thing."""

from __future__ import annotations

import pytest

from daf_query.filter._operands import is_single
from daf_query.filter._token_tree import token_tree


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a", True),
        ("3", True),
        ("(a + b)", True),
        ("lower(a)", True),
        ("a + b", False),
        ("a b", False),
        ("3 (a)", False),
        ("lower(a) + 1", False),
        ("lower(a) (b)", False),
        ("", True),
    ],
)
def test_what_every_operator_takes_as_a_whole(text: str, expected: bool) -> None:  # noqa: FBT001 - a parameter of a test
    """A bracket, a call, a column or a constant."""
    tree = token_tree(text)
    assert tree is not None
    assert is_single(tree) == expected

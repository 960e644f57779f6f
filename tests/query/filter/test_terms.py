"""Tests of the terms of a condition."""

from __future__ import annotations

import pytest

from daf_query.filter._terms import Term, terms_of

MANY = ", ".join(f"'{i}'" for i in range(30))


@pytest.mark.parametrize(
    ("condition", "terms"),
    [
        ("age = 3", [Term("age", "equal", "=", ("3",))]),
        ("3 < age", [Term("age", "order", ">", ("3",))]),
        ("-3 >= age", [Term("age", "order", "<=", ("-3",))]),
        ("age <> 3", [Term("age", "equal", "=", ("3",), is_negated=True)]),
        ("NOT age != 3", [Term("age", "equal", "=", ("3",))]),
        ("NOT (a = 'x' OR NOT b)", [Term("a", "equal", "=", ("'x'",), is_negated=True), Term("b", "boolean", "")]),
        ("donor IN ('a', 'b')", [Term("donor", "equal", "IN", ("'a'", "'b'"))]),
        ("donor NOT IN ('a')", [Term("donor", "equal", "IN", ("'a'",), is_negated=True)]),
        (f"donor IN ({MANY})", [Term("donor", "equal", "IN", tuple(MANY.split(", ")))]),
        ("donor IN (SELECT name FROM donor)", []),
        ("donor IN (other, 'a')", []),
        ("a BETWEEN 1 AND 2 AND b", [Term("a", "order", "BETWEEN", ("1", "2")), Term("b", "boolean", "")]),
        ("a IS NULL", [Term("a", "missing", "IS NULL")]),
        ("a IS NOT NULL", [Term("a", "missing", "IS NULL", is_negated=True)]),
        ("NOT a IS NOT NULL", [Term("a", "missing", "IS NULL")]),
        ("a IS TRUE", []),
        ("a LIKE 'x%'", [Term("a", "pattern", "LIKE", ("'x%'",))]),
        ("a NOT LIKE 'x%'", [Term("a", "pattern", "LIKE", ("'x%'",), is_negated=True)]),
        ("X['A'] > 2", [Term("X['A']", "order", ">", ("2",))]),
        ("lower(a) = 'x'", [Term("lower(a)", "equal", "=", ("'x'",))]),
        ("a + 3 = 4", [Term("a + 3", "equal", "=", ("4",))]),
        ("4 = a - 3", [Term("a - 3", "equal", "=", ("4",))]),
        ("a = +3", [Term("a", "equal", "=", ("+3",))]),
        ("a = -'x'", []),
        ("a = -TRUE", []),
        ("a = TRUE", [Term("a", "equal", "=", ("TRUE",))]),
        ("a = (3)", []),
        ("'x' LIKE a", []),
        ("a BETWEEN b AND 5", []),
        ("5 BETWEEN a AND 6", []),
        ("5 = 6 = a", []),
        ("donor IN ('a', -3, TRUE)", [Term("donor", "equal", "IN", ("'a'", "-3", "TRUE"))]),
        ("donor IN ('a', lower('B'))", []),
        ("NOT NOT a", [Term("a", "boolean", "")]),
        ("a[1]", []),
        ("a = b", []),
        ("1 = 1", []),
        ("a < 3 = b", []),
        ("TRUE", []),
        ("starts_with(a, 'x')", []),
        ("(a = 3", []),
    ],
)  # fmt: skip
def test_the_terms_of_a_condition(condition: str, terms: list[Term]) -> None:
    """With the expression on the left, and whether its rows are left out."""
    assert terms_of(condition) == terms

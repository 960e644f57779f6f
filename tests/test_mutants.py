"""Tests of the mutation tests: that mutations are made where they should be."""

from __future__ import annotations

import pytest

from tests.mutants.mutations import mutations


def changed(body: str) -> list[str]:
    """Return what the lines of a function's body become."""
    source = "def f(a, b):\n" + "".join(f"    {line}\n" for line in body.splitlines())
    return [one.after.strip() for one in mutations("x.py", source)]


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("a = b < 3", ["a = b <= 3", "a = b < 4"]),
        ("if a is None: pass", ["if a is not None: pass"]),
        ("a = b and a", ["a = (b or a)"]),
        ("a = not b", ["a = (b)"]),
        ("a = a + b", ["a = (a - b)"]),
        ("a += 1", ["pass", "a += 2"]),
        ("f(a, b)", ["pass"]),
        ("return a", ["return None"]),
        ("raise KeyError('x')", ["pass"]),
        ("while a: b", ["while (not (a)): b"]),
        ("a = True", ["a = False"]),
        ("'a docstring'", []),
        ("a: int = 5", ["a: int = 6"]),
    ],
)
def test_the_changes_of_a_line(before: str, after: list[str]) -> None:
    """Comparisons, operators, constants, conditions, returns and calls, one change at a time."""
    assert sorted(changed(before)) == sorted(after)


def test_a_mutation_changes_its_line_alone() -> None:
    """Every other line stays, also where the line has letters of several bytes."""
    source = "def f(a):\n    b = 'é' if a > 1 else 'x'\n    return b\n"
    found = mutations("x.py", source)
    assert {one.line for one in found} == {2, 3}
    for one in found:
        before, after = source.splitlines(), one.apply(source).splitlines()
        assert [i for i in range(3) if before[i] != after[i]] == [one.line - 1]
    assert "b = 'é' if a >= 1 else 'x'" in [one.after.strip() for one in found]

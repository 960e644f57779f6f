"""Tests of functions whose arguments say how large their results are."""

from __future__ import annotations

import time
from typing import Any

import pytest

from daf_query import DafSession, connect
from daf_storage import MemoryDaf, errors

LARGE = [
    "repeat(repeat('x', 60000), 60000)",
    "replace(repeat('a', 1000000), 'a', repeat('b', 1000000))",
    "\"repeat\"('x', 2000000000)",
    "Repeat('x', 1000 * 1000000000)",
    "repeat('x', (SELECT 2000000000))",
    "repeat('x', CAST('2000000000' AS BIGINT))",
    "repeat(s, n * 100000000)",
    "rpad(name, 2000000000, 'ab')",
    "substring('abc' FROM length(lpad('x', 2000000000)))",
    "array_length(array_repeat(array_repeat(1, 10000), 10000))",
    "array_resize([1], 300000000, 0)",
    "range(1000000000)",
    "array_length(generate_series(1, 2000000000, 2))",
]

SMALL = [
    ("repeat(s, n)", ["x", "", "yyyyyy"]),
    ("length(repeat(repeat('x', 6000), 6000))", [36_000_000] * 3),
    ("lpad(name, n + 1, '0')", ["0a", "00b", "000c"]),
    ("array_length(array_repeat('x', 8000000))", [8_000_000] * 3),
    ("array_length(generate_series(0, 100000000, 50000000))", [3] * 3),
    ("generate_series(n, 0, -1)", [[1, 0], [2, 1, 0], [3, 2, 1, 0]]),
]


@pytest.fixture
def session() -> DafSession:
    """Return a session of three cells."""
    daf = MemoryDaf()
    vectors: dict[str, Any] = {"n": [1, 2, 3], "s": ["x", "", "yy"]}
    daf.add_axis("cell", ["a", "b", "c"], vectors=vectors)
    return connect(daf)


@pytest.mark.parametrize("large", LARGE)
def test_large_values_are_refused(session: DafSession, large: str) -> None:
    """Whether their size is a constant, nested, or of a column; and at once."""
    started = time.monotonic()
    with pytest.raises(errors.QueryError, match=r"the query makes a value of [\d,]+ items"):
        session.sql(f"SELECT {large} FROM cell").to_arrow_table()
    assert time.monotonic() - started < 5


@pytest.mark.parametrize(("small", "expected"), SMALL)
def test_other_values_are_as_they_were(
    session: DafSession, small: str, expected: list[Any]
) -> None:
    """In SELECT, and in WHERE."""
    [values] = session.sql(f"SELECT {small} FROM cell ORDER BY n").to_pydict().values()
    assert values == expected
    kept = session.sql(f"SELECT name FROM cell WHERE ({small}) IS NOT NULL")
    assert len(kept.to_pylist()) == len(expected)

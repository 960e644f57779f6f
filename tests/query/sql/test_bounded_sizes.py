"""Tests of functions whose arguments say how large their results are."""

from __future__ import annotations

import itertools
import threading
import time
from typing import Any

import pytest

from daf_query import DafSession, connect
from daf_storage import MemoryDaf, errors

LARGE = [
    "repeat(repeat('x', 60000), 60000)",
    "generate_series(TIMESTAMP '1970-01-01', TIMESTAMP '2020-01-01', INTERVAL '1 nanosecond')",
    "replace(repeat('a', 1000000), 'a', repeat('b', 1000000))",
    "regexp_replace(repeat('a', 1000000), 'a', repeat('b', 1000000), 'g')",
    "levenshtein(repeat('a', 1000000), repeat('b', 1000000))",
    "repeat('x', 2000000000)",
    "\"repeat\"('x', 2000000000)",
    "Repeat('x', 1000 * 1000 * 1000)",
    "repeat('x', (SELECT 2000000000))",
    "repeat(name, 100000000)",
    "repeat(s, n * 100000000)",
    "lpad('x', 2000000000)",
    "rpad(name, 2000000000, 'ab')",
    "substring('abc' FROM length(lpad('x', 2000000000)))",
    "array_repeat(1, 300000000)",
    "list_repeat(1, 300000000)",
    "array_length(array_repeat(array_repeat(1, 10000), 10000))",
    "array_resize([1], 300000000, 0)",
    "generate_series(1, 1000000000)",
    "range(1000000000)",
    "range(-9000000000000000000, 9000000000000000000)",
    "array_length(generate_series(1, 2000000000, 2))",
]

HOURS = "generate_series(TIMESTAMP '1970-01-01', TIMESTAMP '1970-01-02', INTERVAL '1 hour')"

SMALL = [
    ("repeat(s, n)", ["x", "", "yyyyyy"]),
    ("repeat('x', NULL) IS NULL", [True] * 3),
    ("repeat(s, n * 2000) = ''", [False, True, False]),
    ("length(repeat(repeat('x', 6000), 6000))", [36_000_000] * 3),
    ("lpad(name, 3, '0')", ["00a", "00b", "00c"]),
    ("lpad(name, n + 1, '0')", ["0a", "00b", "000c"]),
    ("array_repeat(n, 2)", [[1, 1], [2, 2], [3, 3]]),
    ("array_length(array_repeat(array_repeat(n, 100), 100))", [100] * 3),
    ("array_length(array_repeat('x', 8000000))", [8_000_000] * 3),
    ("array_resize([n], 2, 7)", [[1, 7], [2, 7], [3, 7]]),
    ("range(n)", [[0], [0, 1], [0, 1, 2]]),
    ("generate_series(n, 0, -1)", [[1, 0], [2, 1, 0], [3, 2, 1, 0]]),
    (f"array_length({HOURS})", [25] * 3),
    ("length(replace(repeat('a', 1000), 'a', repeat('b', 1000)))", [1_000_000] * 3),
    ("replace(name, 'a', 'b')", ["b", "b", "c"]),
    ("levenshtein(repeat('a', 3), repeat(name, n))", [2, 3, 3]),
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
    """Before they are planned, also within each other, and beside a column."""
    with pytest.raises(errors.QueryError, match=r"the query makes a value of ([\d,]+|inf) items"):
        session.sql(f"SELECT {large} FROM cell")


@pytest.mark.parametrize(("small", "expected"), SMALL)
def test_other_values_are_as_they_were(
    session: DafSession, small: str, expected: list[Any]
) -> None:
    """In SELECT, under the engine's own name, and in WHERE."""
    found = session.sql(f"SELECT {small} FROM cell ORDER BY n")
    [values] = found.to_pydict().values()
    assert values == expected
    kept = session.sql(f"SELECT name FROM cell WHERE ({small}) IS NOT NULL")
    assert len(kept.to_pylist()) == len(expected)


def test_series_that_are_tables_are_not_bounded(session: DafSession) -> None:
    """They are computed row by row."""
    for tables, count in (
        ("generate_series(1, 20000000)", 20_000_000),
        ("cell, range(0, 10000)", 30_000),
        ("cell JOIN generate_series(1, 5) AS g ON true", 15),
        ("(SELECT unnest(generate_series(1, 1000000)))", 1_000_000),
    ):
        assert session.sql(f"SELECT count(*) AS n FROM {tables}").to_pydict() == {"n": [count]}


def test_a_panic_of_the_engine_is_an_error(session: DafSession) -> None:
    """With the source and the query; the session goes on."""
    query = "SELECT lpad(name, -n) FROM cell"
    with pytest.raises(errors.QueryError, match="the engine failed by a fault of") as raised:
        session.sql(query).to_arrow_table()
    assert str(raised.value).startswith(session.reader().location)
    assert str(raised.value).endswith(query)
    assert session.sql("SELECT n FROM cell").count() == 3


def test_planning_leaves_other_threads_running(session: DafSession) -> None:
    """The engine would compute these while it plans, with Python's lock held."""
    ticks: list[float] = []
    has_ended = threading.Event()

    def tick() -> None:
        while not has_ended.wait(0.02):
            ticks.append(time.monotonic())

    thread = threading.Thread(target=tick)
    thread.start()
    try:
        found = session.sql("SELECT array_length(generate_series(1, 4000000)) AS n").to_pydict()
    finally:
        has_ended.set()
        thread.join()
    assert found == {"n": [4_000_000]}
    pauses = [after - before for before, after in itertools.pairwise(ticks)]
    assert max(pauses, default=0) < 2

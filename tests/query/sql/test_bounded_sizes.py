"""Tests of functions whose arguments say how large their results are."""

from __future__ import annotations

import itertools
import threading
import time
from typing import Any

import datafusion
import pytest

from daf_query import DafSession, connect
from daf_storage import MemoryDaf, errors

HOURS = "generate_series(TIMESTAMP '1970-01-01', TIMESTAMP '1970-01-02', INTERVAL '1 hour')"

SMALL = [
    ("repeat(s, n)", ["x", "", "yyyyyy"]),
    ("repeat('x', NULL) IS NULL", [True] * 3),
    ("repeat(s, n * 2000) = ''", [False, True, False]),
    ("length(repeat(repeat('x', 6000), 6000))", [36_000_000] * 3),
    ("lpad(name, 3, '0')", ["00a", "00b", "00c"]),
    ("lpad(name, n + 1, '0')", ["0a", "00b", "000c"]),
    ("lpad(name, -n)", [""] * 3),
    ("rpad('xyz', -5, 'ab')", [""] * 3),
    ("lpad(NULL, -5) IS NULL", [True] * 3),
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


@pytest.mark.parametrize(("small", "expected"), SMALL)
def test_other_values_are_as_they_were(
    session: DafSession, small: str, expected: list[Any]
) -> None:
    """In SELECT, under the engine's own name, and in WHERE."""
    found = session.sql(f"SELECT {small} FROM cell ORDER BY n")
    assert "daf_checked" not in "".join(found.column_names)
    [values] = found.to_pydict().values()
    assert values == expected
    kept = session.sql(f"SELECT name FROM cell WHERE ({small}) IS NOT NULL")
    assert len(kept.to_pylist()) == len(expected)


def test_groups_orders_and_conditions(session: DafSession) -> None:
    """A size that is checked is the same in all places of a query."""
    requested = "SELECT repeat(name, n + 0) AS k, count(*) AS c FROM cell"
    grouped = session.sql(
        f"{requested} GROUP BY repeat(name, n + 0) ORDER BY repeat(name, n + 0) DESC"
    )
    assert grouped.to_pydict() == {"k": ["ccc", "bb", "a"], "c": [1, 1, 1]}
    assert session.sql("SELECT n FROM cell WHERE repeat(name, n + 1) = 'bbb'").to_pydict() == {
        "n": [2]
    }


@pytest.mark.parametrize(
    ("item", "name"),
    [
        ("repeat(s, 5)", "repeat(cell.s,Int64(5))"),
        ("lpad(s, 3, '0') || rpad(s, 4)", None),
        ("repeat(s, n + 0)", "repeat(s, n + 0)"),
        ("(repeat(s, n)) -- not twice", "(repeat(s, n))"),
        ("- length(repeat(s, 5000)) IS DISTINCT FROM 3", "- length(repeat(s, 5000)) IS DISTINCT FROM 3"),
    ],
)  # fmt: skip
def test_names_of_columns(session: DafSession, item: str, name: str | None) -> None:
    """Small constants change nothing; others are called as they are written, also in a subquery."""
    for query in (
        f"SELECT {item}\nFROM cell",
        f"SELECT * FROM (SELECT DISTINCT n, {item}\nFROM cell)",
    ):
        found = session.sql(query).column_names[-1]
        assert "daf_checked" not in found
        assert name in (None, found)


def test_series_that_are_tables_are_not_bounded(session: DafSession) -> None:
    """They are computed row by row."""
    for tables, count in (
        ("generate_series(1, 20000000)", 20_000_000),
        ("cell, range(0, 10000)", 30_000),
        ("cell JOIN generate_series(1, 5) AS g ON true", 15),
        ("(SELECT unnest(generate_series(1, 1000000)))", 1_000_000),
    ):
        assert session.sql(f"SELECT count(*) AS n FROM {tables}").to_pydict() == {"n": [count]}


def test_sizes_that_grow(session: DafSession) -> None:
    """At random within bounds."""
    query = "SELECT length(repeat(name, CAST(random() * 5 AS BIGINT))) AS n FROM cell"
    assert max(session.sql(query).to_pydict()["n"]) < 5


def test_a_panic_of_the_engine_is_an_error(
    session: DafSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With the source and the query; the session goes on."""
    query = "SELECT n + 1 FROM cell"
    panic = type("PanicException", (BaseException,), {})("index out of bounds")

    def panics(*_: object) -> None:
        raise panic

    with monkeypatch.context() as patch:
        patch.setattr(datafusion.SessionContext, "sql_with_options", panics)
        with pytest.raises(errors.QueryError, match="a fault of its own: index out") as raised:
            session.sql(query).to_arrow_table()
    assert str(raised.value).startswith(session.reader().location)
    assert str(raised.value).endswith(query)
    assert session.sql(query).count() == 3


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

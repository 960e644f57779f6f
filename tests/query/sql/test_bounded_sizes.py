"""Tests of functions whose arguments say how large their results are; rows are in the table of queries."""

from __future__ import annotations

import itertools
import threading
import time

import datafusion
import pytest

from daf_query import DafSession, connect
from daf_storage import errors
from tests.support import data_set


@pytest.fixture
def session() -> DafSession:
    """Return a session of three cells."""
    return connect(data_set(cell={"name": ["a", "b", "c"], "n": [1, 2, 3]}))


def test_sizes_that_grow(session: DafSession) -> None:
    """At random within bounds; of small constants, the column is called as the engine calls it."""
    small = session.sql("SELECT repeat(name, 5) FROM cell").column_names
    assert small == ["repeat(cell.name,Int64(5))"]
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

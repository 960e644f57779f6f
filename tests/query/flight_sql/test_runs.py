"""Tests of queries that run in threads of their own."""

from __future__ import annotations

import gc
import threading
import time
from collections.abc import Iterator
from functools import partial

import pytest
from pyarrow import flight

from daf_query._runs import Endings, call_engine
from daf_query._runs import Runs as AnyRuns
from daf_query.flight_sql import FlightSqlLimits
from tests.limits import lower
from tests.support import in_threads, wait_until

_ENDINGS = Endings(
    lambda seconds: flight.FlightTimedOutError(f"after {seconds:g} seconds"),
    lambda most: flight.FlightUnavailableError(f"running: {most}"),
    flight.FlightCancelledError,
    flight.FlightUnavailableError,
)


class Runs(AnyRuns):
    """The queries of a server."""

    def __init__(self, limits: FlightSqlLimits) -> None:
        super().__init__(_ENDINGS, max_seconds=limits.max_seconds, max_queries=limits.max_queries)


def _never() -> bool:
    return False


def _numbers() -> Iterator[int]:
    for number in range(1_000_000):
        yield call_engine(partial(int, number))


def _few() -> Iterator[int]:
    """Yield as many results as nobody has to take."""
    yield from range(2)


def _busy() -> Iterator[int]:
    """Compute in Python, which is interrupted like the engine's calls."""

    def work() -> None:
        while True:
            time.sleep(0.001)

    yield 0
    call_engine(work)


def test_results_come_in_order_and_errors_behind_them() -> None:
    """All results that were computed are taken before the error of the next is raised."""

    def failing() -> Iterator[int]:
        yield from range(5)
        raise ValueError("the sixth")

    runs = Runs(FlightSqlLimits())
    assert list(runs.start(lambda: iter(range(5)), is_abandoned=_never)) == list(range(5))
    run = runs.start(failing, is_abandoned=_never)
    assert [next(run) for _ in range(5)] == list(range(5))
    with pytest.raises(ValueError, match="the sixth"):
        next(run)
    wait_until(lambda: runs.count == 0)


def test_few_results_are_computed_ahead_and_none_for_nobody() -> None:
    """Three: two that wait, and one more; whoever lets go of the run ends it."""
    computed: list[int] = []

    def counting() -> Iterator[int]:
        for number in range(100):
            computed.append(number)
            yield number

    runs = Runs(FlightSqlLimits())
    run, busy = (runs.start(each, is_abandoned=_never) for each in (counting, _busy))
    assert next(run) == next(busy) == 0
    time.sleep(0.1)
    assert len(computed) <= 4
    del run, busy
    gc.collect()
    wait_until(lambda: runs.count == 0)
    assert len(computed) <= 4


@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    ("how", "error", "message"),
    [
        ("cancel", flight.FlightCancelledError, "the query was cancelled"),
        ("abandon", flight.FlightCancelledError, "the client has cancelled"),
        ("overdue", flight.FlightTimedOutError, "after 0.3 seconds"),
        ("close", flight.FlightUnavailableError, "closing"),
    ],
)
def test_what_computes_is_interrupted(how: str, error: type[Exception], message: str) -> None:
    """By its id, by a client that has gone, by time, and by the end of the server."""
    gone = threading.Event()
    runs = Runs(FlightSqlLimits(max_seconds=0.3 if how == "overdue" else None))
    run = runs.start(_busy, query_id=b"me", is_abandoned=gone.is_set)
    other = runs.start(_numbers, query_id=b"other", is_abandoned=_never)
    threads = [each for each in threading.enumerate() if each.name == "daf-query"]
    assert all(each.daemon for each in threads)  # the process ends without waiting for them
    assert next(run) == 0
    time.sleep(0.05)
    ends = {"cancel": lambda: runs.cancel(b"me"), "abandon": gone.set, "close": runs.close}
    ends.get(how, bool)()
    with pytest.raises(error, match=message):
        next(run)
    if how in ("cancel", "abandon"):
        wait_until(lambda: runs.count == 1)
        assert [next(other) for _ in range(3)] == [0, 1, 2]
    del other
    gc.collect()
    wait_until(lambda: runs.count == 0)


def test_what_nobody_reads_gives_way(monkeypatch: pytest.MonkeyPatch) -> None:
    """The one whose rows have waited longest ends; those that compute, and are read, go on."""
    runs = Runs(FlightSqlLimits(max_queries=3))
    stalled = [runs.start(_numbers, is_abandoned=_never) for _ in range(2)]
    computing = runs.start(_busy, is_abandoned=_never)
    wait_until(lambda: all(run._work.waits_since is not None for run in stalled))
    with pytest.raises(flight.FlightUnavailableError, match="running: 3"):
        runs.start(_numbers, is_abandoned=_never)
    stalled[0]._work.waits_since = time.monotonic() - 3600
    lower(monkeypatch, stalled_seconds=0.0)
    assert next(runs.start(_few, is_abandoned=_never)) == 0
    taken: list[int] = []
    with pytest.raises(flight.FlightCancelledError, match="gave way to another; ask again"):
        taken.extend(stalled[0])
    assert [next(stalled[1]) for _ in range(3)] == [0, 1, 2]
    assert next(computing) == 0
    assert runs.count <= 3
    runs.close()


def test_short_queries_wait_for_each_other() -> None:
    """More clients than may run at the same time are all answered, if none takes long."""
    runs = Runs(FlightSqlLimits(max_queries=2))
    answers: list[list[int]] = []

    def ask(_: int) -> None:
        for _ in range(5):
            run = runs.start(lambda: iter(range(3)), is_abandoned=_never)
            answers.extend([list(run)])

    in_threads(ask, range(8))
    assert answers == [[0, 1, 2]] * 40

"""Tests of scans below the engine that end between partitions, once nobody waits for them."""

from __future__ import annotations

import itertools
import threading
import time
from collections.abc import Callable

import numpy as np
import pytest

from daf_query import ScanOptions, connect
from daf_query._runs import Endings, Runs
from daf_query.scan import Scan
from daf_query.session import DafSession
from tests.support import data_set, recorded_calls, wait_until

PARTITIONS = 50
ROWS = 100 * PARTITIONS


class Ended(Exception):  # noqa: N818 - of these tests
    """A query ended early."""


ENDINGS = Endings(lambda _: Ended("overdue"), lambda _: Ended("busy"), Ended, Ended)

QUERY = "SELECT name FROM cell WHERE age >= 0"


@pytest.fixture(scope="module")
def session() -> DafSession:
    """Return a session over an axis of many partitions; batches are small."""
    daf = data_set(cell={"name": ROWS, "age": (np.arange(ROWS) % 90).astype("i4")})
    options = ScanOptions(
        zone_rows=100, partition_rows=100, min_partition_rows=100, min_batch_rows=1
    )
    return connect(daf, scan_options=options)


def counted(monkeypatch: pytest.MonkeyPatch, act: Callable[[], object]) -> list[None]:
    """Note each partition that scans begin, and act at the third."""
    begun = itertools.count(1)

    def note(*_: object, **__: object) -> None:
        if next(begun) == 3:
            act()

    return recorded_calls(monkeypatch, (Scan, "_matching"), note)


@pytest.mark.parametrize("how", ["cancel", "overdue", "close", "abandon"])
def test_a_scan_that_was_stopped_begins_no_other_partition(
    session: DafSession, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    """By a client, by time, by the end of the server, and by nobody who waits."""
    runs = Runs(ENDINGS, max_seconds=60 if how == "overdue" else None, max_queries=2)
    session.sql(QUERY).to_arrow_table()  # codes and zones are known from here on
    gone = threading.Event()

    def wait_for_stop() -> None:
        gone.set()
        (work,) = runs._running
        while work.error is None:
            time.sleep(0.005)

    def be_overdue() -> None:
        (work,) = runs._running
        work._deadline = 0.0

    actions = {
        "cancel": lambda: runs.cancel(b"me"),
        "overdue": be_overdue,
        "close": runs.close,
        "abandon": wait_for_stop,
    }
    noted = counted(monkeypatch, actions[how])
    with pytest.raises(Ended):
        list(
            runs.start(
                lambda: iter(session.sql(QUERY).rows().batches),
                query_id=b"me",
                is_abandoned=gone.is_set,
            )
        )
    wait_until(lambda: runs.count == 0)
    assert 3 <= len(noted) <= 4  # not all of fifty
    assert session.sql(QUERY).to_arrow_table().num_rows


def test_ctrl_c_ends_a_scan(session: DafSession, monkeypatch: pytest.MonkeyPatch) -> None:
    """The scan begins no other partition."""
    table = session.sql(QUERY).to_arrow_table()

    def interrupt() -> None:
        raise KeyboardInterrupt

    noted = counted(monkeypatch, interrupt)
    with pytest.raises(KeyboardInterrupt):
        session.sql(QUERY).to_arrow_table()
    assert len(noted) < PARTITIONS
    assert session.sql(QUERY).to_arrow_table().equals(table)

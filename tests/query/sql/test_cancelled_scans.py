"""Tests of scans below the engine that end between partitions, once nobody waits for them."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from daf_query import ScanOptions, connect
from daf_query._runs import Endings, Runs
from daf_query.scan import Scan
from daf_query.session import DafSession
from tests.support import data_set, wait_until

PARTITIONS = 50
ROWS = 100 * PARTITIONS


class Ended(Exception):  # noqa: N818 - of these tests
    """A query ended early."""


ENDINGS = Endings(lambda _: Ended("overdue"), lambda _: Ended("busy"), Ended, Ended)

QUERY = "SELECT name FROM cell WHERE age >= 0"


@pytest.fixture(scope="module")
def session() -> DafSession:
    """Return a session over an axis of many partitions; batches are small."""
    daf = data_set(name="cancelled_scans", cell=ROWS)
    daf.set_vector("cell", "age", (np.arange(ROWS) % 90).astype("i4"))
    daf.set_vector("cell", "donor", [f"d{i % 7}" for i in range(ROWS)])
    options = ScanOptions(
        zone_rows=100, partition_rows=100, min_partition_rows=100, min_batch_rows=1
    )
    return connect(daf, scan_options=options)


class Counted:
    """Counts the partitions that scans begin, and acts at one of them."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.count = 0
        self.act: Callable[[], None] = lambda: None
        self.at = 3
        candidates = Scan._candidates

        def counted(scan: Any, span: Any) -> Any:
            rows = candidates(scan, span)
            self.count += 1
            if self.count == self.at:
                self.act()
            return rows

        monkeypatch.setattr(Scan, "_candidates", counted)


def started(runs: Runs, session: DafSession, **how: Any) -> Any:
    """Begin a query as a server does."""
    result = session.sql(QUERY)
    assert result._direct is not None

    def produce() -> Iterator[pa.RecordBatch]:
        yield from session.sql(QUERY).rows().batches

    return runs.start(produce, query_id=b"me", **{"is_abandoned": lambda: False, **how})


@pytest.mark.parametrize("how", ["cancel", "overdue", "close", "abandon"])
def test_a_scan_that_was_stopped_begins_no_other_partition(
    session: DafSession, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    """By a client, by time, by the end of the server, and by nobody who waits."""
    is_late = threading.Event()
    runs = Runs(ENDINGS, max_seconds=60 if how == "overdue" else None, max_queries=2)
    session.sql(QUERY).to_arrow_table()  # codes and zones are known from here on
    counted = Counted(monkeypatch)
    gone = threading.Event()

    def wait_for_stop() -> None:
        gone.set()
        (work,) = runs._running
        while work.error is None:
            time.sleep(0.005)

    def be_overdue() -> None:
        (work,) = runs._running
        work._deadline = 0.0
        is_late.set()

    counted.act = {
        "cancel": lambda: runs.cancel(b"me"),
        "overdue": be_overdue,
        "close": runs.close,
        "abandon": wait_for_stop,
    }[how]
    run = started(runs, session, is_abandoned=gone.is_set)
    with pytest.raises(Ended):
        list(run)
    wait_until(lambda: runs.count == 0)
    assert counted.at <= counted.count <= counted.at + 1  # not all of fifty
    assert session.sql(QUERY).to_arrow_table().num_rows


def test_ctrl_c_ends_a_scan(session: DafSession, monkeypatch: pytest.MonkeyPatch) -> None:
    """The scan begins no other partition."""
    table = session.sql(QUERY).to_arrow_table()
    counted = Counted(monkeypatch)

    def interrupt() -> None:
        raise KeyboardInterrupt

    counted.act = interrupt
    with pytest.raises(KeyboardInterrupt):
        session.sql(QUERY).to_arrow_table()
    assert counted.count < PARTITIONS
    counted.act = lambda: None
    assert session.sql(QUERY).to_arrow_table().equals(table)

"""Tests of the sessions that a process keeps open."""

from __future__ import annotations

import os
import threading
from pathlib import Path

import pytest

from daf_query import DafSession, connect
from daf_query.fragments import OPEN_SESSIONS, OpenSessions, plan_fragments
from daf_storage import MemoryDaf, errors


def _session() -> DafSession:
    daf = MemoryDaf()
    daf.add_axis("cell", ["A"])
    return connect(daf)


def _is_open(session: DafSession) -> bool:
    try:
        return session.reader().axis_length("cell") == 1
    except errors.InvalidInputError:
        return False


def test_a_session_is_opened_once_and_closed_when_others_take_its_place() -> None:
    """The least recently used one; not while it is read from."""
    sessions = OpenSessions(max_sessions=2)
    with sessions.lease("a", _session) as a, sessions.lease("a", _session) as again:
        assert a is again
        with sessions.lease("b", _session) as b:
            pass
        with sessions.lease("a", _session):
            pass
        with sessions.lease("c", _session) as c:
            assert (_is_open(a), _is_open(b), _is_open(c)) == (True, False, True)
        with sessions.lease("d", _session):
            assert (_is_open(a), len(sessions)) == (True, 2)
    assert not _is_open(a)
    sessions.clear()
    assert (_is_open(c), len(sessions)) == (False, 0)


def test_threads_that_ask_at_once_get_the_same_session() -> None:
    """Whoever was slower gives up the one that was opened too many."""
    sessions = OpenSessions()
    barrier = threading.Barrier(2)
    made, handed_out = [], []

    def make() -> DafSession:
        barrier.wait(10)
        made.append(_session())
        return made[-1]

    def ask() -> None:
        with sessions.lease("a", make) as session:
            handed_out.append(session)

    threads = [threading.Thread(target=ask) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert handed_out[0] is handed_out[1]
    assert sorted(map(_is_open, made)) == [False, True]


@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
def test_a_forked_process_opens_its_own(tiny_path: Path) -> None:
    """It reads, and what its parent opened stays open there."""
    plan = plan_fragments(tiny_path, "cell", columns=["age"])
    (fragment,) = plan.fragments
    with fragment.pieces[0].lease() as session:
        list(fragment.read())
        child = os.fork()
        if child == 0:
            status = 1
            try:
                is_empty = len(OPEN_SESSIONS) == 0
                rows = sum(batch.num_rows for batch in fragment.read())
                status = 0 if is_empty and rows == 3 else 2
            finally:
                os._exit(status)
        assert os.waitpid(child, 0)[1] == 0
        assert session.reader().axis_length("cell") == 3
    assert sum(batch.num_rows for batch in fragment.read()) == 3

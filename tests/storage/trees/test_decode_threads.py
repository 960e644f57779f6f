"""Tests of the threads that decode chunks."""

from __future__ import annotations

import os
import signal
import threading
import warnings

import pytest

from daf_storage.trees import _decode_threads, run_all


@pytest.fixture(autouse=True)
def two_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have two threads, whatever the machine has."""
    monkeypatch.setattr(_decode_threads, "THREADS", 2)


def test_tasks_run_side_by_side() -> None:
    """Two of them wait for each other."""
    together = threading.Barrier(2, timeout=10)
    done: list[int] = []

    def work() -> None:
        together.wait()
        done.append(threading.get_ident())

    run_all([work] * 8)
    assert len(done) == 8
    assert len(set(done)) == 2


def test_a_failure_waits_for_the_others() -> None:
    """Nothing writes into an array any more when the error is raised."""
    running: list[int] = []

    def fail() -> None:
        raise ValueError("damaged")

    def work() -> None:
        running.append(1)
        threading.Event().wait(0.05)
        running.pop()

    with pytest.raises(ValueError, match="damaged"):
        run_all([work, fail, work, work, fail, work])
    assert not running


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
def test_a_forked_process_has_threads_of_its_own() -> None:
    """It does not wait for those of its parent."""
    run_all([lambda: None] * 4)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        child = os.fork()
    if child == 0:
        signal.alarm(20)
        done: list[int] = []
        run_all([lambda: done.append(1)] * 4)
        os._exit(len(done))
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 4


def test_a_single_task_is_run_by_the_caller() -> None:
    """No thread has to be woken for it; its error is raised as it is."""
    ran: list[int] = []
    run_all([lambda: ran.append(threading.get_ident())])
    assert ran == [threading.get_ident()]
    with pytest.raises(ZeroDivisionError):
        run_all([lambda: 1 // 0])

"""Tests of pauses of the garbage collector: nested, in threads, after errors and forks."""

from __future__ import annotations

import gc
import os
import threading
from collections.abc import Iterator

import pytest

from daf_storage.base import paused_collection
from daf_storage.base._paused_collection import MIN_PAUSED_MEMBERS


@pytest.fixture(autouse=True)
def enabled() -> Iterator[None]:
    """Begin and end with a collector that is enabled."""
    gc.enable()
    yield
    gc.enable()


def test_few_data_sets_leave_the_collector_alone() -> None:
    """A pause begins with as many as are worth it."""
    with paused_collection(MIN_PAUSED_MEMBERS - 1):
        assert gc.isenabled()
    with paused_collection(MIN_PAUSED_MEMBERS):
        assert not gc.isenabled()
    assert gc.isenabled()


def test_the_outermost_block_restores_what_was_before() -> None:
    """Those within it change nothing."""
    with paused_collection(100):
        with paused_collection(100), paused_collection(1):
            assert not gc.isenabled()
        assert not gc.isenabled()
    assert gc.isenabled()


def test_a_collector_that_was_disabled_stays_so() -> None:
    """Whoever disabled it finds it disabled, within and afterwards."""
    gc.disable()
    with paused_collection(100):
        assert not gc.isenabled()
    assert not gc.isenabled()


def test_an_error_ends_the_pause() -> None:
    """Also that of a nested block."""
    with pytest.raises(KeyError), paused_collection(100), paused_collection(100):
        raise KeyError
    assert gc.isenabled()


def test_the_last_thread_restores_it() -> None:
    """The first one to end does not."""
    entered, left = threading.Event(), threading.Event()

    def other() -> None:
        with paused_collection(100):
            entered.set()
            left.wait(60)

    thread = threading.Thread(target=other)
    with paused_collection(100):
        thread.start()
        assert entered.wait(60)
    assert not gc.isenabled()
    left.set()
    thread.join()
    assert gc.isenabled()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system cannot fork")
@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_a_forked_process_has_no_pause() -> None:
    """Threads that would end it are not there; a block that the fork is in ends all the same."""
    with paused_collection(100):
        child = os.fork()
        if not child:  # pragma: no cover - in another process
            was_enabled = gc.isenabled()
            with paused_collection(100):
                is_paused = not gc.isenabled()
            os._exit(0 if was_enabled and is_paused and gc.isenabled() else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert gc.isenabled()

"""Tests of calls of the engine where Ctrl-C may come: another thread computes, so that it arrives."""

from __future__ import annotations

import _thread
import os
import signal
import threading
import time
from collections.abc import Iterator
from contextvars import ContextVar

import pytest

from daf_query._runs import CancelledWork, attended, call_engine
from daf_storage import errors

_REQUESTED: ContextVar[int] = ContextVar("asked", default=0)


@pytest.fixture(autouse=True)
def _interruptible() -> Iterator[None]:
    """Let Ctrl-C raise here, where it may be ignored."""
    ends = signal.signal(signal.SIGTERM, signal.SIG_DFL)
    interrupts = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, ends)
        signal.signal(signal.SIGINT, interrupts)


def test_the_main_thread_waits_for_another(monkeypatch: pytest.MonkeyPatch) -> None:
    """With the variables of the context; values and errors come back; the next call uses it, too."""
    token = _REQUESTED.set(5)
    try:
        found = call_engine(lambda: (threading.current_thread(), _REQUESTED.get()))
    finally:
        _REQUESTED.reset(token)
    assert found[0] is not threading.current_thread()
    assert found[1] == 5
    assert call_engine(lambda: call_engine(lambda: 3)) == 3
    assert call_engine(threading.get_ident) == found[0].ident
    called: list[int] = []

    def fail() -> None:
        raise errors.QueryError("as it was")

    def begin_none(_: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    with pytest.raises(errors.QueryError, match="as it was"):
        call_engine(fail)
    found[0].join(60)  # it ends when nothing was called for a while
    with monkeypatch.context() as patched:
        patched.setattr(threading.Thread, "start", begin_none)
        with pytest.raises(RuntimeError, match="start new thread"):
            call_engine(lambda: called.append(3))
    assert call_engine(lambda: called) == []


def test_where_no_signal_raises_the_caller_computes() -> None:
    """In other threads, and where Ctrl-C is ignored; a handler of SIGTERM may raise, too."""

    def is_beside() -> bool:
        return call_engine(threading.current_thread) is not threading.current_thread()

    assert is_beside()
    others: list[bool] = []
    thread = threading.Thread(target=lambda: others.append(is_beside()))
    thread.start()
    thread.join()
    assert others == [False]
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    assert not is_beside()
    signal.signal(signal.SIGTERM, lambda *_: None)
    assert is_beside()


def test_work_that_goes_on_hinders_no_other() -> None:
    """Python that no check ends outlives Ctrl-C; the next call does not wait for it."""
    began, goes_on = threading.Event(), threading.Event()

    @attended
    def compute() -> int:
        began.set()
        goes_on.wait(60)
        return 1

    def interrupt() -> None:
        began.wait()
        os.kill(os.getpid(), signal.SIGINT)

    threading.Thread(target=interrupt).start()
    with pytest.raises(KeyboardInterrupt):
        compute()
    stuck = [each for each in threading.enumerate() if each.name == "daf-attended"]
    assert call_engine(lambda: 3) == 3
    goes_on.set()
    for each in stuck:
        each.join(60)
        assert not each.is_alive()
    assert compute() == 1


def test_an_interrupt_ends_the_wait_and_the_work() -> None:
    """It is raised while the other thread computes, which ends as well."""
    began, ended = threading.Event(), threading.Event()
    raised: list[BaseException] = []

    def compute() -> None:
        began.set()
        try:
            while True:
                time.sleep(0.01)
        except BaseException as error:
            raised.append(error)
            raise
        finally:
            ended.set()

    def interrupt() -> None:
        began.wait()
        _thread.interrupt_main()

    threading.Thread(target=interrupt).start()
    with pytest.raises(KeyboardInterrupt):
        call_engine(compute)
    assert ended.wait(60)
    assert isinstance(raised[0], CancelledWork)

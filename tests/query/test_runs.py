"""Tests of calls of the engine where Ctrl-C may come: another thread computes, so that it arrives."""

from __future__ import annotations

import _thread
import signal
import sys
import threading
import time
from contextvars import ContextVar
from types import SimpleNamespace

import pytest

from daf_query._cancellation import CancelledWork
from daf_query._runs import call_engine
from daf_storage import errors

_ASKED: ContextVar[int] = ContextVar("asked", default=0)


@pytest.fixture
def notebook(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let this thread be that of a shell of IPython."""
    monkeypatch.setitem(sys.modules, "IPython", SimpleNamespace(get_ipython=object))


@pytest.mark.usefixtures("notebook")
def test_a_notebook_computes_in_another_thread() -> None:
    """With the variables of the context; values and errors come back; also one call in another."""
    token = _ASKED.set(5)
    try:
        found = call_engine(lambda: (threading.current_thread(), _ASKED.get()))
    finally:
        _ASKED.reset(token)
    assert found[0] is not threading.current_thread()
    assert found[1] == 5
    assert call_engine(lambda: call_engine(lambda: 3)) == 3

    def fail() -> None:
        raise errors.QueryError("as it was")

    with pytest.raises(errors.QueryError, match="as it was"):
        call_engine(fail)


def test_a_program_computes_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without IPython, without a shell, and in other threads of a notebook."""
    for module in (None, SimpleNamespace(get_ipython=lambda: None), SimpleNamespace()):
        monkeypatch.setitem(sys.modules, "IPython", module)
        assert call_engine(threading.current_thread) is threading.current_thread()
    monkeypatch.setitem(sys.modules, "IPython", SimpleNamespace(get_ipython=object))
    others = []
    thread = threading.Thread(target=lambda: others.append(call_engine(threading.current_thread)))
    thread.start()
    thread.join()
    assert others == [thread]


def test_a_terminal_and_a_handler_of_sigterm_have_another_thread(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Neither where Ctrl-C is ignored, nor where standard input is closed, nor in other threads."""

    def is_beside() -> bool:
        return call_engine(threading.current_thread) is not threading.current_thread()

    ends, interrupts = signal.getsignal(signal.SIGTERM), signal.getsignal(signal.SIGINT)
    monkeypatch.setitem(sys.modules, "IPython", None)
    try:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        signal.signal(signal.SIGINT, signal.default_int_handler)
        monkeypatch.setattr("os.isatty", {0: True}.__getitem__)
        assert is_beside()
        others: list[bool] = []
        thread = threading.Thread(target=lambda: others.append(is_beside()))
        thread.start()
        thread.join()
        assert others == [False]
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        assert not is_beside()
        signal.signal(signal.SIGINT, signal.default_int_handler)
        monkeypatch.setattr("os.isatty", {0: False}.__getitem__)
        assert not is_beside()
        signal.signal(signal.SIGTERM, lambda *_: None)
        assert is_beside()
    finally:
        signal.signal(signal.SIGTERM, ends)
        signal.signal(signal.SIGINT, interrupts)


@pytest.mark.usefixtures("notebook")
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

    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # it may be ignored here
    try:
        threading.Thread(target=interrupt).start()
        with pytest.raises(KeyboardInterrupt):
            call_engine(compute)
    finally:
        signal.signal(signal.SIGINT, before)
    assert ended.wait(60)
    assert isinstance(raised[0], CancelledWork)

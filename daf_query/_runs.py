"""Queries of a server that run: each in a thread of its own, which ends when nobody waits for it.

The engine computes within one call until it has rows, which may take hours.  So whoever waits looks
every now and then whether the client is still there and whether there is time left, and otherwise
interrupts the thread: an exception is raised in it, for which the engine looks every second while
it computes.  It is raised in no other code, so that no lock or cache is left half changed: what may
be interrupted is called by `call_engine`.  Code in Python asks by itself, between its
steps, whether it is to end (`check_cancelled`): a step cannot be interrupted from outside without
leaving locks and caches half changed.

Clients that do not read keep no places: where all are taken, the query whose rows have waited
longest gives way to a new one.
"""

from __future__ import annotations

import _thread
import contextvars
import ctypes
import functools
import math
import os
import queue
import signal
import sys
import threading
import time
import traceback
import weakref
from collections import deque
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from dataclasses import dataclass
from numbers import Real
from typing import Any, ClassVar, Final, Generic, ParamSpec, TypeAlias, TypeVar

from daf_query._calls import positive_number
from daf_storage import errors

_T = TypeVar("_T")
_P = ParamSpec("_P")

Produce: TypeAlias = Callable[[], Iterator[_T]]
"""Yields results; the engine, which takes long, is called by `call_engine`."""

_Call: TypeAlias = Callable[[Callable[[], Any]], Any]
_CALL: Final[ContextVar[_Call | None]] = ContextVar("call", default=None)
"""How the run of this thread calls the engine; None outside of runs."""
_AHEAD: Final = 2
"""How many results a thread computes before they are taken."""
_LOOK_SECONDS: Final = 0.05
_PATIENCE_SECONDS: Final = 0.5
"""How long a query waits for one of those that run to end."""
_LAST_SECONDS: Final = 1.2
"""How long Ctrl-C waits for the engine to end, which looks every second."""
_CALLS: Final = queue.SimpleQueue[Callable[[], None]]()
"""What another thread is to call for the main one."""
_IDLE: Final = deque[None]()
"""An entry for each thread that waits for such calls: to start one takes longer than to plan."""
os.register_at_fork(after_in_child=_IDLE.clear)  # its threads are the parent's
_IDLE_SECONDS: Final = 0.5
_MAX_CANCELLED: Final = 1000
_STALLED_SECONDS: Final = 30.0
"""After how long rows that nobody takes give way."""
_MAX_GIVEN_WAY: Final = 64
"""How many runs may have given way while their clients stay connected: each keeps its last rows."""

_CHECK: Final[ContextVar[Callable[[], None] | None]] = ContextVar("check", default=None)
"""Raises what ends the work of this thread, if it is to end; None if it is never cancelled."""


class CancelledWork(BaseException):
    """Ends work whose results nobody waits for; no handler of errors takes it for one."""


def check_cancelled() -> None:
    """Raise what ends the work of this thread, if it is to end.

    >>> check_cancelled()
    """
    check = _CHECK.get()
    if check is not None:
        check()


def checked(progress: Callable[[int], None]) -> Callable[[int], None]:
    """Return what reports a step that is done, and ends the work there if it is to end."""

    def report(done: int) -> None:
        check_cancelled()
        progress(done)

    return report


@dataclass(frozen=True, slots=True)
class Endings:
    """The errors that a server raises where a query ends early, or cannot begin."""

    overdue: Callable[[float], Exception]
    """It has not ended after so many seconds."""
    busy: Callable[[int], Exception]
    """So many run already, which is the most."""
    cancelled: Callable[[str], Exception]
    """Nobody waits for it; the sentence says why."""
    closing: Callable[[str], Exception]
    """The server ends; the sentence says so."""


class Work(Generic[_T]):
    """What one thread computes, with the results that were not taken yet."""

    def __init__(self, query_id: bytes, deadline: float, overdue: Callable[[], Exception]) -> None:
        self.query_id = query_id
        """Which query it is of; empty of one that cannot be cancelled by its ticket."""
        self.results: queue.Queue[_T] = queue.Queue(_AHEAD)
        """What was computed."""
        self.has_ended = threading.Event()
        """Whether nothing will be added to the results."""
        self.error: BaseException | None = None
        """Why it ended early, for whoever takes the results."""
        self.waits_since: float | None = None
        """Since when a result waits to be taken; None if none waits."""
        self._deadline = deadline
        self._overdue = overdue
        self._lock = threading.Lock()
        self._is_computing = False
        self._is_interrupted = False
        self._thread = 0

    @property
    def has_begun(self) -> bool:
        """Whether a thread computes it, or did."""
        return self._thread != 0

    def stop(self, reason: BaseException) -> None:
        """Make it end soon; the first reason counts."""
        with self._lock:
            if self.error is not None or self.has_ended.is_set():
                return
            self.error = reason
            if self._is_computing:
                self._is_interrupted = True
                ctypes.pythonapi.PyThreadState_SetAsyncExc(
                    ctypes.c_ulong(self._thread), ctypes.py_object(CancelledWork)
                )

    def stop_if_overdue(self) -> None:
        """Make it end if it has no time left."""
        if time.monotonic() > self._deadline:
            self.stop(self._overdue())

    def run(self, produce: Produce[_T]) -> None:
        """Compute, until all is computed or it was stopped; never raises."""
        self._thread = threading.get_ident()
        _CALL.set(self._interruptible)
        _CHECK.set(self._check)
        try:
            for result in produce():
                self._hand_over(result)
                if self.error is not None:
                    break
        except BaseException as error:  # noqa: BLE001 - it is raised where the results are taken
            with self._lock:
                self.error = self.error or error
        finally:
            self.has_ended.set()

    def _check(self) -> None:
        """End what computes in this thread, between its steps, if it was stopped."""
        self.stop_if_overdue()
        if self.error is not None:
            raise CancelledWork

    def _interruptible(self, function: Callable[[], Any]) -> Any:
        """Call a function that may be interrupted."""
        with self._lock:
            if self.error is not None:
                raise self.error
            is_within = self._is_computing
            self._is_computing = True
        if is_within:  # the call around it may be interrupted
            return function()
        try:
            return function()
        finally:
            with self._lock:
                self._is_computing = False
                is_interrupted = self._is_interrupted
            if is_interrupted:  # what is raised in this thread arrives here at the latest
                time.sleep(_LOOK_SECONDS)

    def _hand_over(self, result: _T) -> None:
        self.waits_since = time.monotonic()
        while self.error is None:
            try:
                self.results.put(result, timeout=_LOOK_SECONDS)
            except queue.Full:
                self.stop_if_overdue()
            else:
                break
        self.waits_since = None


class Run(Iterator[_T]):
    """The results of a query, as they are computed; the query ends when this is let go."""

    def __init__(self, work: Work[_T], endings: Endings, is_abandoned: Callable[[], bool]) -> None:
        self._work = work
        self._endings = endings
        self._is_abandoned = is_abandoned

    def __next__(self) -> _T:
        work = self._work
        while True:
            has_ended = work.has_ended.is_set()
            try:
                return work.results.get(timeout=0 if has_ended else _LOOK_SECONDS)
            except queue.Empty:
                if has_ended:
                    break
            if work.error is not None:
                break
            work.stop_if_overdue()
            if self._is_abandoned():
                work.stop(self._endings.cancelled("the client has cancelled the query"))
        if work.error is not None:
            raise work.error
        raise StopIteration

    def __del__(self) -> None:
        self.close()

    def close(self) -> None:
        """Let the query end, if it runs."""
        self._work.stop(self._endings.cancelled("nobody waits for the query"))


class Runs:
    """The queries that run, of which there are never more than the limit.

    Parameters
    ----------
    endings
        What is raised where one ends early.
    max_seconds
        How long one may take; None is no limit.
    max_queries
        How many may run at the same time.
    """

    def __init__(self, endings: Endings, *, max_seconds: float | None, max_queries: int) -> None:
        self._endings = endings
        self._max_seconds = max_seconds
        self._max_queries = max_queries
        self._lock = threading.Condition()
        self._running: set[Work[Any]] = set()
        self._given_way: weakref.WeakSet[Work[Any]] = weakref.WeakSet()
        self._cancelled: deque[bytes] = deque(maxlen=_MAX_CANCELLED)
        self._is_closed = False

    @property
    def count(self) -> int:
        """How many run."""
        with self._lock:
            return len(self._running)

    def start(
        self, produce: Produce[_T], *, query_id: bytes = b"", is_abandoned: Callable[[], bool]
    ) -> Run[_T]:
        """Begin to compute results.

        Parameters
        ----------
        produce
            Yields the results; called in another thread.
        query_id
            By which it can be cancelled.
        is_abandoned
            Says whether the client has gone; called by whoever takes the results.
        """
        work = self._admitted(query_id)

        def run() -> None:
            try:
                work.run(produce)
            finally:
                with self._lock:
                    self._running.discard(work)
                    self._lock.notify()

        threading.Thread(target=run, name="daf-query", daemon=True).start()
        return Run(work, self._endings, is_abandoned)

    def _admitted(self, query_id: bytes) -> Work[Any]:
        endings, most = self._endings, self._max_queries
        seconds = float("inf") if self._max_seconds is None else self._max_seconds
        work: Work[Any] = Work(
            query_id, time.monotonic() + seconds, lambda: endings.overdue(seconds)
        )
        with self._lock:
            if len(self._running) >= most:
                self._stop_stalled()
            self._lock.wait_for(
                lambda: self._is_closed or len(self._running) < most, _PATIENCE_SECONDS
            )
            if self._is_closed:
                raise endings.closing("the server is closing")
            if query_id in self._cancelled:
                raise endings.cancelled("the query was cancelled before it began")
            if len(self._running) >= most:
                raise endings.busy(most)
            self._running.add(work)
        return work

    def _stop_stalled(self) -> None:
        """End the run whose results have waited longest, if that is long; called with the lock."""
        waiting = {
            work: since
            for work in self._running
            if work.error is None and (since := work.waits_since) is not None
        }
        oldest = min(waiting, key=waiting.__getitem__, default=None)
        if oldest is None or len(self._given_way) >= _MAX_GIVEN_WAY:
            return
        if time.monotonic() - waiting[oldest] >= _STALLED_SECONDS:
            self._given_way.add(oldest)
            reason = (
                f"nobody has read the rows of this query for {_STALLED_SECONDS:g} seconds, and it "
                "gave way to another; ask again"
            )
            oldest.stop(self._endings.cancelled(reason))

    def cancel(self, query_id: bytes) -> None:
        """End the query of a ticket; if it does not run, it never will."""
        with self._lock:
            works = [work for work in self._running if work.query_id == query_id]
            if not works:
                self._cancelled.append(query_id)
        for work in works:
            work.stop(self._endings.cancelled("the query was cancelled"))

    def close(self) -> None:
        """End all queries, and begin none."""
        with self._lock:
            self._is_closed = True
            works = list(self._running)
        for work in works:
            work.stop(self._endings.closing("the server is closing"))


class EnginePanic(errors.QueryError):
    """The engine failed at a query by a fault of its own, which it raises as no `Exception`."""


def without_panics(function: Callable[[], _T]) -> _T:
    """Call a function of the engine, whose panics become errors."""
    try:
        return function()
    except BaseException as error:
        if type(error).__name__ != "PanicException":  # its class cannot be imported
            raise
        raise EnginePanic(f"the engine failed by a fault of its own: {error}") from None


def call_engine(function: Callable[[], _T]) -> _T:
    """Call a function of the engine, which may be interrupted in a run and by Ctrl-C.

    Raises
    ------
    EnginePanic
        It panics.
    """
    call = _CALL.get()
    if call is not None:
        result: _T = call(lambda: without_panics(function))
        return result
    beside = _is_attended()
    return _called_beside(lambda: call_engine(function)) if beside else without_panics(function)


def attended(function: Callable[_P, _T]) -> Callable[_P, _T]:
    """Let a function compute in another thread, for which this one waits until Ctrl-C.

    Ctrl-C is raised between any two steps of the main thread.  Raised in what the engine calls
    back, it would be an error of the engine; in between, it would leave caches half changed; and
    the engine itself looks for it between its batches alone, of which one of a join may take many
    seconds.  Where signals cannot come, in other threads or within such a function, it is called.
    """

    @functools.wraps(function)
    def call(*arguments: _P.args, **named: _P.kwargs) -> _T:
        if not _is_attended():
            return function(*arguments, **named)
        return _called_beside(lambda: function(*arguments, **named))

    return call


def _is_attended() -> bool:
    """Return whether this is the thread in which signals arrive, and whether any raises."""
    return threading.current_thread() is threading.main_thread() and any(
        callable(signal.getsignal(number)) for number in (signal.SIGINT, signal.SIGTERM)
    )


def _called_beside(function: Callable[[], _T]) -> _T:
    """Call a function in another thread; Ctrl-C ends it, and the wait for it."""
    work: Work[_T] = Work(b"", math.inf, AssertionError)
    ended = threading.Lock()  # not an event: its Python code is what Ctrl-C would leave half done
    context = contextvars.copy_context()
    context.run(errors.CALLER.set, threading.get_ident())

    def compute() -> None:
        if work.error is None:
            context.run(work.run, lambda: iter([function()]))
        ended.release()

    ended.acquire()
    try:
        _CALLS.put(compute)
        has_thread = bool(_IDLE)
        while True:
            if not has_thread:
                # Not `Thread.start`, which waits in Python: Ctrl-C may leave the lock of it held.
                _thread.start_new_thread(_begin_serving, (work,))
            if ended.acquire(timeout=_LOOK_SECONDS) or work.error is not None:
                break  # not every Ctrl-C ends the wait
            has_thread = work.has_begun  # the idle one has ended meanwhile
    except BaseException:
        work.stop(CancelledWork())
        if not work.has_ended.is_set():
            ended.acquire(timeout=_LAST_SECONDS)
        raise
    if work.error is None:
        return work.results.get()
    # It would hold the frame that holds it, and what no thread has begun is not to begin later.
    error, work.error = work.error, CancelledWork()
    try:
        raise error
    finally:
        del error


def _begin_serving(work: Work[Any]) -> None:
    try:
        threading.Thread(target=_serve, name="daf-attended", daemon=True).start()
    except BaseException as error:  # noqa: BLE001 - it is raised where the result is awaited
        work.error = error


def _serve() -> None:
    """Call what the main thread waits for, until it has waited for nothing for a while."""
    while True:
        _IDLE.append(None)
        try:
            call = _CALLS.get(timeout=_IDLE_SECONDS)
        except queue.Empty:
            return
        finally:
            _IDLE.pop()
        call()
        del call  # it holds what it has returned


class Limits:
    """What a server gives at most: positive numbers, whole but for seconds; some may be None."""

    _unlimited: ClassVar[frozenset[str]] = frozenset()
    """Those that may be None, which is no limit."""

    def __post_init__(self) -> None:
        for name, value in vars(self).items():
            if value is None and name in self._unlimited:
                continue
            if not name.endswith("seconds"):
                positive_number(value, name)
            elif not (isinstance(value, Real) and float(value) > 0):
                raise errors.InvalidInputError(f"{name}= has to be positive, not {value!r}")


def fault(server: str, error: BaseException) -> str:
    """Log an error that is a fault of a server, and return the sentence for clients."""
    print(f"{server}:", *traceback.format_exception(error), file=sys.stderr)  # noqa: T201 - the log of a server
    return "the server failed at this request, which is a fault of it: its own log says why"

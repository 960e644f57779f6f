"""Threads that read: of our own, several partitions side by side; and those of engines.

Engines read tables in threads of their own, and go on for a moment after their consumer has all
that it wants (``LIMIT 3``).  A thread that asks for Python while the interpreter is torn down is
ended by it in the middle of native code, which aborts the process.  So the end of the interpreter
waits until no batch is being made, and none is made after that.
"""

from __future__ import annotations

import atexit
import concurrent.futures
import os
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from typing import Any, Final, TypeVar

from daf_query._runs import CancelledWork, checking, current_check
from daf_query.scan._plan import balanced
from daf_storage import errors
from daf_storage.base import Span, kept_threads

_T = TypeVar("_T")

_MIN_ROWS: Final = 1 << 19
"""Fewer are read sooner than a thread takes them."""
_MOST_THREADS: Final = os.cpu_count() or 1


def side_by_side(
    work: Callable[[Sequence[Span]], _T], partitions: Sequence[Span], *, threads: int
) -> list[_T]:
    """Return what a function makes of some partitions each; where they are long, by threads.

    >>> side_by_side(len, [Span(0, 1 << 20), Span(1 << 20, 1 << 21)], threads=2)
    [1, 1]
    >>> side_by_side(len, [], threads=2)
    [0]
    """
    rows = sum(span.size for span in partitions)
    count = min(threads, max(rows // _MIN_ROWS, 1))
    groups = balanced(partitions, lambda span: span.size, max_groups=count) or [[]]
    if len(groups) == 1:
        return [work(groups[0])]
    return _in_threads(work, groups)


def _in_threads(work: Callable[[Sequence[Span]], _T], groups: Sequence[Sequence[Span]]) -> list[_T]:
    """Return what a function makes of groups; where one fails, or is interrupted, all end.

    The caller takes the first one, and then those that no thread has begun: so it never waits for
    threads that are busy with what waits for it.
    """
    has_failed = threading.Event()
    check_outer = current_check()

    def check() -> None:
        if has_failed.is_set():
            raise CancelledWork
        if check_outer is not None:
            check_outer()

    def checked(group: Sequence[Span]) -> _T:
        try:
            with checking(check):
                return work(group)
        except BaseException:
            has_failed.set()
            raise

    threads = kept_threads("scan", _MOST_THREADS)
    others = [threads.submit(checked, group) for group in groups[1:]]
    try:
        found = [checked(groups[0])]
        for future, group in zip(others, groups[1:], strict=True):
            found.append(checked(group) if future.cancel() else future.result())
    except BaseException as error:  # noqa: BLE001 - Ctrl-C, too: threads know nothing of it
        has_failed.set()
        failures = [error, *_failures(others)]
        raise min(failures, key=lambda failure: isinstance(failure, CancelledWork)) from None
    return found


def _failures(futures: Sequence[Future[_T]]) -> list[BaseException]:
    """Return what tasks raised that were begun, when none of them runs any more."""
    begun = [future for future in futures if not future.cancel()]
    concurrent.futures.wait(begun)
    return [error for future in begun if (error := future.exception()) is not None]


_QUIET_SECONDS: Final = 0.02
_QUIET_WHILE_OPEN_SECONDS: Final = 0.1
_POLL_SECONDS: Final = 0.002


class _Readers:
    """Which batches are being made, by any thread; single steps are atomic as they are."""

    def __init__(self) -> None:
        self.is_ending = False
        self.opened: set[object] = set()
        self.running: set[object] = set()
        self.last_step = float("-inf")

    def end(self) -> None:
        """Let no more batches be made, and wait for those that are being made.

        A reader that nobody asks for more stays open; one that is asked again is at its end.
        """
        self.is_ending = True
        while self.running or self._is_recent():
            time.sleep(_POLL_SECONDS)

    def _is_recent(self) -> bool:
        quiet = _QUIET_WHILE_OPEN_SECONDS if self.opened else _QUIET_SECONDS
        return time.monotonic() - self.last_step < quiet

    def forget(self) -> None:
        """Forget the readers of the process that was forked: their threads are not here."""
        self.opened.clear()
        self.running.clear()


_readers = _Readers()
atexit.register(_readers.end)
os.register_at_fork(after_in_child=_readers.forget)


def until_interpreter_ends(batches: Iterator[_T]) -> Iterator[_T]:
    """Yield what an engine reads; the end of the interpreter waits for it, and stops it.

    Raises
    ------
    InUseError
        The interpreter is ending.

    Examples
    --------
    >>> list(until_interpreter_ends(iter([1, 2])))
    [1, 2]
    """
    reader = object()
    end: Any = object()
    _readers.opened.add(reader)
    try:
        while True:
            _readers.running.add(reader)
            try:
                if _readers.is_ending:
                    raise errors.InUseError(
                        "the interpreter is ending, so this query is not read to its end"
                    )
                batch = next(batches, end)
            finally:
                _readers.last_step = time.monotonic()
                _readers.running.discard(reader)
            if batch is end:
                return
            yield batch
    finally:
        _readers.opened.discard(reader)

"""Partitions that several threads read side by side."""

from __future__ import annotations

import concurrent.futures
import os
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from typing import Final, TypeVar

from daf_query._runs import CancelledWork, checking, current_check
from daf_query.scan._partition import balanced
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

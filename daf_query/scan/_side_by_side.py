"""Partitions that several threads read side by side."""

from __future__ import annotations

import concurrent.futures
import threading
from collections.abc import Callable, Sequence
from typing import Final, TypeVar

from daf_query._cancellation import CancelledWork, checking, current_check
from daf_query.scan._partition import balanced
from daf_storage.spi import Span

_T = TypeVar("_T")

_MIN_ROWS: Final = 1 << 19
"""Fewer are read sooner than a thread begins."""


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
    """Return what a function makes of groups; where one fails, or is interrupted, all end."""
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

    with concurrent.futures.ThreadPoolExecutor(len(groups), thread_name_prefix="daf-scan") as pool:
        futures = [pool.submit(checked, group) for group in groups]
        try:
            concurrent.futures.wait(futures, return_when=concurrent.futures.FIRST_EXCEPTION)
        except BaseException:  # Ctrl-C arrives here: the threads know nothing of it
            has_failed.set()
            raise
    errors = [error for future in futures if (error := future.exception()) is not None]
    for error in sorted(errors, key=lambda error: isinstance(error, CancelledWork)):
        raise error
    return [future.result() for future in futures]

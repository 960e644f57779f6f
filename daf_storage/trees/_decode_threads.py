"""The threads that decode chunks, as many as cores, and those that wait for servers, a few more.

They are shared by all arrays of the process.  Decompression releases the interpreter's lock, and so
does numpy when it copies.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future
from typing import Final, TypeVar

from daf_storage.base import kept_threads

_T = TypeVar("_T")
_R = TypeVar("_R")

THREADS: Final = os.cpu_count() or 1
"""How many tasks run at a time."""

_CONNECTIONS: Final = 16


def run_all(tasks: Iterable[Callable[[], object]]) -> None:
    """Run tasks side by side, which write their results themselves; a few wait at a time.

    They must not call this function: they would wait for their own threads.  A single one in a list
    is run by the caller.

    Raises
    ------
    Exception
        What the first of them raises, when none of them runs any more.

    Examples
    --------
    >>> seen = []
    >>> run_all([lambda: seen.append(1), lambda: seen.append(2)])
    >>> sorted(seen)
    [1, 2]
    """
    if isinstance(tasks, list) and len(tasks) == 1:
        tasks[0]()
        return
    for _ in computed(tasks):
        pass


def computed(tasks: Iterable[Callable[[], _R]]) -> Iterator[_R]:
    """Yield what tasks return, in their order; a few of them run, and wait to be taken, at a time.

    They must not call this function, nor `run_all`.

    >>> list(computed([lambda: 1, lambda: 2]))
    [1, 2]
    """
    if THREADS == 1:
        for task in tasks:
            yield task()
        return
    pending: deque[Future[_R]] = deque()
    try:
        for task in tasks:
            pending.append(kept_threads("decode", THREADS).submit(task))
            if len(pending) > 2 * THREADS:
                yield pending.popleft().result()
        while pending:
            yield pending.popleft().result()
    finally:
        for future in pending:
            if not future.cancel():
                future.exception()


def fetched(items: list[_T], fetch: Callable[[_T], _R]) -> Iterator[tuple[_T, _R]]:
    """Yield what is fetched for each item, in their order; several are fetched at a time.

    >>> list(fetched([1, 2], str))
    [(1, '1'), (2, '2')]
    """
    pending: deque[tuple[_T, Future[_R]]] = deque()
    try:
        for item in items:
            pending.append((item, kept_threads("fetch", _CONNECTIONS).submit(fetch, item)))
            if len(pending) > 2 * _CONNECTIONS:
                first, future = pending.popleft()
                yield first, future.result()
        while pending:
            first, future = pending.popleft()
            yield first, future.result()
    finally:
        for _, future in pending:
            future.cancel()

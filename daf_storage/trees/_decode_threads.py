"""The threads that decode chunks: as many as cores, for all arrays of the process.

Decompression releases the interpreter's lock, and so does numpy when it copies.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Final

from daf_storage.base import ForkLock

_THREADS: Final = os.cpu_count() or 1
_pools: dict[int, ThreadPoolExecutor] = {}
_lock: Final = ForkLock()


def run_all(tasks: Iterable[Callable[[], object]]) -> None:
    """Run tasks side by side, which write their results themselves; a few wait at a time.

    They must not call this function: they would wait for their own threads.

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
    if _THREADS == 1:
        for task in tasks:
            task()
        return
    pending: deque[Future[object]] = deque()
    try:
        for task in tasks:
            pending.append(_pool().submit(task))
            if len(pending) > 2 * _THREADS:
                pending.popleft().result()
        while pending:
            pending.popleft().result()
    finally:
        for future in pending:
            if not future.cancel():
                future.exception()


def _pool() -> ThreadPoolExecutor:
    """Return the threads of this process: a fork has none of its parent's."""
    pid = os.getpid()
    with _lock:
        pool = _pools.get(pid)
        if pool is None:
            _pools.clear()
            pool = _pools[pid] = ThreadPoolExecutor(_THREADS, thread_name_prefix="daf-decode")
    return pool

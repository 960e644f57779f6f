"""Threads that stay for the next task: to begin one takes longer than many a task."""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from typing import Final

from daf_storage.base._forking import ForkLock

_pools: Final[dict[tuple[str, int, int], ThreadPoolExecutor]] = {}
_lock: Final = ForkLock()


def kept_threads(name: str, most: int) -> ThreadPoolExecutor:
    """Return the threads of this process for one purpose; they are begun as they are needed.

    A fork has none of its parent's, and gets its own.

    Parameters
    ----------
    name
        What they are for; a part of their names.
    most
        How many there are at the most.

    Examples
    --------
    >>> kept_threads("example", 2).submit(len, "abc").result()
    3
    >>> kept_threads("example", 2) is kept_threads("example", 2)
    True
    """
    key = (name, most, os.getpid())
    with _lock:
        pool = _pools.get(key)
        if pool is None:
            pool = _pools[key] = ThreadPoolExecutor(most, thread_name_prefix=f"daf-{name}")
    return pool

"""Reduce blocks on all cores; the results come in the order of the blocks."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import Final, TypeVar

from daf_query._runs import check_cancelled

_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class BlockOptions:
    """How a matrix is cut into blocks, and how many are reduced at a time."""

    elements: int = 1 << 18
    """About how many elements a block has: as many as fit the cache of a core."""
    window_elements: int = 1 << 24
    """Within how many stored elements rows are taken group by group, not in their order."""
    threads: int = os.cpu_count() or 1
    """How many blocks are reduced at a time."""


DEFAULT_BLOCKS: Final = BlockOptions()
"""For all sizes."""


def in_order(
    tasks: Iterable[Callable[[], _T]], *, threads: int, ahead: int | None = None
) -> Iterator[_T]:
    """Yield the results of tasks in their order; few more are begun than there are threads.

    Parameters
    ----------
    ahead
        How many results may wait for those before them; twice the threads by default.

    Examples
    --------
    >>> list(in_order([lambda: 1, lambda: 2], threads=2))
    [1, 2]
    """
    if threads == 1:
        for task in tasks:
            check_cancelled()
            yield task()
        return
    most = 2 * threads if ahead is None else ahead
    pending: deque[Future[_T]] = deque()
    with ThreadPoolExecutor(threads, thread_name_prefix="daf-moments") as pool:
        try:
            for task in tasks:
                check_cancelled()
                pending.append(pool.submit(task))
                if len(pending) > most:
                    yield pending.popleft().result()
            while pending:
                yield pending.popleft().result()
        finally:
            for future in pending:
                future.cancel()

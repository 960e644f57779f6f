"""The threads that decode chunks, as many as cores, and those that wait for servers, a few more.

They are shared by all arrays of the process.  Decompression releases the interpreter's lock, and so
does numpy when it copies: blocks of arrays are copied and compared on all cores too, where a mapped
page is first touched by the thread.
"""

from __future__ import annotations

import functools
import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future
from typing import Final, TypeVar

import numpy as np

from daf_storage.base import AnyArray, kept_threads
from daf_storage.stores import put_values

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
        yield from _in_order(tasks, pending, "decode", THREADS)
    finally:
        for future in pending:
            if not future.cancel():
                future.exception()


def fetched(items: list[_T], fetch: Callable[[_T], _R]) -> Iterator[tuple[_T, _R]]:
    """Yield what is fetched for each item, in their order; several are fetched at a time.

    >>> list(fetched([1, 2], str))
    [(1, '1'), (2, '2')]
    """
    pending: deque[Future[_R]] = deque()
    tasks = (functools.partial(fetch, item) for item in items)
    try:
        yield from zip(items, _in_order(tasks, pending, "fetch", _CONNECTIONS), strict=True)
    finally:
        for future in pending:
            future.cancel()


def _in_order(
    tasks: Iterable[Callable[[], _R]], pending: deque[Future[_R]], pool: str, threads: int
) -> Iterator[_R]:
    """Yield what tasks return; those that are not taken yet are pending."""
    for task in tasks:
        pending.append(kept_threads(pool, threads).submit(task))
        if len(pending) > 2 * threads:
            yield pending.popleft().result()
    while pending:
        yield pending.popleft().result()


_PIECE_BYTES: Final = 1 << 21


def fill_blocks(out: AnyArray, blocks: Iterable[AnyArray]) -> None:
    """Fill an array with consecutive ranges of its first dimension."""
    start = 0
    for block in blocks:
        copy_block(out[start : start + len(block)], block)
        start += len(block)


def copy_block(target: AnyArray, block: AnyArray) -> None:
    """Copy an array into another one of the same shape, piece by piece.

    Examples
    --------
    >>> out = np.zeros((2, 3), np.int32)
    >>> copy_block(out, np.ones((2, 3), np.uint8))
    >>> out.tolist()
    [[1, 1, 1], [1, 1, 1]]
    """
    if target.nbytes <= _PIECE_BYTES:
        put_values(target, block)
        return
    if target.flags.c_contiguous and block.flags.c_contiguous:
        target, block = target.reshape(-1), block.reshape(-1)
    run_all(functools.partial(put_values, target[piece], block[piece]) for piece in _pieces(target))


def has_equal_bytes(one: AnyArray, other: AnyArray) -> bool:
    """Return whether two arrays of one shape and type have the same bytes.

    NaN is then equal to itself, and -0 is not 0.

    Examples
    --------
    >>> has_equal_bytes(np.array([0.0, np.nan]), np.array([0.0, np.nan]))
    True
    >>> has_equal_bytes(np.array([0.0]), np.array([-0.0]))
    False
    """
    opaque = f"u{one.dtype.itemsize}"
    first, second = (np.ascontiguousarray(each).reshape(-1).view(opaque) for each in (one, other))
    return np.array_equal(first, second)


def _pieces(values: AnyArray) -> Iterator[slice]:
    """Yield ranges of the first dimension of about 2 MiB."""
    row_bytes = max(values.nbytes // max(len(values), 1), 1)
    step = max(_PIECE_BYTES // row_bytes, 1)
    for start in range(0, len(values), step):
        yield slice(start, start + step)

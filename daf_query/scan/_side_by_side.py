"""Partitions that several threads read side by side."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Final, TypeVar

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
    with ThreadPoolExecutor(len(groups), thread_name_prefix="daf-scan") as pool:
        return list(pool.map(work, groups))

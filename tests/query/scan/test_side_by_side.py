"""Partitions that are read side by side: by the caller, and by threads that stay."""

from __future__ import annotations

import threading
from collections.abc import Sequence

import pytest

from daf_query._runs import CancelledWork, check_cancelled, checking
from daf_query.scan import side_by_side
from daf_storage.base import Span

SPANS = [Span(n << 20, (n + 1) << 20) for n in range(4)]


def starts(group: Sequence[Span]) -> list[int]:
    """Return where partitions begin."""
    return [span.start >> 20 for span in group]


def test_results_are_in_the_order_of_the_partitions() -> None:
    """Whoever made them."""
    assert side_by_side(starts, SPANS, threads=4) == [[0], [1], [2], [3]]
    assert side_by_side(starts, SPANS, threads=2) == [[0, 1], [2, 3]]
    assert side_by_side(starts, SPANS, threads=1) == [[0, 1, 2, 3]]


def test_the_caller_takes_what_no_thread_has_begun() -> None:
    """Threads that are busy, or that wait for this work, keep nobody waiting."""

    def nested(group: Sequence[Span]) -> list[list[int]]:
        return side_by_side(starts, [*group, *group], threads=2)

    found = side_by_side(nested, SPANS, threads=4)
    assert found == [[[n], [n]] for n in range(4)]


@pytest.mark.parametrize("failing", [0, 1])
def test_the_error_of_one_ends_all(failing: int) -> None:
    """It is raised, and not that the others were cancelled; none runs any more."""
    has_failed = threading.Event()
    running = set[int]()

    def work(group: Sequence[Span]) -> None:
        [number] = starts(group)
        if number == failing:
            has_failed.set()
            raise ValueError(f"number {number}")
        running.add(number)
        has_failed.wait()
        try:
            while True:
                check_cancelled()
        finally:
            running.remove(number)

    with pytest.raises(ValueError, match=f"number {failing}"):
        side_by_side(work, SPANS[:2], threads=2)
    assert not running


def test_ctrl_c_in_the_caller_ends_the_threads() -> None:
    """It arrives in the caller alone."""
    has_begun = threading.Event()
    ended: list[int] = []

    def work(group: Sequence[Span]) -> None:
        [number] = starts(group)
        if number == 0:
            has_begun.wait()
            raise KeyboardInterrupt
        has_begun.set()
        try:
            while True:
                check_cancelled()
        except CancelledWork:
            ended.append(number)
            raise

    with pytest.raises(KeyboardInterrupt):
        side_by_side(work, SPANS[:2], threads=2)
    assert ended == [1]


def test_threads_ask_what_the_caller_asks() -> None:
    """A query that is given up ends in all of them."""

    class GivenUpError(Exception):
        pass

    def give_up() -> None:
        raise GivenUpError

    def work(_: Sequence[Span]) -> None:
        while True:
            check_cancelled()

    with checking(give_up), pytest.raises(GivenUpError):
        side_by_side(work, SPANS, threads=3)

"""Work that ends early: whoever computes asks between its steps, and whoever waits says so.

A step of Python cannot be interrupted from outside without leaving locks and caches half changed.
So long work calls `check_cancelled` between its steps, where it may end.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from typing import Final, TypeAlias

Check: TypeAlias = Callable[[], None]
"""Raises what ends the work of a thread, if it is to end."""

_CHECK: Final[ContextVar[Check | None]] = ContextVar("check", default=None)
"""What the work of this thread asks; None if it is never cancelled."""


class CancelledWork(BaseException):
    """Ends work whose results nobody waits for; no handler of errors takes it for one."""


def check_cancelled() -> None:
    """Raise what ends the work of this thread, if it is to end.

    >>> check_cancelled()
    """
    check = _CHECK.get()
    if check is not None:
        check()


def checked(progress: Callable[[int], None]) -> Callable[[int], None]:
    """Return what reports a step that is done, and ends the work there if it is to end."""

    def report(done: int) -> None:
        check_cancelled()
        progress(done)

    return report


def current_check() -> Check | None:
    """Return what the work of this thread asks, for threads that do parts of it."""
    return _CHECK.get()


@contextlib.contextmanager
def checking(check: Check) -> Iterator[None]:
    """Make the work of this block ask ``check`` whether it is to end."""
    token = _CHECK.set(check)
    try:
        yield
    finally:
        _CHECK.reset(token)

"""Pauses of Python's cyclic garbage collector, while thousands of objects are made that stay.

The collector looks at all objects again each time that a quarter more are there.  While thousands
of data sets are opened, hardly anything of what is made is garbage, and to look for it takes up to
a third of the time.  Reference counting goes on, so what no cycle holds is freed as ever.
"""

from __future__ import annotations

import gc
import os
from types import TracebackType
from typing import Final

from daf_storage.base._forking import ForkLock

MIN_PAUSED_MEMBERS: Final = 64
"""Of fewer data sets the collector is left alone: it takes a few milliseconds."""


class _Pauses:
    """How many blocks of this process are paused now, of all threads, and what was before."""

    def __init__(self) -> None:
        self._lock = ForkLock()
        self._count = 0
        self._was_enabled = False
        self._forks = 0

    def enter(self) -> int:
        """Pause; return what `leave` is to be called with."""
        with self._lock:
            if not self._count:
                self._was_enabled = gc.isenabled()
                gc.disable()
            self._count += 1
            return self._forks

    def leave(self, forks: int) -> None:
        """End a pause; the last one restores what was before the first."""
        with self._lock:
            if forks != self._forks:  # it began in the parent of this process
                return
            self._count -= 1
            if not self._count and self._was_enabled:
                gc.enable()

    def start_again(self) -> None:
        """End all pauses: the threads that would end them are not in a forked process."""
        self._forks += 1
        if self._count and self._was_enabled:
            gc.enable()
        self._count = 0


_PAUSES: Final = _Pauses()
os.register_at_fork(after_in_child=_PAUSES.start_again)


class paused_collection:  # noqa: N801 - used as a statement, as contextlib names such
    """Pause the cyclic garbage collector within a block, if many data sets are looked at there.

    Blocks may be nested, and be in several threads: the last one to end restores what was before
    the first one, also after an exception.  Whoever has disabled the collector finds it disabled.

    Parameters
    ----------
    members
        How many data sets there are; of fewer than `MIN_PAUSED_MEMBERS`, nothing happens.

    Examples
    --------
    >>> import gc
    >>> with paused_collection(10_000):
    ...     gc.isenabled()
    False
    >>> gc.isenabled()
    True
    """

    def __init__(self, members: int) -> None:
        self._is_needed = members >= MIN_PAUSED_MEMBERS
        self._forks = 0

    def __enter__(self) -> None:
        if self._is_needed:
            self._forks = _PAUSES.enter()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._is_needed:
            _PAUSES.leave(self._forks)

"""Pauses of Python's cyclic garbage collector, while thousands of objects are made that stay.

The collector looks at all objects again each time that a quarter more are there.  While thousands
of data sets are opened, hardly anything of what is made is garbage, and to look for it takes up to
a third of the time.  Reference counting goes on, so what no cycle holds is freed as ever.
"""

from __future__ import annotations

import gc
import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from daf_storage.base._forking import ForkLock

MIN_PAUSED_MEMBERS: Final = 64
"""Of fewer data sets the collector is left alone: it takes a few milliseconds."""


class _Pauses:
    """The blocks of this process that are paused now, of all threads, and what was before."""

    def __init__(self) -> None:
        self._lock = ForkLock()
        self._blocks: set[object] = set()
        self._was_enabled = False

    def enter(self, block: object) -> None:
        """Pause for a block."""
        with self._lock:
            if not self._blocks:
                self._was_enabled = gc.isenabled()
            self._blocks.add(block)
            gc.disable()

    def leave(self, block: object) -> None:
        """End the pause of a block, if it is one; the last restores what was before the first."""
        with self._lock:
            if self._blocks == {block} and self._was_enabled:
                gc.enable()
            self._blocks.discard(block)

    def start_again(self) -> None:
        """End all pauses: the threads that would end them are not in a forked process."""
        if self._blocks and self._was_enabled:
            gc.enable()
        self._blocks.clear()


_PAUSES: Final = _Pauses()
os.register_at_fork(after_in_child=_PAUSES.start_again)


@contextmanager
def paused_collection(members: int) -> Iterator[None]:
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
    >>> gc.enable()
    >>> with paused_collection(10_000):
    ...     gc.isenabled()
    False
    >>> gc.isenabled()
    True
    """
    if members < MIN_PAUSED_MEMBERS:
        yield
        return
    block = object()
    try:  # Ctrl-C may come before it is entered, and as soon as it is
        _PAUSES.enter(block)
        yield
    finally:
        _PAUSES.leave(block)

"""Limits of forked processes: the threads of libraries, and locks that other threads held.

``fork`` copies the memory of a process and only the thread that called it.  Whoever waits in the
child for one of the others waits for ever, so that is refused, or avoided.
"""

from __future__ import annotations

import _thread
import os
import weakref
from typing import Final

from daf_storage import errors


class ThreadedLibrary:
    """A library that starts threads once in a process, and waits for them ever after.

    Parameters
    ----------
    what
        What it does, for messages.
    start
        What starts its threads, for messages.
    """

    def __init__(self, what: str, *, start: str) -> None:
        self._what = what
        self._start = start
        self._pid: int | None = None

    def note_start(self) -> None:
        """Note that its threads are in this process, unless they are in another already."""
        if self._pid is None:
            self._pid = os.getpid()

    def check(self) -> None:
        """Refuse to use it where its threads are not.

        Raises
        ------
        ForkedProcessError
            They are in another process, of which this one is a fork.
        """
        if self._pid not in (None, os.getpid()):
            raise errors.ForkedProcessError(
                f"process {os.getpid()} was forked from process {self._pid} after {self._start} "
                f"there, and has none of the threads of {self._what}, so {self._what} would never "
                "answer; start processes with multiprocessing.get_context('spawn') or "
                "'forkserver' (joblib does so by itself), or fork first and connect in the child"
            )

    def enter(self) -> None:
        """Check, and note that its threads are here from now on."""
        self.check()
        self.note_start()


SERVER_CLIENT = ThreadedLibrary("the client of servers", start="something was read from a server")
"""What asks servers: the library obstore, whose threads serve all of its stores."""


class ForkLock(_thread.RLock):  # type: ignore[misc]  # final in the stubs alone
    """A reentrant lock that is free in a forked process, whoever held it in the parent.

    To enter and to leave it runs no code of Python, within which Ctrl-C could come: between taking
    a lock and the block that gives it back, it would leave the lock held for ever.

    Examples
    --------
    >>> lock = ForkLock()
    >>> with lock, lock:
    ...     print("held twice by one thread")
    held twice by one thread
    """

    def __init__(self) -> None:
        _locks.add(self)


_locks: Final[weakref.WeakSet[ForkLock]] = weakref.WeakSet()


def _free_locks() -> None:
    """Free all locks, in the child: none of the threads that held them is there."""
    for lock in _locks:
        lock._at_fork_reinit()  # type: ignore[attr-defined]  # noqa: SLF001 - as logging does


os.register_at_fork(after_in_child=_free_locks)

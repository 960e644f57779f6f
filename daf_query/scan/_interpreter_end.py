"""The end of the interpreter while threads of an engine still read: they are stopped before it.

Engines read tables in threads of their own, and go on for a moment after their consumer has all
that it wants (``LIMIT 3``).  A thread that asks for Python while the interpreter is torn down is
ended by it in the middle of native code, which aborts the process.  So the end of the interpreter
waits until no batch is being made, and none is made after that.
"""

from __future__ import annotations

import atexit
import os
import time
from collections.abc import Iterator
from typing import Any, Final, TypeVar

from daf_storage import errors

_T = TypeVar("_T")

_QUIET_SECONDS: Final = 0.02
_QUIET_WHILE_OPEN_SECONDS: Final = 0.1
_POLL_SECONDS: Final = 0.002


class _Readers:
    """Which batches are being made, by any thread; single steps are atomic as they are."""

    def __init__(self) -> None:
        self.is_ending = False
        self.opened: set[object] = set()
        self.running: set[object] = set()
        self.last_step = float("-inf")

    def end(self) -> None:
        """Let no more batches be made, and wait for those that are being made.

        A reader that nobody asks for more stays open; one that is asked again is at its end.
        """
        self.is_ending = True
        while self.running or self._is_recent():
            time.sleep(_POLL_SECONDS)

    def _is_recent(self) -> bool:
        quiet = _QUIET_WHILE_OPEN_SECONDS if self.opened else _QUIET_SECONDS
        return time.monotonic() - self.last_step < quiet

    def forget(self) -> None:
        """Forget the readers of the process that was forked: their threads are not here."""
        self.opened.clear()
        self.running.clear()


_readers = _Readers()
atexit.register(_readers.end)
os.register_at_fork(after_in_child=_readers.forget)


def until_interpreter_ends(batches: Iterator[_T]) -> Iterator[_T]:
    """Yield what an engine reads; the end of the interpreter waits for it, and stops it.

    Raises
    ------
    InUseError
        The interpreter is ending.

    Examples
    --------
    >>> list(until_interpreter_ends(iter([1, 2])))
    [1, 2]
    """
    reader = object()
    end: Any = object()
    _readers.opened.add(reader)
    try:
        while True:
            _readers.running.add(reader)
            try:
                if _readers.is_ending:
                    raise errors.InUseError(
                        "the interpreter is ending, so this query is not read to its end"
                    )
                batch = next(batches, end)
            finally:
                _readers.last_step = time.monotonic()
                _readers.running.discard(reader)
            if batch is end:
                return
            yield batch
    finally:
        _readers.opened.discard(reader)

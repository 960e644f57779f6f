"""Signals that end a command: it cleans up, and its exit code is 128 + the signal."""

from __future__ import annotations

import signal
import time
from types import FrameType
from typing import Final

_SIGNALS: Final = (signal.SIGTERM, signal.SIGHUP)
_REPEATED_SECONDS: Final = 5.0


class Terminated(SystemExit):
    """The process was asked to end by a signal."""

    def __init__(self, number: int) -> None:
        self.signal = signal.Signals(number)
        self.exit_code = 128 + number
        super().__init__(self.exit_code)


class _Handler:
    """Raises `Terminated` in the main thread, so that what is half done is discarded.

    A second signal within a few seconds, as some programs send it, is ignored: cleaning up is not
    interrupted.
    """

    def __init__(self) -> None:
        self._last = -_REPEATED_SECONDS

    def __call__(self, number: int, _: FrameType | None) -> None:
        now = time.monotonic()
        is_new, self._last = now - self._last >= _REPEATED_SECONDS, now
        if is_new:
            raise Terminated(number)


def end_in_order() -> None:
    """Let the process clean up when it is asked to end; what is ignored (``nohup``) stays so."""
    handler = _Handler()
    for number in _SIGNALS:
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, handler)

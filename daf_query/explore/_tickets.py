"""Tickets: words that nobody can guess, each good for one use, for a short time."""

from __future__ import annotations

import secrets
import threading
import time
from collections import OrderedDict
from collections.abc import Callable
from typing import Final, Generic, TypeVar

_T = TypeVar("_T")

_TICKET_BYTES: Final = 24
_MOST: Final = 100
_SECONDS: Final = 60.0


class Tickets(Generic[_T]):
    """What was asked for, by tickets; the oldest are forgotten if there are too many.

    Parameters
    ----------
    clock
        Returns seconds, of which only differences count.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._asked: OrderedDict[str, tuple[float, _T]] = OrderedDict()

    def __len__(self) -> int:
        with self._lock:
            return len(self._asked)

    def add(self, asked: _T) -> str:
        """Return a new ticket."""
        ticket = secrets.token_urlsafe(_TICKET_BYTES)
        now = self._clock()
        with self._lock:
            self._asked[ticket] = (now + _SECONDS, asked)
            while len(self._asked) > _MOST or self._oldest_expires() <= now:
                self._asked.popitem(last=False)
        return ticket

    def _oldest_expires(self) -> float:
        return next(iter(self._asked.values()))[0]

    def take(self, ticket: str) -> _T | None:
        """Return what a ticket is for, once; None if it is unknown, was used or has expired."""
        with self._lock:
            expires, asked = self._asked.pop(ticket, (0.0, None))
        return asked if self._clock() < expires else None

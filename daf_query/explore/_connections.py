"""Connections to the explorer: only so many, so that those that say nothing keep nobody out.

Without an end to them the process has no descriptors left, and accepts nothing any more.
"""

from __future__ import annotations

import asyncio
from typing import Any, Final

from uvicorn.protocols.http.h11_impl import H11Protocol

MOST: Final = 64
"""A browser opens six for a page."""


class Connection(H11Protocol):  # type: ignore[misc] # uvicorn has no types
    """One connection, which gives way if it has waited longest for a whole request."""

    def __init__(self, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **named)
        self._waits_since = 0.0
        self._gives_way = False

    def connection_made(self, transport: asyncio.Transport) -> None:
        """Count the connection; if it is one too many, one of those that wait is closed."""
        super().connection_made(transport)
        self._waits_since = self.loop.time()
        there = [each for each in self.connections if not each._gives_way]  # noqa: SLF001 - our own
        if len(there) > MOST:
            waiting = [each for each in there if each._is_waiting()]  # noqa: SLF001 - our own
            min(waiting, key=lambda each: each._waits_since)._give_way()  # noqa: SLF001 - our own

    def on_response_complete(self) -> None:
        """Wait for the next request."""
        self._waits_since = self.loop.time()
        super().on_response_complete()

    def _is_waiting(self) -> bool:
        """Return whether no request is being answered: none came, or not the whole of it."""
        cycle = self.cycle
        is_answered = cycle is not None and not (cycle.response_complete or cycle.more_body)
        return self.transport.is_closing() or not is_answered

    def _give_way(self) -> None:
        self._gives_way = True
        self.transport.abort()  # what is not sent yet is not waited for

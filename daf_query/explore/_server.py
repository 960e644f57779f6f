"""The server: connections, and its thread.

Connections are only so many, and those that say nothing end: without that the process would have
no descriptors left, and accept nothing any more.
"""

from __future__ import annotations

import asyncio
import secrets
import socket
import threading
from typing import Any, Final
from urllib.parse import urlencode

import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from daf_query._runs import Serving
from daf_query.explore._app import app
from daf_query.explore._explorer import ExploredData, ExploreLimits
from daf_query.session import DafSession
from daf_storage.upkeep import cannot_listen

_MOST: Final = 64
"""A browser opens six for a page."""


class _Connection(H11Protocol):  # type: ignore[misc] # uvicorn has no types
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
        if len(there) > _MOST:
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


_HOST: Final = "127.0.0.1"
_PORTS: Final = range(1 << 16)
_TOKEN_BYTES: Final = 24
_CLOSE_SECONDS: Final = 5.0
_BACKLOG: Final = 128


class ExploreServer(Serving):
    """Serves the explorer to programs of this machine that have its token.

    It runs as soon as it is made, in threads of its own; `close` or the end of ``with`` ends it.
    There are at most 64 connections; of those that have not sent a whole request, the one that has
    waited longest gives way to a new one.

    Parameters
    ----------
    source
        A session, which stays open when the server ends, or explored data.
    port
        By default, any that is free.
    limits
        What the server gives at most.

    Raises
    ------
    InUseError
        Another program listens at the port.

    Examples
    --------
    >>> import daf_query, daf_storage
    >>> daf = daf_storage.MemoryDaf(name="tiny")
    >>> daf.add_axis("cell", ["TATA", "GATA"])
    >>> with ExploreServer(daf_query.connect(daf)) as server:
    ...     server.url  # doctest: +ELLIPSIS
    'http://127.0.0.1:.../?token=...'
    """

    def __init__(
        self,
        source: DafSession | ExploredData,
        *,
        port: int = 0,
        limits: ExploreLimits | None = None,
    ) -> None:
        super().__init__()
        self.token: str = secrets.token_urlsafe(_TOKEN_BYTES)
        """Who has it may ask."""
        try:
            if port not in _PORTS:
                raise OverflowError
            listening = socket.create_server((_HOST, port), backlog=_BACKLOG)
        except (OSError, OverflowError) as error:
            raise cannot_listen(error, _HOST, port) from None
        self.port: int = listening.getsockname()[1]
        """Where it listens."""
        application = app(source, token=self.token, limits=limits)
        self._explorer = application.state.explorer
        self._server = _Server(
            uvicorn.Config(
                application,
                http=_Connection,
                log_config=None,
                access_log=False,
                lifespan="off",
                ws="none",
                server_header=False,
                proxy_headers=False,
                timeout_graceful_shutdown=2,
            )
        )
        self._thread = threading.Thread(
            target=self._server.run, args=([listening],), name="daf-explore", daemon=True
        )
        self._thread.start()  # the socket listens already: whoever connects is answered then

    @property
    def url(self) -> str:
        """The address of the page, with the token."""
        return f"http://{_HOST}:{self.port}/?token={self.token}"

    def page_url(self, *, query: str | None = None, color: str | None = None) -> str:
        """Return the address of the page with a query and a colour to start with.

        Parameters
        ----------
        query
            SQL that is run when the page opens; by default the first rows of an axis.
        color
            A vector, or a SQL expression, that colours the embedding; by default cell types.
        """
        return self.url + _fragment(query, color)

    def opening_url(self, *, query: str | None = None, color: str | None = None) -> str:
        """Return an address that leads to the page once, for the next minute.

        Parameters
        ----------
        query
            SQL that is run when the page opens.
        color
            A vector, or a SQL expression, that colours the embedding.
        """
        ticket = self._explorer.openings.add(f"/?token={self.token}{_fragment(query, color)}")
        return f"http://{_HOST}:{self.port}/open/{ticket}"

    @property
    def running_queries(self) -> int:
        """How many answers are computed at this moment."""
        running: int = self._explorer.runs.count + self._explorer.exports.count
        return running

    def _end(self) -> None:
        self._explorer.close()
        self._server.should_exit = True
        self._thread.join(_CLOSE_SECONDS)


def _fragment(query: str | None, color: str | None) -> str:
    """Return the state of the page as `link.ts` reads it; fragments are sent to no server."""
    state = {"sql": query, "expression": color}
    given = {name: value for name, value in state.items() if value is not None}
    return f"#{urlencode(given)}" if given else ""


class _Server(uvicorn.Server):  # type: ignore[misc] # uvicorn has no types
    """A server that keeps no connection when it has ended."""

    async def shutdown(self, sockets: Any = None) -> None:
        """End as uvicorn does, then close what clients have not read in that time."""
        await super().shutdown(sockets)
        for connection in list(self.server_state.connections):
            connection.transport.abort()
        await asyncio.sleep(0)  # in which they are closed

"""The connections of a server: only so many, and each request has to arrive in time.

It knows sockets, and nothing of HTTP.
"""

from __future__ import annotations

import contextlib
import io
import socket
import threading
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer


class Connections:
    """Counts the connections of a server, and hangs up where there are too many.

    Of those that have not sent a whole request, the one that has waited longest gives way to a new
    one.  Those that are being answered go on.

    Parameters
    ----------
    most
        How many there may be.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._lock = threading.Lock()
        self._waiting: dict[socket.socket, None] = {}
        self._answered: set[socket.socket] = set()

    def __len__(self) -> int:
        """Return how many there are."""
        return len(self._waiting) + len(self._answered)

    def admit(self, connection: socket.socket) -> bool:
        """Count a new connection; False if all others are being answered."""
        with self._lock:
            if len(self) >= self._most:
                if not self._waiting:
                    return False
                oldest = next(iter(self._waiting))
                del self._waiting[oldest]
                with contextlib.suppress(OSError):  # its client hung up before
                    oldest.shutdown(socket.SHUT_RDWR)  # wakes the thread that reads from it
            self._waiting[connection] = None
            return True

    def wait(self, connection: socket.socket) -> None:
        """Note that a connection waits for a request, from now on."""
        with self._lock:
            if connection in self._answered:
                self._answered.remove(connection)
                self._waiting[connection] = None

    def answer(self, connection: socket.socket) -> bool:
        """Note that the request is there; False if the connection was given up."""
        with self._lock:
            if connection not in self._waiting:
                return False
            del self._waiting[connection]
            self._answered.add(connection)
            return True

    def forget(self, connection: socket.socket) -> None:
        """Count a connection no longer."""
        with self._lock:
            self._waiting.pop(connection, None)
            self._answered.discard(connection)


class RequestReader(io.RawIOBase):
    """Reads requests from a socket, each of which has to be whole within some seconds.

    Parameters
    ----------
    clock
        What the time is, in seconds.
    """

    def __init__(
        self,
        connection: socket.socket,
        seconds: float,
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        super().__init__()
        self._connection = connection
        self._seconds = seconds
        self._clock = clock
        self.begin()

    def begin(self) -> None:
        """Wait for the next request, from now on."""
        self._deadline = self._clock() + self._seconds

    def readable(self) -> bool:
        """Return True."""
        return True

    def readinto(self, buffer: WriteableBuffer, /) -> int:
        """Read what there is.

        Raises
        ------
        TimeoutError
            The request is not whole in time, however many bytes of it came.
        """
        left = self._deadline - self._clock()
        if left <= 0:
            raise TimeoutError("the request took too long")
        self._connection.settimeout(left)
        try:
            return self._connection.recv_into(buffer)
        finally:
            self._connection.settimeout(self._seconds)

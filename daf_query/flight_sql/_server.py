"""A server of Flight SQL over a session: where it listens, who may ask, and how it ends."""

from __future__ import annotations

import ipaddress
import socket
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import pyarrow as pa

from daf_query._runs import Serving
from daf_query.flight_sql._answers import FlightSqlLimits, Statuses
from daf_query.flight_sql._authentication import Tokens
from daf_query.flight_sql._service import Service
from daf_query.session import DafSession, connect
from daf_storage import errors
from daf_storage.upkeep import cannot_listen

_CLOSE_SECONDS: Final = 5.0


class FlightSqlServer(Serving):
    """Answers SQL of other programs over Arrow Flight SQL, read-only.

    It runs as soon as it is made, in threads of its own; `close` or the end of ``with`` ends it.

    Parameters
    ----------
    source
        A session, or what `connect` takes.  A session stays open when the server ends; all else
        is closed.
    host
        The address to listen on; by default, programs of this machine alone can reach it.
    port
        By default, any that is free.
    tokens
        Who has one of these may ask; without any, everyone who can reach the server.
    tls
        The paths of a certificate and its key (PEM), to encrypt what travels.
    limits
        What the server gives at most.
    allow_anyone
        Whether other machines may ask without a token.

    Raises
    ------
    InvalidInputError
        Other machines could ask without a token, or the certificate is none.
    InUseError
        Another program listens at the port.

    Examples
    --------
    >>> import daf_storage
    >>> daf = daf_storage.MemoryDaf(name="tiny")
    >>> daf.add_axis("cell", ["TATA", "GATA"])
    >>> with FlightSqlServer(daf) as server:
    ...     server.uri  # doctest: +ELLIPSIS
    'grpc://127.0.0.1:...'
    """

    def __init__(
        self,
        source: Any,
        *,
        host: str = "127.0.0.1",
        port: int = 0,
        tokens: Sequence[str] = (),
        tls: tuple[str | Path, str | Path] | None = None,
        limits: FlightSqlLimits | None = None,
        allow_anyone: bool = False,
    ) -> None:
        super().__init__()
        accepted = Tokens(tokens)
        if not (tokens or allow_anyone or is_loopback(host)):
            raise errors.InvalidInputError(
                f"the address {host} can be reached from other machines, and everyone there could "
                "ask: give a token (--token-file, --token-env, or tokens= in Python), or say that "
                "it is meant so (--allow-anyone, or allow_anyone=True)"
            )
        _check_address(host, port)
        certificates = None if tls is None else [(_read(tls[0]), _read(tls[1]))]
        self._is_ours = not isinstance(source, DafSession)
        self._session: DafSession = connect(source) if self._is_ours else source
        scheme = "grpc" if tls is None else "grpc+tls"
        name = f"[{host}]" if ":" in host else host
        try:
            self._service = Service(
                self._session._served(),  # noqa: SLF001 - our own
                f"{scheme}://{name}:{port}",
                tokens=accepted,
                certificates=certificates,
                limits=limits or FlightSqlLimits(),
                statuses=Statuses(_locations(self._session)),
            )
        except (pa.ArrowException, OSError):
            self._close_session()
            given = "" if tls is None else f": are {tls[0]} and {tls[1]} a certificate and its key?"
            raise errors.InvalidInputError(f"cannot listen at {host}:{port}{given}") from None
        self.port: int = self._service.port
        """Where it listens."""
        self.uri = f"{scheme}://{name}:{self.port}"
        """The address for ADBC; JDBC writes it ``jdbc:arrow-flight-sql://HOST:PORT``."""

    @property
    def running_queries(self) -> int:
        """How many queries are planned or run at this moment."""
        return self._service.runs.count

    def _end(self) -> None:
        self._service.runs.close()
        # It waits for clients that have stopped to read their rows, perhaps for ever.
        ending = threading.Thread(target=self._service.shutdown, daemon=True)
        ending.start()
        ending.join(_CLOSE_SECONDS)
        self._close_session()

    def _close_session(self) -> None:
        if self._is_ours:
            self._session.close()


def _check_address(host: str, port: int) -> None:
    """Raise an error that says why, if an address cannot be listened on."""
    try:
        family = socket.getaddrinfo(host, None, flags=socket.AI_PASSIVE)[0][0]
        with socket.socket(family, socket.SOCK_STREAM) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind((host, port))
    except (OSError, OverflowError) as error:
        raise cannot_listen(error, host, port) from None


def is_loopback(host: str) -> bool:
    """Return whether an address is of this machine alone.

    >>> is_loopback("localhost"), is_loopback("::1"), is_loopback("0.0.0.0"), is_loopback("lab.org")
    (True, True, False, False)
    """
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _read(path: str | Path) -> bytes:
    try:
        return Path(path).read_bytes()
    except OSError as error:
        raise errors.from_os_error(error, str(path)) from None


def _locations(session: DafSession) -> dict[str, str]:
    """Return where each data set is, with the name that clients know it by."""
    connections = session._connections  # noqa: SLF001 - our own
    named: dict[str, str] = {}
    for name, schema in connections.schemas.items():
        named[schema.location] = name
        named |= {daf.location: name for daf in schema.readers().values()}
    named |= {table.location: name for name, table in connections.shared.items()}
    return named

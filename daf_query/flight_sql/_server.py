"""A server of Flight SQL over a session: where it listens, who may ask, and how it ends."""

from __future__ import annotations

import ipaddress
import socket
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
from pyarrow import flight

from daf_query._row_files import Rows, wire_parts
from daf_query._runs import Runs
from daf_query.flight_sql._answers import (
    ENDINGS,
    MESSAGES,
    AnyHandshake,
    FlightSqlLimits,
    InvalidRequest,
    NotSupported,
    SealedQuery,
    Seals,
    Statuses,
    Tokens,
    answering,
    bound_query,
    decoded,
    limit_reached,
    packed,
    unpacked,
    wrapped_in,
)
from daf_query.flight_sql._catalog import COMMANDS, Catalog
from daf_query.scan import plain_schema
from daf_query.session import DafSession, connect
from daf_query.sql import is_out_of_memory, unbound_schemas
from daf_storage import errors
from daf_storage.stores import os_errors
from daf_storage.upkeep import Serving, cannot_listen

_UPDATES: Final = (
    "CommandStatementUpdate",
    "CommandPreparedStatementUpdate",
    "CommandStatementIngest",
)
_PREPARED: Final = "CommandPreparedStatementQuery"
_CHANGES: Final = "BeginTransaction", "BeginSavepoint", "EndTransaction", "EndSavepoint"
_MORE_BYTES: Final = 1 << 10
"""How much longer a ticket may be than a query and what is bound to it."""
_CANCELLED: Final = 1
_NOT_CANCELLABLE: Final = 3
_SESSION_CLOSED: Final = 1


class Service(flight.FlightServerBase):  # type: ignore[misc] # pyarrow has no types
    """Answers the calls of clients about one session."""

    def __init__(
        self, session: DafSession, limits: FlightSqlLimits, statuses: Statuses, **how: Any
    ) -> None:
        self.statuses = statuses
        """What clients get as errors."""
        self.runs = Runs(ENDINGS, max_seconds=limits.max_seconds, max_queries=limits.max_queries)
        """The queries that run."""
        self._session = session
        self._limits = limits
        self._seals = Seals()
        self._catalog = Catalog(session, max_query_bytes=limits.max_query_bytes)
        super().__init__(auth_handler=AnyHandshake(), **how)

    @answering
    def get_flight_info(self, context: Any, descriptor: Any) -> flight.FlightInfo:
        """Plan a query, and return the ticket of its rows."""
        schema, ticket = self._described(context, descriptor, needs_values=True)
        endpoint = flight.FlightEndpoint(ticket, [])  # no location: where it was asked
        return flight.FlightInfo(schema, descriptor, [endpoint], -1, -1)

    @answering
    def get_schema(self, context: Any, descriptor: Any) -> flight.SchemaResult:
        """Return the columns of the answer to a command."""
        return flight.SchemaResult(self._described(context, descriptor)[0])

    @answering
    def do_get(self, context: Any, ticket: Any) -> flight.FlightDataStream:
        """Return the rows of a ticket, as they are computed."""
        self._check_size(ticket.ticket, "the ticket")
        name, body = wrapped_in(ticket.ticket)
        if name in COMMANDS:
            return flight.RecordBatchStream(self._catalog.answer(name, body)[1]())
        handle = unpacked("TicketStatementQuery", ticket.ticket).statement_handle
        sealed = self._seals.opened(handle)
        rows = self._started(
            sealed.query,
            lambda session: self._rows(session.sql(sealed.query).rows()),
            query_id=sealed.query_id,
            is_abandoned=context.is_cancelled,
        )
        schema = next(rows)
        return flight.GeneratorStream(schema, rows)

    @answering
    def do_put(self, context: Any, descriptor: Any, reader: Any, writer: Any) -> None:  # noqa: ARG002 - as it is called
        """Bind the parameters of a prepared statement; everything else would change something."""
        name, body = self._command(descriptor)
        if name != _PREPARED:
            raise _unknown(name)
        query = self._query(name, body).query
        bound = bound_query(query, reader, self._limits)
        self._check_size(
            bound.encode(), "the query with its parameters", self._limits.max_query_bytes
        )
        handle = self._seals.sealed(query, bound)
        result = MESSAGES.DoPutPreparedStatementResult(prepared_statement_handle=handle)
        writer.write(pa.py_buffer(result.SerializeToString()))

    @answering
    def do_action(self, context: Any, action: Any) -> Iterator[flight.Result]:  # noqa: ARG002 - as it is called
        """Do one of the actions of `list_actions`."""
        method = _ACTIONS.get(action.type)
        if method is None:
            if action.type in _CHANGES:
                raise NotSupported("this server only reads, and has no transactions")
            raise NotSupported(
                f"the server has no action {action.type[:100]!r}; it has {', '.join(_ACTIONS)}"
            )
        body = action.body.to_pybytes()
        self._check_size(body, "the action")
        return iter([flight.Result(part) for part in method(self, body)])

    def list_actions(self, context: Any) -> list[tuple[str, str]]:  # noqa: ARG002 - as it is called
        """Return the actions that there are."""
        return [(name, str(method.__doc__)) for name, method in _ACTIONS.items()]

    @answering
    def list_flights(self, context: Any, criteria: bytes) -> Iterator[flight.FlightInfo]:  # noqa: ARG002 - as it is called
        """Return nothing: Flight SQL has commands for what there is."""
        return iter(())

    @answering
    def do_exchange(self, context: Any, descriptor: Any, reader: Any, writer: Any) -> None:  # noqa: ARG002 - as it is called
        """Refuse."""
        raise NotSupported("the server answers Flight SQL, which exchanges nothing")

    def _command(self, descriptor: Any) -> tuple[str, bytes]:
        """Return the name of a command, and the message."""
        if descriptor.command is None:
            raise InvalidRequest("the server answers commands of Flight SQL, and no paths")
        self._check_size(descriptor.command, "the command")
        return wrapped_in(descriptor.command)

    def _described(
        self, context: Any, descriptor: Any, *, needs_values: bool = False
    ) -> tuple[pa.Schema, bytes | None]:
        """Return the columns of the answer to a command, and its ticket; None without values."""
        name, body = self._command(descriptor)
        if name in COMMANDS:
            return self._catalog.answer(name, body)[0], descriptor.command
        query = self._query(name, body)
        bound = query.bound
        if bound is None and needs_values:
            raise InvalidRequest("the statement has parameters, and none were bound to values")
        if bound is None:
            return self._unbound(query.query)[0], None
        columns = self._started(
            bound,
            lambda session: [plain_schema(session.sql(bound).schema)],
            is_abandoned=context.is_cancelled,
        )
        ticket = MESSAGES.TicketStatementQuery(statement_handle=self._seals.sealed(bound, bound))
        return next(columns), packed(ticket)

    def _query(self, name: str, body: bytes) -> SealedQuery:
        """Return the query of a command, with the values of its parameters."""
        if name == _PREPARED:
            return self._seals.opened(decoded(name, body).prepared_statement_handle)
        if name != "CommandStatementQuery":
            raise _unknown(name)
        query: str = decoded(name, body).query
        self._check_size(query.encode(), "the query", self._limits.max_query_bytes)
        return SealedQuery(b"", query, query)

    def _started(
        self,
        query: str,
        produce: Callable[[DafSession], Iterable[Any]],
        *,
        query_id: bytes = b"",
        is_abandoned: Callable[[], bool] = lambda: False,
    ) -> Iterator[Any]:
        """Compute something of a query in a thread of its own; errors are those of clients."""
        most = self._limits.max_memory_bytes

        def computed() -> Iterator[Any]:
            session = self._session
            try:  # the memory of a query is its own
                yield from produce(session if most is None else session._served(most))  # noqa: SLF001 - our own
            except Exception as error:  # noqa: BLE001 - it is sent to the client
                status = self._status(error, query)
            else:
                return
            raise status

        return self.runs.start(computed, query_id=query_id, is_abandoned=is_abandoned)

    def _rows(self, found: Rows) -> Iterator[Any]:
        """Yield the columns of a query, then its rows in parts, until they are more than may be."""
        # Not that of the result: a column that turns out to be unreadable is left out.
        schema = plain_schema(found.schema)
        yield schema
        limits, rows, size = self._limits, 0, 0
        for part in wire_parts(found.batches, schema):
            rows, size = rows + part.num_rows, size + part.nbytes
            for count, most, unit in (
                (rows, limits.max_rows, "rows"),
                (size, limits.max_bytes, "bytes"),
            ):
                if most is not None and count > most:
                    problem = f"the result has more than {most:,} {unit}"
                    raise InvalidRequest(limit_reached(problem, f"max_{unit}"))
            yield part

    def _unbound(self, query: str) -> tuple[pa.Schema, pa.Schema]:
        """Return the columns of a query whose parameters have no values, and its parameters."""
        planned = self._started(
            query,
            lambda session: [unbound_schemas(session._engine.plan, query)],  # noqa: SLF001 - our own
        )
        columns, parameters = next(planned)
        return pa.schema([]) if columns is None else plain_schema(columns), plain_schema(parameters)

    def _status(self, error: Exception, query: str) -> Exception:
        """Return the error that a client gets for a query that failed."""
        most = self._limits.max_memory_bytes
        if most is not None and is_out_of_memory(error):
            problem = f"the query needs more than {most:,} bytes of memory"
            return InvalidRequest(limit_reached(problem, "max_memory_bytes"))
        return self.statuses.status(error, query)

    def _prepare(self, body: bytes) -> list[bytes]:
        """Prepare a statement, which may have parameters."""
        query: str = unpacked("ActionCreatePreparedStatementRequest", body).query
        self._check_size(query.encode(), "the query", self._limits.max_query_bytes)
        columns, parameters = self._unbound(query)
        result = MESSAGES.ActionCreatePreparedStatementResult(
            prepared_statement_handle=self._seals.sealed(query, None if len(parameters) else query),
            dataset_schema=columns.serialize().to_pybytes(),
            parameter_schema=parameters.serialize().to_pybytes(),
            is_update=False,
        )
        return [packed(result)]

    def _close_prepared(self, _: bytes) -> list[bytes]:
        """Close a prepared statement, of which the server keeps nothing."""
        return []

    def _cancel_flight_info(self, body: bytes) -> list[bytes]:
        """Cancel a query by what was answered to it."""
        status = self._cancelled(decoded("CancelFlightInfoRequest", body).info)
        return [MESSAGES.CancelFlightInfoResult(status=status).SerializeToString()]

    def _cancel_query(self, body: bytes) -> list[bytes]:
        """Cancel a query, in the way of older clients."""
        info = decoded("FlightInfo", unpacked("ActionCancelQueryRequest", body).info)
        return [packed(MESSAGES.ActionCancelQueryResult(result=self._cancelled(info)))]

    def _cancelled(self, info: Any) -> int:
        """Cancel the queries of some tickets, and return the status."""
        status = _NOT_CANCELLABLE
        for endpoint in info.endpoint:
            ticket = endpoint.ticket.ticket
            if wrapped_in(ticket)[0] in COMMANDS:
                continue
            handle = unpacked("TicketStatementQuery", ticket).statement_handle
            self.runs.cancel(self._seals.opened(handle).query_id)
            status = _CANCELLED
        return status

    def _close_session(self, _: bytes) -> list[bytes]:
        """End the session of a client, of which the server keeps nothing."""
        return [MESSAGES.CloseSessionResult(status=_SESSION_CLOSED).SerializeToString()]

    def _check_size(self, data: bytes, what: str, most: int | None = None) -> None:
        """Refuse what is too long: a query, or what holds one and what is bound to it."""
        limit = self._limits.max_query_bytes
        if len(data) > (2 * limit + _MORE_BYTES if most is None else most):
            problem = f"{what} has {len(data):,} bytes, more than {limit:,}"
            raise InvalidRequest(limit_reached(problem, "max_query_bytes"))


_ACTIONS: Final[Mapping[str, Callable[[Service, bytes], list[bytes]]]] = {
    "CreatePreparedStatement": Service._prepare,  # noqa: SLF001 - methods of this module
    "ClosePreparedStatement": Service._close_prepared,  # noqa: SLF001 - the same
    "CancelFlightInfo": Service._cancel_flight_info,  # noqa: SLF001 - the same
    "CancelQuery": Service._cancel_query,  # noqa: SLF001 - the same
    "CloseSession": Service._close_session,  # noqa: SLF001 - the same
}


def _unknown(name: str) -> Exception:
    if not name:
        return InvalidRequest("the command is no message of Flight SQL")
    if name in _UPDATES:
        refused: Exception = flight.FlightUnauthorizedError(
            "this server only reads: a query is asked for its rows, and not as an update"
        )
        return refused
    return NotSupported(f"the server does not answer {name[:100]!r}; it answers SQL")


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
                limits or FlightSqlLimits(),
                Statuses(_locations(self._session)),
                location=f"{scheme}://{name}:{port}",
                tls_certificates=certificates,
                middleware={"tokens": accepted},
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
    with os_errors(str(path)):
        return Path(path).read_bytes()


def _locations(session: DafSession) -> dict[str, str]:
    """Return where each data set is, with the name that clients know it by."""
    connections = session._connections  # noqa: SLF001 - our own
    named: dict[str, str] = {}
    for name, schema in connections.schemas.items():
        named[schema.location] = name
        named |= {daf.location: name for daf in schema.readers().values()}
    named |= {table.location: name for name, table in connections.shared.items()}
    return named

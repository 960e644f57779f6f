"""The calls of Flight, answered as Flight SQL says."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

import pyarrow as pa
from pyarrow import flight

from daf_query._wire import joined, wire_schema
from daf_query.flight_sql import _messages as messages
from daf_query.flight_sql._answers import (
    FlightSqlLimits,
    InvalidRequest,
    NotSupported,
    Runs,
    Statuses,
    answering,
    limit_reached,
    wire_batches,
)
from daf_query.flight_sql._authentication import CLIENT, AnyHandshake, Tokens
from daf_query.flight_sql._catalog import COMMANDS, Catalog
from daf_query.flight_sql._statements import (
    Prepared,
    PreparedStatements,
    SealedQuery,
    Tickets,
    bound_query,
)
from daf_query.session import DafSession
from daf_query.sql import is_out_of_memory, unbound_schemas

_UPDATES: Final = (
    "CommandStatementUpdate",
    "CommandPreparedStatementUpdate",
    "CommandStatementIngest",
)
_PREPARED: Final = "CommandPreparedStatementQuery"
_CHANGES: Final = "BeginTransaction", "BeginSavepoint", "EndTransaction", "EndSavepoint"
_MORE_BYTES: Final = 1 << 10
"""How much longer than its query a ticket may be."""


class Service(flight.FlightServerBase):  # type: ignore[misc] # pyarrow has no types
    """Answers the calls of clients about one session."""

    def __init__(
        self,
        session: DafSession,
        location: str,
        *,
        tokens: Tokens,
        certificates: list[tuple[bytes, bytes]] | None,
        limits: FlightSqlLimits,
        statuses: Statuses,
    ) -> None:
        self.statuses = statuses
        """What clients get as errors."""
        self.runs = Runs(limits)
        """The queries that run."""
        self.prepared = PreparedStatements(limits)
        """The statements that clients prepared."""
        self._session = session
        self._limits = limits
        self._tickets = Tickets()
        self._catalog = Catalog(session, max_query_bytes=limits.max_query_bytes)
        super().__init__(
            location,
            auth_handler=AnyHandshake(),
            tls_certificates=certificates,
            middleware={CLIENT: tokens},
        )

    @answering
    def get_flight_info(self, context: Any, descriptor: Any) -> flight.FlightInfo:
        """Plan a query, and return the ticket of its rows."""
        name, body = self._command(descriptor)
        client = _client(context)
        if name in COMMANDS:
            schema, _ = self._catalog.answer(name, body)
            return _info(schema, descriptor, descriptor.command)
        query = self._query(name, body, client)
        schema = self._schema(query, context)
        handle = self._tickets.sealed(query, client)
        return _info(
            schema, descriptor, messages.packed("TicketStatementQuery", statement_handle=handle)
        )

    @answering
    def get_schema(self, context: Any, descriptor: Any) -> flight.SchemaResult:
        """Return the columns of the answer to a command."""
        name, body = self._command(descriptor)
        client = _client(context)
        if name in COMMANDS:
            return flight.SchemaResult(self._catalog.answer(name, body)[0])
        if name == _PREPARED:
            statement = self._statement(body, client)
            if statement.bound is None:
                return flight.SchemaResult(self._unbound(statement.query)[0])
        return flight.SchemaResult(self._schema(self._query(name, body, client), context))

    @answering
    def do_get(self, context: Any, ticket: Any) -> flight.FlightDataStream:
        """Return the rows of a ticket, as they are computed."""
        self._check_size(ticket.ticket, "the ticket")
        name, body = messages.wrapped_in(ticket.ticket)
        if name in COMMANDS:
            return flight.RecordBatchStream(self._catalog.answer(name, body)[1]())
        handle = messages.unpacked("TicketStatementQuery", ticket.ticket).statement_handle
        sealed = self._tickets.opened(handle, _client(context))
        rows = self.runs.start(
            lambda: self._rows(sealed),
            query_id=sealed.query_id,
            is_abandoned=context.is_cancelled,
        )
        schema = next(rows)
        return flight.GeneratorStream(schema, rows)

    @answering
    def do_put(self, context: Any, descriptor: Any, reader: Any, writer: Any) -> None:
        """Bind the parameters of a prepared statement; everything else would change something."""
        name, body = self._command(descriptor)
        if name in _UPDATES:
            raise flight.FlightUnauthorizedError(
                "this server only reads: a query is asked for its rows, and not as an update"
            )
        if name != _PREPARED:
            raise _unknown(name)
        client = _client(context)
        handle = messages.decoded(_PREPARED, body).prepared_statement_handle
        statement = self.prepared.find(handle, client)
        query = bound_query(statement.query, reader, self._limits)
        self._check_size(query.encode(), "the query with its parameters")
        self.prepared.bind(handle, client, query)
        result = messages.encoded("DoPutPreparedStatementResult", prepared_statement_handle=handle)
        writer.write(pa.py_buffer(result))

    @answering
    def do_action(self, context: Any, action: Any) -> Iterator[flight.Result]:
        """Do one of the actions of `list_actions`."""
        method = _ACTIONS.get(action.type)
        if method is None:
            if action.type in _CHANGES:
                raise NotSupported("this server only reads, and has no transactions")
            raise NotSupported(
                f"the server has no action {_short(action.type)}; it has {', '.join(_ACTIONS)}"
            )
        body = action.body.to_pybytes()
        self._check_size(body, "the action")
        return iter([flight.Result(part) for part in method(self, body, _client(context))])

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
        return messages.wrapped_in(descriptor.command)

    def _query(self, name: str, body: bytes, client: str) -> str:
        """Return the SQL of a command, with the values of its parameters."""
        if name == "CommandStatementQuery":
            query: str = messages.decoded(name, body).query
            self._check_size(query.encode(), "the query")
            return query
        if name != _PREPARED:
            raise _unknown(name)
        statement = self._statement(body, client)
        if statement.bound is None:
            raise InvalidRequest("the statement has parameters, and none were bound to values")
        return statement.bound

    def _statement(self, body: bytes, client: str) -> Prepared:
        request = messages.decoded(_PREPARED, body)
        return self.prepared.find(request.prepared_statement_handle, client)

    def _schema(self, query: str, context: Any) -> pa.Schema:
        """Return the columns of a query."""

        def produce() -> Iterator[pa.Schema]:
            session = self._limited_session()
            yield self._translated(query, lambda: wire_schema(session.sql(query).schema))

        return next(self.runs.start(produce, is_abandoned=context.is_cancelled))

    def _rows(self, sealed: SealedQuery) -> Iterator[Any]:
        """Yield the columns of a query, then its rows; called in a thread of its own."""
        query = sealed.query
        try:
            rows = self._limited_session().sql(query).rows()
            # Not that of the result: a column that turns out to be unreadable is left out.
            schema = wire_schema(rows.schema)
            yield schema
            yield from joined(wire_batches(rows.batches, schema, self._limits))
        except Exception as error:  # noqa: BLE001 - it is sent to the client
            status = self._status(error, query)
        else:
            return
        raise status

    def _translated(self, query: str, function: Callable[[], Any]) -> Any:
        """Call a function; its errors are those that clients get."""
        try:
            return function()
        except Exception as error:  # noqa: BLE001 - it is sent to the client
            status = self._status(error, query)
        raise status

    def _limited_session(self) -> DafSession:
        """Return the session for one query, whose memory is its own."""
        most = self._limits.max_memory_bytes
        return self._session if most is None else self._session._served(most)  # noqa: SLF001 - our own

    def _status(self, error: Exception, query: str) -> Exception:
        """Return the error that a client gets for a query that failed."""
        most = self._limits.max_memory_bytes
        if most is not None and is_out_of_memory(error):
            problem = f"the query needs more than {most:,} bytes of memory"
            return InvalidRequest(limit_reached(problem, "max_memory_bytes"))
        return self.statuses.status(error, query)

    def _unbound(self, query: str) -> tuple[pa.Schema, pa.Schema]:
        """Return the columns of a query whose parameters have no values, and its parameters."""
        engine = self._limited_session()._engine  # noqa: SLF001 - our own
        columns, parameters = self._translated(query, lambda: unbound_schemas(engine, query))
        return pa.schema([]) if columns is None else wire_schema(columns), parameters

    def _prepare(self, body: bytes, client: str) -> list[bytes]:
        """Prepare a statement, which may have parameters."""
        request = messages.unpacked("ActionCreatePreparedStatementRequest", body)
        query = request.query
        self._check_size(query.encode(), "the query")

        def produce() -> Iterator[tuple[pa.Schema, pa.Schema]]:
            yield self._unbound(query)

        columns, parameters = next(self.runs.start(produce, is_abandoned=lambda: False))
        bound = None if len(parameters) else query
        result = messages.packed(
            "ActionCreatePreparedStatementResult",
            prepared_statement_handle=self.prepared.add(Prepared(query, client, bound)),
            dataset_schema=columns.serialize().to_pybytes(),
            parameter_schema=parameters.serialize().to_pybytes(),
            is_update=False,
        )
        return [result]

    def _close_prepared(self, body: bytes, client: str) -> list[bytes]:
        """Forget a prepared statement."""
        request = messages.unpacked("ActionClosePreparedStatementRequest", body)
        self.prepared.close(request.prepared_statement_handle, client)
        return []

    def _cancel_flight_info(self, body: bytes, client: str) -> list[bytes]:
        """Cancel a query by what was answered to it."""
        request = messages.decoded("CancelFlightInfoRequest", body)
        status = self._cancelled(request.info, client)
        return [messages.encoded("CancelFlightInfoResult", status=status)]

    def _cancel_query(self, body: bytes, client: str) -> list[bytes]:
        """Cancel a query, in the way of older clients."""
        request = messages.unpacked("ActionCancelQueryRequest", body)
        status = self._cancelled(messages.decoded("FlightInfo", request.info), client)
        return [messages.packed("ActionCancelQueryResult", result=status)]

    def _cancelled(self, info: Any, client: str) -> int:
        """Cancel the queries of some tickets, and return the status."""
        status = messages.NOT_CANCELLABLE
        for endpoint in info.endpoint:
            ticket = endpoint.ticket.ticket
            if messages.wrapped_in(ticket)[0] in COMMANDS:
                continue
            handle = messages.unpacked("TicketStatementQuery", ticket).statement_handle
            self.runs.cancel(self._tickets.opened(handle, client).query_id)
            status = messages.CANCELLED
        return status

    def _close_session(self, _: bytes, __: str) -> list[bytes]:
        """End the session of a client, of which the server keeps nothing."""
        return [messages.encoded("CloseSessionResult", status=messages.SESSION_CLOSED)]

    def _check_size(self, data: bytes, what: str) -> None:
        most = self._limits.max_query_bytes
        if len(data) > most + _MORE_BYTES:
            problem = f"{what} has {len(data):,} bytes, more than {most:,}"
            raise InvalidRequest(limit_reached(problem, "max_query_bytes"))


_ACTIONS: Final[Mapping[str, Callable[[Service, bytes, str], list[bytes]]]] = {
    "CreatePreparedStatement": Service._prepare,  # noqa: SLF001 - methods of this module
    "ClosePreparedStatement": Service._close_prepared,  # noqa: SLF001 - the same
    "CancelFlightInfo": Service._cancel_flight_info,  # noqa: SLF001 - the same
    "CancelQuery": Service._cancel_query,  # noqa: SLF001 - the same
    "CloseSession": Service._close_session,  # noqa: SLF001 - the same
}


def _info(schema: pa.Schema, descriptor: Any, ticket: bytes) -> flight.FlightInfo:
    endpoint = flight.FlightEndpoint(ticket, [])  # no location: where it was asked
    return flight.FlightInfo(schema, descriptor, [endpoint], -1, -1)


def _client(context: Any) -> str:
    client = context.get_middleware(CLIENT)
    return "" if client is None else str(client.name)


def _short(name: str) -> str:
    return repr(name[:100])


def _unknown(name: str) -> Exception:
    if not name:
        return InvalidRequest("the command is no message of Flight SQL")
    if name in _UPDATES:
        refused: Exception = flight.FlightUnauthorizedError("this server only reads")
        return refused
    return NotSupported(f"the server does not answer {_short(name)}; it answers SQL")

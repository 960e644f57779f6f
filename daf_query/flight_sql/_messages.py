"""The messages of Flight SQL, and of Flight for its actions, by their published numbers.

Rule: ``format/FlightSql.proto`` and ``format/Flight.proto`` of Apache Arrow.  Messages that ask for
what a read-only server refuses (transactions, updates, Substrait) are named and not decoded.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final, TypeVar

from daf_query.flight_sql._protobuf import decode, encode, message, optional, repeated, scalar
from daf_storage import errors

_T = TypeVar("_T")

_PACKAGE: Final = "arrow.flight.protocol.sql."
_TYPE_URL: Final = f"type.googleapis.com/{_PACKAGE}"


@dataclass(frozen=True, slots=True)
class AnyMessage:
    """Another message, with its type."""

    type_url: str = scalar(1, "string")
    value: bytes = scalar(2, "bytes")

    @property
    def name(self) -> str:
        """The name of the message; empty if it is none of Flight SQL."""
        full_name = self.type_url.rpartition("/")[2]
        return full_name.removeprefix(_PACKAGE) if full_name.startswith(_PACKAGE) else ""


@dataclass(frozen=True, slots=True)
class CommandGetSqlInfo:
    """Asks what the server can do; without numbers, for everything."""

    info: tuple[int, ...] = repeated(1, "uint32")


@dataclass(frozen=True, slots=True)
class CommandGetXdbcTypeInfo:
    """Asks for the types of columns; None: all."""

    data_type: int | None = optional(1, "int32")


@dataclass(frozen=True, slots=True)
class CommandGetCatalogs:
    """Asks for the catalogs."""


@dataclass(frozen=True, slots=True)
class CommandGetDbSchemas:
    """Asks for the schemas."""

    catalog: str | None = optional(1, "string")
    db_schema_filter_pattern: str | None = optional(2, "string")


@dataclass(frozen=True, slots=True)
class CommandGetTables:
    """Asks for the tables."""

    catalog: str | None = optional(1, "string")
    db_schema_filter_pattern: str | None = optional(2, "string")
    table_name_filter_pattern: str | None = optional(3, "string")
    table_types: tuple[str, ...] = repeated(4, "string")
    include_schema: bool = scalar(5, "bool")


@dataclass(frozen=True, slots=True)
class CommandGetTableTypes:
    """Asks for the types of tables."""


@dataclass(frozen=True, slots=True)
class CommandGetPrimaryKeys:
    """Asks for the primary key of a table."""

    catalog: str | None = optional(1, "string")
    db_schema: str | None = optional(2, "string")
    table: str = scalar(3, "string")


@dataclass(frozen=True, slots=True)
class CommandGetExportedKeys:
    """Asks for the foreign keys to a table, of which there are none."""


@dataclass(frozen=True, slots=True)
class CommandGetImportedKeys:
    """Asks for the foreign keys of a table, of which there are none."""


@dataclass(frozen=True, slots=True)
class CommandGetCrossReference:
    """Asks for the foreign keys between two tables, of which there are none."""


@dataclass(frozen=True, slots=True)
class CommandStatementQuery:
    """Asks for the rows of a query."""

    query: str = scalar(1, "string")
    transaction_id: bytes | None = optional(2, "bytes")


@dataclass(frozen=True, slots=True)
class CommandPreparedStatementQuery:
    """Asks for the rows of a prepared statement, or binds its parameters."""

    prepared_statement_handle: bytes = scalar(1, "bytes")


@dataclass(frozen=True, slots=True)
class TicketStatementQuery:
    """Which query the rows are of."""

    statement_handle: bytes = scalar(1, "bytes")


@dataclass(frozen=True, slots=True)
class ActionCreatePreparedStatementRequest:
    """Asks to prepare a statement."""

    query: str = scalar(1, "string")
    transaction_id: bytes | None = optional(2, "bytes")


@dataclass(frozen=True, slots=True)
class ActionCreatePreparedStatementResult:
    """A prepared statement."""

    prepared_statement_handle: bytes = scalar(1, "bytes")
    dataset_schema: bytes = scalar(2, "bytes")
    parameter_schema: bytes = scalar(3, "bytes")
    is_update: bool | None = optional(4, "bool")


@dataclass(frozen=True, slots=True)
class ActionClosePreparedStatementRequest:
    """Asks to forget a prepared statement."""

    prepared_statement_handle: bytes = scalar(1, "bytes")


@dataclass(frozen=True, slots=True)
class ActionCancelQueryRequest:
    """Asks to cancel a query, in the way of older clients."""

    info: bytes = scalar(1, "bytes")
    """A `FlightInfo`."""


@dataclass(frozen=True, slots=True)
class ActionCancelQueryResult:
    """What became of it."""

    result: int = scalar(1, "int32")


@dataclass(frozen=True, slots=True)
class DoPutPreparedStatementResult:
    """The handle of a statement whose parameters are bound."""

    prepared_statement_handle: bytes | None = optional(1, "bytes")


@dataclass(frozen=True, slots=True)
class Ticket:
    """Which stream is meant."""

    ticket: bytes = scalar(1, "bytes")


@dataclass(frozen=True, slots=True)
class FlightEndpoint:
    """Where a stream is."""

    ticket: Ticket | None = message(1, Ticket)  # noqa: RUF009 - a field


@dataclass(frozen=True, slots=True)
class FlightInfo:
    """What was answered to a query: the tickets of its rows."""

    endpoint: tuple[FlightEndpoint, ...] = repeated(3, FlightEndpoint)


@dataclass(frozen=True, slots=True)
class CancelFlightInfoRequest:
    """Asks to cancel a query."""

    info: FlightInfo | None = message(1, FlightInfo)  # noqa: RUF009 - a field


@dataclass(frozen=True, slots=True)
class CancelFlightInfoResult:
    """What became of it."""

    status: int = scalar(1, "int32")


@dataclass(frozen=True, slots=True)
class CloseSessionResult:
    """Says that a session of a client is closed."""

    status: int = scalar(1, "int32")


CANCELLED: Final = 1
"""The status of a query that was cancelled, of `CancelFlightInfoResult` and the older one."""
NOT_CANCELLABLE: Final = 3
SESSION_CLOSED: Final = 1
"""The status of `CloseSessionResult`."""


def packed(value: Any) -> bytes:
    """Return a message with its type."""
    return encode(AnyMessage(_TYPE_URL + type(value).__name__, encode(value)))


def unpacked(message_type: type[_T], data: bytes) -> _T:
    """Return the message of one type that bytes hold.

    Raises
    ------
    InvalidInputError
        They hold another one, or none.
    """
    wrapped = decode(AnyMessage, data)
    if wrapped.name != message_type.__name__:
        raise errors.InvalidInputError(
            f"the request has to hold {message_type.__name__}, and holds "
            f"{wrapped.name or 'no message of Flight SQL'}"
        )
    return decode(message_type, wrapped.value)

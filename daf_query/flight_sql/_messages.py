"""The messages of Flight SQL, and of Flight for its actions, by their published numbers.

Rule: ``format/FlightSql.proto`` and ``format/Flight.proto`` of Apache Arrow.  Messages that ask for
what a read-only server refuses (transactions, updates, Substrait) are named and not decoded.
"""

from __future__ import annotations

from typing import Any, Final

from google.protobuf import any_pb2, descriptor_pool, message_factory
from google.protobuf.descriptor_pb2 import FieldDescriptorProto, FileDescriptorProto
from google.protobuf.message import DecodeError

from daf_storage import errors

_PACKAGE: Final = "arrow.flight.protocol.sql"
_BOOL: Final = FieldDescriptorProto.TYPE_BOOL
_BYTES: Final = FieldDescriptorProto.TYPE_BYTES
_INT32: Final = FieldDescriptorProto.TYPE_INT32
_STRING: Final = FieldDescriptorProto.TYPE_STRING
_UINT32: Final = FieldDescriptorProto.TYPE_UINT32
_OPTIONAL: Final = "optional"
_REPEATED: Final = "repeated"

_CATALOG: Final = ("catalog", 1, _STRING, _OPTIONAL)
_SCHEMAS: Final = ("db_schema_filter_pattern", 2, _STRING, _OPTIONAL)
_QUERY: Final = (("query", 1, _STRING), ("transaction_id", 2, _BYTES, _OPTIONAL))
_HANDLE: Final = ("prepared_statement_handle", 1, _BYTES)
_DEFINED: Final[dict[str, tuple[tuple[Any, ...], ...]]] = {
    "CommandGetSqlInfo": (("info", 1, _UINT32, _REPEATED),),
    "CommandGetXdbcTypeInfo": (("data_type", 1, _INT32, _OPTIONAL),),
    "CommandGetCatalogs": (),
    "CommandGetDbSchemas": (_CATALOG, _SCHEMAS),
    "CommandGetTables": (
        _CATALOG,
        _SCHEMAS,
        ("table_name_filter_pattern", 3, _STRING, _OPTIONAL),
        ("table_types", 4, _STRING, _REPEATED),
        ("include_schema", 5, _BOOL),
    ),
    "CommandGetTableTypes": (),
    "CommandGetPrimaryKeys": (
        _CATALOG,
        ("db_schema", 2, _STRING, _OPTIONAL),
        ("table", 3, _STRING),
    ),
    "CommandGetExportedKeys": (),  # of foreign keys there are none, whatever is asked
    "CommandGetImportedKeys": (),
    "CommandGetCrossReference": (),
    "CommandStatementQuery": _QUERY,
    "CommandPreparedStatementQuery": (_HANDLE,),
    "TicketStatementQuery": (("statement_handle", 1, _BYTES),),
    "ActionCreatePreparedStatementRequest": _QUERY,
    "ActionCreatePreparedStatementResult": (
        _HANDLE,
        ("dataset_schema", 2, _BYTES),
        ("parameter_schema", 3, _BYTES),
        ("is_update", 4, _BOOL, _OPTIONAL),
    ),
    "ActionClosePreparedStatementRequest": (_HANDLE,),
    "ActionCancelQueryRequest": (("info", 1, _BYTES),),
    "ActionCancelQueryResult": (("result", 1, _INT32),),
    "DoPutPreparedStatementResult": ((*_HANDLE, _OPTIONAL),),
    "Ticket": (("ticket", 1, _BYTES),),
    "FlightEndpoint": (("ticket", 1, "Ticket"),),
    "FlightInfo": (("endpoint", 3, "FlightEndpoint", _REPEATED),),
    "CancelFlightInfoRequest": (("info", 1, "FlightInfo"),),
    "CancelFlightInfoResult": (("status", 1, _INT32),),
    "CloseSessionResult": (("status", 1, _INT32),),
}
"""The fields of each message: name, number, type (a name is that of a message), and label."""


def _made() -> dict[str, Any]:
    """Return the class of each message, in a pool of their own: other packages have them, too."""
    file = FileDescriptorProto(name="daf_query.proto", package=_PACKAGE, syntax="proto3")
    for message, fields in _DEFINED.items():
        described = file.message_type.add(name=message)
        for name, number, kind, *label in fields:
            field = described.field.add(name=name, number=number)
            field.label = field.LABEL_REPEATED if label == [_REPEATED] else field.LABEL_OPTIONAL
            if isinstance(kind, str):
                field.type, field.type_name = field.TYPE_MESSAGE, f".{_PACKAGE}.{kind}"
            else:
                field.type = kind
            if label == [_OPTIONAL]:
                field.proto3_optional, field.oneof_index = True, len(described.oneof_decl)
                described.oneof_decl.add(name=f"_{name}")
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    named = {name: pool.FindMessageTypeByName(f"{_PACKAGE}.{name}") for name in _DEFINED}
    return {name: message_factory.GetMessageClass(each) for name, each in named.items()}


MESSAGES: Final = _made()
"""The classes of the messages, by their names."""
CANCELLED: Final = 1
"""The status of a query that was cancelled, of `CancelFlightInfoResult` and the older one."""
NOT_CANCELLABLE: Final = 3
SESSION_CLOSED: Final = 1
"""The status of `CloseSessionResult`."""


def given(message: Any, name: str) -> Any:
    """Return an optional field of a message, or None."""
    return getattr(message, name) if message.HasField(name) else None


def encoded(name: str, **fields: Any) -> bytes:
    """Return the bytes of a message."""
    written: bytes = MESSAGES[name](**fields).SerializeToString()
    return written


def packed(name: str, **fields: Any) -> bytes:
    """Return the bytes of a message with its type."""
    wrapped = any_pb2.Any()
    wrapped.Pack(MESSAGES[name](**fields))
    written: bytes = wrapped.SerializeToString()
    return written


def decoded(name: str, data: bytes) -> Any:
    """Return the message that bytes hold.

    Raises
    ------
    InvalidInputError
        They are no message of this type: cut off, or a string is not UTF-8.
    """
    return _read(MESSAGES[name], data)


def wrapped_in(data: bytes) -> tuple[str, bytes]:
    """Return the name of the message that is wrapped with its type, and its bytes.

    Raises
    ------
    InvalidInputError
        They hold none; the name of one that is not of Flight SQL is empty.
    """
    wrapped = _read(any_pb2.Any, data)
    package, _, name = wrapped.TypeName().rpartition(".")
    return name if package == _PACKAGE else "", wrapped.value


def unpacked(name: str, data: bytes) -> Any:
    """Return the message of one type that is wrapped with it.

    Raises
    ------
    InvalidInputError
        They hold another one, or none.
    """
    found, content = wrapped_in(data)
    if found != name:
        raise errors.InvalidInputError(
            f"the request has to hold {name}, and holds {found or 'no message of Flight SQL'}"
        )
    return decoded(name, content)


def _read(message: Any, data: bytes) -> Any:
    try:
        return message.FromString(data)
    except DecodeError:
        raise errors.InvalidInputError(
            "the request is no message of Flight SQL: it is cut off, or damaged"
        ) from None

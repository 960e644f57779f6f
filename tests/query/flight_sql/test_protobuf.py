"""Tests of the codec: it reads and writes what Google's does."""

from __future__ import annotations

import contextlib
import dataclasses
import re
from typing import Any

import pytest
from google.protobuf import any_pb2, descriptor_pb2, descriptor_pool, message_factory
from google.protobuf.message import DecodeError, Message
from hypothesis import example, given, settings
from hypothesis import strategies as st

from daf_query.flight_sql import _messages as messages
from daf_query.flight_sql import _protobuf
from daf_query.flight_sql._protobuf import decode, encode
from daf_storage import errors

# The messages as FlightSql.proto and Flight.proto of Apache Arrow publish them.
PUBLISHED = """
message CommandGetSqlInfo { repeated uint32 info = 1; }
message CommandGetXdbcTypeInfo { optional int32 data_type = 1; }
message CommandGetCatalogs { }
message CommandGetDbSchemas {
  optional string catalog = 1; optional string db_schema_filter_pattern = 2; }
message CommandGetTables {
  optional string catalog = 1; optional string db_schema_filter_pattern = 2;
  optional string table_name_filter_pattern = 3; repeated string table_types = 4;
  bool include_schema = 5; }
message CommandGetTableTypes { }
message CommandGetPrimaryKeys {
  optional string catalog = 1; optional string db_schema = 2; string table = 3; }
message CommandStatementQuery { string query = 1; optional bytes transaction_id = 2; }
message CommandPreparedStatementQuery { bytes prepared_statement_handle = 1; }
message TicketStatementQuery { bytes statement_handle = 1; }
message ActionCreatePreparedStatementRequest {
  string query = 1; optional bytes transaction_id = 2; }
message ActionCreatePreparedStatementResult {
  bytes prepared_statement_handle = 1; bytes dataset_schema = 2; bytes parameter_schema = 3;
  optional bool is_update = 4; }
message ActionClosePreparedStatementRequest { bytes prepared_statement_handle = 1; }
message ActionCancelQueryRequest { bytes info = 1; }
message ActionCancelQueryResult { int32 result = 1; }
message DoPutPreparedStatementResult { optional bytes prepared_statement_handle = 1; }
message Ticket { bytes ticket = 1; }
message FlightEndpoint { Ticket ticket = 1; }
message FlightInfo { repeated FlightEndpoint endpoint = 3; }
message CancelFlightInfoRequest { FlightInfo info = 1; }
message CancelFlightInfoResult { int32 status = 1; }
message CloseSessionResult { int32 status = 1; }
"""
FIELD = re.compile(r"(?P<label>optional |repeated )?(?P<type>\w+) (?P<name>\w+) = (?P<number>\d+);")
SCALARS = {
    "string": descriptor_pb2.FieldDescriptorProto.TYPE_STRING,
    "bytes": descriptor_pb2.FieldDescriptorProto.TYPE_BYTES,
    "bool": descriptor_pb2.FieldDescriptorProto.TYPE_BOOL,
    "int32": descriptor_pb2.FieldDescriptorProto.TYPE_INT32,
    "uint32": descriptor_pb2.FieldDescriptorProto.TYPE_UINT32,
}


def _published() -> dict[str, type[Message]]:
    """Return the classes that Google's library makes of the published definitions."""
    file = descriptor_pb2.FileDescriptorProto(name="flight.proto", package="t", syntax="proto3")
    for name, body in re.findall(r"message (\w+) \{(.*?)\}", PUBLISHED, re.DOTALL):
        described = file.message_type.add(name=name)
        for match in FIELD.finditer(body):
            field = described.field.add(name=match["name"], number=int(match["number"]))
            repeats = match["label"] == "repeated "
            field.label = field.LABEL_REPEATED if repeats else field.LABEL_OPTIONAL
            if match["type"] in SCALARS:
                field.type = SCALARS[match["type"]]
            else:
                field.type, field.type_name = field.TYPE_MESSAGE, f".t.{match['type']}"
            if match["label"] == "optional ":
                field.proto3_optional = True
                field.oneof_index = len(described.oneof_decl)
                described.oneof_decl.add(name=f"_{match['name']}")
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    names = re.findall(r"message (\w+)", PUBLISHED)
    return {
        name: message_factory.GetMessageClass(pool.FindMessageTypeByName(f"t.{name}"))
        for name in names
    }


ORACLES = _published()


def _same(ours: Any, theirs: Any) -> bool:
    """Return whether two messages have the same values in every field that we know."""
    for field in dataclasses.fields(ours):
        value, other = getattr(ours, field.name), getattr(theirs, field.name)
        described = theirs.DESCRIPTOR.fields_by_name[field.name]
        if isinstance(value, tuple):
            pairs = list(zip(value, other, strict=True))
            same = all(_same(a, b) if dataclasses.is_dataclass(a) else a == b for a, b in pairs)
        elif described.has_presence and not theirs.HasField(field.name):
            same = value is None
        else:
            same = _same(value, other) if dataclasses.is_dataclass(value) else value == other
        if not same:
            return False
    return True


def _values(described: Any) -> st.SearchStrategy[Any]:
    """Return values for a field, as Google's library describes it."""
    by_type = {
        described.TYPE_STRING: st.text(max_size=5),
        described.TYPE_BYTES: st.binary(max_size=5),
        described.TYPE_BOOL: st.booleans(),
        described.TYPE_INT32: st.integers(-(2**31), 2**31 - 1),
        described.TYPE_UINT32: st.integers(0, 2**32 - 1),
    }
    if described.type == described.TYPE_MESSAGE:
        return _theirs(ORACLES[described.message_type.name])
    return by_type[described.type]


def _theirs(oracle: type[Message]) -> st.SearchStrategy[Message]:
    """Return messages of Google's library."""
    fields = {
        each.name: st.lists(_values(each), max_size=3) if each.is_repeated else _values(each)
        for each in oracle.DESCRIPTOR.fields
    }
    return st.fixed_dictionaries({}, optional=fields).map(lambda given: oracle(**given))


def test_every_message_is_published_as_it_is_here() -> None:
    """The names of fields are those of the definition; the keys of which there are none have none."""
    ours = {
        name: {field.name for field in dataclasses.fields(value)}
        for name, value in vars(messages).items()
        if isinstance(value, type) and dataclasses.is_dataclass(value)
    }
    undecoded = {"CommandGetExportedKeys", "CommandGetImportedKeys", "CommandGetCrossReference"}
    assert {name: ours.pop(name) for name in undecoded} == {name: set() for name in undecoded}
    assert ours.pop("AnyMessage") == {"type_url", "value"}
    expected = {
        name: {field.name for field in oracle.DESCRIPTOR.fields} for name, oracle in ORACLES.items()
    }
    assert ours == expected


@settings(max_examples=40)
@given(st.sampled_from(sorted(ORACLES)).flatmap(lambda name: _theirs(ORACLES[name])))
def test_messages_are_encoded_and_decoded_as_by_the_reference(theirs: Message) -> None:
    """What Google's library writes is read here, and what is written here is read there."""
    ours = decode(getattr(messages, theirs.DESCRIPTOR.name), theirs.SerializeToString())
    assert _same(ours, theirs)
    again = type(theirs).FromString(encode(ours))
    assert again == theirs


TAGS = st.builds(
    lambda number, wire: bytes([number << 3 | wire]), st.integers(0, 6), st.integers(0, 7)
)
JUNK = st.lists(
    st.one_of(TAGS, st.binary(max_size=4), st.integers(0, 20).map(lambda size: bytes([size]))),
    max_size=8,
).map(b"".join)


@settings(max_examples=60)
@given(st.sampled_from(sorted(ORACLES)), JUNK)
@example("CommandGetSqlInfo", bytes.fromhex("08 05 0a 02 06 07"))
@example("CommandGetXdbcTypeInfo", bytes.fromhex("08 ff ff ff ff ff ff ff ff ff 7f"))
@example("CommandGetXdbcTypeInfo", bytes.fromhex("08 ff ff ff ff ff ff ff ff ff ff 01"))
@example("CommandGetXdbcTypeInfo", bytes.fromhex("0d 01 02 03 04"))
@example("CancelFlightInfoRequest", bytes.fromhex("0a 02 1a 00 0a 02 1a 00"))
@example("FlightEndpoint", bytes.fromhex("0b 0c"))
@example("FlightEndpoint", b"\x0b" * 101 + b"\x0c" * 101)
@example("CommandStatementQuery", bytes.fromhex("0a 01 ff"))
@example("CommandStatementQuery", bytes.fromhex("0a ff ff ff ff ff ff ff ff ff 01"))
def test_bytes_of_others_are_read_as_by_the_reference_or_refused(name: str, data: bytes) -> None:
    """Cut off, nested, of other types, packed or not: the same message, or an error here as there."""
    ours: Any = None
    with contextlib.suppress(errors.InvalidInputError):
        ours = decode(getattr(messages, name), data)
    try:
        theirs = ORACLES[name].FromString(data)
    except DecodeError:
        assert ours is None
        return
    if ours is None:  # refused, though the reference skips it against its own rules
        with pytest.raises(errors.InvalidInputError, match="the number 0"):
            decode(getattr(messages, name), data)
    else:
        assert _same(ours, theirs)


def test_messages_are_wrapped_with_their_type() -> None:
    """As `Any` of Google's library does it; another type is refused, whatever its bytes."""
    wrapped = messages.packed(messages.CommandGetDbSchemas(catalog="daf"))
    theirs = any_pb2.Any.FromString(wrapped)
    assert theirs.type_url == ("type.googleapis.com/arrow.flight.protocol.sql.CommandGetDbSchemas")
    assert ORACLES["CommandGetDbSchemas"].FromString(theirs.value).catalog == "daf"
    assert messages.unpacked(messages.CommandGetDbSchemas, wrapped).catalog == "daf"
    other = messages.packed(messages.CommandGetCatalogs())
    with pytest.raises(errors.InvalidInputError, match="holds CommandGetCatalogs"):
        messages.unpacked(messages.CommandGetDbSchemas, other)
    with pytest.raises(errors.InvalidInputError, match="no message of Flight SQL"):
        messages.unpacked(messages.CommandGetDbSchemas, encode(messages.AnyMessage("x/y", b"")))


def test_a_message_in_many_parts_is_read_in_linear_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each part is parsed alone and once more with the others, not again with each of them."""
    parsed: list[int] = []
    fields = _protobuf._fields

    def counted(data: bytes) -> Any:
        parsed.append(len(data))
        return fields(data)

    monkeypatch.setattr(_protobuf, "_fields", counted)
    data = bytes.fromhex("0a 02 1a 00") * 500
    request = decode(messages.CancelFlightInfoRequest, data)
    assert request == messages.CancelFlightInfoRequest(
        messages.FlightInfo((messages.FlightEndpoint(),) * 500)
    )
    assert sum(parsed) <= 3 * len(data)

"""Tests of the messages of Flight SQL: their bytes are those that are published."""

from __future__ import annotations

import contextlib

import pytest
from google.protobuf import any_pb2
from hypothesis import given
from hypothesis import strategies as st

from daf_query.flight_sql import _messages as messages
from daf_storage import errors


@pytest.mark.parametrize(
    ("name", "fields", "written"),
    [
        ("CommandGetSqlInfo", {"info": [3, 300]}, "0a03 03ac02"),
        ("CommandGetXdbcTypeInfo", {"data_type": -5}, "08 fbffffffffffffffff01"),
        ("CommandGetDbSchemas", {"catalog": "", "db_schema_filter_pattern": "%"}, "0a00 120125"),
        (
            "CommandGetTables",
            {"table_name_filter_pattern": "c", "table_types": ["T"], "include_schema": True},
            "1a0163 220154 2801",
        ),
        ("CommandGetPrimaryKeys", {"db_schema": "s", "table": "t"}, "120173 1a0174"),
        ("CommandStatementQuery", {"query": "q"}, "0a0171"),
        ("TicketStatementQuery", {"statement_handle": b"\0"}, "0a0100"),
        (
            "ActionCreatePreparedStatementResult",
            {"dataset_schema": b"a", "parameter_schema": b"b", "is_update": False},
            "120161 1a0162 2000",
        ),
        ("CancelFlightInfoRequest", {"info": {"endpoint": [{"ticket": {}}]}}, "0a04 1a02 0a00"),
        ("CloseSessionResult", {"status": 1}, "0801"),
    ],
)
def test_messages_have_the_published_bytes(
    name: str, fields: dict[str, object], written: str
) -> None:
    """Numbers and types of fields are those of FlightSql.proto and Flight.proto of Apache Arrow."""
    data = bytes.fromhex(written)
    assert messages.encoded(name, **fields) == data
    assert messages.decoded(name, data).SerializeToString() == data


def test_messages_are_wrapped_with_their_type() -> None:
    """Another type is refused, whatever its bytes; an absent field is none."""
    wrapped = messages.packed("CommandGetDbSchemas", catalog="daf")
    theirs = any_pb2.Any.FromString(wrapped)
    assert theirs.type_url == "type.googleapis.com/arrow.flight.protocol.sql.CommandGetDbSchemas"
    read = messages.unpacked("CommandGetDbSchemas", wrapped)
    assert messages.given(read, "catalog") == "daf"
    assert messages.given(read, "db_schema_filter_pattern") is None
    with pytest.raises(errors.InvalidInputError, match="holds CommandGetCatalogs"):
        messages.unpacked("CommandGetDbSchemas", messages.packed("CommandGetCatalogs"))
    other = any_pb2.Any(type_url="x/y").SerializeToString()
    with pytest.raises(errors.InvalidInputError, match="no message of Flight SQL"):
        messages.unpacked("CommandGetDbSchemas", other)


@given(st.sampled_from(sorted(messages.MESSAGES)), st.binary(max_size=12))
def test_any_bytes_are_a_message_or_an_error(name: str, data: bytes) -> None:
    """Cut off, nested, of other types: nothing but an error of ours."""
    with contextlib.suppress(errors.InvalidInputError):
        messages.decoded(name, data)
    with contextlib.suppress(errors.InvalidInputError):
        messages.wrapped_in(data)

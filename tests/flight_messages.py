"""Messages that a client of Flight SQL sends, by pyarrow alone."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
from google.protobuf import any_pb2
from pyarrow import flight

from daf_query.flight_sql._answers import MESSAGES


def packed(name: str, **fields: Any) -> bytes:
    """Return the bytes of a message with its type, as Apache Arrow publishes it."""
    wrapped = any_pb2.Any()
    wrapped.Pack(getattr(MESSAGES, name)(**fields))
    written: bytes = wrapped.SerializeToString()
    return written


def answer(client: flight.FlightClient, name: str, **fields: Any) -> pa.Table:
    """Return the answer to a command."""
    descriptor = flight.FlightDescriptor.for_command(packed(name, **fields))
    info = client.get_flight_info(descriptor)
    rows = client.do_get(info.endpoints[0].ticket).read_all()
    assert rows.schema == info.schema == client.get_schema(descriptor).schema
    return rows


def prepared(client: flight.FlightClient, query: str) -> bytes:
    """Return the handle of a prepared statement."""
    body = packed("ActionCreatePreparedStatementRequest", query=query)
    (result,) = client.do_action(flight.Action("CreatePreparedStatement", body))
    content = any_pb2.Any.FromString(result.body.to_pybytes()).value
    handle: bytes = MESSAGES.ActionCreatePreparedStatementResult.FromString(
        content
    ).prepared_statement_handle
    return handle


def bound(client: flight.FlightClient, handle: bytes, values: pa.RecordBatch) -> bytes:
    """Return the handle of a statement to whose parameters values are bound."""
    command = packed("CommandPreparedStatementQuery", prepared_statement_handle=handle)
    descriptor = flight.FlightDescriptor.for_command(command)
    writer, reader = client.do_put(descriptor, values.schema)
    with writer:
        writer.write_batch(values)
        writer.done_writing()
        result = MESSAGES.DoPutPreparedStatementResult.FromString(reader.read().to_pybytes())
    found: bytes = result.prepared_statement_handle
    return found

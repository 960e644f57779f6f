"""Tests of the values that clients bind to parameters: whole, small, and of the calendar."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import flight

from daf_query import connect
from daf_query.flight_sql import FlightSqlLimits, FlightSqlServer
from daf_storage import MemoryDaf
from tests.flight_messages import answer, bound, prepared


@pytest.fixture(scope="module")
def client() -> Iterator[flight.FlightClient]:
    """Return a client of a server that takes queries of 3,000 bytes."""
    limits = FlightSqlLimits(max_query_bytes=3_000)
    with (
        connect(MemoryDaf()) as session,
        FlightSqlServer(session, limits=limits) as server,
        flight.connect(server.uri) as client,
    ):
        yield client


def _bound(client: flight.FlightClient, query: str, value: pa.Array) -> pa.Table:
    """Return the rows of a query with a value."""
    batch = pa.RecordBatch.from_arrays([value], ["p"])
    handle = bound(client, prepared(client, query), batch)
    return answer(client, "CommandPreparedStatementQuery", prepared_statement_handle=handle)


def _dictionary(index: int) -> pa.Array:
    return pa.DictionaryArray.from_arrays(pa.array([index]), pa.array(["a"]), safe=False)


def _list_of(items: pa.Array) -> pa.Array:
    return pa.ListArray.from_arrays(pa.array([0, len(items)], pa.int32()), items)


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (pa.array([b"\xff\xfe"]).view(pa.string()), "damaged: .*UTF8"),
        (_dictionary(1 << 20), "damaged: .*out of bounds"),
        (_dictionary(-9), "damaged: .*out of bounds"),
        (pa.array([2**62], pa.timestamp("s")), r"a timestamp\[s\] that is out of range"),
        (
            pa.array([86_400_000 * 2**35], pa.int64()).view(pa.date64()),
            r"a date64\[ms\] that is out of range",
        ),
        (pa.array([0], pa.timestamp("us", "Nowhere/No")), "out of range: 'Nowhere/No'"),
        (pa.array([[["a"]]]), "cannot be a list of list<.*; send a list of plain values"),
        (
            _list_of(pa.DictionaryArray.from_arrays(np.zeros(9, "i1"), pa.array(["x" * 100]))),
            "cannot be a list of dictionary",
        ),
        (_list_of(pa.nulls(5_000)), r"the parameters have 5,0.. bytes.*max-query-bytes"),
        (pa.array(["x" * 4_000]), r"the parameters have 4,... bytes.*max-query-bytes"),
        (pa.array([1, 2]), "was given several"),
        (pa.array([], pa.int64()), "no row of parameters"),
    ],
)
def test_values_that_cannot_be_read_are_refused(
    client: flight.FlightClient, value: pa.Array, message: str
) -> None:
    """In words for the client, whose fault it is."""
    with pytest.raises(pa.ArrowInvalid, match=message):
        _bound(client, "SELECT ?", value)


@pytest.mark.parametrize("kind", [pa.string(), pa.large_string()])
def test_lists_of_strings_are_bound(client: flight.FlightClient, kind: pa.DataType) -> None:
    """For IN."""
    value = _list_of(pa.array(["a", None, "b"], kind))
    found = _bound(client, "SELECT 'a' IN ? AS x", value)
    assert found.to_pylist() == [{"x": True}]

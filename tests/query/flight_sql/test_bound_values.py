"""Tests of the values that clients bind to parameters: whole, small, and of the calendar."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import flight

from daf_query.flight_sql import FlightSqlLimits
from daf_query.flight_sql._statements import bound_query
from daf_storage import errors

_VIEW = struct.pack("<i4s2i", 100, b"xxxx", 0, 0)


def _sent(value: pa.Array) -> Iterator[Any]:
    """Yield what a reader of Flight yields."""
    yield SimpleNamespace(data=pa.RecordBatch.from_arrays([value], ["p"]))


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
    ],
)
def test_values_that_cannot_be_read_are_refused(value: pa.Array, message: str) -> None:
    """In words for the client, whose fault it is."""
    with pytest.raises(pa.ArrowInvalid, match=message):
        bound_query("SELECT ?", _sent(value), FlightSqlLimits())


def _received(data: bytes) -> Iterator[Any]:
    """Yield the batches of a stream of Arrow, as a reader of Flight does."""
    for batch in pa.ipc.open_stream(data):
        yield SimpleNamespace(data=batch)


def test_what_is_no_arrow_is_a_fault_of_the_client() -> None:
    """A stream that is cut off or damaged anywhere is refused, and never a fault of the server."""
    sink = pa.BufferOutputStream()
    batch = pa.record_batch({"p": pa.array(["a value"]).dictionary_encode()})
    with pa.ipc.new_stream(sink, batch.schema) as writer:
        writer.write_batch(batch)
    whole = sink.getvalue().to_pybytes()
    raised = []
    for place in range(len(whole)):
        changed = (whole[:place] + other + whole[place + 1 :] for other in (b"\x7f", b"\x80"))
        for damaged in (whole[:place], *changed):
            try:
                bound_query("SELECT ?", _received(damaged), FlightSqlLimits())
            except (pa.ArrowException, errors.DafError) as error:  # or of another name
                raised.append(error)
    refused = [str(error) for error in raised if not isinstance(error, errors.DafError)]
    assert {type(error).__name__ for error in raised} <= {
        "InvalidRequest",
        "QueryError",
        "InvalidInputError",
    }
    assert all(len(message) < 400 for message in refused)
    assert sum("the parameters are no Arrow: " in message for message in refused) > 100


@pytest.mark.parametrize(
    "error",
    [OSError("Expected to read 8 bytes"), pa.ArrowInvalid("x" * 9999), pa.ArrowIndexError()],
)
def test_errors_of_reading_are_short_and_in_words(error: Exception) -> None:
    """Whatever class they have in Arrow; that a client has gone is another thing."""

    def failing(raised: Exception) -> Iterator[Any]:
        yield SimpleNamespace(data=None)
        raise raised

    with pytest.raises(pa.ArrowInvalid, match="the parameters are no Arrow: ") as caught:
        bound_query("SELECT ?", failing(error), FlightSqlLimits())
    assert len(str(caught.value)) < 300
    with pytest.raises(flight.FlightCancelledError, match="gone"):
        bound_query("SELECT ?", failing(flight.FlightCancelledError("gone")), FlightSqlLimits())


@pytest.mark.parametrize(
    "items",
    [
        pa.nulls(5_000),
        pa.DictionaryArray.from_arrays(pa.array(np.zeros(50, "i1")), pa.array(["x" * 100])),
        pa.Array.from_buffers(
            pa.string_view(), 50, [None, pa.py_buffer(_VIEW * 50), pa.py_buffer(b"x" * 100)]
        ),
    ],
)
def test_many_items_in_few_bytes_are_counted(items: pa.Array) -> None:
    """Before any of them becomes an object, or a part of a query."""
    with pytest.raises(pa.ArrowInvalid, match=r"the parameters have 5,0.. bytes.*max-query-bytes"):
        bound_query("SELECT 1 IN ?", _sent(_list_of(items)), FlightSqlLimits(max_query_bytes=3_000))


@pytest.mark.parametrize("kind", [pa.string(), pa.large_string(), pa.string_view()])
def test_nulls_are_counted_once(kind: pa.DataType) -> None:
    """They have no bytes beside the one of each item, however often a dictionary has one."""
    items = pa.DictionaryArray.from_arrays(
        pa.array(np.zeros(900, "i1")), pa.array([None], pa.string()).cast(kind)
    )
    limits = FlightSqlLimits(max_query_bytes=1_000)
    bound = bound_query("SELECT 1 IN ?", _sent(_list_of(items)), limits)
    assert bound.count("NULL") == 900


@pytest.mark.parametrize(
    "items",
    [
        pa.array(["a", None, "b"]),
        pa.array(["a", None, "b"], pa.large_string()),
        pa.array(["a", None, "b"], pa.string_view()),
        pa.array(["a", None, "b"]).dictionary_encode(),
    ],
)
def test_lists_of_any_strings_are_bound(items: pa.Array) -> None:
    """However Arrow has them."""
    bound = bound_query("SELECT 'a' IN ?", _sent(_list_of(items)), FlightSqlLimits())
    assert bound == "SELECT 'a' IN ('a', NULL, 'b')"

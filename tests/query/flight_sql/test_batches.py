"""Tests of rows as they travel."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pyarrow as pa
import pytest

from daf_query._wire import joined, wire_schema
from daf_query.flight_sql import FlightSqlLimits
from daf_query.flight_sql._answers import wire_batches

NO_LIMITS = FlightSqlLimits()


def test_types_become_plain_within_others() -> None:
    """Dictionaries, views and runs, in lists and structs; what else there is, stays."""
    nested = pa.struct([pa.field("a", pa.list_(pa.dictionary(pa.int8(), pa.string_view())))])
    plain = pa.struct([pa.field("a", pa.list_(pa.string()))])
    types = {
        pa.string_view(): pa.string(),
        pa.binary_view(): pa.binary(),
        pa.run_end_encoded(pa.int32(), pa.float32()): pa.float32(),
        nested: plain,
        pa.large_list(nested): pa.large_list(plain),
        pa.list_view(pa.int8()): pa.list_(pa.int8()),
        pa.list_(pa.string_view(), 2): pa.list_(pa.string(), 2),
        pa.timestamp("ns", "UTC"): pa.timestamp("ns", "UTC"),
        pa.decimal128(5, 2): pa.decimal128(5, 2),
        pa.large_string(): pa.large_string(),
    }
    for data_type, expected in types.items():
        field = pa.field("x", data_type, nullable=False, metadata={"unit": "m"})
        schema = wire_schema(pa.schema([field], metadata={"of": "the schema"}))
        assert schema.field(0).type == expected
        assert schema.field(0).metadata == {b"unit": b"m"}
        assert not schema.field(0).nullable
        assert schema.metadata is None


def test_batches_are_cut_to_a_few_megabytes_in_their_order() -> None:
    """Also where few rows are large; a row is never cut, and a slice is not sent with the whole."""
    small = pa.record_batch({"n": range(200_000)})
    wide = pa.record_batch({"n": range(10)}).append_column("x", pa.array(["x" * 1_500_000] * 10))
    for batch in (small, wide):
        schema = wire_schema(batch.schema)
        parts = list(wire_batches([batch, batch.slice(5, 3)], schema, NO_LIMITS))
        assert all(part.nbytes <= 2 << 20 for part in parts if part.num_rows > 1)
        assert len(parts) > 4
        assert pa.Table.from_batches(parts) == pa.Table.from_batches([batch, batch.slice(5, 3)])
        assert all(part.schema == schema for part in parts)
    empty = pa.record_batch({"n": pa.array([], pa.int64())})
    assert list(wire_batches([empty], empty.schema, NO_LIMITS)) == []


def test_small_batches_travel_together() -> None:
    """In their order; large ones alone, and none is held back while others take time."""
    small = [pa.record_batch({"n": [number, number]}) for number in range(5000)]
    parts = list(joined(small))
    assert len(parts) < 20
    assert pa.Table.from_batches(parts) == pa.Table.from_batches(small)
    large = [pa.record_batch({"n": range(5000)}), pa.record_batch({"x": ["x" * 100_000]})]
    assert [list(joined([batch])) for batch in large] == [[batch] for batch in large]

    wide = [pa.record_batch({"x": ["x" * 50_000]})] * 200
    assert max(part.nbytes for part in joined(wide)) < 2 << 20

    def slow() -> Iterator[pa.RecordBatch]:
        for batch in small[:2]:
            time.sleep(0.15)
            yield batch

    assert len(list(joined(slow()))) <= 2
    assert list(joined([])) == []


def test_values_are_those_of_before() -> None:
    """Of dictionaries and views, with nulls."""
    batch = pa.record_batch(
        {
            "d": pa.array(["a", None, "b", "a"]).dictionary_encode(),
            "v": pa.array(["x" * 20, None, "", "y"], pa.string_view()),
        }
    )
    (part,) = wire_batches([batch], wire_schema(batch.schema), NO_LIMITS)
    assert part.to_pylist() == batch.to_pylist()
    assert part.schema.types == [pa.string(), pa.string()]


def test_results_that_are_too_large_end_at_the_limit() -> None:
    """What fits, is sent; the next row is an error, not an end."""
    batch = pa.record_batch({"n": range(100)})
    for limits, rows in (
        (FlightSqlLimits(max_rows=300), 300),
        (FlightSqlLimits(max_bytes=2400), 300),
    ):
        parts = wire_batches([batch] * 4, batch.schema, limits)
        assert sum(next(parts).num_rows for _ in range(3)) == rows
        with pytest.raises(pa.ArrowInvalid, match="a limit of this server: --max-"):
            next(parts)
        assert len(list(wire_batches([batch] * 3, batch.schema, limits))) == 3

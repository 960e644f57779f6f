"""Rows as they travel to other programs: in types that every client knows, in small messages."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from typing import Final

import pyarrow as pa

_MESSAGE_BYTES: Final = 2 << 20
"""About how large a message is; Go's client of Flight takes 16 MiB."""
_MESSAGE_ROWS: Final = 1 << 16
_FEW_ROWS: Final = 4096
_FEW_BYTES: Final = 1 << 16
_JOINING_SECONDS: Final = 0.1
"""How long rows wait for others."""


def wire_schema(schema: pa.Schema) -> pa.Schema:
    """Return a schema without dictionaries and views, which few drivers of JDBC and ODBC know.

    >>> wire_schema(pa.schema([("type", pa.dictionary(pa.int8(), pa.string_view()))]))
    type: string
    """
    return pa.schema([_wire_field(field) for field in schema])


def _wire_field(field: pa.Field) -> pa.Field:
    return field.with_type(_wire_type(field.type))


def _wire_type(data_type: pa.DataType) -> pa.DataType:
    types = pa.types
    if types.is_dictionary(data_type) or types.is_run_end_encoded(data_type):
        return _wire_type(data_type.value_type)
    if types.is_string_view(data_type):
        return pa.string()
    if types.is_binary_view(data_type):
        return pa.binary()
    if types.is_struct(data_type):
        return pa.struct([_wire_field(field) for field in data_type])
    if types.is_list(data_type) or types.is_list_view(data_type):
        return pa.list_(_wire_field(data_type.value_field))
    if types.is_large_list(data_type) or types.is_large_list_view(data_type):
        return pa.large_list(_wire_field(data_type.value_field))
    if types.is_fixed_size_list(data_type):
        return pa.list_(_wire_field(data_type.value_field), data_type.list_size)
    return data_type


def wire_parts(batches: Iterable[pa.RecordBatch], schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    """Yield rows in parts of a few megabytes, in the types of a schema."""
    for batch in batches:
        for start in range(0, batch.num_rows, _MESSAGE_ROWS):
            yield from _parts(_converted(batch.slice(start, _MESSAGE_ROWS), schema))


def joined(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Yield rows with small batches put together, unless more of them take time to compute.

    A cross join has batches of a few rows, each of which would be a message.
    """
    waiting: list[pa.RecordBatch] = []
    rows, size, since = 0, 0, 0.0
    for batch in batches:
        if not waiting:
            since = time.monotonic()
        waiting.append(batch)
        rows += batch.num_rows
        size += batch.nbytes
        is_enough = rows >= _FEW_ROWS or size >= _FEW_BYTES
        if is_enough or time.monotonic() - since > _JOINING_SECONDS:
            yield pa.concat_batches(waiting) if len(waiting) > 1 else batch
            waiting, rows, size = [], 0, 0
    if waiting:
        yield pa.concat_batches(waiting)


def _converted(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    columns = [
        column if column.type == field.type else column.cast(field.type)
        for column, field in zip(batch.columns, schema, strict=True)
    ]
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def _parts(batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    """Yield a batch in parts that fit into a message each; a row is never cut."""
    if batch.num_rows < 2 or batch.nbytes <= _MESSAGE_BYTES:
        yield batch
        return
    middle = batch.num_rows // 2
    yield from _parts(batch.slice(0, middle))
    yield from _parts(batch.slice(middle))

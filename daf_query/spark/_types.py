"""Types of columns as Spark has them: no unsigned integers, no views, no dictionaries."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

import pyarrow as pa

from daf_query.syntax import backticked
from daf_storage import errors

_SAME: Final = (
    *(pa.bool_(), pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.float32(), pa.float64()),
    *(pa.string(), pa.binary(), pa.date32(), pa.timestamp("us")),
)
_WIDER: Final = {
    pa.uint8(): pa.int16(),
    pa.uint16(): pa.int32(),
    pa.uint32(): pa.int64(),
    pa.uint64(): pa.decimal128(20, 0),
    pa.float16(): pa.float32(),
    pa.large_string(): pa.string(),
    pa.string_view(): pa.string(),
    pa.large_binary(): pa.binary(),
    pa.binary_view(): pa.binary(),
}
_DDL: Final = {
    pa.bool_(): "BOOLEAN",
    pa.int8(): "TINYINT",
    pa.int16(): "SMALLINT",
    pa.int32(): "INT",
    pa.int64(): "BIGINT",
    pa.float32(): "FLOAT",
    pa.float64(): "DOUBLE",
    pa.string(): "STRING",
    pa.binary(): "BINARY",
    pa.date32(): "DATE",
    pa.timestamp("us"): "TIMESTAMP_NTZ",
    pa.decimal128(20, 0): "DECIMAL(20,0)",
}


def spark_type(arrow_type: pa.DataType) -> pa.DataType | None:
    """Return the type that Spark has for all values of another; None if there is none.

    >>> spark_type(pa.uint8()), spark_type(pa.dictionary(pa.int32(), pa.string()))
    (DataType(int16), DataType(string))
    """
    if pa.types.is_dictionary(arrow_type):
        return spark_type(arrow_type.value_type)
    if pa.types.is_timestamp(arrow_type) and arrow_type.tz is None:
        return pa.timestamp("us")
    return arrow_type if arrow_type in _SAME else _WIDER.get(arrow_type)


def spark_schema(schema: pa.Schema) -> pa.Schema:
    """Return the columns of a schema that Spark can have, in its types; any of them may be NULL."""
    types = {field.name: spark_type(field.type) for field in schema}
    return pa.schema([(name, each) for name, each in types.items() if each is not None])


def ddl_of(schema: pa.Schema) -> str:
    """Return a schema as Spark writes it.

    >>> ddl_of(pa.schema([("age", pa.int16()), ("it's `odd`", pa.string())]))
    "`age` SMALLINT, `it's ``odd``` STRING"
    """
    return ", ".join(f"{backticked(field.name)} {_DDL[field.type]}" for field in schema)


def as_spark(batches: Iterable[pa.RecordBatch], schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    """Yield batches in the types of a schema.

    Raises
    ------
    UnsupportedDataError
        A value is not exact in the type of its column, such as nanoseconds.
    """
    for batch in batches:
        arrays = [
            _as_type(column, field) for column, field in zip(batch.columns, schema, strict=True)
        ]
        yield pa.RecordBatch.from_arrays(arrays, schema=schema)


def _as_type(column: pa.Array, field: pa.Field) -> pa.Array:
    if pa.types.is_dictionary(column.type):
        column = column.dictionary_decode()
    if column.type == field.type:
        return column
    try:
        return column.cast(field.type)
    except pa.ArrowInvalid as error:
        raise errors.UnsupportedDataError(
            f"the column {field.name!r} is {column.type}, and not all of its values are exact as "
            f"{_DDL.get(field.type, field.type)} ({error}); leave it out: name the "
            "others with the option 'select'"
        ) from None

"""Reads that Spark asks for, as fragments of tables, and their types; imports no pyspark.

Spark has no unsigned integers, no views and no dictionaries.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from daf_query.fragments import (
    AxisTable,
    Fragment,
    MatrixTable,
    NamedTable,
    plan_fragments,
    session_of,
    table_schema,
)
from daf_query.spark._options import MATRIX, ReadOptions, filter_of
from daf_query.syntax import backticked
from daf_storage import errors


@dataclass(frozen=True, eq=False)
class TableRead:
    """A table that Spark reads: its columns, and what is left of its rows."""

    options: ReadOptions
    table: NamedTable
    stored: pa.Schema
    """The columns as they are stored; those that Spark cannot have are not among them."""
    filter: pc.Expression | None = None
    """It holds for the rows that are read."""

    @classmethod
    def of(cls, options: ReadOptions) -> TableRead:
        """Return the read that options mean; metadata alone is read.

        Raises
        ------
        NotFoundError
            There is no such data set, axis, matrix or column.
        UnsupportedDataError
            Spark has no type for a column that was selected.
        """
        table = _table_of(options)
        schema = _schema_of(options, table)
        shown = spark_schema(schema)
        names = shown.names if options.select is None else options.selected(schema.names)
        for name in names:
            if name not in shown.names:
                raise errors.UnsupportedDataError(
                    f"{options.location}: Spark has no type for {schema.field(name).type}, which "
                    f"the column {name!r} of the table {options.table!r} is"
                )
        chosen = None if options.predicate is None else filter_of(options.predicate)
        return cls(options, table, pa.schema([schema.field(name) for name in names]), chosen)

    @property
    def schema(self) -> pa.Schema:
        """The columns in the types of Spark."""
        return spark_schema(self.stored)

    def selecting(self, names: Sequence[str]) -> TableRead:
        """Return the same read of some columns.

        Raises
        ------
        InvalidInputError
            A column is not among those of the table.
        """
        for name in names:
            if name not in self.stored.names:
                raise errors.InvalidInputError(
                    f"{self.options.location}: the schema that was given has the column {name!r}; "
                    f"the table {self.options.table!r} has "
                    f"{errors.shown_names(self.stored.names, none='none')}"
                )
        return replace(self, stored=pa.schema([self.stored.field(name) for name in names]))

    def parts(self) -> tuple[Fragment, ...]:
        """Return what is to be read; what cannot match is left out."""
        return plan_fragments(
            self.options.paths,
            self.table,
            columns=self.stored.names,
            filter=self.filter,
            rows_per_fragment=self.options.rows_per_partition,
        ).fragments


def _schema_of(options: ReadOptions, table: NamedTable) -> pa.Schema:
    try:
        return table_schema(options.paths, table)
    except errors.AxisNotFoundError as error:
        if options.of_matrix or options.table != MATRIX:
            raise
        text = f"{error}; of a matrix, say the options 'matrix' and 'axes' as well"
        raise errors.with_message(error, text) from None


def _table_of(options: ReadOptions) -> NamedTable:
    if options.of_matrix:
        return MatrixTable(*options.axes, options.matrix, options.rows, options.columns)
    if not options.matrix_columns:
        return AxisTable(options.table)
    columns = session_of(options.paths).matrix_columns(options.table, options.matrix_columns)
    return AxisTable(options.table, columns)


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

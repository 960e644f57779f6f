"""Queries that Spark computes, and the reads that it asks for; imports no pyspark.

Options are strings, with names in lower case.  A predicate is Arrow's own form of an expression, in
base 64.  Spark has no unsigned integers, no views and no dictionaries.
"""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from operator import and_, or_
from pathlib import Path
from typing import Any, Final

import pyarrow as pa

from daf_query._calls import positive_number
from daf_query.fragments import (
    ROWS_PER_FRAGMENT,
    AxisTable,
    Fragment,
    MatrixTable,
    NamedTable,
    Paths,
    plan_fragments,
    session_of,
    table_schema,
)
from daf_query.scan import COMPARISONS, And, Compare, Constant, In, IsNull, Or, Predicate
from daf_query.sql import QueryRequirements, TableRequirements
from daf_query.syntax import (
    backticked,
    one_statement,
    quoted_name,
    quoted_string,
    to_local,
    to_spark,
    with_definitions,
)
from daf_query.table import MatrixEntry
from daf_storage import errors
from daf_storage._lazy import pc
from daf_storage.base import optional_import

MATRIX: Final = "matrix"
_OF_ALL: Final = ("path", "table", "select", "rows_per_partition", "predicate")
_OF_AXIS: Final = (*_OF_ALL, "matrix_columns")
_OF_MATRIX: Final = (*_OF_ALL, "matrix", "axes", "rows", "columns")


@dataclass(frozen=True, slots=True)
class ReadOptions:
    """What is to be read."""

    paths: Paths
    """A path, a pattern, or several paths."""
    table: str
    """The axis; or ``matrix``, where `matrix` says which."""
    select: tuple[str, ...] | None = None
    """The columns; None for all that Spark can have."""
    matrix_columns: str = ""
    """Entries of matrices as columns, as SQL names them."""
    rows_per_partition: int = ROWS_PER_FRAGMENT
    predicate: pc.Expression | None = None
    """A filter that was planned already."""
    matrix: str = ""
    """The name of a matrix."""
    axes: tuple[str, str] = ("", "")
    """Its rows axis and its columns axis."""
    rows: str | None = None
    """A predicate on its rows; None for all."""
    columns: str | None = None

    @property
    def location(self) -> str:
        """The path or the pattern, or how many paths there are; for messages."""
        return _shown(self.paths)

    @classmethod
    def of(cls, options: Mapping[str, str]) -> ReadOptions:
        """Return what options mean.

        Raises
        ------
        InvalidInputError
            One is unknown, lacking or wrong.

        Examples
        --------
        >>> ReadOptions.of({"path": "pbmc.daf.zarr", "table": "cell", "select": "name, age"}).select
        ('name', 'age')
        """
        given = {name.lower(): str(value) for name, value in options.items()}
        path, table = given.get("path", ""), given.get("table", "")
        if not path:
            raise errors.InvalidInputError(
                "the option 'path' is missing: the path or the URL of a data set, or a pattern"
            )
        paths = _json_list(path) or path
        if not table:
            raise errors.InvalidInputError(
                f"{_shown(paths)}: which table is to be read? Say it with the option 'table': the "
                "name of an axis, or 'matrix'"
            )
        is_matrix = "matrix" in given and table == MATRIX
        available = _OF_MATRIX if is_matrix else _OF_AXIS
        values: dict[str, Any] = {}
        for name, value in given.items():
            if name in available[2:]:  # path and table are read already
                values[name] = _READ.get(name, str)(value)
            elif name not in available and not name.startswith(("_", "spark.")):  # as engines add
                raise errors.InvalidInputError(
                    f"the table {table!r} of format 'daf' has no option {name!r}; a matrix is "
                    "table='matrix', with the options 'matrix' and 'axes'; it has "
                    f"{errors.choices(name, available)}"
                )
        if is_matrix and "axes" not in given:
            raise errors.InvalidInputError(
                f"{_shown(paths)}: the matrix {given['matrix']!r} needs the option 'axes', such as "
                "'cell, gene'"
            )
        return cls(paths, table, **values)


def path_option(paths: Paths) -> str:
    """Return paths as the option ``path`` has them.

    >>> path_option(["a.daf.zarr", "b.daf.zarr"])
    '["a.daf.zarr", "b.daf.zarr"]'
    >>> path_option([])
    Traceback (most recent call last):
    daf_storage.errors.InvalidInputError: no path was given; pass a path, a pattern or a list
    """
    if not paths:
        raise errors.InvalidInputError("no path was given; pass a path, a pattern or a list")
    return str(paths) if isinstance(paths, str | Path) else json.dumps([*map(str, paths)])


def names_of(value: str) -> tuple[str, ...]:
    """Return names that commas separate; a JSON list where a name has a comma.

    >>> names_of("name, age"), names_of('["a, b"]')
    (('name', 'age'), ('a, b',))
    """
    names = _json_list(value) or [name.strip() for name in value.split(",")]
    if not all(names):
        raise errors.InvalidInputError(f"{value!r} is no list of names; separate them by commas")
    return tuple(names)


def _json_list(value: str) -> list[str] | None:
    """Return a JSON list of strings; None for anything else."""
    try:
        items = json.loads(value) if value.startswith("[") else None
    except ValueError:
        return None
    return items if items and all(isinstance(item, str) for item in items) else None


def _axes(value: str) -> tuple[str, ...]:
    names = names_of(value)
    if len(names) != 2:
        raise errors.InvalidInputError(
            f"axes={value!r} does not name two axes; write 'cell, gene': rows, then columns"
        )
    return names


def filter_of(text: str) -> pc.Expression:
    """Return the filter that a text holds.

    Raises
    ------
    InvalidInputError
        It holds none.

    >>> str(filter_of(filter_text(Compare("age", ">", 60), pa.schema([("age", pa.uint64())]))))
    '(age > 60)'
    """
    try:
        serialised = pa.py_buffer(base64.b64decode(text, validate=True))
        return pc.Expression._deserialize(serialised)  # noqa: SLF001 - what its pickles call
    except (binascii.Error, pa.ArrowException) as error:
        raise errors.InvalidInputError(
            f"predicate={text[:50]!r} is no filter ({error}); write the condition into the query "
            "of daf_query.spark.sql"
        ) from None


_READ: Final[Mapping[str, Callable[[str], Any]]] = {
    "select": lambda value: tuple(dict.fromkeys(names_of(value))),
    "axes": _axes,
    "predicate": filter_of,
    "rows_per_partition": lambda value: positive_number(
        int(value) if value.isdecimal() else value, "rows_per_partition"
    ),
}
"""What an option becomes that is more than a string."""


def _shown(paths: Paths) -> str:
    return str(paths) if not isinstance(paths, list) else f"{len(paths):,} data sets"


def filter_text(predicate: Predicate, schema: pa.Schema) -> str:
    """Return a predicate over the columns of a table as text; `filter_of` reads it.

    Constants have the types of their columns: UInt64 and Int64 would be compared as Int64, which
    not all values of UInt64 are.
    """
    (serialised,) = _expression(predicate, schema).__reduce__()[1]
    return base64.b64encode(serialised).decode()


def _expression(predicate: Predicate, schema: pa.Schema) -> pc.Expression:
    if isinstance(predicate, And | Or):
        parts = (_expression(part, schema) for part in predicate.parts)
        return reduce(and_ if isinstance(predicate, And) else or_, parts)
    if isinstance(predicate, Constant):
        return pc.scalar(predicate.value)
    if not isinstance(predicate, Compare | In | IsNull):
        raise TypeError(f"{predicate!r} is evaluated by nobody else")
    field, kind = pc.field(predicate.column), schema.field(predicate.column).type
    kind = kind.value_type if pa.types.is_dictionary(kind) else kind
    if isinstance(predicate, Compare):
        return COMPARISONS[predicate.operator](field, pc.scalar(pa.scalar(predicate.value, kind)))
    if isinstance(predicate, In):
        field = field.isin(pa.array(predicate.values, kind))
    elif isinstance(predicate, IsNull):
        field = field.is_null()
    return ~field if predicate.is_negated else field


def stored_columns(options: ReadOptions) -> pa.Schema:
    """Return the columns that are read, as they are stored; those that Spark can have.

    Raises
    ------
    NotFoundError
        There is no such data set, axis, matrix or column.
    UnsupportedDataError
        Spark has no type for a column that was selected.
    """
    schema = _schema_of(options, _table_of(options))
    shown = spark_schema(schema)
    names = shown.names if options.select is None else options.select
    for name in names:
        if name not in schema.names:
            raise errors.NotFoundError(
                f"{options.location}: the table {options.table!r} has no column {name!r}; it "
                f"has {errors.choices(name, schema.names)}"
            )
        if name not in shown.names:
            raise errors.UnsupportedDataError(
                f"{options.location}: Spark has no type for {schema.field(name).type}, which "
                f"the column {name!r} of the table {options.table!r} is"
            )
    return pa.schema([schema.field(name) for name in names])


def _schema_of(options: ReadOptions, table: NamedTable) -> pa.Schema:
    try:
        return table_schema(options.paths, table)
    except errors.AxisNotFoundError as error:
        if options.matrix or options.table != MATRIX:
            raise
        text = f"{error}; of a matrix, say the options 'matrix' and 'axes' as well"
        raise errors.with_message(error, text) from None


def _table_of(options: ReadOptions) -> NamedTable:
    if options.matrix:
        return MatrixTable(*options.axes, options.matrix, options.rows, options.columns)
    if not options.matrix_columns:
        return AxisTable(options.table)
    columns = session_of(options.paths).matrix_columns(options.table, options.matrix_columns)
    return AxisTable(options.table, columns)


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
_KEPT: Final = (
    *(pa.bool_(), pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.float32(), pa.float64()),
    *(pa.string(), pa.binary(), pa.date32(), pa.timestamp("us"), pa.decimal128(20, 0)),
)
"""The types that Spark has, too."""


def spark_type(arrow_type: pa.DataType) -> pa.DataType | None:
    """Return the type that Spark has for all values of another; None if there is none.

    >>> spark_type(pa.uint8()), spark_type(pa.dictionary(pa.int32(), pa.string()))
    (DataType(int16), DataType(string))
    """
    if pa.types.is_dictionary(arrow_type):
        return spark_type(arrow_type.value_type)
    if pa.types.is_timestamp(arrow_type) and arrow_type.tz is None:
        return pa.timestamp("us")
    return arrow_type if arrow_type in _KEPT else _WIDER.get(arrow_type)


def spark_schema(schema: pa.Schema) -> pa.Schema:
    """Return the columns of a schema that Spark can have, in its types; any of them may be NULL."""
    types = {field.name: spark_type(field.type) for field in schema}
    return pa.schema([(name, each) for name, each in types.items() if each is not None])


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
            f"{field.type} ({error}); leave it out: name the "
            "others with the option 'select'"
        ) from None


datasource = optional_import("pyspark.sql.datasource", extra="spark")
spark_types = optional_import("pyspark.sql.pandas.types", extra="spark")
_DataSource: Any = datasource.DataSource
_DataSourceReader: Any = datasource.DataSourceReader


class DafDataSource(_DataSource):
    """Tables of Daf data sets for Spark: ``spark.read.format("daf")``; `register` makes it known.

    Parameters
    ----------
    options
        What is read; see the reference.
    """

    @classmethod
    def name(cls) -> str:
        """Return the name of the format: ``daf``."""
        return "daf"

    def schema(self) -> Any:
        """Return the columns in the types of Spark."""
        found = spark_schema(stored_columns(ReadOptions.of(self.options)))
        return spark_types.from_arrow_schema(found)

    def reader(self, schema: Any) -> DafDataSourceReader:
        """Return what reads the columns of a schema, by their names."""
        options = ReadOptions.of(self.options)
        return DafDataSourceReader(replace(options, select=tuple(schema.names)))


class DafDataSourceReader(_DataSourceReader):
    """Reads a table: planned in one process, and read by others in parts.

    Parameters
    ----------
    options
        What is read.
    """

    def __init__(self, options: ReadOptions) -> None:
        self._options = options
        self._stored = stored_columns(options)

    def partitions(self) -> Sequence[Any]:
        """Return a partition for each part that may match; of none, one without rows."""
        options = self._options
        parts = plan_fragments(
            options.paths,
            _table_of(options),
            columns=self._stored.names,
            filter=options.predicate,
            rows_per_fragment=options.rows_per_partition,
        ).fragments
        return [datasource.InputPartition(part) for part in parts or (None,)]

    def read(self, partition: Any) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a part."""
        part: Fragment | None = partition.value
        return iter(()) if part is None else as_spark(part.read(), spark_schema(self._stored))


def register(spark: Any) -> None:
    """Make the format ``daf`` known to a session of Spark.

    Parameters
    ----------
    spark
        A ``SparkSession``, of Sail or of Apache Spark 4.1 or newer.
    """
    spark.dataSource.register(DafDataSource)


def sql(
    spark: Any, query: str, paths: Paths, *, rows_per_partition: int = ROWS_PER_FRAGMENT
) -> Any:
    """Return the answer of a query of Spark over the tables of data sets, as its DataFrame.

    Spark reads every column that a table of a Python data source has.  So the query is read here
    first, and Spark is shown only the columns that it names; what its WHERE says of the rows of a
    table prunes partitions, which filters of Spark do not.  Conditions above a subquery, in
    outer joins and of functions of Spark do not.

    Parameters
    ----------
    spark
        A ``SparkSession``; the format ``daf`` is registered in it.
    query
        One SELECT in Spark's SQL.  Its tables are axes of the data sets, views and tables of Spark;
        entries of matrices may be named as ``X['CD8A']``.
    paths
        A path or a URL, or a pattern or a list for a collection.
    rows_per_partition
        The most rows of a partition, about.

    Returns
    -------
    pyspark.sql.DataFrame
        Executed when its rows are asked for.

    Raises
    ------
    SourceNotFoundError
        There is no such data set.
    EntryNotFoundError, QueryError
        An entry of a matrix is not there, or written wrongly; or there are several statements.
    """
    register(spark)
    needs = session_of(paths).requirements(one_statement(to_local(query)))
    frames = {
        f"daf_{number}": _frame(spark, paths, axis, table, rows_per_partition)
        for number, (axis, table) in enumerate(needs.tables.items())
    }
    return spark.sql(_with_tables(query, needs, list(frames)), **frames)


def _frame(
    spark: Any, paths: Paths, axis: str, needs: TableRequirements, rows_per_partition: int
) -> Any:
    """Return the columns and rows of an axis that a query needs."""
    options = {
        "path": path_option(paths),
        "table": axis,
        "select": json.dumps(needs.columns),
        "rows_per_partition": str(rows_per_partition),
    }
    if needs.entries:
        options["matrix_columns"] = _written(needs.entries)
    if needs.predicate is not None:
        entries = {name: (e.axis, e.matrix, e.entry) for name, e in needs.entries.items()}
        columns = table_schema(paths, AxisTable(axis, entries))
        options["predicate"] = filter_text(needs.predicate, columns)
    return spark.read.format("daf").options(**options).load()


def _written(entries: Mapping[str, MatrixEntry]) -> str:
    """Return entries of matrices as the option ``matrix_columns`` has them."""
    items = []
    for name, each in entries.items():
        matrix = quoted_name(f"{each.axis}.{each.matrix}")
        items.append(f"{matrix}[{quoted_string(each.entry)}] AS {quoted_name(name)}")
    return ", ".join(items)


def _with_tables(query: str, needs: QueryRequirements, frames: list[str]) -> str:
    """Return a query whose tables are frames, which Spark puts in place of ``{name}``."""
    if any(table.entries for table in needs.tables.values()):
        query = to_spark(needs.query)
    query = query.rstrip("; \t\r\n").replace("{", "{{").replace("}", "}}")
    if not frames:
        return query
    # Not an injection: the names are of axes, and quoted.
    tables = ", ".join(
        f"{backticked(axis)} AS (SELECT * FROM {{{frame}}})"  # noqa: S608 - names are quoted
        for axis, frame in zip(needs.tables, frames, strict=True)
    )
    return with_definitions(query, tables)

"""Queries that Spark computes from just the columns and the rows that they need."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any

import pyarrow as pa

from daf_query.fragments import (
    ROWS_PER_FRAGMENT,
    AxisTable,
    Fragment,
    Paths,
    session_of,
    table_schema,
)
from daf_query.spark._read import ReadOptions, TableRead, as_spark, ddl_of, filter_text, path_option
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
from daf_storage.base import optional_import

datasource = optional_import("pyspark.sql.datasource", extra="spark")
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

    def schema(self) -> str:
        """Return the columns in the types of Spark."""
        return ddl_of(self._read.schema)

    def reader(self, schema: Any) -> DafDataSourceReader:
        """Return what reads the columns of a schema, by their names."""
        return DafDataSourceReader(self._read.selecting(list(schema.names)))

    @cached_property
    def _read(self) -> TableRead:
        return TableRead.of(ReadOptions.of(self.options))


class DafDataSourceReader(_DataSourceReader):
    """Reads a table: planned in one process, and read by others in parts.

    Parameters
    ----------
    read
        What is read.
    """

    def __init__(self, read: TableRead) -> None:
        self._read = read
        self._schema = read.schema

    def partitions(self) -> Sequence[Any]:
        """Return a partition for each part; of none, one without rows."""
        parts = self._read.parts() or (None,)
        return [datasource.InputPartition(part) for part in parts]

    def read(self, partition: Any) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a part."""
        part: Fragment | None = partition.value
        return iter(()) if part is None else as_spark(part.read(), self._schema)


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

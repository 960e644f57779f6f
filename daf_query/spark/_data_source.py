"""The data source ``daf`` of Spark; imports pyspark, with or without Java."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import Any

import pyarrow as pa

from daf_query.fragments import Fragment
from daf_query.spark._read import ReadOptions, TableRead, as_spark, ddl_of
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

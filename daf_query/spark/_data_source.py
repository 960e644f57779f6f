"""The data source ``daf`` of Spark; imports pyspark, with or without Java."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, MutableMapping, Sequence
from typing import Any, Final

import pyarrow as pa

from daf_query.fragments import Fragment
from daf_query.spark._options import PROFILE, ReadOptions
from daf_query.spark._profile_read import ProfilePart, ProfileRead
from daf_query.spark._read import TableRead, as_spark, ddl_of
from daf_storage.base import optional_import

_JAVA_PLANNER: Final = "pyspark.sql.worker.plan_data_source_read"
"""The module by which Spark with Java plans reads, in a process that does nothing else."""

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

    def __init__(self, options: MutableMapping[str, str]) -> None:
        super().__init__(options)
        self._read: TableRead | ProfileRead | None = None

    @classmethod
    def name(cls) -> str:
        """Return the name of the format: ``daf``."""
        return "daf"

    def schema(self) -> str:
        """Return the columns in the types of Spark."""
        return ddl_of(self._table().schema)

    def reader(self, schema: Any) -> DafDataSourceReader:
        """Return what reads the columns of a schema, by their names."""
        read = self._table()
        if isinstance(read, ProfileRead):
            return DafDataSourceReader(read)
        reader = DafDataSourceReader if _JAVA_PLANNER in sys.modules else PushingReader
        return reader(read.selecting(list(schema.names)))

    def _table(self) -> TableRead | ProfileRead:
        if self._read is None:
            options = ReadOptions.of(self.options)
            is_profile = options.of_matrix and options.table == PROFILE
            self._read = ProfileRead.of(options) if is_profile else TableRead.of(options)
        return self._read


class DafDataSourceReader(_DataSourceReader):
    """Reads a table or a profile: planned in one process, and read by others in parts.

    Parameters
    ----------
    read
        What is read.
    """

    def __init__(self, read: TableRead | ProfileRead) -> None:
        self._read = read
        self._schema = read.schema

    def partitions(self) -> Sequence[Any]:
        """Return a partition for each part; of none, one without rows."""
        parts = self._read.parts() or (None,)
        return [datasource.InputPartition(part) for part in parts]

    def read(self, partition: Any) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a part."""
        part: Fragment | ProfilePart | None = partition.value
        return iter(()) if part is None else as_spark(part.read(), self._schema)


class PushingReader(DafDataSourceReader):
    """Reads one table, and evaluates filters.

    Not for Spark with Java: unless it is configured to push filters, it refuses a reader that takes
    some; and if it is, it keeps what it planned with the filters of one query, and reads the same
    for the next query of the same table.
    """

    def __init__(self, read: TableRead) -> None:
        super().__init__(read)
        self._table = read

    def pushFilters(self, filters: Sequence[Any]) -> Iterable[Any]:  # noqa: N802 - Spark's name
        """Take the filters that mean the same here, and return those that Spark has to evaluate."""
        self._table, others = self._table.pushing(filters)
        self._read = self._table
        return others


def register(spark: Any) -> None:
    """Make the format ``daf`` known to a session of Spark.

    Parameters
    ----------
    spark
        A ``SparkSession``, of Sail or of Apache Spark 4.1 or newer.
    """
    spark.dataSource.register(DafDataSource)

"""The data source ``daf`` of Spark; imports pyspark, with or without Java."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, MutableMapping, Sequence
from typing import Any

import pyarrow as pa

from daf_query.spark._options import ReadOptions
from daf_query.spark._read import TableRead, read_fragment
from daf_query.spark._types import ddl_of
from daf_storage.spi import optional_import

datasource = optional_import("pyspark.sql.datasource", extra="spark")
_DataSource: Any = datasource.DataSource
_DataSourceReader: Any = datasource.DataSourceReader


class DafDataSource(_DataSource):
    """Tables of Daf data sets for Spark: ``spark.read.format("daf")``; `register` makes it known.

    Parameters
    ----------
    options
        What is read or written; see the reference.
    """

    def __init__(self, options: MutableMapping[str, str]) -> None:
        super().__init__(options)
        self._read: TableRead | None = None

    @classmethod
    def name(cls) -> str:
        """Return the name of the format: ``daf``."""
        return "daf"

    def schema(self) -> str:
        """Return the columns in the types of Spark."""
        return ddl_of(self._table().schema)

    def reader(self, schema: Any) -> DafDataSourceReader:
        """Return what reads the columns of a schema, by their names."""
        return DafDataSourceReader(self._table().selecting(list(schema.names)))

    def _table(self) -> TableRead:
        if self._read is None:
            self._read = TableRead.of(ReadOptions.of(self.options))
        return self._read


class DafDataSourceReader(_DataSourceReader):
    """Reads one table: planned in one process, and read by others.

    Parameters
    ----------
    read
        The table.
    """

    def __init__(self, read: TableRead) -> None:
        self._read = read
        self._schema = read.schema

    def pushFilters(self, filters: Sequence[Any]) -> Iterable[Any]:  # noqa: N802 - Spark's name
        """Take the filters that mean the same here, and return those that Spark has to evaluate."""
        self._read, others = self._read.pushing(filters)
        return others

    def partitions(self) -> Sequence[Any]:
        """Return a partition for each fragment; of none, one without rows."""
        fragments = self._read.fragments() or (None,)
        return [datasource.InputPartition(fragment) for fragment in fragments]

    def read(self, partition: Any) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a partition."""
        fragment = partition.value
        return iter(()) if fragment is None else read_fragment(fragment, self._schema)

"""The data source ``daf`` of Spark; imports pyspark, with or without Java."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, MutableMapping, Sequence
from typing import Any, Final

import pyarrow as pa

from daf_query.spark._options import PROFILE, ReadOptions
from daf_query.spark._profile_read import ProfileRead, read_part
from daf_query.spark._read import TableRead, read_fragment
from daf_query.spark._types import ddl_of
from daf_query.spark._write import StagedRows, VectorWrite
from daf_storage import IfExists
from daf_storage.spi import optional_import

_JAVA_PLANNER: Final = "pyspark.sql.worker.plan_data_source_read"
"""The module by which Spark with Java plans reads, in a process that does nothing else."""

datasource = optional_import("pyspark.sql.datasource", extra="spark")
_DataSource: Any = datasource.DataSource
_DataSourceReader: Any = datasource.DataSourceReader
_DataSourceWriter: Any = datasource.DataSourceArrowWriter
_WriterCommitMessage: Any = datasource.WriterCommitMessage


class DafDataSource(_DataSource):
    """Tables of Daf data sets for Spark: ``spark.read.format("daf")``; `register` makes it known.

    Parameters
    ----------
    options
        What is read or written; see the reference.
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

    def reader(self, schema: Any) -> DafDataSourceReader | ProfileReader:
        """Return what reads the columns of a schema, by their names."""
        read = self._table()
        if isinstance(read, ProfileRead):
            return ProfileReader(read)
        reader = DafDataSourceReader if _JAVA_PLANNER in sys.modules else PushingReader
        return reader(read.selecting(list(schema.names)))

    def writer(self, schema: Any, overwrite: bool) -> DafDataSourceWriter:  # noqa: FBT001 - Spark's
        """Return what writes the columns of a schema as vectors."""
        if_exists: IfExists = "replace" if overwrite else "error"
        return DafDataSourceWriter(VectorWrite.of(self.options, list(schema.names), if_exists))

    def _table(self) -> TableRead | ProfileRead:
        if self._read is None:
            options = ReadOptions.of(self.options)
            is_profile = options.of_matrix and options.table == PROFILE
            self._read = ProfileRead.of(options) if is_profile else TableRead.of(options)
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

    def partitions(self) -> Sequence[Any]:
        """Return a partition for each fragment; of none, one without rows."""
        fragments = self._read.fragments() or (None,)
        return [datasource.InputPartition(fragment) for fragment in fragments]

    def read(self, partition: Any) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a partition."""
        fragment = partition.value
        return iter(()) if fragment is None else read_fragment(fragment, self._schema)


class PushingReader(DafDataSourceReader):
    """Reads one table, and evaluates filters.

    Not for Spark with Java: unless it is configured to push filters, it refuses a reader that takes
    some; and if it is, it keeps what it planned with the filters of one query, and reads the same
    for the next query of the same table.
    """

    def pushFilters(self, filters: Sequence[Any]) -> Iterable[Any]:  # noqa: N802 - Spark's name
        """Take the filters that mean the same here, and return those that Spark has to evaluate."""
        self._read, others = self._read.pushing(filters)
        return others


class ProfileReader(_DataSourceReader):
    """Reads the parts of a profile.

    Parameters
    ----------
    read
        Which profile.
    """

    def __init__(self, read: ProfileRead) -> None:
        self._read = read
        self._schema = read.schema

    def partitions(self) -> Sequence[Any]:
        """Return a partition for each part; of none, one without rows."""
        parts = tuple(self._read.parts()) or (None,)
        return [datasource.InputPartition(part) for part in parts]

    def read(self, partition: Any) -> Iterator[pa.RecordBatch]:
        """Yield the moments of a part."""
        part = partition.value
        return iter(()) if part is None else read_part(part, self._schema)


class VectorsStaged(_WriterCommitMessage):
    """What a task tells the committer.

    Parameters
    ----------
    rows
        What it has written.
    """

    def __init__(self, rows: StagedRows) -> None:
        self.rows = rows


class DafDataSourceWriter(_DataSourceWriter):
    """Writes vectors: tasks stage their rows, and one committer stores them.

    Parameters
    ----------
    write
        Which vectors of which axis.
    """

    def __init__(self, write: VectorWrite) -> None:
        self._write = write

    def write(self, iterator: Iterator[pa.RecordBatch]) -> VectorsStaged:
        """Stage the rows of a task."""
        return VectorsStaged(self._write.stage(iterator))

    def commit(self, messages: Sequence[VectorsStaged | None]) -> None:
        """Store the rows of all tasks."""
        self._write.commit([message.rows for message in messages if message is not None])

    def abort(self, messages: Sequence[VectorsStaged | None]) -> None:  # noqa: ARG002 - Spark's
        """Delete what was staged."""
        self._write.abort()

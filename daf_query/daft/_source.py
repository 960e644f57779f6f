"""A source of Daft, and its tasks; imports Daft."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pyarrow as pa

from daf_query.daft._filters import pushed_filter
from daf_query.fragments import AxisTable, Fragment, Paths, plan_fragments, table_schema
from daf_query.scan import PLAIN_TYPES, cast_to
from daf_query.session import DafSession
from daf_storage.spi import optional_import

io_source = optional_import("daft.io.source", extra="daft")
logical_schema = optional_import("daft.schema", extra="daft")
record_batch = optional_import("daft.recordbatch", extra="daft")
_DataSource: Any = io_source.DataSource
_DataSourceTask: Any = io_source.DataSourceTask


class DafSource(_DataSource):
    """A table as Daft plans it.

    Parameters
    ----------
    source
        Paths, or a session.
    table
        The table.
    rows_per_task
        The most rows of a task, about.
    schema
        Which data set, where the session has several.
    """

    def __init__(
        self,
        source: Paths | DafSession,
        table: AxisTable,
        *,
        rows_per_task: int,
        schema: str | None = None,
    ) -> None:
        self._source = source
        self._table = table
        self._rows = rows_per_task
        self._schema_name = schema
        self._stored = table_schema(source, table, schema=schema)

    @property
    def name(self) -> str:
        """The name of the source."""
        return "daf"

    @property
    def schema(self) -> Any:
        """The columns in the types of Daft."""
        return logical_schema.Schema.from_pyarrow_schema(as_daft(self._stored))

    def get_tasks(self, pushdowns: Any) -> Iterator[DafTask]:
        """Yield a task for each fragment that a filter leaves, until there are enough rows."""
        filters, is_whole = pushed_filter(pushdowns.filters, self._stored)
        columns = pushdowns.columns
        needed = self._stored.names if columns is None else columns
        if columns is not None and pushdowns.filters is not None:
            others = pushdowns.filter_required_column_names()
            needed = list(dict.fromkeys([*needed, *others]))
        plan = plan_fragments(
            self._source,
            self._table,
            columns=[name for name in self._stored.names if name in needed],
            filter=filters,
            rows_per_fragment=self._rows,
            schema=self._schema_name,
        )
        limit = pushdowns.limit if is_whole else None
        rows = 0
        for fragment in plan.fragments:
            if limit is not None and filters is None and rows >= limit:
                return
            rows += fragment.row_count
            yield DafTask(fragment, limit)


class DafTask(_DataSourceTask):
    """A fragment that is read wherever Daft runs it.

    Parameters
    ----------
    fragment
        The fragment.
    limit
        No more rows are needed of it.
    """

    def __init__(self, fragment: Fragment, limit: int | None) -> None:
        self.fragment = fragment
        self.limit = limit

    @property
    def schema(self) -> Any:
        """The columns that are read, in the types of Daft."""
        return logical_schema.Schema.from_pyarrow_schema(as_daft(self.fragment.schema))

    def get_micro_partitions(self) -> Iterator[Any]:
        """Yield the rows, batch by batch."""
        schema = as_daft(self.fragment.schema)
        left = self.limit
        for batch in self.fragment.read():
            rows = _converted(batch if left is None else batch.slice(0, left), schema)
            yield record_batch.MicroPartition.from_arrow_record_batches([rows], schema)
            if left is not None:
                left -= rows.num_rows
                if left <= 0:
                    return


def as_daft(schema: pa.Schema) -> pa.Schema:
    """Return a schema in types that Daft has: strings instead of dictionaries and views."""
    fields = []
    for field in schema:
        arrow_type = PLAIN_TYPES.get(field.type, field.type)
        if pa.types.is_dictionary(arrow_type):
            arrow_type = arrow_type.value_type
        fields.append(pa.field(field.name, arrow_type, nullable=field.nullable))
    return pa.schema(fields)


def _converted(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """Return a batch with the types of a schema."""
    arrays = [
        column if column.type == field.type else cast_to(column, field.type)
        for column, field in zip(batch.columns, schema, strict=True)
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)

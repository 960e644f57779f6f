"""Batches of a table with the face of ``pyarrow.dataset.Scanner``."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.dataset as ds

from daf_query.scan import PLAIN_TYPES, PlannedScan, Predicate, cast_to, until_interpreter_ends
from daf_storage.spi import Span


class TableScanner:
    """Batches that are filtered and projected already; what engines ask of a ``ds.Scanner``."""

    def __init__(
        self, schema: pa.Schema, batches: Iterator[pa.RecordBatch], batch_rows: int
    ) -> None:
        self.projected_schema = schema
        self.dataset_schema = schema
        self._batches = batches
        self._batch_rows = batch_rows

    def to_batches(self) -> Iterator[pa.RecordBatch]:
        """Yield the batches, none of them with more rows than was asked for."""
        for batch in self._batches:
            if not batch.num_columns:
                yield batch
                continue
            for start in range(0, batch.num_rows, self._batch_rows):
                yield batch.slice(start, self._batch_rows)

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        """Export the rows as an Arrow stream."""
        return self.to_reader().__arrow_c_stream__(requested_schema)

    def to_reader(self) -> pa.RecordBatchReader:
        """Return the batches as a stream."""
        return pa.RecordBatchReader.from_batches(self.projected_schema, self.to_batches())

    def to_table(self) -> pa.Table:
        """Return all rows."""
        if len(self.projected_schema):
            return pa.Table.from_batches(self._batches, self.projected_schema)
        return self._rows().to_table()

    def count_rows(self) -> int:
        """Return how many rows there are."""
        return sum(batch.num_rows for batch in self._batches)

    def head(self, num_rows: int) -> pa.Table:
        """Return the first rows; reads no more than it has to."""
        return self._rows().head(num_rows)

    def take(self, indices: Any) -> pa.Table:
        """Return rows by their positions among those that are left."""
        return self.to_table().take(pa.array(indices))

    def scan_batches(self) -> Iterator[Any]:
        """Yield the batches as pyarrow's own scanner wraps them."""
        yield from self._rows().scan_batches()

    def _rows(self) -> ds.Scanner:
        return ds.Scanner.from_batches(self.to_batches(), schema=self.projected_schema)


def plain_schema(schema: pa.Schema) -> pa.Schema:
    """Return a schema without views, which Arrow stores and cannot compare."""
    return pa.schema([field.with_type(PLAIN_TYPES.get(field.type, field.type)) for field in schema])


def cast_batches(batches: Iterator[pa.RecordBatch], schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    """Yield batches with columns of other types."""
    for batch in batches:
        arrays = [
            column if column.type == field.type else cast_to(column, field.type)
            for column, field in zip(batch.columns, schema, strict=True)
        ]
        yield pa.RecordBatch.from_arrays(arrays, schema=schema) if arrays else batch


def scanned_batches(
    make_scan: Callable[[Predicate | None], PlannedScan],
    predicate: Predicate | None,
    names: Sequence[str],
    partitions: Sequence[Span] | None,
) -> Iterator[pa.RecordBatch]:
    """Yield batches; nothing is planned or read before the first is asked for."""

    def batches() -> Iterator[pa.RecordBatch]:
        yield from make_scan(predicate).batches(names, partitions)

    return until_interpreter_ends(batches())

"""The face of ``pyarrow.dataset.Fragment``, which engines scan."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds

BATCH_ROWS: Final = 1 << 17
"""The most rows of a batch, unless fewer are asked for."""


class Fragment:
    """Some rows of a table with the face of ``pyarrow.dataset.Fragment``."""

    def __init__(self, dataset: Any) -> None:
        self._dataset = dataset

    @property
    def physical_schema(self) -> pa.Schema:
        """The schema of the whole table."""
        schema: pa.Schema = self._dataset.schema
        return schema

    @property
    def partition_expression(self) -> pc.Expression:
        """TRUE: nothing is known of all rows."""
        return self._dataset.partition_expression

    def scanner(
        self,
        schema: pa.Schema | None = None,
        columns: Any = None,
        filter: pc.Expression | None = None,  # noqa: A002 - pyarrow's name
        batch_size: int = BATCH_ROWS,
        **_: Any,
    ) -> ds.Scanner:
        """Return a scanner of these rows."""
        raise NotImplementedError

    def to_batches(
        self, schema: pa.Schema | None = None, **kwargs: Any
    ) -> Iterator[pa.RecordBatch]:
        """Yield the rows in batches."""
        batches: Iterator[pa.RecordBatch] = self.scanner(schema, **kwargs).to_batches()
        return batches

    def to_table(self, schema: pa.Schema | None = None, **kwargs: Any) -> pa.Table:
        """Return the rows as a table."""
        return self.scanner(schema, **kwargs).to_table()

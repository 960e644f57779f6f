"""A table that is computed when it is first scanned."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds

from daf_query.scan import until_interpreter_ends
from daf_query.table._unscannable import unscannable
from daf_storage.spi import ForkLock


class ComputedDataset(ds.UnionDataset):
    """Rows that a function returns, once; for an engine that evaluates filters itself.

    Parameters
    ----------
    schema
        The names and types of the columns, which are known before.
    compute
        Returns the rows.
    """

    def __init__(self, schema: pa.Schema, compute: Callable[[], pa.Table]) -> None:
        self._schema = schema
        self._compute = compute
        self._table: pa.Table | None = None
        self._lock = ForkLock()
        # A C++ dataset behind this object, lest pyarrow follow a null pointer.
        ds.UnionDataset.__init__(self, schema, [unscannable(schema)])

    @property
    def schema(self) -> pa.Schema:
        """The Arrow schema."""
        return self._schema

    def table(self) -> pa.Table:
        """Return the rows."""
        with self._lock:
            if self._table is None:
                self._table = self._compute()
            return self._table

    def get_fragments(
        self,
        filter: pc.Expression | None = None,  # noqa: A002, ARG002 - pyarrow's signature
    ) -> Iterator[ComputedFragment]:
        """Yield one fragment, which has all rows; nothing is computed so far."""
        yield ComputedFragment(self)

    def scanner(self, columns: Any = None, **options: Any) -> Any:
        """Return a scanner of all rows; nothing is computed until it is consumed."""
        return ComputedFragment(self).scanner(columns=columns, **options)


class ComputedFragment:
    """All rows of a `ComputedDataset`."""

    def __init__(self, dataset: ComputedDataset) -> None:
        self._dataset = dataset

    def scanner(
        self,
        schema: pa.Schema | None = None,  # noqa: ARG002 - pyarrow's signature
        columns: Any = None,
        filter: pc.Expression | None = None,  # noqa: A002 - pyarrow's name
        **_: Any,
    ) -> ds.Scanner:
        """Return a scanner of the rows."""
        names = self._dataset.schema.names
        return ds.Scanner.from_batches(
            _batches(self._dataset),
            schema=self._dataset.schema,
            columns=names if columns is None else columns,
            filter=filter,
        )


def _batches(dataset: ComputedDataset) -> Iterator[pa.RecordBatch]:
    """Yield the rows; nothing is computed before the first batch is asked for."""

    def batches() -> Iterator[pa.RecordBatch]:
        yield from dataset.table().to_batches()

    return until_interpreter_ends(batches())

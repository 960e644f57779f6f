"""Tables as DataFusion has them: nullable, or computed when they are scanned.

Over columns that are declared to have no NULL, it answers ``(SELECT ...) IS NULL`` of no rows,
``NOT IN (SELECT ...)`` with NULL on the left and ``x & -x`` wrongly, and fails on a filter above
an outer join; over others it is right.  So all columns may be NULL for it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from operator import attrgetter
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds

from daf_query.scan import until_interpreter_ends
from daf_query.table._arrow_operations import BATCH_ROWS, Fragment, unscannable
from daf_query.table._table_scanner import TableScanner, cast_batches
from daf_storage.base import ForkLock


def nullable(schema: pa.Schema) -> pa.Schema:
    """Return a schema whose columns may all be NULL."""
    fields = [pa.field(f.name, f.type, nullable=True, metadata=f.metadata) for f in schema]
    return pa.schema(fields, schema.metadata)


class _EngineTable(ds.UnionDataset):
    """A table that has a schema."""

    def __init__(self, schema: pa.Schema) -> None:
        self._schema = schema
        # A C++ dataset behind this object, lest pyarrow follow a null pointer.
        ds.UnionDataset.__init__(self, schema, [unscannable(schema)])

    # Not a line of Python: of a Ctrl-C at one the engine would die here.
    schema = property(attrgetter("_schema"), doc="The Arrow schema.")


class NullableDataset(_EngineTable):
    """The rows of another table, with columns that may be NULL.

    Examples
    --------
    >>> import daf_query, daf_storage
    >>> daf = daf_storage.MemoryDaf()
    >>> daf.add_axis("cell", ["A"])
    >>> table = daf_query.connect(daf).table("cell")
    >>> table.schema.field("name").nullable, NullableDataset(table).schema.field("name").nullable
    (False, True)
    """

    def __init__(self, dataset: ds.Dataset) -> None:
        self._dataset = dataset
        super().__init__(nullable(dataset.schema))

    @property
    def partition_expression(self) -> pc.Expression:
        """TRUE: nothing is known of all rows."""
        return self._dataset.partition_expression

    def get_fragments(
        self,
        filter: pc.Expression | None = None,  # noqa: A002 - pyarrow's signature
    ) -> Iterator[Any]:
        """Yield the fragments of the other table; at least one, which the engine relies on."""
        scanners = [partial(each.scanner, None) for each in self._dataset.get_fragments(filter)]
        return (_NullableFragment(self, each) for each in scanners or [self._dataset.scanner])

    def scanner(self, *arguments: Any, **options: Any) -> Any:
        """Return the scanner of the other table."""
        return _nullable_scanner(self._dataset.scanner(*arguments, **options))


class _NullableFragment(Fragment):
    """Some rows of such a table."""

    def __init__(self, dataset: NullableDataset, scanner: Callable[..., Any]) -> None:
        super().__init__(dataset)
        self._scanner = scanner

    def scanner(self, schema: pa.Schema | None = None, *arguments: Any, **options: Any) -> Any:  # noqa: ARG002 - that of the engine
        """Return a scanner of these rows."""
        return _nullable_scanner(self._scanner(*arguments, **options))


def _nullable_scanner(scanner: Any) -> TableScanner:
    schema = nullable(scanner.projected_schema)
    return TableScanner(schema, cast_batches(scanner.to_batches(), schema), BATCH_ROWS)


class ComputedDataset(_EngineTable):
    """Rows that a function returns, once; for an engine that evaluates filters itself.

    Parameters
    ----------
    schema
        The names and types of the columns, which are known before.
    compute
        Returns the rows.
    """

    def __init__(self, schema: pa.Schema, compute: Callable[[], pa.Table]) -> None:
        super().__init__(schema)
        self._compute = compute
        self._table: pa.Table | None = None
        self._lock = ForkLock()

    def table(self) -> pa.Table:
        """Return the rows."""
        with self._lock:
            if self._table is None:
                self._table = self._compute()
            return self._table

    def get_fragments(
        self,
        filter: pc.Expression | None = None,  # noqa: A002, ARG002 - pyarrow's signature
    ) -> Iterator[Any]:
        """Yield one fragment, which has all rows; nothing is computed so far."""
        yield self

    def scanner(
        self,
        schema: pa.Schema | None = None,  # noqa: ARG002 - that of a fragment
        columns: Any = None,
        filter: pc.Expression | None = None,  # noqa: A002 - pyarrow's name
        **_: Any,
    ) -> Any:
        """Return a scanner of all rows; nothing is computed until it is consumed."""
        return ds.Scanner.from_batches(
            _batches(self),
            schema=self._schema,
            columns=self._schema.names if columns is None else columns,
            filter=filter,
        )


def _batches(dataset: ComputedDataset) -> Iterator[pa.RecordBatch]:
    """Yield the rows; nothing is computed before the first batch is asked for."""

    def batches() -> Iterator[pa.RecordBatch]:
        yield from dataset.table().to_batches()

    return until_interpreter_ends(batches())

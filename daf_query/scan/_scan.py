"""Execute a scan plan: the columns of the filter first, of the others just the rows that match."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import cache
from typing import Final

import numpy as np
import pyarrow as pa

from daf_query._runs import check_cancelled
from daf_query.scan._arrow_arrays import parts_of
from daf_query.scan._evaluate import Mask, Values, evaluate
from daf_query.scan._options import Rows
from daf_query.scan._plan import OpenTable, ScanPlan
from daf_query.scan._predicate import Predicate
from daf_storage.base import Span

_BATCH_ROWS: Final = 1 << 15


class Scan:
    """A plan that is executed, partition by partition, by one thread or by several."""

    def __init__(self, table: OpenTable, plan: ScanPlan) -> None:
        self.plan = plan
        self._table = table
        self._report = table.report
        self._report.plan = plan

    def batches(
        self, schema: pa.Schema, partitions: Sequence[Span] | None = None
    ) -> Iterator[pa.RecordBatch]:
        """Yield the matching rows of some partitions, by default of all in the plan.

        Parameters
        ----------
        schema
            The names of the columns, and the types that they have in the batches.
        """
        partitions = self.plan.partitions if partitions is None else partitions
        if not self.plan.conditions and not len(schema):
            yield _without_columns(self._count_unread(partitions))
            return
        small: list[pa.RecordBatch] = []
        for span in partitions:
            for batch in self._batches_of(span, schema):
                small.append(batch)
                if sum(batch.num_rows for batch in small) >= self._table.options.min_batch_rows:
                    yield _concatenated(small, schema)
                    small = []
        if small:
            yield _concatenated(small, schema)

    def again(self, predicate: Predicate | None, partitions: Sequence[Span]) -> Scan:
        """Return the scan of partitions for another filter, by which none was pruned."""
        table = self._table
        plan = ScanPlan.unpruned(partitions, predicate, table.rows)
        return Scan(table, replace(plan, conditions=[*table.required, *plan.conditions]))

    def first(self, schema: pa.Schema, count: int, offset: int = 0) -> Iterator[pa.RecordBatch]:
        """Yield the first matching rows, after some others; no more is read than they need."""
        for span in self.plan.partitions:
            if not count:
                return
            found, rows = self._counted(span, is_counted=False)
            if found <= offset:
                offset -= found
                continue
            rows = rows.part(offset, offset + count)
            offset, count = 0, count - rows.count
            yield from _pieces(self._arrays(rows), schema, rows.count)

    def count(self) -> int:
        """Return the number of matching rows."""
        partitions = self.plan.partitions
        if not self.plan.conditions:
            return self._count_unread(partitions)
        return sum(self._counted(span, is_counted=True)[0] for span in partitions)

    def _count_unread(self, partitions: Sequence[Span]) -> int:
        """Return the number of rows, or of those that indexes named; none of them is read."""
        if self.plan.rows is None:
            total = sum(span.size for span in partitions)
            self._report.count_rows(0, total)
            return total
        bounds = [(span.start, span.stop) for span in partitions]
        found = np.searchsorted(self.plan.rows, np.array(bounds, np.int64).reshape(-1, 2))
        total = int(np.diff(found).sum())
        self._report.count_rows(total, total)
        return total

    def _batches_of(self, span: Span, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
        """Yield the matching rows of one partition."""
        count, rows = self._counted(span, is_counted=not len(schema))
        return _pieces(self._arrays(rows), schema, count)

    def _arrays(self, rows: Rows) -> Callable[[str], pa.Array]:
        """Return what reads some rows of a column as Arrow."""

        def read(name: str) -> pa.Array:
            array = self._table.column(name).to_arrow(rows)
            self._report.count(name, array)
            return array

        return read

    def _counted(self, span: Span, *, is_counted: bool) -> tuple[int, Rows]:
        """Return what `_matching` does, after noting it in the report."""
        count, rows = self._matching(span, is_counted=is_counted)
        self._report.count_rows(span.size, count)
        return count, rows

    def _matching(self, span: Span, *, is_counted: bool) -> tuple[int, Rows]:
        """Return how many rows of a partition match, and which.

        If the rows are only counted, which ones is of no meaning: finding the offsets of many
        takes longer than the rest.  Here, between partitions, a scan ends if nobody waits for it.
        """
        # 1. All rows are candidates, or those that an index named.
        rows = self._candidates(span)
        count = rows.count
        mask: Mask | None = None
        conditions = self.plan.conditions
        for number, condition in enumerate(conditions, start=1):
            needs_rows = number < len(conditions) or not is_counted
            values = self._values(rows)
            is_true = evaluate(condition, values, rows.count, self._arrays(rows))
            if rows.offsets is not None:
                # 2a. Candidates are known by offset: leave those for which the condition is true.
                count = int(np.count_nonzero(is_true))
                if needs_rows:
                    rows = Rows(span, rows.offsets[is_true])
            else:
                # 2b. All rows were evaluated: combine masks, and go over to offsets as soon as
                #     few rows are left, so that later conditions read only these.
                mask = is_true if mask is None else mask & is_true
                count = int(np.count_nonzero(mask))
                is_sparse = count * self._table.options.sparse_divisor <= span.size
                if count and is_sparse and needs_rows:
                    rows = Rows(span, np.flatnonzero(mask))
            if count == 0:
                return 0, rows
        # 3. If many rows are left, their offsets are found now; if all are, the span will do.
        if rows.offsets is None and mask is not None and not is_counted and count < span.size:
            rows = Rows(span, np.flatnonzero(mask))
        return count, rows

    def _candidates(self, span: Span) -> Rows:
        check_cancelled()
        if self.plan.rows is None:
            return Rows(span)
        first, last = np.searchsorted(self.plan.rows, [span.start, span.stop])
        return Rows(span, self.plan.rows[first:last] - span.start)

    def _values(self, rows: Rows) -> Callable[[str], Values]:
        @cache
        def values(name: str) -> Values:
            column = self._table.column(name)
            read = column.values(rows)
            self._report.count(name, read)
            if rows.offsets is None and isinstance(read, np.ndarray) and column.zones is not None:
                column.zones.record(rows.span, read)
            return read

        return values


def _pieces(
    read: Callable[[str], pa.Array], schema: pa.Schema, count: int
) -> Iterator[pa.RecordBatch]:
    """Yield rows in batches of about the same size, in the types of a schema.

    Codes become strings batch by batch: so what is made of them stays in the processor's cache.
    """
    if not len(schema) and count:
        yield _without_columns(count)
    elif count:
        columns = [parts_of(read(field.name), field.type) for field in schema]
        rows = -(-count // -(-count // _BATCH_ROWS))
        for start in range(0, count, rows):
            parts = [part(start, min(start + rows, count)) for part in columns]
            yield pa.RecordBatch.from_arrays(parts, schema=schema)


def _without_columns(count: int) -> pa.RecordBatch:
    """Return a batch without columns, which still has its number of rows."""
    return pa.RecordBatch.from_arrays([pa.nulls(count)], names=["none"]).select([])


def _concatenated(batches: list[pa.RecordBatch], schema: pa.Schema) -> pa.RecordBatch:
    """Return the rows of some batches as one."""
    if len(batches) == 1:
        return batches[0]
    if not len(schema):
        return _without_columns(sum(batch.num_rows for batch in batches))
    arrays = [pa.concat_arrays([b.column(n) for b in batches]) for n in range(len(schema))]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)

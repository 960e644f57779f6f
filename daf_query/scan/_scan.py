"""Plan a scan, and execute it.

Planning reads metadata, zone maps and indexes, and no values: which partitions may have a match,
which rows indexes leave, what to evaluate first.  A *partition* is scanned by one thread, a
*fragment* is the partitions that one thread scans.  Partitions end where chunks end, as far as the
chunks of the columns have common ends.

Then the columns of the filter are read first, of the others just the rows that match.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from functools import cache, partial
from typing import Any, TypeAlias, TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from daf_query._runs import check_cancelled
from daf_query.scan._arrow_arrays import parts_of, size_bytes
from daf_query.scan._columns import (
    BATCH_ROWS,
    DEFAULT_OPTIONS,
    Column,
    OpenColumn,
    Rows,
    ScanOptions,
)
from daf_query.scan._predicate import (
    And,
    Codes,
    Constant,
    Mask,
    Positions,
    Predicate,
    RowIndex,
    Values,
    columns_of,
    conjuncts,
    describe,
    evaluate,
    may_match,
)
from daf_storage.base import DecodedCache, ForkLock, Span

_T = TypeVar("_T")


@dataclass(frozen=True, slots=True, eq=False)
class ScanPlan:
    """Partitions, candidate rows and conditions of one scan."""

    spans: Sequence[Span]
    """All rows of the table, cut into partitions."""
    partitions: Sequence[Span]
    """Those to be read: in which rows may match, narrowed to the zones in which they may."""
    predicate: Predicate | None = None
    """The filter, as far as it is evaluated here."""
    conditions: Sequence[Predicate] = ()
    """Its parts, joined by AND, in the order in which they are evaluated: cheap ones first."""
    rows: Positions | None = None
    """The only candidates, ascending; ``None`` for all rows of the partitions."""
    indexes: Sequence[str] = ()
    """The columns whose indexes named the candidates."""
    pruned: int = 0
    """How many of the spans are not read."""
    rows_pruned: int = 0
    """How many rows are not read, of those spans and of others."""


def by_columns(conditions: Iterable[Predicate]) -> list[Predicate]:
    """Return conditions with those on the same columns as one: both bounds of a range read it once.

    >>> from daf_query.scan import Compare
    >>> low, high = Compare("age", ">", 4), Compare("age", "<", 9)
    >>> by_columns([low, Compare("donor", "==", "a"), high])[0] == And((low, high))
    True
    """
    joined: dict[tuple[str, ...], list[Predicate]] = {}
    for condition in conditions:
        joined.setdefault(tuple(columns_of(condition)), []).append(condition)
    return [And(tuple(each)) if len(each) > 1 else each[0] for each in joined.values()]


@dataclass
class ScanReport:
    """What a scan was to read, and what it read; counted while it runs."""

    table: str
    """The name of the table."""
    length: int
    """Its number of rows."""
    index_rows: int | None = None
    """How many rows indexes left; ``None`` if none was used."""
    indexes: list[str] = field(default_factory=list)
    """The columns whose indexes were used."""
    ranges: int = 0
    """Partitions of the table."""
    pruned: int = 0
    """Partitions that were left out."""
    rows_pruned: int = 0
    """Rows that were left out, of those partitions and of others."""
    plan: ScanPlan = field(default=ScanPlan((), ()), repr=False, compare=False)
    """What the scan was to read; nothing if it was not begun."""
    read: int = 0
    """Partitions that were read."""
    rows_in: int = 0
    """Rows for which the filter was evaluated."""
    rows_out: int = 0
    """Rows that were passed on."""
    values: dict[str, int] = field(default_factory=dict)
    """Number of values that were read, by column; those of filters and of results add up."""
    bytes: dict[str, int] = field(default_factory=dict)
    """Their size in memory, by column; strings may have been dictionary codes."""
    notes: dict[str, str] = field(default_factory=dict)
    """Why reading a column is slower than it need be, and what to do, by column."""
    cache: DecodedCache | None = field(default=None, repr=False, compare=False)
    """The cache as this scan saw it, with its own count of hits."""
    lock: threading.Lock = field(default_factory=threading.Lock, repr=False, compare=False)

    @property
    def predicate(self) -> str:
        """The filter, as far as it was evaluated here."""
        return "" if self.plan.predicate is None else describe(self.plan.predicate)

    @property
    def cache_hits(self) -> int:
        """How often something decoded by an earlier query was used."""
        return 0 if self.cache is None else self.cache.hits

    def as_dict(self) -> dict[str, Any]:
        """Return it as plain Python, for machines."""
        shown = {each.name: getattr(self, each.name) for each in fields(self) if each.compare}
        copied = {"values": dict(self.values), "bytes": dict(self.bytes)}
        return {**shown, **copied, "predicate": self.predicate}

    def count(self, column: str, read: Values) -> None:
        """Add to the values read of a column."""
        values = read.codes if isinstance(read, Codes) else read
        with self.lock:
            self.values[column] = self.values.get(column, 0) + len(values)
            self.bytes[column] = self.bytes.get(column, 0) + size_bytes(values)

    def count_rows(self, span_rows: int, rows_out: int) -> None:
        """Add a partition that was read."""
        with self.lock:
            self.read += span_rows > 0
            self.rows_in += span_rows
            self.rows_out += rows_out


FindIndexes: TypeAlias = Callable[[Sequence[str], DecodedCache], Sequence[RowIndex]]
"""Returns the indexes of some columns: of one of them, or over two."""


@dataclass(eq=False)
class OpenTable:
    """What planning and all fragments of a query share, so that what they read is of one state."""

    columns: Mapping[str, Column]
    length: int
    cache: DecodedCache
    report: ScanReport
    """Counts what is read."""
    rows: Positions | None = None
    """The only rows that there are, ascending, where the caller restricted them."""
    required: Sequence[Predicate] = ()
    """What is true of all rows of any scan, whatever its filter is."""
    find_indexes: FindIndexes = lambda *_: ()
    """Returns the indexes of some columns."""
    options: ScanOptions = DEFAULT_OPTIONS
    _open: dict[str, OpenColumn] = field(default_factory=dict)
    _lock: ForkLock = field(default_factory=ForkLock)

    def column(self, name: str) -> OpenColumn:
        """Return a column, opened when it is first asked for."""
        with self._lock:
            if name not in self._open:
                self._open[name] = self.columns[name].open(self.cache, self.options)
            return self._open[name]


def plan_scan(table: OpenTable, predicate: Predicate | None) -> ScanPlan:
    """Return what a scan of a table has to read for a filter; ``None`` for all rows."""
    options, length = table.options, table.length
    # 1. Cut all rows where chunks end.
    step = common_step((each.chunk_rows for each in table.columns.values()), length=length)
    spans = aligned_spans(length, step=step, target_rows=target_rows(length, options))
    partitions, rows, indexes = spans, table.rows, list[str]()
    if predicate == Constant(value=True):
        predicate = None
    if predicate is not None:
        # 2. Ask the indexes which rows are candidates.
        rows, indexes = _candidates(table, predicate)
        # 3. Leave out the zones in which the filter is true for no row.
        if options.pruning:
            count = -(-length // options.zone_rows)
            may = may_match(predicate, lambda name: table.column(name).zones, count)
            if not may.all():
                zones = np.flatnonzero(may)
                partitions = narrowed(spans, zones, zone_rows=options.zone_rows, step=step)
    # 4. Leave out the partitions without a candidate.
    if rows is not None:
        bounds = np.searchsorted(rows, [(span.start, span.stop) for span in partitions])
        bounds = bounds.reshape(-1, 2)
        partitions = [span for span, (a, b) in zip(partitions, bounds, strict=True) if a < b]
    pruned = len(spans) - len(partitions)
    rows_pruned = length - sum(span.size for span in partitions)
    if rows is not None and partitions and rows.size <= options.min_batch_rows:
        # A partition each would take longer than all of the rows together.
        partitions = [Span(partitions[0].start, partitions[-1].stop)]
    conditions = by_columns(conjuncts(predicate))
    conditions.sort(key=partial(_is_costly, table))
    return ScanPlan(spans, partitions, predicate, conditions, rows, indexes, pruned, rows_pruned)


def target_rows(length: int, options: ScanOptions) -> int:
    """Return about how many rows a partition has: whole zones, and as many for each thread.

    >>> options = ScanOptions(threads=2, partition_rows=100, min_partition_rows=10, zone_rows=10)
    >>> target_rows(500, options), target_rows(101, options), target_rows(12, options)
    (90, 30, 10)
    """
    per_thread = max(2, -(-length // (options.partition_rows * options.threads)))
    share = -(-length // (per_thread * options.threads))
    target = min(max(share, options.min_partition_rows), options.partition_rows)
    if target <= max(options.zone_rows, options.min_partition_rows):
        return target
    return -(-target // options.zone_rows) * options.zone_rows


def _candidates(table: OpenTable, predicate: Predicate) -> tuple[Positions | None, list[str]]:
    """Return the rows that all indexes name, where they are few; None for all; and the indexes."""
    options, length = table.options, table.length
    if not options.indexes:
        return table.rows, []
    by_column: dict[str, list[Predicate]] = {}
    for condition in conjuncts(predicate):
        names = columns_of(condition)
        if len(names) == 1:
            by_column.setdefault(names[0], []).append(condition)
    rows, indexes = table.rows, list[str]()
    for index in table.find_indexes(list(by_column), table.cache):
        conditions = [part for name in index.columns for part in by_column[name]]
        positions = index.find(conditions, length // options.index_divisor)
        if positions is not None:
            rows = positions if rows is None else np.intersect1d(rows, positions)
            indexes.append(", ".join(index.columns))
    return rows, indexes


def _is_costly(table: OpenTable, condition: Predicate) -> bool:
    """Return whether values are not numbers, nor codes, so that few of them should be compared."""
    kinds = ((name, table.columns[name].field.type) for name in columns_of(condition))
    return any(
        (not pa.types.is_primitive(kind) or pa.types.is_temporal(kind))
        and table.column(name).zones is None
        for name, kind in kinds
    )


def common_step(chunk_rows: Iterable[int], *, length: int) -> int:
    """Return the distance of rows at which the chunks of all columns end together.

    Columns in a single chunk can be cut anywhere and do not count.  Where the grids have no
    common end within the axis, the largest chunk is the step: reading it twice costs most.

    >>> common_step([100, 100], length=100), common_step([2, 3, 100], length=100)
    (1, 6)
    """
    steps = {rows for rows in chunk_rows if 0 < rows < length}
    if not steps:
        return 1
    common = math.lcm(*steps)
    return common if common < length else max(steps)


def aligned_spans(length: int, *, step: int, target_rows: int) -> list[Span]:
    """Cut ``length`` rows into spans of about ``target_rows``, each ending on the grid.

    >>> [(s.start, s.stop) for s in aligned_spans(10, step=3, target_rows=4)]
    [(0, 6), (6, 10)]
    >>> aligned_spans(0, step=1, target_rows=4)
    []
    """
    rows = max(math.ceil(target_rows / step), 1) * step
    return [Span(start, min(start + rows, length)) for start in range(0, length, rows)]


def narrowed(
    spans: Sequence[Span], zones: npt.NDArray[np.int64], *, zone_rows: int, step: int
) -> list[Span]:
    """Return what is left of spans around some zones, each still ending on the grid.

    >>> left = narrowed([Span(0, 12), Span(12, 20)], np.array([1]), zone_rows=4, step=3)
    >>> [(span.start, span.stop) for span in left]
    [(3, 9)]
    """
    kept = []
    for span in spans:
        inside = zones[(zones >= span.start // zone_rows) & (zones * zone_rows < span.stop)]
        if inside.size:
            start = max(int(inside[0]) * zone_rows // step * step, span.start)
            stop = -(-(int(inside[-1]) + 1) * zone_rows // step) * step
            kept.append(Span(start, min(stop, span.stop)))
    return kept


def balanced(items: Sequence[_T], size: Callable[[_T], int], *, max_groups: int) -> list[list[_T]]:
    """Divide items into groups of neighbours of about the same size, one for a thread each.

    >>> spans = [Span(i, i + 1) for i in range(5)]
    >>> [len(group) for group in balanced(spans, lambda span: span.size, max_groups=2)]
    [3, 2]
    """
    sizes = [size(item) for item in items]
    total, done = sum(sizes), 0
    count = min(max_groups, len(items))
    groups: list[list[_T]] = []
    for item, item_size in zip(items, sizes, strict=True):
        if not groups or (done * count >= total * len(groups) and len(groups) < count):
            groups.append([])
        groups[-1].append(item)
        done += item_size
    return groups


class Scan:
    """A plan that is executed, partition by partition, by one thread or by several."""

    def __init__(self, table: OpenTable, plan: ScanPlan) -> None:
        self.plan = plan
        self._table = table
        self._report = report = table.report
        report.plan, report.ranges, report.pruned = plan, len(plan.spans), plan.pruned
        report.rows_pruned, report.indexes = plan.rows_pruned, list(plan.indexes)
        report.index_rows = None if plan.rows is None else plan.rows.size

    def batches(
        self, schema: pa.Schema, partitions: Sequence[Span] | None = None
    ) -> Iterator[pa.RecordBatch]:
        """Yield the matching rows of some partitions, by default of all in the plan.

        Parameters
        ----------
        schema
            The names of the columns, and the types that they have in the batches.
        """
        for span in self.plan.partitions if partitions is None else partitions:
            rows = self.matching(span, is_read=len(schema) > 0)
            yield from _pieces(self.arrays(rows), schema, rows.count)

    def again(self, predicate: Predicate | None, partitions: Sequence[Span]) -> Scan:
        """Return the scan of partitions for another filter, by which none was pruned."""
        table = self._table
        conditions = [*table.required, *by_columns(conjuncts(predicate))]
        return Scan(table, ScanPlan(partitions, partitions, predicate, conditions, table.rows))

    def arrays(self, rows: Rows) -> Callable[[str], pa.Array]:
        """Return what reads some rows of a column as Arrow."""

        def read(name: str) -> pa.Array:
            array = self._table.column(name).to_arrow(rows)
            self._report.count(name, array)
            return array

        return read

    def matching(self, span: Span, *, is_read: bool = True) -> Rows:
        """Return the rows of a partition that match; the report says whether they are read."""
        rows = self._matching(span, is_read=is_read)
        self._report.count_rows(span.size if is_read or self.plan.conditions else 0, rows.count)
        return rows

    def _matching(self, span: Span, *, is_read: bool) -> Rows:
        """Return the rows that match; if only their number counts, as many others."""
        check_cancelled()  # between partitions a scan ends if nobody waits for it
        rows, candidates = Rows(span), self.plan.rows
        if candidates is not None:
            first, last = np.searchsorted(candidates, [span.start, span.stop])
            rows = Rows(span, candidates[first:last] - span.start)
        mask: Mask | None = None
        for condition in self.plan.conditions:
            # Masks are combined; as soon as few rows are left, later conditions read only these.
            few = span.size // self._table.options.sparse_divisor
            if mask is not None and (rows.offsets is not None or np.count_nonzero(mask) <= few):
                rows, mask = rows.where(mask), None
            if not rows.count:
                return rows
            is_true = evaluate(condition, self._values(rows), rows.count, self.arrays(rows))
            mask = is_true if mask is None else mask & is_true
        if mask is None or mask.all():
            return rows
        return rows.where(mask) if is_read else Rows(Span(0, int(np.count_nonzero(mask))))

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


def first_rows(
    scans: Iterable[Scan], schema: pa.Schema, count: int, offset: int = 0
) -> Iterator[pa.RecordBatch]:
    """Yield the first matching rows of scans, after some others; no more is read than they need."""
    for scan in scans:
        for span in scan.plan.partitions:
            matching = scan.matching(span)
            rows = matching.part(offset, offset + count)
            offset, count = max(offset - matching.count, 0), count - rows.count
            yield from _pieces(scan.arrays(rows), schema, rows.count)
            if not count:
                return


def _pieces(
    read: Callable[[str], pa.Array], schema: pa.Schema, count: int
) -> Iterator[pa.RecordBatch]:
    """Yield rows in batches of about the same size, in the types of a schema.

    Codes become strings batch by batch: so what is made of them stays in the processor's cache.
    """
    if not len(schema) and count:
        yield pa.RecordBatch.from_arrays([pa.nulls(count)], names=["none"]).select([])
    elif count:
        columns = [parts_of(read(field.name), field.type) for field in schema]
        rows = -(-count // -(-count // BATCH_ROWS))
        for start in range(0, count, rows):
            parts = [part(start, min(start + rows, count)) for part in columns]
            yield pa.RecordBatch.from_arrays(parts, schema=schema)

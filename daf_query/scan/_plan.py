"""Plan a scan: which partitions may have a match, which rows indexes leave, what to evaluate first.

Reads metadata, zone maps and indexes, and no values.  A *partition* is scanned by one thread, a
*fragment* is the partitions that one thread scans.  Partitions end where chunks end, as far as the
chunks of the columns have common ends.
"""

from __future__ import annotations

import itertools
import math
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias, TypeVar

import numpy as np
import numpy.typing as npt

from daf_query.scan._arrow_arrays import size_bytes
from daf_query.scan._columns import Column, OpenColumn
from daf_query.scan._evaluate import Codes, Values, Zones, may_match
from daf_query.scan._options import DEFAULT_OPTIONS, Positions, ScanOptions
from daf_query.scan._predicate import (
    And,
    Compare,
    Constant,
    In,
    IsTrue,
    Predicate,
    columns_of,
    conjuncts,
    describe,
)
from daf_query.scan._zone_map import RowIndex
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

    @classmethod
    def unpruned(
        cls, partitions: Sequence[Span], predicate: Predicate | None, rows: Positions | None
    ) -> ScanPlan:
        """Return the plan of a filter by which nothing was pruned.

        >>> ScanPlan.unpruned([Span(0, 9)], None, None).partitions
        [Span(start=0, stop=9)]
        """
        return cls(partitions, partitions, predicate, by_columns(conjuncts(predicate)), rows)


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


_SHOWN: Final = (
    *("table", "length", "predicate", "index_rows", "indexes", "ranges", "pruned", "rows_pruned"),
    *("read", "rows_in", "rows_out", "values", "bytes", "split", "notes"),
)


@dataclass
class ScanReport:
    """What a scan was to read, and what it read; counted while it runs."""

    table: str
    """The name of the table."""
    length: int
    """Its number of rows."""
    plan: ScanPlan | None = field(default=None, repr=False, compare=False)
    """What the scan was to read; ``None`` if it was not begun."""
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
    chunk_rows: dict[str, int] = field(default_factory=dict, repr=False, compare=False)
    """Rows per chunk of the columns that were opened."""
    cache: DecodedCache | None = field(default=None, repr=False, compare=False)
    """The cache as this scan saw it, with its own count of hits."""
    lock: threading.Lock = field(default_factory=threading.Lock, repr=False, compare=False)

    @property
    def predicate(self) -> str:
        """The filter, as far as it was evaluated here."""
        predicate = None if self.plan is None else self.plan.predicate
        return "" if predicate is None else describe(predicate)

    @property
    def index_rows(self) -> int | None:
        """How many rows indexes left; ``None`` if none was used."""
        return None if self.plan is None or self.plan.rows is None else self.plan.rows.size

    @property
    def indexes(self) -> list[str]:
        """The columns whose indexes were used."""
        return [] if self.plan is None else list(self.plan.indexes)

    @property
    def ranges(self) -> int:
        """Partitions of the table."""
        return 0 if self.plan is None else len(self.plan.spans)

    @property
    def pruned(self) -> int:
        """Partitions that were left out."""
        return 0 if self.plan is None else self.plan.pruned

    @property
    def rows_pruned(self) -> int:
        """Rows that were left out, of those partitions and of others."""
        return 0 if self.plan is None else self.plan.rows_pruned

    @property
    def split(self) -> dict[str, int]:
        """How many chunks of a column lie in two partitions, and may be decoded for both."""
        spans = [] if self.plan is None else self.plan.spans
        counts = {
            name: split_chunks(spans, rows, length=self.length)
            for name, rows in list(self.chunk_rows.items())
        }
        return {name: count for name, count in counts.items() if count}

    @property
    def cache_hits(self) -> int:
        """How often something decoded by an earlier query was used."""
        return 0 if self.cache is None else self.cache.hits

    def as_dict(self) -> dict[str, Any]:
        """Return it as plain Python, for machines."""
        shown = {name: getattr(self, name) for name in _SHOWN}
        return {**shown, "values": dict(self.values), "bytes": dict(self.bytes)}

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


FindPointIndexes: TypeAlias = Callable[[Sequence[str], DecodedCache], Sequence[RowIndex]]
"""Returns the indexes over two of some columns of numbers."""


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
    find_point_indexes: FindPointIndexes = lambda *_: ()
    """Returns the indexes over two of some columns of numbers."""
    options: ScanOptions = DEFAULT_OPTIONS
    _open: dict[str, OpenColumn] = field(default_factory=dict)
    _lock: ForkLock = field(default_factory=ForkLock)

    def column(self, name: str) -> OpenColumn:
        """Return a column, opened when it is first asked for."""
        with self._lock:
            if name not in self._open:
                column = self.columns[name]
                self._open[name] = column.open(self.cache, self.options)
                self.report.chunk_rows[name] = column.chunk_rows
            return self._open[name]

    def point_indexes(self, names: Sequence[str]) -> Sequence[RowIndex]:
        """Return the indexes over two of some columns of numbers."""
        return self.find_point_indexes(names, self.cache)


def plan_scan(table: OpenTable, predicate: Predicate | None) -> ScanPlan:
    """Return what a scan of a table has to read for a filter; ``None`` for all rows."""
    options, length = table.options, table.length
    # 1. Cut all rows where chunks end, those of the filter's columns first.
    filtered = [] if predicate is None else columns_of(predicate)
    chunks = {name: column.chunk_rows for name, column in table.columns.items()}
    step = step_of([chunks.pop(name) for name in filtered], chunks.values(), length=length)
    spans = aligned_spans(length, step=step, target_rows=_target_rows(length, options))
    if predicate is None or predicate == Constant(value=True):
        return _finished(table, spans, spans, None, _Candidates(table.rows))
    if isinstance(predicate, Constant):
        return _finished(table, spans, [], predicate, _Candidates(table.rows))
    # 2. Ask the indexes which rows are candidates.
    found = _candidates(table, predicate)
    # 3. Leave out the zones in which the filter is true for no row.
    return _finished(table, spans, _pruned(table, predicate, spans, step), predicate, found)


def _target_rows(length: int, options: ScanOptions) -> int:
    """Return about how many rows a partition has: whole zones, and as many for each thread.

    >>> options = ScanOptions(threads=2, partition_rows=100, min_partition_rows=10, zone_rows=10)
    >>> _target_rows(500, options), _target_rows(12, options)
    (90, 10)
    """
    threads, zone_rows = options.threads, options.zone_rows
    share = -(-length // (2 * threads))
    target = min(options.partition_rows, max(share, options.min_partition_rows))
    if target <= max(zone_rows, options.min_partition_rows):
        return target
    count = -(-max(length, 1) // target)
    rows = -(-length // (-(-count // threads) * threads))
    return -(-max(rows, 1) // zone_rows) * zone_rows


def _finished(
    table: OpenTable,
    spans: Sequence[Span],
    partitions: Sequence[Span],
    predicate: Predicate | None,
    found: _Candidates,
) -> ScanPlan:
    """Return a plan after leaving out the partitions without a candidate."""
    rows = found.rows
    if rows is not None:
        bounds = np.searchsorted(rows, [(span.start, span.stop) for span in partitions])
        has_rows = [first < last for first, last in bounds.reshape(-1, 2)]
        partitions = [span for span, is_kept in zip(partitions, has_rows, strict=True) if is_kept]
    pruned = len(spans) - len(partitions)
    rows_pruned = table.length - sum(span.size for span in partitions)
    if rows is not None and partitions and rows.size <= table.options.single_partition_rows:
        # A partition each would take longer than all of the rows together.
        partitions = [Span(partitions[0].start, partitions[-1].stop)]
    conditions = by_columns(conjuncts(predicate))
    conditions.sort(key=lambda condition: _cost(table, condition))
    return ScanPlan(
        spans, partitions, predicate, conditions, rows, found.indexes, pruned, rows_pruned
    )


@dataclass(frozen=True, slots=True)
class _Candidates:
    """What indexes say of a filter."""

    rows: Positions | None
    """The only rows that may match; None for all."""
    indexes: Sequence[str] = ()
    """The columns whose indexes named them."""


def _candidates(table: OpenTable, predicate: Predicate) -> _Candidates:
    """Return the rows that all indexes name, where they are few."""
    options, length = table.options, table.length
    if not options.indexes:
        return _Candidates(table.rows)
    by_column: dict[str, list[Predicate]] = {}
    for condition in conjuncts(predicate):
        if isinstance(condition, Compare | In | IsTrue):
            by_column.setdefault(condition.column, []).append(condition)
    usable: list[RowIndex] = []
    numbers = []
    for name in by_column:
        index = table.column(name).row_index()
        if not table.columns[name].is_string:
            numbers.append(name)
        if index is not None:
            usable.append(index)
    if len(numbers) > 1:
        usable += table.point_indexes(numbers)
    rows, indexes = table.rows, []
    for index in usable:
        conditions = [part for name in index.columns for part in by_column[name]]
        positions = index.find(conditions, length // index.divisor(options))
        if positions is not None:
            rows = positions if rows is None else np.intersect1d(rows, positions)
            indexes.append(", ".join(index.columns))
    return _Candidates(rows, indexes)


def _pruned(
    table: OpenTable, predicate: Predicate, spans: Sequence[Span], step: int
) -> Sequence[Span]:
    """Return what is left of the spans where zone maps let the filter be true."""
    if not table.options.pruning:
        return spans
    zone_rows = table.options.zone_rows
    count = -(-table.length // zone_rows)
    bounds: dict[str, Zones | None] = {}
    for name in columns_of(predicate):
        zone_map = table.column(name).zones
        bounds[name] = None if zone_map is None else zone_map.zones(0, count)
    zones = np.flatnonzero(may_match(predicate, bounds.__getitem__, count))
    return spans if zones.size == count else narrowed(spans, zones, zone_rows=zone_rows, step=step)


def _cost(table: OpenTable, condition: Predicate) -> tuple[bool, bool]:
    """Return the rank of a condition: first what is cheap and leaves few rows."""
    is_string = any(
        table.columns[name].is_string and table.column(name).zones is None
        for name in columns_of(condition)
    )
    is_equality = isinstance(condition, Compare) and condition.operator == "=="
    return is_string, not is_equality


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


def step_of(first: Iterable[int], others: Iterable[int], *, length: int) -> int:
    """Return the distance of rows at which to cut.

    If not all chunks end together, those of the columns that are read everywhere (of a filter) do;
    the others are read where rows are left.

    >>> step_of([100], [30], length=1000), step_of([100], [301], length=1000)
    (300, 100)
    """
    first, others = list(first), list(others)
    step = common_step([*first, *others], length=length)
    is_common = all(step % rows == 0 for rows in (*first, *others) if 0 < rows < length)
    return step if is_common or not first else common_step(first, length=length)


def split_chunks(spans: Sequence[Span], chunk_rows: int, *, length: int) -> int:
    """Return how many chunks of a column lie in two spans, and are decoded for both.

    >>> spans = [Span(0, 6), Span(6, 10)]
    >>> split_chunks(spans, 3, length=10), split_chunks(spans, 4, length=10)
    (0, 1)
    """
    if not 0 < chunk_rows < length:
        return 0
    cuts = [
        after.start for before, after in itertools.pairwise(spans) if before.stop == after.start
    ]
    return len({cut // chunk_rows for cut in cuts if cut % chunk_rows})


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

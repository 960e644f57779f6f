"""Plan a scan: which partitions may have a match, which rows indexes leave, what to evaluate first.

Reads metadata, zone maps and indexes, and no values.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from daf_query.scan._open_table import OpenTable
from daf_query.scan._partition import aligned_spans, narrowed, step_of
from daf_query.scan._plan import ScanPlan, by_columns
from daf_query.scan._predicate import (
    Compare,
    Constant,
    In,
    IsTrue,
    Predicate,
    columns_of,
    conjuncts,
)
from daf_query.scan._prune import Zones, may_match
from daf_query.scan._row_index import RowIndex, settled_by
from daf_query.scan._rows import Positions
from daf_storage.base import Span


def plan_scan(table: OpenTable, predicate: Predicate | None) -> ScanPlan:
    """Return what a scan of a table has to read for a filter; ``None`` for all rows."""
    options, length = table.options, table.length
    # 1. Cut all rows where chunks end, those of the filter's columns first.
    filtered = [] if predicate is None else columns_of(predicate)
    chunks = {name: column.chunk_rows for name, column in table.columns.items()}
    step = step_of([chunks.pop(name) for name in filtered], chunks.values(), length=length)
    share = -(-length // (2 * options.threads))
    target = min(options.partition_rows, max(share, options.min_partition_rows))
    spans = aligned_spans(length, step=step, target_rows=target)
    if predicate is None or predicate == Constant(value=True):
        return _finished(table, spans, spans, None, _Candidates(table.rows))
    if isinstance(predicate, Constant):
        return _finished(table, spans, [], predicate, _Candidates(table.rows))
    # 2. Ask the indexes which rows are candidates.
    found = _candidates(table, predicate)
    # 3. Leave out the zones in which the filter is true for no row.
    return _finished(table, spans, _pruned(table, predicate, spans, step), predicate, found)


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
    open_ones = [each for each in conjuncts(predicate) if each not in found.settled]
    conditions = sorted(by_columns(open_ones), key=lambda condition: _cost(table, condition))
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
    settled: Sequence[Predicate] = ()
    """The conditions that all of these rows fulfil."""


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
    settled: list[Predicate] = []
    for index in usable:
        conditions = [part for name in index.columns for part in by_column[name]]
        most = length // index.divisor(options)
        positions = index.find(conditions, most)
        if positions is not None:
            rows = positions if rows is None else np.intersect1d(rows, positions)
            indexes.append(", ".join(index.columns))
            settled += settled_by(index, conditions, most)
    return _Candidates(rows, indexes, settled)


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

"""Scans: the columns of the predicate first, then the other columns for the rows that are left.

A scan cuts its rows into parts that end where chunks end.  It leaves out the parts of which the
smallest and largest values say that the filter is true for no row, evaluates the filter on the rest
with numpy, and takes the other columns only where rows are left.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeAlias

import numpy as np
import pyarrow as pa

from daf_query.scan import _partition as planning
from daf_query.scan._column import Column, OpenColumn, size_bytes
from daf_query.scan._evaluate import Codes, Mask, Positions, Values, Zones, evaluate, may_match
from daf_query.scan._options import DEFAULT_OPTIONS, ScanOptions
from daf_query.scan._predicate import And, Compare, Constant, In, Predicate, columns_of, describe
from daf_storage.spi import DecodedCache, ForkLock, Span

_EMPTY = pa.schema([])
_UNTOLD = ("lock", "cache")


@dataclass
class ScanReport:
    """What a scan did, for people who want to know; counted while it runs."""

    table: str
    length: int
    predicate: str = ""
    """The filter, as far as it was evaluated here."""
    index_rows: int | None = None
    """How many rows indexes left, if any was used."""
    indexes: list[str] = field(default_factory=list)
    """The columns whose indexes were used."""
    ranges: int = 0
    """Parts of the table."""
    pruned: int = 0
    """Parts that were left out."""
    rows_pruned: int = 0
    """Rows that were left out, of those parts and of others."""
    read: int = 0
    """Parts that were looked at."""
    rows_in: int = 0
    """Rows for which the filter was evaluated."""
    rows_out: int = 0
    """Rows that were handed on."""
    values: dict[str, int] = field(default_factory=dict)
    """Number of values that were read, by column; those of filters and of results add up."""
    bytes: dict[str, int] = field(default_factory=dict)
    """How many bytes those were in memory, by column; strings may have been codes of a byte."""
    split: dict[str, int] = field(default_factory=dict)
    """How many chunks of a column do not end where ranges do, and may be decoded for two."""
    cache: DecodedCache | None = field(default=None, repr=False, compare=False)
    """The cache as this scan saw it, with a count of hits of its own."""
    lock: threading.Lock = field(default_factory=threading.Lock, repr=False, compare=False)

    @property
    def cache_hits(self) -> int:
        """How often something decoded by an earlier query was used."""
        return 0 if self.cache is None else self.cache.hits

    def as_dict(self) -> dict[str, Any]:
        """Return it as plain Python, for machines."""
        names = [name for name in self.__dataclass_fields__ if name not in _UNTOLD]
        told = {name: getattr(self, name) for name in names}
        copied = {"values": dict(self.values), "bytes": dict(self.bytes), "split": dict(self.split)}
        return {**told, **copied, "indexes": list(self.indexes)}

    def count(self, column: str, found: Values) -> None:
        """Add to the values read of a column."""
        values = found.codes if isinstance(found, Codes) else found
        with self.lock:
            self.values[column] = self.values.get(column, 0) + len(values)
            self.bytes[column] = self.bytes.get(column, 0) + size_bytes(values)


class Points(Protocol):
    """An index over two columns of coordinates."""

    columns: tuple[str, str]

    def find(self, conditions: Mapping[str, Sequence[Predicate]], most: int) -> Positions | None:
        """Return the rows for which all conditions may be true; None if it cannot tell."""
        ...


FindPoints: TypeAlias = Callable[[Sequence[str], DecodedCache], Sequence[Points]]


class Scan:
    """The columns of one table as they are read for one query.

    All fragments of a query share it: each column is opened once, so that what they read belongs
    together.

    Parameters
    ----------
    rows
        The only rows there are, ascending, where an index has told which may be wanted.
    points
        Returns the indexes over two of some columns.
    """

    def __init__(
        self,
        columns: Mapping[str, Column],
        length: int,
        cache: DecodedCache,
        report: ScanReport,
        rows: Positions | None = None,
        points: FindPoints = lambda *_: (),
        options: ScanOptions = DEFAULT_OPTIONS,
    ) -> None:
        self._options = options
        self._points = points
        self._rows = rows
        self._columns = columns
        self._length = length
        report.index_rows = None if rows is None else rows.size
        self._cache = cache
        self._open: dict[str, OpenColumn] = {}
        self._parts: list[Span] = []
        self._lock = ForkLock()
        self.report = report

    def column(self, name: str) -> OpenColumn:
        """Return a column, ready to be read."""
        opened = self._opened(name)
        opened.load()
        return opened

    def _opened(self, name: str) -> OpenColumn:
        """Return a column, opened when it is first asked for; nothing is read yet."""
        with self._lock:
            if name not in self._open:
                column = self._columns[name]
                self._open[name] = column.open(self._cache, self._options)
                split = planning.split_chunks(self._parts, column.chunk_rows, length=self._length)
                if split:
                    self.report.split[name] = split
            return self._open[name]

    def parts(self, predicate: Predicate | None) -> list[Span]:
        """Return the ranges of rows in which the filter may be true for a row."""
        filtered = [] if predicate is None else columns_of(predicate)
        chunks = {name: column.chunk_rows for name, column in self._columns.items()}
        step = planning.step_of(
            [chunks.pop(name) for name in filtered], chunks.values(), length=self._length
        )
        options = self._options
        share = -(-self._length // (2 * options.threads))
        target = min(options.partition_rows, max(share, options.min_partition_rows))
        parts = planning.aligned_spans(self._length, step=step, target_rows=target)
        self.report.ranges = len(parts)
        self._parts = parts
        if predicate is None or isinstance(predicate, Constant):
            kept = parts if predicate is None or predicate.value else []
        else:
            self.report.predicate = describe(predicate)
            self._look_up(predicate)
            kept = self._possible(predicate, parts, step)
        if self._rows is not None:
            ends = np.searchsorted(self._rows, [(part.start, part.stop) for part in kept])
            kept = [part for part, (a, b) in zip(kept, ends.reshape(-1, 2), strict=True) if a < b]
        self.report.pruned = len(parts) - len(kept)
        self.report.rows_pruned = self._length - sum(part.size for part in kept)
        if self._rows is not None and kept and self._rows.size <= options.single_partition_rows:
            return [Span(kept[0].start, kept[-1].stop)]  # a part each would take longer
        return kept

    def _look_up(self, predicate: Predicate) -> None:
        """Leave only the rows that indexes name, where they are few."""
        by_column: dict[str, list[Predicate]] = {}
        for condition in _conditions(predicate):
            if isinstance(condition, Compare | In):
                by_column.setdefault(condition.column, []).append(condition)
        options = self._options
        found: dict[str, Positions | None] = {}
        for name, conditions in by_column.items():
            is_string = self._columns[name].is_string
            divisor = options.string_index_divisor if is_string else options.number_index_divisor
            found[name] = self._opened(name).find(conditions, self._length // divisor)
        numbers = [name for name in by_column if not self._columns[name].is_string]
        if len(numbers) > 1:
            for points in self._points(numbers, self._cache):
                rows = points.find(by_column, self._length // options.point_index_divisor)
                found[", ".join(points.columns)] = rows
        for name, rows in found.items():
            if rows is not None:
                known = self._rows
                self._rows = rows if known is None else np.intersect1d(known, rows)
                self.report.indexes.append(name)
                self.report.index_rows = self._rows.size

    def _possible(self, predicate: Predicate, parts: Sequence[Span], step: int) -> list[Span]:
        """Return what is left of the parts where zones say that the filter may be true."""
        zone_rows = self._options.zone_rows
        count = -(-self._length // zone_rows)
        known: dict[str, Zones | None] = {}
        for name in columns_of(predicate):
            zones = self._opened(name).zones
            known[name] = None if zones is None else zones.zones(0, count)
        found = np.flatnonzero(may_match(predicate, known.__getitem__, count))
        if found.size == count:
            return list(parts)
        kept = []
        for part in parts:
            inside = found[(found >= part.start // zone_rows) & (found * zone_rows < part.stop)]
            if inside.size:
                start = max(int(inside[0]) * zone_rows // step * step, part.start)
                stop = -(-(int(inside[-1]) + 1) * zone_rows // step) * step
                kept.append(Span(start, min(stop, part.stop)))
        return kept

    def batches(
        self, parts: Sequence[Span], names: Sequence[str], predicate: Predicate | None
    ) -> Iterator[pa.RecordBatch]:
        """Yield the rows of some parts for which the filter is true."""
        if predicate is None and not names and self._rows is None:
            total = sum(part.size for part in parts)
            with self.report.lock:
                self.report.rows_out += total
            yield _batch_of([], _EMPTY, total)  # counting reads nothing
            return
        fields = [self._columns[name].field for name in names]
        schema = pa.schema(fields) if fields else _EMPTY
        few: list[pa.RecordBatch] = []
        for part in parts:
            batch = self._batch(part, names, predicate, schema)
            if batch is None:
                continue
            few.append(batch)
            if sum(one.num_rows for one in few) >= self._options.min_batch_rows:
                yield _joined(few, schema)
                few = []
        if few:
            yield _joined(few, schema)

    def _batch(
        self, part: Span, names: Sequence[str], predicate: Predicate | None, schema: pa.Schema
    ) -> pa.RecordBatch | None:
        """Return the rows of one part for which the filter is true; None if there are none."""
        count, places = self._kept(predicate, part, are_counted=not names)
        with self.report.lock:
            self.report.read += part.size > 0
            self.report.rows_in += part.size
            self.report.rows_out += count
        if count == 0:
            return None
        arrays = []
        for name in names:
            column = self.column(name)
            array = column.array(part) if places is None else column.take(part, places)
            self.report.count(name, array)
            arrays.append(array)
        return _batch_of(arrays, schema, count)

    def _kept(
        self, predicate: Predicate | None, part: Span, *, are_counted: bool
    ) -> tuple[int, Positions | None]:
        """Return for how many rows of a part the filter is true, and for which, by place.

        None stands for all of them; also for any where they are only counted, since finding the
        places of many takes longer than the rest.
        """
        mask: Mask | None = None
        places: Positions | None = None
        count = part.size
        if self._rows is not None:
            first, last = np.searchsorted(self._rows, [part.start, part.stop])
            places = self._rows[first:last] - part.start
            count = places.size
        conditions = _conditions(predicate)
        for number, condition in enumerate(sorted(conditions, key=self._cost), start=1):
            is_last = number == len(conditions)
            if places is None:
                found = evaluate(condition, self._values(part), part.size)
                mask = found if mask is None else mask & found
                count = int(np.count_nonzero(mask))
                if (
                    count
                    and count * self._options.sparse_divisor <= part.size
                    and not (is_last and are_counted)
                ):
                    places = np.flatnonzero(mask)
            else:
                found = evaluate(condition, self._values_at(part, places), places.size)
                count = int(np.count_nonzero(found))
                if not (is_last and are_counted):
                    places = places[found]
            if count == 0:
                return 0, None
        if places is None and mask is not None and not are_counted and count < part.size:
            places = np.flatnonzero(mask)
        return count, places

    def _cost(self, condition: Predicate) -> int:
        """Return what to evaluate first: what is cheap, and leaves few rows."""
        is_string = any(
            self._columns[name].is_string and self._opened(name).zones is None
            for name in columns_of(condition)
        )
        is_equality = isinstance(condition, Compare) and condition.operator == "=="
        return 2 * is_string + (not is_equality)

    def _values(self, part: Span) -> Callable[[str], Values]:
        def values(name: str) -> Values:
            column = self.column(name)
            found = column.values(part)
            self.report.count(name, found)
            if column.zones is not None and isinstance(found, np.ndarray):
                column.zones.record(part, found)
            return found

        return values

    def _values_at(self, part: Span, places: Positions) -> Callable[[str], Values]:
        def values(name: str) -> Values:
            found = self.column(name).pick(part, places)
            self.report.count(name, found)
            return found

        return values


def _conditions(predicate: Predicate | None) -> Sequence[Predicate]:
    """Return what is joined by AND."""
    if predicate is None:
        return ()
    return predicate.parts if isinstance(predicate, And) else (predicate,)


def _batch_of(arrays: list[pa.Array], schema: pa.Schema, count: int) -> pa.RecordBatch:
    """Return a batch; one without columns still has its number of rows."""
    if arrays:
        return pa.RecordBatch.from_arrays(arrays, schema=schema)
    return pa.RecordBatch.from_arrays([pa.nulls(count)], names=["none"]).select([])


def _joined(batches: list[pa.RecordBatch], schema: pa.Schema) -> pa.RecordBatch:
    if len(batches) == 1:
        return batches[0]
    if not len(schema):
        return _batch_of([], schema, sum(batch.num_rows for batch in batches))
    arrays = [pa.concat_arrays([b.column(n) for b in batches]) for n in range(len(schema))]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)

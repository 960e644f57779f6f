"""Scan the elements of a matrix: which of them may match, and the batches of those that do.

What a filter says of one axis alone is evaluated on its entries, once each, and becomes a
selection: of the majors of a layout only the selected ones are read, elements of other minors are
dropped by their codes.  All else is evaluated element by element, block by block.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from daf_query.index import StoredIndexes
from daf_query.matrix import ElementBlock, Elements
from daf_query.scan import (
    NAME,
    Codes,
    Mask,
    Predicate,
    Rows,
    ScanOptions,
    ScanPlan,
    ScanReport,
    Values,
    VectorColumn,
    batch_of,
    concatenated,
    evaluate,
    number_array,
)
from daf_storage import DafReader, errors
from daf_storage.spi import DecodedCache, ForkLock, Span

MAJOR: Final = "major"
MINOR: Final = "minor"
VALUE: Final = "value"

_WIDE: Final = 8

Offsets = npt.NDArray[np.int64]


class AxisEntries:
    """The entries of an axis, decoded when they are first needed."""

    def __init__(
        self, daf: DafReader, axis: str, length: int, cache: DecodedCache, options: ScanOptions
    ) -> None:
        self._daf = daf
        self._axis = axis
        self._length = length
        self._cache = cache
        self._options = options
        self._lock = ForkLock()
        self._strings: pa.Array | None = None
        self._tables: dict[Predicate, Mask] = {}

    @property
    def strings(self) -> pa.Array:
        """The entries, in their order."""
        with self._lock:
            if self._strings is None:
                self._strings = self._decoded()
            return self._strings

    def _decoded(self) -> pa.Array:
        daf, axis = self._daf, self._axis
        column = VectorColumn(daf, daf.vector_info(axis, NAME), StoredIndexes(daf, axis))
        length = column.info.length
        strings = column.open(self._cache, self._options).to_arrow(Rows(Span(0, length)))
        if length != self._length:
            raise errors.FormatError(
                f"{daf.location}: the axis {axis!r} was replaced while a matrix of it was being "
                "queried; run the query again"
            )
        return strings if strings.type == pa.string() else strings.cast(pa.string())

    def table(self, predicate: Predicate) -> Mask:
        """Return for which entries a predicate is true."""
        table = self._tables.get(predicate)
        if table is None:
            strings = self.strings
            table = evaluate(predicate, lambda _: strings, len(strings))
            self._tables[predicate] = table
        return table

    def encoded(self, codes: npt.NDArray[np.int32]) -> pa.DictionaryArray:
        """Return positions as a dictionary of the entries; the codes are not copied."""
        indices = pa.Array.from_buffers(pa.int32(), codes.size, [None, pa.py_buffer(codes)])
        return pa.DictionaryArray.from_arrays(indices, self.strings, safe=False)


@dataclass(frozen=True, eq=False)
class Candidates:
    """The elements of a layout that may match, and what their columns are called."""

    elements: Elements
    """What is stored of the selected majors."""
    parts: Mapping[str, str]
    """Which part of an element each column is: its major, its minor or its value."""
    entries: Mapping[str, AxisEntries]
    """The entries of the columns that are axes."""
    minor_mask: Mask | None
    """Which minors are selected; ``None`` for all."""
    constants: Mapping[str, str]
    """Columns that hold the same string in all rows."""
    dtype: np.dtype[Any] | None
    """What numbers are converted to; None where they stay as they are."""


class MatrixScan:
    """A scan of a matrix, block by block, by one thread or by several; see `PlannedScan`."""

    def __init__(
        self,
        candidates: Candidates,
        plan: ScanPlan,
        schema: pa.Schema,
        report: ScanReport,
        options: ScanOptions,
    ) -> None:
        self.plan = plan
        self._candidates = candidates
        self._schema = schema
        self._report = report
        self._options = options
        report.plan = plan

    def for_filter(self, predicate: Predicate | None, report: ScanReport) -> MatrixScan:
        """Return a scan of the same candidates, for which another filter is evaluated."""
        plan = ScanPlan.unpruned(self.plan.partitions, predicate, None)
        return MatrixScan(self._candidates, plan, self._schema, report, self._options)

    def batches(
        self, names: Sequence[str], partitions: Sequence[Span] | None = None
    ) -> Iterator[pa.RecordBatch]:
        """Yield the matching elements of some partitions, by default of all in the plan."""
        partitions = self.plan.partitions if partitions is None else partitions
        schema = pa.schema([self._schema.field(name) for name in names])
        if not names and not self.plan.conditions and self._candidates.minor_mask is None:
            total = sum(span.size for span in partitions)
            self._report.count_rows(0, total)
            yield batch_of([], schema, total)  # counting reads nothing
            return
        small: list[pa.RecordBatch] = []
        for span in partitions:
            batch = self._batch(span, names, schema)
            if batch is not None:
                small.append(batch)
            if sum(batch.num_rows for batch in small) >= self._options.min_batch_rows:
                yield concatenated(small, schema)
                small = []
        if small:
            yield concatenated(small, schema)

    def _batch(self, span: Span, names: Sequence[str], schema: pa.Schema) -> pa.RecordBatch | None:
        block = _CountedBlock(self._candidates, self._candidates.elements.block(span), self._report)
        offsets = self._matching(block)
        count = span.size if offsets is None else offsets.size
        self._report.count_rows(span.size, count)
        if not count:
            return None
        return batch_of([block.to_arrow(name, offsets) for name in names], schema, count)

    def _matching(self, block: _CountedBlock) -> Offsets | None:
        """Return the offsets of the elements that match; ``None`` for all."""
        offsets: Offsets | None = None
        mask = self._candidates.minor_mask
        if mask is not None and self._candidates.elements.has_other_minors:
            offsets = _left(mask[block.minors()], offsets)
        for condition in self.plan.conditions:
            if offsets is not None and not offsets.size:
                break
            count = block.count if offsets is None else offsets.size
            offsets = _left(evaluate(condition, block.reader(offsets), count), offsets)
        return offsets


class _CountedBlock:
    """The columns of a block; what is read of them is counted."""

    def __init__(self, candidates: Candidates, block: ElementBlock, report: ScanReport) -> None:
        self.count = block.count
        self._candidates = candidates
        self._block = block
        self._report = report
        [self._minor_name] = [name for name, part in candidates.parts.items() if part == MINOR]
        self._minors_counted = False

    def minors(self, offsets: Offsets | None = None) -> npt.NDArray[np.int32]:
        """Return the codes of the minors; they are read once, all of them."""
        if not self._minors_counted:
            self._minors_counted = True
            self._report.count(self._minor_name, self._all_minors)
        return self._all_minors if offsets is None else self._all_minors[offsets]

    @cached_property
    def _all_minors(self) -> npt.NDArray[np.int32]:
        return self._block.minors()

    def reader(self, offsets: Offsets | None) -> Callable[[str], Values]:
        """Return what reads the values of a column to evaluate a predicate on."""

        def values(name: str) -> Values:
            if name in self._candidates.constants:
                return self._constant(name, offsets)
            entries = self._candidates.entries.get(name)
            if entries is None:
                values = self._stored(name, offsets)
                return values if _is_small_integer(values) else self._converted(values)
            return Codes(self._codes(name, offsets), entries.strings, entries.table)

        return values

    def to_arrow(self, name: str, offsets: Offsets | None) -> pa.Array:
        """Return a column as Arrow."""
        if name in self._candidates.constants:
            count = self.count if offsets is None else offsets.size
            return pa.repeat(pa.scalar(self._candidates.constants[name], pa.string()), count)
        entries = self._candidates.entries.get(name)
        if entries is not None:
            return entries.encoded(self._codes(name, offsets))
        values = self._converted(self._stored(name, offsets))
        return values if isinstance(values, pa.Array) else number_array(values)

    def _codes(self, name: str, offsets: Offsets | None) -> npt.NDArray[np.int32]:
        if self._candidates.parts[name] == MINOR:
            return self.minors(offsets)
        codes = self._block.majors(offsets)
        self._report.count(name, codes)
        return codes

    def _stored(self, name: str, offsets: Offsets | None) -> Any:
        values = self._block.values(offsets)
        self._report.count(name, values)
        return values

    def _converted(self, values: Any) -> Any:
        dtype = self._candidates.dtype
        return values if dtype is None else values.astype(dtype, copy=False)

    def _constant(self, name: str, offsets: Offsets | None) -> Codes:
        strings = pa.array([self._candidates.constants[name]], pa.string())
        count = self.count if offsets is None else offsets.size
        return Codes(
            np.zeros(count, np.uint8), strings, lambda each: evaluate(each, lambda _: strings, 1)
        )


def _is_small_integer(values: Any) -> bool:
    """Return whether values are compared with a wider constant exactly as they are."""
    return isinstance(values, np.ndarray) and values.dtype.kind in "iu" and values.itemsize < _WIDE


def _left(mask: Mask, offsets: Offsets | None) -> Offsets | None:
    """Return the offsets for which a mask over the elements that were left is true."""
    if mask.all():
        return offsets
    return np.flatnonzero(mask) if offsets is None else offsets[mask]

"""Stored arrays of which a part is shown: a view of the mapped file where that is a range."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Final

import numpy as np
import pyarrow as pa

from daf_storage.base import AnyArray, Span, StorageType
from daf_storage.data._entry_selection import EntrySelection, Picks, Positions, numbers_in
from daf_storage.data._layout import StoredVector
from daf_storage.stores import ReadEstimate
from daf_storage.trees import ArrayInfo, MemoryArray, StoredArray

_CHUNK_ELEMENTS: Final = 1 << 17


class SubsetArray(StoredArray):
    """Some rows of an array, and of a matrix some columns; see `StoredArray` for the members.

    Nothing is read before it is asked for.

    Parameters
    ----------
    array
        The whole array.
    rows, columns
        What is shown along the first and the second dimension; all by default.
    """

    def __init__(
        self, array: StoredArray, rows: Picks | None, columns: Picks | None = None
    ) -> None:
        self._array = array
        self._rows = rows
        self._columns = columns
        whole = array.info
        shown = [len_ if each is None else each.size for len_, each in self._dimensions()]
        shape = (*shown, *whole.shape[len(shown) :])
        is_range = all(each is None or each.span is not None for each in (rows, columns))
        is_mappable = whole.is_mappable and is_range
        self.info = ArrayInfo(
            shape, whole.storage_type, shape if is_mappable else _chunks(shape), is_mappable
        )

    def _dimensions(self) -> list[tuple[int, Picks | None]]:
        return list(zip(self._array.info.shape, (self._rows, self._columns), strict=False))

    def read(self) -> AnyArray:
        """Return all elements that are shown."""
        return self.read_rows(Span(0, self.info.shape[0]))

    def read_rows(self, span: Span) -> AnyArray:
        """Return a range of what is shown of the first dimension."""
        return self.read_spans([span])[0]

    def read_spans(self, spans: list[Span], within: Span | None = None) -> list[AnyArray]:
        """Return several ranges; of a range of the whole array, asked for together."""
        columns = self._columns_within(within)
        across = columns if isinstance(columns, Span) else None
        if self._rows is None or self._rows.span is not None:
            start = 0 if self._rows is None or self._rows.span is None else self._rows.span.start
            wanted = [Span(start + span.start, start + span.stop) for span in spans]
            parts = self._array.read_spans(wanted, across)
        elif len(spans) == 1:
            parts = [self._taken(self._rows.part(spans[0]), across)]
        else:
            parts = self._taken_together(self._rows, spans, across)
        if columns is not None and not isinstance(columns, Span):
            parts = [part[:, columns] for part in parts]
        for part in parts:
            part.setflags(write=False)
        return parts

    def _columns_within(self, within: Span | None) -> Span | Positions | None:
        """Return which of the columns of the whole array are meant; None for all."""
        if self._columns is None:
            return within
        asked = Span(0, self._columns.size) if within is None else within
        if self._columns.span is None:
            return self._columns.part(asked)
        start = self._columns.span.start
        return Span(start + asked.start, start + asked.stop)

    def _taken_together(
        self, rows: Picks, spans: list[Span], across: Span | None
    ) -> list[AnyArray]:
        """Return several ranges of what is shown, gathered at once."""
        if not spans:
            return []
        values = self._taken(rows.at(numbers_in(spans)), across)
        stops = np.cumsum([span.size for span in spans])
        return [values[stop - span.size : stop] for span, stop in zip(spans, stops, strict=True)]

    def _taken(self, positions: Positions, across: Span | None) -> AnyArray:
        """Return rows of the whole array; of one that is not mapped, its chunks are read once."""
        array = self._array
        if array.info.is_mappable:
            values = array.read()
            taken: AnyArray = (values if across is None else values[:, across.slice])[positions]
            return taken
        height = max(array.info.chunks[0], 1)
        numbers, which = np.unique(positions // height, return_inverse=True)
        begins = numbers * height
        lengths = np.minimum(begins + height, array.info.shape[0]) - begins
        spans = [
            Span(int(begins[run[0]]), int(begins[run[-1]] + lengths[run[-1]]))
            for run in np.split(np.arange(numbers.size), np.flatnonzero(np.diff(numbers) != 1) + 1)
            if run.size
        ]
        if not spans:
            return array.read_spans([Span(0, 0)], across)[0]
        joined = np.concatenate(array.read_spans(spans, across))
        offsets = np.cumsum(lengths) - lengths
        picked: AnyArray = joined[offsets[which] + positions % height]
        return picked

    def read_strings(self) -> pa.StringArray | pa.LargeStringArray:
        """Return all strings that are shown, flattened in C order."""
        strings = self._array.read_strings()
        rest = math.prod(self._array.info.shape[1:])
        rows = self._rows
        if rest == 1 and self._columns is None and rows is not None and rows.span is not None:
            return strings.slice(rows.span.start, rows.size)
        grid = np.arange(self._array.info.size).reshape(self._array.info.shape)
        for axis, (_, each) in enumerate(self._dimensions()):
            if each is not None:
                grid = np.take(grid, each.part(Span(0, each.size)), axis=axis)
        return strings.take(pa.array(grid.reshape(-1)))

    def estimate(
        self, spans: list[Span], estimate: ReadEstimate, within: Span | None = None
    ) -> None:
        """Add what the whole array says of a range; else the bytes of what is shown."""
        columns = self._columns_within(within)
        is_range = self._rows is None or self._rows.span is not None
        if is_range and (columns is None or isinstance(columns, Span)):
            start = 0 if self._rows is None or self._rows.span is None else self._rows.span.start
            moved = [Span(start + span.start, start + span.stop) for span in spans]
            self._array.estimate(moved, estimate, columns)
            return
        super().estimate(spans, estimate, within)

    def check_stored(self, *, is_complete: bool = False) -> None:
        """Raise if what is stored cannot hold the elements."""
        self._array.check_stored(is_complete=is_complete)


def subset_vector(stored: StoredVector, entries: EntrySelection) -> dict[str, StoredArray]:
    """Return the arrays of a sparse vector of some entries."""
    nzind = stored.sparse_parts().nzind
    shown = entries.numbers()[nzind.astype(np.int64) - 1]
    places = np.flatnonzero(shown)
    if not entries.is_ascending:
        places = places[np.argsort(shown[places], kind="stable")]
    numbers = shown[places].astype(entries.number_type(nzind.dtype))
    arrays: dict[str, StoredArray] = {"nzind": HeldArray(numbers)}
    nzval = stored.arrays().get("nzval")
    if nzval is not None:
        arrays["nzval"] = SubsetArray(nzval, EntrySelection(places, nzind.size))
    return arrays


class HeldArray(MemoryArray):
    """Numbers in memory, or in a file without a name: any part of them is read at once."""

    def __init__(self, values: AnyArray) -> None:
        shape = tuple(map(int, values.shape))
        super().__init__(lambda: values, shape=shape, storage_type=StorageType.of(values.dtype))

    @property
    def info(self) -> ArrayInfo:  # type: ignore[override]  # computed, where others have it ready
        """Its metadata."""
        return replace(super().info, is_mappable=True)


def _chunks(shape: tuple[int, ...]) -> tuple[int, ...]:
    """Return the shape of the pieces in which a part that is no range is best read."""
    width = max(math.prod(shape[1:]), 1)
    return (max(min(shape[0], _CHUNK_ELEMENTS // width), 1), *shape[1:])

"""Columns of numbers: views of the mapped file, or spans that are decoded once."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from daf_query.scan._arrow_arrays import number_array
from daf_query.scan._row_index import RowIndex
from daf_query.scan._rows import Positions, Rows
from daf_query.scan._zone_map import ZoneMap
from daf_storage.base import DecodedCache, ForkLock, Span
from daf_storage.data import StoredVector

ReadSpan: TypeAlias = Callable[[Span], npt.NDArray[Any]]


@dataclass(frozen=True, slots=True)
class CachedSpans:
    """The spans of one column in a cache."""

    cache: DecodedCache
    key: tuple[Hashable, ...]
    identity: Hashable

    def get(self, span: Span, read: ReadSpan) -> npt.NDArray[Any]:
        """Return a span, reading it if it is not here."""
        values: npt.NDArray[Any] = self.cache.get(
            (*self.key, span.start, span.stop), self.identity, lambda: read(span)
        )
        return values

    def peek(self, span: Span) -> npt.NDArray[Any] | None:
        """Return a span if it is here."""
        values: npt.NDArray[Any] | None = self.cache.peek(
            (*self.key, span.start, span.stop), self.identity
        )
        return values


class PositionColumn:
    """The positions along the axis."""

    def __init__(self, length: int, zone_rows: int) -> None:
        self.zones: ZoneMap | None = ZoneMap.of_positions(length, zone_rows)

    def row_index(self) -> None:
        """Return nothing: the zone map does as well."""
        return

    def values(self, rows: Rows) -> Positions:
        """Return positions."""
        return rows.positions

    def to_arrow(self, rows: Rows) -> pa.Array:
        """Return positions as Arrow."""
        return pa.array(rows.positions)


class MappedVector:
    """A dense vector in one chunk; a mapping that is kept need not be faulted in again."""

    def __init__(self, stored: StoredVector) -> None:
        self._values = stored.reader()(Span(0, stored.info.length))
        self.nbytes = 256 + (0 if stored.is_mapped else self._values.nbytes)

    def read(self, span: Span) -> npt.NDArray[Any]:
        """Return a span, as a view."""
        return self._values[span.slice]


class NumberColumn:
    """A vector of numbers.

    Parameters
    ----------
    open_reader
        Opens the vector, and returns a function that reads a span and holds memory, but no file.
    zones
        The zone map.
    row_index
        Returns the index, if there is one.
    chunk_rows
        Rows per chunk, where there are several.
    cache
        Of the spans that were decoded; ``None`` if reading one is a view.
    """

    def __init__(
        self,
        open_reader: Callable[[], ReadSpan],
        zones: ZoneMap,
        row_index: Callable[[], RowIndex | None],
        *,
        chunk_rows: int,
        cache: CachedSpans | None,
    ) -> None:
        self.zones: ZoneMap | None = zones
        self.row_index = row_index
        self._chunk_rows = chunk_rows
        self._cache = cache
        self._open: Callable[[], ReadSpan] | None = open_reader
        self._read: ReadSpan | None = None
        self._lock = ForkLock()

    def _reader(self) -> ReadSpan:
        """Return what reads a span; opened once, also where all spans are cached."""
        read = self._read
        if read is None:
            with self._lock:
                if self._open is not None:
                    self._read = self._open()
                    self._open = None
                read = self._read
        if read is None:
            raise TypeError("the column cannot be opened")
        return read

    def values(self, rows: Rows) -> npt.NDArray[Any]:
        """Return numbers; of several chunks, only those with one of the rows are decoded."""
        read, cache = self._reader(), self._cache
        if rows.offsets is None:
            return read(rows.span) if cache is None else cache.get(rows.span, read)
        whole = read(rows.span) if cache is None else cache.peek(rows.span)
        if whole is not None:
            return whole[rows.offsets]
        runs = runs_of_chunks(rows.span, rows.offsets, self._chunk_rows)
        parts = [read(span)[offsets] for span, offsets in runs]
        return parts[0] if len(parts) == 1 else np.concatenate([read(Span(0, 0)), *parts])

    def to_arrow(self, rows: Rows) -> pa.Array:
        """Return numbers as Arrow, NaN as null."""
        return number_array(self.values(rows))


def runs_of_chunks(
    span: Span, offsets: Positions, chunk_rows: int
) -> Iterator[tuple[Span, Positions]]:
    """Yield the spans of neighbouring chunks that have some rows of a span, and their offsets.

    >>> runs = runs_of_chunks(Span(10, 40), np.array([1, 2, 25]), 5)
    >>> [(span.start, span.stop, offsets.tolist()) for span, offsets in runs]
    [(11, 13, [0, 1]), (35, 36, [0])]
    """
    chunks = (offsets + span.start) // chunk_rows
    for run in np.split(offsets, np.flatnonzero(np.diff(chunks) > 1) + 1):
        if run.size:
            first = int(run[0])
            yield Span(span.start + first, span.start + int(run[-1]) + 1), run - first

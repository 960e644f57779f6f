"""Columns of a table: an Arrow field, and an open column that reads spans or single rows."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, Protocol, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from daf_query.scan._arrow_arrays import arrow_type, nulls_for_empty, number_array
from daf_query.scan._evaluate import Values
from daf_query.scan._options import Positions, Rows, ScanOptions
from daf_query.scan._strings import DictionaryCodes, StringColumn
from daf_query.scan._zone_map import Indexes, RowIndex, ZoneMap
from daf_storage import DafReader, VectorInfo, errors
from daf_storage.base import DecodedCache, ForkLock, Span, StorageType, first_strings
from daf_storage.data import StoredVector
from daf_storage.trees import StoredArray

INDEX: Final = "index"
NAME: Final = "name"

_COUNT_BYTES: Final = 4
_FIRST_BYTES: Final = 1 << 18
"""What is decoded of a long column of strings for the sake of its first rows."""
_FIRST_OF_ROWS: Final = 1 << 16
"""Of a shorter one all is decoded."""

ReadSpan: TypeAlias = Callable[[Span], npt.NDArray[Any]]


class OpenColumn(Protocol):
    """A column that is being read; everything that is read through it is of one state."""

    @property
    def zones(self) -> ZoneMap | None:
        """Its zone map, which is filled while values are read; ``None`` without one."""
        ...

    def row_index(self) -> RowIndex | None:
        """Return its index, if there is one."""
        ...

    def values(self, rows: Rows) -> Values:
        """Return values to evaluate a predicate on."""
        ...

    def to_arrow(self, rows: Rows) -> pa.Array:
        """Return values as Arrow; a span of mapped numbers, without copying it.

        Of strings it may be codes as a dictionary, or strings of another layout than the field's.
        """
        ...


class Column(Protocol):
    """One column of a table, as the metadata describes it; no data was read."""

    @property
    def field(self) -> pa.Field:
        """Its name and Arrow type."""
        ...

    @property
    def chunk_rows(self) -> int:
        """Rows per chunk."""
        ...

    @property
    def is_string(self) -> bool:
        """Whether its values are strings or bytes, which are expensive to compare."""
        ...

    def open(self, cache: DecodedCache, options: ScanOptions) -> OpenColumn:
        """Open it for reading."""
        ...


@dataclass(frozen=True, slots=True)
class VectorColumn:
    """A vector of an axis as a column."""

    daf: DafReader
    """The data set."""
    info: VectorInfo
    """The vector behind it."""
    indexes: Indexes
    """The indexes of the axis."""

    @property
    def chunk_rows(self) -> int:
        """Rows per chunk."""
        return self.info.chunk_rows

    @property
    def is_string(self) -> bool:
        """Whether its values are strings."""
        return self.info.storage_type.is_string

    @property
    def field(self) -> pa.Field:
        """Its name and Arrow type.

        Floats can be NULL (where they are NaN), and strings where an empty one stands for it.
        """
        storage_type = self.info.storage_type
        is_float = storage_type in (StorageType.FLOAT32, StorageType.FLOAT64)
        can_be_null = is_float or self.info.empty_is_missing
        return pa.field(self.info.name, arrow_type(storage_type), nullable=can_be_null)

    @property
    def _key(self) -> tuple[Hashable, ...]:
        """What entries of the cache go by, together with what they are."""
        return (self.daf.location, self.info.axis, self.info.name)

    def open(self, cache: DecodedCache, options: ScanOptions) -> OpenColumn:
        """Open it for reading.

        Raises
        ------
        FormatError
            The vector was replaced since by one of another type, length or convention: ask again.
        """
        if self.info.name == INDEX:
            return PositionColumn(self.info.length, options.zone_rows)
        if self.is_string:
            return self._open_strings(cache, options)
        return self._open_numbers(cache, options)

    def _pinned(self) -> StoredVector:
        """Return the vector as it is now, if it is still like the one that is known."""
        daf, info = self.daf, self.info
        try:  # to look at the axis again takes as long as to open the vector
            stored = daf.open_vector(info.axis, info.name, length=info.length)
        except errors.CorruptDataError:  # of another length, by now
            stored = daf.open_vector(info.axis, info.name)
        if not _is_alike(stored.info, info):
            raise errors.FormatError(
                f"{daf.location}: vector {info.name!r} of axis {info.axis!r} was replaced while "
                "it was being queried; run the query again"
            )
        return stored

    def _open_numbers(self, cache: DecodedCache, options: ScanOptions) -> NumberColumn:
        stored, key, zone_rows = self._pinned(), self._key, options.zone_rows
        identity = stored.identity
        is_view = not stored.info.is_sparse and stored.info.chunk_rows >= stored.info.length

        def open_view() -> ReadSpan:
            read: ReadSpan = cache.get((*key, "view"), identity, lambda: _MappedVector(stored)).read
            return read

        return NumberColumn(
            open_view if is_view else stored.reader,
            cache.get(
                (*key, "zones", zone_rows), identity, lambda: self._zone_map(cache, zone_rows)
            ),
            lambda: self.indexes.numbers(self.info.name, cache),
            chunk_rows=stored.info.chunk_rows,
            cache=None if is_view else CachedSpans(cache, (*key, "span"), identity),
        )

    def _zone_map(self, cache: DecodedCache, zone_rows: int) -> ZoneMap:
        """Return the stored zone map, or one that is filled while the column is read."""
        stored = self.indexes.zone_map(self.info.name, cache)
        if stored is not None and stored.zone_rows == zone_rows:
            return stored
        return ZoneMap.unknown(self.info.length, self.info.storage_type.dtype, zone_rows)

    def _open_strings(self, cache: DecodedCache, options: ScanOptions) -> StringColumn:
        """Open strings.  That entries of the axis are unique is not checked: it would be slow."""
        key, info, is_missing = self._key, self.info, self.info.empty_is_missing
        codes_key = (*key, "codes", options.zone_rows, options.max_distinct_strings)
        stored: StoredVector | None = None
        if info.name == NAME:
            identity: Hashable = self.daf.vector_identity(info.axis, NAME)
            array = self.daf.string_array(info.axis, NAME)
            decoded, known = array.read_strings, self.daf.known_entries(info.axis)
        else:
            stored = self._pinned()
            identity = (stored.identity, is_missing)
            decoded, known = stored.read_strings, self.daf.known_strings(stored)

        def missing(strings: Any) -> Any:
            return nulls_for_empty(strings) if is_missing and strings is not None else strings

        strings = cache.peek((*key, "strings"), identity)
        strings = missing(known) if strings is None else strings

        def encode(vector: StoredVector) -> DictionaryCodes:
            batches = vector.string_batches() if strings is None else iter([strings])
            codes: DictionaryCodes = cache.get(
                codes_key,
                identity,
                lambda: DictionaryCodes.of(
                    batches, info.length, options, empty_is_missing=is_missing
                ),
            )
            return codes

        return StringColumn(
            lambda: cache.get((*key, "strings"), identity, lambda: missing(decoded())),
            None if stored is None else partial(encode, stored),
            cache.peek(codes_key, identity),
            strings,
            find_index=lambda: self.indexes.strings(info.name, cache) if options.indexes else None,
            decode_first=lambda: _first_strings(array if stored is None else stored.string_array()),
            empty_is_missing=is_missing,
        )


def _is_alike(stored: VectorInfo, expected: VectorInfo) -> bool:
    """Return whether a vector still makes the same Arrow column."""
    return (stored.storage_type, stored.length, stored.empty_is_missing) == (
        expected.storage_type,
        expected.length,
        expected.empty_is_missing,
    )


def _first_strings(array: StoredArray) -> pa.Array | None:
    """Return some of the first strings of a long array, the others are not decoded.

    ``None`` if it is short, is not stored plainly, or one of them is damaged.
    """
    data = array.mapped_strings() if array.info.size >= _FIRST_OF_ROWS else None
    if data is None or int.from_bytes(data[:_COUNT_BYTES], "little") != array.info.size:
        return None
    strings: Any = first_strings(data[_COUNT_BYTES:], array.info.size, max_bytes=_FIRST_BYTES)
    try:
        if strings is not None:
            strings.validate(full=True)
    except pa.ArrowInvalid:
        return None
    return strings


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


class _MappedVector:
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
        row_index: Callable[[], RowIndex | None] = lambda: None,
        *,
        chunk_rows: int = 0,
        cache: CachedSpans | None = None,
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

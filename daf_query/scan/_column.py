"""Columns of a table: an Arrow field, and an open column that reads spans or single rows."""

from __future__ import annotations

import dataclasses
from collections.abc import Hashable
from dataclasses import dataclass
from typing import Any, Final, Protocol

import numpy.typing as npt
import pyarrow as pa

from daf_query.scan._arrow_arrays import arrow_type
from daf_query.scan._dictionary_codes import DictionaryCodes
from daf_query.scan._evaluate import Mask, Values
from daf_query.scan._missing_strings import nulls_for_empty
from daf_query.scan._number_column import (
    CachedSpans,
    MappedVector,
    NumberColumn,
    PositionColumn,
    ReadSpan,
)
from daf_query.scan._options import ScanOptions
from daf_query.scan._predicate import Compare, In, IsNull
from daf_query.scan._row_index import Indexes, RowIndex
from daf_query.scan._rows import Rows
from daf_query.scan._stored_strings import StoredStrings
from daf_query.scan._string_column import StringColumn
from daf_query.scan._zone_map import ZoneMap
from daf_storage import DafReader, VectorInfo, errors
from daf_storage.base import DecodedCache, Span, StorageType
from daf_storage.data import StoredVector

INDEX: Final = "index"
NAME: Final = "name"


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
        """Return values as Arrow; a span of mapped numbers, without copying it."""
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


def note_of(column: Column) -> str:
    """Return why reading a column is slower than it need be, and what to do; empty if it is not.

    A column that has nothing to say has no ``note``; to check a protocol takes longer than to open
    most columns.
    """
    return str(getattr(column, "note", ""))


def stored_matches(column: OpenColumn, predicate: Compare | In | IsNull, rows: Rows) -> Mask | None:
    """Return for which rows a comparison is true, if that is seen without reading values.

    Only columns of strings can have a ``stored_matches``; see `StringColumn`.
    """
    find = getattr(column, "stored_matches", None)
    mask: Mask | None = None if find is None else find(predicate, rows)
    return mask


@dataclass(frozen=True, slots=True)
class VectorColumn:
    """A vector of an axis as a column."""

    daf: DafReader
    """The data set."""
    info: VectorInfo
    """The vector behind it."""
    indexes: Indexes
    """The indexes of the axis."""
    kept: StoredVector | None = dataclasses.field(default=None, compare=False, repr=False)
    """The vector as it was opened for its metadata, where that may be kept."""

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
        info = self.info
        if info.name == INDEX:
            return PositionColumn(info.length, options.zone_rows)
        if info.name == NAME:
            return self._open_names(cache, options)
        stored = self._pinned()
        if info.storage_type.is_string:
            return self._open_strings(stored, cache, options)
        return self._open_numbers(stored, cache, options)

    def read_all(self, identity: Hashable = None) -> npt.NDArray[Any] | pa.Array:
        """Return all values, strings as Arrow: nothing is remembered.

        For vectors that are read once, of which there may be thousands; not for ``name`` and
        ``index``.  Errors are those of `open`, and of reading.

        Parameters
        ----------
        identity
            That of the vector, if it has just been looked at: then it need not be opened again.
        """
        stored = self._pinned(identity)
        if not self.is_string:
            return stored.read(Span(0, stored.info.length))
        strings = stored.read_strings()
        strings = strings if strings.type == pa.string() else strings.cast(pa.string())
        return nulls_for_empty(strings) if stored.info.empty_is_missing else strings

    def string_chunk(self, identity: Hashable = None) -> memoryview | None:
        """Return the stored bytes of strings, to be decoded with those of other vectors.

        None where they are stored in another way: `read_all` reads them, which says what
        ``identity`` is.
        """
        return self._pinned(identity).plain_chunk() if self.is_string else None

    def _pinned(self, identity: Hashable = None) -> StoredVector:
        """Return the vector as it is now, if it is still like the one that is known."""
        daf, info, kept = self.daf, self.info, self.kept
        if kept is not None and identity is not None and kept.identity == identity:
            return kept
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

    def _open_names(self, cache: DecodedCache, options: ScanOptions) -> StringColumn:
        """Open the entries.  That they are unique is not checked: for millions, it is slow."""
        key = (*self._key, "strings")
        identity = self.daf.vector_identity(self.info.axis, NAME)
        array = self.daf.string_array(self.info.axis, NAME)
        return StringColumn(
            lambda: cache.get(key, identity, array.read_strings),
            strings=cache.peek(key, identity) or self.daf.known_entries(self.info.axis),
            find_index=lambda: self.indexes.strings(NAME, cache) if options.indexes else None,
            stored=StoredStrings(lambda: array, cache, (*self._key, "places"), identity)
            if self.info.length >= options.min_searched_strings
            else None,
            sparse_divisor=options.sparse_divisor,
        )

    def _open_numbers(
        self, stored: StoredVector, cache: DecodedCache, options: ScanOptions
    ) -> NumberColumn:
        key, identity, zone_rows = self._key, stored.identity, options.zone_rows
        is_view = not stored.info.is_sparse and stored.info.chunk_rows >= stored.info.length

        def open_view() -> ReadSpan:
            read: ReadSpan = cache.get((*key, "view"), identity, lambda: MappedVector(stored)).read
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

    def _open_strings(
        self, stored: StoredVector, cache: DecodedCache, options: ScanOptions
    ) -> StringColumn:
        key, info = self._key, self.info
        codes_key = (*key, "codes", options.zone_rows, options.max_distinct_strings)
        empty_is_missing = stored.info.empty_is_missing
        identity = (stored.identity, empty_is_missing)
        strings = cache.peek((*key, "strings"), identity)
        if strings is None:
            strings = self.daf.known_strings(stored)
            if strings is not None and empty_is_missing:
                strings = nulls_for_empty(strings)

        def decode() -> Any:
            decoded = stored.read_strings()
            return nulls_for_empty(decoded) if empty_is_missing else decoded

        def encode() -> DictionaryCodes:
            batches = stored.string_batches() if strings is None else iter([strings])
            codes: DictionaryCodes = cache.get(
                codes_key,
                identity,
                lambda: DictionaryCodes.of(
                    batches, stored.info.length, options, empty_is_missing=empty_is_missing
                ),
            )
            return codes

        return StringColumn(
            lambda: cache.get((*key, "strings"), identity, decode),
            encode,
            cache.peek(codes_key, identity),
            strings,
            cache_span=lambda span, make: cache.get(
                (*key, "range", span.start, span.stop), identity, make
            ),
            find_index=lambda: self.indexes.strings(info.name, cache) if options.indexes else None,
            stored=StoredStrings(
                stored.string_array,
                cache,
                (*key, "places"),
                identity,
                empty_is_missing=empty_is_missing,
            )
            if stored.info.length >= options.min_searched_strings
            else None,
            sparse_divisor=options.sparse_divisor,
            empty_is_missing=empty_is_missing,
        )


def _is_alike(stored: VectorInfo, expected: VectorInfo) -> bool:
    """Return whether a vector still makes the same Arrow column."""
    return (stored.storage_type, stored.length, stored.empty_is_missing) == (
        expected.storage_type,
        expected.length,
        expected.empty_is_missing,
    )

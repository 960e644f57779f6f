"""Columns of a table: an Arrow field, and an open column that reads spans or single rows.

*Rows* say which, and *options* how: frozen values, passed to everything that reads.

Strings are dictionary codes, a byte or two for each row, of the sorted distinct strings; of many
distinct ones, strings that are decoded once; of a few rows, those alone.  Strings of which there
are codes are not kept beside them.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Hashable, Iterable, Iterator
from dataclasses import dataclass, fields
from functools import cached_property, partial
from operator import attrgetter
from typing import Any, Final, Generic, Protocol, TypeVar, cast

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from daf_query._calls import positive_number
from daf_query._runs import check_cancelled
from daf_query.scan._arrow_arrays import arrow_type, nulls_for_empty, number_array
from daf_query.scan._predicate import (
    ZONE_ROWS,
    Codes,
    Indexes,
    Mask,
    Positions,
    Predicate,
    Values,
    ZoneMap,
    evaluate,
)
from daf_storage import DafReader, VectorInfo, errors
from daf_storage._lazy import pc
from daf_storage.base import (
    DecodedCache,
    ForkLock,
    Span,
    StorageType,
    first_strings,
    is_remote,
    runs_of_chunks,
)
from daf_storage.data import StoredVector
from daf_storage.stores import ReadEstimate
from daf_storage.trees import StoredArray

INDEX: Final = "index"
NAME: Final = "name"

_T = TypeVar("_T")

_ARROW_OF: Final = attrgetter("storage_type", "length", "empty_is_missing")
"""What a vector has that decides which Arrow column it is."""
_COUNT_BYTES: Final = 4
_FIRST_BYTES: Final = 1 << 18
"""What is decoded of a long column of strings for the sake of its first rows."""
_FIRST_OF_ROWS: Final = 1 << 16
"""Of a shorter one all is decoded."""

_MAX_SINGLE_STRINGS: Final = 1 << 11
"""The strings of more rows are not read one by one."""

BATCH_ROWS: Final = 1 << 17
"""The most rows of a batch; of batches of fewer, threads wait for each other at each of them."""
_SAMPLE_ROWS: Final = 1 << 13
_MANY_IN_SAMPLE: Final = 1 << 11
"""With so many different strings among the first, codes are not worth it."""
_MAX_CODES: Final = 1 << 16


@dataclass(frozen=True, slots=True)
class ScanOptions:
    """How a table is cut into partitions, pruned and read; the rows are the same with any.

    The defaults suit tables of all sizes; tests make them small.  If a query has a row too many or
    too few, `indexes`, `pruning` and `direct` tell which of its short cuts is wrong.

    Examples
    --------
    >>> ScanOptions(partition_rows=1 << 16).partition_rows
    65536
    """

    zone_rows: int = ZONE_ROWS
    """Rows per zone of a zone map.  Stored zone maps are used only with the default."""
    partition_rows: int = 1 << 20
    """Rows on which a filter is evaluated at a time, rounded up to whole chunks."""
    min_partition_rows: int = 1 << 16
    """The fewest rows that are worth a partition of their own."""
    min_batch_rows: int = 1 << 14
    """So few rows that indexes name are read as one partition."""
    threads: int = os.cpu_count() or 1
    """How many fragments are scanned side by side."""
    sparse_divisor: int = 16
    """A column is read by offsets once at most one row in so many is left."""
    index_divisor: int = 16
    """An index is used if it names at most one row in so many."""
    min_joined_members: int = 32
    """So many small neighbours among several data sets are scanned as one table."""
    joined_member_rows: int = 1 << 14
    """A data set of more rows is scanned by itself."""
    joined_rows: int = 1 << 18
    """The most rows of a table that is joined of small ones."""
    max_values_in_memory: int = 1 << 18
    """A table of which a query reads no more values may be handed to the engine in memory."""
    min_joined_rows: int = 1 << 17
    """It is, where a query reads a table of so many rows beside it."""
    max_distinct_strings: int = _MAX_CODES
    """A column with more distinct strings has no dictionary codes."""
    indexes: bool = True
    """Whether indexes are used: sorted ones of strings, and R-trees."""
    pruning: bool = True
    """Whether partitions are left out where zone maps say that no row can match."""
    direct: bool = True
    """Whether simple queries are answered without being planned by the engine."""

    def __post_init__(self) -> None:
        for option in fields(self):
            if not isinstance(option.default, bool):
                positive_number(getattr(self, option.name), option.name)
        if self.max_distinct_strings > _MAX_CODES:
            raise errors.InvalidInputError(
                f"max_distinct_strings is {self.max_distinct_strings:,}; dictionary codes have two "
                f"bytes, so it can be {_MAX_CODES:,} at most"
            )


DEFAULT_OPTIONS: Final = ScanOptions()


@dataclass(frozen=True, slots=True, eq=False)
class Rows:
    """All rows of a span, or some of them.

    >>> Rows(Span(10, 20)).count, Rows(Span(10, 20), np.array([1, 5])).positions.tolist()
    (10, [11, 15])
    """

    span: Span
    """Positions along the axis."""
    offsets: Positions | None = None
    """Ascending, counted from the start of the span; ``None`` for all of its rows."""

    @property
    def count(self) -> int:
        """Number of rows."""
        return self.span.size if self.offsets is None else self.offsets.size

    @property
    def positions(self) -> Positions:
        """Positions of the rows along the axis."""
        if self.offsets is None:
            return np.arange(self.span.start, self.span.stop)
        return self.offsets + self.span.start

    def where(self, mask: npt.NDArray[np.bool_]) -> Rows:
        """Return those of the rows for which a mask is true."""
        return Rows(self.span, np.flatnonzero(mask) if self.offsets is None else self.offsets[mask])

    def part(self, start: int, stop: int) -> Rows:
        """Return some of the rows, counted from the first one.

        >>> Rows(Span(10, 20)).part(2, 4).positions.tolist()
        [12, 13]
        """
        offsets = np.arange(self.span.size) if self.offsets is None else self.offsets
        return Rows(self.span, offsets[start:stop])

    def of(self, column: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """Return these rows of a whole column; of a span, as a view."""
        values = column[self.span.slice]
        return values if self.offsets is None else values[self.offsets]


class Once(Generic[_T]):
    """A value that is made when it is first asked for, by one thread, and what made it let go."""

    def __init__(self, make: Callable[[], _T], made: _T | None = None) -> None:
        self._make: Callable[[], _T] | None = make if made is None else None
        self.made = made
        """The value, if it was made."""
        self._lock = ForkLock()

    def __call__(self) -> _T:
        """Return the value."""
        with self._lock:
            if self._make is not None:
                self.made, self._make = self._make(), None
            return cast("_T", self.made)


@dataclass(frozen=True, slots=True)
class CachedParts:
    """Cached parts of a column (codes, strings, spans, a zone map), as stored at one time."""

    cache: DecodedCache
    key: tuple[Hashable, ...]
    identity: Hashable
    """What is stored."""

    def get(self, part: Hashable, make: Callable[[], _T]) -> _T:
        """Return a part, made if it is not here."""
        found: _T = self.cache.get((*self.key, part), self.identity, make)
        return found

    def peek(self, part: Hashable) -> Any:
        """Return a part if it is here."""
        return self.cache.peek((*self.key, part), self.identity)


class OpenColumn(Protocol):
    """A column that is being read; everything that is read through it is of one state."""

    @property
    def zones(self) -> ZoneMap | None:
        """Its zone map, which is filled while values are read; ``None`` without one."""

    def values(self, rows: Rows) -> Values:
        """Return values to evaluate a predicate on."""

    def to_arrow(self, rows: Rows) -> pa.Array:
        """Return values as Arrow; a span of mapped numbers, without copying it.

        Of strings it may be codes as a dictionary, or strings of another layout than the field's.
        """


class Column(Protocol):
    """One column of a table, as the metadata describes it; no data was read."""

    @property
    def field(self) -> pa.Field:
        """Its name and Arrow type."""

    @property
    def chunk_rows(self) -> int:
        """Rows per chunk."""

    def open(self, cache: DecodedCache, options: ScanOptions) -> OpenColumn:
        """Open it for reading."""


class DictionaryCodes:
    """A number for each row, and the sorted distinct strings.

    Where empty strings stand for missing values, the first of the sorted strings is null.

    Parameters
    ----------
    codes
        ``None`` if the column has too many distinct strings.
    strings
        The distinct strings, sorted.
    zone_rows
        Rows per zone of the zone map.
    """

    def __init__(
        self, codes: npt.NDArray[Any] | None, strings: pa.Array, zone_rows: int = ZONE_ROWS
    ) -> None:
        self.codes: npt.NDArray[Any] = np.empty(0, np.uint8) if codes is None else codes
        self.strings = strings
        self.is_useful = codes is not None
        self._zone_rows = zone_rows

    @cached_property
    def zones(self) -> ZoneMap | None:
        """The zone map, if there are codes."""
        if not self.is_useful:
            return None
        return ZoneMap.of_codes(self.codes, self.table, self._zone_rows)

    @property
    def nbytes(self) -> int:
        """About how much memory it takes."""
        return int(self.codes.nbytes + self.strings.nbytes) + 256

    @classmethod
    def of(
        cls,
        batches: Iterable[pa.Array],
        length: int,
        options: ScanOptions = DEFAULT_OPTIONS,
        *,
        empty_is_missing: bool = False,
    ) -> DictionaryCodes:
        """Return the codes of strings, given in pieces; useless ones if too many are distinct.

        Raises
        ------
        CorruptDataError
            There are fewer or more strings than ``length``.
        """
        # 1. Take the strings in pieces, which have each string once.
        pieces, nothing = list[pa.DictionaryArray](), pa.array([], pa.string())
        for encoded in _encoded(batches):
            check_cancelled()
            sample = encoded.indices.slice(0, 0 if pieces else _SAMPLE_ROWS)
            pieces.append(encoded)
            is_varied = len(sample.unique()) > _MANY_IN_SAMPLE
            if is_varied or len(encoded.dictionary) > options.max_distinct_strings:
                return cls(None, nothing)
        distinct = pa.chunked_array([nothing, *(each.dictionary for each in pieces)]).unique()
        count = sum(map(len, pieces))
        if count != length:
            raise errors.CorruptDataError(
                f"{count:,} strings are stored where {length:,} should be"
            )
        if len(distinct) > options.max_distinct_strings or not length:
            return cls(None, nothing)
        # 2. Number them in alphabetical order, so that ranges of strings are ranges of codes.
        strings = distinct.take(pc.sort_indices(distinct))
        kind = pa.uint8() if len(strings) <= 1 << 8 else pa.uint16()
        codes = [
            pc.index_in(piece.dictionary, value_set=strings).cast(kind).take(piece.indices)
            for piece in pieces
        ]
        strings = nulls_for_empty(strings) if empty_is_missing else strings
        return cls(pa.concat_arrays(codes).to_numpy(), strings, options.zone_rows)

    def values(self, rows: Rows) -> Codes:
        """Return codes to evaluate a predicate on."""
        return Codes(rows.of(self.codes), self.strings, self.table)

    def to_arrow(self, rows: Rows) -> pa.DictionaryArray:
        """Return codes and distinct strings."""
        return pa.DictionaryArray.from_arrays(rows.of(self.codes), self.strings, safe=False)

    def table(self, predicate: Predicate) -> Mask:
        """Return for which of the distinct strings a predicate on this column is true."""
        return evaluate(predicate, lambda _: self.strings, len(self.strings))


def _encoded(batches: Iterable[pa.Array]) -> Iterator[pa.DictionaryArray]:
    """Yield pieces as dictionaries, none of them large; nulls as empty strings."""
    for batch in batches:
        for start in range(0, len(batch), BATCH_ROWS):
            piece = batch.slice(start, BATCH_ROWS)
            piece = piece.fill_null("") if piece.null_count else piece
            if not pa.types.is_dictionary(piece.type):
                piece = piece.dictionary_encode()
            strings = piece.dictionary.cast(pa.string())
            yield pa.DictionaryArray.from_arrays(piece.indices, strings, safe=False)


class StringColumn:
    """A vector of strings.

    Parameters
    ----------
    decode
        Returns all strings.
    encode
        Returns their codes; none if codes are not worth trying.
    codes
        The codes, if they are cached.
    strings
        All strings, if they are cached.
    read_single
        Returns the strings of a few rows, if they can be read one by one.
    decode_first
        Returns some of the first strings, if these can be decoded alone.
    empty_is_missing
        Whether empty strings stand for missing values; in ``strings`` and ``codes`` they are null.
    """

    def __init__(
        self,
        decode: Callable[[], Any],
        encode: Callable[[], DictionaryCodes | None] = lambda: None,
        codes: DictionaryCodes | None = None,
        strings: Any = None,
        *,
        read_single: Callable[[Positions], pa.Array | None] = lambda _: None,
        decode_first: Callable[[], pa.Array | None] = lambda: None,
        empty_is_missing: bool = False,
    ) -> None:
        self._empty_is_missing = empty_is_missing
        self._single, self._first = read_single, Once(decode_first)
        self._codes = Once[DictionaryCodes | None](encode, codes)
        self._strings = Once[Any](decode, strings)

    @property
    def zones(self) -> ZoneMap | None:
        """The zone map of the codes, once there are codes."""
        return None if self._codes.made is None else self._codes.made.zones

    def values(self, rows: Rows) -> Values:
        """Return codes, or strings if too many are distinct."""
        found = self._found(rows)
        return found.values(rows) if isinstance(found, DictionaryCodes) else found

    def to_arrow(self, rows: Rows) -> pa.Array:
        """Return strings, or their codes as a dictionary of Arrow."""
        found = self._found(rows)
        return found.to_arrow(rows) if isinstance(found, DictionaryCodes) else found

    def _found(self, rows: Rows) -> Any:
        """Return the codes of all rows or, without codes, the strings of these."""
        few = self._few(rows)
        if few is not None:
            return few
        codes = self._codes()
        if codes is not None and codes.is_useful:
            self._strings = self._first = Once(lambda: None)  # which may hold files
            return codes
        strings = self._strings()
        if rows.offsets is None:
            return strings.slice(rows.span.start, rows.span.size)
        return strings.take(rows.positions)

    def _few(self, rows: Rows) -> pa.Array | None:
        """Return a few strings that are read alone; None if all are known, or have to be."""
        codes = self._codes.made
        is_known = self._strings.made is not None or (codes is not None and codes.is_useful)
        if rows.offsets is None or is_known:
            return None
        positions = rows.positions
        is_few = positions.size <= _MAX_SINGLE_STRINGS
        strings = self._single(positions) if is_few else None
        if strings is None:
            first = self._first()
            if first is not None and (not positions.size or positions[-1] < len(first)):
                strings = first.take(positions)
        is_missing = strings is not None and self._empty_is_missing
        return nulls_for_empty(strings) if is_missing else strings


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
    def field(self) -> pa.Field:
        """Its name and Arrow type.

        Floats can be NULL (where they are NaN), and strings where an empty one stands for it.
        """
        storage_type = self.info.storage_type
        is_float = storage_type in (StorageType.FLOAT32, StorageType.FLOAT64)
        can_be_null = is_float or self.info.empty_is_missing
        return pa.field(self.info.name, arrow_type(storage_type), nullable=can_be_null)

    @property
    def identity(self) -> Hashable:
        """What changes whenever the vector does."""
        return self.daf.vector_identity(self.info.axis, self.info.name)

    @property
    def key(self) -> tuple[Hashable, ...]:
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
            zones = ZoneMap.of_positions(self.info.length, options.zone_rows)
            return NumberColumn(lambda: lambda span: Rows(span).positions, zones)
        is_string = self.info.storage_type.is_string
        return (self._open_strings if is_string else self._open_numbers)(cache, options)

    def estimate(self, read: ReadEstimate) -> None:
        """Add what all of it downloads, if it is on a server; metadata are read at most."""
        daf, info = self.daf, self.info
        if info.name == INDEX or not is_remote(daf.location):
            return
        arrays = {NAME: daf.string_array(info.axis, NAME)} if info.name == NAME else {}
        for array in (arrays or self._pinned().arrays()).values():
            array.estimate([Span(0, array.info.shape[0])], read)

    def _pinned(self) -> StoredVector:
        """Return the vector as it is now, if it is still like the one that is known."""
        daf, info = self.daf, self.info
        try:  # to look at the axis again takes as long as to open the vector
            stored = daf.open_vector(info.axis, info.name, length=info.length)
        except errors.CorruptDataError:  # of another length, by now
            stored = daf.open_vector(info.axis, info.name)
        if _ARROW_OF(stored.info) != _ARROW_OF(info):
            raise errors.FormatError(
                f"{daf.location}: vector {info.name!r} of axis {info.axis!r} was replaced while "
                "it was being queried; run the query again"
            )
        return stored

    def _open_numbers(self, cache: DecodedCache, options: ScanOptions) -> NumberColumn:
        stored, zone_rows = self._pinned(), options.zone_rows
        parts = CachedParts(cache, self.key, stored.identity)
        is_view = not stored.info.is_sparse and stored.info.chunk_rows >= stored.info.length
        return NumberColumn(
            stored.reader,
            parts.get(("zones", zone_rows), lambda: self._zone_map(cache, zone_rows)),
            chunk_rows=stored.info.chunk_rows,
            parts=None if is_view else parts,
        )

    def _zone_map(self, cache: DecodedCache, zone_rows: int) -> ZoneMap:
        """Return the stored zone map, or one that is filled while the column is read."""
        stored = self.indexes.zone_map(self.info.name, cache)
        if stored is not None and stored.zone_rows == zone_rows:
            return stored
        return ZoneMap.unknown(self.info.length, self.info.storage_type.dtype, zone_rows)

    def _open_strings(self, cache: DecodedCache, options: ScanOptions) -> StringColumn:
        """Open strings.  That entries of the axis are unique is not checked: it would be slow."""
        daf, info, is_missing = self.daf, self.info, self.info.empty_is_missing
        of_codes = ("codes", options.zone_rows, options.max_distinct_strings)
        dense: Callable[[], StoredArray]
        if info.name == NAME:
            identity = self.identity
            array = daf.string_array(info.axis, NAME)
            dense, cached = (lambda: array), daf.cached_entries(info.axis)
        else:
            stored = self._pinned()
            identity = (stored.identity, is_missing)
            dense, cached = stored.dense, daf.cached_strings(stored)

        def missing(strings: Any) -> Any:
            return nulls_for_empty(strings) if is_missing and strings is not None else strings

        parts = CachedParts(cache, self.key, identity)
        strings = parts.peek("strings")
        strings = missing(cached) if strings is None else strings

        def codes() -> DictionaryCodes:
            batches = dense().string_pieces() if strings is None else iter([strings])
            return DictionaryCodes.of(batches, info.length, options, empty_is_missing=is_missing)

        def single(positions: Positions) -> pa.Array | None:
            index = self.indexes.strings(info.name, cache) if options.indexes else None
            return None if index is None else index.strings(positions)

        return StringColumn(
            lambda: parts.get("strings", lambda: missing(dense().read_strings())),
            lambda: parts.get(of_codes, codes) if info.length and info.name != NAME else None,
            parts.peek(of_codes),
            strings,
            read_single=single,
            decode_first=lambda: _first_strings(dense()),
            empty_is_missing=is_missing,
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


class NumberColumn:
    """A vector of numbers.

    Parameters
    ----------
    open_reader
        Opens the vector, and returns a function that reads a span and holds memory, but no file.
    zones
        The zone map, if it has one.
    chunk_rows
        Rows per chunk, where there are several.
    parts
        Where spans that were decoded are cached; ``None`` if reading one is a view.
    """

    def __init__(
        self,
        open_reader: Callable[[], Callable[[Span], npt.NDArray[Any]]],
        zones: ZoneMap | None = None,
        *,
        chunk_rows: int = 0,
        parts: CachedParts | None = None,
    ) -> None:
        self.zones = zones
        self._chunk_rows = chunk_rows
        self._parts = parts
        self._read = Once(open_reader)  # opened also where all spans are cached

    def values(self, rows: Rows) -> npt.NDArray[Any]:
        """Return numbers; of several chunks, only those with one of the rows are decoded."""
        read, cached = self._read(), self._parts
        if rows.offsets is None:
            make = partial(read, rows.span)
            return make() if cached is None else cached.get(rows.span, make)
        whole = read(rows.span) if cached is None else cached.peek(rows.span)
        if whole is not None:
            return whole[rows.offsets]
        positions = rows.positions
        runs = runs_of_chunks(positions, self._chunk_rows)
        parts = [read(span)[positions[which] - span.start] for span, which in runs]
        return parts[0] if len(parts) == 1 else np.concatenate([read(Span(0, 0)), *parts])

    def to_arrow(self, rows: Rows) -> pa.Array:
        """Return numbers as Arrow, NaN as null."""
        return number_array(self.values(rows))

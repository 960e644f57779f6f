"""A column: an Arrow field, and ways to read a range of its rows or some of them.

Numbers stay in the mapped file; strings are decoded once, and those with few distinct values are
kept as codes too.  NaN becomes NULL, because engines disagree on how NaN compares (greater than
everything, or nothing) and agree on NULL.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Hashable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from daf_query.evaluating import Codes, Mask, Values, Zones, of_texts
from daf_query.predicates import Predicate
from daf_storage import DafReader, DecodedCache, Span, StorageType, StoredVector, VectorInfo, errors

INDEX = "index"
NAME = "name"

ZONE_ROWS = 1 << 16
"""The rows of which the smallest and the largest value are remembered together."""

_MAX_DISTINCT = 1 << 16
_SAMPLE_ROWS = 1 << 13
_MAX_DISTINCT_OF_SAMPLE = 1 << 11

Positions = npt.NDArray[np.int64]


def arrow_type(storage_type: StorageType) -> pa.DataType:
    """Return the Arrow type of a storage type.

    >>> arrow_type(StorageType.UINT8)
    DataType(uint8)
    """
    if storage_type.is_string:
        return pa.string()
    return pa.from_numpy_dtype(storage_type.dtype.newbyteorder("="))


class TextLookup(Protocol):
    """An index of a column of texts."""

    def find(self, texts: Iterable[str]) -> Positions:
        """Return the rows that may hold one of some texts, ascending, and all that do."""
        ...

    def texts(self, rows: Positions) -> pa.Array | None:
        """Return the texts of a few rows; None if they are so many that decoding all is faster."""
        ...


class OpenColumn(Protocol):
    """A column that is being read; all that is read through it belongs together."""

    @property
    def zones(self) -> ZoneMap | None:
        """What was learnt of its ranges; None where that is not worth it, or nothing yet."""
        ...

    def find(self, texts: Iterable[str]) -> Positions | None:
        """Return the rows that may hold one of some texts, ascending; None without an index."""
        ...

    def load(self) -> None:
        """Get ready to be read: holds memory and no open file from here on, where it can."""
        ...

    def values(self, span: Span) -> Values:
        """Return the values of a range of rows, to evaluate a predicate on."""
        ...

    def array(self, span: Span) -> pa.Array:
        """Return a range of rows; of mapped numbers, without copying them."""
        ...

    def pick(self, span: Span, places: Positions) -> Values:
        """Return the values of some rows of a range, to evaluate a predicate on."""
        ...

    def take(self, span: Span, places: Positions) -> pa.Array:
        """Return some rows of a range, by their ascending places within it."""
        ...


class Column(Protocol):
    """One column of a table, as the metadata describes it; no data was read."""

    @property
    def field(self) -> pa.Field:
        """Its name and Arrow type."""
        ...

    @property
    def chunk_rows(self) -> int:
        """How many rows are stored together."""
        ...

    @property
    def is_text(self) -> bool:
        """Whether its values are strings or bytes, which are dear to compare."""
        ...

    def open(self, cache: DecodedCache) -> OpenColumn:
        """Begin to read it."""
        ...


@dataclass(frozen=True, slots=True)
class VectorColumn:
    """A vector of an axis as a column."""

    daf: DafReader
    """The data set."""
    info: VectorInfo
    """The vector behind it."""
    find_index: Callable[[DafReader, str, str, DecodedCache], TextLookup | None] = lambda *_: None
    """Returns the index of a vector of strings, if it has one that fits."""

    @property
    def chunk_rows(self) -> int:
        """How many rows are stored together."""
        return self.info.chunk_rows

    @property
    def is_text(self) -> bool:
        """Whether its values are strings."""
        return self.info.storage_type.is_string

    @property
    def field(self) -> pa.Field:
        """Its name and Arrow type; only floats can be NULL (where they are NaN)."""
        kind = self.info.storage_type
        is_float = kind in (StorageType.FLOAT32, StorageType.FLOAT64)
        return pa.field(self.info.name, arrow_type(kind), nullable=is_float)

    def open(self, cache: DecodedCache) -> OpenColumn:
        """Begin to read it.

        Raises
        ------
        FormatError
            The vector was replaced since by one of another type or length: ask again.
        """
        daf = self.daf
        if self.info.name == INDEX:
            return IndexColumn(self.info.length)
        if self.info.name == NAME:
            return TextColumn(
                lambda: daf.entries_of(self.info.axis),
                index=lambda: self.find_index(daf, self.info.axis, self.info.name, cache),
            )
        stored = daf.open_vector(self.info.axis, self.info.name)
        found = (stored.info.storage_type, stored.info.length)
        if found != (self.info.storage_type, self.info.length):
            raise errors.FormatError(
                f"{daf.location}: vector {self.info.name!r} of axis {self.info.axis!r} was "
                "replaced while it was being queried; run the query again"
            )
        key = (daf.location, self.info.axis, self.info.name)
        if self.info.storage_type.is_string:
            place = (*key, "codes")
            return TextColumn(
                lambda: daf.strings_of(stored),
                lambda texts: cache.get(place, stored.identity, lambda: TextCodes.of(texts())),
                cache.peek(place, stored.identity),
                index=lambda: self.find_index(daf, self.info.axis, self.info.name, cache),
            )
        kind = self.info.storage_type.dtype
        zones = cache.get(
            (*key, "zones"), stored.identity, lambda: ZoneMap.of(stored.info.length, kind)
        )
        if stored.info.is_sparse or stored.info.chunk_rows < stored.info.length:
            return NumberColumn(stored.info, stored.reader, zones)
        return NumberColumn(
            stored.info,
            stored.reader,
            zones,
            view=lambda: cache.get((*key, "view"), stored.identity, lambda: _View.of(stored)),
        )


class IndexColumn:
    """The positions along the axis."""

    def find(self, texts: Iterable[str]) -> None:  # noqa: ARG002 - these are numbers
        """Return nothing: there are no texts here."""
        return

    def __init__(self, length: int) -> None:
        starts = np.arange(0, length, ZONE_ROWS)
        self.zones: ZoneMap | None = ZoneMap(
            starts, np.minimum(starts + ZONE_ROWS, length) - 1, length, is_known=True
        )

    def load(self) -> None:
        """Do nothing."""

    def values(self, span: Span) -> Values:
        """Return the positions of a range."""
        return np.arange(span.start, span.stop)

    def array(self, span: Span) -> pa.Array:
        """Return the positions of a range."""
        return pa.array(np.arange(span.start, span.stop))

    def pick(self, span: Span, places: Positions) -> Values:
        """Return some positions."""
        return places + span.start

    def take(self, span: Span, places: Positions) -> pa.Array:
        """Return some positions."""
        return pa.array(places + span.start)


class _View:
    """A whole vector in memory or mapped; a mapping that is kept need not be faulted in again."""

    def __init__(self, values: npt.NDArray[Any], size_bytes: int) -> None:
        self.values = values
        self.nbytes = size_bytes + 256

    @classmethod
    def of(cls, stored: StoredVector) -> _View:
        """Return the view of a dense vector in a single chunk."""
        values = stored.reader()(Span(0, stored.info.length))
        return cls(values, 0 if stored.is_mapped else values.nbytes)

    def read(self, span: Span) -> npt.NDArray[Any]:
        """Return a range."""
        return self.values[span.slice]


class NumberColumn:
    """A vector of numbers.

    A dense one in a single chunk is a view of the mapped file.  The last range that was read of
    any other is kept, for the columns of a filter that are asked for as well.
    """

    def __init__(
        self,
        info: VectorInfo,
        reader: Callable[[], Callable[[Span], npt.NDArray[Any]]],
        zones: ZoneMap,
        *,
        view: Callable[[], _View] | None = None,
    ) -> None:
        self.zones: ZoneMap | None = zones
        self._chunk_rows = info.chunk_rows
        self._is_view = view is not None
        self._open: Callable[[], Any] | None = reader if view is None else lambda: view().read
        self._lock = threading.Lock()
        self._loaded: Callable[[Span], npt.NDArray[Any]] | None = None
        self._last = threading.local()

    def find(self, texts: Iterable[str]) -> None:  # noqa: ARG002 - these are numbers
        """Return nothing: there are no texts here."""
        return

    def load(self) -> None:
        """Map or fetch the vector, and let go of its files."""
        with self._lock:
            if self._open is not None:
                self._loaded = self._open()
                self._open = None

    def _read(self, span: Span) -> npt.NDArray[Any]:
        if self._loaded is None:
            self.load()
        if self._loaded is None:
            raise TypeError("the column cannot be loaded")
        return self._loaded(span)

    def values(self, span: Span) -> npt.NDArray[Any]:
        """Return the numbers of a range; remembers a range that had to be decoded."""
        if self._is_view:
            return self._read(span)
        last = getattr(self._last, "read", None)
        if last is None or last[0] != span:
            last = self._last.read = (span, self._read(span))
        values: npt.NDArray[Any] = last[1]
        return values

    def array(self, span: Span) -> pa.Array:
        """Return a range, NaN as null."""
        return number_array(self.values(span))

    def pick(self, span: Span, places: Positions) -> npt.NDArray[Any]:
        """Return some numbers; of several chunks, only those with one are decoded."""
        known = getattr(self._last, "read", None)
        if self._is_view or (known is not None and known[0] == span):
            return self.values(span)[places]
        parts = [
            self._read(within)[rest]
            for within, rest in runs_of_chunks(span, places, self._chunk_rows)
        ]
        return parts[0] if len(parts) == 1 else np.concatenate([self._read(Span(0, 0)), *parts])

    def take(self, span: Span, places: Positions) -> pa.Array:
        """Return some numbers, NaN as null."""
        return number_array(self.pick(span, places))


class TextColumn:
    """A vector of strings.

    Parameters
    ----------
    decode
        Returns all of them.
    encode
        Returns their codes, given the former; None if it is not worth trying.
    known
        Their codes, where they were made before.
    index
        Returns their index, if there is one.
    """

    def __init__(
        self,
        decode: Callable[[], Any],
        encode: Callable[[Callable[[], Any]], TextCodes] | None = None,
        known: TextCodes | None = None,
        *,
        index: Callable[[], TextLookup | None] = lambda: None,
    ) -> None:
        self._find_index = index
        self._index: TextLookup | None = None
        self._has_looked = False
        self._last = threading.local()
        self._decode: Callable[[], Any] | None = decode
        self._encode = encode
        self._codes = known
        self._texts: Any = None
        self._lock = threading.RLock()

    @property
    def zones(self) -> ZoneMap | None:
        """What is known of ranges of codes."""
        return None if self._codes is None else self._codes.zones

    def load(self) -> None:
        """Decode the strings, unless their codes or their index may do."""
        if self._codes is None and self._lookup() is None:
            self._decoded()

    def find(self, texts: Iterable[str]) -> Positions | None:
        """Return the rows that may hold one of some texts."""
        index = self._lookup()
        return None if index is None else index.find(texts)

    def _lookup(self) -> TextLookup | None:
        with self._lock:
            if not self._has_looked:
                self._index, self._has_looked = self._find_index(), True
            return self._index

    def _few(self, rows: Positions) -> Any:
        """Return some of the strings: by the index if they are few and not decoded yet."""
        index = None if self._decode is None else self._lookup()
        if index is None:
            return self._decoded().take(pa.array(rows))
        last = getattr(self._last, "few", None)
        if last is None or not np.array_equal(last[0], rows):
            last = self._last.few = (rows, index.texts(rows))
        return self._decoded().take(pa.array(rows)) if last[1] is None else last[1]

    def values(self, span: Span) -> Values:
        """Return the codes of a range, or the strings if there are too many distinct ones."""
        codes = self._coded()
        if codes is None:
            return self._decoded().slice(span.start, span.size)
        return Codes(codes.codes[span.slice], codes.texts, codes.table)

    def array(self, span: Span) -> pa.Array:
        """Return a range."""
        return _as_string(self._decoded().slice(span.start, span.size))

    def pick(self, span: Span, places: Positions) -> Values:
        """Return some of the strings, or their codes."""
        codes = self._codes if self._has_index() else self._coded()
        if codes is None or not codes.is_useful:
            return self._few(places + span.start)
        return Codes(codes.codes[span.slice][places], codes.texts, codes.table)

    def take(self, span: Span, places: Positions) -> pa.Array:
        """Return some of the strings."""
        codes = self._codes if self._has_index() else self._coded()
        if codes is not None and codes.is_useful:
            return codes.texts.take(pa.array(codes.codes[span.slice][places]))
        return _as_string(self._few(places + span.start))

    def _has_index(self) -> bool:
        return self._codes is None and self._lookup() is not None

    def _coded(self) -> TextCodes | None:
        with self._lock:
            if self._codes is None and self._encode is not None:
                self._codes = self._encode(self._decoded)
            return self._codes if self._codes is not None and self._codes.is_useful else None

    def _decoded(self) -> Any:
        with self._lock:
            if self._decode is not None:
                self._texts = self._decode()
                self._decode = None
            return self._texts


def _as_string(texts: Any) -> pa.Array:
    return texts.cast(pa.string()) if pa.types.is_large_string(texts.type) else texts


class TextCodes:
    """Strings with few distinct values: a number for each row, and the sorted strings."""

    def __init__(self, codes: npt.NDArray[Any] | None, texts: pa.Array) -> None:
        self.codes: npt.NDArray[Any] = np.empty(0, np.uint8) if codes is None else codes
        self.texts = texts
        self.is_useful = codes is not None
        self.zones = ZoneMap.of_codes(self) if codes is not None else None
        self._tables: dict[Hashable, Mask] = {}

    @property
    def nbytes(self) -> int:
        """About how much memory it takes."""
        return int(self.codes.nbytes + self.texts.nbytes) + 256

    @classmethod
    def of(cls, texts: Any) -> TextCodes:
        """Return the codes of decoded strings; useless ones if too many are distinct."""
        none = cls(None, pa.array([], pa.string()))
        step = max(len(texts) // _SAMPLE_ROWS, 1)
        sample = texts.take(pa.array(np.arange(0, len(texts), step)))
        if len(texts) == 0 or len(sample.unique()) > _MAX_DISTINCT_OF_SAMPLE:
            return none
        encoded = texts.dictionary_encode()
        if len(encoded.dictionary) > _MAX_DISTINCT:
            return none
        order = pc.sort_indices(encoded.dictionary).to_numpy()
        kind = np.uint8 if len(order) <= 1 << 8 else np.uint16
        rank = np.empty(len(order), kind)
        rank[order] = np.arange(len(order))
        codes = rank[encoded.indices.to_numpy()]
        return cls(codes, encoded.dictionary.take(pa.array(order)).cast(pa.string()))

    def table(self, predicate: Predicate) -> Mask:
        """Return for which of the distinct strings a predicate on this column is true."""
        found = self._tables.get(predicate)
        if found is None:
            found = of_texts(predicate, self.texts)
            if len(self._tables) < 1 << 8:
                self._tables[predicate] = found
        return found


class ZoneMap:
    """The smallest and largest values of ranges of rows, as far as somebody has read them."""

    def __init__(
        self,
        low: npt.NDArray[Any],
        high: npt.NDArray[Any],
        length: int,
        *,
        is_known: bool,
        table: Callable[[Predicate], Mask] | None = None,
    ) -> None:
        self._low, self._high = low, high
        self._length = length
        self._is_known = np.full(len(low), is_known)
        self._has_null = np.zeros(len(low), np.bool_)
        self._has_value = np.full(len(low), is_known)
        self._table = table

    @property
    def nbytes(self) -> int:
        """How much memory it takes."""
        return int(self._low.nbytes + self._high.nbytes) + 3 * len(self._low) + 256

    @classmethod
    def of(cls, length: int, kind: np.dtype[Any]) -> ZoneMap:
        """Return one of which nothing is known yet."""
        count = -(-length // ZONE_ROWS)
        kind = kind.newbyteorder("=")
        return cls(np.zeros(count, kind), np.zeros(count, kind), length, is_known=False)

    @classmethod
    def of_codes(cls, codes: TextCodes) -> ZoneMap:
        """Return that of strings, whose bounds are codes."""
        starts = np.arange(0, len(codes.codes), ZONE_ROWS)
        low = np.minimum.reduceat(codes.codes, starts)
        high = np.maximum.reduceat(codes.codes, starts)
        return cls(low, high, len(codes.codes), is_known=True, table=codes.table)

    def zones(self, first: int, last: int) -> Zones:
        """Return what is known of some ranges."""
        part = slice(first, last)
        return Zones(
            self._low[part],
            self._high[part],
            self._is_known[part],
            self._has_null[part],
            self._has_value[part],
            self._table,
        )

    def learn(self, span: Span, values: npt.NDArray[Any]) -> None:
        """Take note of values that were read anyway; threads that do so twice write the same."""
        for zone in range(-(-span.start // ZONE_ROWS), len(self._low)):
            start, stop = zone * ZONE_ROWS, min((zone + 1) * ZONE_ROWS, self._length)
            if stop > span.stop:
                return
            if not self._is_known[zone]:
                self._note(zone, values[start - span.start : stop - span.start])

    def _note(self, zone: int, part: npt.NDArray[Any]) -> None:
        low, high = part.min(), part.max()
        if low != low:  # noqa: PLR0124 - NaN, which is null here
            valid = part[~np.isnan(part)]
            self._has_null[zone] = True
            self._has_value[zone] = valid.size > 0
            low, high = (valid.min(), valid.max()) if valid.size else (0, 0)
        else:
            self._has_value[zone] = True
        self._low[zone], self._high[zone] = low, high
        self._is_known[zone] = True  # last: others may be reading


def runs_of_chunks(
    span: Span, places: Positions, chunk_rows: int
) -> Iterator[tuple[Span, Positions]]:
    """Yield the ranges of neighbouring chunks that have some rows of a range, and which rows.

    >>> runs = runs_of_chunks(Span(10, 40), np.array([1, 2, 25]), 5)
    >>> [(span.start, span.stop, rest.tolist()) for span, rest in runs]
    [(11, 13, [0, 1]), (35, 36, [0])]
    """
    chunks = (places + span.start) // chunk_rows
    for group in np.split(places, np.flatnonzero(np.diff(chunks) > 1) + 1):
        if group.size:
            first = int(group[0])
            yield Span(span.start + first, span.start + int(group[-1]) + 1), group - first


def number_array(values: Any) -> pa.Array:
    """Return numbers as Arrow without a copy (but for Bool); NaN becomes NULL.

    >>> number_array(np.array([1.5, np.nan])).to_pylist()
    [1.5, None]
    """
    if values.dtype == np.bool_:
        return pa.array(values.view(np.uint8) != 0)
    values = np.require(values, requirements=("C_CONTIGUOUS", "ALIGNED"))
    validity, null_count = None, 0
    if values.dtype.kind == "f":
        is_nan = np.isnan(values)
        null_count = int(np.count_nonzero(is_nan))
        if null_count:
            validity = pa.py_buffer(np.packbits(~is_nan, bitorder="little"))
    kind = pa.from_numpy_dtype(values.dtype.newbyteorder("="))
    buffers = [validity, pa.py_buffer(values)]
    return pa.Array.from_buffers(kind, len(values), buffers, null_count)

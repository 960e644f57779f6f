"""A column: an Arrow field, and ways to read a range of its rows or some of them.

Numbers stay in the mapped file; strings are decoded once, and those with few distinct values are
kept as codes too.  NaN becomes NULL, because engines disagree on how NaN compares (greater than
everything, or nothing) and agree on NULL.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from daf_query.scan._evaluate import Positions, Values
from daf_query.scan._missing_strings import nulls_for_empty
from daf_query.scan._options import ScanOptions
from daf_query.scan._predicate import Predicate
from daf_query.scan._string_column import DictionaryCodes, StringColumn
from daf_query.scan._zone_map import ZoneMap
from daf_storage import DafReader, VectorInfo, errors
from daf_storage.spi import DecodedCache, ForkLock, Span, StorageType, StoredVector

INDEX = "index"
NAME = "name"


def arrow_type(storage_type: StorageType) -> pa.DataType:
    """Return the Arrow type of a storage type.

    >>> arrow_type(StorageType.UINT8)
    DataType(uint8)
    """
    if storage_type.is_string:
        return pa.string()
    return pa.from_numpy_dtype(storage_type.dtype.newbyteorder("="))


class OpenColumn(Protocol):
    """A column that is being read; all that is read through it belongs together."""

    @property
    def zones(self) -> ZoneMap | None:
        """What was learnt of its ranges; None where that is not worth it, or nothing yet."""
        ...

    def find(self, conditions: Sequence[Predicate], max_rows: int) -> Positions | None:
        """Return the rows for which all conditions on it may be true, ascending.

        None without an index, or if they are more than ``max_rows``.
        """
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


Remember: TypeAlias = Callable[[Span, Callable[[Span], npt.NDArray[Any]]], npt.NDArray[Any]]
"""Reads a range, unless it is remembered."""


class Numbers(Protocol):
    """An index of a column of numbers."""

    def find(self, conditions: Iterable[Predicate], most: int) -> Positions | None:
        """Return the rows for which all conditions may be true; None if it cannot tell."""
        ...


class Indexes(Protocol):
    """The indexes of the columns of a table."""

    def lookup(self, name: str, cache: DecodedCache) -> Any:
        """Return what finds rows by the value of a column; None if nothing does."""
        ...

    def ranges(self, name: str, cache: DecodedCache) -> ZoneMap | None:
        """Return the smallest and largest values of ranges of rows, if they were stored."""
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
    def is_string(self) -> bool:
        """Whether its values are strings or bytes, which are dear to compare."""
        ...

    def open(self, cache: DecodedCache, options: ScanOptions) -> OpenColumn:
        """Begin to read it."""
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
        """How many rows are stored together."""
        return self.info.chunk_rows

    @property
    def is_string(self) -> bool:
        """Whether its values are strings."""
        return self.info.storage_type.is_string

    @property
    def field(self) -> pa.Field:
        """Its name and Arrow type.

        Floats can be NULL (where they are NaN), and strings where an empty one says so.
        """
        kind = self.info.storage_type
        is_float = kind in (StorageType.FLOAT32, StorageType.FLOAT64)
        can_be_null = is_float or self.info.empty_is_missing
        return pa.field(self.info.name, arrow_type(kind), nullable=can_be_null)

    def open(self, cache: DecodedCache, options: ScanOptions) -> OpenColumn:
        """Begin to read it.

        Raises
        ------
        FormatError
            The vector was replaced since by one of another type, length or convention: ask again.
        """
        daf = self.daf
        key = (daf.location, self.info.axis, self.info.name)
        if self.info.name == INDEX:
            return IndexColumn(self.info.length, options)
        if self.info.name == NAME:
            identity = daf.vector_identity(self.info.axis, NAME)
            array = daf.string_array(self.info.axis, NAME)
            # That they are unique is not checked: it takes longer than all else, for millions.
            return StringColumn(
                lambda: cache.get((*key, "strings"), identity, array.read_strings),
                strings=cache.peek((*key, "strings"), identity)
                or daf.known_entries(self.info.axis),
                index=lambda: self.indexes.lookup(self.info.name, cache),
            )
        stored = daf.open_vector(self.info.axis, self.info.name)
        if not _is_alike(stored.info, self.info):
            raise errors.FormatError(
                f"{daf.location}: vector {self.info.name!r} of axis {self.info.axis!r} was "
                "replaced while it was being queried; run the query again"
            )
        if self.info.storage_type.is_string:
            return self._strings(stored, cache, key, options)
        zones = cache.get(
            (*key, "zones", options.zone_rows),
            stored.identity,
            lambda: self._zone_map(cache, options.zone_rows),
        )

        def lookup() -> Numbers | None:
            found: Numbers | None = self.indexes.lookup(self.info.name, cache)
            return found

        if stored.info.is_sparse or stored.info.chunk_rows < stored.info.length:
            part = (*key, "part")

            def remember(span: Span, read: Callable[[Span], Any]) -> npt.NDArray[Any]:
                place = (*part, span.start, span.stop)
                values: npt.NDArray[Any] = cache.get(place, stored.identity, lambda: read(span))
                return values

            def recall(span: Span) -> npt.NDArray[Any] | None:
                found: npt.NDArray[Any] | None = cache.peek(
                    (*part, span.start, span.stop), stored.identity
                )
                return found

            return NumberColumn(
                stored.info,
                stored.reader,
                zones,
                lookup,
                remember=remember,
                recall=recall,
            )
        return NumberColumn(
            stored.info,
            stored.reader,
            zones,
            lookup,
            view=lambda: cache.get((*key, "view"), stored.identity, lambda: _View.of(stored)),
        )

    def _zone_map(self, cache: DecodedCache, zone_rows: int) -> ZoneMap:
        """Return the stored zone map, or one that is filled while the column is read."""
        stored = self.indexes.ranges(self.info.name, cache)
        if stored is not None and stored.zone_rows == zone_rows:
            return stored
        return ZoneMap.unknown(self.info.length, self.info.storage_type.dtype, zone_rows)

    def _strings(
        self,
        stored: StoredVector,
        cache: DecodedCache,
        key: tuple[Hashable, ...],
        options: ScanOptions,
    ) -> StringColumn:
        """Begin to read a vector of strings."""
        place = (*key, "codes", options.zone_rows, options.max_distinct_strings)
        empty_is_missing = stored.info.empty_is_missing
        identity = (stored.identity, empty_is_missing)
        strings = cache.peek((*key, "strings"), identity)
        if strings is None:
            strings = self.daf.known_strings(stored)
            if strings is not None and empty_is_missing:
                strings = nulls_for_empty(strings)

        def decode() -> Any:
            found = stored.read_strings()
            return nulls_for_empty(found) if empty_is_missing else found

        def encode() -> DictionaryCodes:
            batches = stored.string_batches() if strings is None else iter([strings])
            codes: DictionaryCodes = cache.get(
                place,
                identity,
                lambda: DictionaryCodes.of(
                    batches, stored.info.length, options, empty_is_missing=empty_is_missing
                ),
            )
            return codes

        return StringColumn(
            lambda: cache.get((*key, "strings"), identity, decode),
            encode,
            cache.peek(place, identity),
            strings,
            remember=lambda span, make: cache.get(
                (*key, "range", span.start, span.stop), identity, make
            ),
            index=lambda: self.indexes.lookup(self.info.name, cache),
            empty_is_missing=empty_is_missing,
        )


def _is_alike(found: VectorInfo, expected: VectorInfo) -> bool:
    """Return whether a vector still makes the same Arrow column."""
    return (found.storage_type, found.length, found.empty_is_missing) == (
        expected.storage_type,
        expected.length,
        expected.empty_is_missing,
    )


class IndexColumn:
    """The positions along the axis."""

    def __init__(self, length: int, options: ScanOptions) -> None:
        self.zones: ZoneMap | None = ZoneMap.of_positions(length, options.zone_rows)

    def find(self, conditions: Sequence[Predicate], max_rows: int) -> None:  # noqa: ARG002
        """Return nothing: the ranges do as well."""
        return

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

    A dense one in a single chunk is a view of the mapped file.  Of any other, whole ranges that
    were decoded are remembered.

    Parameters
    ----------
    reader
        Opens it, and returns what reads a range.
    lookup
        Returns its index, if there is one.
    view
        Returns all of it, where that costs no memory.
    remember, recall
        Read a range unless it is remembered; return it if it is.
    """

    def __init__(
        self,
        info: VectorInfo,
        reader: Callable[[], Callable[[Span], npt.NDArray[Any]]],
        zones: ZoneMap,
        lookup: Callable[[], Numbers | None] = lambda: None,
        *,
        view: Callable[[], _View] | None = None,
        remember: Remember | None = None,
        recall: Callable[[Span], npt.NDArray[Any] | None] = lambda _: None,
    ) -> None:
        self.zones: ZoneMap | None = zones
        self._lookup = lookup
        self._chunk_rows = info.chunk_rows
        self._is_view = view is not None
        self._open: Callable[[], Any] | None = reader if view is None else lambda: view().read
        self._lock = ForkLock()
        self._loaded: Callable[[Span], npt.NDArray[Any]] | None = None
        self._remember = remember
        self._recall = recall

    def find(self, conditions: Sequence[Predicate], max_rows: int) -> Positions | None:
        """Return the rows for which all conditions may be true, by the index."""
        index = self._lookup()
        return None if index is None else index.find(conditions, max_rows)

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
        if self._is_view or self._remember is None:
            return self._read(span)
        return self._remember(span, self._read)

    def array(self, span: Span) -> pa.Array:
        """Return a range, NaN as null."""
        return number_array(self.values(span))

    def pick(self, span: Span, places: Positions) -> npt.NDArray[Any]:
        """Return some numbers; of several chunks, only those with one are decoded."""
        known = self._read(span) if self._is_view else self._recall(span)
        if known is not None:
            return known[places]
        parts = [
            self._read(within)[rest]
            for within, rest in runs_of_chunks(span, places, self._chunk_rows)
        ]
        return parts[0] if len(parts) == 1 else np.concatenate([self._read(Span(0, 0)), *parts])

    def take(self, span: Span, places: Positions) -> pa.Array:
        """Return some numbers, NaN as null."""
        return number_array(self.pick(span, places))


def cast_to(array: pa.Array, kind: pa.DataType) -> pa.Array:
    """Return an array as another type, in a shape that engines can read.

    Older versions of pyarrow leave out a buffer of views that are all short; taking that over
    crashes DataFusion.
    """
    found = array.cast(kind)
    buffers = found.buffers()
    is_whole = all(one is not None for one in buffers[2:])
    if kind not in (pa.string_view(), pa.binary_view()) or is_whole:
        return found
    data = [pa.py_buffer(b"") if one is None else one for one in buffers[2:]]
    buffers = [*buffers[:2], *data]
    return pa.Array.from_buffers(kind, len(found), buffers, found.null_count, found.offset)


def size_bytes(values: Any) -> int:
    """Return how many bytes values take: numpy's, or Arrow's.

    >>> size_bytes(pa.array(["a"]).cast(pa.string_view())) > 0
    True
    """
    if isinstance(values, pa.Array) and values.type in (pa.string_view(), pa.binary_view()):
        return int(values.get_total_buffer_size())  # pyarrow 19 refuses the other one
    return int(values.nbytes)


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

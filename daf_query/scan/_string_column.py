"""Columns of strings: as codes where few are distinct, singly by an index, or all, decoded once.

Codes take a byte or two per row.  Strings of which there are codes are not kept beside them.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from daf_query.scan._evaluate import Codes, Mask, Positions, Values, of_strings
from daf_query.scan._missing_strings import nulls_for_empty
from daf_query.scan._options import DEFAULT_OPTIONS, ZONE_ROWS, ScanOptions
from daf_query.scan._predicate import Predicate
from daf_query.scan._zone_map import ZoneMap
from daf_storage import errors
from daf_storage.spi import ForkLock, Span

_BATCH_ROWS = 1 << 17
_SAMPLE_ROWS = 1 << 13
_MAX_DISTINCT_OF_SAMPLE = 1 << 11


class StringSource(Protocol):
    """An index of a column of texts."""

    def find(self, conditions: Iterable[Predicate], most: int) -> Positions | None:
        """Return the rows for which all conditions may be true; None if it cannot tell."""
        ...

    def strings(self, rows: Positions) -> pa.Array | None:
        """Return the texts of a few rows; None if they are so many that decoding all is faster."""
        ...


class StringColumn:
    """A vector of strings.

    Parameters
    ----------
    decode
        Returns all of them.
    encode
        Returns their codes; None if it is not worth trying.
    known
        Their codes, where they were made before.
    texts
        All of them, where they were decoded before.
    index
        Returns their index, if there is one.
    remember
        Makes the strings of a range, unless they are remembered.
    empty_is_missing
        Whether empty strings stand for missing values; in all of the above they are null then, but
        for the index, which has them as they are stored.
    """

    def __init__(
        self,
        decode: Callable[[], Any],
        encode: Callable[[], DictionaryCodes] | None = None,
        known: DictionaryCodes | None = None,
        strings: Any = None,
        *,
        index: Callable[[], StringSource | None] = lambda: None,
        remember: Callable[[Span, Callable[[], pa.Array]], pa.Array] = lambda _, make: make(),
        empty_is_missing: bool = False,
    ) -> None:
        self._empty_is_missing = empty_is_missing
        self._find_index = index
        self._remember = remember
        self._index: StringSource | None = None
        self._has_searched = False
        self._last = threading.local()
        self._lock = ForkLock()
        self._decode: Callable[[], Any] | None = decode if strings is None else None
        self._encode = encode
        self._codes = known
        self._strings = strings
        self._let_go()

    @property
    def zones(self) -> ZoneMap | None:
        """What is known of ranges of codes."""
        return None if self._codes is None else self._codes.zones

    def load(self) -> None:
        """Do nothing: the first to read it decodes what it needs, and lets go of the files."""

    def _let_go(self) -> None:
        """Forget the files where the codes will do."""
        if self._codes is not None:
            self._encode = None
            if self._codes.is_useful:
                self._decode = None

    def find(self, conditions: Sequence[Predicate], max_rows: int) -> Positions | None:
        """Return the rows for which all conditions may be true, by the index."""
        index = self._lookup()
        return None if index is None else index.find(conditions, max_rows)

    def _lookup(self) -> StringSource | None:
        with self._lock:
            if not self._has_searched:
                self._index, self._has_searched = self._find_index(), True
            return self._index

    def _few(self, rows: Positions) -> Any:
        """Return some of the strings: by the index if they are few and not decoded yet."""
        index = None if self._decode is None else self._lookup()
        if index is None:
            return self._decoded().take(pa.array(rows))
        last = getattr(self._last, "few", None)
        if last is None or not np.array_equal(last[0], rows):
            found = index.strings(rows)
            if found is not None and self._empty_is_missing:
                found = nulls_for_empty(found)
            last = self._last.few = (rows, found)
        return self._decoded().take(pa.array(rows)) if last[1] is None else last[1]

    def values(self, span: Span) -> Values:
        """Return the codes of a range, or the strings if there are too many distinct ones."""
        codes = self._coded()
        if codes is None:
            return self._decoded().slice(span.start, span.size)
        return codes.values(span)

    def array(self, span: Span) -> pa.Array:
        """Return a range."""
        codes = self._codes
        if self._strings is None and codes is not None and codes.is_useful:
            return self._remember(
                span, lambda: codes.strings.take(pa.array(codes.codes[span.slice]))
            )
        return _as_string(self._decoded().slice(span.start, span.size))

    def pick(self, span: Span, places: Positions) -> Values:
        """Return some of the strings, or their codes."""
        codes = self._codes if self._has_index() else self._coded()
        if codes is None or not codes.is_useful:
            return self._few(places + span.start)
        return Codes(codes.codes[span.slice][places], codes.strings, codes.table)

    def take(self, span: Span, places: Positions) -> pa.Array:
        """Return some of the strings."""
        codes = self._codes if self._has_index() else self._coded()
        if codes is not None and codes.is_useful:
            return codes.strings.take(pa.array(codes.codes[span.slice][places]))
        return _as_string(self._few(places + span.start))

    def _has_index(self) -> bool:
        return self._codes is None and self._lookup() is not None

    def _coded(self) -> DictionaryCodes | None:
        with self._lock:
            if self._codes is None and self._encode is not None:
                self._codes = self._encode()
                self._let_go()
            return self._codes if self._codes is not None and self._codes.is_useful else None

    def _decoded(self) -> Any:
        with self._lock:
            codes = self._codes
            if self._decode is not None:
                self._strings = self._decode()
                self._decode = None
                self._encode = None
            elif self._strings is None and codes is not None:  # another thread has just made them
                self._strings = codes.strings.take(pa.array(codes.codes))
            return self._strings


def _as_string(strings: Any) -> pa.Array:
    return strings.cast(pa.string()) if pa.types.is_large_string(strings.type) else strings


class DictionaryCodes:
    """Strings with few distinct values: a number for each row, and the sorted strings.

    Where empty strings stand for missing values, the first of the sorted strings is null.
    """

    def __init__(
        self, codes: npt.NDArray[Any] | None, strings: pa.Array, zone_rows: int = ZONE_ROWS
    ) -> None:
        self.codes: npt.NDArray[Any] = np.empty(0, np.uint8) if codes is None else codes
        self.strings = strings
        self.is_useful = codes is not None
        self.zones = None if codes is None else ZoneMap.of_codes(codes, self.table, zone_rows)
        self._tables: dict[Hashable, Mask] = {}

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
        """Return the codes of strings, given in pieces; useless ones if too many are distinct."""
        codes = np.empty(length, np.uint16)
        known = pa.array([], pa.string())
        place = 0
        for encoded in _encoded(batches):
            values = encoded.dictionary.cast(pa.string())
            is_new = pc.is_null(pc.index_in(values, value_set=known))
            known = pa.concat_arrays([known, values.filter(is_new)])
            if len(known) > options.max_distinct_strings or _is_varied(encoded, place):
                return cls(None, pa.array([], pa.string()))
            ranks = pc.index_in(values, value_set=known).to_numpy().astype(np.uint16)
            np.take(ranks, encoded.indices.to_numpy(), out=codes[place : place + len(encoded)])
            place += len(encoded)
        if place != length:
            raise errors.CorruptDataError(
                f"{place:,} strings are stored where {length:,} should be"
            )
        order = pc.sort_indices(known).to_numpy()
        rank = np.empty(len(order), np.uint8 if len(order) <= 1 << 8 else np.uint16)
        rank[order] = np.arange(len(order))
        strings = known.take(pa.array(order))
        return cls(
            rank[codes] if length else None,
            nulls_for_empty(strings) if empty_is_missing else strings,
            options.zone_rows,
        )

    @classmethod
    def of_constant(cls, strings: pa.Array, length: int, options: ScanOptions) -> DictionaryCodes:
        """Return the codes of a single string, the same in all rows; takes no memory."""
        constant = cls(None, strings)
        constant.codes, constant.is_useful = np.broadcast_to(np.uint8(0), length), True
        constant.zones = ZoneMap.of_constant(length, constant.table, options.zone_rows)
        return constant

    def values(self, span: Span) -> Codes:
        """Return the codes of a range."""
        return Codes(self.codes[span.slice], self.strings, self.table)

    def table(self, predicate: Predicate) -> Mask:
        """Return for which of the distinct strings a predicate on this column is true."""
        found = self._tables.get(predicate)
        if found is None:
            found = of_strings(predicate, self.strings)
            if len(self._tables) < 1 << 8:
                self._tables[predicate] = found
        return found


def _encoded(batches: Iterable[pa.Array]) -> Iterator[pa.DictionaryArray]:
    """Yield pieces as dictionaries, none of them large; nulls as empty strings."""
    for batch in batches:
        for start in range(0, len(batch), _BATCH_ROWS):
            piece = batch.slice(start, _BATCH_ROWS)
            piece = piece.fill_null("") if piece.null_count else piece
            yield piece if pa.types.is_dictionary(piece.type) else piece.dictionary_encode()


def _is_varied(encoded: pa.DictionaryArray, place: int) -> bool:
    """Return whether the first strings are so many different ones that codes are not worth it."""
    sample = encoded.indices.slice(0, _SAMPLE_ROWS)
    return place == 0 and len(sample.unique()) > _MAX_DISTINCT_OF_SAMPLE

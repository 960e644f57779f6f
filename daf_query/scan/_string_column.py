"""Columns of strings: dictionary codes, single strings by an index, or all, decoded once.

Strings of which there are codes are not kept beside them.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa

from daf_query.scan._dictionary_codes import DictionaryCodes
from daf_query.scan._evaluate import Mask, Values
from daf_query.scan._missing_strings import nulls_for_empty
from daf_query.scan._options import DEFAULT_OPTIONS
from daf_query.scan._predicate import Compare, In, IsNull
from daf_query.scan._row_index import MAX_SINGLE_STRINGS, StringRowIndex
from daf_query.scan._rows import LastOfThreads, Positions, Rows
from daf_query.scan._stored_strings import StoredStrings
from daf_query.scan._zone_map import ZoneMap
from daf_storage.base import ForkLock, Span


class StringColumn:
    """A vector of strings.

    Parameters
    ----------
    decode
        Returns all strings.
    encode
        Returns their codes; ``None`` if codes are not worth trying.
    codes
        The codes, if they are cached.
    strings
        All strings, if they are cached.
    find_index
        Returns the index, if there is one.
    cache_span
        Returns the strings of a span, computing them unless they are cached.
    stored
        The strings as they are stored, if they can be searched there.
    sparse_divisor
        Up to one row in so many is read where it is stored.
    empty_is_missing
        Whether empty strings stand for missing values; in all of the above they are null then, but
        for the index, which has them as they are stored.
    """

    def __init__(  # noqa: PLR0913 - all that may be known of a column, each of it optional
        self,
        decode: Callable[[], Any],
        encode: Callable[[], DictionaryCodes] | None = None,
        codes: DictionaryCodes | None = None,
        strings: Any = None,
        *,
        find_index: Callable[[], StringRowIndex | None] = lambda: None,
        cache_span: Callable[[Span, Callable[[], pa.Array]], pa.Array] = lambda _, make: make(),
        stored: StoredStrings | None = None,
        sparse_divisor: int = DEFAULT_OPTIONS.sparse_divisor,
        empty_is_missing: bool = False,
    ) -> None:
        self._stored = stored
        self._sparse_divisor = sparse_divisor
        self._empty_is_missing = empty_is_missing
        self._find_index: Callable[[], StringRowIndex | None] | None = find_index
        self._cache_span = cache_span
        self._index: StringRowIndex | None = None
        self._last: LastOfThreads = {}
        self._lock = ForkLock()
        self._decode: Callable[[], Any] | None = decode if strings is None else None
        self._encode = encode
        self._codes = codes
        self._strings = strings
        self._release_files()

    @property
    def zones(self) -> ZoneMap | None:
        """The zone map of the codes, once there are codes."""
        return None if self._codes is None else self._codes.zones

    def row_index(self) -> StringRowIndex | None:
        """Return the index, if there is one; looked for once."""
        with self._lock:
            if self._find_index is not None:
                self._index, self._find_index = self._find_index(), None
            return self._index

    def _index_for(self, rows: Rows) -> StringRowIndex | None:
        """Return the index, if it can read the strings of some rows."""
        is_few = rows.offsets is not None and rows.count <= MAX_SINGLE_STRINGS
        return self.row_index() if is_few else None

    def values(self, rows: Rows) -> Values:
        """Return codes, or strings if too many are distinct."""
        codes = self._codes_for(rows)
        return self._plain(rows) if codes is None else codes.values(rows)

    def stored_matches(self, predicate: Compare | In | IsNull, rows: Rows) -> Mask | None:
        """Return for which rows a comparison is true, seen where strings are stored.

        None if it cannot be seen there, or is found faster in what is known already: strings, an
        index, or codes, which are made from the second query on.
        """
        stored = self._stored
        if stored is None or self._strings is not None or self._has_codes(stored):
            return None
        if self._index_for(rows) is not None:
            return None
        return stored.matches(predicate, rows)

    def _has_codes(self, stored: StoredStrings) -> bool:
        codes = self._codes if stored.is_new else self._coded()
        return codes is not None and codes.is_useful

    def _by_search(self, rows: Rows) -> pa.Array | None:
        """Return a few strings as they are stored; None if it pays to make codes, or decode all."""
        stored = self._stored
        if stored is None or self._strings is not None:
            return None
        if self._codes is None and stored.are_first(rows):
            return stored.strings(rows)
        if self._has_codes(stored):
            return None
        return stored.strings(rows) if stored.are_cheap(rows, self._sparse_divisor) else None

    def to_arrow(self, rows: Rows) -> pa.Array:
        """Return strings."""
        if rows.offsets is not None:
            found = None if self._index_for(rows) is not None else self._by_search(rows)
            if found is not None:
                return found
            codes = self._codes_for(rows)
            return _as_string(self._plain(rows)) if codes is None else codes.to_arrow(rows)
        known = self._codes  # a whole span is decoded, rather than encoded, if it was neither
        if self._strings is None and known is not None and known.is_useful:
            return self._cache_span(rows.span, lambda: known.to_arrow(rows))
        return _as_string(self._plain(rows))

    def _codes_for(self, rows: Rows) -> DictionaryCodes | None:
        """Return codes; for single rows that an index can read, only those that are there."""
        codes = self._codes
        if codes is not None or self._index_for(rows) is None:
            codes = self._coded()
        return codes if codes is not None and codes.is_useful else None

    def _plain(self, rows: Rows) -> Any:
        """Return strings without codes; few of them by the index, if not all are decoded yet."""
        if rows.offsets is None:
            return self._decoded().slice(rows.span.start, rows.span.size)
        positions = rows.positions
        index = None if self._decode is None else self._index_for(rows)
        strings = None if index is None else self._by_index(index, positions)
        return self._decoded().take(pa.array(positions)) if strings is None else strings

    def _by_index(self, index: StringRowIndex, positions: Positions) -> pa.Array | None:
        """Return single strings; those of the last call are kept for the next one."""
        thread = threading.get_ident()
        last = self._last.get(thread)
        if last is None or not np.array_equal(last[0], positions):
            strings = index.strings(positions)
            if strings is not None and self._empty_is_missing:
                strings = nulls_for_empty(strings)
            last = self._last[thread] = (positions, strings)
        return last[1]

    def _coded(self) -> DictionaryCodes | None:
        """Return the codes, made once; ``None`` if there are none."""
        with self._lock:
            if self._codes is None and self._encode is not None:
                self._codes = self._encode()
                self._release_files()
            return self._codes

    def _decoded(self) -> Any:
        """Return all strings, decoded once."""
        with self._lock:
            codes = self._codes
            if self._decode is not None:
                self._strings = self._decode()
                self._decode = None
                self._encode = None
            elif self._strings is None and codes is not None:  # another thread has just made them
                self._strings = codes.strings.take(pa.array(codes.codes))
            return self._strings

    def _release_files(self) -> None:
        """Drop what holds files, where the codes will do."""
        if self._codes is not None:
            self._encode = None
            if self._codes.is_useful:
                self._decode = None


def _as_string(strings: Any) -> pa.Array:
    return strings.cast(pa.string()) if pa.types.is_large_string(strings.type) else strings

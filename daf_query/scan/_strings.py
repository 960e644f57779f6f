"""Columns of strings: dictionary codes, or strings that are decoded once; a few of them, alone.

Codes are a byte or two for each row, of the sorted distinct strings.  Strings of which there are
codes are not kept beside them.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from daf_query._runs import check_cancelled
from daf_query.scan._arrow_arrays import nulls_for_empty
from daf_query.scan._evaluate import Codes, Mask, Values, evaluate_strings
from daf_query.scan._options import DEFAULT_OPTIONS, ZONE_ROWS, Rows, ScanOptions
from daf_query.scan._predicate import Predicate
from daf_query.scan._zone_map import StringRowIndex, ZoneMap
from daf_storage import errors
from daf_storage.base import ForkLock

MAX_SINGLE_STRINGS: Final = 1 << 11
"""The strings of more rows are not read one by one."""

_BATCH_ROWS: Final = 1 << 17
_SAMPLE_ROWS: Final = 1 << 13
_MAX_DISTINCT_IN_SAMPLE: Final = 1 << 11
_MAX_TABLES: Final = 1 << 8


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
        """Return the codes of strings, given in pieces; useless ones if too many are distinct.

        Raises
        ------
        CorruptDataError
            There are fewer or more strings than ``length``.
        """
        # 1. Number the distinct strings in the order in which they occur, piece by piece.
        codes = np.empty(length, np.uint16)
        distinct = pa.array([], pa.string())
        count = 0
        for encoded in _encoded(batches):
            check_cancelled()
            values = encoded.dictionary.cast(pa.string())
            is_new = pc.is_null(pc.index_in(values, value_set=distinct))
            distinct = pa.concat_arrays([distinct, values.filter(is_new)])
            is_varied = count == 0 and _is_varied(encoded)
            if is_varied or len(distinct) > options.max_distinct_strings:
                return cls(None, pa.array([], pa.string()))
            numbers = pc.index_in(values, value_set=distinct).to_numpy().astype(np.uint16)
            np.take(numbers, encoded.indices.to_numpy(), out=codes[count : count + len(encoded)])
            count += len(encoded)
        if count != length:
            raise errors.CorruptDataError(
                f"{count:,} strings are stored where {length:,} should be"
            )
        # 2. Number them again in alphabetical order, so that ranges of strings are ranges of codes.
        order = pc.sort_indices(distinct).to_numpy()
        rank = np.empty(len(order), np.uint8 if len(order) <= 1 << 8 else np.uint16)
        rank[order] = np.arange(len(order))
        strings = distinct.take(pa.array(order))
        return cls(
            rank.take(codes) if length else None,
            nulls_for_empty(strings) if empty_is_missing else strings,
            options.zone_rows,
        )

    @classmethod
    def of_constant(cls, strings: pa.Array, length: int, zone_rows: int) -> DictionaryCodes:
        """Return the codes of a single string, the same in all rows; takes no memory."""
        constant = cls(None, strings)
        constant.codes, constant.is_useful = np.broadcast_to(np.uint8(0), length), True
        constant.zones = ZoneMap.of_constant(length, constant.table, zone_rows)
        return constant

    def values(self, rows: Rows) -> Codes:
        """Return codes to evaluate a predicate on."""
        return Codes(rows.of(self.codes), self.strings, self.table)

    def to_arrow(self, rows: Rows) -> pa.DictionaryArray:
        """Return codes and distinct strings."""
        codes = pa.array(rows.of(self.codes))
        return pa.DictionaryArray.from_arrays(codes, self.strings, safe=False)

    def table(self, predicate: Predicate) -> Mask:
        """Return for which of the distinct strings a predicate on this column is true."""
        table = self._tables.get(predicate)
        if table is None:
            table = evaluate_strings(predicate, self.strings)
            if len(self._tables) < _MAX_TABLES:
                self._tables[predicate] = table
        return table


def _encoded(batches: Iterable[pa.Array]) -> Iterator[pa.DictionaryArray]:
    """Yield pieces as dictionaries, none of them large; nulls as empty strings."""
    for batch in batches:
        for start in range(0, len(batch), _BATCH_ROWS):
            piece = batch.slice(start, _BATCH_ROWS)
            piece = piece.fill_null("") if piece.null_count else piece
            yield piece if pa.types.is_dictionary(piece.type) else piece.dictionary_encode()


def _is_varied(encoded: pa.DictionaryArray) -> bool:
    """Return whether the first strings are so many different ones that codes are not worth it."""
    sample = encoded.indices.slice(0, _SAMPLE_ROWS)
    return len(sample.unique()) > _MAX_DISTINCT_IN_SAMPLE


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
    decode_first
        Returns some of the first strings, if these can be decoded alone.
    empty_is_missing
        Whether empty strings stand for missing values; in ``strings`` and ``codes`` they are null.
    """

    def __init__(
        self,
        decode: Callable[[], Any],
        encode: Callable[[], DictionaryCodes] | None = None,
        codes: DictionaryCodes | None = None,
        strings: Any = None,
        *,
        find_index: Callable[[], StringRowIndex | None] = lambda: None,
        decode_first: Callable[[], pa.Array | None] = lambda: None,
        empty_is_missing: bool = False,
    ) -> None:
        self._empty_is_missing = empty_is_missing
        self._find_index: Callable[[], StringRowIndex | None] | None = find_index
        self._index: StringRowIndex | None = None
        self._decode_first: Callable[[], pa.Array | None] | None = decode_first
        self._first: pa.Array | None = None
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

    def values(self, rows: Rows) -> Values:
        """Return codes, or strings if too many are distinct."""
        few = self._few(rows)
        codes = None if few is not None else self._useful(self._coded())
        return codes.values(rows) if codes is not None else self._plain(rows, few)

    def to_arrow(self, rows: Rows) -> pa.Array:
        """Return strings, or their codes as a dictionary of Arrow."""
        few = self._few(rows)
        codes = None if few is not None else self._useful(self._coded())
        return self._plain(rows, few) if codes is None else codes.to_arrow(rows)

    def _few(self, rows: Rows) -> pa.Array | None:
        """Return a few strings that are read alone; None if all are known, or have to be."""
        is_known = self._decode is None or self._useful(self._codes) is not None
        if rows.offsets is None or is_known:
            return None
        strings, positions = None, rows.positions
        if positions.size <= MAX_SINGLE_STRINGS:
            index = self.row_index()
            strings = None if index is None else index.strings(positions)
        if strings is None:
            first = self._first_ones()
            is_first = first is not None and (not positions.size or positions[-1] < len(first))
            strings = first.take(pa.array(positions)) if first is not None and is_first else None
        return (
            nulls_for_empty(strings) if strings is not None and self._empty_is_missing else strings
        )

    def _first_ones(self) -> pa.Array | None:
        with self._lock:
            if self._decode_first is not None:
                self._first, self._decode_first = self._decode_first(), None
            return self._first

    def _plain(self, rows: Rows, few: pa.Array | None) -> Any:
        """Return strings without codes."""
        if few is not None:
            return few
        if rows.offsets is None:
            return self._decoded().slice(rows.span.start, rows.span.size)
        return self._decoded().take(pa.array(rows.positions))

    @staticmethod
    def _useful(codes: DictionaryCodes | None) -> DictionaryCodes | None:
        return codes if codes is not None and codes.is_useful else None

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
                self._decode = self._decode_first = None

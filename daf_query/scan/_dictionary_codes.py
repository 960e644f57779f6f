"""Dictionary codes: strings with few distinct values as a byte or two per row."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from daf_query._runs import check_cancelled
from daf_query.scan._evaluate import Codes, Mask, evaluate_strings
from daf_query.scan._missing_strings import nulls_for_empty
from daf_query.scan._options import DEFAULT_OPTIONS, ZONE_ROWS, ScanOptions
from daf_query.scan._predicate import Predicate
from daf_query.scan._rows import Rows
from daf_query.scan._zone_map import ZoneMap
from daf_storage import errors

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

    def to_arrow(self, rows: Rows) -> pa.Array:
        """Return the strings behind the codes."""
        return self.strings.take(pa.array(rows.of(self.codes)))

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

"""Sorted indexes of numbers and of strings: their rows are found by value.  Pure.

May return false positives, never false negatives; callers apply the filter again.  An index that
turns out to be damaged while rows are looked up reports it and finds nothing any more.
"""

from __future__ import annotations

import struct
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final, Literal

import numpy as np
import pyarrow as pa

from daf_query.index._faults import UnfitIndexError, list_of
from daf_query.index._posting_lists import PostingLists
from daf_query.index._string_hash import hashes_of
from daf_query.scan import MAX_SINGLE_STRINGS, Compare, In, Positions, Predicate, ScanOptions
from daf_storage import errors
from daf_storage.upkeep import PagedArray

EVERY: Final = 16
"""The offset in the chunk is stored of every so many strings."""

COUNT_BYTES: Final = 4
LENGTH_BYTES: Final = 4
_SIDES: Final[tuple[Literal["left"], Literal["right"]]] = ("left", "right")
_FAULTS: Final = (UnfitIndexError, errors.CorruptDataError)


class _SortedIndex(ABC):
    """What indexes of numbers and of strings have in common.

    Parameters
    ----------
    column
        The name of the column.
    postings
        The rows of each key.
    report
        Called once with the reason, if a page that is read turns out not to fit.
    """

    def __init__(
        self, column: str, postings: PostingLists, report: Callable[[object], None]
    ) -> None:
        self.columns = (column,)
        self._postings = postings
        self._report = report
        self._is_damaged = False

    def find(self, conditions: Sequence[Predicate], max_rows: int) -> Positions | None:
        """Return the rows for which all conditions on the column may be true, ascending.

        ``None`` if there are more than ``max_rows``, no condition is of use, or the index is
        damaged.
        """
        if self._is_damaged:
            return None
        try:
            return self._rows(conditions, max_rows)
        except _FAULTS as error:
            self._fail(error)
            return None

    def _fail(self, error: Exception) -> None:
        self._is_damaged = True
        self._report(error)

    @abstractmethod
    def _rows(self, conditions: Sequence[Predicate], max_rows: int) -> Positions | None:
        """Find rows, and raise if the index is damaged."""


class NumberIndex(_SortedIndex):
    """A sorted index of numbers, by value; rows with NaN are not listed."""

    def divisor(self, options: ScanOptions) -> int:
        """Return how selective it has to be."""
        return options.number_index_divisor

    def _rows(self, conditions: Sequence[Predicate], max_rows: int) -> Positions | None:
        postings = self._postings
        low, high = 0, postings.n_keys
        listed: list[tuple[int, int]] | None = None
        is_restricted = False
        for condition in conditions:
            if isinstance(condition, In) and not condition.is_negated:
                values = np.unique(np.array(condition.values, postings.dtype))
                listed = postings.key_ranges(values)
            elif isinstance(condition, Compare) and condition.operator != "!=":
                first, last = _bounds(postings, condition)
                low, high = max(low, first), min(high, last)
            else:
                continue
            is_restricted = True
        if not is_restricted:
            return None
        ranges = [(low, high)] if listed is None else listed
        return postings.rows(
            ((max(first, low), min(last, high)) for first, last in ranges), max_rows
        )


def _bounds(postings: PostingLists, condition: Compare) -> tuple[int, int]:
    """Return the range of keys for which a comparison is true."""
    value = np.array([condition.value], postings.dtype)  # else all keys would be converted
    left, right = (int(postings.places(value, side)[0]) for side in _SIDES)
    return {
        "==": (left, right),
        "<": (0, left),
        "<=": (0, right),
        ">": (right, postings.n_keys),
        ">=": (left, postings.n_keys),
    }[condition.operator]


class StringIndex(_SortedIndex):
    """A sorted index of strings by their hashes, which can read single strings.

    Parameters
    ----------
    column, postings, report
        As of `NumberIndex`; the keys are hashes.
    starts
        Where every 16th string begins in the chunk.
    chunk
        The stored strings: a count, then the length and the bytes of each; ``None`` if they are
        stored otherwise.
    """

    def __init__(
        self,
        column: str,
        postings: PostingLists,
        report: Callable[[object], None],
        starts: PagedArray,
        chunk: memoryview | None,
    ) -> None:
        super().__init__(column, postings, report)
        self._starts = starts
        self._chunk = chunk

    @classmethod
    def from_arrays(
        cls,
        column: str,
        arrays: Mapping[str, PagedArray],
        length: int,
        report: Callable[[object], None],
        chunk: memoryview | None,
    ) -> StringIndex:
        """Return a stored index; what it contains is checked where it is read.

        Raises
        ------
        UnfitIndexError
            The arrays do not fit together, or the table.
        CorruptDataError
            They are not what was stored.
        """
        postings = PostingLists.from_arrays(arrays, length, np.dtype(np.uint64))
        starts = list_of(arrays, "start", np.uint64)
        if len(postings) != length:
            raise UnfitIndexError(f"it has {len(postings):,} rows of the {length:,} that there are")
        if len(starts) != -(-length // EVERY):
            raise UnfitIndexError(
                f"it has {len(starts):,} offsets for a chunk of {length:,} strings"
            )
        return cls(column, postings, report, starts, chunk)

    def divisor(self, options: ScanOptions) -> int:
        """Return how selective it has to be."""
        return options.string_index_divisor

    def _rows(self, conditions: Sequence[Predicate], max_rows: int) -> Positions | None:
        rows: Positions | None = None
        for condition in conditions:
            strings = _listed(condition)
            if strings is None:
                continue
            keys = np.unique(hashes_of(pa.array(strings, pa.string())))
            listed = self._postings.rows(self._postings.key_ranges(keys), max_rows)
            if listed is not None:
                rows = listed if rows is None else np.intersect1d(rows, listed)
        return rows

    def strings(self, positions: Positions) -> pa.Array | None:
        """Return the strings of a few rows; ``None`` if decoding all of them is faster.

        Also if the index is damaged, or the chunk is not what it was when that was loaded.
        """
        if self._chunk is None or self._is_damaged or positions.size > MAX_SINGLE_STRINGS:
            return None
        try:
            offsets = self._offsets(positions // EVERY).tolist()
            return pa.array(list(self._read(self._chunk, positions, offsets)), pa.string())
        except _FAULTS as error:
            self._fail(error)
        except (struct.error, IndexError, UnicodeDecodeError):
            pass
        return None

    def _offsets(self, blocks: Positions) -> Positions:
        """Return where blocks of strings begin in the chunk, after a look at what follows them."""
        last = len(self._starts) - 1
        starts, later = (
            self._starts.take(each).astype(np.int64)
            for each in (blocks, np.minimum(blocks + 1, last))
        )
        is_short = (later - starts < EVERY * LENGTH_BYTES) & (blocks < last)
        is_displaced = (starts < COUNT_BYTES) | ((blocks == 0) & (starts != COUNT_BYTES))
        if self._chunk is not None:
            is_displaced |= starts + LENGTH_BYTES > len(self._chunk)
        if np.any(is_short | is_displaced):
            raise UnfitIndexError("its offsets are not those of strings in the chunk")
        return starts

    @staticmethod
    def _read(chunk: memoryview, positions: Positions, blocks: Sequence[int]) -> Iterator[str]:
        for block, position in zip(blocks, positions.tolist(), strict=True):
            offset = block
            for _ in range(position % EVERY):
                offset += LENGTH_BYTES + int(struct.unpack_from("<I", chunk, offset)[0])
            size_bytes = int(struct.unpack_from("<I", chunk, offset)[0])
            start = offset + LENGTH_BYTES
            if start + size_bytes > len(chunk):
                raise IndexError(start)
            yield bytes(chunk[start : start + size_bytes]).decode()


def _listed(condition: Predicate) -> Sequence[str] | None:
    if isinstance(condition, Compare) and condition.operator == "==":
        return (condition.value,)
    if isinstance(condition, In) and not condition.is_negated:
        return condition.values
    return None

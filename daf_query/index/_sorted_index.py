"""Sorted indexes: posting lists by value or hash.  Pure.

May return false positives, never false negatives; callers apply the filter again.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from daf_query.index._faults import UnfitIndexError, list_of
from daf_query.index._string_hash import Hashes, hash_of
from daf_query.scan import Compare, In, Positions, Predicate, ScanOptions

EVERY: Final = 16
"""The offset in the chunk is stored of every so many strings."""

COUNT_BYTES: Final = 4
LENGTH_BYTES: Final = 4
_MAX_SINGLE_STRINGS: Final = 2048


class PostingLists:
    """The rows of each key.

    Parameters
    ----------
    keys
        Sorted; one per row, or the distinct ones.
    rows
        Row numbers in that order; ascending where keys are equal.
    first
        Where the rows of each distinct key begin, and the end; ``None`` with a key per row.
    length
        Number of rows of the table; those without a key are not listed.
    """

    def __init__(
        self,
        keys: npt.NDArray[Any],
        rows: npt.NDArray[Any],
        first: npt.NDArray[Any] | None,
        length: int,
    ) -> None:
        self._length = length
        self.keys = keys
        self._rows = rows
        self._first = first

    @classmethod
    def of(cls, values: npt.NDArray[Any], order: npt.NDArray[Any], length: int) -> PostingLists:
        """Return the posting lists of values in their order; with distinct keys if they are few."""
        keys = values[order]
        rows = order.astype(np.uint32 if length < 1 << 32 else np.uint64)
        is_new = np.ones(len(keys), np.bool_)
        is_new[1:] = keys[1:] != keys[:-1]
        if 2 * int(np.count_nonzero(is_new)) > len(keys):
            return cls(keys, rows, None, length)
        first = np.append(np.flatnonzero(is_new), len(keys)).astype(np.uint64)
        return cls(keys[is_new], rows, first, length)

    @property
    def arrays(self) -> dict[str, npt.NDArray[Any]]:
        """The arrays that are stored."""
        arrays = {"key": self.keys, "row": self._rows}
        return arrays if self._first is None else {**arrays, "first": self._first}

    @classmethod
    def from_arrays(
        cls, arrays: Mapping[str, npt.NDArray[Any]], length: int, dtype: np.dtype[Any]
    ) -> PostingLists:
        """Return stored posting lists, after checking all of their arrays.

        Parameters
        ----------
        dtype
            The type of the keys.

        Raises
        ------
        UnfitIndexError
            The arrays do not fit together, or the table.
        """
        keys = list_of(arrays, "key", dtype)
        rows = list_of(arrays, "row", np.uint32, np.uint64)
        first = list_of(arrays, "first", np.uint64) if "first" in arrays else None
        _check_rows(rows, length)
        later, earlier = keys[1:], keys[:-1]
        if not np.all(later >= earlier if first is None else later > earlier):
            raise UnfitIndexError("its keys are not sorted")
        if len(keys) and keys[-1] != keys[-1]:
            raise UnfitIndexError("NaN is among its keys")
        if first is None and len(keys) != len(rows):
            raise UnfitIndexError(f"it has {len(keys):,} keys for {len(rows):,} rows")
        if first is not None:
            _check_lists(first, len(keys), len(rows))
        return cls(keys, rows, first, length)

    def __len__(self) -> int:
        return len(self._rows)

    def rows(self, key_ranges: Iterable[tuple[int, int]], max_rows: int) -> Positions | None:
        """Return the rows of some ranges of keys, ascending; ``None`` if they are too many.

        The ranges do not overlap.
        """
        ranges = [self._row_range(low, high) for low, high in key_ranges if low < high]
        if sum(stop - start for start, stop in ranges) > max_rows:
            return None
        parts = [self._rows[start:stop] for start, stop in ranges]
        return np.sort(np.concatenate([np.empty(0, np.int64), *parts]).astype(np.int64))

    def _row_range(self, low: int, high: int) -> tuple[int, int]:
        if self._first is None:
            return low, high
        return int(self._first[low]), int(self._first[high])

    def key_ranges(self, values: npt.NDArray[Any]) -> list[tuple[int, int]]:
        """Return the range of keys that are equal to each of some distinct values."""
        first = np.searchsorted(self.keys, values, side="left")
        last = np.searchsorted(self.keys, values, side="right")
        return list(zip(first.tolist(), last.tolist(), strict=True))


def _check_rows(rows: npt.NDArray[Any], length: int) -> None:
    """Raise unless these are rows of the table, each no more than once."""
    if len(rows) > length or (len(rows) and int(rows.max()) >= length):
        raise UnfitIndexError(f"it names rows beyond the {length:,} that there are")
    is_there = np.zeros(length, np.bool_)
    is_there[rows] = True
    if int(np.count_nonzero(is_there)) != len(rows):
        raise UnfitIndexError("it names rows twice")


def _check_lists(first: npt.NDArray[Any], n_keys: int, n_rows: int) -> None:
    """Raise unless the lists of rows of all keys follow each other and none is empty."""
    is_whole = len(first) == n_keys + 1 and int(first[0]) == 0 and int(first[-1]) == n_rows
    if not is_whole or not np.all(first[1:] > first[:-1]):
        raise UnfitIndexError("its lists of rows do not follow each other")


class NumberIndex:
    """A sorted index of numbers; rows with NaN are not listed.

    Parameters
    ----------
    column
        The name of the column.
    postings
        By value.
    """

    def __init__(self, column: str, postings: PostingLists) -> None:
        self.columns = (column,)
        self._postings = postings

    def divisor(self, options: ScanOptions) -> int:
        """Return how selective it has to be."""
        return options.number_index_divisor

    def find(self, conditions: Sequence[Predicate], max_rows: int) -> Positions | None:
        """Return the rows for which all conditions on the column may be true, ascending.

        ``None`` if there are more than ``max_rows``, or no condition restricts the rows.
        """
        keys = self._postings.keys
        low, high = 0, len(keys)
        listed: list[tuple[int, int]] | None = None
        is_restricted = False
        for condition in conditions:
            if isinstance(condition, In) and not condition.is_negated:
                values = np.unique(np.array(condition.values, keys.dtype))
                listed = self._postings.key_ranges(values)
            elif isinstance(condition, Compare) and condition.operator != "!=":
                first, last = _bounds(keys, condition)
                low, high = max(low, first), min(high, last)
            else:
                continue
            is_restricted = True
        if not is_restricted:
            return None
        ranges = [(low, high)] if listed is None else listed
        return self._postings.rows(
            ((max(first, low), min(last, high)) for first, last in ranges), max_rows
        )


def _bounds(keys: npt.NDArray[Any], condition: Compare) -> tuple[int, int]:
    """Return the range of keys for which a comparison is true."""
    value = np.array(condition.value, keys.dtype)  # of another type, all keys would be converted
    left = int(np.searchsorted(keys, value, side="left"))
    right = int(np.searchsorted(keys, value, side="right"))
    return {
        "==": (left, right),
        "<": (0, left),
        "<=": (0, right),
        ">": (right, len(keys)),
        ">=": (left, len(keys)),
    }[condition.operator]


class StringIndex:
    """A sorted index of strings by their hashes, which can read single strings.

    Parameters
    ----------
    column
        The name of the column.
    postings
        By hash.
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
        starts: npt.NDArray[Any],
        chunk: memoryview | None,
    ) -> None:
        self.columns = (column,)
        self._postings = postings
        self._starts = starts
        self._chunk = chunk

    @classmethod
    def from_arrays(
        cls,
        column: str,
        arrays: Mapping[str, npt.NDArray[Any]],
        length: int,
        chunk: memoryview | None,
    ) -> StringIndex:
        """Return a stored index, after checking all of its arrays.

        Raises
        ------
        UnfitIndexError
            The arrays do not fit together, or the table, or the chunk.
        """
        postings = PostingLists.from_arrays(arrays, length, np.dtype(np.uint64))
        starts = list_of(arrays, "start", np.uint64)
        if len(postings) != length:
            raise UnfitIndexError(f"it has {len(postings):,} rows of the {length:,} that there are")
        if len(starts) != -(-length // EVERY):
            raise UnfitIndexError(
                f"it has {len(starts):,} offsets for a chunk of {length:,} strings"
            )
        if len(starts):
            _check_starts(starts, None if chunk is None else len(chunk))
        return cls(column, postings, starts, chunk)

    def divisor(self, options: ScanOptions) -> int:
        """Return how selective it has to be."""
        return options.string_index_divisor

    def find(self, conditions: Sequence[Predicate], max_rows: int) -> Positions | None:
        """Return the rows for which all conditions on the column may be true, ascending.

        ``None`` if there are more than ``max_rows``, or no condition lists strings.
        """
        rows: Positions | None = None
        for condition in conditions:
            strings = _listed(condition)
            if strings is None:
                continue
            hashes: Hashes = np.unique(np.array([hash_of(string) for string in strings], np.uint64))
            listed = self._postings.rows(self._postings.key_ranges(hashes), max_rows)
            if listed is not None:
                rows = listed if rows is None else np.intersect1d(rows, listed)
        return rows

    def strings(self, positions: Positions) -> pa.Array | None:
        """Return the strings of a few rows; ``None`` if decoding all of them is faster.

        Also if the chunk is not what it was when the index was loaded.
        """
        if self._chunk is None or positions.size > _MAX_SINGLE_STRINGS:
            return None
        try:
            return pa.array(list(self._read(self._chunk, positions)), pa.string())
        except (struct.error, IndexError, UnicodeDecodeError):
            return None

    def _read(self, chunk: memoryview, positions: Positions) -> Iterator[str]:
        for position in positions.tolist():
            offset = int(self._starts[position // EVERY])
            for _ in range(position % EVERY):
                offset += LENGTH_BYTES + int(struct.unpack_from("<I", chunk, offset)[0])
            size_bytes = int(struct.unpack_from("<I", chunk, offset)[0])
            start = offset + LENGTH_BYTES
            if start + size_bytes > len(chunk):
                raise IndexError(start)
            yield bytes(chunk[start : start + size_bytes]).decode()


def _check_starts(starts: npt.NDArray[Any], chunk_bytes: int | None) -> None:
    """Raise unless offsets in a chunk begin at its first string, rise, and lie inside."""
    steps = np.diff(starts.astype(np.int64))
    is_within = chunk_bytes is None or int(starts[-1]) + LENGTH_BYTES <= chunk_bytes
    if int(starts[0]) != COUNT_BYTES or not is_within or np.any(steps < EVERY * LENGTH_BYTES):
        raise UnfitIndexError("its offsets are not those of strings in the chunk")


def _listed(condition: Predicate) -> Sequence[str] | None:
    if isinstance(condition, Compare) and condition.operator == "==":
        return (condition.value,)
    if isinstance(condition, In) and not condition.is_negated:
        return condition.values
    return None

"""Posting lists by value or hash.  False positives are possible, false negatives never.  Pure.

All of them may name too many rows, and never too few: the rows are filtered again.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from daf_query.index._faults import UnfitIndexError, part
from daf_query.index._string_hash import Hashes, hash_of
from daf_query.scan import Compare, In, Positions, Predicate

EVERY: Final = 16
"""Of how many texts the place of one is remembered."""

COUNT_BYTES: Final = 4
LENGTH_BYTES: Final = 4
_FEW: Final = 2048


class PostingLists:
    """Rows in the order of a key.

    Parameters
    ----------
    keys
        Sorted; of each row, or the distinct ones.
    rows
        The rows in that order; ascending where keys are equal.
    first
        Where the rows of each distinct key begin, and the end; None if there is a key per row.
    length
        How many rows the table has; those without a key are not here.
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
        """Return those of values in their order; as lists of rows where few are distinct."""
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
        """What it consists of, to be stored."""
        all_of = {"key": self.keys, "row": self._rows}
        return all_of if self._first is None else {**all_of, "first": self._first}

    @classmethod
    def from_arrays(
        cls, arrays: Mapping[str, npt.NDArray[Any]], length: int, kind: np.dtype[Any]
    ) -> PostingLists:
        """Return it from its parts.

        Parameters
        ----------
        kind
            The type of the keys.

        Raises
        ------
        UnfitIndexError
            They do not fit together, or the table.
        """
        keys, rows = part(arrays, "key", kind), part(arrays, "row", np.uint32, np.uint64)
        first = part(arrays, "first", np.uint64) if "first" in arrays else None
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

    def rows(self, ranges: Iterable[tuple[int, int]], most: int) -> Positions | None:
        """Return the rows of some ranges of keys, ascending; None if there are more than ``most``.

        The ranges do not overlap.
        """
        spans = [self._span(a, b) for a, b in ranges if a < b]
        if sum(b - a for a, b in spans) > most:
            return None
        parts = [self._rows[a:b] for a, b in spans]
        return np.sort(np.concatenate([np.empty(0, np.int64), *parts]).astype(np.int64))

    def _span(self, low: int, high: int) -> tuple[int, int]:
        if self._first is None:
            return low, high
        return int(self._first[low]), int(self._first[high])

    def places(self, wanted: npt.NDArray[Any]) -> list[tuple[int, int]]:
        """Return the range of keys that are equal to each of some distinct values."""
        first = np.searchsorted(self.keys, wanted, side="left")
        last = np.searchsorted(self.keys, wanted, side="right")
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
    """The rows of numbers in their order; those that are NaN are left out."""

    def __init__(self, postings: PostingLists) -> None:
        self._postings = postings

    def find(self, conditions: Iterable[Predicate], most: int) -> Positions | None:
        """Return the rows for which all conditions on the column may be true, ascending.

        None if they are more than ``most``, or no condition says anything.
        """
        keys = self._postings.keys
        low, high = 0, len(keys)
        listed: list[tuple[int, int]] | None = None
        is_known = False
        for condition in conditions:
            if isinstance(condition, In) and not condition.is_negated:
                listed = self._postings.places(np.unique(np.array(condition.values, keys.dtype)))
            elif isinstance(condition, Compare) and condition.operator != "!=":
                first, last = _bounds(keys, condition)
                low, high = max(low, first), min(high, last)
            else:
                continue
            is_known = True
        if not is_known:
            return None
        ranges = [(low, high)] if listed is None else listed
        return self._postings.rows(((max(a, low), min(b, high)) for a, b in ranges), most)


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
    """The rows of texts in the order of their hashes, and the stored texts themselves.

    Parameters
    ----------
    postings
        By hash.
    starts
        Where every 16th text begins in the chunk.
    chunk
        The stored texts: a count, then each length and its bytes; None if they are stored
        otherwise.
    """

    def __init__(
        self, postings: PostingLists, starts: npt.NDArray[Any], chunk: memoryview | None
    ) -> None:
        self._postings = postings
        self._starts = starts
        self._chunk = chunk

    @classmethod
    def from_arrays(
        cls, arrays: Mapping[str, npt.NDArray[Any]], length: int, chunk: memoryview | None
    ) -> StringIndex:
        """Return it from its parts.

        Raises
        ------
        UnfitIndexError
            They do not fit together, or the table, or the chunk.
        """
        postings = PostingLists.from_arrays(arrays, length, np.dtype(np.uint64))
        starts = part(arrays, "start", np.uint64)
        if len(postings) != length:
            raise UnfitIndexError(f"it has {len(postings):,} rows of the {length:,} that there are")
        if len(starts) != -(-length // EVERY):
            raise UnfitIndexError(f"it has {len(starts):,} places in a chunk of {length:,} strings")
        if len(starts):
            _check_starts(starts, None if chunk is None else len(chunk))
        return cls(postings, starts, chunk)

    def find(self, conditions: Iterable[Predicate], most: int) -> Positions | None:
        """Return the rows for which all conditions on the column may be true, ascending.

        None if they are more than ``most``, or no condition says which texts are wanted.
        """
        found: Positions | None = None
        for condition in conditions:
            strings = _wanted(condition)
            if strings is None:
                continue
            hashes: Hashes = np.unique(np.array([hash_of(text) for text in strings], np.uint64))
            rows = self._postings.rows(self._postings.places(hashes), most)
            if rows is not None:
                found = rows if found is None else np.intersect1d(found, rows)
        return found

    def strings(self, rows: Positions) -> pa.Array | None:
        """Return the texts of a few rows; None if decoding all of them is faster.

        Also if the chunk is not what it was when the index was loaded.
        """
        if self._chunk is None or rows.size > _FEW:
            return None
        try:
            return pa.array(list(self._strings(self._chunk, rows)), pa.string())
        except (struct.error, IndexError, UnicodeDecodeError):
            return None

    def _strings(self, chunk: memoryview, rows: Positions) -> Iterator[str]:
        for row in rows.tolist():
            place = int(self._starts[row // EVERY])
            for _ in range(row % EVERY):
                place += LENGTH_BYTES + int(struct.unpack_from("<I", chunk, place)[0])
            size = int(struct.unpack_from("<I", chunk, place)[0])
            start = place + LENGTH_BYTES
            if start + size > len(chunk):
                raise IndexError(start)
            yield bytes(chunk[start : start + size]).decode()


def _check_starts(starts: npt.NDArray[Any], chunk_bytes: int | None) -> None:
    """Raise unless places in a chunk begin at its first string, rise, and lie inside."""
    steps = np.diff(starts.astype(np.int64))
    is_within = chunk_bytes is None or int(starts[-1]) + LENGTH_BYTES <= chunk_bytes
    if int(starts[0]) != COUNT_BYTES or not is_within or np.any(steps < EVERY * LENGTH_BYTES):
        raise UnfitIndexError("its places are not those of strings in the chunk")


def _wanted(condition: Predicate) -> Sequence[str] | None:
    if isinstance(condition, Compare) and condition.operator == "==":
        return (condition.value,)
    if isinstance(condition, In) and not condition.is_negated:
        return condition.values
    return None

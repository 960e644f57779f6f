"""Sorted indexes of numbers and of strings: their rows are found by value.  Pure.

An index lists the rows of each value, or of each hash of a string: *posting lists*, found by binary
search in pages that are verified.  The first key of each page is repeated in an array of *fences*,
so that the search for a key reads one page of keys, however many there are.

The hash of the bytes ``b[0] ... b[n-1]`` is, modulo ``2**64``, the polynomial ``sum((b[i] + 1) *
BASE**i)``, then mixed with the length, so that strings of zero bytes differ.  It is part of the
stored format.

May return false positives, never false negatives; callers apply the filter again.  An index that
turns out to be damaged while rows are looked up reports it and finds nothing any more.
"""

from __future__ import annotations

import struct
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, Literal, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from daf_query.index._faults import UnfitIndexError, list_of
from daf_query.scan import (
    MAX_SINGLE_STRINGS,
    Compare,
    In,
    Positions,
    Predicate,
    ScanOptions,
    offsets_of,
)
from daf_storage import errors
from daf_storage.upkeep import PagedArray

EVERY: Final = 16
"""The offset in the chunk is stored of every so many strings."""

COUNT_BYTES: Final = 4
LENGTH_BYTES: Final = 4
_SIDES: Final[tuple[Literal["left"], Literal["right"]]] = ("left", "right")
_FAULTS: Final = (UnfitIndexError, errors.CorruptDataError)
FENCE_KEYS: Final = 1 << 13
"""How many keys there are between two fences."""
_BLOCK_BYTES: Final = 1 << 22
_BASE: Final = 0x9E3779B97F4A7C15
_INVERSE: Final = pow(_BASE, -1, 1 << 64)
_MIX: Final = 0xBF58476D1CE4E5B9

Hashes: TypeAlias = npt.NDArray[np.uint64]


def hashes_of(strings: Any) -> Hashes:
    """Return the hash of each string of an Arrow array.

    >>> import pyarrow as pa
    >>> hashes_of(pa.array(["a", "b", "a"])).argsort(kind="stable").tolist()
    [1, 0, 2]
    """
    offsets = offsets_of(strings)
    data = np.frombuffer(strings.buffers()[2] or b"", np.uint8)
    hashes = np.empty(len(strings), np.uint64)
    first = 0
    while first < len(strings):
        # 1. Take as many strings as fit a block of bytes, one at least.
        last = int(np.searchsorted(offsets, offsets[first] + _BLOCK_BYTES, side="right")) - 1
        last = min(max(last, first + 1), len(strings))
        start, stop = int(offsets[first]), int(offsets[last])
        # 2. Weigh each byte by its position in the block: sums[i] is the polynomial of the first
        #    i bytes, and the difference of two sums is that of the bytes between them.
        weights = _powers(_BASE, stop - start + 1)
        sums = np.zeros(stop - start + 1, np.uint64)
        np.cumsum((data[start:stop].astype(np.uint64) + 1) * weights[:-1], out=sums[1:])
        begins = offsets[first:last] - start
        ends = offsets[first + 1 : last + 1] - start
        # 3. Divide by the weight of the first byte of each string (the base is odd, so it has an
        #    inverse modulo 2**64): what is left does not depend on where the string lies.
        total = (sums[ends] - sums[begins]) * _powers(_INVERSE, stop - start + 1)[begins]
        # 4. Mix in the length, and let the high bits reach the low ones.
        total ^= (ends - begins).astype(np.uint64) * np.uint64(_MIX)
        total ^= total >> np.uint64(32)
        hashes[first:last] = total * np.uint64(_MIX)
        first = last
    return hashes


def _powers(base: int, count: int) -> Hashes:
    """Return the first powers of a number, modulo 2 to the 64th."""
    powers = np.full(count, base, np.uint64)
    powers[0] = 1
    return np.cumprod(powers, out=powers)


def posting_lists(
    values: npt.NDArray[Any], order: npt.NDArray[Any], length: int
) -> dict[str, npt.NDArray[Any]]:
    """Return the arrays of the posting lists of values in their order.

    The keys are distinct if these are few; else there is one for each row.
    """
    keys = values[order]
    rows = order.astype(np.uint32 if length < 1 << 32 else np.uint64)
    is_new = np.ones(len(keys), np.bool_)
    is_new[1:] = keys[1:] != keys[:-1]
    if 2 * int(np.count_nonzero(is_new)) > len(keys):
        return {"key": keys, "row": rows, "fence": keys[::FENCE_KEYS]}
    first = np.append(np.flatnonzero(is_new), len(keys)).astype(np.uint64)
    distinct = keys[is_new]
    return {"key": distinct, "row": rows, "first": first, "fence": distinct[::FENCE_KEYS]}


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
    fences
        Every `FENCE_KEYS`-th key.
    length
        Number of rows of the table; those without a key are not listed.
    """

    def __init__(
        self,
        keys: PagedArray,
        rows: PagedArray,
        first: PagedArray | None,
        fences: npt.NDArray[Any],
        length: int,
    ) -> None:
        self.dtype = fences.dtype
        self._keys = keys
        self._rows = rows
        self._first = first
        self._fences = fences
        self._length = length

    @classmethod
    def from_arrays(
        cls, arrays: Mapping[str, PagedArray], length: int, dtype: np.dtype[Any]
    ) -> PostingLists:
        """Return stored posting lists; what they contain is checked where it is read.

        Parameters
        ----------
        dtype
            The type of the keys.

        Raises
        ------
        UnfitIndexError
            The arrays do not fit together, or the table.
        CorruptDataError
            The fences are not what was stored.
        """
        keys = list_of(arrays, "key", dtype)
        rows = list_of(arrays, "row", np.uint32, np.uint64)
        first = list_of(arrays, "first", np.uint64) if "first" in arrays else None
        fences = list_of(arrays, "fence", dtype).whole()
        if len(rows) > length:
            raise _beyond(length)
        if first is None and len(keys) != len(rows):
            raise UnfitIndexError(f"it has {len(keys):,} keys for {len(rows):,} rows")
        if first is not None and len(first) != len(keys) + 1:
            raise _not_following()
        if len(fences) != -(-len(keys) // FENCE_KEYS):
            raise UnfitIndexError(f"it has {len(fences):,} fences for {len(keys):,} keys")
        _check_keys(fences, are_distinct=first is not None)
        return cls(keys, rows, first, fences, length)

    def __len__(self) -> int:
        return len(self._rows)

    @property
    def n_keys(self) -> int:
        """How many keys there are."""
        return len(self._keys)

    def rows(self, key_ranges: Iterable[tuple[int, int]], max_rows: int) -> Positions | None:
        """Return the rows of some ranges of keys, ascending; ``None`` if they are too many.

        The ranges do not overlap.

        Raises
        ------
        UnfitIndexError
            These are no rows of the table, or some of them are there twice.
        CorruptDataError
            They are not what was stored.
        """
        ranges = [self._row_range(low, high) for low, high in key_ranges if low < high]
        if sum(stop - start for start, stop in ranges) > max_rows:
            return None
        parts = [self._rows.read(start, stop) for start, stop in ranges]
        if any(int(part.max()) >= self._length for part in parts):  # before it is made signed
            raise _beyond(self._length)
        if len(parts) == 1 and np.all(parts[0][1:] > parts[0][:-1]):  # those of one key
            return parts[0].astype(np.int64)
        rows = np.sort(np.concatenate([self._rows.read(0, 0), *parts]))
        if np.any(rows[1:] == rows[:-1]):
            raise UnfitIndexError("it names rows twice")
        return rows.astype(np.int64)

    def _row_range(self, low: int, high: int) -> tuple[int, int]:
        """Return which of the rows are those of a range of keys that is not empty."""
        if self._first is None:
            return low, high
        start, stop = (int(self._first.read(key, key + 1)[0]) for key in (low, high))
        if not start + (high - low) <= stop <= len(self._rows):
            raise _not_following()
        return start, stop

    def key_ranges(self, values: npt.NDArray[Any]) -> list[tuple[int, int]]:
        """Return the range of keys that are equal to each of some values, ascending and distinct.

        Raises
        ------
        UnfitIndexError
            The keys beside a value are not sorted.
        CorruptDataError
            They are not what was stored.
        """
        first, last = (self.places(values, side) for side in ("left", "right"))
        return list(zip(first.tolist(), last.tolist(), strict=True))

    def places(self, values: npt.NDArray[Any], side: Literal["left", "right"]) -> Positions:
        """Return where each of some ascending values belongs among the keys, as `searchsorted`.

        Raises
        ------
        UnfitIndexError
            The keys beside a value are not sorted.
        CorruptDataError
            They are not what was stored.
        """
        pages = np.searchsorted(self._fences, values, side=side) - 1
        places = np.zeros(len(values), np.int64)
        begins = np.flatnonzero(np.diff(pages, prepend=-2))
        for begin, end in zip(begins, np.append(begins[1:], len(values)), strict=True):
            page = int(pages[begin])
            if page >= 0:
                keys = np.searchsorted(self._page(page), values[begin:end], side=side)
                places[begin:end] = page * FENCE_KEYS + keys
        return places

    def _page(self, page: int) -> npt.NDArray[Any]:
        """Return the keys from one fence to the next."""
        start = page * FENCE_KEYS
        keys: npt.NDArray[Any] = self._keys.read(start, min(start + FENCE_KEYS, self.n_keys))
        _check_keys(keys, are_distinct=self._first is not None)
        later = self._fences[page + 1 : page + 2]
        if keys[0] != self._fences[page] or np.any(later < keys[-1]):
            raise UnfitIndexError("its fences are not among its keys")
        return keys


def _check_keys(keys: npt.NDArray[Any], *, are_distinct: bool) -> None:
    later, earlier = keys[1:], keys[:-1]
    if not np.all(later > earlier if are_distinct else later >= earlier):
        raise UnfitIndexError("its keys are not sorted")
    if len(keys) and keys[-1] != keys[-1]:
        raise UnfitIndexError("NaN is among its keys")


def _beyond(length: int) -> UnfitIndexError:
    return UnfitIndexError(f"it names rows beyond the {length:,} that there are")


def _not_following() -> UnfitIndexError:
    return UnfitIndexError("its lists of rows do not follow each other")


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

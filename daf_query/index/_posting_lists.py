"""The rows of each key, found by binary search in pages that are verified: posting lists.  Pure.

The first key of each page is repeated in an array of *fences*, so that the search for a key reads
one page of keys, however many there are.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final, Literal

import numpy as np
import numpy.typing as npt

from daf_query.index._faults import UnfitIndexError, list_of
from daf_query.scan import Positions
from daf_storage.upkeep import PagedArray

FENCE_KEYS: Final = 1 << 13
"""How many keys there are between two fences."""


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
            raise _twice()
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


def _twice() -> UnfitIndexError:
    return UnfitIndexError("it names rows twice")


def _not_following() -> UnfitIndexError:
    return UnfitIndexError("its lists of rows do not follow each other")

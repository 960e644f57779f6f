"""The stored elements of a sparse matrix, by ranges: row numbers and values side by side.

Ranges are checked before anything is copied, since neither views nor compiled code would notice.
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import numpy.typing as npt

from daf_storage import errors
from daf_storage._lazy import lazy_module
from daf_storage.data import StoredMatrix, checked_indices
from daf_storage.trees import read_joined

if TYPE_CHECKING:
    import scipy.sparse as sp
else:
    sp = lazy_module("scipy.sparse")

Numbers: TypeAlias = npt.NDArray[Any]
Positions: TypeAlias = npt.NDArray[np.int64]


class StoredElements:
    """The row numbers and the values of a sparse matrix, mapped once for all that is read."""

    def __init__(self, stored: StoredMatrix) -> None:
        self.stored = stored
        """The matrix."""
        self._arrays = stored.element_arrays()

    @cached_property
    def _mapped(self) -> list[Numbers] | None:
        is_mapped = all(array.info.is_mappable for array in self._arrays)
        return [array.read() for array in self._arrays] if is_mapped else None

    def rows(self, starts: Positions, counts: Positions) -> Numbers:
        """Return the row numbers of some ranges, as they are stored; see `read`."""
        return checked_indices(self.stored, self._taken(starts, counts, slice(0, 1))[0])

    def values(self, starts: Positions, counts: Positions) -> Numbers:
        """Return the values of some ranges; of a Bool matrix that stores none, all are true."""
        if len(self._arrays) == 1:
            return np.ones(int(counts.sum()), np.bool_)
        return self._taken(starts, counts, slice(1, 2))[0]

    def read(self, starts: Positions, counts: Positions) -> tuple[Numbers, Numbers]:
        """Return the row numbers of some ranges, as they are stored, and their values.

        Of mapped arrays, ranges that follow each other are views.

        Raises
        ------
        CorruptDataError
            A range leaves the arrays, or a row number its axis.
        """
        rows, *values = self._taken(starts, counts, slice(0, 2))
        checked_indices(self.stored, rows)
        return rows, values[0] if values else np.ones(rows.size, np.bool_)

    def _taken(self, starts: Positions, counts: Positions, which: slice) -> list[Numbers]:
        """Return ranges of the row numbers, of the values, or of both."""
        self._check(starts, counts)
        if self._mapped is not None:
            mapped, run = self._mapped[which], _single_run(starts, counts)
            if run is not None:
                return [array[run] for array in mapped]
            copied = _copied(mapped, starts, counts)
            if copied is not None:
                return copied
        run_starts, run_counts = joined_runs(starts, counts)
        return [read_joined(array, run_starts, run_counts) for array in self._arrays[which]]

    def _check(self, starts: Positions, counts: Positions) -> None:
        """Raise if a range does not lie within the arrays."""
        if not starts.size:
            return
        mapped = self._mapped
        size = min(a.info.size for a in self._arrays) if mapped is None else min(map(len, mapped))
        is_negative = min(int(starts.min()), int(counts.min())) < 0
        if is_negative or bool(np.any(starts > size - counts)):  # a sum might overflow
            raise errors.CorruptDataError(
                f"{self.stored.what}: colptr leaves the range 1 to {size + 1:,} of its elements"
            )


def _copied(sources: list[Numbers], starts: Positions, counts: Positions) -> list[Numbers] | None:
    """Copy ranges of two arrays side by side, as rows of a CSR array: twice as fast as by an index.

    None if they are not such arrays: of elements of 4 or 8 bytes, and of others of known widths.
    """
    first, second = sources[0], sources[-1]
    pointer = np.dtype(f"i{first.dtype.itemsize}")
    stops = starts + counts
    if pointer.itemsize < 4 or int(stops.max()) > np.iinfo(pointer).max:
        return None
    for each in (first, second):
        is_known = each.dtype.itemsize in (1, 2, 4, 8) and each.dtype.isnative
        if not (is_known and each.flags.c_contiguous and each.flags.aligned):
            return None
    data = second.view(f"i{second.dtype.itemsize}")
    # Every second row of this array is one of the ranges; others are never looked at.
    ranges: Any = sp.csr_array((2 * starts.size - 1, 1), dtype=data.dtype)
    ranges.indptr = np.stack([starts, stops], axis=1).reshape(-1).astype(pointer)
    ranges.indices, ranges.data = first.view(pointer), data
    copied = ranges[np.arange(0, 2 * starts.size, 2)]
    parts = [copied.indices.view(first.dtype), copied.data.view(second.dtype)]
    return parts[: len(sources)]


def joined_runs(starts: Positions, lengths: Positions) -> tuple[Positions, Positions]:
    """Return the starts and the lengths of ranges of which adjacent ones are joined."""
    is_first = np.ones(starts.size, dtype=bool)
    is_first[1:] = starts[1:] != starts[:-1] + lengths[:-1]
    first = np.flatnonzero(is_first)
    return starts[first], np.add.reduceat(lengths, first) if first.size else lengths


def _single_run(starts: Positions, counts: Positions) -> slice | None:
    """Return all ranges as one, if each begins where the one before it ends.

    >>> _single_run(np.array([2, 5, 5]), np.array([3, 0, 4]))
    slice(2, 9, None)
    >>> _single_run(np.empty(0, np.int64), np.empty(0, np.int64))
    slice(0, 0, None)
    """
    if not starts.size:
        return slice(0, 0)
    if bool(np.any(starts[1:] != starts[:-1] + counts[:-1])):
        return None
    return slice(int(starts[0]), int(starts[-1] + counts[-1]))

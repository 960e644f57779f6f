"""The stored elements of a sparse matrix, by ranges: row numbers and values side by side.

What is mapped is copied once, straight into its place where that is possible: a single range by
numpy, many by compiled code (`daf_query.matrix._row_selection`), else range by range.  What is not
mapped is decoded or fetched by the arrays themselves.  Ranges are checked before anything is
copied, since neither views nor compiled code would notice.
"""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from daf_query.matrix._row_selection import copy_pair
from daf_storage import errors
from daf_storage.data import StoredMatrix, checked_indices
from daf_storage.trees import read_joined

Numbers: TypeAlias = npt.NDArray[Any]
Positions: TypeAlias = npt.NDArray[np.int64]


class StoredElements:
    """The row numbers and the values of a sparse matrix, mapped once for all that is read."""

    def __init__(self, stored: StoredMatrix) -> None:
        self.stored = stored
        """The matrix."""
        arrays = stored.element_arrays()
        self.has_values = len(arrays) > 1
        """Whether values are stored; if not, all are true."""
        self._arrays = arrays
        self._base = stored.index_base  # looked up once: a check of protocols takes long
        self._stop = stored.info.shape[0] + self._base
        self._size = min(array.info.size for array in arrays)
        self._mapped: list[Numbers] | None = None
        if all(array.info.is_mappable for array in arrays):
            self._mapped = [array.read() for array in arrays]
        self.is_mapped = self._mapped is not None
        """Whether they are copied out of mapped files."""

    def rows(self, starts: Positions, counts: Positions) -> Numbers:
        """Return the row numbers of some ranges as they are stored; see `read`."""
        self._check(starts, counts)
        run = _single_run(starts, counts)
        if self._mapped is not None and run is not None:
            return self._checked(self._mapped[0][run])
        return self._checked(copy_runs(self._arrays[0], starts, counts))

    def read(self, starts: Positions, counts: Positions) -> tuple[Numbers, Numbers]:
        """Return the row numbers of some ranges, as they are stored, and their values.

        Of mapped arrays, a single range is a view.

        Raises
        ------
        CorruptDataError
            A range leaves the arrays, or a row number its axis.
        """
        if self._mapped is None or not self.has_values:
            rows = self.rows(starts, counts)
            if not self.has_values:
                return rows, np.ones(rows.size, bool)
            return rows, copy_runs(self._arrays[1], starts, counts)
        self._check(starts, counts)
        run = _single_run(starts, counts)
        indices, values = self._mapped
        if run is not None:
            return self._checked(indices[run]), values[run]
        total = int(counts.sum())
        targets = (np.empty(total, indices.dtype), np.empty(total, values.dtype))
        if not self._copied(starts, counts, targets):
            targets = (
                copy_runs(self._arrays[0], starts, counts),
                copy_runs(self._arrays[1], starts, counts),
            )
        return self._checked(targets[0]), targets[1]

    def read_into(
        self, starts: Positions, counts: Positions, indices: Numbers, values: Numbers
    ) -> None:
        """Copy the row numbers of some ranges, counted from 0, and their values.

        Parameters
        ----------
        indices, values
            Where they go; as many as the ranges have.

        Raises
        ------
        CorruptDataError
            A range leaves the arrays, or a row number its axis.
        """
        base = self._base
        if self._is_copied_in_place(starts, counts, indices, values):
            self._checked(indices)
            if base:
                np.subtract(indices, base, out=indices)
            return
        rows, stored_values = self.read(starts, counts)
        np.subtract(rows, base, out=indices, casting="unsafe")
        values[:] = stored_values

    def _is_copied_in_place(
        self, starts: Positions, counts: Positions, indices: Numbers, values: Numbers
    ) -> bool:
        """Copy ranges as they are stored, if they are many, in a file, and the types fit."""
        if not self.has_values or _single_run(starts, counts) is not None:
            return False
        kinds = [array.info.storage_type for array in self._arrays]
        if any(kind.is_string for kind in kinds) or kinds[1].dtype != values.dtype:
            return False
        if kinds[0].dtype.itemsize != indices.dtype.itemsize:
            return False
        self._check(starts, counts)
        return self._copied(starts, counts, (indices, values))

    def _copied(
        self, starts: Positions, counts: Positions, targets: tuple[Numbers, Numbers]
    ) -> bool:
        """Copy ranges of mapped arrays into arrays of the same widths; they have been checked."""
        if self._mapped is None:
            return False
        rows, values = self._mapped
        return copy_pair((rows, values), starts, counts, targets)

    def _checked(self, rows: Numbers) -> Numbers:
        """Return row numbers as they are stored, after checking that they are on their axis."""
        if rows.size and (int(rows.min()) < self._base or int(rows.max()) >= self._stop):
            return checked_indices(self.stored, rows)  # which says what is wrong
        return rows

    def _check(self, starts: Positions, counts: Positions) -> None:
        """Raise if a range does not lie within the arrays."""
        size = self._size if self._mapped is None else min(each.size for each in self._mapped)
        if not starts.size:
            return
        is_negative = min(int(starts.min()), int(counts.min())) < 0
        if is_negative or bool(np.any(starts > size - counts)):  # a sum might overflow
            raise errors.CorruptDataError(
                f"{self.stored.what}: colptr leaves the range 1 to {size + 1:,} of its elements"
            )


def read_run(stored: StoredMatrix, start: int, stop: int) -> tuple[Numbers, Numbers]:
    """Return the row numbers of one range, as they are stored, and their values.

    Of mapped arrays they are views.  Row numbers are checked as far as they ascend.

    Raises
    ------
    CorruptDataError
        The range leaves the arrays, or a row number its axis.
    """
    arrays = stored.element_arrays()
    if len(arrays) > 1 and arrays[0].info.is_mappable and arrays[1].info.is_mappable:
        rows, values = arrays[0].read(), arrays[1].read()
        if 0 <= start < stop <= rows.size and stop <= values.size:
            rows = rows[start:stop]
            base = stored.index_base
            if rows[0] >= base and rows[-1] < stored.info.shape[0] + base:
                return rows, values[start:stop]
    return StoredElements(stored).read(np.array([start]), np.array([stop - start]))


def copy_runs(array: Any, starts: Positions, lengths: Positions) -> Numbers:
    """Copy ranges of a 1-D stored array, one after the other; adjacent ranges are one run."""
    run_starts, run_lengths = joined_runs(starts, lengths)
    copied: Numbers = read_joined(array, run_starts, run_lengths)
    return copied


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

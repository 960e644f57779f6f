"""Selections, and plans of a slice in one stored layout of a matrix."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from daf_storage.base import Span
from daf_storage.data import StoredMatrix, ordered

Positions = npt.NDArray[np.int64]


class Selection:
    """Which entries of an axis, in which order; not to be changed.

    Parameters
    ----------
    positions
        0-based positions along the axis; any order, duplicates allowed.
    is_all
        Whether it is every entry in the order of the axis.
    """

    __slots__ = ("_positions", "is_all", "size")

    def __init__(self, positions: Positions, *, is_all: bool) -> None:
        self._positions: Positions | None = positions
        self.is_all = is_all
        """Whether it is every entry in the order of the axis."""
        self.size = positions.size
        """How many entries are chosen."""

    def __repr__(self) -> str:
        return f"Selection({self.positions!r}, is_all={self.is_all})"

    @property
    def positions(self) -> Positions:
        """0-based positions along the axis; those of all are counted when first asked for."""
        if self._positions is None:
            self._positions = np.arange(self.size)
        return self._positions

    def __reduce__(self) -> Any:
        """Pickle the first position and the steps to the next ones, in few bytes."""
        if self.is_all:
            return Selection.all, (self.size,)
        steps = np.diff(self.positions)
        largest = int(np.abs(steps).max(initial=0))
        packed = steps.astype(np.min_scalar_type(-largest - 1))
        if bool((steps == 1).all()):  # neighbours, as those of a block mostly are
            packed = packed[:0]
        start = int(self.positions[0]) if self.size else 0
        return partial(_unpacked, start, self.size, packed.dtype.str, packed.tobytes()), ()

    def part(self, start: int, stop: int) -> Selection:
        """Return some of the chosen entries, by their offsets.

        >>> Selection.all(3).part(1, 3).positions.tolist()
        [1, 2]
        """
        if self.is_all and start == 0 and stop >= self.size:
            return self
        if self._positions is None:
            return Selection(np.arange(start, min(stop, self.size)), is_all=False)
        return Selection(self.positions[start:stop], is_all=False)

    def take(self, offsets: Positions) -> Selection:
        """Return some of the chosen entries, by their offsets, in the order of these.

        >>> Selection.all(3).take(np.array([2, 0])).positions.tolist()
        [2, 0]
        """
        if self.is_all and offsets.size == self.size:
            return Selection.of(offsets, self.size)
        return Selection(self.positions[offsets], is_all=False)

    @classmethod
    def of(cls, positions: Positions, axis_length: int) -> Selection:
        """Return the selection of these positions of an axis.

        >>> Selection.of(np.array([0, 1]), 2).is_all, Selection.of(np.array([1, 0]), 2).is_all
        (True, False)
        """
        is_all = positions.size == axis_length and np.array_equal(positions, np.arange(axis_length))
        return cls(positions, is_all=bool(is_all))

    @classmethod
    def all(cls, axis_length: int) -> Selection:
        """Return the selection of every entry of an axis.

        >>> Selection.all(3).positions.tolist()
        [0, 1, 2]
        """
        whole = cls.__new__(cls)
        whole._positions = None  # noqa: SLF001 - of this class
        whole.is_all, whole.size = True, axis_length
        return whole


def _unpacked(start: int, size: int, dtype: str, packed: bytes) -> Selection:
    if not packed:
        return Selection(np.arange(start, start + size), is_all=False)
    positions = np.empty(size, np.int64)
    positions[0], positions[1:] = start, np.frombuffer(packed, dtype)
    return Selection(np.cumsum(positions, out=positions), is_all=False)


class SlicePlan:
    """Which elements of one stored layout of a matrix a slice has.

    Parameters
    ----------
    stored
        The matrix in this orientation.
    major, minor
        The selected entries of its columns axis, and of its rows axis.
    colptr
        Where the columns of a sparse matrix begin, if that was read before.
    """

    def __init__(
        self,
        stored: StoredMatrix,
        major: Selection,
        minor: Selection,
        colptr: Positions | None = None,
    ) -> None:
        self.stored = stored
        self.major = major
        self.minor = minor
        self._colptr = colptr

    @property
    def colptr(self) -> Positions | None:
        """Where the columns of a sparse matrix begin, from 0, read when asked for; None if dense.

        Raises
        ------
        FormatError
            It is damaged.
        """
        if self._colptr is None and self.stored.info.is_sparse:
            self._colptr = self.stored.colptr()
        return self._colptr

    def at(self, major: Selection, minor: Selection) -> SlicePlan:
        """Return a plan of other entries; nothing is read."""
        return SlicePlan(self.stored, major, minor, self._colptr)

    def in_order(self) -> SlicePlan:
        """Return a plan of a matrix whose elements are in order, each stored once.

        Of a file of others, all row numbers are read once to know it; if they are not, the plan is
        of a matrix in memory.
        """
        if not self.stored.info.is_sparse:
            return self
        stored = ordered(self.stored)
        return self if stored is self.stored else SlicePlan(stored, self.major, self.minor)

    def ranges(self) -> tuple[Positions, Positions]:
        """Return where the elements of each selected major begin, and how many they are."""
        colptr = self.colptr
        if colptr is None:
            raise TypeError("the plan is for a dense matrix")
        if self.major.is_all:
            return colptr[:-1], np.diff(colptr)
        starts = colptr[self.major.positions]
        counts = colptr[self.major.positions + 1]
        counts -= starts
        return starts, counts

    def groups(self, target: int) -> Iterator[tuple[Span, int]]:
        """Cut the selected majors into groups of about ``target`` elements, but of one at least.

        Yields the offsets of the majors of each group, and its number of elements; of a sparse
        matrix also of minors that are not selected.  Those of a dense one end where chunks do.
        """
        step = 1
        if self.stored.info.is_sparse:
            ends = np.cumsum(self.ranges()[1])
        else:
            ends = np.arange(1, self.major.size + 1) * self.minor.size
            array = self.stored.dense().info
            is_whole = array.is_mappable or array.chunks == array.shape
            step = 1 if is_whole else max(array.chunks[0], 1)
        start = before = 0
        while start < self.major.size:
            stop = max(int(np.searchsorted(ends, before + target, side="right")), start + 1)
            stop = min(-(-stop // step) * step, self.major.size)
            yield Span(start, stop), int(ends[stop - 1]) - before
            start, before = stop, int(ends[stop - 1])

    @property
    def cost_bytes(self) -> int:
        """About how many bytes of the stored arrays it touches."""
        colptr = self.colptr
        if colptr is None:
            return self._dense_bytes()
        items = (array.info.storage_type.dtype.itemsize for array in self.stored.element_arrays())
        return int(self.ranges()[1].sum()) * sum(items) + colptr.nbytes

    def _dense_bytes(self) -> int:
        info = self.stored.info
        if info.storage_type.is_string:
            return 16 * info.shape[0] * info.shape[1]
        item_bytes = info.storage_type.dtype.itemsize
        in_pages = self.minor.size * max(4096, item_bytes)
        return int(self.major.size * min(info.shape[0] * item_bytes, in_pages))

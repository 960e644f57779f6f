"""Selections, plans of a slice in one stored layout of a matrix, and reading it without the rest.

Of a dense matrix it is indexed where it is mapped, else read chunk by chunk.  A sparse matrix is
stored by columns; the *major* axis is the one whose entries are those columns, the *minor* axis the
other.  The steps:

1. Group the selected majors into blocks of a bounded number of stored elements: as many as stay in
   the cache of a core from one step to the next.
2. For each block, take the elements of its majors (`StoredElements`).
3. Translate their minors: stored indices count from 1, of files of others from 0, and those that
   are not selected are dropped.  The stored arrays are never shifted as a whole.
4. Join the blocks to CSR.  Where every minor is selected, ``colptr`` says where each block goes.
5. Repeat the minors that were selected more than once.

Memory: at most two times the result, and a block.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cache, cached_property, partial
from typing import Any, Final, TypeAlias

import numpy as np
import numpy.typing as npt

from daf_storage._lazy import sp
from daf_storage.base import Span
from daf_storage.data import StoredMatrix, checked_indices, ordered
from daf_storage.trees import read_joined

STRING_BYTES: Final = 16
"""About how many bytes a string takes in memory."""

_BLOCK_BYTES: Final = 32 << 20
_BLOCK_ELEMENTS: Final = 1 << 18
_FETCHED_ELEMENTS: Final = 4 << 20
_KEPT_BYTES: Final = 24 << 20

Numbers: TypeAlias = npt.NDArray[Any]
Positions: TypeAlias = npt.NDArray[np.int64]


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


@dataclass(eq=False, slots=True)
class SlicePlan:
    """Which elements of one stored layout of a matrix a slice has."""

    stored: StoredMatrix
    """The matrix in this orientation."""
    major: Selection
    """The selected entries of its columns axis."""
    minor: Selection
    """The selected entries of its rows axis."""
    rows_are_major: bool = True
    """Whether the stored columns are the rows of the slice."""
    _colptr: Positions | None = None
    """Where the columns of a sparse matrix begin, if that was read before."""

    @property
    def columns(self) -> Selection:
        """The selected columns of the matrix, whichever of the axes is stored first."""
        return self.minor if self.rows_are_major else self.major

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
        return replace(self, major=major, minor=minor)

    def of(self, rows: Selection, columns: Selection) -> SlicePlan:
        """Return a plan of other rows and columns; nothing is read."""
        return self.at(*((rows, columns) if self.rows_are_major else (columns, rows)))

    def in_order(self) -> SlicePlan:
        """Return a plan of a matrix whose elements are in order, each stored once.

        Of a file of others, all row numbers are read once to know it; if they are not, the plan is
        of a matrix in memory.
        """
        if not self.stored.info.is_sparse:
            return self
        stored = ordered(self.stored)
        return self if stored is self.stored else replace(self, stored=stored, _colptr=None)

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
        if self.stored.info.is_sparse:
            counts = self.ranges()[1]
            for span in cut_at(counts, target):
                yield span, int(counts[span.slice].sum())
            return
        array = self.stored.dense().info
        height = max(target // max(self.minor.size, 1), 1)
        if not (array.is_mappable or array.chunks == array.shape):
            height = -(-height // max(array.chunks[0], 1)) * max(array.chunks[0], 1)
        for span in spans_of_length(self.major.size, height):
            yield span, span.size * self.minor.size

    def gather(self, progress: Callable[[int], None] = lambda _: None) -> Any:
        """Return the values: ``csr_array`` if sparse, else ``ndarray``.

        Raises
        ------
        FormatError
            What is stored is damaged.
        """
        if not self.stored.info.is_sparse:
            dense = gather_dense(self)
            return dense if self.rows_are_major else dense.T
        sparse = gather_sparse(self, progress=progress)
        return sparse if self.rows_are_major else sparse.T.tocsr()

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


def cut_at(sizes: npt.NDArray[Any], target: float) -> Iterator[Span]:
    """Yield spans of entries of at most so large a size together, but of one entry at least.

    >>> list(cut_at(np.array([2.0, 2.0, 9.0, 1.0]), 4))
    [Span(start=0, stop=2), Span(start=2, stop=3), Span(start=3, stop=4)]
    """
    ends = np.cumsum(sizes)
    start = 0
    while start < ends.size:
        before = ends[start - 1] if start else 0
        stop = max(int(np.searchsorted(ends, before + target, side="right")), start + 1)
        yield Span(start, stop)
        start = stop


def spans_of_length(count: int, length: int) -> Iterator[Span]:
    """Yield spans of so many entries; the last may have fewer."""
    for start in range(0, count, length):
        yield Span(start, min(start + length, count))


def gather_sparse(
    plan: SlicePlan, *, progress: Callable[[int], None] = lambda _: None
) -> sp.csr_array[Any]:
    """Return the slice of a sparse matrix as a CSR array of shape (majors, minors).

    Parameters
    ----------
    progress
        Called after each block with its number of stored elements.

    Raises
    ------
    CorruptDataError
        A row number of the slice leaves its axis.
    """
    keep_freed_memory()
    if plan.minor.is_all:
        return _gather_whole_majors(plan, progress)
    positions = plan.minor.positions
    unique, order = np.unique(positions, return_inverse=True)
    if unique.size == positions.size:
        return _gather_minors(plan, positions, progress)
    gathered = _gather_minors(plan, unique, progress)
    repeated: sp.csr_array[Any] = sp.csr_array(gathered[:, order])  # step 5
    repeated.sort_indices()
    return repeated


def _gather_whole_majors(plan: SlicePlan, progress: Callable[[int], None]) -> sp.csr_array[Any]:
    """Gather majors with all of their elements, each block straight into its place."""
    width, base = plan.stored.info.shape[0], plan.stored.index_base
    indptr = _indptr(plan.ranges()[1], width)
    elements = StoredElements(plan.stored)
    indices = np.empty(int(indptr[-1]), indptr.dtype)
    data = np.empty(indices.size, _dtype(plan))
    start = 0
    for _, starts, counts in blocks_of(plan):
        rows, values = elements.read(starts, counts)
        stop = start + rows.size
        np.subtract(rows, base, out=indices[start:stop], casting="unsafe")
        data[start:stop] = values
        progress(rows.size)
        start = stop
    return csr_of((data, indices, indptr), width, is_ordered=plan.stored.is_ordered)


def _gather_minors(
    plan: SlicePlan, minors: Positions, progress: Callable[[int], None]
) -> sp.csr_array[Any]:
    """Gather the elements of some minors, each of which is given once, in their order."""
    elements, base = StoredElements(plan.stored), plan.stored.index_base
    offset_of_minor = np.full(plan.stored.info.shape[0] + base, -1, np.int32)
    offset_of_minor[minors + base] = np.arange(minors.size)  # by the stored index
    is_wanted = offset_of_minor >= 0
    sizes = np.zeros(plan.major.size, np.int64)
    likely = int(plan.ranges()[1].sum()) * minors.size // max(plan.stored.info.shape[0], 1)
    indices, data = np.empty(likely, np.int32), np.empty(likely, _dtype(plan))
    stop = 0
    for majors, starts, counts in blocks_of(plan):
        rows, values = elements.read(starts, counts)
        selected = np.flatnonzero(is_wanted[rows])
        sizes[majors.slice] = np.diff(np.searchsorted(selected, np.cumsum(counts)), prepend=0)
        start, stop = stop, stop + selected.size
        for array, found in ((indices, offset_of_minor[rows[selected]]), (data, values[selected])):
            if stop > array.size:
                array.resize(max(stop, array.size + (array.size >> 2)), refcheck=False)
            array[start:stop] = found
        progress(rows.size)
    indices.resize(stop, refcheck=False)
    data.resize(stop, refcheck=False)
    indptr = _indptr(sizes, minors.size)
    parts = data, indices.astype(indptr.dtype, copy=False), indptr
    return csr_of(parts, minors.size, is_ordered=plan.stored.is_ordered)


def _dtype(plan: SlicePlan) -> np.dtype[Any]:
    return plan.stored.info.storage_type.dtype.newbyteorder("=")


def blocks_of(plan: SlicePlan) -> Iterator[tuple[Span, Positions, Positions]]:
    """Yield the selected majors in blocks of a bounded number of elements, with their ranges."""
    starts, counts = plan.ranges()
    is_mapped = plan.stored.indices.info.is_mappable
    # Of what is not mapped, several requests at a time.
    for majors, _ in plan.groups(_BLOCK_ELEMENTS if is_mapped else _FETCHED_ELEMENTS):
        yield majors, starts[majors.slice], counts[majors.slice]


def spans_of(starts: Positions, lengths: Positions) -> list[Span]:
    """Return the spans that are read for ranges of a stored array that is not mapped."""
    runs = zip(*(each.tolist() for each in joined_runs(starts, lengths)), strict=True)
    return [Span(start, start + size) for start, size in runs if size]


def _indptr(counts: Positions, width: int) -> npt.NDArray[Any]:
    """Return where each row of a CSR array begins, in the integers of all of its indices."""
    largest = max(int(counts.sum()), counts.size, width)
    indptr = np.zeros(counts.size + 1, np.int32 if largest < 2**31 else np.int64)
    np.cumsum(counts, out=indptr[1:])
    return indptr


def csr_of(
    parts: tuple[npt.NDArray[Any], npt.NDArray[Any], npt.NDArray[Any]],
    width: int,
    *,
    is_ordered: bool = True,
) -> sp.csr_array[Any]:
    """Return a CSR array of data, indices and indptr, none of which is copied.

    Of a file of others, elements that are stored twice are added up.
    """
    data, indices, indptr = parts
    result: Any = sp.csr_array((indptr.size - 1, width), dtype=data.dtype)
    result.data, result.indices, result.indptr = data, indices, indptr
    # Asked first of foreign ones, which nearly all are: it is one pass for both questions.
    if is_ordered or not result.has_canonical_format:
        result.sort_indices()  # selected in another order, or stored so; else nothing is done
        if not is_ordered:
            result.sum_duplicates()
    found: sp.csr_array[Any] = result
    return found


@cache
def keep_freed_memory() -> None:
    """Have the allocator keep freed memory, up to twice 24 MiB; called once, it holds for good.

    glibc returns freed memory at once until larger arrays than those were freed.  Every block would
    have its pages mapped and cleared again, which takes longer than what is computed in them.
    """
    np.empty(_KEPT_BYTES, np.uint8)


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
            A row number leaves its axis.
        """
        rows, *values = self._taken(starts, counts, slice(0, 2))
        checked_indices(self.stored, rows)
        return rows, values[0] if values else np.ones(rows.size, np.bool_)

    def _taken(self, starts: Positions, counts: Positions, which: slice) -> list[Numbers]:
        """Return ranges of the row numbers, of the values, or of both."""
        if self._mapped is not None:
            mapped, run = self._mapped[which], _single_run(starts, counts)
            if run is not None:
                return [array[run] for array in mapped]
            copied = _copied(mapped, starts, counts)
            if copied is not None:
                return copied
        run_starts, run_counts = joined_runs(starts, counts)
        return [read_joined(array, run_starts, run_counts) for array in self._arrays[which]]


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


def gather_dense(plan: SlicePlan) -> npt.NDArray[Any]:
    """Return the slice as (majors, minors); a view where both are plain ranges."""
    array = plan.stored.dense()
    major, minor = plan.major, plan.minor
    if array.info.storage_type.is_string:
        strings = array.read_strings().to_numpy(zero_copy_only=False).reshape(array.info.shape)
        return _index(strings, major, minor)
    if array.info.is_mappable:
        return _index(array.read(), major, minor)
    return _read_dense(array, major.positions, minor)


def _read_dense(array: Any, majors: Positions, minor: Selection) -> npt.NDArray[Any]:
    """Read a dense matrix that is not mapped: block by block, each chunk as rarely as possible."""
    values = np.empty((majors.size, minor.size), array.info.storage_type.dtype)
    for start, runs, within, offsets in dense_reads(array, majors, minor):
        for part in array.read_spans(runs, within):
            rows = slice(start, start + len(part))
            if within is None:
                values[rows] = part
            else:
                values[rows, offsets] = part[:, minor.positions[offsets] - within.start]
            start += len(part)  # noqa: PLW2901 - where the next part goes
    return values


def dense_reads(
    array: Any, majors: Positions, minor: Selection
) -> Iterator[tuple[int, list[Span], Span | None, Positions]]:
    """Yield the reads of a dense matrix that is not mapped.

    Each with the offset of its first major within the selected ones, the spans of majors, the span
    of minors (None for all of them), and the offsets of those that are selected.
    """
    item_bytes = array.info.storage_type.dtype.itemsize
    everything = [(Span(0, array.info.shape[1]), minor.positions)]
    spans = everything if minor.is_all else _spans_of_chunks(minor.positions, array.info.chunks[1])
    for span, offsets in spans:
        rows = max(_BLOCK_BYTES // max(span.size * item_bytes, 1), array.info.chunks[0], 1)
        for first in range(0, majors.size, rows):
            runs = list(_runs(majors[first : first + rows]))
            yield first, runs, None if minor.is_all else span, offsets


def _spans_of_chunks(positions: Positions, chunk: int) -> Iterator[tuple[Span, Positions]]:
    """Yield the span of each group of neighbouring chunks, and the offsets of its positions.

    >>> [str(span) for span, _ in _spans_of_chunks(np.array([25, 3, 9, 18, 71]), 10)]
    ['Span(start=3, stop=26)', 'Span(start=71, stop=72)']
    """
    order = np.argsort(positions, kind="stable")
    chunks = positions[order] // chunk
    for offsets in np.split(order, np.flatnonzero(np.diff(chunks) > 1) + 1):
        if offsets.size:
            first, last = int(positions[offsets[0]]), int(positions[offsets[-1]])
            yield Span(first, last + 1), offsets


def _index(values: npt.NDArray[Any], major: Selection, minor: Selection) -> npt.NDArray[Any]:
    rows = as_slice(major.positions)
    columns = slice(None) if minor.is_all else as_slice(minor.positions)
    if isinstance(rows, slice) or isinstance(columns, slice):
        return values[rows, columns]
    return values[np.ix_(rows, columns)]


def as_slice(positions: Positions) -> slice | Positions:
    """Return a range of neighbours as a slice, which needs no copy."""
    if positions.size and positions[-1] - positions[0] == positions.size - 1:
        if bool(np.all(np.diff(positions) == 1)):
            return slice(int(positions[0]), int(positions[-1]) + 1)
    return positions


def _runs(positions: Positions) -> Iterator[Span]:
    """Yield the runs of neighbours in a list of positions, of one at least."""
    for run in np.split(positions, np.flatnonzero(np.diff(positions) != 1) + 1):
        yield Span(int(run[0]), int(run[-1]) + 1)

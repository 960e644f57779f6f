"""The stored layouts of a matrix: what reading them costs, and how a slice is gathered of one.

A matrix may be stored by its columns, by its rows, or both.  A *layout* is one of these with the
plan of a slice in it.

Bytes alone do not tell which is cheaper.  An element of a few scattered cells costs as much as ten
that lie one after the other; where both axes are filtered, each element is looked up; what is
gathered by columns is turned at the end; of a compressed matrix whole chunks are decoded.

Elements are read one major after the other, in ranges of any size: the *candidates* of a plan are
numbered in the order in which they are stored: of a sparse matrix all stored elements of the
selected majors, of a dense one those of the selected minors alone.  A range of these numbers is a
*block*: what is read of it is bounded by its size, not by the matrix.

A slice of a dense matrix is indexed where it is mapped, else read chunk by chunk.  A sparse matrix
is stored by columns; the *major* axis is the one whose entries are those columns, the *minor* axis
the other.  The steps:

1. Group the selected majors into blocks of a bounded number of stored elements: as many as stay in
   the cache of a core from one step to the next.
2. For each block, take the elements of its majors.
3. Translate their minors: stored indices count from 1, of files of others from 0, and those that
   are not selected are dropped.  The stored arrays are never shifted as a whole.
4. Append the blocks to CSR.
5. Repeat the minors that were selected more than once.

Memory: at most two times the result, and a few blocks.
"""

from __future__ import annotations

import threading
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, partial
from operator import itemgetter
from typing import Any, Final, Literal, TypeAlias, TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from daf_storage import DafReader, MatrixInfo, errors
from daf_storage._lazy import sp
from daf_storage.base import (
    Span,
    column_blocks,
    computed,
    is_remote,
    runs_of_chunks,
    spans_of_length,
)
from daf_storage.data import StoredMatrix, checked_indices, is_in_place, ordered, scipy_index_dtype
from daf_storage.stores import ReadEstimate
from daf_storage.trees import Ranges, StoredArray
from daf_storage.upkeep import can_have_sidecar

STRING_BYTES: Final = 16
"""About how many bytes a string takes in memory."""

_BLOCK_BYTES: Final = 32 << 20
_BLOCK_ELEMENTS: Final = 1 << 19
_FETCHED_ELEMENTS: Final = 4 << 20
_KEPT_BYTES: Final = 24 << 20

Numbers: TypeAlias = npt.NDArray[Any]
Positions: TypeAlias = npt.NDArray[np.int64]


class Selection:
    """Which entries of an axis, in which order; not to be changed.

    Parameters
    ----------
    positions
        0-based positions along the axis; any order, duplicates allowed.  None for all of them.
    size
        How many all are.
    """

    __slots__ = ("_positions", "is_all", "size")

    def __init__(self, positions: Positions | None, size: int = 0) -> None:
        self._positions = positions
        self.is_all = positions is None
        """Whether it is every entry in the order of the axis."""
        self.size = size if positions is None else positions.size
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
        steps = np.diff(self.positions, prepend=self.positions[:1])
        narrow = steps.astype(np.min_scalar_type(-int(np.abs(steps).max(initial=0)) - 1))
        return _unpacked, (self.positions[:1], narrow.dtype.str, zlib.compress(narrow.tobytes()))

    def part(self, start: int, stop: int) -> Selection:
        """Return some of the chosen entries, by their offsets.

        >>> Selection.all(3).part(1, 3).positions.tolist()
        [1, 2]
        """
        if self.is_all and start == 0 and stop >= self.size:
            return self
        return self.take(np.arange(start, min(stop, self.size)))

    def take(self, offsets: Positions) -> Selection:
        """Return some of the chosen entries, by their offsets, in the order of these.

        >>> Selection.all(3).take(np.array([2, 0])).positions.tolist()
        [2, 0]
        """
        if self.is_all:
            return Selection.of(offsets, self.size)
        return Selection(self.positions[offsets])

    @classmethod
    def of(cls, positions: Positions, axis_length: int) -> Selection:
        """Return the selection of these positions of an axis.

        >>> Selection.of(np.array([0, 1]), 2).is_all, Selection.of(np.array([1, 0]), 2).is_all
        (True, False)
        """
        if positions.size == axis_length and np.array_equal(positions, np.arange(axis_length)):
            return cls.all(axis_length)
        return cls(positions)

    @classmethod
    def all(cls, axis_length: int) -> Selection:
        """Return the selection of every entry of an axis.

        >>> Selection.all(3).positions.tolist()
        [0, 1, 2]
        """
        return cls(None, axis_length)


NONE: Final = Selection(np.empty(0, np.int64))
"""No entry, of an axis that may have some."""


def each_once(positions: Positions) -> Positions:
    """Return positions ascending, each once; `numpy.unique` hashes them, which takes much longer.

    >>> each_once(np.array([3, 1, 3])).tolist()
    [1, 3]
    """
    if not np.all(positions[1:] > positions[:-1]):
        positions = np.sort(positions)
        positions = positions[np.append(True, positions[1:] != positions[:-1])]
    return positions


def _unpacked(start: Positions, dtype: str, packed: bytes) -> Selection:
    steps = np.frombuffer(zlib.decompress(packed), dtype)
    return Selection(np.cumsum(steps, dtype=np.int64) + start)


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
        colptr: Any = self.colptr
        if self.major.is_all:
            return colptr[:-1], np.diff(colptr)
        starts = colptr[self.major.positions]
        counts = colptr[self.major.positions + 1]
        counts -= starts
        return starts, counts

    def row_numbers(self, ranges: Ranges) -> Numbers:
        """Return the row numbers of some ranges of the elements, as they are stored.

        Raises
        ------
        CorruptDataError
            One leaves its axis.
        """
        found = checked_indices(self.stored, _taken(self.stored.indices, ranges))
        # Not all versions of numpy take by unsigned numbers of 64 bits.
        return found.astype(np.int64) if found.dtype.kind == "u" and found.itemsize == 8 else found

    def values(self, ranges: Ranges) -> Numbers:
        """Return the values of some ranges; of a Bool matrix that stores none, all are true."""
        _, *values = self.stored.element_arrays()
        return _taken(values[0], ranges) if values else np.ones(ranges.size, np.bool_)

    @property
    def counts(self) -> Positions:
        """How many elements each selected major has; of a sparse matrix also of other minors."""
        if self.stored.info.is_sparse:
            return self.ranges()[1]
        return np.full(self.major.size, self.minor.size)

    @property
    def step(self) -> int:
        """At multiples of how many elements chunks end, or the majors of a dense matrix."""
        is_sparse = self.stored.info.is_sparse
        array = (self.stored.indices if is_sparse else self.stored.dense()).info
        is_cut = not array.is_mappable and array.chunks != array.shape
        step = max(array.chunks[0], 1) if is_cut else 1
        return step if is_sparse else step * max(self.minor.size, 1)

    def groups(self, target: int) -> Iterator[tuple[Span, int]]:
        """Cut the selected majors into groups of about ``target`` elements, but of one at least.

        Yields the offsets of the majors of each group, and its number of elements; of a sparse
        matrix also of minors that are not selected.  Those of a dense one end where chunks do.
        """
        counts = self.counts
        for span in cut_at(counts, -(-target // self.step) * self.step):
            yield span, int(counts[span.slice].sum())

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
    return column_blocks(np.append(0, np.cumsum(sizes)), max_elements=target)


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
        return _gathered(plan, None, progress)
    positions = plan.minor.positions
    unique, order = np.unique(positions, return_inverse=True)
    if unique.size == positions.size:
        return _gathered(plan, positions, progress)
    repeated: sp.csr_array[Any] = sp.csr_array(_gathered(plan, unique, progress)[:, order])
    repeated.sort_indices()
    return repeated


def _gathered(
    plan: SlicePlan, minors: Positions | None, progress: Callable[[int], None]
) -> sp.csr_array[Any]:
    """Gather the elements of all minors, or of some, each given once, in their order."""
    stored, some = plan.stored, list(blocks_of(plan))
    shape, base = (plan.major.size, stored.info.shape[0]), stored.index_base
    count = sum(ranges.size for _, ranges in some)
    numbers = np.empty(0, np.int32)
    if minors is not None:
        count, shape = count * minors.size // max(shape[1], 1), (plan.major.size, minors.size)
        numbers = np.full(stored.info.shape[0] + base, base - 1, np.int32)
        numbers[minors + base] = np.arange(base, base + minors.size)  # by the stored index
    is_wanted = numbers >= base

    def block(counts: Positions, ranges: Ranges) -> tuple[Positions, Numbers, Numbers]:
        rows, values = plan.row_numbers(ranges), plan.values(ranges)
        if minors is None:
            return counts, rows, values
        selected = np.flatnonzero(is_wanted.take(rows))  # in half of the time that brackets take
        sizes = np.diff(np.searchsorted(selected, np.cumsum(counts)), prepend=0)
        return sizes, numbers.take(rows.take(selected)), values.take(selected)

    def blocks() -> Iterator[tuple[Positions, Numbers, Numbers]]:
        tasks = [partial(block, *each) for each in some]
        is_mapped = stored.indices.info.is_mappable  # if not, each block is fetched side by side
        read = computed(tasks, "blocks") if is_mapped else (task() for task in tasks)
        for (_, ranges), found in zip(some, read, strict=True):
            yield found
            progress(ranges.size)

    dtype = stored.info.storage_type.dtype.newbyteorder("=")
    return csr_of_blocks(blocks(), shape, dtype, count, base=base, is_ordered=stored.is_ordered)


def blocks_of(plan: SlicePlan) -> Iterator[tuple[Positions, Ranges]]:
    """Yield the sizes and the ranges of the selected majors, of so many elements at a time."""
    starts, counts = plan.ranges()
    is_mapped = plan.stored.indices.info.is_mappable
    # Of what is not mapped, several requests at a time.
    for majors in cut_at(counts, _BLOCK_ELEMENTS if is_mapped else _FETCHED_ELEMENTS):
        sizes = counts[majors.slice]
        yield sizes, Ranges.joined(starts[majors.slice], sizes)


def csr_of_blocks(
    blocks: Iterable[tuple[Positions, Numbers, Numbers]],
    shape: tuple[int, int],
    dtype: np.dtype[Any],
    count: int,
    *,
    base: int = 0,
    is_ordered: bool = True,
) -> sp.csr_array[Any]:
    """Return a CSR array of blocks of rows, to which each is appended: its arrays grow in place.

    Parameters
    ----------
    blocks
        How many elements each row has, their columns, and their values.
    count
        About how many elements there are.
    base
        What the columns count from.
    is_ordered
        Whether each is stored once; of a file of others, those that are not are added up.
    """
    indices = np.empty(count, scipy_index_dtype(max(count, *shape)))
    data, stop = np.empty(count, dtype), 0
    sizes = [np.zeros(1, np.int64)]
    for counts, columns, values in blocks:
        sizes.append(counts)
        start, stop = stop, stop + columns.size
        if stop > data.size:  # no view of either was handed out
            for array in (indices, data):
                array.resize(max(stop, data.size + (data.size >> 2)), refcheck=False)
        np.subtract(columns, base, out=indices[start:stop], casting="unsafe")
        data[start:stop] = values
    indices.resize(stop, refcheck=False)
    data.resize(stop, refcheck=False)
    indices = indices.astype(scipy_index_dtype(max(count, stop, *shape)), copy=False)
    indptr = np.cumsum(np.concatenate(sizes)).astype(indices.dtype)
    result: Any = sp.csr_array(shape, dtype=dtype)
    result.data, result.indices, result.indptr = data, indices, indptr
    # Asked first of foreign ones, which nearly all are: it is one pass for both questions.
    if is_ordered or not result.has_canonical_format:
        result.sort_indices()  # selected in another order, or stored so; else nothing is done
        if not is_ordered:
            result.sum_duplicates()
    whole: sp.csr_array[Any] = result
    return whole


@cache
def keep_freed_memory() -> None:
    """Have the allocator keep freed memory, up to twice 24 MiB; called once, it holds for good.

    glibc returns freed memory at once until larger arrays than those were freed.  Every block would
    have its pages mapped and cleared again, which takes longer than what is computed in them.
    """
    np.empty(_KEPT_BYTES, np.uint8)


def _taken(array: StoredArray, ranges: Ranges) -> Numbers:
    """Return some ranges of an array, one after the other; of one that is mapped, a view of one."""
    if array.info.is_mappable and ranges.starts.size == 1:
        return array.read_rows(*ranges.spans())
    return array.read_joined(ranges)


def gather_dense(plan: SlicePlan) -> npt.NDArray[Any]:
    """Return the slice as (majors, minors); a view where both are plain ranges."""
    array = plan.stored.dense()
    major, minor = plan.major, plan.minor
    if array.info.storage_type.is_string:
        values = array.read_strings().to_numpy(zero_copy_only=False).reshape(array.info.shape)
    elif array.info.is_mappable:
        values = array.read()
    else:
        return _read_dense(array, major.positions, minor)
    found: npt.NDArray[Any] = values[index_of(major, minor)]
    return found


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
    spans = everything if minor.is_all else runs_of_chunks(minor.positions, array.info.chunks[1])
    for span, offsets in spans:
        rows = max(_BLOCK_BYTES // max(span.size * item_bytes, 1), array.info.chunks[0], 1)
        for first in range(0, majors.size, rows):
            runs = list(_runs(majors[first : first + rows]))
            yield first, runs, None if minor.is_all else span, offsets


def index_of(rows: Selection, columns: Selection) -> Any:
    """Return what indexes rows and columns of a dense array; ranges as slices, without a copy."""
    first, second = _as_slice(rows.positions), _as_slice(columns.positions)
    if isinstance(first, slice) or isinstance(second, slice):
        return first, second
    return np.ix_(first, second)


def _as_slice(positions: Positions) -> slice | Positions:
    """Return a range of neighbours as a slice, which needs no copy.

    >>> [_as_slice(np.array(each, int)) for each in ([3, 4, 5], [3, 5, 4, 6], [])]
    [slice(3, 6, None), array([3, 5, 4, 6]), array([], dtype=int64)]
    """
    is_range = positions.size > 0 and bool(np.all(np.diff(positions) == 1))
    return slice(int(positions[0]), int(positions[-1]) + 1) if is_range else positions


def _runs(positions: Positions) -> Iterator[Span]:
    """Yield the runs of neighbours in a list of positions, of one at least.

    >>> [(run.start, run.stop) for run in _runs(np.array([3, 4, 7, 5]))]
    [(3, 5), (7, 8), (5, 6)]
    """
    for run in np.split(positions, np.flatnonzero(np.diff(positions) != 1) + 1):
        yield Span(int(run[0]), int(run[-1]) + 1)


_T = TypeVar("_T")


class DamagedLayoutWarning(errors.DafWarning):
    """One of the two stored layouts of a matrix is damaged, so the other one is read."""


@dataclass(eq=False, slots=True)
class PlannedLayouts:
    """The layouts in which a matrix is stored, with the plan of a slice in each.

    What turns out to be damaged is not tried again, in these plans and in those made of them.
    """

    found: Sequence[SlicePlan]
    """The one that takes less time first."""
    faults: Sequence[errors.FormatError]
    """What is wrong with others; a layout that is not stored is not among them."""
    damaged: set[bool] = field(default_factory=set)
    """Those that turned out to be damaged, by whether rows are their majors."""

    def __iter__(self) -> Iterator[SlicePlan]:
        """Yield those that are worth a try, the one that takes less time first."""
        usable = [each for each in self.found if each.rows_are_major not in self.damaged]
        return iter(usable or self.found)

    @property
    def first(self) -> SlicePlan:
        """The layout that is read."""
        return next(iter(self))

    @property
    def lengths(self) -> tuple[int, int]:
        """How many rows and columns the whole matrix has."""
        minors, majors = self.first.stored.info.shape
        return (majors, minors) if self.first.rows_are_major else (minors, majors)

    def at(self, rows: Selection, columns: Selection) -> PlannedLayouts:
        """Return plans of other entries of the same matrix."""
        faults = list(self.faults)
        found = _by_cost([layout.of(rows, columns) for layout in self.found], faults)
        return PlannedLayouts(found, faults, self.damaged)

    def gather(self, progress: Callable[[int], None] = lambda _: None) -> Any:
        """Return the values: ``csr_array`` if sparse, else ``ndarray``; see `read`."""
        return self.read(lambda layout: layout.gather(progress))

    def read(self, read: Callable[[SlicePlan], _T]) -> _T:
        """Return what is read from the first layout that is whole.

        Warns
        -----
        DamagedLayoutWarning
            The first is damaged, and the second was read.

        Raises
        ------
        FormatError
            No layout is whole; it is the error of the first.
        """
        fault: errors.FormatError | None = None
        for layout in self:
            try:
                values = read(layout)
            except errors.FormatError as error:
                fault = fault or error
                continue
            if fault is not None:
                self.damaged.add(not layout.rows_are_major)
                _warn(fault, layout)
            return values
        raise fault or TypeError("a matrix has a layout at least")


def find_layouts(
    daf: DafReader, axes: tuple[str, str], name: str, rows: Selection, columns: Selection
) -> PlannedLayouts:
    """Plan a slice in each layout in which a matrix is stored; reads column pointers at most.

    Warns
    -----
    DamagedLayoutWarning
        One of two is damaged, and left out.

    Raises
    ------
    MatrixNotFoundError
        There is no such matrix.
    FormatError
        No layout is whole.
    """
    stored, faults = open_layouts(daf, axes, name)
    layouts = []
    for matrix in stored:
        rows_are_major = matrix.info.is_row_major or matrix.info.rows_axis != axes[0]
        majors, minors = (rows, columns) if rows_are_major else (columns, rows)
        layouts.append(SlicePlan(matrix, majors, minors, rows_are_major))
    found = _by_cost(layouts, faults)
    if not found:
        raise faults[0]
    for fault in faults:
        _warn(fault, found[0])
    return PlannedLayouts(found, faults)


def _by_cost(layouts: list[SlicePlan], faults: list[errors.FormatError]) -> list[SlicePlan]:
    """Return layouts, the one that takes less time first; what is wrong with others is added.

    Of a slice with all entries of one axis and few of the other, one of two layouts is looked at:
    of the other one, which may be on a server, not even the column pointers are read.
    """
    costs: list[tuple[float, SlicePlan]] = []
    for layout in sorted(layouts, key=lambda each: not each.minor.is_all):
        try:
            cost = gathering_ns(layout)
        except errors.FormatError as error:
            faults.append(error)
            continue
        costs.append((cost, layout))
        count = layout.stored.info.nnz
        has_few_majors = layout.minor.is_all and not layout.major.is_all and count is not None
        if has_few_majors and cost <= (count or 0) * _FILTERED_ELEMENT_NS:
            return [layout, *(each for each in layouts if each is not layout)]
    return [layout for _, layout in sorted(costs, key=lambda pair: pair[0])]


def open_layouts(
    daf: DafReader, axes: tuple[str, str], name: str
) -> tuple[list[StoredMatrix], list[errors.FormatError]]:
    """Return the layouts whose metadata is whole, and what is wrong with the others.

    Raises
    ------
    FormatError
        None is whole.
    """
    try:
        return daf.open_orientations(*axes, name), []
    except errors.FormatError as error:
        fault = error
    stored = []
    for pair in dict.fromkeys([axes, axes[::-1]]):
        try:
            stored.append(daf.open_matrix(*pair, name))
        except (errors.FormatError, errors.MatrixNotFoundError):
            continue
    if not stored:
        raise fault
    return stored, [fault]


def info_of(daf: DafReader, axes: tuple[str, str], name: str) -> MatrixInfo:
    """Return the metadata of a matrix in one of its layouts.

    Raises
    ------
    AxisNotFoundError, MatrixNotFoundError
        There is no such axis, or no such matrix.
    FormatError
        No layout is whole.
    """
    return open_layouts(daf, axes, name)[0][0].info


def other_layout_command(daf: DafReader, name: str) -> str:
    """Return the command that stores the other layout of a matrix beside a file read in place.

    Empty for a data set of Daf, to which ``relayout_matrix`` can add it.
    """
    if not is_in_place(daf):
        return ""
    command = f"daf index {errors.in_shell(daf.location)} --matrix {errors.in_shell(name)}"
    if not can_have_sidecar(daf) and is_remote(daf.location):
        return f"'export DAF_SIDECARS=$PWD; {command}'"
    if not can_have_sidecar(daf):
        place = f"open_daf({daf.location!r}, obs_is=..., sidecar='other.daf.zarr')"
        return f"accelerate({name!r}) of a session over {place}"
    return f"'{command}'"


def _warn(fault: errors.FormatError, other: SlicePlan) -> None:
    info = other.stored.info
    errors.warn(
        f"{fault}; it is read from the other layout, {info.rows_axis} x "
        f"{info.columns_axis}. To write the damaged one again, open the data set with 'r+' and "
        f"call relayout_matrix({info.rows_axis!r}, {info.columns_axis!r}, {info.name!r}, "
        "if_exists='replace'); `daf verify` lists all damage",
        DamagedLayoutWarning,
    )


# Nanoseconds of a processor, fitted to 40 slices of a mapped matrix in both layouts: 1 to all of
# 2,000 columns and 100 to 30,000 of 100,000 rows, 9.8 million stored elements of Float32 and Int32,
# on two virtual processors (x86-64, Linux 6.18), all pages cached.  They give the time of each of
# these slices within half of it.
_RANGE_NS: Final = 76.0
"""Of a range of stored elements: its pointers, and the first access to its memory."""
_COPIED_BYTE_NS: Final = 0.16
_FILTERED_ELEMENT_NS: Final = 1.4
"""Of an element whose minor is looked up among the selected ones."""
_SELECTED_ELEMENT_NS: Final = 4.4
"""Of an element that is kept of those."""
_TRANSPOSED_ELEMENT_NS: Final = 8.4
"""Of an element that is put from columns into rows."""
_MINOR_NS: Final = 1.0
"""Of a minor, selected or not, in the table in which minors are looked up."""
_DECODED_BYTE_NS: Final = 0.7
"""Of a byte of a compressed chunk."""
_FETCHED_BYTE_NS: Final = 10.0
"""Of a byte of a file on a server; at 100 MB/s, and not measured."""
_FETCHED_BLOCK_BYTES: Final = 32 << 10
"""In blocks of how many bytes files of a server are fetched."""


def gathering_ns(plan: SlicePlan) -> float:
    """Return about how many nanoseconds of a processor gathering a slice takes.

    What is gathered by columns is turned into rows at the end; a dense matrix is not.
    """
    info = plan.stored.info
    if not info.is_sparse:
        return plan.cost_bytes * _COPIED_BYTE_NS
    starts, counts = plan.ranges()
    if plan.major.is_all:  # one range
        starts, counts = starts[:1], counts.sum(keepdims=True)[: starts.size]
    elements = int(counts.sum())
    total = starts.size * _RANGE_NS
    for array in plan.stored.element_arrays():
        total += _taken_ns(array, starts, counts, elements)
    likely: float = elements
    if not plan.minor.is_all:
        likely = elements * plan.minor.size / max(info.shape[0], 1)
        total += elements * _FILTERED_ELEMENT_NS + likely * _SELECTED_ELEMENT_NS
        total += info.shape[0] * _MINOR_NS
    return total if plan.rows_are_major else total + likely * _TRANSPOSED_ELEMENT_NS


def _taken_ns(array: StoredArray, starts: Positions, counts: Positions, elements: int) -> float:
    """Return what copying, decoding or fetching ranges of an array takes."""
    info = array.info
    item_bytes = info.storage_type.dtype.itemsize
    if info.is_mappable:
        return elements * item_bytes * _COPIED_BYTE_NS
    if info.chunks != info.shape:
        chunk = max(info.chunks[0], 1)
        return _sections(starts, counts, chunk) * chunk * item_bytes * _DECODED_BYTE_NS
    block = max(_FETCHED_BLOCK_BYTES // item_bytes, 1)
    return _sections(starts, counts, block) * block * item_bytes * _FETCHED_BYTE_NS


def _sections(starts: Positions, counts: Positions, size: int) -> int:
    """Return in about how many sections of so many elements some ranges lie.

    >>> _sections(np.array([9, 0, 12]), np.array([3, 5, 0]), 4)
    2
    """
    begun = each_once(starts[counts > 0] // size).size
    return max(begun, int(counts.sum()) // size)


def count_elements(plans: Iterable[SlicePlan]) -> tuple[int, bool]:
    """Return the number of elements of a slice, the least that any of its layouts allows.

    The stored elements of a sparse matrix, all of a dense one; nothing is read.  And whether there
    are so many; if not, there are at most so many.
    """
    return min(map(_count, plans), key=itemgetter(0))


def _count(plan: SlicePlan) -> tuple[int, bool]:
    if plan.colptr is None:
        return plan.major.size * plan.minor.size, True
    counts = major_counts(plan)
    return int(counts.sum()), plan.minor.is_all or not counts.any()


def major_counts(plan: SlicePlan) -> Positions:
    """Return how many elements each selected major of a sparse matrix has, at most."""
    counts = plan.ranges()[1]
    if plan.minor.is_all:
        return counts
    _, repeats = np.unique(plan.minor.positions, return_counts=True)
    return np.minimum(counts * int(repeats.max(initial=1)), plan.minor.size)


def minor_counts(plan: SlicePlan) -> Positions:
    """Return how many elements each selected minor of a sparse matrix has; reads their numbers."""
    base = plan.stored.index_base
    totals = np.zeros(plan.stored.info.shape[0] + base, np.int64)
    for _, ranges in blocks_of(plan):
        totals += np.bincount(plan.row_numbers(ranges), minlength=totals.size)
    return totals[plan.minor.positions + base]


def estimate_read(plan: SlicePlan) -> ReadEstimate:
    """Return what gathering a slice costs beyond its plan; no values are read.

    In the order, and the pieces, in which gathering reads.
    """
    estimate = ReadEstimate()
    is_sparse = plan.stored.info.is_sparse
    arrays = plan.stored.element_arrays() if is_sparse else [plan.stored.dense()]
    if arrays[0].info.storage_type.is_string:
        estimate.add_inexact(STRING_BYTES * arrays[0].info.size, requests=0)
    elif all(array.info.is_mappable for array in arrays):
        count = int(plan.counts.sum())
        for array in arrays:
            estimate.add_bytes(count * array.info.storage_type.dtype.itemsize)
    elif is_sparse:
        for _, ranges in blocks_of(plan):
            for array in arrays:
                array.estimate(ranges.spans(), estimate)
    else:
        for _, runs, within, _ in dense_reads(arrays[0], plan.major.positions, plan.minor):
            arrays[0].estimate(runs, estimate, within)
    return estimate


Values: TypeAlias = npt.NDArray[Any] | pa.Array
"""Numbers, or strings of Arrow."""


ElementPart: TypeAlias = Literal["majors", "minors", "values"]
"""What is read of each element: the positions of its major and its minor, or its value."""


class Elements:
    """The candidates of a plan; reads nothing yet but its ``colptr``, which the plan has.

    Of a file of others, the row numbers are read once, to see whether they are in order.
    """

    def __init__(self, plan: SlicePlan) -> None:
        self._plan = plan = plan.in_order()
        # Not a `threading.local`.  The engine's threads have a Python state for the length of a
        # call, and what is kept in it is freed while it is being cleared.  An Arrow array whose
        # buffer is memory of numpy takes the GIL as it is freed, which before Python 3.12.4 clears
        # the same state within itself, and ends the process.
        self._last: dict[int, tuple[Span, dict[ElementPart, Any]]] = {}
        self._is_sparse = plan.stored.info.is_sparse
        self._ends = np.cumsum(plan.counts)
        self.count = int(self._ends[-1]) if self._ends.size else 0
        """How many there are."""
        self.has_other_minors = self._is_sparse and not plan.minor.is_all
        """Whether some may be of minors that are not selected."""

    def spans(self, target: int) -> list[Span]:
        """Cut the candidates into blocks of about ``target``, which end with chunks, or majors."""
        step = self._plan.step
        return list(spans_of_length(self.count, -(-target // step) * step))

    def part(self, part: ElementPart, span: Span, offsets: Positions | None) -> Any:
        """Return a part of each element of a block, or of those of some numbers within it.

        The parts of the last block of each thread are kept, each as it was first asked for.
        """
        thread = threading.get_ident()
        last = self._last.get(thread)
        if last is None or last[0] != span:
            last = self._last[thread] = (span, {})
        if part not in last[1]:
            last[1][part] = self._read(part, span)
        whole = last[1][part]
        return whole if offsets is None else whole.take(offsets)

    def _read(self, part: ElementPart, span: Span) -> Any:
        first = int(np.searchsorted(self._ends, span.start, side="right"))
        last = int(np.searchsorted(self._ends, span.stop, side="left")) + 1 if span.size else first
        ends = np.minimum(self._ends[first:last], span.stop) - span.start
        counts = np.diff(ends, prepend=0)
        majors, plan = self._plan.major.positions[first:last], self._plan
        if part == "majors":
            return np.repeat(majors.astype(np.int32), counts)
        if not self._is_sparse:  # a block is some whole majors
            minors = plan.minor.positions.astype(np.int32)
            return np.tile(minors, majors.size) if part == "minors" else self._dense(majors)
        colptr: Any = plan.colptr
        starts = colptr[majors]
        if starts.size:  # the first major may have begun in the block before
            starts[0] += span.start - (int(self._ends[first - 1]) if first else 0)
        ranges, base = Ranges.joined(starts, counts), plan.stored.index_base
        if part == "values":
            return plan.values(ranges)
        rows = plan.row_numbers(ranges)
        return np.subtract(rows, base, dtype=np.int32, casting="unsafe")

    def _dense(self, majors: Positions) -> Values:
        """Return the values of some majors, one after the other."""
        values = gather_dense(self._plan.at(Selection(majors), self._plan.minor)).reshape(-1)
        return pa.array(values, pa.string()) if values.dtype == object else values

"""The stored layouts of a matrix: what reading them costs, and the other where one is damaged.

A matrix may be stored by its columns, by its rows, or both.  A *layout* is one of these with the
plan of a slice in it.

Bytes alone do not tell which is cheaper.  An element of a few scattered cells costs as much as ten
that lie one after the other; where both axes are filtered, each element is looked up; what is
gathered by columns is turned at the end; of a compressed matrix whole chunks are decoded.

The elements of a slice, one major after the other, to be read in ranges of any size.

The *candidates* of a plan are numbered in the order in which they are stored: of a sparse matrix
all stored elements of the selected majors, of a dense one those of the selected minors alone.  A
range of these numbers is a *block*: what is read of it is bounded by its size, not by the matrix.
"""

from __future__ import annotations

import threading
import warnings
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Final, Literal, TypeAlias, TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from daf_query.matrix._gather import (
    STRING_BYTES,
    Positions,
    Selection,
    SlicePlan,
    blocks_of,
    dense_reads,
    gather_dense,
)
from daf_storage import DafReader, errors
from daf_storage.base import ForkLock, Span
from daf_storage.data import StoredMatrix, is_in_place
from daf_storage.stores import ReadEstimate, is_remote
from daf_storage.trees import Ranges, StoredArray
from daf_storage.upkeep import can_have_sidecar

_T = TypeVar("_T")


class DamagedLayoutWarning(errors.DafWarning):
    """One of the two stored layouts of a matrix is damaged, so the other one is read."""


class PlannedLayouts:
    """The layouts in which a matrix is stored, with the plan of a slice in each.

    What turns out to be damaged is not tried again, in these plans and in those made of them.

    Parameters
    ----------
    found
        The one that takes less time first.
    faults
        What is wrong with others; a layout that is not stored is not among them.
    damaged
        Those that turned out to be damaged, by whether rows are their majors.
    """

    def __init__(
        self,
        found: Iterable[SlicePlan],
        faults: Iterable[errors.FormatError] = (),
        damaged: set[bool] | None = None,
    ) -> None:
        self.found = tuple(found)
        self.faults = tuple(faults)
        self.damaged: set[bool] = set() if damaged is None else damaged

    def __iter__(self) -> Iterator[SlicePlan]:
        """Yield those that are worth a try, the one that takes less time first."""
        usable = [each for each in self.found if each.rows_are_major not in self.damaged]
        return iter(usable or self.found)

    @property
    def first(self) -> SlicePlan:
        """The layout that is read."""
        return next(iter(self))

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
    """Return the layouts whose metadata is whole, and what is wrong with the others."""
    try:
        return daf.open_orientations(*axes, name), []
    except errors.FormatError as error:
        faults = [error]
    stored = []
    for pair in dict.fromkeys([axes, axes[::-1]]):
        try:
            stored.append(daf.open_matrix(*pair, name))
        except (errors.FormatError, errors.MatrixNotFoundError):
            continue
    return stored, faults


def other_layout_command(daf: DafReader, name: str) -> str:
    """Return the command that stores the other layout of a matrix beside a file read in place.

    Empty for a data set of Daf, to which ``relayout_matrix`` can add it.
    """
    if not is_in_place(daf):
        return ""
    if not can_have_sidecar(daf) and is_remote(daf.location):
        return f"'daf index {daf.location} --matrix {name} --into mine.daf.zarr'"
    if not can_have_sidecar(daf):
        place = f"open_daf({daf.location!r}, obs_is=..., sidecar='other.daf.zarr')"
        return f"accelerate({name!r}) of a session over {place}"
    return f"'daf index {daf.location} --matrix {name}'"


def _warn(fault: errors.FormatError, other: SlicePlan) -> None:
    info = other.stored.info
    warnings.warn(
        f"{fault}; it is read from the other layout, {info.rows_axis} x "
        f"{info.columns_axis}. To write the damaged one again, open the data set with 'r+' and "
        f"call relayout_matrix({info.rows_axis!r}, {info.columns_axis!r}, {info.name!r}, "
        "if_exists='replace'); `daf verify` lists all damage",
        DamagedLayoutWarning,
        stacklevel=2,
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
    begun = np.unique(starts[counts > 0] // size).size
    return max(begun, int(counts.sum()) // size)


@dataclass(frozen=True, slots=True)
class ElementCount:
    """How many elements a slice has, as far as that is known without reading them."""

    count: int
    """The stored elements of a sparse matrix, all of a dense one."""
    is_exact: bool
    """Whether there are so many; if not, there are at most so many."""


def count_elements(plans: Iterable[SlicePlan]) -> ElementCount:
    """Return the number of elements of a slice: the least that any of its layouts allows."""
    return min(map(_count, plans), key=lambda found: found.count)


def _count(plan: SlicePlan) -> ElementCount:
    if plan.colptr is None:
        return ElementCount(plan.major.size * plan.minor.size, is_exact=True)
    counts = major_counts(plan)
    return ElementCount(int(counts.sum()), is_exact=plan.minor.is_all or not counts.any())


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
        count = plan.ranges()[1].sum() if is_sparse else plan.major.size * plan.minor.size
        for array in arrays:
            estimate.add_bytes(int(count) * array.info.storage_type.dtype.itemsize)
    elif is_sparse:
        for _, ranges in blocks_of(plan):
            for array in arrays:
                array.estimate(ranges.spans(), estimate)
    else:
        for _, runs, within, _ in dense_reads(arrays[0], plan.major.positions, plan.minor):
            arrays[0].estimate(runs, estimate, within)
    return estimate


Offsets: TypeAlias = npt.NDArray[np.int64]
Values: TypeAlias = npt.NDArray[Any] | pa.Array
"""Numbers, or strings of Arrow."""


ElementPart: TypeAlias = Literal["majors", "minors", "values"]
"""What is read of each element: the positions of its major and its minor, or its value."""


class Elements:
    """The candidates of a plan; reads nothing yet but its ``colptr``, which the plan has.

    Of a file of others, the row numbers are read once, to see whether they are in order.
    """

    def __init__(self, plan: SlicePlan) -> None:
        self._is_sparse = plan.stored.info.is_sparse
        self._plan = plan.in_order()
        self._lock = ForkLock()
        self._strings: pa.Array | None = None
        # Not a `threading.local`.  The engine's threads have a Python state for the length of a
        # call, and what is kept in it is freed while it is being cleared.  An Arrow array whose
        # buffer is memory of numpy takes the GIL as it is freed, which before Python 3.12.4 clears
        # the same state within itself, and ends the process.
        self._last: dict[int, tuple[Span, dict[ElementPart, Any]]] = {}
        if self._is_sparse:
            self._starts, counts = self._plan.ranges()
            array, step = self._plan.stored.indices.info, 1
        else:
            counts = np.full(plan.major.size, plan.minor.size)
            array, step = plan.stored.dense().info, max(plan.minor.size, 1)
        self._ends = np.cumsum(counts)
        self.count = int(self._ends[-1]) if self._ends.size else 0
        """How many there are."""
        self.has_other_minors = self._is_sparse and not plan.minor.is_all
        """Whether some may be of minors that are not selected."""
        is_cut = not array.is_mappable and array.chunks != array.shape
        self.step = step * (max(array.chunks[0], 1) if is_cut else 1)
        """At multiples of which number blocks end: where chunks do, or majors."""

    def spans(self, target: int) -> list[Span]:
        """Cut the candidates into blocks of about ``target``."""
        size = -(-target // self.step) * self.step
        return [Span(start, min(start + size, self.count)) for start in range(0, self.count, size)]

    def part(self, part: ElementPart, span: Span, offsets: Offsets | None) -> Any:
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
        if offsets is None:
            return whole
        return whole.take(pa.array(offsets)) if isinstance(whole, pa.Array) else whole[offsets]

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
        starts = self._starts[first:last].copy()
        if starts.size:  # the first major may have begun in the block before
            starts[0] += span.start - (int(self._ends[first - 1]) if first else 0)
        ranges, base = Ranges.joined(starts, counts), plan.stored.index_base
        if part == "values":
            return plan.values(ranges)
        rows = plan.row_numbers(ranges)
        return np.subtract(rows, base, dtype=np.int32, casting="unsafe")

    def _dense(self, majors: Offsets) -> Values:
        """Return the values of some majors; strings are decoded all, once: they are one chunk."""
        plan = self._plan
        if not plan.stored.info.storage_type.is_string:
            return gather_dense(plan.at(Selection(majors, is_all=False), plan.minor)).reshape(-1)
        with self._lock:
            if self._strings is None:
                self._strings = plan.stored.dense().read_strings()
        numbers = majors[:, np.newaxis] * plan.stored.info.shape[0] + plan.minor.positions
        return self._strings.take(pa.array(numbers.reshape(-1)))

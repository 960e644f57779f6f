"""The moments of groups of rows of a stored matrix: one pass over the layout that fits.

Where both layouts are stored, the one by columns is read, of which each column is a few segments;
unless the rows are so few that those of the other one are far fewer bytes.  Blocks of a layout are
reduced by threads: their elements are sorted by group and column.

numpy adds up each segment pairwise, in double precision, and squares are of the deviations from the
mean of the segment, not of the values: a large offset costs no digits.  Sums of segments are
compensated (Knuth's two-sum), squared deviations are merged by the formula of Chan, Golub and
LeVeque; both keep their digits however many segments there are.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Final, Literal, TypeAlias, get_args

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from daf_query._runs import check_cancelled
from daf_query.matrix import (
    PlannedLayouts,
    Positions,
    Selection,
    SlicePlan,
    cut_at,
    estimate_read,
    gather_dense,
    keep_freed_memory,
)
from daf_query.scan import PLAIN_TYPES
from daf_storage import errors
from daf_storage._lazy import pc, sp
from daf_storage.base import check_choice, computed
from daf_storage.stores import ReadEstimate
from daf_storage.trees import Ranges

Doubles: TypeAlias = npt.NDArray[np.float64]
Counts: TypeAlias = npt.NDArray[np.int64]
Keys: TypeAlias = npt.NDArray[np.integer[Any]] | slice

Statistic: TypeAlias = Literal[
    "sum", "mean", "variance", "min", "max", "nonzero", "missing", "fraction"
]
"""A statistic of each group and column; the layers of the AnnData of a profile."""

LAYERS: Final[tuple[Statistic, ...]] = get_args(Statistic)


@dataclass(frozen=True, slots=True)
class Moments:
    """Counts, sums and limits of the values of each group and column, or of each segment.

    All arrays have one shape.  Groups and columns without values have a sum of 0, and infinite
    limits; `statistic` has NaN there.
    """

    n: Counts
    """How many values there are that are not NaN."""
    missing: Counts
    """How many are NaN."""
    nonzero: Counts
    """How many are neither NaN nor 0."""
    sum: Doubles
    squares: Doubles
    """Sum of the squared deviations from their mean."""
    min: Doubles
    """Infinity if there are none."""
    max: Doubles

    def map(self, change: Callable[[npt.NDArray[Any]], npt.NDArray[Any]]) -> Moments:
        """Return the moments with each array changed, such as flattened."""
        return Moments(*(change(getattr(self, name)) for name in self.__slots__))

    def merged(self, other: Moments) -> Moments:
        """Return both together, by the formula of Chan, Golub and LeVeque."""
        n = self.n + other.n
        with np.errstate(all="ignore"):
            difference = other.sum / other.n - self.sum / self.n
            between = difference * difference * (self.n * (other.n / n))
            total = self.sum + other.sum
        are_both = (self.n > 0) & (other.n > 0)
        return Moments(
            n,
            self.missing + other.missing,
            self.nonzero + other.nonzero,
            total,
            self.squares + other.squares + np.where(are_both, between, 0.0),
            np.minimum(self.min, other.min),
            np.maximum(self.max, other.max),
        )

    @property
    def mean(self) -> Doubles:
        """NaN where there are no values."""
        return _ratio(self.sum, self.n)

    @property
    def variance(self) -> Doubles:
        """With the divisor n - 1; NaN for fewer than two values."""
        return _ratio(self.squares, self.n - 1)

    @property
    def fraction(self) -> Doubles:
        """Share of the values that are not zero; NaN where there are none."""
        return _ratio(self.nonzero, self.n)

    def statistic(self, name: Statistic) -> npt.NDArray[Any]:
        """Return a statistic of each group and column, NaN where there is no value to have one of.

        Raises
        ------
        InvalidInputError
            There is no such statistic.
        """
        check_choice(name, Statistic, "statistic")
        values: npt.NDArray[Any] = getattr(self, name)
        return np.where(self.n > 0, values, np.nan) if name in ("sum", "min", "max") else values


def _ratio(values: npt.NDArray[Any], counts: Counts) -> Doubles:
    return np.where(counts > 0, values / np.maximum(counts, 1), np.nan)


def constant(value: float, counts: Counts) -> Moments:
    """Return the moments of one value, repeated so many times.

    >>> constant(3.0, np.array([2, 0])).statistic("mean").tolist()
    [3.0, nan]
    """
    none = np.zeros_like(counts)
    n, missing = (none, counts) if np.isnan(value) else (counts, none)
    squares = np.where(n > 0, value - value, 0.0)  # of an infinite one NaN
    limits = (np.where(n > 0, value, limit) for limit in (np.inf, -np.inf))
    total = np.where(n > 0, n * value, 0.0)
    return Moments(n, missing, n if value else none, total, squares, *limits)


def reduce_segments(values: npt.NDArray[Any], starts: npt.NDArray[np.integer[Any]]) -> Moments:
    """Reduce consecutive segments of the last axis; none is empty.

    >>> segments = reduce_segments(np.array([1.0, 3.0, np.nan, 5.0]), np.array([0, 2]))
    >>> segments.sum.tolist(), segments.missing.tolist(), segments.squares.tolist()
    ([4.0, 5.0], [0, 1], [2.0, 0.0])
    """
    sizes = np.diff(starts, append=values.shape[-1]).astype(np.int64)
    doubles = values.astype(np.float64)
    is_missing = np.isnan(doubles)
    # Those that leave out NaN take much longer.
    limits = (np.fmin, np.fmax) if is_missing.any() else (np.minimum, np.maximum)
    with np.errstate(all="ignore"):  # infinities, and what becomes of them
        least, greatest = (each.reduceat(doubles, starts, axis=-1) for each in limits)
        doubles[is_missing] = 0.0
        missing = _count(is_missing, starts)
        n, nonzero = sizes - missing, _count(doubles != 0, starts)
        sums = np.add.reduceat(doubles, starts, axis=-1)
        doubles -= np.repeat(sums / np.maximum(n, 1), sizes, axis=-1)
        doubles[is_missing] = 0.0
        squares = np.add.reduceat(np.square(doubles, out=doubles), starts, axis=-1)
    least, greatest = np.where(n > 0, least, np.inf), np.where(n > 0, greatest, -np.inf)
    return Moments(n, missing, nonzero, sums, squares, least, greatest)


def _count(mask: npt.NDArray[np.bool_], starts: npt.NDArray[np.integer[Any]]) -> Counts:
    counts = np.add.reduceat(mask.astype(np.int32), starts, axis=-1, dtype=np.int32)
    return counts.astype(np.int64)


class Accumulator:
    """The moments of all segments so far; one for each key from 0."""

    def __init__(self, size: int) -> None:
        self._moments = constant(0.0, np.zeros(size, np.int64)).map(np.copy)
        self._compensation: Doubles = np.zeros(size)

    def merge(self, keys: Keys, segments: Moments) -> None:
        """Add segments; no key is there twice."""
        before = self._moments.map(lambda each: each[keys])
        merged = before.merged(segments)
        with np.errstate(all="ignore"):
            added = merged.sum - before.sum
            lost = (before.sum - (merged.sum - added)) + (segments.sum - added)
        self._compensation[keys] += np.where(np.isfinite(lost), lost, 0.0)
        for name in Moments.__slots__:
            getattr(self._moments, name)[keys] = getattr(merged, name)

    def moments(self, *shape: int) -> Moments:
        """Return what was merged, of some shape."""
        total = self._moments.sum + self._compensation
        return replace(self._moments, sum=total).map(lambda each: each.reshape(shape))


@dataclass(frozen=True, slots=True)
class GroupedRows:
    """Selected rows of a matrix, each with the code of its group."""

    positions: npt.NDArray[np.int64]
    """0-based positions along the axis of rows; any order, a row that is there twice counts twice.
    """
    codes: npt.NDArray[np.int32]
    """The group of each, from 0."""
    n_groups: int
    """Number of groups; one without rows is allowed."""

    def sizes(self) -> npt.NDArray[np.int64]:
        """Return the number of rows of each group.

        >>> GroupedRows(np.array([5, 5, 7]), np.array([1, 1, 2], np.int32), 3).sizes().tolist()
        [0, 2, 1]
        """
        return np.bincount(self.codes, minlength=self.n_groups).astype(np.int64)

    def rounds(self) -> Iterator[GroupedRows]:
        """Yield the rows ascending, each once; then those that are there twice again, and so on.

        >>> rows = GroupedRows(np.array([5, 3, 5]), np.array([0, 1, 0], np.int32), 2)
        >>> [each.positions.tolist() for each in rows.rounds()]
        [[3, 5], [5]]
        """
        order = np.argsort(self.positions, kind="stable")
        positions, codes = self.positions[order], self.codes[order]
        _, first, counts = np.unique(positions, return_index=True, return_counts=True)
        for number in range(int(counts.max(initial=1))):
            chosen = first[counts > number] + number
            yield GroupedRows(positions[chosen], codes[chosen], self.n_groups)


@dataclass(frozen=True, slots=True)
class GroupValues:
    """A column by whose values rows are grouped."""

    name: str
    """What it is called."""
    values: pa.Array
    """The value of each entry of the axis."""
    categories: pa.Array | None = None
    """In which order groups come, if not in that of the values."""


@dataclass(frozen=True, slots=True)
class Groups:
    """The groups that have rows, in order: by the first column, within it by the second..."""

    columns: dict[str, pa.Array]
    """The value of each group, by the names of the group columns."""
    rows: GroupedRows
    """The selected rows, each with its group."""


def group_rows(columns: Sequence[GroupValues], positions: npt.NDArray[np.int64]) -> Groups:
    """Group the rows at some positions of an axis.

    Values are in ascending order, or in that of the categories; NULL and NaN are one group, the
    last.  Without any columns, all rows are one group.

    Raises
    ------
    QueryError
        Values of a type cannot be grouped.

    >>> groups = group_rows([GroupValues("type", pa.array(["T", None, "B"]))], np.array([0, 1, 2]))
    >>> groups.columns["type"].to_pylist(), groups.rows.codes.tolist()
    (['B', 'T', None], [1, 2, 0])
    """
    codes: npt.NDArray[np.int64] = np.zeros(positions.size, np.int64)
    selected = []
    for column in columns:
        values = _without_nan(column.values.take(pa.array(positions)))
        ranks = _ranks(values, column)
        # The codes stay below the number of rows squared, so that they cannot overflow.
        codes = codes * (int(ranks.max(initial=0)) + 1) + ranks
        codes = np.unique(codes, return_inverse=True)[1].reshape(-1).astype(np.int64)
        selected.append(values)
    unique, first = np.unique(codes, return_index=True)
    return Groups(
        {
            column.name: values.take(pa.array(first))
            for column, values in zip(columns, selected, strict=True)
        },
        GroupedRows(positions, codes.astype(np.int32), unique.size),
    )


def _without_nan(values: pa.Array) -> pa.Array:
    """Return values of which NaN is NULL, and -0.0 is 0.0."""
    if not pa.types.is_floating(values.type):
        return values
    values = pc.if_else(pc.is_nan(values), pa.scalar(None, values.type), values)
    return pc.add(values, pa.scalar(0.0, values.type))


def _ranks(values: pa.Array, column: GroupValues) -> npt.NDArray[np.int64]:
    """Return where the value of each row stands among all values; NULL is last."""
    categories = column.categories
    try:
        if pa.types.is_dictionary(values.type):
            categories = values.dictionary if categories is None else categories
            values = values.dictionary_decode()
        values = values.cast(PLAIN_TYPES.get(values.type, values.type))
        encoded = values.dictionary_encode()
        ranks = np.argsort(pc.sort_indices(encoded.dictionary))
    except (pa.ArrowNotImplementedError, pa.ArrowInvalid, pa.ArrowTypeError) as error:
        raise errors.QueryError(
            f"{column.name!r} is of type {values.type}, by which rows cannot be grouped; CAST it "
            "to VARCHAR"
        ) from error
    count = len(encoded.dictionary)
    if categories is not None and categories.type == encoded.dictionary.type:
        places = pc.index_in(encoded.dictionary, value_set=categories)
        places = pc.fill_null(places, len(categories)).to_numpy()
        ranks = np.argsort(np.lexsort((ranks, places)))
    codes = pc.fill_null(encoded.indices, count).to_numpy(zero_copy_only=False)
    found: npt.NDArray[np.int64] = np.append(ranks, count)[codes]  # NULL is last
    return found


_ROWS_ADVANTAGE: Final = 2
"""How many times fewer bytes the layout by rows must be to be read first."""
_STRIP: Final = 1024
"""Of a dense layout by rows, how many columns are read together: many rows of a group."""
_BLOCK_CHUNKS: Final = 4
"""How many chunks a block has at least: those at its ends may be decoded for its neighbours too."""

Reduced: TypeAlias = tuple[Positions, Moments]
"""Moments, and their keys: ``group * number of columns + column``."""
Tasks: TypeAlias = Iterator[Callable[[], tuple[Reduced, int]]]
"""Reduce a block.  With the number of bytes that were read."""


BLOCK_ELEMENTS: Final = 1 << 18
"""About how many elements a block has: as many as fit the cache of a core."""
WINDOW_ELEMENTS: Final = 1 << 24
"""Within how many stored elements rows are taken group by group, not in their order."""
THREADS: Final = os.cpu_count() or 1
"""How many blocks are reduced at a time."""


def group_segments(
    planned: PlannedLayouts,
    rows: GroupedRows,
    columns: Selection,
    progress: Callable[[int], None],
    *,
    is_transposed: bool = False,
) -> Moments:
    """Return a segment for each group and selected column of a matrix.

    Parameters
    ----------
    planned
        A plan of any of its rows and columns.
    columns
        Any order; a column that is there twice is returned twice.
    progress
        Called with the bytes that were read, block by block.
    is_transposed
        Whether it is the columns of the matrix that are grouped, and ``columns`` are rows.

    Returns
    -------
    Moments
        Of shape ``(groups, columns)``.

    Raises
    ------
    UnsupportedInputError
        It is a matrix of strings.
    FormatError
        No layout is whole.

    Warns
    -----
    DamagedLayoutWarning
        One of two layouts is damaged, and the other one is read.
    """
    unique, order = np.unique(columns.positions, return_inverse=True)
    accumulator, turn = Accumulator(rows.n_groups * unique.size), -1 if is_transposed else 1
    for once in rows.rounds():
        both = (once.positions, unique)[::turn]
        found = planned.at(*map(Selection.of, both, planned.lengths))
        transposed = (
            replace(each, rows_are_major=each.rows_are_major != is_transposed) for each in found
        )
        layouts = PlannedLayouts(sorted(transposed, key=_cost), found.faults)
        read = partial(_accumulated, once, progress=progress)
        accumulator.merge(slice(None), layouts.read(read).map(np.ravel))
    segments = accumulator.moments(rows.n_groups, unique.size)
    if np.array_equal(order, np.arange(unique.size)):
        return segments
    return segments.map(lambda each: each[:, order.reshape(-1)])


def estimate_segments(planned: PlannedLayouts) -> ReadEstimate:
    """Return what `group_segments` reads of planned rows and columns, each of which is once."""
    return estimate_read(min(planned, key=_cost))


def _cost(layout: SlicePlan) -> int:
    return layout.cost_bytes * (_ROWS_ADVANTAGE if layout.rows_are_major else 1)


def _accumulated(
    once: GroupedRows, layout: SlicePlan, *, progress: Callable[[int], None]
) -> Moments:
    """Return a segment for each group and column, of rows that ascend, each of which is once."""
    keep_freed_memory()
    n_columns = layout.columns.size
    accumulator = Accumulator(once.n_groups * n_columns)
    is_sparse = layout.stored.info.is_sparse
    tasks = _sparse_tasks if is_sparse else _dense_tasks
    for reduced, n_bytes in computed(tasks(once, layout), "moments", THREADS):
        check_cancelled()
        accumulator.merge(*reduced)
        progress(n_bytes)
    segments = accumulator.moments(once.n_groups, n_columns)
    if not is_sparse:
        return segments
    zeros = once.sizes()[:, np.newaxis] - segments.n - segments.missing
    if int(zeros.min(initial=0)) < 0:
        raise errors.CorruptDataError(f"{layout.stored.what}: an element is stored more than once")
    return segments.merged(constant(0.0, zeros))


def _sparse_tasks(once: GroupedRows, layout: SlicePlan) -> Tasks:
    """Yield what reduces blocks of stored elements.

    The stored columns of a layout, its majors, are the columns of the matrix, or its rows.  Each
    major has a *label* and each minor a *bin*: one of them is the group, the other the column.
    """
    plan = layout.in_order()
    base = plan.stored.index_base
    columns = np.arange(layout.columns.size, dtype=np.int32)
    n_bins, labels, bins = once.n_groups, columns, once.codes
    if layout.rows_are_major:
        n_bins, labels, bins = columns.size, once.codes, columns
    bin_of_minor = np.full(plan.stored.info.shape[0] + base, n_bins, np.int32)
    bin_of_minor[plan.minor.positions + base] = bins  # by the stored index
    starts, counts = plan.ranges()
    indices, target = plan.stored.indices.info, BLOCK_ELEMENTS
    if not indices.is_mappable:
        target = max(target, _BLOCK_CHUNKS * indices.chunks[0])
    elif layout.rows_are_major:
        # Rows of one group together, so that segments are long; within windows, so that the file
        # is read from its beginning to its end.
        order = np.lexsort((labels, starts // WINDOW_ELEMENTS))
        starts, counts, labels, target = starts[order], counts[order], labels[order], 4 * target
    item_bytes = sum(a.info.storage_type.dtype.itemsize for a in plan.stored.element_arrays())

    def reduce(part: slice) -> tuple[Reduced, int]:
        sizes, own = counts[part], labels[part]
        ranges = Ranges.joined(starts[part], sizes)
        rows, values = plan.row_numbers(ranges), plan.values(ranges)
        by_major: Any = sp.csr_array((sizes.size, n_bins + 1), dtype=values.dtype)
        by_major.indptr = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int32)
        native = values.astype(values.dtype.newbyteorder("="), copy=False)  # as scipy needs it
        by_major.indices, by_major.data = bin_of_minor.take(rows), native
        if bool(np.any(own[1:] < own[:-1])):
            order = np.argsort(own, kind="stable")
            by_major, own = by_major[order], own[order]
        of_bins, of_labels, segments = _by_bin(by_major, own)
        groups, of_columns = (of_labels, of_bins) if layout.rows_are_major else (of_bins, of_labels)
        return (groups * columns.size + of_columns, segments), rows.size * item_bytes

    for span in cut_at(counts, target):
        yield partial(reduce, span.slice)


def _by_bin(by_major: Any, labels: npt.NDArray[np.int32]) -> tuple[Positions, Positions, Moments]:
    """Return the bin and the label of each segment, and the segments; the last bin is left out.

    Elements are sorted by their bin, and within it by label, with scipy's conversion from rows to
    columns, which counts instead of comparing.
    """
    by_bin = by_major.tocsc()
    count = int(by_bin.indptr[-2])
    label_of = labels.take(by_bin.indices[:count])
    is_first = np.diff(label_of, prepend=np.int32(-1)) != 0
    bin_starts = by_bin.indptr[:-2]
    is_first[bin_starts[bin_starts < count]] = True
    starts = np.flatnonzero(is_first)
    bins = np.searchsorted(by_bin.indptr, starts, side="right") - 1
    segments = reduce_segments(by_bin.data[:count], starts)
    return bins, label_of[starts].astype(np.int64), segments


def _dense_tasks(once: GroupedRows, layout: SlicePlan) -> Tasks:
    """Yield what reduces windows of a dense layout: some columns of all rows, or strips of rows."""
    plan, n_columns = layout, layout.columns.size
    array, codes = plan.stored.dense().info, once.codes
    item_bytes = plan.stored.info.storage_type.dtype.itemsize

    def reduce(window: SlicePlan, rows: _SortedRows, first_column: int) -> tuple[Reduced, int]:
        order, groups, starts = rows
        values = gather_dense(window)
        by_column = values.T if layout.rows_are_major else values
        columns = np.arange(first_column, first_column + by_column.shape[0])
        keys = groups[np.newaxis, :] * n_columns + columns[:, np.newaxis]
        segments = reduce_segments(np.ascontiguousarray(by_column.take(order, axis=1)), starts)
        return (keys.reshape(-1), segments.map(np.ravel)), values.size * item_bytes

    if not codes.size or not n_columns:
        return
    if not layout.rows_are_major:
        every = _sorted(codes)
        for span, _ in plan.groups(BLOCK_ELEMENTS):
            window = plan.at(plan.major.part(span.start, span.stop), plan.minor)
            yield partial(reduce, window, every, span.start)
        return
    width = min(_STRIP, 4 * BLOCK_ELEMENTS)
    width = width if array.is_mappable else max(width // array.chunks[1], 1) * array.chunks[1]
    for first in range(0, n_columns, width):
        strip = plan.at(plan.major, plan.minor.part(first, first + width))
        for span, _ in strip.groups(4 * BLOCK_ELEMENTS):
            window = strip.at(plan.major.part(span.start, span.stop), strip.minor)
            yield partial(reduce, window, _sorted(codes[span.slice]), first)


_SortedRows: TypeAlias = tuple[npt.NDArray[np.intp], Positions, Positions]


def _sorted(codes: npt.NDArray[np.int32]) -> _SortedRows:
    """Return rows group by group, the groups that they have, and where each of these begins."""
    order = np.argsort(codes, kind="stable")
    starts = np.flatnonzero(np.diff(codes[order], prepend=-1))
    return order, codes[order][starts].astype(np.int64), starts

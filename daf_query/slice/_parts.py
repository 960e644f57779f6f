"""The parts of a slice: that of each data set, where it goes in the whole, and how they are read.

A slice of one data set has one part, which is all of it, and is read as it is.  Of several, the
parts are read in parallel and in blocks.  Memory: the result, and for each thread two blocks.  A
dense result is allocated at once, and each block is read into its place.  A sparse one grows block
by block: the allocator moves its pages, and copies nothing.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Final, Self, TypeAlias

import numpy as np
import numpy.typing as npt

from daf_query._runs import check_cancelled
from daf_query.matrix import (
    NONE,
    STRING_BYTES,
    AlignedAxis,
    ConcatenatedAxis,
    EntryAxis,
    PlannedLayouts,
    Positions,
    Selection,
    SlicePlan,
    count_elements,
    csr_of_blocks,
    cut_at,
    find_layouts,
    index_of,
    info_of,
    major_counts,
    minor_counts,
)
from daf_storage import DafReader, MatrixInfo, errors
from daf_storage._lazy import sp
from daf_storage.base import Span, computed
from daf_storage.data import matrix_version, promoted

Axes: TypeAlias = tuple[str, str]
"""That of the rows, and that of the columns."""

Selections: TypeAlias = tuple[Selection, Selection]
"""Some rows, and some columns."""


@dataclass(frozen=True, slots=True, eq=False)
class Part:
    """What a slice has of one data set: some entries of a matrix, planned in its stored layouts.

    No values are kept.
    """

    name: str
    """What the column ``dataset`` calls the data set."""
    daf: DafReader
    axes: Axes
    matrix: str
    """The name of the matrix."""
    selections: Selections
    layouts: PlannedLayouts
    places: Selections
    """Which row of the whole each row is, ascending, and which column each column, each once."""

    @classmethod
    def of(
        cls,
        daf: DafReader,
        axes: Axes,
        matrix: str,
        selections: Selections,
        name: str | None = None,
        places: Selections | None = None,
    ) -> Part:
        """Plan a part in the layout that takes the least time; reads column pointers at most.

        By default it is all of the slice.
        """
        layouts = find_layouts(daf, axes, matrix, *selections)
        name = daf.name if name is None else name
        return cls(name, daf, axes, matrix, selections, layouts, places or _all_of(selections))

    def __reduce__(self) -> Any:
        """Pickle what was chosen; the other process opens the data set again."""
        return Part.of, (self.daf, self.axes, self.matrix, self.selections, self.name, self.places)

    @property
    def plan(self) -> SlicePlan:
        """The stored layout that is read, and about how many bytes of it."""
        return self.layouts.first

    @property
    def shape(self) -> tuple[int, int]:
        """Numbers of rows and of columns."""
        return self.selections[0].size, self.selections[1].size

    @property
    def is_sparse(self) -> bool:
        """Whether the matrix is stored sparse."""
        return self.plan.stored.info.is_sparse

    @property
    def dtype(self) -> np.dtype[Any]:
        """The numpy dtype of the values; ``object`` for strings."""
        return _dtype_of(self.plan.stored.info)

    def at(self, rows: Selection, columns: Selection, places: Selections | None = None) -> Part:
        """Return other entries of the same matrix, by default as all of a slice; reads nothing."""
        layouts, both = self.layouts.at(rows, columns), (rows, columns)
        return replace(self, selections=both, layouts=layouts, places=places or _all_of(both))

    def take_rows(self, offsets: Positions, *, are_aligned: bool) -> Part | None:
        """Return what belongs to some rows of the whole, which ascend; None if nothing does.

        Of an aligned axis, it is kept for the rows that it lacks.  No values are read.
        """
        own, places = offsets, Selection.all(offsets.size)
        if not self.places[0].is_all:
            found, own = _among(self.places[0].positions, offsets)
            if not own.size and not are_aligned:
                return None
            places = Selection.of(found, offsets.size)
        rows, columns = self.selections
        return self.at(rows.take(own), columns, (places, self.places[1]))

    def row_counts(self, *, are_exact: bool) -> npt.NDArray[Any]:
        """Return how many elements each row has, at most.

        Where the matrix is stored by columns alone, exact ones are counted, which reads the row
        numbers of the selected columns once; else all rows are taken to have equally many.
        """
        n_rows, n_columns = self.shape
        if not self.is_sparse:
            return np.full(n_rows, n_columns)
        for layout in self.layouts:
            if layout.rows_are_major:
                return major_counts(layout)
        if are_exact:
            return minor_counts(self.plan)
        return np.full(n_rows, count_elements(self.layouts)[0] / max(n_rows, 1))

    def check_current(self) -> None:
        """Refuse a matrix that was replaced, as it is whenever one of its axes is.

        Raises
        ------
        InvalidInputError
            It was.
        """
        stored = self.plan.stored
        info = stored.info
        try:
            is_same = stored.is_same(
                self.daf.open_matrix(info.rows_axis, info.columns_axis, info.name)
            )
        except errors.NotFoundError:
            is_same = False
        if not is_same:
            raise errors.InvalidInputError(
                f"{self.daf.location}: the matrix {self.matrix!r} or one of its axes "
                f"{self.axes[0]!r} and {self.axes[1]!r} was replaced or reordered since this slice "
                "or profile of it was made; make it again"
            )


def _dtype_of(info: MatrixInfo) -> np.dtype[Any]:
    if info.storage_type.is_string:
        return np.dtype(object)
    return info.storage_type.dtype.newbyteorder("=")


def _all_of(selections: Selections) -> Selections:
    rows, columns = selections
    return Selection.all(rows.size), Selection.all(columns.size)


def _among(rows: Positions, offsets: Positions) -> tuple[Positions, Positions]:
    """Return which of the offsets are among the rows, and which of the rows they are.

    >>> [each.tolist() for each in _among(np.array([2, 5, 9]), np.array([0, 2, 5, 6, 9, 10]))]
    [[1, 2, 4], [0, 1, 2]]
    >>> [each.tolist() for each in _among(np.array([], int), np.array([0, 2]))]
    [[], []]
    """
    own = np.searchsorted(rows, offsets)
    is_there = own < rows.size
    is_there[is_there] = rows[own[is_there]] == offsets[is_there]
    return np.flatnonzero(is_there), own[is_there]


@dataclass(frozen=True, slots=True)
class Whole:
    """A slice: of what it consists."""

    name: str
    """The name of the matrix."""
    axes: tuple[EntryAxis, EntryAxis]
    """That of the rows, and that of the columns."""
    selections: Selections
    """The selected entries of each."""
    members: tuple[Part, ...]
    """Those of which something is selected."""
    dtype: np.dtype[Any]
    is_sparse: bool
    fill: Any = 0
    """What is put where an element is missing."""
    given_fill: Any = None
    """What the caller puts there; None for what fits the matrix."""
    aligned: int | None = None
    """Whether the rows (0) or the columns (1) are aligned by name; None of a single data set."""

    @classmethod
    def of(cls, part: Part) -> Self:
        """Return a slice of one data set."""
        daf, lengths = part.daf, part.layouts.lengths  # it may be closed by now
        rows, columns = (
            ConcatenatedAxis(axis, daf.location, {daf.name: daf}, length, is_alone=True)
            for axis, length in zip(part.axes, lengths, strict=True)
        )
        members = (replace(part, places=_all_of(part.selections)),)
        kind = part.dtype, part.is_sparse
        return cls(part.matrix, (rows, columns), part.selections, members, *kind)

    @property
    def is_collection(self) -> bool:
        """Whether it is of a collection, though perhaps of one entry of one data set."""
        return self.aligned is not None

    @property
    def axis_names(self) -> Axes:
        """The names of both axes."""
        return self.axes[0].axis, self.axes[1].axis

    @property
    def shape(self) -> tuple[int, int]:
        """Numbers of rows and of columns."""
        return self.selections[0].size, self.selections[1].size

    @property
    def location(self) -> str:
        """Where the data sets are, for messages."""
        return self.axes[0].location

    def data_version(self, columns: Sequence[str]) -> str | None:  # noqa: ARG002 - of a table
        """Return what differs once a matrix or an axis was changed; see `Source`."""
        versions = [matrix_version(m.daf, *m.axes, m.matrix) for m in self.members]
        return None if None in versions else "\n".join(map(str, versions))

    @property
    def along(self) -> int:
        """Whether the rows (0) or the columns (1) are those of one data set after the other."""
        return 1 if self.aligned == 0 else 0

    @property
    def counts(self) -> dict[str, int]:
        """How many entries of the concatenated axis are of each data set."""
        return {member.name: member.shape[self.along] for member in self.members}

    def missing(self, part: Part) -> Selections:
        """Return the elements that a data set lacks: rows of the whole, ascending, and columns."""
        if self.aligned is None or part.places[self.aligned].size == self.shape[self.aligned]:
            return NONE, NONE
        every = np.arange(self.shape[self.aligned])
        lacks = np.setdiff1d(every, part.places[self.aligned].positions, assume_unique=True)
        found = Selection(lacks)
        return (found, part.places[1]) if self.aligned == 0 else (part.places[0], found)

    @property
    def missing_count(self) -> int:
        """How many elements data sets lack."""
        lacked = map(self.missing, self.members)
        return sum(rows.size * columns.size for rows, columns in lacked)

    @property
    def fills(self) -> bool:
        """Whether missing elements are stored: a sparse result has none where the fill is zero."""
        return not (self.is_sparse and self.fill == 0)

    @property
    def only(self) -> Part | None:
        """The part that is all of the slice, as it is stored; None if there is none."""
        if len(self.members) != 1:
            return None
        [part] = self.members
        is_all = part.places[0].is_all and part.places[1].is_all
        is_same = part.dtype == self.dtype and part.is_sparse == self.is_sparse
        return part if is_all and is_same else None

    @contextmanager
    def unchanged_axes(self) -> Iterator[None]:
        """Refuse what is read meanwhile by positions, if they may mean other entries by now.

        Raises
        ------
        InvalidInputError
            A matrix or an axis was replaced or reordered since the slice was made.
        """
        for member in self.members:
            member.check_current()
        yield
        for member in self.members:
            member.check_current()

    def of_rows(self, span: Span) -> Self:
        """Return neighbouring rows; no values are read."""
        return self.take_rows(np.arange(span.start, span.stop))

    def take_rows(self, offsets: Positions) -> Self:
        """Return some rows, by their offsets, which ascend; no values are read."""
        are_aligned, columns = self.aligned == 0, self.selections[1]
        members = (each.take_rows(offsets, are_aligned=are_aligned) for each in self.members)
        found = tuple(member for member in members if member is not None)
        return replace(self, selections=(self.selections[0].take(offsets), columns), members=found)


def slice_of(
    name: str,
    axes: tuple[EntryAxis, EntryAxis],
    selections: Selections,
    having: Mapping[str, DafReader],
    given_fill: Any = None,
) -> Whole:
    """Plan the part of each data set; column pointers are read, but no values.

    Parameters
    ----------
    having
        The data sets that have the matrix, by name.
    given_fill
        What the caller puts where an element is missing.

    Raises
    ------
    MatrixNotFoundError
        Entries are selected of a data set that lacks the matrix.
    UnsupportedDataError
        The types have none in common.
    InvalidInputError
        The fill value is none of the matrix.
    """
    both = axes[0].axis, axes[1].axis
    number = 0 if isinstance(axes[0], ConcatenatedAxis) else 1
    along, across = axes[number], axes[1 - number]
    if not isinstance(along, ConcatenatedAxis) or not isinstance(across, AlignedAxis):
        [daf] = having.values()
        part = Part.of(daf, both, name, selections)
        return Whole(name, axes, selections, (part,), part.dtype, part.is_sparse)

    def placed(of_along: Selection, of_across: Selection) -> Selections:
        return (of_across, of_along) if number else (of_along, of_across)

    what = f"matrix {name!r} for the axes {both[0]!r} and {both[1]!r}"
    chosen, across_size = selections[number].positions, selections[1 - number].size
    found = {each: own for each, _, *own in across.parts(selections[1 - number].positions)}
    members = []
    for member, daf, mine, own in along.parts(
        chosen, having, what, keyword=("rows", "columns")[number]
    ):
        has, theirs = found[member]
        selected = placed(
            Selection.of(own, daf.axis_length(along.axis)),
            Selection.of(theirs, daf.axis_length(across.axis)),
        )
        places = placed(Selection.of(mine, chosen.size), Selection.of(has, across_size))
        members.append(Part.of(daf, both, name, selected, member, places))
    infos = {member: info_of(daf, both, name) for member, daf in having.items()}
    dtypes = [_dtype_of(info) for info in infos.values()]
    is_sparse = any(info.is_sparse for info in infos.values())
    of_strings = all(dtype.hasobject for dtype in dtypes)
    fill = fill_of(given_fill, is_sparse=is_sparse, of_strings=of_strings)
    lacks_some = any(has.size < across_size for has, _ in found.values())
    is_filled = lacks_some and not (is_sparse and fill == 0)
    try:
        dtype = result_dtype(dtypes, fill, is_filled=is_filled).newbyteorder("=")
    except errors.UnsupportedDataError as error:
        listed = ", ".join(f"{each}: {info.storage_type.value}" for each, info in infos.items())
        raise errors.UnsupportedDataError(
            f"{along.location}: the matrix {name!r} holds {error} ({listed}); connect the data "
            "sets one by one"
        ) from None
    parts = tuple(members)
    return Whole(
        name, axes, selections, parts, dtype, is_sparse, fill, given_fill, aligned=1 - number
    )


def fill_of(given: Any, *, is_sparse: bool, of_strings: bool) -> Any:
    """Return what stands where a data set lacks an entry.

    Raises
    ------
    InvalidInputError
        It is no number, or of a matrix of strings no string.

    >>> fill_of(None, is_sparse=True, of_strings=False)
    0
    >>> fill_of(np.int64(7), is_sparse=False, of_strings=False)
    7
    """
    if given is None:
        default = 0 if is_sparse else np.nan
        return "" if of_strings else default
    is_number = isinstance(given, bool | int | float | np.number | np.bool_)
    if not (isinstance(given, str) if of_strings else is_number):
        what = "string" if of_strings else "number"
        raise errors.InvalidInputError(f"fill_value={given!r} is no {what}, as the matrix holds")
    if isinstance(given, int) and not -(1 << 63) <= given < 1 << 64:
        raise errors.InvalidInputError(f"fill_value={given} has more than 64 bits")
    return given.item() if isinstance(given, np.generic) else given  # of no type of its own


def result_dtype(dtypes: Sequence[np.dtype[Any]], fill: Any, *, is_filled: bool) -> np.dtype[Any]:
    """Return the dtype that holds the values of all, and what is filled in.

    Integers and booleans among which NaN is filled become floats, of 32 bits up to 16 of theirs.

    Raises
    ------
    UnsupportedDataError
        Some are strings, and others are not; or some are Int64, and others UInt64, of which floats
        would round the values.

    >>> result_dtype([np.dtype("u1"), np.dtype("f4")], 0, is_filled=True)
    dtype('float32')
    >>> result_dtype([np.dtype("i4")], float("nan"), is_filled=True)
    dtype('float64')
    >>> result_dtype([np.dtype("u8")], -1, is_filled=True)
    dtype('float64')
    >>> [result_dtype([np.dtype("i1")], fill, is_filled=True).name for fill in (2**63, 1e39, -128)]
    ['float64', 'float64', 'int8']
    """
    of_strings = [dtype.hasobject for dtype in dtypes]
    if all(of_strings):
        return np.dtype(object)
    if any(of_strings):
        raise errors.UnsupportedDataError("strings and numbers have no type in common")
    if np.result_type(*dtypes).kind == "f" and not any(each.kind == "f" for each in dtypes):
        raise errors.UnsupportedDataError("Int64 and UInt64, which have no type in common")
    if not is_filled:
        return np.result_type(*dtypes)
    dtype = promoted(dtypes, fill)
    if dtype.kind == "b":
        return dtype
    limits: Any = np.finfo(dtype) if dtype.kind == "f" else np.iinfo(dtype)
    has_room = int(limits.min) <= fill <= int(limits.max) or not np.isfinite(fill)
    holds_all = has_room and all(np.can_cast(each, dtype) for each in dtypes)
    return dtype if holds_all else np.dtype(np.float64)


# Reading

READ_BYTES: Final = 32 << 20
"""About how large a block is of several data sets, of which several are read at a time."""

THREADS: Final = max(2, min(8, os.cpu_count() or 1))
"""How many blocks are read at a time."""

_LARGEST_INT32: Final = 2**31 - 1

Progress: TypeAlias = Callable[[int], None]
"""Called with the number of stored elements that were read."""


@dataclass(frozen=True, slots=True)
class Figures:
    """What the memory of each form follows from."""

    whole: Whole
    count: int
    """The number of elements: the stored ones of a sparse slice, all of a dense one."""
    is_exact: bool
    """Whether there are so many; if not, there are at most so many."""

    @property
    def item_bytes(self) -> int:
        """Bytes of a value; of a string about."""
        return STRING_BYTES if self.whole.dtype == object else self.whole.dtype.itemsize

    @property
    def index_bytes(self) -> int:
        """Bytes of an index of CSR."""
        return 4 if max(*self.whole.shape, self.count) <= _LARGEST_INT32 else 8

    @property
    def element_bytes(self) -> int:
        """Bytes of an element of CSR."""
        return self.item_bytes + self.index_bytes

    @property
    def csr_bytes(self) -> int:
        """Bytes of the values as CSR."""
        return self.count * self.element_bytes + (self.whole.shape[0] + 1) * self.index_bytes

    @property
    def dense_bytes(self) -> int:
        """Bytes of a dense array."""
        return math.prod(self.whole.shape) * self.item_bytes

    @property
    def result_bytes(self) -> int:
        """Bytes of what `MatrixSlice.values` returns."""
        return self.csr_bytes if self.whole.is_sparse else self.dense_bytes

    def memory_bytes(self) -> dict[str, int]:
        """Bytes of each form but AnnData."""
        count, item_bytes = self.count, self.item_bytes
        rows, columns = self.whole.shape
        is_bool = self.whole.dtype == np.bool_
        wide = columns * -(-rows // 8) if is_bool else self.dense_bytes
        long = -(-count // 8) if is_bool else count * item_bytes
        return {
            "scipy": self.csr_bytes,
            "numpy": self.dense_bytes,
            "pandas": count * (item_bytes + 4) if self.whole.is_sparse else self.dense_bytes,
            "polars": wide,
            "arrow": count * 8 + long,
        }


def figures_of(whole: Whole, result: Any = None) -> Figures:
    """Return how large the values are, at most; exactly, if they are there."""
    if not whole.is_sparse:
        return Figures(whole, math.prod(whole.shape), is_exact=True)
    if result is not None:
        return Figures(whole, int(result.nnz), is_exact=True)
    counts = [count_elements(member.layouts) for member in whole.members]
    # The zeros of dense members are left out.
    is_exact = all(n[1] and each.is_sparse for n, each in zip(counts, whole.members, strict=True))
    filled = whole.missing_count if whole.fills else 0
    return Figures(whole, sum(count for count, _ in counts) + filled, is_exact)


def row_sizes(figures: Figures, *, are_exact: bool) -> npt.NDArray[np.float64]:
    """Return about how many bytes each row of the values takes, at most.

    Parameters
    ----------
    are_exact
        Whether elements of a matrix that is stored by columns alone are counted, which reads their
        row numbers; else all its rows are taken to be of one size.
    """
    whole, n_rows = figures.whole, figures.whole.shape[0]
    if not whole.is_sparse:
        return np.full(n_rows, float(max(whole.shape[1] * figures.item_bytes, 1)))
    elements = np.zeros(n_rows)
    for member in whole.members:
        counts = member.row_counts(are_exact=are_exact)
        elements[member.places[0].positions] += counts
        if whole.fills:
            rows, columns = whole.missing(member)
            elements[rows.positions] += columns.size
    return elements * figures.element_bytes + figures.index_bytes


def read_whole(whole: Whole, progress: Progress = lambda _: None) -> Any:
    """Return the values: ``csr_array`` if sparse, else ``ndarray``."""
    if whole.only is not None:
        return whole.only.layouts.gather(progress)
    figures = figures_of(whole)
    spans = list(cut_at(row_sizes(figures, are_exact=False), READ_BYTES))
    tasks = (partial(_read_block, whole.of_rows(span)) for span in spans)

    def blocks() -> Iterator[Any]:
        for values in computed(tasks, "slices", THREADS):
            check_cancelled()
            yield values
            progress(int(values[-1].size if whole.is_sparse else values.size))

    if whole.is_sparse:
        count = figures.count if figures.is_exact else 0
        return csr_of_blocks(blocks(), whole.shape, whole.dtype, count)
    result = np.empty(whole.shape, whole.dtype)
    for span, values in zip(spans, blocks(), strict=True):
        result[span.slice] = values
    return result


def _read_block(block: Whole) -> Any:
    """Return the values of some rows; of a sparse block, as `csr_of_blocks` takes them."""
    if not block.is_sparse:
        result = np.empty(block.shape, block.dtype)
        if block.missing_count:
            result[:] = block.fill
        for part in block.members:
            if part.shape[0]:
                result[index_of(*part.places)] = part.layouts.gather()
        return result
    rows, columns, data = map(np.concatenate, zip(*_pieces(block), strict=True))
    values = sp.coo_array((data, (rows, columns)), block.shape, block.dtype).tocsr()
    return np.diff(values.indptr), values.indices, values.data


def _pieces(block: Whole) -> Iterator[tuple[npt.NDArray[Any], ...]]:
    """Yield rows, columns and values of the elements of each part, and of what is filled in."""
    yield np.empty(0, np.int32), np.empty(0, np.int32), np.empty(0, block.dtype)
    for part in block.members:
        pieces = [(sp.coo_array(part.layouts.gather()), part.places)] if part.shape[0] else []
        lacks = block.missing(part)
        if block.fills:
            shape = lacks[0].size, lacks[1].size
            pieces.append((sp.coo_array(np.full(shape, block.fill, block.dtype)), lacks))
        for values, places in pieces:
            both = zip(places, (values.row, values.col), strict=True)
            rows, columns = (
                at if each.is_all else each.positions.astype(np.int32).take(at) for each, at in both
            )
            yield rows, columns, values.data

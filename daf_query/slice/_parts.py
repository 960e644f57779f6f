"""Of what a slice consists: the part of each data set, and where it goes in the whole.

A slice of one data set has one part, which is all of it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from typing import Any, Self, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from daf_query.matrix import (
    AlignedAxis,
    ConcatenatedAxis,
    ElementCount,
    PlannedLayouts,
    Readers,
    Selection,
    SlicePlan,
    count_elements,
    find_layouts,
    major_counts,
    minor_counts,
    open_layouts,
)
from daf_query.scan import NAME
from daf_query.slice._selector import MatrixAxes, SliceRequest
from daf_storage import DafReader, MatrixInfo, Origin, errors
from daf_storage.base import Span
from daf_storage.data import matrix_version

Positions: TypeAlias = npt.NDArray[np.int64]

Axes: TypeAlias = tuple[str, str]
"""That of the rows, and that of the columns."""

Selections: TypeAlias = tuple[Selection, Selection]
"""Some rows, and some columns."""

NONE = Selection(np.empty(0, np.int64), is_all=False)


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
        chosen = self.axes, self.matrix, self.selections, self.name, self.places
        return _part_again, (self.daf.require_origin(), *chosen)

    @property
    def plan(self) -> SlicePlan:
        """The stored layout that is read, and about how many bytes of it."""
        return self.layouts.first.plan

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

    def alone(self) -> Part:
        """Return it as all of a slice."""
        return replace(self, places=_all_of(self.selections))

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

    def element_count(self) -> ElementCount:
        """Return how many elements it has, at most; nothing is read."""
        return count_elements(layout.plan for layout in self.layouts)

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
                return major_counts(layout.plan)
        if are_exact:
            return minor_counts(self.plan)
        return np.full(n_rows, self.element_count().count / max(n_rows, 1))

    def names(self, number: int) -> pa.Array:
        """Return the entries of the rows (0) or of the columns (1).

        Raises
        ------
        InvalidInputError
            An axis was replaced or reordered.
        """
        with self.unchanged_axes():
            names = self.daf.get_pa_vector(self.axes[number], NAME)
            return names.take(pa.array(self.selections[number].positions))

    @contextmanager
    def unchanged_axes(self) -> Iterator[None]:
        """Refuse what is read meanwhile by positions, if they may mean other entries by now.

        Raises
        ------
        InvalidInputError
            The matrix or an axis was replaced or reordered since the slice was made.
        """
        self.check_current()
        yield
        self.check_current()

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
                "of it was made; make the slice again"
            )


def _part_again(origin: Origin, *chosen: Any) -> Part:
    return Part.of(origin.open(), *chosen)


def _dtype_of(info: MatrixInfo) -> np.dtype[Any]:
    if info.storage_type.is_string:
        return np.dtype(object)
    return info.storage_type.dtype.newbyteorder("=")


def _all_of(selections: Selections) -> Selections:
    rows, columns = selections
    return Selection.all(rows.size), Selection.all(columns.size)


def _among(rows: Positions, offsets: Positions) -> tuple[Positions, Positions]:
    """Return which of the offsets are among the rows, and which of the rows they are."""
    if not rows.size or not offsets.size or rows[0] > offsets[-1] or rows[-1] < offsets[0]:
        return NONE.positions, NONE.positions
    own = np.searchsorted(rows, offsets)
    is_there = own < rows.size
    is_there[is_there] = rows[own[is_there]] == offsets[is_there]
    return np.flatnonzero(is_there), own[is_there]


@dataclass(frozen=True, slots=True)
class Side:
    """An axis of a slice: which of its entries are selected."""

    axis: str
    selection: Selection
    """Along the axis of one data set, or the concatenated or the aligned axis of several."""
    names: pa.Array | None = None
    """Of an aligned axis, the name of each; those of others are not read yet."""

    def take(self, offsets: Positions) -> Side:
        """Return some of the entries, by their offsets."""
        names = None if self.names is None else self.names.take(pa.array(offsets))
        return Side(self.axis, self.selection.take(offsets), names)


@dataclass(frozen=True, slots=True)
class Joined:
    """How several data sets are one."""

    location: str
    """Where they are, for messages."""
    readers: Readers
    """All of them, by name."""
    axis: AlignedAxis
    given_fill: Any
    """What the caller puts where an element is missing; None for what fits the matrix."""


@dataclass(frozen=True, slots=True)
class Whole:
    """A slice: of what it consists."""

    name: str
    """The name of the matrix."""
    rows: Side
    columns: Side
    members: tuple[Part, ...]
    """Those of which something is selected."""
    dtype: np.dtype[Any]
    is_sparse: bool
    fill: Any = 0
    """What is put where an element is missing."""
    aligned: int | None = None
    """Whether the rows (0) or the columns (1) are aligned by name; None of a single data set."""
    joined: Joined | None = None
    """How several data sets are one; None of a slice of one."""

    @classmethod
    def of(cls, part: Part) -> Self:
        """Return a slice of one data set."""
        rows, columns = map(Side, part.axes, part.selections)
        return cls(part.matrix, rows, columns, (part.alone(),), part.dtype, part.is_sparse)

    @property
    def sides(self) -> tuple[Side, Side]:
        """The rows and the columns."""
        return self.rows, self.columns

    @property
    def shape(self) -> tuple[int, int]:
        """Numbers of rows and of columns."""
        return self.rows.selection.size, self.columns.selection.size

    @property
    def location(self) -> str:
        """Where the data sets are, for messages."""
        if self.joined is not None:
            return self.joined.location
        return ", ".join(dict.fromkeys(member.daf.location for member in self.members[:3]))

    def data_version(self, columns: Sequence[str]) -> str | None:  # noqa: ARG002 - of a table
        """Return what differs once a matrix or an axis was changed; see `Source`."""
        versions = [matrix_version(m.daf, *m.axes, m.matrix) for m in self.members]
        return None if None in versions else "\n".join(map(str, versions))

    @property
    def rows_are_concatenated(self) -> bool:
        """Whether the rows are those of one data set after the other; else the columns are."""
        return self.aligned != 0

    @property
    def counts(self) -> dict[str, int]:
        """How many entries of the concatenated axis are of each data set."""
        number = 0 if self.rows_are_concatenated else 1
        return {member.name: member.shape[number] for member in self.members}

    def missing(self, part: Part) -> Selections:
        """Return the elements that a data set lacks: rows of the whole, ascending, and columns."""
        if self.aligned is None or part.places[self.aligned].size == self.shape[self.aligned]:
            return NONE, NONE
        every = np.arange(self.shape[self.aligned])
        lacks = np.setdiff1d(every, part.places[self.aligned].positions, assume_unique=True)
        found = Selection(lacks, is_all=False)
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
        """Refuse what is read meanwhile by positions, if an axis was replaced or reordered."""
        with ExitStack() as stack:
            for member in self.members:
                stack.enter_context(member.unchanged_axes())
            yield

    def of_rows(self, span: Span) -> Self:
        """Return neighbouring rows; no values are read."""
        return self.take_rows(np.arange(span.start, span.stop))

    def take_rows(self, offsets: Positions) -> Self:
        """Return some rows, by their offsets, which ascend; no values are read."""
        are_aligned = self.aligned == 0
        members = (each.take_rows(offsets, are_aligned=are_aligned) for each in self.members)
        found = tuple(member for member in members if member is not None)
        return replace(self, rows=self.rows.take(offsets), members=found)

    def typed(
        self, kinds: Sequence[tuple[np.dtype[Any], bool]], given_fill: Any, *, lacks_some: bool
    ) -> Self:
        """Return the same slice in the type that holds the values of all data sets.

        Parameters
        ----------
        kinds
            The dtype of each matrix, and whether it is sparse.
        given_fill
            What the caller puts where an element is missing.
        lacks_some
            Whether any may be.

        Raises
        ------
        UnsupportedDataError
            The types have none in common.
        InvalidInputError
            The fill value is none of them.
        """
        dtypes = [dtype for dtype, _ in kinds]
        is_sparse = any(is_sparse for _, is_sparse in kinds)
        of_strings = all(dtype.hasobject for dtype in dtypes)
        fill = fill_of(given_fill, is_sparse=is_sparse, of_strings=of_strings)
        is_filled = lacks_some and not (is_sparse and fill == 0)
        dtype = result_dtype(dtypes, fill, is_filled=is_filled).newbyteorder("=")
        return replace(self, dtype=dtype, is_sparse=is_sparse, fill=fill)


def planned(found: MatrixAxes, request: SliceRequest) -> Whole:
    """Plan the part of each data set; column pointers are read, but no values.

    Raises
    ------
    MatrixNotFoundError
        Entries are selected of a data set that lacks the matrix.
    UnsupportedDataError
        The types have none in common.
    """
    axes, name, both = request.axes, request.name, (found.rows, found.columns)
    number = 0 if isinstance(found.rows, ConcatenatedAxis) else 1
    concatenated, aligned = both[number], both[1 - number]
    if not isinstance(concatenated, ConcatenatedAxis) or not isinstance(aligned, AlignedAxis):
        [daf] = found.having.values()
        return Whole.of(Part.of(daf, axes, name, found.selections))
    along, across = (found.selections[each].positions for each in (number, 1 - number))
    sources = {member: aligned.sources(member, across) for member in found.having}

    def placed(of_along: Selection, of_across: Selection) -> Selections:
        return (of_across, of_along) if number else (of_along, of_across)

    what = f"matrix {name!r} for the axes {axes[0]!r} and {axes[1]!r}"
    members = []
    for member, daf, mine, own in concatenated.parts(
        along, found.having, what, keyword=("rows", "columns")[number]
    ):
        has = np.flatnonzero(sources[member] >= 0)
        selected = placed(
            Selection.of(own, daf.axis_length(concatenated.axis)),
            Selection.of(sources[member][has], daf.axis_length(aligned.axis)),
        )
        places = placed(Selection.of(mine, along.size), Selection.of(has, across.size))
        members.append(Part.of(daf, axes, name, selected, member, places))
    names = aligned.entries.take(pa.array(across))
    rows, columns = (
        Side(axis.axis, chosen, names if axis is aligned else None)
        for axis, chosen in zip(both, found.selections, strict=True)
    )
    readers = Readers(found.tables.readers())
    joined = Joined(found.tables.location, readers, aligned, request.fill_value)
    whole = Whole(
        name,
        rows,
        columns,
        tuple(members),
        dtype=np.dtype(object),
        is_sparse=False,
        aligned=1 - number,
        joined=joined,
    )
    infos = {member: _info(daf, request) for member, daf in found.having.items()}
    kinds = [(_dtype_of(info), info.is_sparse) for info in infos.values()]
    lacks_some = any(bool((each < 0).any()) for each in sources.values())
    try:
        return whole.typed(kinds, request.fill_value, lacks_some=lacks_some)
    except errors.UnsupportedDataError as error:
        listed = ", ".join(f"{each}: {info.storage_type.value}" for each, info in infos.items())
        raise errors.UnsupportedDataError(
            f"{joined.location}: the matrix {name!r} holds {error} ({listed}); connect the data "
            "sets one by one"
        ) from None


def _info(daf: DafReader, request: SliceRequest) -> MatrixInfo:
    stored, faults = open_layouts(daf, request.axes, request.name)
    if not stored:
        raise faults[0]
    return stored[0].info


def fill_of(given: Any, *, is_sparse: bool, of_strings: bool) -> Any:
    """Return what stands where a data set lacks an entry.

    Raises
    ------
    InvalidInputError
        It is no number, or of a matrix of strings no string.

    >>> fill_of(None, is_sparse=True, of_strings=False)
    0
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
    return given


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
    """
    of_strings = [dtype.hasobject for dtype in dtypes]
    if all(of_strings):
        return np.dtype(object)
    if any(of_strings):
        raise errors.UnsupportedDataError("strings and numbers have no type in common")
    dtype = np.result_type(*dtypes)
    if dtype.kind == "f" and not any(each.kind == "f" for each in dtypes):
        raise errors.UnsupportedDataError("Int64 and UInt64, which have no type in common")
    if not is_filled or fill is None:
        return dtype
    if isinstance(fill, bool | np.bool_):
        return np.result_type(dtype, np.bool_)
    if isinstance(fill, int | np.integer) and dtype.kind != "f":
        has_room = dtype.kind in "iu" and np.iinfo(dtype).min <= fill <= np.iinfo(dtype).max
        return dtype if has_room else np.result_type(dtype, np.min_scalar_type(int(fill)))
    if dtype.kind != "f":
        dtype = np.result_type(dtype, np.float32)
    largest = float(np.finfo(dtype).max)
    return np.dtype(np.float64) if largest < abs(fill) < np.inf else dtype

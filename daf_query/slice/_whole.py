"""Of what a slice consists: the part of each data set, and where it goes in the whole.  Pure.

A slice of one data set has one member, which is all of it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Self, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from daf_query.matrix import AlignedAxis, Join, Selection
from daf_query.slice._part import Part
from daf_storage import DafReader, errors
from daf_storage.base import Span

Positions: TypeAlias = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Member:
    """The part of a slice that is of one data set."""

    name: str
    """What the column ``dataset`` calls it."""
    part: Part
    rows: Selection
    """Which row of the whole each row of the part is, ascending."""
    columns: Selection
    """Which column of the whole each column of the part is; each once."""

    def span_in(self, span: Span) -> Span:
        """Return which rows of the part are some rows of the whole."""
        if self.rows.is_all:
            return span
        start, stop = np.searchsorted(self.rows.positions, [span.start, span.stop])
        return Span(int(start), int(stop))

    def of_rows(self, span: Span) -> Member | None:
        """Return what belongs to some rows of the whole, which count from there; None if nothing.

        Nothing is read.
        """
        own = self.span_in(span)
        if self.rows.is_all:
            rows = Selection.all(span.size)
        elif own.size:
            rows = Selection.of(self.rows.positions[own.slice] - span.start, span.size)
        else:
            return None
        return replace(self, part=self.part.of_rows(own), rows=rows)

    def take_rows(self, offsets: Positions) -> Member | None:
        """Return what belongs to some rows of the whole, which ascend; None if nothing."""
        if self.rows.is_all:
            rows = Selection.all(offsets.size)
            return replace(self, part=self.part.take_rows(offsets), rows=rows)
        places, own = _among(self.rows.positions, offsets)
        if not places.size:
            return None
        rows = Selection.of(places, offsets.size)
        return replace(self, part=self.part.take_rows(own), rows=rows)


@dataclass(frozen=True, slots=True)
class Missing:
    """Elements that a data set lacks: some rows of the whole, in some of its columns."""

    rows: Positions
    """Ascending."""
    columns: Positions

    def __reduce__(self) -> Any:
        """Pickle positions in few bytes."""
        packed = (Selection(each, is_all=False) for each in (self.rows, self.columns))
        return _missing_again, tuple(packed)

    @property
    def count(self) -> int:
        """How many elements they are."""
        return self.rows.size * self.columns.size

    def of_rows(self, span: Span) -> Missing:
        """Return what belongs to some rows of the whole, which count from there."""
        start, stop = np.searchsorted(self.rows, [span.start, span.stop])
        return Missing(self.rows[start:stop] - span.start, self.columns)

    def take_rows(self, offsets: Positions) -> Missing:
        """Return what belongs to some rows of the whole, which ascend."""
        return Missing(_among(self.rows, offsets)[0], self.columns)


def _missing_again(rows: Selection, columns: Selection) -> Missing:
    return Missing(rows.positions, columns.positions)


def _among(rows: Positions, offsets: Positions) -> tuple[Positions, Positions]:
    """Return which of the offsets are among the rows, and which of the rows they are."""
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

    def of_rows(self, span: Span) -> Side:
        """Return some of the entries, by their offsets."""
        names = None if self.names is None else self.names.slice(span.start, span.size)
        return Side(self.axis, self.selection.part(span.start, span.stop), names)

    def take(self, offsets: Positions) -> Side:
        """Return some of the entries, by their offsets."""
        names = None if self.names is None else self.names.take(pa.array(offsets))
        return Side(self.axis, self.selection.take(offsets), names)


@dataclass(frozen=True, slots=True)
class Joined:
    """How several data sets are one."""

    location: str
    """Where they are, for messages."""
    readers: Mapping[str, DafReader]
    """All of them, by name."""
    aligned: AlignedAxis
    given_fill: Any
    """What the caller puts where an element is missing; None for what fits the matrix."""

    def __reduce__(self) -> Any:
        """Pickle how the data sets are opened again."""
        origins = {name: daf.require_origin() for name, daf in self.readers.items()}
        return _joined_again, (self.location, origins, self.aligned.description, self.given_fill)

    @property
    def join(self) -> Join:
        """Which entries the aligned axis has."""
        return self.aligned.join


def _joined_again(
    location: str, origins: Mapping[str, Any], description: tuple[Any, ...], given_fill: Any
) -> Joined:
    readers = {name: origin.open() for name, origin in origins.items()}
    return Joined(location, readers, AlignedAxis.described(readers, *description), given_fill)


@dataclass(frozen=True, slots=True)
class Whole:
    """A slice: of what it consists."""

    name: str
    """The name of the matrix."""
    rows: Side
    columns: Side
    members: tuple[Member, ...]
    """Those of which something is selected."""
    dtype: np.dtype[Any]
    is_sparse: bool
    missing: tuple[Missing, ...] = ()
    """What is not there, and filled."""
    fill: Any = 0
    """What is put where an element is missing."""
    joined: Joined | None = None
    """How several data sets are one; None of a slice of one."""

    @classmethod
    def of(cls, part: Part) -> Self:
        """Return a slice of one data set."""
        rows, columns = part.selections
        sides = Side(part.axes[0], rows), Side(part.axes[1], columns)
        places = Selection.all(rows.size), Selection.all(columns.size)
        member = Member(part.daf.name, part, *places)
        return cls(part.name, *sides, (member,), part.dtype, part.is_sparse)

    @property
    def shape(self) -> tuple[int, int]:
        """Numbers of rows and of columns."""
        return self.rows.selection.size, self.columns.selection.size

    @property
    def location(self) -> str:
        """Where the data sets are, for messages."""
        return self.members[0].part.daf.location if self.joined is None else self.joined.location

    @property
    def rows_are_concatenated(self) -> bool:
        """Whether the rows are those of one data set after the other; else the columns are."""
        return self.rows.names is None

    @property
    def fills(self) -> bool:
        """Whether missing elements are stored: a sparse result has none where the fill is zero."""
        return bool(self.missing) and not (self.is_sparse and self.fill == 0)

    @property
    def only(self) -> Part | None:
        """The part that is all of the slice, as it is stored; None if there is none."""
        if len(self.members) != 1:
            return None
        member = self.members[0]
        part = member.part
        is_all = member.rows.is_all and member.columns.is_all
        is_same = part.dtype == self.dtype and part.is_sparse == self.is_sparse
        return part if is_all and is_same else None

    def of_rows(self, span: Span) -> Self:
        """Return some rows; nothing is read."""
        members = (member.of_rows(span) for member in self.members)
        return replace(
            self,
            rows=self.rows.of_rows(span),
            members=tuple(member for member in members if member is not None),
            missing=tuple(each.of_rows(span) for each in self.missing),
        )

    def take_rows(self, offsets: Positions, ranges: RowRanges) -> Self:
        """Return some rows, by their offsets, which ascend; nothing is read.

        Parameters
        ----------
        ranges
            Where the rows of each part are, which is the same for every call: only parts that may
            have some of the rows are looked at.
        """
        numbers = [0] if self.joined is None else ranges.members(offsets)
        members = (self.members[number].take_rows(offsets) for number in numbers)
        missing = (self.missing[number].take_rows(offsets) for number in ranges.missing(offsets))
        return replace(
            self,
            rows=self.rows.take(offsets),
            members=tuple(member for member in members if member is not None),
            missing=tuple(missing),
        )


@dataclass(frozen=True, slots=True)
class RowRanges:
    """The first and the last row of the whole of each of its parts."""

    of_members: npt.NDArray[np.int64]
    """A row for each member."""
    of_missing: npt.NDArray[np.int64]
    """A row for each `Missing`; the last before the first if it has no rows."""

    @classmethod
    def of(cls, whole: Whole) -> RowRanges:
        """Return those of a slice."""
        return cls(
            _ends([member.rows.positions for member in whole.members]),
            _ends([each.rows for each in whole.missing]),
        )

    def members(self, offsets: Positions) -> list[int]:
        """Return the numbers of the members that may have some of the rows, which ascend."""
        return _reached(self.of_members, offsets)

    def missing(self, offsets: Positions) -> list[int]:
        """Return which missing parts may have some of the rows; one at least, if there are any."""
        return _reached(self.of_missing, offsets) or [0][: len(self.of_missing)]


def _ends(of_rows: Sequence[Positions]) -> npt.NDArray[np.int64]:
    ends = [(rows[0], rows[-1]) if rows.size else (0, -1) for rows in of_rows]
    return np.array(ends, np.int64).reshape(-1, 2)


def _reached(ends: npt.NDArray[np.int64], offsets: Positions) -> list[int]:
    before = np.searchsorted(offsets, ends[:, 0])
    behind = np.searchsorted(offsets, ends[:, 1], side="right")
    numbers: list[int] = np.flatnonzero(before < behind).tolist()
    return numbers


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
    if not (isinstance(given, str) if of_strings else _is_number(given)):
        what = "string" if of_strings else "number"
        raise errors.InvalidInputError(f"fill_value={given!r} is no {what}, as the matrix holds")
    if isinstance(given, int) and not -(1 << 63) <= given < 1 << 64:
        raise errors.InvalidInputError(f"fill_value={given} has more than 64 bits")
    return given


def _is_number(value: object) -> bool:
    return isinstance(value, bool | int | float | np.number | np.bool_)


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
        return np.result_type(dtype, _smallest_integer(int(fill), dtype))
    if dtype.kind != "f":
        dtype = np.result_type(dtype, np.float32)
    largest = float(np.finfo(dtype).max)
    return np.dtype(np.float64) if largest < abs(fill) < np.inf else dtype


def _smallest_integer(fill: int, dtype: np.dtype[Any]) -> np.dtype[Any]:
    """Return the integers that an integer needs, if those of a dtype do not hold it."""
    if dtype.kind in "iu" and np.iinfo(dtype).min <= fill <= np.iinfo(dtype).max:
        return dtype
    return np.min_scalar_type(fill)

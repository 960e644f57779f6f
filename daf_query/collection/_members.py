"""The parts of a slice that are of one data set each, and where they go in the whole.  Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from daf_query.matrix import AlignedAxis, ConcatenatedAxis, Join
from daf_query.slice import MatrixSlice
from daf_storage import errors
from daf_storage.spi import Span

Positions: TypeAlias = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Member:
    """The part of a slice that is of one data set."""

    name: str
    """What the column ``dataset`` calls it."""
    part: MatrixSlice
    rows: Positions
    """Which row of the whole each row of the part is, ascending."""
    columns: Positions
    """Which column of the whole each column of the part is; each once."""

    def of_rows(self, span: Span) -> Member | None:
        """Return what belongs to some rows of the whole, which count from there; None if nothing.

        Nothing is read.
        """
        start, stop = (int(each) for each in np.searchsorted(self.rows, [span.start, span.stop]))
        if start == stop:
            return None
        rows = self.rows[start:stop] - span.start
        return replace(self, part=self.part.of_rows(Span(start, stop)), rows=rows)

    def take_rows(self, offsets: Positions) -> Member | None:
        """Return what belongs to some rows of the whole, which ascend; None if nothing."""
        rows, own = _among(self.rows, offsets)
        return replace(self, part=self.part.take_rows(own), rows=rows) if rows.size else None


@dataclass(frozen=True, slots=True)
class Missing:
    """Elements that a data set lacks: some rows of the whole, in some of its columns."""

    rows: Positions
    """Ascending."""
    columns: Positions

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
    positions: Positions
    """Along the concatenated or the aligned axis."""
    names: pa.Array | None
    """Of the aligned axis, the name of each; those of the concatenated one are not read yet."""


@dataclass(frozen=True, slots=True)
class Whole:
    """A slice of several data sets: of what it consists."""

    location: str
    """Where the data sets are, for messages."""
    name: str
    """The name of the matrix."""
    rows: Side
    columns: Side
    members: tuple[Member, ...]
    """Those of which something is selected."""
    missing: tuple[Missing, ...]
    """What is not there, and filled."""
    dtype: np.dtype[Any]
    is_sparse: bool
    fill: Any
    """What is put where an element is missing."""
    given_fill: Any
    """The same as the caller gave it; None for what fits the matrix."""
    join: Join

    @property
    def shape(self) -> tuple[int, int]:
        """Numbers of rows and of columns."""
        return self.rows.positions.size, self.columns.positions.size

    @property
    def rows_are_concatenated(self) -> bool:
        """Whether the rows are those of one data set after the other; else the columns are."""
        return self.rows.names is None

    @property
    def fills(self) -> bool:
        """Whether missing elements are stored: a sparse result has none where the fill is zero."""
        return bool(self.missing) and not (self.is_sparse and self.fill == 0)

    def of_rows(self, span: Span) -> Whole:
        """Return some rows; nothing is read."""
        rows = self.rows
        names = None if rows.names is None else rows.names.slice(span.start, span.size)
        members = (member.of_rows(span) for member in self.members)
        return replace(
            self,
            rows=Side(rows.axis, rows.positions[span.slice], names),
            members=tuple(member for member in members if member is not None),
            missing=tuple(each.of_rows(span) for each in self.missing),
        )

    def take_rows(self, offsets: Positions, ranges: RowRanges | None = None) -> Whole:
        """Return some rows, by their offsets, which ascend; nothing is read.

        Parameters
        ----------
        ranges
            Where the rows of each part are, which is the same for every call: only parts that may
            have some of the rows are looked at.
        """
        ranges = RowRanges.of(self) if ranges is None else ranges
        rows = self.rows
        names = None if rows.names is None else rows.names.take(pa.array(offsets))
        members = (self.members[number].take_rows(offsets) for number in ranges.members(offsets))
        missing = (self.missing[number].take_rows(offsets) for number in ranges.missing(offsets))
        return replace(
            self,
            rows=Side(rows.axis, rows.positions[offsets], names),
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
        return cls(_ends(whole.members), _ends(whole.missing))

    def members(self, offsets: Positions) -> list[int]:
        """Return the numbers of the members that may have some of the rows, which ascend."""
        return _reached(self.of_members, offsets)

    def missing(self, offsets: Positions) -> list[int]:
        """Return which missing parts may have some of the rows; one at least, if there are any."""
        return _reached(self.of_missing, offsets) or [0][: len(self.of_missing)]


def _ends(parts: Sequence[Member] | Sequence[Missing]) -> npt.NDArray[np.int64]:
    ends = [(p.rows[0], p.rows[-1]) if p.rows.size else (0, -1) for p in parts]
    return np.array(ends, np.int64).reshape(-1, 2)


def _reached(ends: npt.NDArray[np.int64], offsets: Positions) -> list[int]:
    before = np.searchsorted(offsets, ends[:, 0])
    behind = np.searchsorted(offsets, ends[:, 1], side="right")
    numbers: list[int] = np.flatnonzero(before < behind).tolist()
    return numbers


@dataclass(frozen=True, slots=True)
class Placed:
    """Where the selected entries of one data set are, along both axes of a slice."""

    concatenated: Positions
    """Along the concatenated axis, which of the whole they are."""
    own: Positions
    """Their positions in the data set."""
    aligned: Positions
    """Along the aligned axis, which of the whole the data set has."""
    own_aligned: Positions
    """Their positions in the data set."""
    lacking: Positions
    """Along the aligned axis, which of the whole it lacks."""


def placed(
    concatenated: ConcatenatedAxis,
    aligned: AlignedAxis,
    selected: tuple[Positions, Positions],
) -> dict[str, Placed]:
    """Return where the entries of each data set are that has some of the concatenated axis.

    Parameters
    ----------
    selected
        The selected positions along the concatenated axis, and along the aligned one.

    Raises
    ------
    MatrixNotFoundError
        Entries of a data set are selected that does not take part in the aligned axis.
    """
    owners, own = concatenated.split(selected[0])
    places = {}
    for number, name in enumerate(concatenated.names):
        mine = np.flatnonzero(owners == number)
        if not mine.size:
            continue
        if name not in aligned.positions:
            raise errors.MatrixNotFoundError(name)
        sources = aligned.sources(name, selected[1])
        has = np.flatnonzero(sources >= 0)
        places[name] = Placed(mine, own[mine], has, sources[has], np.flatnonzero(sources < 0))
    return places


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

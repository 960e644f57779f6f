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

from daf_query.matrix import AlignedAxis, Selection
from daf_query.slice._part import Part
from daf_storage import DafReader, errors
from daf_storage.base import Span

Positions: TypeAlias = npt.NDArray[np.int64]

_NONE = Selection(np.empty(0, np.int64), is_all=False)


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
    missing: tuple[Selection, Selection] = (_NONE, _NONE)
    """The elements that it lacks: rows of the whole, ascending, and columns."""

    @property
    def missing_count(self) -> int:
        """How many elements it lacks."""
        return self.missing[0].size * self.missing[1].size

    def of_rows(self, span: Span) -> Member | None:
        """Return what belongs to some rows of the whole, which count from there; None if nothing.

        No values are read.
        """
        lacks = self.missing[0].positions
        lacked = _cut(lacks, span)
        missing = Selection(lacks[lacked.slice] - span.start, is_all=False), self.missing[1]
        own, rows = span, Selection.all(span.size)
        if not self.rows.is_all:
            own = _cut(self.rows.positions, span)
            rows = Selection.of(self.rows.positions[own.slice] - span.start, span.size)
        if not (self.rows.is_all or rows.size or lacked.size):
            return None
        return replace(self, part=self.part.of_rows(own), rows=rows, missing=missing)

    def take_rows(self, offsets: Positions) -> Member | None:
        """Return what belongs to some rows of the whole, which ascend; None if nothing."""
        lacked, _ = _among(self.missing[0].positions, offsets)
        missing = Selection(lacked, is_all=False), self.missing[1]
        own, rows = offsets, Selection.all(offsets.size)
        if not self.rows.is_all:
            places, own = _among(self.rows.positions, offsets)
            rows = Selection.of(places, offsets.size)
        if not (self.rows.is_all or own.size or lacked.size):
            return None
        return replace(self, part=self.part.take_rows(own), rows=rows, missing=missing)


def _cut(positions: Positions, span: Span) -> Span:
    """Return which of some ascending positions are within a span."""
    start, stop = np.searchsorted(positions, [span.start, span.stop])
    return Span(int(start), int(stop))


def _among(rows: Positions, offsets: Positions) -> tuple[Positions, Positions]:
    """Return which of the offsets are among the rows, and which of the rows they are."""
    if not rows.size or not offsets.size or rows[0] > offsets[-1] or rows[-1] < offsets[0]:
        return _NONE.positions, _NONE.positions
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
        return _joined_again, (self.location, origins, self.aligned, self.given_fill)


def _joined_again(
    location: str, origins: Mapping[str, Any], aligned: AlignedAxis, given_fill: Any
) -> Joined:
    readers = {name: origin.open() for name, origin in origins.items()}
    return Joined(location, readers, aligned, given_fill)


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
        return ", ".join(dict.fromkeys(member.part.location for member in self.members[:3]))

    def data_version(self, columns: Sequence[str]) -> str | None:
        """Return what differs once a matrix or an axis was changed; see `Source`."""
        versions = [member.part.data_version(columns) for member in self.members]
        return None if None in versions else "\n".join(map(str, versions))

    @property
    def rows_are_concatenated(self) -> bool:
        """Whether the rows are those of one data set after the other; else the columns are."""
        return self.rows.names is None

    @property
    def missing_count(self) -> int:
        """How many elements data sets lack."""
        return sum(member.missing_count for member in self.members)

    @property
    def fills(self) -> bool:
        """Whether missing elements are stored: a sparse result has none where the fill is zero."""
        return self.missing_count > 0 and not (self.is_sparse and self.fill == 0)

    @property
    def only(self) -> Part | None:
        """The part that is all of the slice, as it is stored; None if there is none."""
        if len(self.members) != 1:
            return None
        [member] = self.members
        part = member.part
        is_all = member.rows.is_all and member.columns.is_all
        is_same = part.dtype == self.dtype and part.is_sparse == self.is_sparse
        return part if is_all and is_same else None

    def of_rows(self, span: Span) -> Self:
        """Return some rows; no values are read."""
        members = (member.of_rows(span) for member in self.members)
        return replace(
            self,
            rows=self.rows.of_rows(span),
            members=tuple(member for member in members if member is not None),
        )

    def take_rows(self, offsets: Positions) -> Self:
        """Return some rows, by their offsets, which ascend; no values are read."""
        members = (member.take_rows(offsets) for member in self.members)
        return replace(
            self,
            rows=self.rows.take(offsets),
            members=tuple(member for member in members if member is not None),
        )

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

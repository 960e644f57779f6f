"""Make a slice: choose entries of both axes, align those of several data sets, plan the parts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, get_args

import numpy as np
import pyarrow as pa

from daf_query.matrix import (
    AlignedAxis,
    ConcatenatedAxis,
    Join,
    Selection,
    aligned_axis,
    concatenated_axis,
    concatenated_of,
    open_layouts,
)
from daf_query.slice._asked import Asked, EmptySelection, Written, empty_selection, written_selector
from daf_query.slice._explanation import check_budget, explain
from daf_query.slice._matrix_slice import MatrixSlice
from daf_query.slice._member_selector import resolve_aligned, resolve_concatenated
from daf_query.slice._part import CurrentAxes, Part
from daf_query.slice._selector import Selector, resolve
from daf_query.slice._whole import (
    Joined,
    Member,
    Missing,
    Positions,
    Side,
    Whole,
    fill_of,
    result_dtype,
)
from daf_query.sql import AxisSchema, Engine
from daf_query.syntax import is_select
from daf_storage import DafReader, errors

_JOINS: Final = get_args(Join)
_KEYWORDS: Final = ("rows", "columns")


@dataclass(frozen=True, slots=True)
class SliceRequest:
    """What a slice is asked for."""

    axes: tuple[str, str]
    """That of the rows, and that of the columns."""
    name: str
    """The name of the matrix."""
    rows: Selector = None
    columns: Selector = None
    join: Join = "inner"
    """Of several data sets, which entries the aligned axis has."""
    fill_value: Any = None
    """What stands where one of them lacks an entry; None for 0 if sparse, else NaN."""
    along: str | None = None
    """The axis that is concatenated; None to find out."""


@dataclass(frozen=True, slots=True)
class Axes:
    """The two axes of a matrix of several data sets."""

    concatenated: ConcatenatedAxis
    aligned: AlignedAxis
    aligned_rows: ConcatenatedAxis
    """The aligned axis as the rows of its union table."""
    rows_are_concatenated: bool

    def written(
        self, selectors: tuple[Selector, Selector], selected: tuple[Positions, Positions]
    ) -> tuple[Written, Written]:
        """Return both selectors as they were written, for a provenance.

        Parameters
        ----------
        selected
            The positions along the concatenated axis, and along the aligned one.
        """
        lengths = (self.concatenated.length, self.aligned.length)
        counts = [(each.size, length) for each, length in zip(selected, lengths, strict=True)]
        if not self.rows_are_concatenated:
            counts.reverse()
        rows, columns = (
            written_selector(selector, *count)
            for selector, count in zip(selectors, counts, strict=True)
        )
        return rows, columns


def collection_axes(
    tables: AxisSchema,
    having: Mapping[str, DafReader],
    axes: tuple[str, str],
    join: Join,
    along: str | None,
) -> Axes:
    """Return both axes; the entries of the aligned one are read.

    Raises
    ------
    InvalidInputError
        The join is none, or ``along`` none of the axes; or an inner join leaves nothing.
    """
    if join not in _JOINS:
        raise errors.InvalidInputError(f"join={join!r} is neither 'inner' nor 'outer'")
    location = tables.location
    first = concatenated_of(having.values(), axes, along, location=location)
    second = axes[1] if first == axes[0] else axes[0]
    readers = tables.readers()
    aligned = aligned_axis(having, second, join, location=location)
    aligned.refuse_nothing_in_common()
    return Axes(
        concatenated_axis(readers, first, location=location),
        aligned,
        concatenated_axis(readers, second, location=location),
        rows_are_concatenated=first == axes[0],
    )


def matrix_slice(
    engine: Engine, schema: str, request: SliceRequest, *, max_bytes: int | None
) -> MatrixSlice:
    """Return a slice; see `DafSession.matrix`."""
    tables = engine.connections.schemas[schema]
    if tables.is_collection:
        whole, written, empty = _of_several(engine, tables, request)
    else:
        whole, written, empty = _of_one(engine, schema, request)
    described = engine.connections.provenance
    if max_bytes is not None:
        check_budget(explain(whole), max_bytes)
    return MatrixSlice(whole, Asked(schema, *written, is_described=described, empty=empty))


_Chosen = tuple[Whole, tuple[Written, Written], tuple[EmptySelection, ...]]


def _of_one(engine: Engine, schema: str, request: SliceRequest) -> _Chosen:
    """Return a slice of one data set, and what chose its entries."""
    daf, axes = engine.connections.reader(schema), request.axes
    current = CurrentAxes(daf, axes)
    chosen, written, empty = [], [], []
    selectors = (request.rows, request.columns)
    for axis, other, selector, keyword in zip(axes, axes[::-1], selectors, _KEYWORDS, strict=True):
        length = current.lengths[axis]
        selection = resolve(
            engine, schema, axis, selector, keyword=keyword, other=other, length=length
        )
        chosen.append(selection)
        written.append(written_selector(selector, selection.size, length))
        empty.append(empty_selection(axis, selector, selection, keyword=keyword))
    part = Part.of(daf, axes, request.name, (chosen[0], chosen[1]), current)
    known = tuple(each for each in empty if each is not None)
    return Whole.of(part), (written[0], written[1]), known


def _of_several(engine: Engine, tables: AxisSchema, request: SliceRequest) -> _Chosen:
    """Return a slice of several data sets as one, and what chose its entries."""
    having = tables.matrix_readers(request.axes, request.name)
    axes = collection_axes(tables, having, request.axes, request.join, request.along)
    selectors = (request.rows, request.columns)
    selected = resolve_both(engine, tables.name, axes, selectors)
    whole = _whole_of(axes, having, tables.readers(), selected, request)
    both = selected if axes.rows_are_concatenated else selected[::-1]
    empty = tuple(
        EmptySelection(keyword, axis, selector.strip())
        for keyword, axis, selector, positions in zip(
            _KEYWORDS, request.axes, selectors, both, strict=True
        )
        if isinstance(selector, str) and not is_select(selector) and not positions.size
    )
    return whole, axes.written(selectors, selected), empty


def resolve_both(
    engine: Engine, schema: str, axes: Axes, selectors: tuple[Selector, Selector]
) -> tuple[Positions, Positions]:
    """Return the positions along the concatenated axis, and along the aligned one.

    Parameters
    ----------
    selectors
        That of the rows, and that of the columns.

    Raises
    ------
    NotFoundError, QueryError, InvalidInputError
        One of them chooses something else.
    """
    number = 0 if axes.rows_are_concatenated else 1
    concatenated = resolve_concatenated(
        engine,
        schema,
        axes.concatenated,
        selectors[number],
        keyword=_KEYWORDS[number],
        other=axes.aligned.axis,
    )
    aligned = resolve_aligned(
        engine,
        schema,
        axes.aligned,
        axes.aligned_rows,
        selectors[1 - number],
        keyword=_KEYWORDS[1 - number],
        other=axes.concatenated.axis,
    )
    return concatenated, aligned


def _whole_of(
    axes: Axes,
    having: Mapping[str, DafReader],
    readers: Mapping[str, DafReader],
    selected: tuple[Positions, Positions],
    request: SliceRequest,
) -> Whole:
    """Plan the part of each data set; column pointers are read, but no values.

    Parameters
    ----------
    selected
        The positions along the concatenated axis, and along the aligned one.

    Raises
    ------
    MatrixNotFoundError
        Entries are selected of a data set that lacks the matrix.
    UnsupportedDataError
        The types have none in common.
    """
    location = axes.concatenated.location
    try:
        places = _placed(axes.concatenated, axes.aligned, selected)
    except errors.MatrixNotFoundError as error:
        raise _lacking(axes, request, str(error)) from None
    infos = {name: _info(daf, request) for name, daf in having.items()}
    is_sparse = any(info.is_sparse for info in infos.values())
    lacks_some = any(bool((axes.aligned.sources(name, selected[1]) < 0).any()) for name in having)
    dtypes = [
        np.dtype(object) if info.storage_type.is_string else info.storage_type.dtype
        for info in infos.values()
    ]
    of_strings = all(dtype.hasobject for dtype in dtypes)
    fill = fill_of(request.fill_value, is_sparse=is_sparse, of_strings=of_strings)
    is_filled = lacks_some and not (is_sparse and fill == 0)
    try:
        dtype = result_dtype(dtypes, fill, is_filled=is_filled)
    except errors.UnsupportedDataError as error:
        listed = ", ".join(f"{name}: {infos[name].storage_type.value}" for name in infos)
        raise errors.UnsupportedDataError(
            f"{location}: the matrix {request.name!r} holds {error} ({listed}); connect the data "
            "sets one by one"
        ) from None
    sides = (
        Side(axes.concatenated.axis, Selection(selected[0], is_all=False)),
        Side(
            axes.aligned.axis,
            Selection(selected[1], is_all=False),
            axes.aligned.entries.take(pa.array(selected[1])),
        ),
    )
    rows, columns = sides if axes.rows_are_concatenated else sides[::-1]
    members, missing = [], []
    for name, place in places.items():
        member = _member(name, having[name], place, axes, selected, request)
        members.append(member)
        if place.lacking.size:
            lacking = (place.concatenated, place.lacking)
            missing.append(Missing(*(lacking if axes.rows_are_concatenated else lacking[::-1])))
    return Whole(
        request.name,
        rows,
        columns,
        tuple(members),
        dtype.newbyteorder("="),
        is_sparse,
        tuple(missing),
        fill,
        Joined(location, readers, axes.aligned, request.fill_value),
    )


def _lacking(axes: Axes, request: SliceRequest, name: str) -> errors.MatrixNotFoundError:
    keyword = "rows" if axes.rows_are_concatenated else "columns"
    return errors.MatrixNotFoundError(
        f"{axes.concatenated.location}: {keyword}= has entries of {name!r}, which has no matrix "
        f"{request.name!r} for the axes {request.axes[0]!r} and {request.axes[1]!r}; leave it out: "
        f"{keyword}=\"dataset <> '{name}'\""
    )


def _info(daf: DafReader, request: SliceRequest) -> Any:
    stored, faults = open_layouts(daf, request.axes, request.name)
    if not stored:
        raise faults[0]
    return stored[0].info


def _member(
    name: str,
    daf: DafReader,
    place: _Placed,
    axes: Axes,
    selected: tuple[Positions, Positions],
    request: SliceRequest,
) -> Member:
    pairs = (
        (place.own, daf.axis_length(axes.concatenated.axis)),
        (place.own_aligned, daf.axis_length(axes.aligned.axis)),
        (place.concatenated, selected[0].size),
        (place.aligned, selected[1].size),
    )
    own, own_aligned, concatenated, aligned = (Selection.of(*pair) for pair in pairs)
    if axes.rows_are_concatenated:
        part = Part.of(daf, request.axes, request.name, (own, own_aligned))
        return Member(name, part, concatenated, aligned)
    part = Part.of(daf, request.axes, request.name, (own_aligned, own))
    return Member(name, part, aligned, concatenated)


@dataclass(frozen=True, slots=True)
class _Placed:
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


def _placed(
    concatenated: ConcatenatedAxis,
    aligned: AlignedAxis,
    selected: tuple[Positions, Positions],
) -> dict[str, _Placed]:
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
        places[name] = _Placed(mine, own[mine], has, sources[has], np.flatnonzero(sources < 0))
    return places

"""Make a slice of several data sets: align, choose entries, and plan the part of each."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, get_args

import numpy as np
import pyarrow as pa

from daf_query.collection._collection_slice import CollectionSlice
from daf_query.collection._members import (
    Member,
    Missing,
    Placed,
    Positions,
    Side,
    Whole,
    fill_of,
    placed,
    result_dtype,
)
from daf_query.collection._selectors import resolve_aligned, resolve_concatenated
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
from daf_query.slice import (
    Asked,
    EmptySelection,
    Selector,
    Written,
    slice_matrix,
    written_selector,
)
from daf_query.sql import CollectionSchema, Engine
from daf_query.syntax import is_select
from daf_storage import DafReader, errors

_JOINS: Final = get_args(Join)


@dataclass(frozen=True, slots=True)
class CollectionRequest:
    """What a slice of several data sets is asked for."""

    axes: tuple[str, str]
    """That of the rows, and that of the columns."""
    name: str
    """The name of the matrix."""
    rows: Selector = None
    columns: Selector = None
    join: Join = "inner"
    fill_value: Any = None
    """What stands where a data set lacks an entry; None for 0 if sparse, else NaN."""
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
    tables: CollectionSchema,
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


def collection_slice(
    engine: Engine, tables: CollectionSchema, request: CollectionRequest, *, max_bytes: int | None
) -> CollectionSlice:
    """Return a slice of several data sets; see `DafSession.matrix`."""
    having = tables.matrix_readers(request.axes, request.name)
    axes = collection_axes(tables, having, request.axes, request.join, request.along)
    selectors = (request.rows, request.columns)
    selected = resolve_both(engine, tables.name, axes, selectors)
    whole = whole_of(axes, having, selected, request)
    asked = Asked(
        tables.name,
        *axes.written(selectors, selected),
        is_described=engine.connections.provenance,
        empty=_empty(axes, request, selected),
    )
    part = CollectionSlice(whole, tables.readers(), axes.aligned, asked)
    if max_bytes is not None:
        part.check_budget(max_bytes)
    return part


def _empty(
    axes: Axes, request: CollectionRequest, selected: tuple[Positions, Positions]
) -> tuple[EmptySelection, ...]:
    """Return the predicates that select nothing."""
    both = selected if axes.rows_are_concatenated else selected[::-1]
    return tuple(
        EmptySelection(keyword, axis, selector.strip(), ())
        for keyword, axis, selector, positions in zip(
            ("rows", "columns"), request.axes, (request.rows, request.columns), both, strict=True
        )
        if isinstance(selector, str) and not is_select(selector) and not positions.size
    )


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
    keywords = ("rows", "columns")
    concatenated = resolve_concatenated(
        engine,
        schema,
        axes.concatenated,
        selectors[number],
        keyword=keywords[number],
        other=axes.aligned.axis,
    )
    aligned = resolve_aligned(
        engine,
        schema,
        axes.aligned,
        axes.aligned_rows,
        selectors[1 - number],
        keyword=keywords[1 - number],
        other=axes.concatenated.axis,
    )
    return concatenated, aligned


def whole_of(
    axes: Axes,
    having: Mapping[str, DafReader],
    selected: tuple[Positions, Positions],
    request: CollectionRequest,
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
        places = placed(axes.concatenated, axes.aligned, selected)
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
    members, missing = [], []
    for name, place in places.items():
        member, lacking = _member(name, having[name], place, axes, request)
        members.append(member)
        if lacking.columns.size and lacking.rows.size:
            missing.append(lacking)
    sides = _sides(axes, selected)
    return Whole(
        location,
        request.name,
        *sides,
        members=tuple(members),
        missing=tuple(missing),
        dtype=dtype.newbyteorder("="),
        is_sparse=is_sparse,
        fill=fill,
        given_fill=request.fill_value,
        join=request.join,
    )


def _sides(axes: Axes, selected: tuple[Positions, Positions]) -> tuple[Side, Side]:
    first = Side(axes.concatenated.axis, selected[0], None)
    names = axes.aligned.entries.take(pa.array(selected[1]))
    second = Side(axes.aligned.axis, selected[1], names)
    return (first, second) if axes.rows_are_concatenated else (second, first)


def _lacking(axes: Axes, request: CollectionRequest, name: str) -> errors.MatrixNotFoundError:
    keyword = "rows" if axes.rows_are_concatenated else "columns"
    return errors.MatrixNotFoundError(
        f"{axes.concatenated.location}: {keyword}= has entries of {name!r}, which has no matrix "
        f"{request.name!r} for the axes {request.axes[0]!r} and {request.axes[1]!r}; leave it out: "
        f"{keyword}=\"dataset <> '{name}'\""
    )


def _info(daf: DafReader, request: CollectionRequest) -> Any:
    stored, faults = open_layouts(daf, request.axes, request.name)
    if not stored:
        raise faults[0]
    return stored[0].info


def _member(
    name: str,
    daf: DafReader,
    place: Placed,
    axes: Axes,
    request: CollectionRequest,
) -> tuple[Member, Missing]:
    lengths = (daf.axis_length(axes.concatenated.axis), daf.axis_length(axes.aligned.axis))
    concatenated = Selection.of(place.own, lengths[0])
    aligned = Selection.of(place.own_aligned, lengths[1])
    if axes.rows_are_concatenated:
        part = slice_matrix(daf, *request.axes, request.name, concatenated, aligned)
        member = Member(name, part, place.concatenated, place.aligned)
        return member, Missing(place.concatenated, place.lacking)
    part = slice_matrix(daf, *request.axes, request.name, aligned, concatenated)
    member = Member(name, part, place.aligned, place.concatenated)
    return member, Missing(place.lacking, place.concatenated)

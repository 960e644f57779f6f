"""Make a slice: choose entries of both axes, align those of several data sets, plan the parts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Final, get_args

import numpy as np
import pyarrow as pa

from daf_query.matrix import (
    AlignedAxis,
    ConcatenatedAxis,
    EntryAxis,
    Join,
    Selection,
    aligned_axis,
    concatenated_of,
    open_layouts,
)
from daf_query.slice._explanation import check_budget, explain
from daf_query.slice._matrix_slice import Asked, MatrixSlice
from daf_query.slice._parts import Joined, Part, Selections, Side, Whole
from daf_query.slice._selector import Chosen, Selector, resolve
from daf_query.sql import AxisSchema, Engine, missing_base
from daf_storage import DafReader, errors

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
class MatrixAxes:
    """The two axes of a matrix, of a data set or of several, and what is selected of them."""

    tables: AxisSchema
    having: Mapping[str, DafReader]
    """The data sets that have the matrix, by name."""
    rows: EntryAxis
    columns: EntryAxis
    chosen: tuple[Chosen, Chosen]
    """The rows and the columns that are selected."""

    @property
    def aligned(self) -> AlignedAxis | None:
        """The axis that is aligned by name; None of a single data set."""
        return next((e for e in (self.rows, self.columns) if isinstance(e, AlignedAxis)), None)

    @property
    def selections(self) -> tuple[Selection, Selection]:
        """The selected rows and columns."""
        return self.chosen[0].selection, self.chosen[1].selection


def matrix_axes(engine: Engine, schema: str, request: SliceRequest) -> MatrixAxes:
    """Return both axes of a matrix, and which entries are selected.

    Raises
    ------
    NotFoundError, QueryError
        There is no such matrix, axis or entry; or a selector is wrong.
    InvalidInputError
        The join is none, or ``along`` none of the axes; or an inner join leaves nothing.
    """
    tables, axes = engine.connections.schemas[schema], request.axes
    try:
        having = tables.matrix_readers(axes, request.name)
    except errors.AxisNotFoundError as error:
        hint = missing_base(tables.only.daf)
        raise errors.with_message(error, f"{error}{hint}") from None
    if request.join not in get_args(Join):
        raise errors.InvalidInputError(f"join={request.join!r} is neither 'inner' nor 'outer'")
    both: list[EntryAxis] = [tables.concatenated(axis) for axis in axes]
    if tables.is_collection:
        first = concatenated_of(having.values(), axes, request.along, location=tables.location)
        second = axes[1] if first == axes[0] else axes[0]
        aligned = aligned_axis(having, second, request.join, location=tables.location)
        aligned.refuse_nothing_in_common()
        both[axes.index(second)] = aligned
    rows, columns = (
        resolve(engine, tables, axis, selector, keyword=keyword, other=other)
        for axis, selector, keyword, other in zip(
            both, (request.rows, request.columns), _KEYWORDS, axes[::-1], strict=True
        )
    )
    return MatrixAxes(tables, having, both[0], both[1], (rows, columns))


def matrix_slice(
    engine: Engine, schema: str, request: SliceRequest, *, max_bytes: int | None
) -> MatrixSlice:
    """Return a slice; see `DafSession.matrix`."""
    found = matrix_axes(engine, schema, request)
    aligned = found.aligned
    if aligned is None:
        [daf] = found.having.values()
        whole = Whole.of(Part.of(daf, request.axes, request.name, found.selections))
    else:
        whole = _joined(found, aligned, request)
    if max_bytes is not None:
        check_budget(explain(whole), max_bytes)
    rows, columns = found.chosen
    empty = tuple(each.empty for each in found.chosen if each.empty is not None)
    is_described = engine.connections.provenance
    return MatrixSlice(
        whole, Asked(schema, rows.written, columns.written, is_described=is_described, empty=empty)
    )


def _joined(found: MatrixAxes, aligned: AlignedAxis, request: SliceRequest) -> Whole:
    """Plan the part of each data set; column pointers are read, but no values.

    Raises
    ------
    MatrixNotFoundError
        Entries are selected of a data set that lacks the matrix.
    UnsupportedDataError
        The types have none in common.
    """
    both = found.rows, found.columns
    number = 0 if isinstance(found.rows, ConcatenatedAxis) else 1
    concatenated = both[number]
    if not isinstance(concatenated, ConcatenatedAxis):
        raise TypeError(f"{request.axes} are not the axes of several data sets")
    along, across = (found.selections[each].positions for each in (number, 1 - number))
    sides = [Side(axis.axis, chosen) for axis, chosen in zip(both, found.selections, strict=True)]
    names = aligned.entries.take(pa.array(across))
    sides[1 - number] = replace(sides[1 - number], names=names)
    sources = {name: aligned.sources(name, across) for name in found.having}

    def placed(of_along: Selection, of_across: Selection) -> Selections:
        return (of_across, of_along) if number else (of_along, of_across)

    what = f"matrix {request.name!r} for the axes {request.axes[0]!r} and {request.axes[1]!r}"
    parts = concatenated.parts(along, found.having, what, keyword=_KEYWORDS[number])
    members = []
    for name, daf, mine, own in parts:
        has = np.flatnonzero(sources[name] >= 0)
        lacks = Selection(np.flatnonzero(sources[name] < 0), is_all=False)
        selected = placed(
            Selection.of(own, daf.axis_length(concatenated.axis)),
            Selection.of(sources[name][has], daf.axis_length(aligned.axis)),
        )
        rows = Selection.of(mine, along.size)
        places = placed(rows, Selection.of(has, across.size))
        missing = placed(rows, lacks) if lacks.size else (lacks, lacks)
        options: Any = {"name": name, "places": places, "missing": missing}
        members.append(Part.of(daf, request.axes, request.name, selected, **options))
    joined = Joined(found.tables.location, found.tables.readers(), aligned, request.fill_value)
    whole = Whole(
        request.name, sides[0], sides[1], tuple(members), np.dtype(object), is_sparse=False
    )
    infos = {name: _info(daf, request) for name, daf in found.having.items()}
    kinds = [
        (np.dtype(object) if kind.is_string else kind.dtype, info.is_sparse)
        for info in infos.values()
        for kind in [info.storage_type]
    ]
    lacks_some = any(bool((each < 0).any()) for each in sources.values())
    try:
        typed = whole.typed(kinds, request.fill_value, lacks_some=lacks_some)
    except errors.UnsupportedDataError as error:
        listed = ", ".join(f"{name}: {info.storage_type.value}" for name, info in infos.items())
        raise errors.UnsupportedDataError(
            f"{joined.location}: the matrix {request.name!r} holds {error} ({listed}); connect the "
            "data sets one by one"
        ) from None
    return replace(typed, joined=joined)


def _info(daf: DafReader, request: SliceRequest) -> Any:
    stored, faults = open_layouts(daf, request.axes, request.name)
    if not stored:
        raise faults[0]
    return stored[0].info

"""Make a profile: choose rows and columns, group the rows, and compute the moments."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from daf_query.matrix import Join, Selection
from daf_query.moments import PreparedProfile, group_rows
from daf_query.profile._profile import Profile
from daf_query.slice import (
    Selector,
    Written,
    collection_axes,
    expression_table,
    resolve,
    resolve_both,
    written_selector,
)
from daf_query.sql import (
    AxisSchema,
    By,
    Engine,
    group_values,
    grouped_axis,
    written_items,
)
from daf_storage import ShowProgress, errors


@dataclass(frozen=True, slots=True)
class ProfileRequest:
    """What a profile is asked for."""

    rows_axis: str
    columns_axis: str
    name: str
    """The name of the matrix."""
    by: By = ()
    """What the rows are grouped by."""
    rows: Selector = None
    columns: Selector = None
    join: Join = "outer"
    """Of several data sets as one, which columns there are."""
    fill_value: float | None = None
    """What stands where one of them lacks a column; None for a missing value."""
    along: str | None = None
    """The axis whose entries are put one after the other."""


def prepare(engine: Engine, schema: str, request: ProfileRequest) -> PreparedProfile:
    """Check what is asked for, choose rows and columns, and group the rows.

    Raises
    ------
    NotFoundError
        An axis, matrix, column or entry is unknown.
    QueryError
        A predicate or an expression is wrong.
    """
    daf = engine.connections.reader(schema)
    axes = (request.rows_axis, request.columns_axis)
    for axis in axes:
        if not daf.has_axis(axis):
            raise errors.axis_not_found(daf.location, axis, daf.axes_set())
    if not daf.has_matrix(*axes, request.name):
        known = daf.matrices_set(*axes)
        raise errors.matrix_not_found(daf.location, *axes, request.name, known)
    rows, columns = (
        resolve(engine, schema, axis, selector, keyword=keyword, other=other)
        for axis, other, selector, keyword in (
            (axes[0], axes[1], request.rows, "rows"),
            (axes[1], axes[0], request.columns, "columns"),
        )
    )
    values = group_values(
        grouped_axis(engine.connections.schemas[schema], axes[0]),
        axes[1],
        request.by,
        lambda text: expression_table(engine, schema, axes[0], text),
    )
    return PreparedProfile(daf, axes, request.name, group_rows(values, rows.positions), columns)


def prepare_collection(
    engine: Engine, tables: AxisSchema, request: ProfileRequest
) -> tuple[PreparedProfile, tuple[Written, Written]]:
    """Do the same over several data sets as one; return also what chose rows and columns.

    Raises
    ------
    InvalidInputError
        The rows are not those of one data set after the other; or ``fill_value`` is no number.
    """
    axes = (request.rows_axis, request.columns_axis)
    having = tables.matrix_readers(axes, request.name)
    both = collection_axes(tables, having, axes, request.join, request.along)
    if not both.rows_are_concatenated:
        raise errors.InvalidInputError(
            f"{tables.location}: a profile groups the entries of all data sets, which are those of "
            f"axis {axes[1]!r}; swap the axes, or pass along={axes[0]!r}"
        )
    fill: object = np.nan if request.fill_value is None else request.fill_value
    if not isinstance(fill, bool | int | float | np.number):
        raise errors.InvalidInputError(f"fill_value={fill!r} is no number")
    selectors = (request.rows, request.columns)
    selected = resolve_both(engine, tables.name, both, selectors)
    concatenated = both.concatenated
    values = group_values(
        grouped_axis(tables, axes[0]),
        axes[1],
        request.by,
        lambda text: expression_table(engine, tables.name, axes[0], text),
    )
    prepared = PreparedProfile(
        both.aligned,
        axes,
        request.name,
        group_rows(values, selected[0]),
        Selection(selected[1], is_all=False),
        concatenated,
        float(fill),
    )
    return prepared, both.written(selectors, selected)


def asked(request: ProfileRequest, written: tuple[Written, Written]) -> dict[str, Any]:
    """Return what was asked, for the provenance."""
    return {
        "profile": {
            "name": request.name,
            "rows_axis": request.rows_axis,
            "columns_axis": request.columns_axis,
        },
        "by": written_items(request.by),
        "rows": written[0],
        "columns": written[1],
    }


def _written(request: ProfileRequest, prepared: PreparedProfile) -> tuple[Written, Written]:
    selected = (prepared.groups.rows.positions.size, prepared.columns.positions.size)
    rows, columns = (
        written_selector(selector, count, prepared.daf.axis_length(axis))
        for selector, count, axis in zip(
            (request.rows, request.columns), selected, prepared.axes, strict=True
        )
    )
    return rows, columns


def make_profile(
    engine: Engine,
    schema: str,
    request: ProfileRequest,
    *,
    max_bytes: int | None,
    progress: ShowProgress,
) -> Profile:
    """Return a profile; see `DafSession.profile`."""
    tables = engine.connections.schemas[schema]
    if tables.is_collection:
        prepared, written = prepare_collection(engine, tables, request)
        how = {"join": request.join, "along": request.rows_axis}
    else:
        prepared = prepare(engine, schema, request)
        written, how = _written(request, prepared), {}
    prepared.check_size(max_bytes)
    content = prepared.compute(progress=progress)
    return Profile(engine, content, {**asked(request, written), **how})

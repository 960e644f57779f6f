"""Make a profile: choose rows and columns, group the rows, and compute the moments."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from daf_query.moments import PreparedProfile, group_rows
from daf_query.profile._profile import Profile
from daf_query.slice import Selector, expression_table, resolve, written_selector
from daf_query.sql import By, Engine, group_values, written_items
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
        daf, axes, request.by, lambda text: expression_table(engine, schema, axes[0], text)
    )
    return PreparedProfile(daf, axes, request.name, group_rows(values, rows.positions), columns)


def asked(request: ProfileRequest, prepared: PreparedProfile) -> dict[str, Any]:
    """Return what was asked, for the provenance."""
    selected = (prepared.groups.rows.positions.size, prepared.columns.positions.size)
    rows, columns = (
        written_selector(selector, count, prepared.daf.axis_length(axis))
        for selector, count, axis in zip(
            (request.rows, request.columns), selected, prepared.axes, strict=True
        )
    )
    rows_axis, columns_axis = prepared.axes
    return {
        "profile": {"name": request.name, "rows_axis": rows_axis, "columns_axis": columns_axis},
        "by": written_items(request.by),
        "rows": rows,
        "columns": columns,
    }


def make_profile(
    engine: Engine,
    schema: str,
    request: ProfileRequest,
    *,
    max_bytes: int | None,
    progress: ShowProgress,
) -> Profile:
    """Return a profile; see `DafSession.profile`."""
    prepared = prepare(engine, schema, request)
    prepared.check_size(max_bytes)
    return Profile(engine, prepared.compute(progress=progress), asked(request, prepared))

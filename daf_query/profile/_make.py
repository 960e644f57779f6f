"""Make a profile: choose rows and columns, group the rows, and compute the moments."""

from __future__ import annotations

from typing import Any

import numpy as np

from daf_query.matrix import ConcatenatedAxis
from daf_query.moments import PreparedProfile, PreparedTotals, group_rows
from daf_query.profile._profile import Profile
from daf_query.slice import MatrixAxes, SliceRequest, expression_table, matrix_axes
from daf_query.sql import By, Engine, TableResult, group_values, grouped_axis, written_items
from daf_storage import ShowProgress, errors
from daf_storage.base import progress_bar


def concatenated_rows(found: MatrixAxes, what: str) -> ConcatenatedAxis:
    """Return the axis of the rows, which has the entries of all data sets.

    Raises
    ------
    InvalidInputError
        That is the axis of the columns.
    """
    if isinstance(found.rows, ConcatenatedAxis):
        return found.rows
    raise errors.InvalidInputError(
        f"{found.tables.location}: {what} the entries of all data sets, which are those of axis "
        f"{found.columns.axis!r}; swap the axes, or pass along={found.rows.axis!r}"
    )


def prepare_profile(
    engine: Engine, schema: str, request: SliceRequest, by: By, *, max_bytes: int | None
) -> tuple[PreparedProfile, dict[str, Any]]:
    """Choose the rows and columns of a profile, and group the rows; return what was asked as well.

    Parameters
    ----------
    request
        Which rows and columns of which matrix, without a value for a missing one.
    by
        What the rows are grouped by.

    Raises
    ------
    NotFoundError
        An axis, matrix, column or entry is unknown.
    QueryError
        A predicate or an expression is wrong.
    InvalidInputError
        The rows are not those of one data set after the other; or ``fill_value`` is no number.
    BudgetError
        The result would be larger than ``max_bytes``.
    """
    found = matrix_axes(engine, schema, request)
    rows_axis, columns_axis = request.axes
    along = concatenated_rows(found, "a profile groups")
    fill: object = np.nan if request.fill_value is None else request.fill_value
    if not isinstance(fill, bool | int | float | np.number):
        raise errors.InvalidInputError(f"fill_value={fill!r} is no number")
    rows, columns = found.chosen
    values = group_values(
        grouped_axis(found.tables, rows_axis),
        columns_axis,
        by,
        lambda text: expression_table(engine, schema, rows_axis, text),
    )
    groups = group_rows(values, rows.selection.positions)
    axes = along, found.columns
    prepared = PreparedProfile(axes, request.name, groups, columns.selection, float(fill))
    prepared.check_size(max_bytes)
    asked = {
        "profile": {"name": request.name, "rows_axis": rows_axis, "columns_axis": columns_axis},
        "by": written_items(by),
        "rows": rows.written,
        "columns": columns.written,
    }
    if found.tables.is_collection:
        asked |= {"join": request.join, "along": rows_axis}
    return prepared, asked


def make_profile(
    engine: Engine,
    schema: str,
    request: SliceRequest,
    by: By,
    *,
    max_bytes: int | None,
    progress: ShowProgress,
) -> Profile:
    """Return a profile; see `DafSession.profile`, and `prepare_profile` for errors."""
    prepared, asked = prepare_profile(engine, schema, request, by, max_bytes=max_bytes)
    return Profile(engine, prepared.compute(progress=progress), asked)


def make_totals(
    engine: Engine, schema: str, request: SliceRequest, *, progress: ShowProgress
) -> TableResult:
    """Return a row for each entry of the rows' axis; see `DafSession.totals`."""
    found = matrix_axes(engine, schema, request)
    rows, columns = found.chosen
    axes = concatenated_rows(found, "totals are of"), found.columns
    prepared = PreparedTotals(axes, request.name, rows.selection, columns.selection)
    with progress_bar("totals", None, show=progress) as bar:
        table = prepared.compute(bar.add)
    names = dict(zip(("rows_axis", "columns_axis"), request.axes, strict=True))
    asked = {
        "totals": {"name": request.name, **names},
        "rows": rows.written,
        "columns": columns.written,
    }
    return TableResult(engine, table, f"the totals of {request.name!r}", asked)

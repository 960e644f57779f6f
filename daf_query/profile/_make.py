"""Make a profile: choose rows and columns, group the rows, and compute the moments."""

from __future__ import annotations

import numpy as np

from daf_query.matrix import ConcatenatedAxis
from daf_query.moments import PreparedProfile, group_rows
from daf_query.profile._profile import Profile
from daf_query.slice import SliceRequest, expression_table, matrix_axes
from daf_query.sql import By, Engine, group_values, grouped_axis, written_items
from daf_storage import ShowProgress, errors


def make_profile(
    engine: Engine,
    schema: str,
    request: SliceRequest,
    by: By,
    *,
    max_bytes: int | None,
    progress: ShowProgress,
) -> Profile:
    """Return a profile; see `DafSession.profile`.

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
    """
    found = matrix_axes(engine, schema, request)
    rows_axis, columns_axis = request.axes
    if not isinstance(found.rows, ConcatenatedAxis):
        raise errors.InvalidInputError(
            f"{found.tables.location}: a profile groups the entries of all data sets, which are "
            f"those of axis {columns_axis!r}; swap the axes, or pass along={rows_axis!r}"
        )
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
    axes = found.rows, found.columns
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
    return Profile(engine, prepared.compute(progress=progress), asked)

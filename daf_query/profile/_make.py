"""Make profiles, markers and totals: choose rows and columns, group the rows, and compute."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Final, Literal, TypeAlias, get_args

import numpy as np

from daf_query._runs import check_cancelled
from daf_query.matrix import ConcatenatedAxis
from daf_query.moments import (
    PreparedProfile,
    PreparedTotals,
    comparisons_of,
    group_rows,
    marker_table,
    rank_sums,
    welch_markers,
)
from daf_query.profile._groups import group_values
from daf_query.profile._profile import Profile
from daf_query.slice import AxisRows, MatrixAxes, SliceRequest, matrix_axes, matrix_slice
from daf_query.sql import By, TableResult, written_items
from daf_storage import ShowProgress, errors
from daf_storage.base import AnyArray, Progress, progress_bar

MarkerTest: TypeAlias = Literal["t-test", "wilcoxon"]
"""How groups are compared: by their means, or by the ranks of their values."""

_ELEMENT_BYTES: Final = 24
"""What an element takes while it is ranked."""


def _concatenated_rows(found: MatrixAxes, what: str) -> ConcatenatedAxis:
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
        f"{found.columns.axis!r}; swap the axes, or in Python pass along={found.rows.axis!r}"
    )


def prepared_profile(
    request: SliceRequest, by: By, *, max_bytes: int | None
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
        The result or the download would be larger than ``max_bytes``.
    """
    found = matrix_axes(request)
    rows_axis, columns_axis = request.axes
    along = _concatenated_rows(found, "a profile groups")
    fill: object = np.nan if request.fill_value is None else request.fill_value
    if not isinstance(fill, bool | int | float | np.number):
        raise errors.InvalidInputError(f"fill_value={fill!r} is no number")
    rows, columns = found.chosen
    values = group_values(AxisRows(request.engine, found.tables, rows_axis), columns_axis, by)
    groups = group_rows(values, rows.selection.positions)
    axes = along, found.columns
    prepared = PreparedProfile(axes, request.name, groups, columns.selection, float(fill))
    prepared.check_size(max_bytes)
    requested = {
        "profile": {"name": request.name, "rows_axis": rows_axis, "columns_axis": columns_axis},
        "by": written_items(by),
        "rows": rows.written,
        "columns": columns.written,
    }
    if found.tables.is_collection:
        requested |= {"join": request.join, "along": rows_axis}
    return prepared, requested


def make_profile(
    request: SliceRequest, by: By, *, max_bytes: int | None, progress: ShowProgress
) -> Profile:
    """Return a profile; see `DafSession.profile`."""
    prepared, requested = prepared_profile(request, by, max_bytes=max_bytes)
    return Profile(request.engine, prepared.compute(progress=progress), requested)


def prepared_totals(request: SliceRequest) -> tuple[PreparedTotals, dict[str, Any]]:
    """Choose the rows and columns of totals; return what was asked as well."""
    found = matrix_axes(request)
    rows, columns = found.chosen
    axes = _concatenated_rows(found, "totals are of"), found.columns
    prepared = PreparedTotals(axes, request.name, rows.selection, columns.selection)
    names = dict(zip(("rows_axis", "columns_axis"), request.axes, strict=True))
    requested = {
        "totals": {"name": request.name, **names},
        "rows": rows.written,
        "columns": columns.written,
    }
    return prepared, requested


def make_totals(request: SliceRequest, *, progress: ShowProgress) -> TableResult:
    """Return a row for each entry of the rows' axis; see `DafSession.totals`."""
    prepared, requested = prepared_totals(request)
    with progress_bar("totals", None, show=progress) as bar:
        table = prepared.compute(bar.add)
    return TableResult(request.engine, table, f"the totals of {request.name!r}", requested)


def make_markers(  # noqa: PLR0913 - the choices of a profile, and of a test
    request: SliceRequest,
    by: By,
    *,
    reference: Any,
    method: MarkerTest,
    is_log1p: bool,
    tie_correct: bool,
    top: int | None,
    memory_bytes: int,
    max_bytes: int | None,
    progress: ShowProgress,
) -> TableResult:
    """Return a row for each group and column; see `DafSession.markers`."""
    if method not in get_args(MarkerTest):
        raise errors.InvalidInputError(
            f"method={method!r} is none of {', '.join(get_args(MarkerTest))}"
        )
    if top is not None and top < 1:
        raise errors.InvalidInputError(f"top={top!r} is no number of columns; None is for all")
    prepared, requested = prepared_profile(request, by, max_bytes=max_bytes)
    content = prepared.compute(progress=progress)
    if method == "t-test":
        table = welch_markers(content, reference, is_log1p=is_log1p, top=top)
    else:
        comparisons = comparisons_of(content, reference)
        pairs = [(each.group, each.other_group) for each in comparisons]
        rows = prepared.groups.rows.positions.size
        width = max(memory_bytes // max(rows * _ELEMENT_BYTES, 1), 1)
        with progress_bar("markers", None, show=progress) as bar:
            tests = _ranked(request, prepared, width, pairs, bar, tie_correct=tie_correct)
        table = marker_table(content, comparisons, tests, is_log1p=is_log1p, top=top)
    title = f"the markers of {content.name!r} over {' x '.join(content.axis_names)}"
    requested |= {"markers": {"reference": reference, "method": method}}
    return TableResult(request.engine, table, title, requested)


def _ranked(
    request: SliceRequest,
    prepared: PreparedProfile,
    width: int,
    pairs: Sequence[tuple[int, int | None]],
    progress: Progress,
    *,
    tie_correct: bool,
) -> list[tuple[AnyArray, AnyArray]]:
    """Return scores and p-values of each pair of groups, reading ``width`` columns at a time."""
    rows, columns = prepared.groups.rows, prepared.columns.positions
    positions, codes = rows.positions, rows.codes.astype(np.intp)
    fill = np.nan if request.fill_value is None else request.fill_value
    found: list[list[tuple[AnyArray, AnyArray]]] = [[] for _ in pairs]
    for start in range(0, columns.size, width):
        check_cancelled()
        chosen = columns[start : start + width]
        block = replace(request, rows=positions, columns=chosen, fill_value=fill)
        values = matrix_slice(block).to_scipy().tocsc()
        whole = rank_sums(values, codes, rows.n_groups) if pairs[0][1] is None else None
        for results, (group, other) in zip(found, pairs, strict=True):
            if whole is not None:
                results.append(whole.scores(group, tie_correct=tie_correct))
                continue
            both = np.flatnonzero((codes == group) | (codes == other))
            ranks = rank_sums(values[both], (codes[both] != group).astype(np.intp), 2)
            results.append(ranks.scores(0, tie_correct=tie_correct))
        progress.add(values.nnz * _ELEMENT_BYTES)
    return [
        (np.concatenate([score for score, _ in each]), np.concatenate([p for _, p in each]))
        for each in found
    ]

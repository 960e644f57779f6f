"""Make profiles, markers and totals: choose rows and columns, group the rows, and compute."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Final, Literal, TypeAlias

import numpy as np
import pyarrow as pa

from daf_query._runs import check_cancelled
from daf_query.matrix import ConcatenatedAxis
from daf_query.moments import (
    STATISTICS,
    Comparison,
    GroupValues,
    PreparedProfile,
    PreparedTotals,
    comparisons_of,
    group_rows,
    marker_table,
    rank_sums,
    welch_markers,
)
from daf_query.slice import AxisRows, MatrixAxes, SliceRequest, matrix_axes, matrix_slice
from daf_query.sql import By, written_items
from daf_query.syntax import list_items, quoted_name, unquoted_name, without_name
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
    request: SliceRequest, *, max_bytes: int | None
) -> tuple[PreparedProfile, dict[str, Any]]:
    """Choose the rows and columns of a profile, and group the rows; return what was asked as well.

    Parameters
    ----------
    request
        Which rows and columns of which matrix, and what the rows are grouped by.

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
    values = group_values(
        AxisRows(request.engine, found.tables, rows_axis), columns_axis, request.by
    )
    groups = group_rows(values, rows.selection.positions)
    axes = along, found.columns
    prepared = PreparedProfile(axes, request.name, groups, columns.selection, float(fill))
    prepared.check_size(max_bytes)
    requested = {
        "profile": {"name": request.name, "rows_axis": rows_axis, "columns_axis": columns_axis},
        "by": written_items(request.by),
        "rows": rows.written,
        "columns": columns.written,
    }
    if found.tables.is_collection:
        requested |= {"join": request.join, "along": rows_axis}
    return prepared, requested


def prepared_totals(
    request: SliceRequest, *, max_bytes: int | None
) -> tuple[PreparedTotals, dict[str, Any]]:
    """Choose the rows and columns of totals; return what was asked as well."""
    found = matrix_axes(request)
    rows, columns = found.chosen
    axes = _concatenated_rows(found, "totals are of"), found.columns
    prepared = PreparedTotals(axes, request.name, rows.selection, columns.selection)
    prepared.check_size(max_bytes)
    names = dict(zip(("rows_axis", "columns_axis"), request.axes, strict=True))
    requested = {
        "totals": {"name": request.name, **names},
        "rows": rows.written,
        "columns": columns.written,
    }
    return prepared, requested


def marker_rows(  # noqa: PLR0913 - the choices of a test
    request: SliceRequest,
    prepared: PreparedProfile,
    *,
    reference: Any,
    method: MarkerTest,
    is_log1p: bool,
    tie_correct: bool,
    top: int | None,
    memory_bytes: int,
    progress: ShowProgress,
) -> pa.Table:
    """Return how each group differs from the others, or from one; see `DafSession.markers`."""
    content = prepared.compute(progress=progress)
    if method == "t-test":
        return welch_markers(content, reference, is_log1p=is_log1p, top=top)
    comparisons = comparisons_of(content, reference)
    options: dict[str, Any] = {"memory_bytes": memory_bytes, "tie_correct": tie_correct}
    with progress_bar("markers", None, show=progress) as bar:
        tests = _rank_tests(request, prepared, comparisons, bar, **options)
    return marker_table(content, comparisons, tests, is_log1p=is_log1p, top=top)


def _rank_tests(
    request: SliceRequest,
    prepared: PreparedProfile,
    comparisons: Sequence[Comparison],
    progress: Progress,
    *,
    memory_bytes: int,
    tie_correct: bool,
) -> list[tuple[AnyArray, AnyArray]]:
    """Return scores and p-values of comparisons by ranks; memory bounds the columns of one read."""
    pairs = [(each.group, each.other_group) for each in comparisons]
    rows, columns = prepared.groups.rows, prepared.columns.positions
    width = max(memory_bytes // max(rows.positions.size * _ELEMENT_BYTES, 1), 1)
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


def group_values(source: AxisRows, columns_axis: str, by: By) -> list[GroupValues]:
    """Evaluate what the rows of a profile are grouped by.

    Raises
    ------
    QueryError, VectorNotFoundError
        An expression is wrong.
    InvalidInputError
        Two columns would have one name.
    """
    written: list[str] = []
    for text in written_items(by):
        written += [text] if text in source.vectors else list_items(text)
    groups: dict[str, GroupValues] = {}
    for text in written:
        expression, called = without_name(text)
        vector = expression.strip()
        vector = vector if vector in source.vectors else unquoted_name(vector)
        is_vector = vector in source.vectors
        name = called or (vector if is_vector else text.strip())
        if not name:
            raise errors.QueryError("by= is empty; pass a vector, or an expression of SQL")
        if name in groups or name in (columns_axis, *STATISTICS):
            what = "another group column" if name in groups else "another column"
            raise errors.InvalidInputError(
                f"a group column and {what} of the profile would both be called {name!r}; rename "
                f"the group column: by={f'{expression.strip()} AS group_1'!r}"
            )
        values = _values_of(source, quoted_name(vector) if is_vector else expression)
        categories = source.categories(vector) if is_vector else None
        groups[name] = GroupValues(name, values, categories)
    return list(groups.values())


def _values_of(source: AxisRows, expression: str) -> pa.Array:
    """Return the value of each entry of the axis, in its order."""
    by = f"by={expression.strip()!r}"
    try:
        return source.values(expression)
    except errors.DafError as error:
        if "GROUP BY" not in str(error):
            raise errors.with_message(error, f"{by}, on axis {source.axis!r}: {error}") from None
        raise errors.QueryError(
            f"{by} is an aggregate, which has one value for all rows; group "
            "by what each entry has, such as max(age) OVER (PARTITION BY donor)"
        ) from error

"""Profiles, totals and markers before the matrix is read, and how each data set is.

In a collection, the segments of each data set are merged as those of blocks are: the moments are
exact, since counts, sums and squared deviations of groups combine, whatever the order.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Final, Literal, TypeAlias

import numpy as np
import pyarrow as pa

from daf_query._runs import check_cancelled
from daf_query.matrix import ConcatenatedAxis, Selection, each_once
from daf_query.moments import (
    STATISTICS,
    Accumulator,
    Comparison,
    GroupedRows,
    GroupProfile,
    Groups,
    GroupValues,
    constant,
    estimate_segments,
    group_rows,
    group_segments,
    marker_table,
    rank_sums,
    schema_of,
)
from daf_query.scan import INDEX, NAME, number_array
from daf_query.slice import (
    AxisRows,
    Part,
    SliceRequest,
    Whole,
    datasets_of,
    matrix_axes,
    matrix_slice,
    slice_of,
)
from daf_query.sql import By, listed_expressions, written_items
from daf_query.syntax import unquoted_name, without_name
from daf_query.table import DATASET
from daf_storage import ShowProgress, errors
from daf_storage.base import AnyArray, Progress, is_remote, progress_bar

MarkerTest: TypeAlias = Literal["t-test", "wilcoxon"]
"""How groups are compared: by their means, or by the ranks of their values."""

_ELEMENT_BYTES: Final = 24
"""What an element takes while it is ranked."""
_BYTES: Final = 8


@dataclass(frozen=True, slots=True)
class PreparedProfile:
    """A profile whose groups are known, and for which nothing of the matrix was read."""

    whole: Whole
    groups: Groups
    fill: float
    """What stands where a data set lacks a column; NaN is a missing value."""

    @property
    def schema(self) -> pa.Schema:
        """The names and types of its columns."""
        return schema_of(self.groups.columns, self.whole.axis_names[1])

    def compute(self, *, progress: ShowProgress = "auto") -> GroupProfile:
        """Read the matrix, of one data set after the other, and return the profile."""
        whole, rows = self.whole, self.groups.rows
        shape = rows.n_groups, whole.shape[1]
        accumulator = Accumulator(rows.n_groups * whole.shape[1])
        keys = np.arange(rows.n_groups * whole.shape[1]).reshape(shape)
        with progress_bar("profile", None, show=progress) as bar, whole.unchanged_axes():
            for part in whole.members:
                mine, places = (each.positions for each in part.places)
                own = GroupedRows(part.selections[0].positions, rows.codes[mine], rows.n_groups)
                segments = group_segments(part.layouts, own, part.selections[1], bar.add)
                accumulator.merge(keys[:, places].reshape(-1), segments.map(np.ravel))
                lacks = whole.missing(part)[1].positions
                if lacks.size:
                    sizes = own.sizes()
                    there = np.flatnonzero(sizes)
                    filled = constant(self.fill, np.repeat(sizes[there], lacks.size))
                    accumulator.merge(keys[np.ix_(there, lacks)].reshape(-1), filled)
            entries = whole.axes[1].entries_at(whole.selections[1].positions).dictionary_encode()
        moments, groups = accumulator.moments(*shape), self.groups.columns
        return GroupProfile(whole.axis_names, whole.name, entries, groups, rows.sizes(), moments)


@dataclass(frozen=True, slots=True)
class PreparedTotals:
    """Totals of rows, of which the columns are added up."""

    whole: Whole

    @property
    def schema(self) -> pa.Schema:
        """The names and types of the columns."""
        numbers = [("sum", pa.float64()), ("nonzero", pa.int64())]
        numbers += [("mean", pa.float64()), ("share", pa.float64())]
        dataset = [(DATASET, pa.string())] if self.whole.is_collection else []
        return pa.schema([*dataset, (NAME, pa.string()), (INDEX, pa.int64()), *numbers])

    def compute(self, progress: Callable[[int], None] = lambda _: None) -> pa.Table:
        """Read the matrix once, and return a row for each entry."""
        whole = self.whole
        index, nonzero, n = np.zeros((3, whole.shape[0]), np.int64)
        chosen, others = np.zeros((2, whole.shape[0]))
        with whole.unchanged_axes():
            for part in whole.members:
                # What is added up is a group of columns, the others are the second one.
                codes = np.ones(part.layouts.lengths[1], np.int32)
                codes[part.selections[1].positions] = 0
                groups = GroupedRows(np.arange(codes.size), codes, 2)
                mine, rows = part.places[0].positions, part.selections[0]
                found = group_segments(part.layouts, groups, rows, progress, is_transposed=True)
                index[mine], (chosen[mine], others[mine]) = rows.positions, found.sum
                nonzero[mine], n[mine] = found.nonzero[0], found.n[0]
            names = whole.axes[0].entries_at(whole.selections[0].positions)
        with np.errstate(all="ignore"):
            mean, share = chosen / n, chosen / (chosen + others)
        keys = [datasets_of(whole).dictionary_decode(), names] if whole.is_collection else [names]
        numbers = [pa.array(chosen), pa.array(nonzero), number_array(mean), number_array(share)]
        return pa.table([*keys, pa.array(index), *numbers], self.schema)


def _prepared(request: SliceRequest, what: str, is_said: str) -> tuple[Whole, dict[str, Any]]:
    """Return the slice that is asked for, whose rows are of all data sets, and what was asked.

    Warns of what selects nothing.

    Raises
    ------
    InvalidInputError
        The columns are of all data sets.
    UnsupportedInputError
        It is a matrix of strings.
    """
    found, location = matrix_axes(request), request.tables.location
    if not isinstance(found.axes[0], ConcatenatedAxis):
        raise errors.InvalidInputError(
            f"{location}: {is_said} the entries of all data sets, which are those of axis "
            f"{request.axes[1]!r}; swap the axes, or in Python pass along={request.axes[0]!r}"
        )
    whole = slice_of(request.name, found.axes, found.selections, found.having)
    if whole.dtype == object:
        raise errors.UnsupportedInputError(
            f"{location}: {request.name!r} is a matrix of strings, which have no sums and means; "
            "choose one of numbers or Bool"
        )
    for empty in (each.empty for each in found.chosen if each.empty is not None):
        errors.warn(f"{location}: {empty}", errors.DafWarning)
    names = dict(zip(("rows_axis", "columns_axis"), request.axes, strict=True))
    written = dict(zip(("rows", "columns"), (each.written for each in found.chosen), strict=True))
    return whole, {what: {"name": request.name, **names}, **written}


def _check_budget(
    request: SliceRequest, what: str, size: tuple[int, str], parts: Iterable[tuple[Part, Selection]]
) -> None:
    """Raise if a result would be too large, or more would be downloaded of a server.

    Parameters
    ----------
    what
        What it is, for messages.
    size
        How many bytes the result has, and a sentence about them.
    parts
        What is read of each data set, and which columns.

    Raises
    ------
    BudgetError
        It would have more bytes than ``max_bytes``.
    """
    if request.max_bytes is None:
        return
    n_bytes = n_requests = 0
    for part, columns in parts:
        if is_remote(part.daf.location):
            chosen = (each_once(each.positions) for each in (part.selections[0], columns))
            planned = part.layouts.at(*map(Selection.of, chosen, part.layouts.lengths))
            read = estimate_segments(planned)
            n_bytes += read.size_bytes if read.is_remote else 0
            n_requests += read.requests
    download = f"downloads about {n_bytes:,} bytes in about {n_requests:,} requests"
    for total, sentence in (size, (n_bytes, download)):
        if total > request.max_bytes:
            raise errors.over_budget(
                f"{request.tables.location}: {what} of {request.name!r} {sentence}, which is more "
                f"than the budget of {request.max_bytes:,}",
                "choose fewer rows, groups or columns" if size[0] else "choose fewer rows",
            )


def prepared_profile(
    request: SliceRequest, statistics: Sequence[str] = STATISTICS
) -> tuple[PreparedProfile, dict[str, Any]]:
    """Choose the rows and columns of a profile, and group the rows; return what was asked as well.

    Parameters
    ----------
    request
        Which rows and columns of which matrix, and what the rows are grouped by.
    statistics
        The columns of numbers of the result, which no group column may be called.

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
    whole, requested = _prepared(request, "profile", "a profile groups")
    rows_axis, columns_axis = request.axes
    fill: object = np.nan if request.fill_value is None else request.fill_value
    if not isinstance(fill, bool | int | float | np.number):
        raise errors.InvalidInputError(f"fill_value={fill!r} is no number")
    source = AxisRows(request.engine, request.tables, rows_axis)
    values = group_values(source, (columns_axis, *statistics), request.by)
    groups = group_rows(values, whole.selections[0].positions)
    n_groups, n_columns = groups.rows.n_groups, whole.shape[1]
    arrays = groups.columns.values()
    row_bytes = sum(-(-array.nbytes // max(len(array), 1)) for array in arrays)
    n_bytes = n_groups * n_columns * (row_bytes + _BYTES * (len(STATISTICS) + 1))
    sentence = (
        f"would have {n_groups * n_columns:,} rows ({n_groups:,} groups x {n_columns:,} "
        f"{columns_axis}), about {n_bytes:,} bytes"
    )
    parts = ((part, part.selections[1]) for part in whole.members)
    _check_budget(request, "the profile", (n_bytes, sentence), parts)
    requested |= {"by": written_items(request.by)}
    if whole.is_collection:
        requested |= {"join": request.join, "along": rows_axis}
    return PreparedProfile(whole, groups, float(fill)), requested


def prepared_totals(request: SliceRequest) -> tuple[PreparedTotals, dict[str, Any]]:
    """Choose the rows and columns of totals; return what was asked as well."""
    whole, requested = _prepared(request, "totals", "totals are of")
    # All columns, since shares are of all.
    parts = ((part, Selection.all(part.layouts.lengths[1])) for part in whole.members)
    _check_budget(request, "summing rows", (0, ""), parts)
    return PreparedTotals(whole), requested


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
    if is_log1p and content.has_counts():
        errors.warn(
            f"{request.tables.location}: {request.name!r} has whole numbers, as counts are, and "
            "log_fold_change takes them for log1p of counts; pass is_log1p=False for counts",
            errors.DafWarning,
        )
    how: dict[str, Any] = {"is_log1p": is_log1p, "top": top}
    if method == "t-test":
        return marker_table(content, reference, **how)
    options: dict[str, Any] = {"memory_bytes": memory_bytes, "tie_correct": tie_correct}
    with progress_bar("markers", None, show=progress) as bar:
        ranks = partial(_rank_tests, request, prepared, progress=bar, **options)
        return marker_table(content, reference, ranks, **how)


def _rank_tests(
    request: SliceRequest,
    prepared: PreparedProfile,
    comparisons: Sequence[Comparison],
    *,
    progress: Progress,
    memory_bytes: int,
    tie_correct: bool,
) -> list[tuple[AnyArray, AnyArray]]:
    """Return scores and p-values of comparisons by ranks; memory bounds the columns of one read."""
    pairs = [(each.group, each.other_group) for each in comparisons]
    rows, columns = prepared.groups.rows, prepared.whole.selections[1].positions
    width = max(memory_bytes // max(rows.positions.size * _ELEMENT_BYTES, 1), 1)
    positions, codes = rows.positions, rows.codes.astype(np.intp)
    fill = np.nan if request.fill_value is None else request.fill_value
    found = [np.empty((len(pairs), 2, 0))]
    for start in range(0, columns.size, width):
        check_cancelled()
        chosen = columns[start : start + width]
        block = replace(request, rows=positions, columns=chosen, fill_value=fill, max_bytes=None)
        values = matrix_slice(block).to_scipy().tocsc()
        whole = rank_sums(values, codes, rows.n_groups) if pairs[0][1] is None else None
        tests = []
        for group, other in pairs:
            if whole is not None:
                tests.append(whole.scores(group, tie_correct=tie_correct))
                continue
            both = np.flatnonzero((codes == group) | (codes == other))
            ranks = rank_sums(values[both], (codes[both] != group).astype(np.intp), 2)
            tests.append(ranks.scores(0, tie_correct=tie_correct))
        found.append(np.array(tests))
        progress.add(values.nnz * _ELEMENT_BYTES)
    return [(scores, pvalues) for scores, pvalues in np.concatenate(found, axis=2)]


def group_values(source: AxisRows, others: Sequence[str], by: By) -> list[GroupValues]:
    """Evaluate what the rows of a profile are grouped by; ``others`` are its other columns.

    Raises
    ------
    QueryError, VectorNotFoundError
        An expression is wrong.
    InvalidInputError
        Two columns would have one name.
    """
    groups: dict[str, GroupValues] = {}
    for text in listed_expressions(by, source.vectors):
        expression, called = without_name(text)
        vector = expression.strip()
        vector = vector if vector in source.vectors else unquoted_name(vector)
        is_vector = vector in source.vectors
        name = called or (vector if is_vector else text)
        if name in groups or name in others:
            what = "another group column" if name in groups else "another column"
            raise errors.InvalidInputError(
                f"a group column and {what} of the profile would both be called {name!r}; rename "
                f"the group column: by={f'{expression.strip()} AS group_1'!r}"
            )
        values = _values_of(source, vector if is_vector else expression)
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

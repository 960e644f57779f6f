"""Markers of a matrix: profiles compared, or values ranked some columns at a time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, Literal, TypeAlias, get_args

import numpy as np

from daf_query._runs import check_cancelled
from daf_query.moments import (
    REST,
    PreparedProfile,
    comparisons_of,
    marker_table,
    rank_sums,
    welch_markers,
)
from daf_query.profile._make import prepare_profile
from daf_query.slice import SliceRequest, matrix_slice
from daf_query.sql import By, Engine, TableResult
from daf_storage import ShowProgress, errors
from daf_storage.base import AnyArray, Progress, progress_bar

MarkerTest: TypeAlias = Literal["t-test", "wilcoxon"]
"""How groups are compared: by their means, or by the ranks of their values."""

_ELEMENT_BYTES: Final = 24
"""What an element takes while it is ranked."""


@dataclass(frozen=True, slots=True)
class MarkerRequest:
    """How the groups of a profile are compared."""

    reference: Any = REST
    """The group that all others are compared with; by default all other rows."""
    method: MarkerTest = "t-test"
    is_log1p: bool = True
    """Whether the values are logarithms of counts and 1."""
    tie_correct: bool = False
    top: int | None = None
    """How many columns of each group; None for all."""
    memory_bytes: int = 1 << 30
    """How much the values may take that are ranked at a time."""


def make_markers(
    engine: Engine,
    schema: str,
    request: SliceRequest,
    by: By,
    how: MarkerRequest,
    *,
    max_bytes: int | None,
    progress: ShowProgress,
) -> TableResult:
    """Return a row for each group and column; see `DafSession.markers`."""
    if how.method not in get_args(MarkerTest):
        raise errors.InvalidInputError(
            f"method={how.method!r} is none of {', '.join(get_args(MarkerTest))}"
        )
    if how.top is not None and how.top < 1:
        raise errors.InvalidInputError(f"top={how.top!r} is no number of columns; None is for all")
    prepared, asked = prepare_profile(engine, schema, request, by, max_bytes=max_bytes)
    content = prepared.compute(progress=progress)
    if how.method == "t-test":
        table = welch_markers(content, how.reference, is_log1p=how.is_log1p, top=how.top)
    else:
        comparisons = comparisons_of(content, how.reference)
        pairs = [(each.group, each.other_group) for each in comparisons]
        with progress_bar("markers", None, show=progress) as bar:
            tests = _ranked(engine, schema, request, prepared, how, pairs, bar)
        table = marker_table(content, comparisons, tests, is_log1p=how.is_log1p, top=how.top)
    title = f"the markers of {content.name!r} over {' x '.join(content.axis_names)}"
    asked |= {"markers": {"reference": how.reference, "method": how.method}}
    return TableResult(engine, table, title, asked)


def _ranked(
    engine: Engine,
    schema: str,
    request: SliceRequest,
    prepared: PreparedProfile,
    how: MarkerRequest,
    pairs: Sequence[tuple[int, int | None]],
    progress: Progress,
) -> list[tuple[AnyArray, AnyArray]]:
    """Return scores and p-values of each pair of groups, reading some columns at a time."""
    rows, columns = prepared.groups.rows, prepared.columns.positions
    is_in = rows.codes >= 0
    positions, codes = rows.positions[is_in], rows.codes[is_in].astype(np.intp)
    fill = np.nan if request.fill_value is None else request.fill_value
    width = max(how.memory_bytes // max(positions.size * _ELEMENT_BYTES, 1), 1)
    found: list[list[tuple[AnyArray, AnyArray]]] = [[] for _ in pairs]
    for start in range(0, columns.size, width):
        check_cancelled()
        chosen = columns[start : start + width]
        block = replace(request, rows=positions, columns=chosen, fill_value=fill)
        values = matrix_slice(engine, schema, block, max_bytes=None).to_scipy().tocsc()
        whole = rank_sums(values, codes, rows.n_groups) if pairs[0][1] is None else None
        for results, (group, other) in zip(found, pairs, strict=True):
            if whole is not None:
                results.append(whole.scores(group, tie_correct=how.tie_correct))
                continue
            both = np.flatnonzero((codes == group) | (codes == other))
            ranks = rank_sums(values[both], (codes[both] != group).astype(np.intp), 2)
            results.append(ranks.scores(0, tie_correct=how.tie_correct))
        progress.add(values.nnz * _ELEMENT_BYTES)
    return [
        (np.concatenate([score for score, _ in each]), np.concatenate([p for _, p in each]))
        for each in found
    ]

"""Samples of stored values, for previews: a few rows, and never more than a budget of bytes.

What a read would cost is estimated before it is made; nothing is read of a server.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import Final, TypeVar

import numpy as np
import pyarrow as pa

from daf_storage.base import NAME_VECTOR, Span, VectorInfo
from daf_storage.data._layout import StoredMatrix, StoredVector
from daf_storage.data._property_reader import PropertyReader, arrow_of
from daf_storage.data._summary import (
    AxisSummary,
    DafSummary,
    MatrixSummary,
    sections,
    stored_form,
    stored_layouts,
)
from daf_storage.display import (
    PREVIEW_ROWS,
    Markup,
    Preview,
    PreviewBudget,
    html_details,
    html_element,
    html_table,
    joined_html,
    preview_cells,
    preview_of,
    readable_bytes,
    shortened,
)
from daf_storage.errors import DafError
from daf_storage.stores import ReadEstimate
from daf_storage.trees import StoredArray

_PIECES: Final = 4
_LINE_ELEMENTS: Final = 512
_STRING_BYTES: Final = 16
_PAGE_BYTES: Final = 4096
"""What it costs to open a property, or a piece of it, in bytes of the budget."""

REMOTE: Final = "on a server: values are not looked at"
TOO_MUCH: Final = "too much to look at quickly"


def preview_matrix(stored: StoredMatrix, budget: PreviewBudget) -> Preview | str:
    """Return what some values of a matrix look like; of a sparse one, some of the stored ones."""
    array = stored.arrays().get("nzval" if stored.info.is_sparse else "")
    if array is None or array.info.storage_type.is_string:
        return ""
    sample = _some(array, budget)
    return sample if isinstance(sample, str) else preview_of(sample, total=array.info.size)


def _some(array: StoredArray, budget: PreviewBudget, most: int = PREVIEW_ROWS) -> pa.Array | str:
    """Return some elements, of parts of the array that are apart; or why none."""
    if _is_remote(array, budget):
        return REMOTE
    height, width = array.info.shape[0], math.prod(array.info.shape[1:])
    is_string = array.info.storage_type.is_string
    if is_string and height > most and array.mapped_strings() is not None:  # found one by one
        if not budget.spend(most * _STRING_BYTES):
            return TOO_MUCH
        return next(array.string_pieces()).slice(0, most).cast(pa.string())
    within = None
    if len(array.info.shape) > 1:
        within = Span(0, min(width, max(most // max(height, 1), _LINE_ELEMENTS)))
        most //= max(within.size, 1)
    chunk = 1 if array.info.is_mappable else max(array.info.chunks[0], 1)
    for pieces in (_PIECES, 1):
        spans = _spread(height, most, pieces, chunk)
        if budget.spend(_cost(array, spans, within)):
            if is_string:
                parts = [array.string_rows(span).cast(pa.string()) for span in spans]
            else:
                parts = [arrow_of(part.reshape(-1)) for part in array.read_spans(spans, within)]
            return pa.concat_arrays(parts) if parts else arrow_of(np.empty(0))
    return TOO_MUCH


def _sparse(stored: StoredVector, budget: PreviewBudget) -> pa.Array | str:
    """Return some values of a sparse vector, whose stored ones are all read."""
    arrays = list(stored.arrays().values())
    if any(_is_remote(array, budget) for array in arrays):
        return REMOTE
    if not budget.spend(sum(_cost(array, [Span(0, array.info.size)]) for array in arrays)):
        return TOO_MUCH
    spans, parts = _spread(stored.info.length, PREVIEW_ROWS), stored.sparse_parts()
    return arrow_of(np.concatenate([parts.to_dense(span) for span in spans or [Span(0, 0)]]))


def _spread(length: int, most: int, pieces: int = _PIECES, chunk: int = 1) -> list[Span]:
    """Return ranges that are apart, each at the beginning of a chunk."""
    if length <= most:
        return [Span(0, length)] if length else []
    size = max(most // pieces, 1)
    starts = np.unique(np.linspace(0, (length - size) // chunk, pieces).astype(np.int64)) * chunk
    return [Span(start, min(start + size, length)) for start in starts.tolist()]


def _is_remote(array: StoredArray, budget: PreviewBudget) -> bool:
    """Return whether an array is on a server; that is asked of one array of a data set."""
    if budget.is_remote is None and array.info.size:
        estimate = ReadEstimate()
        array.estimate([Span(0, 1)], estimate)
        budget.is_remote = estimate.is_remote
    return bool(budget.is_remote)


def _cost(array: StoredArray, spans: list[Span], within: Span | None = None) -> int:
    """Return how many bytes reading rows touches or decodes, about."""
    estimate = ReadEstimate()
    array.estimate(spans, estimate, within)
    return max(estimate.size_bytes, estimate.decoded_bytes) + _PAGE_BYTES * max(len(spans), 1)


_FIRST_ENTRIES: Final = 3
_MOST_VECTORS: Final = 100
_OPEN_AXES: Final = 2
_HEAD: Final = ("vector", "type", "", "values", "")
_LISTS: Final = slice(3, None)
"""The sections of a summary that are shown as they are, after axes, vectors and matrices."""
_MATRIX_HEAD: Final = ("axes", "matrix", "type", "stored", "", "values", "")


_T = TypeVar("_T")


def data_set_section(summary: DafSummary, daf: PropertyReader, budget: PreviewBudget) -> Markup:
    """Return what the page of a data set shows, without its styles."""
    budget.is_remote = None
    counts = ", ".join(
        f"{len(each):,} {what}"
        for what, each in (("axes", summary.axes), ("matrices", summary.matrices))
    )
    parts = [html_element("div", html_element("strong", summary.location), f" {counts}")]
    parts += [
        _axis(axis, daf, budget, is_open=place < _OPEN_AXES)
        for place, axis in enumerate(summary.axes)
    ]
    if summary.matrices:
        rows = [_matrix_row(each, daf, budget) for each in summary.matrices]
        title = f"{len(summary.matrices):,} matrices"
        parts.append(html_details(title, html_table(_MATRIX_HEAD, rows)))
    parts += _lists(summary)
    looked_at = f"{readable_bytes(budget.spent_bytes)} of values were looked at"
    parts.append(html_element("div", looked_at, class_="note"))
    return joined_html(parts)


def axis_section(axis: AxisSummary, daf: PropertyReader, budget: PreviewBudget) -> Markup:
    """Return the vectors of an axis, with previews."""
    shown = axis.vectors[:_MOST_VECTORS]
    rows = [
        [
            shortened(vector.name),
            vector.storage_type.value + (", sparse" if vector.is_sparse else ""),
            *preview_cells(preview),
        ]
        for vector, preview in vector_previews(shown, daf, budget)
    ]
    parts = [html_table(_HEAD, rows)] if rows else []
    hidden = axis.vectors[_MOST_VECTORS:]
    if hidden:
        names = ", ".join(shortened(vector.name) for vector in hidden[:_MOST_VECTORS])
        more = ", …" if len(hidden) > _MOST_VECTORS else ""
        parts.append(html_element("div", f"{len(hidden):,} more: {names}{more}", class_="note"))
    return joined_html(parts)


def vector_previews(
    vectors: Iterable[VectorInfo], daf: PropertyReader, budget: PreviewBudget
) -> Iterator[tuple[VectorInfo, Preview | str]]:
    """Yield vectors with their previews; or, as text, why there is none."""
    for vector in vectors:
        yield vector, _seen(partial(_vector, vector, daf, budget))


def _axis(
    axis: AxisSummary, daf: PropertyReader, budget: PreviewBudget, *, is_open: bool
) -> Markup:
    entries = _seen(partial(_first_entries, axis, daf, budget))
    title = joined_html(
        (
            f"{axis.name}: {axis.length:,} entries, {len(axis.vectors):,} vectors ",
            html_element("span", entries, class_="note"),
        )
    )
    return html_details(title, axis_section(axis, daf, budget), is_open=is_open)


def _first_entries(axis: AxisSummary, daf: PropertyReader, budget: PreviewBudget) -> str:
    entries = daf.string_array(axis.name, NAME_VECTOR)
    sample = _some(entries, budget, _PIECES * _FIRST_ENTRIES)
    if isinstance(sample, str):
        return ""
    names = sample.slice(0, _FIRST_ENTRIES).to_pylist()
    more = ", …" if axis.length > len(names) else ""
    return ", ".join(shortened(name, 24) for name in names) + more


def _vector(vector: VectorInfo, daf: PropertyReader, budget: PreviewBudget) -> Preview | str:
    stored = daf.open_vector(vector.axis, vector.name)
    sample = _sparse(stored, budget) if vector.is_sparse else _some(stored.dense(), budget)
    if isinstance(sample, str):
        return sample
    return preview_of(sample, total=vector.length, empty_is_missing=vector.empty_is_missing)


def _seen(look: Callable[[], _T]) -> _T | str:
    """Return what a look at values yields; what is damaged does not hide the rest."""
    try:
        return look()
    except DafError as error:
        return f"cannot be read: {shortened(error, 160)}"


def _matrix_row(
    matrix: MatrixSummary, daf: PropertyReader, budget: PreviewBudget
) -> Sequence[object]:
    info = matrix.info
    axes = info.rows_axis, info.columns_axis
    return (
        f"{info.rows_axis} x {info.columns_axis}",
        shortened(info.name),
        info.storage_type.value,
        f"{stored_form(info)}, {stored_layouts(matrix)}",
        *preview_cells(_seen(lambda: preview_matrix(daf.open_matrix(*axes, info.name), budget))),
    )


def _lists(summary: DafSummary) -> Iterable[Markup]:
    """Yield what is named and not looked at."""
    for title, rows in sections(summary)[_LISTS]:
        if rows:
            is_open = title == "problems"
            yield html_details(f"{len(rows):,} {title}", html_table((), rows), is_open=is_open)

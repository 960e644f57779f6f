"""Samples of stored values, for previews: a few rows, and never more than a budget of bytes.

What a read would cost is estimated before it is made; nothing is read of a server.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import Any, Final, TypeVar

import numpy as np
import pyarrow as pa

from daf_storage.base import NAME_VECTOR, MatrixInfo, Span, VectorInfo, strings
from daf_storage.data._conversions import arrow_of
from daf_storage.data._property_reader import PropertyReader
from daf_storage.data._stored import StoredMatrix, StoredVector
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
    Extent,
    Markup,
    Preview,
    PreviewBudget,
    html_details,
    html_element,
    html_page,
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

_PIECES: Final = 16
_CHUNKS: Final = 4
_PREFIX_STRINGS: Final = 1024
_PAGE_BYTES: Final = 4096
_STRING_BYTES: Final = 16
_LENGTH_BYTES: Final = 4
_LINE_ROWS: Final = 512
_LINES: Final = 8

REMOTE: Final = "on a server: values are not looked at"
TOO_MUCH: Final = "too much to look at quickly"

Sample = tuple[pa.Array, Extent]


def preview_vector(stored: StoredVector, budget: PreviewBudget) -> Preview | str:
    """Return what some values of a vector look like, or why they were not looked at."""
    info = stored.info
    if info.is_sparse:
        sample = _sparse_vector(stored, budget)
    elif info.storage_type.is_string:
        sample = sample_strings(stored.string_array(), PREVIEW_ROWS, budget)
    else:
        sample = _numbers(stored.string_array(), budget)
    return _preview(sample, info.length, empty_is_missing=info.empty_is_missing)


def preview_matrix(stored: StoredMatrix, budget: PreviewBudget) -> Preview | str:
    """Return what some values of a matrix look like; of a sparse one, some of the stored ones."""
    if stored.info.storage_type.is_string:
        return ""
    if not stored.info.is_sparse:
        array = stored.dense()
        return _preview(_numbers(array, budget), array.info.size)
    values = stored.arrays().get("nzval")
    return "" if values is None else _preview(_numbers(values, budget), values.info.size)


def _preview(sample: Sample | str, total: int, *, empty_is_missing: bool = False) -> Preview | str:
    if isinstance(sample, str):
        return sample
    values, extent = sample
    return preview_of(values, total=total, extent=extent, empty_is_missing=empty_is_missing)


def sample_strings(array: StoredArray, most: int, budget: PreviewBudget) -> Sample | str:
    """Return some strings, at most so many; or why none."""
    length = array.info.shape[0]
    if _is_remote(array, budget):
        return REMOTE
    data = array.plain_strings() if length else None
    if data is not None and length > most:
        return _first_strings(data, min(most, _PREFIX_STRINGS), budget)
    for spans, extent in _choices(array, most):
        if budget.spend(_cost(array, spans)):
            parts = [array.string_rows(span).cast(pa.string()) for span in spans]
            return pa.concat_arrays(parts) if parts else pa.array([], pa.string()), extent
    return TOO_MUCH


def _first_strings(data: memoryview, count: int, budget: PreviewBudget) -> Sample | str:
    """Return the first strings of a chunk; the rest of it is not touched."""
    place = _LENGTH_BYTES
    whole = 0
    while whole < count and place + _LENGTH_BYTES <= len(data):
        size = int.from_bytes(data[place : place + _LENGTH_BYTES], "little")
        if place + _LENGTH_BYTES + size > len(data) or not budget.spend(_LENGTH_BYTES + size):
            break
        place += _LENGTH_BYTES + size
        whole += 1
    if not whole:
        return TOO_MUCH
    part = whole.to_bytes(_LENGTH_BYTES, "little") + bytes(data[_LENGTH_BYTES:place])
    return strings.decode_vlen_utf8(memoryview(part), what="the first strings"), "first"


def _numbers(array: StoredArray, budget: PreviewBudget) -> Sample | str:
    """Return some numbers of an array; of a dense matrix, parts of a few of its lines."""
    if _is_remote(array, budget):
        return REMOTE
    width = math.prod(array.info.shape[1:])
    is_whole = array.info.size <= PREVIEW_ROWS
    within = None
    if len(array.info.shape) > 1:
        within = Span(0, width if is_whole else min(width, _LINE_ROWS))
    most = PREVIEW_ROWS if within is None or is_whole else _LINES
    for spans, extent in _choices(array, most):
        if budget.spend(_cost(array, spans, within)):
            is_part = within is not None and within.size < width and extent == "all"
            return _joined(array.read_spans(spans, within), array), "first" if is_part else extent
    return TOO_MUCH


def _sparse_vector(stored: StoredVector, budget: PreviewBudget) -> Sample | str:
    """Return some values of a sparse vector, whose stored ones are all read."""
    arrays = stored.all_arrays()
    if stored.info.storage_type.is_string or any(_is_remote(array, budget) for array in arrays):
        return TOO_MUCH if stored.info.storage_type.is_string else REMOTE
    cost = sum(_cost(array, [Span(0, array.info.shape[0])]) for array in arrays)
    if not budget.spend(cost):
        return TOO_MUCH
    parts = stored.sparse_parts()
    spans, extent = _spread(stored.info.length, PREVIEW_ROWS, _PIECES, 1)
    values = [parts.to_dense(span) for span in spans]
    return arrow_of(np.concatenate(values) if values else np.empty(0)), extent


def _joined(parts: list[Any], array: StoredArray) -> pa.Array:
    empty = np.empty(0, array.info.storage_type.dtype)
    return arrow_of(np.concatenate([part.reshape(-1) for part in parts] or [empty]))


def _choices(array: StoredArray, most: int) -> Iterator[tuple[list[Span], Extent]]:
    """Yield which rows to read, the better ones first, and then those that cost less."""
    length = array.info.shape[0]
    chunk = 1 if array.info.is_mappable else max(array.info.chunks[0], 1)
    is_cut = 1 < chunk < length
    pieces = min(_CHUNKS, -(-length // chunk)) if is_cut else min(_PIECES, most)
    yield _spread(length, most, pieces, chunk if is_cut else 1)
    yield [Span(0, min(length, most))], "first"


def _spread(length: int, most: int, pieces: int, chunk: int) -> tuple[list[Span], Extent]:
    """Return ranges that are spread evenly, each at the beginning of a chunk."""
    if length <= most:
        return [Span(0, length)] if length else [], "all"
    if pieces <= 1:
        return [Span(0, most)], "first"
    size = most // pieces
    last = (length - size) // chunk
    starts = np.unique(np.linspace(0, last, pieces).astype(np.int64)) * chunk
    return [Span(start, min(start + size, length)) for start in starts.tolist()], "spread"


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
    pages = _PAGE_BYTES * len(spans) if array.info.is_mappable else 0
    return max(estimate.size_bytes, estimate.decoded_bytes) + pages


_FIRST_ENTRIES: Final = 3
_MOST_VECTORS: Final = 100
_OPEN_AXES: Final = 2
_HEAD: Final = ("vector", "type", "", "values", "")
_SPENT: Final = "not looked at: there is too much before it"
_LISTS: Final = slice(3, None)
"""The sections of a summary that are shown as they are, after axes, vectors and matrices."""
_MATRIX_HEAD: Final = ("axes", "matrix", "type", "stored", "", "values", "")


_T = TypeVar("_T")


def data_set_page(summary: DafSummary, daf: PropertyReader, budget: PreviewBudget) -> Markup:
    """Return the page of a data set."""
    return html_page(data_set_section(summary, daf, budget))


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
            _type_of(vector),
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
    sample = sample_strings(daf.string_array(axis.name, NAME_VECTOR), _FIRST_ENTRIES, budget)
    if isinstance(sample, str):
        return ""
    names = sample[0].slice(0, _FIRST_ENTRIES).to_pylist()
    more = ", …" if axis.length > len(names) else ""
    return ", ".join(shortened(name, 24) for name in names) + more


def _vector(vector: VectorInfo, daf: PropertyReader, budget: PreviewBudget) -> Preview | str:
    if not budget.look():
        return _SPENT
    return preview_vector(daf.open_vector(vector.axis, vector.name), budget)


def _matrix(info: MatrixInfo, daf: PropertyReader, budget: PreviewBudget) -> Preview | str:
    if not budget.look():
        return _SPENT
    return preview_matrix(daf.open_matrix(info.rows_axis, info.columns_axis, info.name), budget)


def _seen(look: Callable[[], _T]) -> _T | str:
    """Return what a look at values yields; what is damaged does not hide the rest."""
    try:
        return look()
    except DafError as error:
        return f"cannot be read: {shortened(error, 160)}"


def _type_of(vector: VectorInfo) -> str:
    name = vector.storage_type.value
    return f"{name}, sparse" if vector.is_sparse else name


def _matrix_row(
    matrix: MatrixSummary, daf: PropertyReader, budget: PreviewBudget
) -> Sequence[object]:
    info = matrix.info
    return (
        f"{info.rows_axis} x {info.columns_axis}",
        shortened(info.name),
        info.storage_type.value,
        f"{stored_form(info)}, {stored_layouts(matrix)}",
        *preview_cells(_seen(partial(_matrix, info, daf, budget))),
    )


def _lists(summary: DafSummary) -> Iterable[Markup]:
    """Yield what is named and not looked at."""
    for title, rows in sections(summary)[_LISTS]:
        if rows:
            is_open = title == "problems"
            yield html_details(f"{len(rows):,} {title}", html_table((), rows), is_open=is_open)

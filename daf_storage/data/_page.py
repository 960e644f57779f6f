"""The page of a data set for notebooks: what it holds, and what some of the values look like."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import Final, TypeVar

from daf_storage.base import NAME_VECTOR, MatrixInfo, VectorInfo
from daf_storage.data._matrix_reader import MatrixReader
from daf_storage.data._samples import preview_matrix, preview_vector, sample_strings
from daf_storage.data._summary import AxisSummary, DafSummary, MatrixSummary, stored_share
from daf_storage.display import (
    Markup,
    Preview,
    PreviewBudget,
    escaped,
    html_details,
    html_element,
    html_page,
    html_table,
    joined_html,
    preview_cells,
    readable_bytes,
    shortened,
)
from daf_storage.errors import DafError

_FIRST_ENTRIES: Final = 3
_MOST_VECTORS: Final = 100
_OPEN_AXES: Final = 2
_HEAD: Final = ("vector", "type", "", "values", "")
_SPENT: Final = "not looked at: there is too much before it"
_MATRIX_HEAD: Final = ("axes", "matrix", "type", "stored", "", "values", "")


_T = TypeVar("_T")


def data_set_page(summary: DafSummary, daf: MatrixReader, budget: PreviewBudget) -> Markup:
    """Return the page of a data set."""
    return html_page(data_set_section(summary, daf, budget))


def data_set_section(summary: DafSummary, daf: MatrixReader, budget: PreviewBudget) -> Markup:
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


def axis_section(axis: AxisSummary, daf: MatrixReader, budget: PreviewBudget) -> Markup:
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
    vectors: Iterable[VectorInfo], daf: MatrixReader, budget: PreviewBudget
) -> Iterator[tuple[VectorInfo, Preview | str]]:
    """Yield vectors with their previews; or, as text, why there is none."""
    for vector in vectors:
        yield vector, _seen(partial(_vector, vector, daf, budget))


def _axis(axis: AxisSummary, daf: MatrixReader, budget: PreviewBudget, *, is_open: bool) -> Markup:
    entries = _seen(partial(_first_entries, axis, daf, budget))
    title = joined_html(
        (
            f"{axis.name}: {axis.length:,} entries, {len(axis.vectors):,} vectors ",
            html_element("span", entries, class_="note"),
        )
    )
    return html_details(title, axis_section(axis, daf, budget), is_open=is_open)


def _first_entries(axis: AxisSummary, daf: MatrixReader, budget: PreviewBudget) -> str:
    sample = sample_strings(daf.string_array(axis.name, NAME_VECTOR), _FIRST_ENTRIES, budget)
    if isinstance(sample, str):
        return ""
    names = sample[0].slice(0, _FIRST_ENTRIES).to_pylist()
    more = ", …" if axis.length > len(names) else ""
    return ", ".join(shortened(name, 24) for name in names) + more


def _vector(vector: VectorInfo, daf: MatrixReader, budget: PreviewBudget) -> Preview | str:
    if not budget.look():
        return _SPENT
    return preview_vector(daf.open_vector(vector.axis, vector.name), budget)


def _matrix(info: MatrixInfo, daf: MatrixReader, budget: PreviewBudget) -> Preview | str:
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
    matrix: MatrixSummary, daf: MatrixReader, budget: PreviewBudget
) -> Sequence[object]:
    info = matrix.info
    stored = "dense" if info.nnz is None else f"{info.nnz:,} stored ({stored_share(info)})"
    layouts = "both layouts" if matrix.both_layouts else "one layout"
    return (
        f"{info.rows_axis} x {info.columns_axis}",
        shortened(info.name),
        info.storage_type.value,
        f"{stored}, {layouts}",
        *preview_cells(_seen(partial(_matrix, info, daf, budget))),
    )


def _lists(summary: DafSummary) -> Iterable[Markup]:
    """Yield what is named and not looked at."""
    lists: list[tuple[str, list[tuple[object, ...]], bool]] = [
        ("relations", [(r.axis, r.vector, "→", r.to_axis) for r in summary.relations], False),
        ("scalars", [(s.name, s.storage_type, shortened(s.value)) for s in summary.scalars], False),
        ("problems", [(p.what, p.message) for p in summary.problems], True),
        ("not as in the file", [(r.what, r.message) for r in summary.remarks], False),
    ]
    for title, rows, is_open in lists:
        if rows:
            cells = [[escaped(cell) for cell in row] for row in rows]
            yield html_details(f"{len(rows):,} {title}", html_table((), cells), is_open=is_open)

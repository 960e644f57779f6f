"""Summaries of a data set: its contents as a value, as text, and as a page with previews.

A property whose metadata is broken is listed with its problem: one bad array must not hide the
others.  A summary reads metadata only.  For previews a few rows are read, and never more than a
budget of bytes: what a read would cost is estimated before it is made; nothing is read of a server.
"""

from __future__ import annotations

import math
import posixpath
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from typing import Any, Final, TypeAlias, TypeVar

import numpy as np
import pyarrow as pa

from daf_storage._terminal_text import text_width, visible_name
from daf_storage.base import NAME_VECTOR, MatrixInfo, Span, VectorInfo, arrow_of
from daf_storage.data import _kept as kept
from daf_storage.data._layout import Relation, StoredMatrix, StoredVector, relations_of
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
from daf_storage.trees import Remarked, StoredArray, Tree

_LOOKS = 100

DafReader: TypeAlias = Any
"""A data set that is open, whose module knows this one."""


@dataclass(frozen=True, slots=True)
class AxisSummary:
    """One axis and its vectors."""

    name: str
    """The axis."""
    length: int
    """Number of its entries."""
    vectors: tuple[VectorInfo, ...]
    """Its vectors, by name."""


@dataclass(frozen=True, slots=True)
class MatrixSummary:
    """One matrix, in whichever orientations it is stored."""

    info: MatrixInfo
    """The orientation whose rows axis comes first among the axes, or the only one."""
    both_layouts: bool
    """Whether the transpose is stored as well."""


@dataclass(frozen=True, slots=True)
class ScalarSummary:
    """One scalar."""

    name: str
    """Its name."""
    storage_type: str
    """Its stored type."""
    value: bool | int | float | str
    """Its value."""


@dataclass(frozen=True, slots=True)
class Problem:
    """A property that cannot be used."""

    what: str
    """Which property."""
    message: str
    """Why not, and what to do."""


@dataclass(frozen=True, slots=True)
class DafSummary:
    """All that a data set holds."""

    name: str
    """Its name."""
    location: str
    """Where it is."""
    axes: tuple[AxisSummary, ...]
    """Its axes: those of observations and variables first, then the longest."""
    matrices: tuple[MatrixSummary, ...]
    """Its matrices."""
    relations: tuple[Relation, ...]
    """Its vectors whose values are entries of an axis."""
    scalars: tuple[ScalarSummary, ...]
    """Its scalars."""
    problems: tuple[Problem, ...]
    """What is there but cannot be used."""
    remarks: tuple[Problem, ...] = ()
    """What a file of another format has that is not shown as it is, and why."""

    def as_dict(self) -> dict[str, Any]:
        """Return plain dictionaries and lists, for JSON."""
        return {
            "name": self.name,
            "location": self.location,
            "axes": {
                axis.name: {
                    "length": axis.length,
                    "vectors": {
                        v.name: {"type": v.storage_type.value, "sparse": v.is_sparse}
                        for v in axis.vectors
                    },
                }
                for axis in self.axes
            },
            "matrices": [self._matrix_as_dict(m) for m in self.matrices],
            "relations": [asdict(relation) for relation in self.relations],
            "scalars": {s.name: {"type": s.storage_type, "value": s.value} for s in self.scalars},
            "problems": [asdict(problem) for problem in self.problems],
            "remarks": [asdict(remark) for remark in self.remarks],
        }

    def axes_of(self, info: MatrixInfo) -> tuple[str, str]:
        """Return the axes of a matrix in their order here, whichever of its layouts is stored."""
        order = [axis.name for axis in self.axes]
        first, second = sorted((info.rows_axis, info.columns_axis), key=order.index)
        return first, second

    def _matrix_as_dict(self, matrix: MatrixSummary) -> dict[str, Any]:
        info = matrix.info
        rows_axis, columns_axis = self.axes_of(info)
        return {
            "rows_axis": rows_axis,
            "columns_axis": columns_axis,
            "name": info.name,
            "type": info.storage_type.value,
            "shape": list(info.shape if rows_axis == info.rows_axis else info.shape[::-1]),
            "sparse": info.is_sparse,
            "nnz": info.nnz,
            "both_layouts": matrix.both_layouts,
            "by": None if matrix.both_layouts else info.columns_axis,
        }


def summarise(daf: DafReader) -> DafSummary:
    """Return what a data set holds."""
    problems: list[Problem] = []
    lengths = _lengths(daf, _listed(problems, "axes", daf.axes_set), problems)
    axes = []
    for axis, length in lengths.items():
        vectors = [
            _guarded(
                problems, f"vector {name!r} of axis {axis!r}", partial(daf.vector_info, axis, name)
            )
            for name in _listed(problems, f"vectors of axis {axis!r}", daf.vectors_set, axis)
        ]
        axes.append(AxisSummary(axis, length, tuple(v for v in vectors if v is not None)))
    scalars = [
        _guarded(problems, f"scalar {name!r}", partial(_scalar, daf, name))
        for name in _listed(problems, "scalars", daf.scalars_set)
    ]
    every_vector = [vector for axis in axes for vector in axis.vectors]
    return DafSummary(
        name=daf.name,
        location=daf.location,
        axes=tuple(axes),
        matrices=tuple(_matrices(daf, list(lengths), problems)),
        relations=tuple(relations_of(set(lengths), every_vector)),
        scalars=tuple(s for s in scalars if s is not None),
        problems=tuple(problems),
        remarks=tuple(Problem(what, message) for what, message in _remarks(daf.tree)),
    )


def _remarks(tree: Tree) -> list[tuple[str, str]]:
    """Return what a tree does not show of the file that it presents, or was imported from."""
    if isinstance(tree, Remarked):
        return tree.remarks()
    return [
        (posixpath.basename(path), "only in exports: Daf has no place for it")
        for path in kept.arrays(tree)
        if not posixpath.basename(path).startswith("uns.")
    ]


def axes_in_order(daf: DafReader) -> list[str]:
    """Return the axes whose length can be read: observations and variables, then the longest."""
    return list(_lengths(daf, daf.axes_set(), []))


def _lengths(daf: DafReader, axes: Iterable[str], problems: list[Problem]) -> dict[str, int]:
    """Return the lengths of axes that can be read, in the order of `axes_in_order`."""
    lengths = {
        axis: _guarded(problems, f"axis {axis!r}", partial(daf.axis_length, axis)) for axis in axes
    }
    main = [_main_axis(daf, part) for part in ("obs", "var")]

    def place(axis: str) -> tuple[int, int, str]:
        return main.index(axis) if axis in main else len(main), -lengths[axis], axis

    readable = sorted((axis for axis in axes if lengths[axis] is not None), key=place)
    return {axis: lengths[axis] for axis in readable}


def _main_axis(daf: DafReader, part: str) -> Any:
    """Return the axis of observations or of variables, as far as the data set says."""
    try:
        return daf.get_scalar(f"{part}_is", default=part)
    except DafError:  # listed among the problems of the scalars
        return part


def _guarded(problems: list[Problem], what: str, read: Callable[[], Any]) -> Any:
    try:
        return read()
    except DafError as error:
        problems.append(Problem(what, str(error)))
        return None


def _listed(
    problems: list[Problem], what: str, read: Callable[..., set[str]], *axes: str
) -> list[str]:
    """Return names, sorted; none, and a problem, if they cannot be listed."""
    return sorted(_guarded(problems, what, partial(read, *axes)) or ())


def _scalar(daf: DafReader, name: str) -> ScalarSummary:
    return ScalarSummary(name, daf.scalar_type(name).value, daf.get_scalar(name))


def _matrices(daf: DafReader, axes: list[str], problems: list[Problem]) -> Iterable[MatrixSummary]:
    for position, first in enumerate(axes):
        for second in axes[position:]:
            what = f"matrices of axes {first!r} and {second!r}"
            for name in _listed(problems, what, daf.matrices_set, first, second):
                whole = _orientations(daf, (first, second), name, problems)
                if whole:
                    yield MatrixSummary(whole[0], both_layouts=len(whole) > 1)


def _orientations(
    daf: DafReader, axes: tuple[str, str], name: str, problems: list[Problem]
) -> list[MatrixInfo]:
    """Return the metadata of a matrix in each orientation in which it is stored.

    A writer may replace one by the other between the two looks: then it is looked for again.
    """
    for _ in range(_LOOKS):
        noted: list[Problem] = []
        found = [
            _guarded(
                noted,
                f"matrix {name!r} of axes {pair[0]!r} and {pair[1]!r}",
                partial(_matrix_info, daf, *pair, name),
            )
            for pair in dict.fromkeys([axes, axes[::-1]])
        ]
        whole = [info for info in found if info is not None]
        if whole or noted or name not in daf.matrices_set(*axes):
            problems += noted
            return whole
    return []


def _matrix_info(daf: DafReader, rows: str, columns: str, name: str) -> MatrixInfo | None:
    """Return the metadata of a matrix; None if it is not stored in this orientation."""
    stored = daf.find_matrix(rows, columns, name)
    if stored is not None:
        stored.check_stored()
    return None if stored is None else stored.info


_Section = tuple[str, list[tuple[str, ...]]]


def sections(summary: DafSummary) -> list[_Section]:
    """Return titles and rows of text."""
    vectors: list[tuple[str, ...]] = [
        (axis.name, v.name, v.storage_type.value, "sparse" if v.is_sparse else "")
        for axis in summary.axes
        for v in axis.vectors
    ]
    matrices: list[tuple[str, ...]] = [
        (
            " x ".join(summary.axes_of(m.info)),
            m.info.name,
            m.info.storage_type.value,
            stored_form(m.info),
            stored_layouts(m),
        )
        for m in summary.matrices
    ]
    return [
        ("axes", [(axis.name, f"{axis.length:,}") for axis in summary.axes]),
        ("vectors", vectors),
        ("matrices", matrices),
        ("relations", [(r.axis, r.vector, "->", r.to_axis) for r in summary.relations]),
        ("scalars", [(s.name, s.storage_type, shortened(s.value)) for s in summary.scalars]),
        ("problems", [(p.what, p.message) for p in summary.problems]),
        ("not as in the file", [(r.what, r.message) for r in summary.remarks]),
    ]


def stored_layouts(matrix: MatrixSummary) -> str:
    """Return how a matrix is stored: of one with two axes in one layout, by which of them."""
    if matrix.both_layouts:
        return "both layouts"
    info = matrix.info
    return "one layout" if info.rows_axis == info.columns_axis else f"by {info.columns_axis}"


def as_text(summary: DafSummary) -> str:
    """Return an aligned plain-text page."""
    lines = [visible_name(summary.location)]
    for title, described in sections(summary):
        if not described:
            continue
        lines.append(title)
        rows = [tuple(map(visible_name, row)) for row in described]
        widths = [max(map(text_width, column)) for column in zip(*rows, strict=True)]
        for row in rows:
            cells = (_filled(cell, width) for cell, width in zip(row, widths, strict=True))
            lines.append("  " + "  ".join(cells).rstrip())
    return "\n".join(lines)


def _filled(cell: str, width: int) -> str:
    """Return a cell with blanks: a number to the right, all else to the left."""
    blanks = " " * (width - text_width(cell))
    return blanks + cell if cell.replace(",", "").isdigit() else cell + blanks


def stored_form(info: MatrixInfo) -> str:
    """Return whether a matrix is dense, or how many of its elements are stored, and which part."""
    if info.nnz is None:
        return "dense"
    cells = info.shape[0] * info.shape[1]
    share = f"{100 * info.nnz / cells:.3g}%" if cells else "0%"
    return f"sparse, {info.nnz:,} stored ({share})"


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
    """Return ranges that are apart, each at the beginning of a chunk.

    >>> [[(each.start, each.stop) for each in _spread(length, 4, 2, 5)] for length in (0, 4, 21)]
    [[], [(0, 4)], [(0, 2), (15, 17)]]
    >>> [(each.start, each.stop) for each in _spread(7, 6, 3)]
    [(0, 2), (2, 4), (5, 7)]
    """
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


def data_set_section(summary: DafSummary, daf: DafReader, budget: PreviewBudget) -> Markup:
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


def axis_section(axis: AxisSummary, daf: DafReader, budget: PreviewBudget) -> Markup:
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
    vectors: Iterable[VectorInfo], daf: DafReader, budget: PreviewBudget
) -> Iterator[tuple[VectorInfo, Preview | str]]:
    """Yield vectors with their previews; or, as text, why there is none."""
    for vector in vectors:
        yield vector, _seen(partial(_vector, vector, daf, budget))


def _axis(axis: AxisSummary, daf: DafReader, budget: PreviewBudget, *, is_open: bool) -> Markup:
    entries = _seen(partial(_first_entries, axis, daf, budget))
    title = joined_html(
        (
            f"{axis.name}: {axis.length:,} entries, {len(axis.vectors):,} vectors ",
            html_element("span", entries, class_="note"),
        )
    )
    return html_details(title, axis_section(axis, daf, budget), is_open=is_open)


def _first_entries(axis: AxisSummary, daf: DafReader, budget: PreviewBudget) -> str:
    entries = daf.string_array(axis.name, NAME_VECTOR)
    sample = _some(entries, budget, _PIECES * _FIRST_ENTRIES)
    if isinstance(sample, str):
        return ""
    names = sample.slice(0, _FIRST_ENTRIES).to_pylist()
    more = ", …" if axis.length > len(names) else ""
    return ", ".join(shortened(name, 24) for name in names) + more


def _vector(vector: VectorInfo, daf: DafReader, budget: PreviewBudget) -> Preview | str:
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


def _matrix_row(matrix: MatrixSummary, daf: DafReader, budget: PreviewBudget) -> Sequence[object]:
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

"""Summaries of a data set: its contents as a value and as text.

Reads metadata only.  A property whose metadata is broken is listed with its problem: one bad array
must not hide the others.
"""

from __future__ import annotations

import posixpath
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass
from functools import partial
from typing import Any

from daf_storage._terminal_text import text_width, visible_name
from daf_storage.base import MatrixInfo, VectorInfo
from daf_storage.data import _kept as kept
from daf_storage.data._layout import Relation, relations_of
from daf_storage.data._property_reader import PropertyReader
from daf_storage.display import shortened
from daf_storage.errors import DafError
from daf_storage.trees import Remarked, Tree

_LOOKS = 100


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


def summarise(daf: PropertyReader) -> DafSummary:
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


def axes_in_order(daf: PropertyReader) -> list[str]:
    """Return the axes whose length can be read: observations and variables, then the longest."""
    return list(_lengths(daf, daf.axes_set(), []))


def _lengths(daf: PropertyReader, axes: Iterable[str], problems: list[Problem]) -> dict[str, int]:
    """Return the lengths of axes that can be read, in the order of `axes_in_order`."""
    lengths = {
        axis: _guarded(problems, f"axis {axis!r}", partial(daf.axis_length, axis)) for axis in axes
    }
    main = [_main_axis(daf, part) for part in ("obs", "var")]

    def place(axis: str) -> tuple[int, int, str]:
        return main.index(axis) if axis in main else len(main), -lengths[axis], axis

    readable = sorted((axis for axis in axes if lengths[axis] is not None), key=place)
    return {axis: lengths[axis] for axis in readable}


def _main_axis(daf: PropertyReader, part: str) -> Any:
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


def _scalar(daf: PropertyReader, name: str) -> ScalarSummary:
    return ScalarSummary(name, daf.scalar_type(name).value, daf.get_scalar(name))


def _matrices(
    daf: PropertyReader, axes: list[str], problems: list[Problem]
) -> Iterable[MatrixSummary]:
    for position, first in enumerate(axes):
        for second in axes[position:]:
            what = f"matrices of axes {first!r} and {second!r}"
            for name in _listed(problems, what, daf.matrices_set, first, second):
                whole = _orientations(daf, (first, second), name, problems)
                if whole:
                    yield MatrixSummary(whole[0], both_layouts=len(whole) > 1)


def _orientations(
    daf: PropertyReader, axes: tuple[str, str], name: str, problems: list[Problem]
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


def _matrix_info(daf: PropertyReader, rows: str, columns: str, name: str) -> MatrixInfo | None:
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

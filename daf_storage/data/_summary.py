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
from daf_storage.data import kept
from daf_storage.data._matrix_reader import MatrixReader
from daf_storage.data._relations import Relation, relations_of
from daf_storage.errors import DafError, MatrixNotFoundError
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
            "matrices": [
                {
                    "rows_axis": m.info.rows_axis,
                    "columns_axis": m.info.columns_axis,
                    "name": m.info.name,
                    "type": m.info.storage_type.value,
                    "shape": list(m.info.shape),
                    "sparse": m.info.is_sparse,
                    "nnz": m.info.nnz,
                    "both_layouts": m.both_layouts,
                }
                for m in self.matrices
            ],
            "relations": [asdict(relation) for relation in self.relations],
            "scalars": {s.name: {"type": s.storage_type, "value": s.value} for s in self.scalars},
            "problems": [asdict(problem) for problem in self.problems],
            "remarks": [asdict(remark) for remark in self.remarks],
        }


def summarise(daf: MatrixReader) -> DafSummary:
    """Return what a data set holds."""
    problems: list[Problem] = []
    axes = []
    for axis in _listed(problems, "axes", daf.axes_set):
        length = _guarded(problems, f"axis {axis!r}", partial(daf.axis_length, axis))
        if length is None:
            continue
        vectors = [
            _guarded(
                problems,
                f"vector {name!r} of axis {axis!r}",
                partial(daf.vector_info, axis, name),
            )
            for name in _listed(problems, f"vectors of axis {axis!r}", daf.vectors_set, axis)
        ]
        axes.append(AxisSummary(axis, length, tuple(v for v in vectors if v is not None)))
    main = [_main_axis(daf, part) for part in ("obs", "var")]
    axes.sort(key=lambda axis: (_place(axis.name, main), -axis.length, axis.name))
    names = [axis.name for axis in axes]
    scalars = [
        _guarded(problems, f"scalar {name!r}", partial(_scalar, daf, name))
        for name in _listed(problems, "scalars", daf.scalars_set)
    ]
    return DafSummary(
        name=daf.name,
        location=daf.location,
        axes=tuple(axes),
        matrices=tuple(_matrices(daf, names, problems)),
        relations=tuple(
            relations_of(set(names), [vector for axis in axes for vector in axis.vectors])
        ),
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


def axes_in_order(daf: MatrixReader) -> list[str]:
    """Return the axes whose length can be read: observations and variables, then the longest."""
    lengths = {axis: _guarded([], axis, partial(daf.axis_length, axis)) for axis in daf.axes_set()}
    main = [_main_axis(daf, part) for part in ("obs", "var")]
    readable = {axis: length for axis, length in lengths.items() if length is not None}
    return sorted(readable, key=lambda axis: (_place(axis, main), -readable[axis], axis))


def _main_axis(daf: MatrixReader, part: str) -> Any:
    """Return the axis of observations or of variables, as far as the data set says."""
    try:
        return daf.get_scalar(f"{part}_is", default=part)
    except DafError:  # listed among the problems of the scalars
        return part


def _place(name: str, main: list[Any]) -> int:
    return main.index(name) if name in main else len(main)


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


def _scalar(daf: MatrixReader, name: str) -> ScalarSummary:
    return ScalarSummary(name, daf.scalar_type(name).value, daf.get_scalar(name))


def _matrices(
    daf: MatrixReader, axes: list[str], problems: list[Problem]
) -> Iterable[MatrixSummary]:
    for position, first in enumerate(axes):
        for second in axes[position:]:
            what = f"matrices of axes {first!r} and {second!r}"
            for name in _listed(problems, what, daf.matrices_set, first, second):
                whole = _orientations(daf, (first, second), name, problems)
                if whole:
                    yield MatrixSummary(whole[0], both_layouts=len(whole) > 1)


def _orientations(
    daf: MatrixReader, axes: tuple[str, str], name: str, problems: list[Problem]
) -> list[MatrixInfo]:
    """Return the metadata of a matrix in each orientation in which it is stored.

    A writer may replace one by the other between the two looks: then it is looked for again.
    """
    for _ in range(_LOOKS):
        noted: list[Problem] = []
        found = [
            _guarded(
                noted,
                f"matrix {name!r} of axes {rows!r} and {columns!r}",
                partial(_matrix_info, daf, rows, columns, name),
            )
            for rows, columns in dict.fromkeys([axes, axes[::-1]])
        ]
        whole = [info for info in found if info is not None]
        if whole or noted or name not in daf.matrices_set(*axes):
            problems += noted
            return whole
    return []


def _matrix_info(daf: MatrixReader, rows: str, columns: str, name: str) -> MatrixInfo | None:
    """Return the metadata of a matrix; None if it is not stored in this orientation."""
    try:
        return daf.matrix_info(rows, columns, name)
    except MatrixNotFoundError:
        return None


_Section = tuple[str, list[tuple[str, ...]]]


def _sections(summary: DafSummary) -> list[_Section]:
    """Return titles and rows of text."""
    order = [axis.name for axis in summary.axes]
    vectors: list[tuple[str, ...]] = [
        (axis.name, v.name, v.storage_type.value, "sparse" if v.is_sparse else "")
        for axis in summary.axes
        for v in axis.vectors
    ]
    matrices: list[tuple[str, ...]] = [
        (
            " x ".join(sorted((m.info.rows_axis, m.info.columns_axis), key=order.index)),
            m.info.name,
            m.info.storage_type.value,
            "dense"
            if m.info.nnz is None
            else f"sparse, {m.info.nnz:,} stored ({stored_share(m.info)})",
            _stored_layouts(m),
        )
        for m in summary.matrices
    ]
    return [
        ("axes", [(axis.name, f"{axis.length:,}") for axis in summary.axes]),
        ("vectors", vectors),
        ("matrices", matrices),
        ("relations", [(r.axis, r.vector, "->", r.to_axis) for r in summary.relations]),
        ("scalars", [(s.name, s.storage_type, _short(str(s.value))) for s in summary.scalars]),
        ("problems", [(p.what, p.message) for p in summary.problems]),
        ("not as in the file", [(r.what, r.message) for r in summary.remarks]),
    ]


def _stored_layouts(matrix: MatrixSummary) -> str:
    """Return how a matrix is stored: of one with two axes in one layout, by which of them."""
    if matrix.both_layouts:
        return "both layouts"
    info = matrix.info
    return "one layout" if info.rows_axis == info.columns_axis else f"by {info.columns_axis}"


def as_text(summary: DafSummary) -> str:
    """Return an aligned plain-text page."""
    lines = [visible_name(summary.location)]
    for title, described in _sections(summary):
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


def stored_share(info: MatrixInfo) -> str:
    """Return which part of the elements of a sparse matrix is stored."""
    cells = info.shape[0] * info.shape[1]
    return f"{100 * (info.nnz or 0) / cells:.3g}%" if cells else "0%"


def _short(text: str, width: int = 60) -> str:
    line = " ".join(text.split())
    return line if len(line) <= width else f"{line[: width - 1]}…"

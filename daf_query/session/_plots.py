"""Plots of a session: coordinates of the entries of an axis, coloured by values of SQL."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from daf_query._calls import Advised
from daf_query.plot import Palette, axes_for, colouring_of, draw_points, legend_inches, write_labels
from daf_query.slice import AxisRows, Selector, SliceRequest, matrix_slice
from daf_query.sql import AxisSchema, Engine, is_number
from daf_storage import DafReader, errors
from daf_storage._lazy import pc
from daf_storage.data import axes_in_order

_PAIRS: Final = (("1", "2"), ("0", "1"), ("x", "y"), ("X", "Y"))
_SIDE: Final = re.compile(r"(?P<stem>.*?)[_.\- ]?(?P<side>[12xyXY0])", re.DOTALL)
_INCHES: Final = (6.5, 5.0)
_SQUARE: Final = 4.8


@dataclass(frozen=True, slots=True)
class SessionPlots(Advised):
    """The plots of a session; `DafSession.plot` is one.

    They draw with matplotlib (extra ``plot``), into ``ax=`` or the axes of a new figure, and return
    the axes.  A notebook shows them, ``.figure.savefig(path)`` writes them; pyplot is not needed.
    """

    engine: Engine
    """What plans the queries of the session."""

    def embedding(  # noqa: PLR0913 - what is drawn, and how
        self,
        name: str,
        color: str | None = None,
        *,
        axis: str | None = None,
        components: tuple[int, int] = (0, 1),
        rows: Selector = None,
        schema: str | None = None,
        palette: Palette | None = None,
        cmap: str = "viridis",
        size: float | None = None,
        legend: bool = True,
        seed: int = 0,
        ax: Any = None,
    ) -> Any:
        """Draw the entries of an axis as points, such as the UMAP of cells.

        Points are drawn in random order, so that no category hides the others because it comes
        last; those without a value are grey, below the rest.  More than ten thousand become pixels
        also in a PDF or SVG.

        Parameters
        ----------
        name
            The matrix with the coordinates, such as ``X_umap``; or what two vectors are called
            before ``_1`` and ``_2``, or ``x`` and ``y``.
        color
            A vector, an expression of SQL, or an entry of a matrix: ``"louvain"``,
            ``"n_genes > 1000"``, ``"X['CD8A']"``.  Strings and truth values are categories, with a
            legend of their counts; numbers have a colour map.
        axis
            The axis whose entries are points; by default the one that the matrix is of.
        components
            Which two columns of the matrix are drawn, from 0.
        rows
            Which entries are drawn; all by default.  As for `DafSession.matrix`.
        schema
            Which data set, where several are connected.
        palette
            Colours of the categories: a mapping, or a list in their order.  By default those that
            an AnnData import noted, else those of matplotlib.
        cmap
            The colour map of numbers.
        size
            The area of a point; by default less for more points.
        legend
            Whether the legend, or the colour bar, is drawn.
        seed
            Determines the order in which points are drawn.
        ax
            Axes of matplotlib to draw into; by default those of a new figure.

        Returns
        -------
        matplotlib.axes.Axes
            ``.figure`` is the figure.

        Raises
        ------
        MatrixNotFoundError
            There are no such coordinates; the message lists those that exist.
        QueryError, VectorNotFoundError, EntryNotFoundError
            The colour is wrong, or names what is not there.
        InvalidInputError
            Several axes have such a matrix; or the colours are neither numbers nor categories.
        MissingDependencyError
            matplotlib is not installed; the message says what to install.

        Examples
        --------
        >>> import daf_storage
        >>> from daf_query import connect
        >>> daf = daf_storage.MemoryDaf()
        >>> daf.add_axis("cell", ["A", "B", "C"])
        >>> daf.add_axis("X_umap", ["0", "1"])
        >>> daf.set_vector("cell", "type", ["T", "B", "T"])
        >>> daf.set_matrix("cell", "X_umap", "X_umap", [[0.0, 1.0], [2.0, 3.0], [4.0, 5.0]])
        >>> axes = connect(daf).plot.embedding("X_umap", color="type")
        >>> [each.get_label() for each in axes.get_legend().legend_handles]
        ['B (1)', 'T (2)']
        """
        given: dict[str, Any] = {"name": name, "color": color, "axis": axis}
        for keyword, text in given.items():
            if text is not None and not isinstance(text, str):
                several = "; for several, call it for each, with ax= of its own"
                raise errors.InvalidInputError(
                    f"{keyword}= is a string, such as a vector or SQL, not {text!r}"
                    f"{several if isinstance(text, list | tuple) else ''}"
                )
        tables = self.engine.connections.schema(schema)
        found = coordinates_of(self.engine, tables, name, axis, components, rows)
        colouring = None
        if color is not None:
            with errors.located("color="):
                whole = values_of(found.rows, color)
            values = whole.take(pa.array(found.positions))
            order = whole.dictionary if pa.types.is_dictionary(whole.type) else None
            noted = found.rows.colours(color) if palette is None else None
            if noted is not None:
                with suppress(errors.InvalidInputError):  # they may be none, or not of all
                    colouring = colouring_of(values, order=order, palette=noted)
            colouring = colouring or colouring_of(values, order=order, palette=palette)
        beside = legend_inches(colouring) if legend else 0.0
        ax = axes_for(ax, inches=(max(_INCHES[0], _SQUARE + beside), _INCHES[1]))
        style: dict[str, Any] = {"size": size, "cmap": cmap, "seed": seed, "legend": legend}
        draw_points(ax, found.points, colouring, title=color or "", **style)
        ax.set(xticks=[], yticks=[])
        write_labels(ax, x=found.labels[0], y=found.labels[1])
        ax.spines[["top", "right"]].set_visible(False)
        return ax


@dataclass(frozen=True, slots=True)
class Coordinates:
    """Entries of an axis that are drawn, and where."""

    rows: AxisRows
    """All entries of the axis."""
    positions: npt.NDArray[np.int64]
    """Their positions along the axis; of a collection, counted through."""
    points: npt.NDArray[Any]
    """Of shape ``(entries, 2)``."""
    labels: list[str]
    """What the two coordinates are called."""


def coordinates_of(
    engine: Engine,
    tables: AxisSchema,
    name: str,
    axis: str | None = None,
    components: tuple[int, int] = (0, 1),
    rows: Selector = None,
) -> Coordinates:
    """Return where the entries of an axis are drawn: by a matrix, or by two vectors.

    Raises
    ------
    AxisNotFoundError
        There is no such axis.
    MatrixNotFoundError
        There is no such matrix, and there are no such vectors.
    InvalidInputError
        Several axes have one; or it has no such columns, or no numbers.
    """
    members = list(tables.having(*[] if axis is None else [axis]).readers().values())
    pairs = {pair for daf in members for pair in candidates(daf, axis)}
    found = sorted({(points, columns) for points, columns, each in pairs if each == name})
    if len(found) > 1:
        listed = ", ".join(dict.fromkeys(points for points, _ in found))
        raise errors.InvalidInputError(
            f"matrices {name!r} are of several axes: {listed}; choose one with axis="
        )
    for points_axis, columns_axis in found:
        length = max(daf.axis_length(columns_axis) for daf in members if daf.has_axis(columns_axis))
        if not _is_pair(components, length):
            raise errors.InvalidInputError(
                f"components={components!r}: {name!r} has {length:,} columns, counted from 0"
            )
        axes, columns = (points_axis, columns_axis), list(components)
        part = matrix_slice(SliceRequest(engine, tables, axes, name, rows, columns))
        if part.dtype == object:
            raise errors.InvalidInputError(f"{name!r} is a matrix of strings; draw numbers")
        labels = [f"{name.removeprefix('X_')} {each + 1}" for each in components]
        along = AxisRows(engine, tables, points_axis)
        return Coordinates(along, part.row_positions, part.to_numpy(), labels)
    for daf in members:
        for each in (one for one in axes_in_order(daf) if axis in (None, one)):
            pair = vector_pairs(daf.vectors_set(each)).get(name)
            if pair is not None:
                along = AxisRows(engine, tables, each)
                return _of_vectors(along, pair, along.chosen(rows))
    embeddings = {each for _, other, each in pairs if axis is not None or other == each}
    raise errors.MatrixNotFoundError(
        f"{', '.join(daf.location for daf in members[:3])}: there is no embedding {name!r}"
        f"{'' if axis is None else f' of axis {axis!r}'}; there are "
        f"{errors.choices(name, embeddings)}"
    )


def _of_vectors(along: AxisRows, names: Sequence[str], positions: Any) -> Coordinates:
    columns = []
    for name in names:
        values = along.values(name).take(pa.array(positions))
        if not (pa.types.is_null(values.type) or is_number(values.type)):
            raise errors.InvalidInputError(
                f"a coordinate has to be a number, and {name!r} is {values.type}"
            )
        columns.append(values.cast(pa.float64(), safe=False).to_numpy(zero_copy_only=False))
    return Coordinates(along, positions, np.column_stack(columns), list(names))


def vector_pairs(vectors: Iterable[str]) -> dict[str, tuple[str, str]]:
    """Return pairs such as ``umap_1`` and ``umap_2``, or ``x`` and ``y``, by what they share."""
    sides: dict[str, dict[str, str]] = {}
    for vector in sorted(vectors):
        match = _SIDE.fullmatch(vector)
        if match:
            sides.setdefault(match["stem"], {})[match["side"]] = vector
    pairs: dict[str, tuple[str, str]] = {}
    for stem, named in sides.items():
        for first, second in _PAIRS:
            if first in named and second in named:
                pairs.setdefault(
                    stem or f"{named[first]}, {named[second]}", (named[first], named[second])
                )
    return pairs


def values_of(rows: AxisRows, text: str) -> pa.Array:
    """Return what the entries of an axis are coloured by: a vector, or an SQL expression of each.

    Returns
    -------
    pyarrow.Array
        Numbers as float64, NaN where they are missing; all else as a dictionary of strings, NULL
        where it is missing, in the smallest codes: those that an import noted as categories
        first, whether they occur or not, then others in alphabetical order.

    Raises
    ------
    QueryError
        It has not one value for each entry, or none that can be shown.
    """
    column = rows.values(text)
    if is_number(column.type):
        return column.cast(pa.float64(), safe=False).fill_null(float("nan"))
    strings = shown_strings(column)
    noted = rows.categories(text)
    first = pa.array([], pa.string()) if noted is None else noted
    others = pc.unique(strings).drop_null()
    others = others.filter(pc.invert(pc.is_in(others, value_set=first)))
    categories = pa.concat_arrays([first, others.take(pc.sort_indices(others))])
    count = len(categories)
    kind = next(each for each in (np.int8, np.int16, np.int32) if count <= np.iinfo(each).max)
    codes = pc.index_in(strings, value_set=categories).cast(pa.from_numpy_dtype(kind))
    return pa.DictionaryArray.from_arrays(codes, categories)


def shown_strings(values: Any) -> Any:
    """Return values as strings.

    Raises
    ------
    QueryError
        They are lists, bytes or intervals.
    """
    types, kind = pa.types, values.type
    try:
        if types.is_nested(kind) or types.is_binary(kind) or types.is_large_binary(kind):
            raise pa.ArrowNotImplementedError
        return values.cast(pa.string())
    except pa.ArrowNotImplementedError:  # intervals
        raise errors.QueryError(
            f"the expression is {kind}, which has no colours; it has to be a number or a string, "
            "such as CAST(... AS VARCHAR)"
        ) from None


def _is_pair(components: Any, length: int) -> bool:
    """Return whether these are two positions below a length.

    >>> [_is_pair(each, 2) for each in ((0, 1), [1, np.int64(0)], (0, 2), (-1, 0), (0,), (0, 0.5))]
    [True, True, False, False, False, False]
    """
    return (
        isinstance(components, list | tuple)
        and len(components) == 2
        and all(isinstance(each, int | np.integer) and 0 <= each < length for each in components)
    )


def candidates(daf: DafReader, axis: str | None) -> Iterator[tuple[str, str, str]]:
    """Yield the axis of the points, that of the coordinates, and the name of each candidate.

    The coordinates are those of the axis that is called as the matrix, or of the shorter one.
    """
    for pair in itertools.combinations(axes_in_order(daf), 2):
        for name in daf.matrices_set(*pair) if axis in (None, *pair) else ():
            points, other = sorted(pair, key=daf.axis_length, reverse=True)
            if axis == other or (axis is None and points == name):
                points, other = other, points
            if daf.axis_length(other) > 1:
                yield points, other, name

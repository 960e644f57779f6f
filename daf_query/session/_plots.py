"""Plots of a session: embeddings coloured by SQL, and violins of groups."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from daf_query.plot import (
    Categories,
    Colouring,
    Numbers,
    Palette,
    axes_for,
    colouring_of,
    draw_points,
    draw_violins,
    legend_inches,
    names_inches,
    write_labels,
)
from daf_query.session._coordinates import (
    Coordinates,
    PlotSource,
    coordinates_of,
    default_axis,
    plotted_axis,
)
from daf_query.session._matrices import MatrixQuestions
from daf_query.slice import Selector
from daf_query.sql import Engine
from daf_storage import errors

_INCHES: Final = (6.5, 5.0)
_SQUARE: Final = 4.8


@dataclass(frozen=True, slots=True)
class SessionPlots:
    """The plots of a session; `DafSession.plot` is one.

    They draw with matplotlib (extra ``plot``), into ``ax=`` or the axes of a new figure, and return
    the axes.  A notebook shows them, ``.figure.savefig(path)`` writes them; pyplot is not needed.
    """

    session: MatrixQuestions
    """The session."""
    engine: Engine
    """What plans its queries."""

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
            before ``_1`` and ``_2`` (or ``_x`` and ``_y``).
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
            Of the order in which points are drawn.
        ax
            Axes of matplotlib to draw into; by default those of a new figure.

        Returns
        -------
        matplotlib.axes.Axes
            ``.figure`` is the figure.

        Raises
        ------
        MatrixNotFoundError
            There are no such coordinates; the message says which there are.
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
        source = PlotSource(self.session, self.engine, schema)
        _check_text(name=name, color=color, axis=axis)
        found = coordinates_of(source, name, axis, components, rows)
        colouring = None
        if color is not None:
            colouring = _colouring(found, source, color, palette, "color")
        beside = legend_inches(colouring) if legend else 0.0
        ax = axes_for(ax, inches=(max(_INCHES[0], _SQUARE + beside), _INCHES[1]))
        style = {"size": size, "cmap": cmap, "seed": seed, "legend": legend}
        draw_points(ax, found.points, colouring, title=color or "", **style)  # type: ignore[arg-type]  # keywords of several types
        ax.set(xticks=[], yticks=[])
        write_labels(ax, x=found.labels[0], y=found.labels[1])
        ax.spines[["top", "right"]].set_visible(False)
        return ax

    def violin(  # noqa: PLR0913 - what is drawn, and how
        self,
        values: str | Sequence[str],
        by: str | None = None,
        *,
        axis: str | None = None,
        rows: Selector = None,
        schema: str | None = None,
        palette: Palette | None = None,
        seed: int = 0,
        ax: Any = None,
    ) -> Any:
        """Draw how numbers are distributed, in groups, with a line at the median.

        Parameters
        ----------
        values
            A vector, an expression of SQL, or an entry of a matrix; without ``by`` also a list of
            such, each of which has a violin.
        by
            What makes the groups: a vector or an expression that yields categories.
        axis
            The axis; by default that of the observations.
        rows, schema, palette, ax
            As for `embedding`.
        seed
            What chooses the 20,000 values that a violin has its shape of, where there are more.

        Returns
        -------
        matplotlib.axes.Axes
            ``.figure`` is the figure.

        Raises
        ------
        QueryError, VectorNotFoundError, EntryNotFoundError
            An expression is wrong, or names what is not there.
        InvalidInputError
            The values are no numbers, the groups no categories, or there are no values.
        MissingDependencyError
            matplotlib is not installed.

        Examples
        --------
        >>> import daf_storage
        >>> from daf_query import connect
        >>> daf = daf_storage.MemoryDaf()
        >>> daf.add_axis("cell", ["A", "B", "C"])
        >>> daf.set_vector("cell", "type", ["T", "B", "T"])
        >>> daf.set_vector("cell", "age", [30, 60, 90])
        >>> axes = connect(daf).plot.violin("age", by="type")
        >>> [text.get_text() for text in axes.get_xticklabels()]
        ['B', 'T']
        """
        listed: list[str] = list(values) if isinstance(values, list | tuple) else [values]  # type: ignore[list-item]  # it is looked at below
        for each in listed:
            _check_text(values=each, by=by, axis=axis)
        if palette is not None and by is None:
            raise errors.InvalidInputError("palette= has colours of groups; name them with by=")
        if not listed or (by is not None and len(listed) > 1):
            raise errors.InvalidInputError(
                "violin() draws one expression in groups, or several without by="
            )
        source = PlotSource(self.session, self.engine, schema)
        found = plotted_axis(source, axis or default_axis(source), rows)
        numbers = [_numbers(found, source, each) for each in listed]
        if by is None:
            samples, labels = numbers, listed
            colours: Sequence[str] = ["tab:blue"] * len(listed)
        else:
            groups = _colouring(found, source, by, palette, "by")
            if isinstance(groups, Numbers):
                raise errors.InvalidInputError(
                    f"by={by!r} yields numbers; groups are categories: cast it, "
                    f'by="CAST({by} AS VARCHAR)"'
                )
            samples, labels, colours = _grouped(numbers[0], groups)
        if not any(np.isfinite(sample).any() for sample in samples):
            raise errors.InvalidInputError(
                f"there is nothing to draw: {listed[0]!r} has no numbers"
            )
        below = names_inches(labels) if len(labels) > 3 else 0.0  # they are turned then
        ax = axes_for(ax, inches=(1.5 + 0.5 * max(len(labels), 4), 4 + below))
        draw_violins(ax, samples, labels, colours=colours, seed=seed)
        ylabel = listed[0] if len(listed) == 1 else ""
        write_labels(ax, y=ylabel, title="" if by is None else f"by {by}")
        return ax


def _check_text(**given: Any) -> None:
    """Refuse what is no string, such as several colours at a time."""
    for keyword, text in given.items():
        if text is not None and not isinstance(text, str):
            several = (
                "; for several, call it for each, with ax= of its own"
                if isinstance(text, list | tuple)
                else ""
            )
            raise errors.InvalidInputError(
                f"{keyword}= is a string, such as a vector or SQL, not {text!r}{several}"
            )


def _numbers(found: Coordinates, source: PlotSource, text: str) -> npt.NDArray[np.float64]:
    colouring = colouring_of(found.values(source, text, "values").values, keyword="values")
    if not isinstance(colouring, Numbers):
        raise errors.InvalidInputError(f"values={text!r} yields categories, not numbers")
    return colouring.values


def _colouring(
    found: Coordinates, source: PlotSource, text: str, palette: Palette | None, keyword: str
) -> Colouring:
    read = found.values(source, text, keyword)
    if palette is not None or read.palette is None:
        return colouring_of(read.values, order=read.order, palette=palette, keyword=keyword)
    try:
        return colouring_of(read.values, order=read.order, palette=read.palette, keyword=keyword)
    except errors.InvalidInputError:  # colours that were noted and are none, or are not of all
        return colouring_of(read.values, order=read.order, keyword=keyword)


def _grouped(
    numbers: npt.NDArray[np.float64], groups: Categories
) -> tuple[list[npt.NDArray[np.float64]], list[str], Sequence[str]]:
    """Return the numbers of each group, what it is called, and its colour."""
    order = np.argsort(groups.codes, kind="stable")
    codes = groups.codes[order]
    starts = np.searchsorted(codes, np.arange(len(groups.labels) + 1))
    pairs = zip(starts[:-1].tolist(), starts[1:].tolist(), strict=True)
    return [numbers[order[a:b]] for a, b in pairs], list(groups.labels), groups.colours

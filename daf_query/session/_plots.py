"""Plots of a session: embeddings coloured by SQL."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from daf_query.plot import (
    Colouring,
    Palette,
    axes_for,
    colouring_of,
    draw_points,
    legend_inches,
    write_labels,
)
from daf_query.session._coordinates import (
    Coordinates,
    PlotSource,
    coordinates_of,
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
            colouring = _colouring(found, source, color, palette)
        beside = legend_inches(colouring) if legend else 0.0
        ax = axes_for(ax, inches=(max(_INCHES[0], _SQUARE + beside), _INCHES[1]))
        style = {"size": size, "cmap": cmap, "seed": seed, "legend": legend}
        draw_points(ax, found.points, colouring, title=color or "", **style)  # type: ignore[arg-type]  # keywords of several types
        ax.set(xticks=[], yticks=[])
        write_labels(ax, x=found.labels[0], y=found.labels[1])
        ax.spines[["top", "right"]].set_visible(False)
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


def _colouring(
    found: Coordinates, source: PlotSource, text: str, palette: Palette | None
) -> Colouring:
    read = found.values(source, text, "color")
    if palette is not None or read.palette is None:
        return colouring_of(read.values, order=read.order, palette=palette)
    try:
        return colouring_of(read.values, order=read.order, palette=read.palette)
    except errors.InvalidInputError:  # colours that were noted and are none, or are not of all
        return colouring_of(read.values, order=read.order)

"""Points in two dimensions, such as an embedding; and grids of groups and columns."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from daf_query.plot._axes import RAW, AxesLike, drawn_name, names_inches, write_labels, write_names
from daf_query.plot._colours import (
    MISSING_COLOUR,
    Categories,
    Colouring,
    Numbers,
    check_cmap,
)
from daf_storage import errors
from daf_storage.base import optional_import

_RASTERISED: Final = 10_000
_TOTAL_AREA: Final = 120_000.0
_LEGEND_ROWS: Final = 18
_LONGEST_TITLE: Final = 30
_BAR_INCHES: Final = 1.0
_MARKER_INCHES: Final = 0.5
_SMALL: Final = 0.83
_LARGEST: Final = 180.0
_SHOWN_FRACTIONS: Final = (0.2, 0.4, 0.6, 0.8, 1.0)


def draw_points(  # noqa: PLR0913 - what is drawn, and how
    ax: AxesLike,
    points: npt.NDArray[Any],
    colouring: Colouring | None,
    *,
    title: str,
    size: float | None,
    cmap: str,
    seed: int,
    legend: bool,
) -> None:
    """Draw points in random order, those without a value first, in grey.

    The order is that of a seed: no category hides the others because it comes last.  Many points
    are drawn as pixels, also in a PDF or SVG.

    Parameters
    ----------
    points
        Of shape ``(points, 2)``; those with NaN are not drawn.
    title
        What the colours are.
    size
        The area of a point, as matplotlib has it; by default less for more points.

    Raises
    ------
    InvalidInputError
        The size is not above 0, or there is no such colour map.
    """
    check_cmap(cmap)
    if size is not None and not size > 0:
        raise errors.InvalidInputError(f"size= is the area of a point, above 0, not {size!r}")
    count = len(points)
    area = min(max(_TOTAL_AREA / max(count, 1), 0.3), 60.0) if size is None else size
    style = {"s": area, "linewidths": 0, "rasterized": count > _RASTERISED}
    order = np.random.default_rng(seed).permutation(count)
    order = order[np.isfinite(points[order]).all(axis=1)]
    if colouring is None:
        ax.scatter(*points[order].T, c="0.45", **style)
        return
    is_missing = colouring.is_missing[order]
    if is_missing.any():
        ax.scatter(*points[order[is_missing]].T, c=MISSING_COLOUR, **style)
    known = order[~is_missing]
    if isinstance(colouring, Categories):
        _draw_categories(ax, points, known, colouring, style)
        if legend:
            _add_legend(ax, colouring, title)
    elif known.size:
        _draw_numbers(ax, points, known, colouring, {**style, "cmap": cmap}, legend=legend)
    write_labels(ax, title=title)


def legend_inches(colouring: Colouring | None) -> float:
    """Return how wide the legend of a colouring is, or its colour bar."""
    if not isinstance(colouring, Categories):
        return _BAR_INCHES
    labels = [f"{drawn_name(label)} (99,999)" for label in colouring.labels]
    return _legend_columns(len(labels) + 1) * (_SMALL * names_inches(labels, 60) + _MARKER_INCHES)


def _legend_columns(count: int) -> int:
    return 1 + (count - 1) // _LEGEND_ROWS


def _draw_categories(
    ax: AxesLike,
    points: npt.NDArray[Any],
    known: npt.NDArray[np.int64],
    colouring: Categories,
    style: dict[str, Any],
) -> None:
    names = optional_import("matplotlib.colors", extra="plot")
    if known.size:
        colours = names.to_rgba_array(list(colouring.colours))
        ax.scatter(*points[known].T, c=colours[colouring.codes[known]], **style)


def _draw_numbers(
    ax: AxesLike,
    points: npt.NDArray[Any],
    known: npt.NDArray[np.int64],
    colouring: Numbers,
    style: dict[str, Any],
    *,
    legend: bool,
) -> None:
    values = colouring.values[known]
    finite = values[np.isfinite(values)]
    least, greatest = (finite.min(), finite.max()) if finite.size else (0.0, 1.0)
    drawn = ax.scatter(*points[known].T, c=values, vmin=least, vmax=greatest, **style)
    if legend:
        ax.figure.colorbar(drawn, ax=ax, shrink=0.7)


def _add_legend(ax: AxesLike, colouring: Categories, title: str) -> None:
    """Name the categories, with the number of points of each."""
    lines = optional_import("matplotlib.lines", extra="plot")
    handles = [
        lines.Line2D(
            [],
            [],
            marker="o",
            linestyle="",
            color=colour,
            label=f"{drawn_name(label)} ({count:,})",
        )
        for label, count, colour in zip(
            colouring.labels, colouring.counts, colouring.colours, strict=True
        )
    ]
    missing = int(colouring.is_missing.sum())
    if missing:
        label = f"missing ({missing:,})"
        handles.append(
            lines.Line2D([], [], marker="o", linestyle="", color=MISSING_COLOUR, label=label)
        )
    legend = ax.legend(
        handles=handles,
        title=title if len(title) <= _LONGEST_TITLE else None,
        loc="center left",
        bbox_to_anchor=(1.0, 0.5),
        frameon=False,
        fontsize="small",
        ncols=_legend_columns(len(handles)),
    )
    for text in (legend.get_title(), *legend.get_texts()):
        text.set(**RAW)


def draw_dots(
    ax: AxesLike,
    fractions: npt.NDArray[np.float64],
    means: npt.NDArray[np.float64],
    *,
    groups: Sequence[str],
    columns: Sequence[str],
    title: str,
    cmap: str,
) -> Any:
    """Draw a dot for each group and column: the size is a fraction, the colour a mean."""
    check_cmap(cmap)
    height, width = fractions.shape
    y, x = np.mgrid[0:height, 0:width]
    dots = ax.scatter(
        x.ravel(),
        y.ravel(),
        s=np.nan_to_num(fractions).ravel() * _LARGEST,
        c=means.ravel(),
        cmap=cmap,
        edgecolors="0.6",
        linewidths=0.4,
    )
    _name(ax, groups, columns, title)
    ax.set_xlim(-0.7, width - 0.3)
    ax.set_ylim(height - 0.3, -0.7)
    return dots


def draw_grid(
    ax: AxesLike,
    values: npt.NDArray[Any],
    *,
    groups: Sequence[str],
    columns: Sequence[str],
    title: str,
    cmap: str,
    label: str | None,
) -> Any:
    """Draw a square for each group and column, and say beside it what the colours are.

    Parameters
    ----------
    groups, columns
        Their names; none are written where there are none.
    label
        What the colours are; None leaves the colour bar out.
    """
    check_cmap(cmap)
    picture = ax.imshow(values, cmap=cmap, aspect="auto", interpolation="nearest")
    _name(ax, groups, columns, title)
    if label is not None:
        ax.figure.colorbar(picture, ax=ax, shrink=0.7).set_label(label, fontsize="small", **RAW)
    return picture


def _name(ax: AxesLike, groups: Sequence[str], columns: Sequence[str], title: str) -> None:
    write_names(ax.xaxis, columns, rotation=90)
    write_names(ax.yaxis, groups)
    write_labels(ax, title=title)


def add_dot_legend(legend: AxesLike, dots: Any, title: str) -> None:
    """Draw what sizes and colours mean beside the dots."""
    legend.set_axis_off()
    y = np.arange(len(_SHOWN_FRACTIONS))
    legend.scatter(
        np.zeros(len(y)), y, s=np.array(_SHOWN_FRACTIONS) * _LARGEST, c="0.6", linewidths=0
    )
    for place, fraction in zip(y, _SHOWN_FRACTIONS, strict=True):
        legend.text(0.6, place, f"{fraction:.0%}", va="center", fontsize="small")
    legend.set_title("not zero", fontsize="small")
    legend.set_xlim(-0.7, 2.5)
    legend.set_ylim(len(y) + 4, -0.7)
    bar = legend.figure.colorbar(
        dots, cax=legend.inset_axes((0.05, 0.08, 0.9, 0.06)), orientation="horizontal"
    )
    bar.set_label(title, fontsize="small")


def scaled(means: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """Return each column between 0, its least, and 1, its greatest; 0 where all are equal.

    >>> scaled(np.array([[1.0, 5.0], [3.0, 5.0]])).tolist()
    [[0.0, 0.0], [1.0, 0.0]]
    """
    is_missing = np.isnan(means)
    least = np.min(np.where(is_missing, np.inf, means), axis=0)
    greatest = np.max(np.where(is_missing, -np.inf, means), axis=0)
    with np.errstate(all="ignore"):
        between = (means - least) / (greatest - least)
    return np.where(is_missing, np.nan, np.where(greatest > least, between, 0.0))

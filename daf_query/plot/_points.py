"""Points in two dimensions, such as an embedding."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import numpy.typing as npt

from daf_query.plot._axes import RAW, AxesLike, drawn_name, names_inches, write_labels
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

"""Grids of groups and columns: dots, or squares of a colour."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from daf_query.plot._axes import RAW, AxesLike, write_labels, write_names
from daf_query.plot._colours import check_cmap

_LARGEST: Final = 180.0
_SHOWN_FRACTIONS: Final = (0.2, 0.4, 0.6, 0.8, 1.0)


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

"""Plots of profiles, with matplotlib."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal, TypeAlias, get_args

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from daf_query.moments import Moments
from daf_query.profile._anndata import fraction_of, group_labels
from daf_storage import errors
from daf_storage.spi import optional_import

Scale: TypeAlias = Literal["none", "column"]
"""Whether colours are means, or where they stand between the least and the greatest of a column."""

_MAX_DOTS: Final = 20_000
_LARGEST: Final = 180.0
_INCHES: Final = 0.32
_SHOWN_FRACTIONS: Final = (0.2, 0.4, 0.6, 0.8, 1.0)


@dataclass(frozen=True, slots=True)
class ProfilePlots:
    """The plots of a profile; `Profile.plot` is one."""

    axes: tuple[str, str]
    """The axes of the rows and of the columns."""
    name: str
    """The name of the matrix."""
    groups: Mapping[str, pa.Array]
    """The group columns."""
    entries: Sequence[str]
    """The entries of the columns."""
    moments: Moments
    """The numbers."""

    def dotplot(
        self,
        columns: Sequence[str] | str | None = None,
        *,
        scale: Scale = "none",
        ax: Any = None,
        cmap: str = "Reds",
    ) -> Any:
        """Draw a dot for each group and column, in their order.

        The size is the fraction of the values that are not zero, the colour their mean.

        Parameters
        ----------
        columns
            Entries of the profile, in the order in which they are drawn, or a single one; by
            default all.
        scale
            ``column`` makes the colours of each column range from 0, its least mean, to 1, its
            greatest.
        ax
            Axes of matplotlib to draw into, without legends; by default those of a new figure.
        cmap
            The colour map of matplotlib.

        Returns
        -------
        matplotlib.axes.Axes
            ``.figure`` is the figure, which has ``savefig``.

        Raises
        ------
        EntryNotFoundError
            The profile has no column of a name.
        InvalidInputError
            There is nothing to draw, or too much.
        MissingDependencyError
            matplotlib is not installed; the message says what to install.
        """
        pyplot = optional_import("matplotlib.pyplot", extra="plot")
        if scale not in get_args(Scale):
            raise errors.InvalidInputError(f"scale= is 'none' or 'column', not {scale!r}")
        chosen = self._places(columns)
        fractions = fraction_of(self.moments)[:, chosen]
        means = self.moments.mean[:, chosen]
        if scale == "column":
            means = scaled(means)
        if ax is not None:
            self._draw(ax, fractions, means, chosen, cmap)
            return ax
        height, width = fractions.shape
        figure, (ax, legend) = pyplot.subplots(
            1,
            2,
            figsize=(_INCHES * (width + 9), _INCHES * (max(height, 7) + 4)),
            width_ratios=(width + 1, 4),
            layout="constrained",
        )
        dots = self._draw(ax, fractions, means, chosen, cmap)
        _add_legend(figure, legend, dots, "mean" if scale == "none" else "mean (0 to 1)")
        return ax

    def _places(self, columns: Sequence[str] | str | None) -> list[int]:
        """Return where the chosen entries stand among those of the profile."""
        if isinstance(columns, Mapping):
            raise errors.InvalidInputError(
                f"columns= is a list of entries of {self.axes[1]!r}, not a dict; pass those of all "
                "its values as one list"
            )
        n_groups = self.moments.count.size
        if not n_groups:
            raise errors.InvalidInputError(
                f"there is nothing to draw: the profile has no groups, since no {self.axes[0]} was "
                "chosen"
            )
        place_of = {entry: place for place, entry in enumerate(self.entries)}
        chosen = list(place_of) if columns is None else list(columns)
        if isinstance(columns, str):
            chosen = [columns]
        for entry in chosen:
            if entry not in place_of:
                raise errors.EntryNotFoundError(
                    f"the profile of {len(place_of):,} {self.axes[1]} has none called {entry!r}"
                    f"{errors.nearest(entry, place_of)}"
                )
        if not chosen:
            raise errors.InvalidInputError(
                f"there is nothing to draw: columns= names no {self.axes[1]}"
            )
        if len(chosen) * n_groups > _MAX_DOTS:
            raise errors.InvalidInputError(
                f"{n_groups:,} groups x {len(chosen):,} {self.axes[1]} are more than "
                f"{_MAX_DOTS:,} dots; choose some with columns="
            )
        return [place_of[entry] for entry in chosen]

    def _draw(
        self,
        ax: Any,
        fractions: npt.NDArray[np.float64],
        means: npt.NDArray[np.float64],
        chosen: Sequence[int],
        cmap: str,
    ) -> Any:
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
        ax.set_xticks(range(width), [self.entries[place] for place in chosen], rotation=90)
        ax.set_yticks(range(height), group_labels(self.groups, height))
        ax.set_xlim(-0.7, width - 0.3)
        ax.set_ylim(height - 0.3, -0.7)
        ax.set_title(f"{self.name} by {', '.join(self.groups) or self.axes[0]}")
        return dots


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


def _add_legend(figure: Any, legend: Any, dots: Any, title: str) -> None:
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
    bar = figure.colorbar(
        dots, cax=legend.inset_axes((0.05, 0.08, 0.9, 0.06)), orientation="horizontal"
    )
    bar.set_label(title, fontsize="small")

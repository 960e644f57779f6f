"""Plots of profiles, with matplotlib."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal, TypeAlias

import numpy as np
import numpy.typing as npt

from daf_query.moments import GroupProfile, Statistic
from daf_query.plot import (
    RAW,
    axes_for,
    axes_with_legend,
    check_cmap,
    names_inches,
    write_labels,
    write_names,
)
from daf_storage import errors
from daf_storage.base import check_choice

Scale: TypeAlias = Literal["none", "column"]
"""Whether colours are means, or where they stand between the least and the greatest of a column."""

_MAX_DOTS: Final = 20_000
_INCHES: Final = 0.32
_LEGEND_INCHES: Final = 1.5
_TITLE_INCHES: Final = 0.06
_LARGEST: Final = 180.0
"""The area of a dot of which all values are not zero."""
_SHOWN_FRACTIONS: Final = np.array([0.2, 0.4, 0.6, 0.8, 1.0])


@dataclass(frozen=True, slots=True)
class ProfilePlots:
    """The plots of a profile; `Profile.plot` is one."""

    content: GroupProfile
    """The groups, the columns and the numbers."""
    entries: Sequence[str]
    """The entries of the columns."""

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
        check_cmap(cmap)
        chosen = self._places(columns)
        means, suffix = self._scaled("mean", chosen, scale)
        fractions = self.content.moments.statistic("fraction")[:, chosen]
        legend = None
        if ax is None:
            width, height = self._inches(chosen, least=7)
            ax, legend = axes_with_legend(
                inches=(width + _LEGEND_INCHES, height), widths=(width, _LEGEND_INCHES)
            )
        y, x = np.mgrid[0 : means.shape[0], 0 : means.shape[1]]
        areas = np.nan_to_num(fractions).ravel() * _LARGEST
        style = {"cmap": cmap, "edgecolors": "0.6", "linewidths": 0.4}
        dots = ax.scatter(x.ravel(), y.ravel(), s=areas, c=means.ravel(), **style)
        self._name(ax, chosen)
        ax.set_xlim(-0.7, means.shape[1] - 0.3)
        ax.set_ylim(means.shape[0] - 0.3, -0.7)
        if legend is not None:
            _add_legend(legend, dots, f"mean{suffix}")
        return ax

    def matrixplot(
        self,
        columns: Sequence[str] | str | None = None,
        *,
        statistic: Statistic = "mean",
        scale: Scale = "none",
        ax: Any = None,
        cmap: str = "viridis",
    ) -> Any:
        """Draw a square for each group and column, whose colour is a statistic.

        Parameters
        ----------
        columns
            Entries of the profile, in the order in which they are drawn, or a single one; by
            default all.
        statistic
            ``mean``, ``fraction`` (of the values that are not zero), ``sum`` and so on.
        scale
            ``column`` makes the colours of each column range from 0, its least, to 1.
        ax
            Axes of matplotlib to draw into; by default those of a new figure.
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
            There is nothing to draw, or too much; or there is no such statistic.
        MissingDependencyError
            matplotlib is not installed; the message says what to install.

        Examples
        --------
        >>> import daf_query, daf_storage
        >>> daf = daf_storage.MemoryDaf()
        >>> daf.add_axis("cell", ["A", "B", "C"])
        >>> daf.add_axis("gene", ["FOXA1", "WNT6"])
        >>> daf.set_vector("cell", "type", ["T", "B", "T"])
        >>> daf.set_matrix("cell", "gene", "UMIs", [[0, 1], [2, 3], [4, 5]])
        >>> profile = daf_query.connect(daf).profile("cell", "gene", "UMIs", by="type")
        >>> profile.plot.matrixplot().images[0].get_array().tolist()
        [[2.0, 3.0], [2.0, 3.0]]
        """
        check_cmap(cmap)
        chosen = self._places(columns)
        values, suffix = self._scaled(statistic, chosen, scale)
        width, height = self._inches(chosen, least=5)
        ax = axes_for(ax, inches=(width + 1, height))
        picture = ax.imshow(values, cmap=cmap, aspect="auto", interpolation="nearest")
        self._name(ax, chosen)
        bar = ax.figure.colorbar(picture, ax=ax, shrink=0.7)
        bar.set_label(f"{statistic}{suffix}", fontsize="small", **RAW)
        return ax

    def _places(self, columns: Sequence[str] | str | None) -> list[int]:
        """Return where the chosen entries stand among those of the profile."""
        if isinstance(columns, Mapping):
            raise errors.InvalidInputError(
                f"columns= is a list of entries of {self._axes[1]!r}, not a dict; pass those of "
                "all its values as one list"
            )
        place_of = {entry: place for place, entry in enumerate(self.entries)}
        n_groups, listed = self.content.sizes.size, list(place_of if columns is None else columns)
        chosen = [columns] if isinstance(columns, str) else listed
        if not chosen or not n_groups:
            why = f"the profile has no groups, since no {self._axes[0]} was chosen"
            why = why if not n_groups else f"columns= names no {self._axes[1]}"
            raise errors.InvalidInputError(f"there is nothing to draw: {why}")
        for entry in chosen:
            if not isinstance(entry, str):
                raise errors.InvalidInputError(
                    f"columns= is a list of entries of {self._axes[1]!r}, not of {entry!r}"
                )
            if entry not in place_of:
                raise errors.EntryNotFoundError(
                    f"the profile of {len(place_of):,} {self._axes[1]} has none called {entry!r}"
                    f"{errors.nearest(entry, place_of)}"
                )
        if len(chosen) * n_groups > _MAX_DOTS:
            raise errors.InvalidInputError(
                f"{n_groups:,} groups x {len(chosen):,} {self._axes[1]} are more than "
                f"{_MAX_DOTS:,} dots; choose some with columns="
            )
        return [place_of[entry] for entry in chosen]

    @property
    def _axes(self) -> tuple[str, str]:
        return self.content.axis_names

    def _scaled(
        self, statistic: Statistic, chosen: Sequence[int], scale: Scale
    ) -> tuple[npt.NDArray[np.float64], str]:
        """Return a statistic of the chosen columns, and what is said of its range."""
        check_choice(scale, Scale, "scale")
        values = self.content.moments.statistic(statistic)[:, chosen].astype(np.float64)
        return (values, "") if scale == "none" else (_scaled(values), " (0 to 1)")

    def _inches(self, chosen: Sequence[int], *, least: int) -> tuple[float, float]:
        """Return the size of a figure with room for names, and for so many groups at least."""
        columns = [self.entries[place] for place in chosen]
        width = _INCHES * (len(chosen) + 1) + names_inches(self.content.labels())
        title = _TITLE_INCHES * len(self._title())
        height = _INCHES * (max(self.content.sizes.size, least) + 2) + names_inches(columns)
        return max(width, title), height

    def _name(self, ax: Any, chosen: Sequence[int]) -> None:
        write_names(ax.xaxis, [self.entries[place] for place in chosen], rotation=90)
        write_names(ax.yaxis, self.content.labels())
        write_labels(ax, title=self._title())

    def _title(self) -> str:
        return f"{self.content.name} by {', '.join(self.content.groups) or self._axes[0]}"


def _add_legend(legend: Any, dots: Any, title: str) -> None:
    """Draw what sizes and colours mean beside the dots."""
    legend.set_axis_off()
    y = np.arange(_SHOWN_FRACTIONS.size)
    legend.scatter(0 * y, y, s=_SHOWN_FRACTIONS * _LARGEST, c="0.6", linewidths=0)
    for place, fraction in zip(y, _SHOWN_FRACTIONS, strict=True):
        legend.text(0.6, place, f"{fraction:.0%}", va="center", fontsize="small")
    legend.set_title("not zero", fontsize="small")
    legend.set_xlim(-0.7, 2.5)
    legend.set_ylim(len(y) + 4, -0.7)
    place_of_bar = legend.inset_axes((0.05, 0.08, 0.9, 0.06))
    bar = legend.figure.colorbar(dots, cax=place_of_bar, orientation="horizontal")
    bar.set_label(title, fontsize="small")


def _scaled(values: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """Return each column between 0, its least, and 1, its greatest; 0 where all are equal.

    >>> _scaled(np.array([[1.0, 5.0], [3.0, 5.0]])).tolist()
    [[0.0, 0.0], [1.0, 0.0]]
    """
    is_missing = np.isnan(values)
    least = np.min(np.where(is_missing, np.inf, values), axis=0)
    greatest = np.max(np.where(is_missing, -np.inf, values), axis=0)
    with np.errstate(all="ignore"):
        between = (values - least) / (greatest - least)
    return np.where(is_missing, np.nan, np.where(greatest > least, between, 0.0))

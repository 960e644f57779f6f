"""Plots of profiles, with matplotlib."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal, TypeAlias, get_args

import numpy as np
import numpy.typing as npt

from daf_query.moments import GroupProfile
from daf_query.plot import (
    add_dot_legend,
    axes_for,
    axes_with_legend,
    draw_dots,
    draw_grid,
    names_inches,
    require_matplotlib,
    scaled,
)
from daf_query.profile._anndata import (
    Statistic,
    check_statistic,
    fraction_of,
    group_labels,
    values_of,
)
from daf_storage import errors

Scale: TypeAlias = Literal["none", "column"]
"""Whether colours are means, or where they stand between the least and the greatest of a column."""

_MAX_DOTS: Final = 20_000
_INCHES: Final = 0.32
_LEGEND_INCHES: Final = 1.5
_TITLE_INCHES: Final = 0.06


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
        require_matplotlib()
        _check_scale(scale)
        chosen = self._places(columns)
        fractions = fraction_of(self.content.moments)[:, chosen]
        means = self.content.moments.mean[:, chosen]
        if scale == "column":
            means = scaled(means)
        if ax is not None:
            self._dots(ax, fractions, means, chosen, cmap)
            return ax
        inches = self._inches(chosen, least=7)
        ax, legend = axes_with_legend(
            inches=(inches[0] + _LEGEND_INCHES, inches[1]), widths=(inches[0], _LEGEND_INCHES)
        )
        dots = self._dots(ax, fractions, means, chosen, cmap)
        add_dot_legend(legend, dots, "mean" if scale == "none" else "mean (0 to 1)")
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
        require_matplotlib()
        _check_scale(scale)
        check_statistic(statistic)
        chosen = self._places(columns)
        values = np.asarray(values_of(self.content.moments, statistic), np.float64)[:, chosen]
        if scale == "column":
            values = scaled(values)
        inches = self._inches(chosen, least=5)
        ax = axes_for(ax, inches=(inches[0] + 1, inches[1]))
        draw_grid(
            ax,
            values,
            groups=self._labels(),
            columns=[self.entries[place] for place in chosen],
            title=self._title(),
            cmap=cmap,
            label=statistic if scale == "none" else f"{statistic} (0 to 1)",
        )
        return ax

    def _places(self, columns: Sequence[str] | str | None) -> list[int]:
        """Return where the chosen entries stand among those of the profile."""
        if isinstance(columns, Mapping):
            raise errors.InvalidInputError(
                f"columns= is a list of entries of {self._axes[1]!r}, not a dict; pass those of "
                "all its values as one list"
            )
        n_groups = self.content.moments.count.size
        if not n_groups:
            raise errors.InvalidInputError(
                "there is nothing to draw: the profile has no groups, since no "
                f"{self._axes[0]} was chosen"
            )
        place_of = {entry: place for place, entry in enumerate(self.entries)}
        chosen = list(place_of) if columns is None else list(columns)
        if isinstance(columns, str):
            chosen = [columns]
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
        if not chosen:
            raise errors.InvalidInputError(
                f"there is nothing to draw: columns= names no {self._axes[1]}"
            )
        if len(chosen) * n_groups > _MAX_DOTS:
            raise errors.InvalidInputError(
                f"{n_groups:,} groups x {len(chosen):,} {self._axes[1]} are more than "
                f"{_MAX_DOTS:,} dots; choose some with columns="
            )
        return [place_of[entry] for entry in chosen]

    def _dots(
        self,
        ax: Any,
        fractions: npt.NDArray[np.float64],
        means: npt.NDArray[np.float64],
        chosen: Sequence[int],
        cmap: str,
    ) -> Any:
        return draw_dots(
            ax,
            fractions,
            means,
            groups=self._labels(),
            columns=[self.entries[place] for place in chosen],
            title=self._title(),
            cmap=cmap,
        )

    @property
    def _axes(self) -> tuple[str, str]:
        return self.content.axis_names

    def _labels(self) -> list[str]:
        """Return what the groups are called."""
        return group_labels(self.content.groups, self.content.moments.count.size)

    def _inches(self, chosen: Sequence[int], *, least: int) -> tuple[float, float]:
        """Return the size of a figure with room for names, and for so many groups at least."""
        columns = [self.entries[place] for place in chosen]
        width = _INCHES * (len(chosen) + 1) + names_inches(self._labels())
        title = _TITLE_INCHES * len(self._title())
        height = _INCHES * (max(self.content.moments.count.size, least) + 2) + names_inches(columns)
        return max(width, title), height

    def _title(self) -> str:
        return f"{self.content.name} by {', '.join(self.content.groups) or self._axes[0]}"


def _check_scale(scale: str) -> None:
    if scale not in get_args(Scale):
        raise errors.InvalidInputError(f"scale= is 'none' or 'column', not {scale!r}")

"""Axes to draw into: given ones, or those of a new figure, of which pyplot does not know."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias

from daf_storage._lazy import lazy_module
from daf_storage.base import optional_import

if TYPE_CHECKING:
    from daf_query.plot import _shown_axes as shown_axes
else:
    shown_axes = lazy_module("daf_query.plot._shown_axes")

AxesLike: TypeAlias = Any
"""Axes of matplotlib, which has no types of its own here."""


def require_matplotlib() -> None:
    """Refuse to draw without matplotlib.

    Raises
    ------
    MissingDependencyError
        It is not installed; the message says what to install.
    """
    optional_import("matplotlib", extra="plot")


def axes_for(ax: AxesLike | None, *, inches: tuple[float, float]) -> AxesLike:
    """Return the given axes, or new ones of a figure of some size."""
    require_matplotlib()
    if ax is not None:
        return ax
    return _figure(inches).add_subplot(axes_class=shown_axes.ShownAxes)


def axes_with_legend(
    *, inches: tuple[float, float], widths: tuple[float, float]
) -> tuple[AxesLike, AxesLike]:
    """Return new axes, and others to the right of them for a legend, in one figure."""
    require_matplotlib()
    kind = {"axes_class": shown_axes.ShownAxes}
    both = _figure(inches).subplots(1, 2, width_ratios=widths, subplot_kw=kind)
    return both[0], both[1]


def _figure(inches: tuple[float, float]) -> Any:
    figures = optional_import("matplotlib.figure", extra="plot")
    return figures.Figure(figsize=inches, layout="constrained")

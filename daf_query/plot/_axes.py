"""Axes to draw into, those of a new figure or given ones, and the names that are written on them.

Names are drawn as they are, in one line that has room, never as a formula.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from daf_storage._lazy import lazy_module
from daf_storage.base import optional_import
from daf_storage.display import shortened

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


RAW: Final = {"parse_math": False, "usetex": False}
"""What makes matplotlib draw a text as it is: ``$`` and ``_`` are letters."""

_TITLE: Final = 60
_NAME: Final = 40
_LETTER_INCHES: Final = 0.09


def drawn_name(text: object, characters: int = _NAME) -> str:
    """Return a name as it is drawn: in one line, without characters that have no shape.

    >>> drawn_name("a  long  name", 8)
    'a long …'
    """
    line = shortened(text, characters)
    return "".join(each if each.isprintable() else "\ufffd" for each in line)


def names_inches(names: Sequence[str], characters: int = _NAME) -> float:
    """Return how much room names take, in inches, along their lines."""
    return _LETTER_INCHES * max((len(drawn_name(name, characters)) for name in names), default=0)


def write_labels(
    ax: AxesLike, *, x: str | None = None, y: str | None = None, title: str | None = None
) -> None:
    """Write what is beside axes and above them; what is None stays as it is."""
    if x is not None:
        ax.set_xlabel(drawn_name(x, _TITLE), **RAW)
    if y is not None:
        ax.set_ylabel(drawn_name(y, _TITLE), **RAW)
    if title is not None:
        ax.set_title(drawn_name(title, _TITLE), **RAW)


def write_names(axis: Any, names: Sequence[str], *, rotation: float = 0) -> None:
    """Write names at 0, 1, 2 and so on of an axis of matplotlib."""
    shown = [drawn_name(name) for name in names]
    axis.set_ticks(range(len(shown)), shown, rotation=rotation, **RAW)

"""Axes to draw into, those of a new figure or given ones, and the names that are written on them.

Names are drawn as they are, in one line that has room, never as a formula.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from io import BytesIO
from typing import Any, Final, TypeAlias

from daf_storage import errors
from daf_storage.base import optional_import
from daf_storage.display import shortened

AxesLike: TypeAlias = Any
"""Axes of matplotlib, which has no types of its own here."""

_SCALE: Final = 2


def axes_for(ax: AxesLike | None, *, inches: tuple[float, float]) -> AxesLike:
    """Return the given axes, or new ones of a figure of some size.

    Raises
    ------
    MissingDependencyError
        matplotlib is not installed; the message says what to install.
    """
    figure = _figure(inches)
    return _shown(figure.add_subplot()) if ax is None else ax


def axes_with_legend(
    *, inches: tuple[float, float], widths: tuple[float, float]
) -> tuple[AxesLike, AxesLike]:
    """Return new axes, and others to the right of them for a legend, in one figure."""
    ax, legend = _figure(inches).subplots(1, 2, width_ratios=widths)
    return _shown(ax), legend


def _figure(inches: tuple[float, float]) -> Any:
    optional_import("matplotlib", extra="plot")
    figures = optional_import("matplotlib.figure", extra="plot")
    return figures.Figure(figsize=inches, layout="constrained")


def _shown(ax: AxesLike) -> AxesLike:
    """Return axes which a notebook shows as the picture of their figure."""
    ax._repr_png_ = partial(_picture, ax)
    return ax


def _picture(ax: AxesLike) -> tuple[bytes, dict[str, int]]:
    """Return a picture of twice the resolution of its size."""
    figure, picture = ax.figure, BytesIO()
    width, height = (figure.get_size_inches() * figure.dpi).round().astype(int).tolist()
    figure.savefig(picture, format="png", dpi=_SCALE * figure.dpi)
    return picture.getvalue(), {"width": width, "height": height}


def check_cmap(cmap: Any) -> None:
    """Refuse the name of a colour map that matplotlib does not have.

    Raises
    ------
    InvalidInputError
        There is none; the message names what is like it.
    """
    library: Any = optional_import("matplotlib", extra="plot")
    if isinstance(cmap, str) and cmap not in library.colormaps:
        raise errors.InvalidInputError(
            f"cmap= is {cmap!r}, which is no colour map of matplotlib"
            f"{errors.nearest(cmap, list(library.colormaps))}"
        )


RAW: Final = {"parse_math": False, "usetex": False}
"""What makes matplotlib draw a text as it is: ``$`` and ``_`` are letters."""

_TITLE: Final = 60
_NAME: Final = 40
_LETTER_INCHES: Final = 0.09


def plotted_name(text: object, characters: int = _NAME) -> str:
    """Return a name as it is drawn: in one line, without characters that have no shape.

    >>> plotted_name("a  long  name", 8)
    'a long …'
    """
    line = shortened(text, characters)
    return "".join(each if each.isprintable() else "\ufffd" for each in line)


def names_inches(names: Sequence[str], characters: int = _NAME) -> float:
    """Return how much room names take, in inches, along their lines."""
    return _LETTER_INCHES * max((len(plotted_name(name, characters)) for name in names), default=0)


def write_labels(
    ax: AxesLike, *, x: str | None = None, y: str | None = None, title: str | None = None
) -> None:
    """Write what is beside axes and above them; what is None stays as it is."""
    if x is not None:
        ax.set_xlabel(plotted_name(x, _TITLE), **RAW)
    if y is not None:
        ax.set_ylabel(plotted_name(y, _TITLE), **RAW)
    if title is not None:
        ax.set_title(plotted_name(title, _TITLE), **RAW)


def write_names(axis: Any, names: Sequence[str], *, rotation: float = 0) -> None:
    """Write names at 0, 1, 2 and so on of an axis of matplotlib."""
    shown = [plotted_name(name) for name in names]
    axis.set_ticks(range(len(shown)), shown, rotation=rotation, **RAW)

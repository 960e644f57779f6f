"""Points in two dimensions, such as an embedding, and axes to draw into.

**Nouns.** A *colouring* says how points are coloured: by *categories*, each with a colour of its
own, or by *numbers* and a colour map.  *Axes* are those of matplotlib; new ones belong to a figure
that pyplot does not know, and show themselves in a notebook.

Axes are those of a new figure or given ones.  Names are drawn as they are, in one line that has
room, never as a formula.

Must not know data sets, SQL or sessions: it draws arrays.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from io import BytesIO
from typing import Any, Final, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from daf_storage import errors
from daf_storage._lazy import pc
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
    return _LETTER_INCHES * max(len(plotted_name(name, characters)) for name in names)


def write_labels(
    ax: AxesLike, *, x: str | None = None, y: str | None = None, title: str | None = None
) -> None:
    """Write what is beside axes and above them; what is None stays as it is."""
    for write, text in ((ax.set_xlabel, x), (ax.set_ylabel, y), (ax.set_title, title)):
        if text is not None:
            write(plotted_name(text, _TITLE), **RAW)


def write_names(axis: Any, names: Sequence[str], *, rotation: float = 0) -> None:
    """Write names at 0, 1, 2 and so on of an axis of matplotlib."""
    shown = [plotted_name(name) for name in names]
    axis.set_ticks(range(len(shown)), shown, rotation=rotation, **RAW)


Palette: TypeAlias = Mapping[str, str] | Sequence[str]
"""Colours as matplotlib writes them: by category, or in the order of the categories."""

_RASTERISED: Final = 10_000
_TOTAL_AREA: Final = 120_000.0
_LEGEND_ROWS: Final = 18
_LONGEST_TITLE: Final = 30
_BAR_INCHES: Final = 1.0
_MARKER_INCHES: Final = 0.5
_SMALL: Final = 0.83
_MOST_CATEGORIES: Final = 40
_OTHER: Final = "other"
MISSING_COLOUR: Final = "0.8"
"""The grey of what is missing."""


@dataclass(frozen=True, slots=True)
class Categories:
    """A category for each point, by number."""

    codes: npt.NDArray[np.int64]
    """The number of the category of each point; -1 where it is missing."""
    labels: tuple[str, ...]
    """The categories, in their order."""
    counts: tuple[int, ...]
    """How many points each has."""
    colours: tuple[str, ...]
    """The colour of each."""

    @property
    def is_missing(self) -> npt.NDArray[np.bool_]:
        """Which points have no category."""
        return self.codes < 0


@dataclass(frozen=True, slots=True)
class Numbers:
    """A number for each point."""

    values: npt.NDArray[np.float64]
    """NaN where it is missing."""

    @property
    def is_missing(self) -> npt.NDArray[np.bool_]:
        """Which points have no number."""
        return np.isnan(self.values)


Colouring: TypeAlias = Categories | Numbers


def colouring_of(
    values: pa.Array | pa.ChunkedArray,
    *,
    order: pa.Array | None = None,
    palette: Palette | None = None,
) -> Colouring:
    """Return how points with these values are coloured: strings and truth values are categories.

    Parameters
    ----------
    order
        The categories in their order, also those that do not occur, which keep their colours; by
        default those that occur, in alphabetical order.
    palette
        Their colours.  Of a list that has one for each of ``order``, or else for each category
        that occurs.

    Raises
    ------
    InvalidInputError
        The values are neither categories nor numbers, or the palette lacks a colour.

    Examples
    --------
    >>> found = colouring_of(pa.array(["T", "B", None, "T"]), palette=["red", "blue"])
    >>> found.labels, found.counts, found.codes.tolist()
    (('B', 'T'), (1, 2), [1, 0, -1, 1])
    """
    if isinstance(values, pa.ChunkedArray):
        values = values.combine_chunks()
    kind = values.type
    if pa.types.is_dictionary(kind):
        if order is None and kind.ordered:
            order = values.dictionary
        values, kind = values.cast(kind.value_type), kind.value_type
    if pa.types.is_boolean(kind):
        values, kind = values.cast(pa.string()), pa.string()
    if pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind):
        return _categories(values.cast(pa.string()), order, palette)
    try:
        numbers = values.cast(pa.float64(), safe=False).to_numpy(zero_copy_only=False)
    except pa.ArrowException:
        raise errors.InvalidInputError(
            f"color= yields values of type {kind}, which are neither numbers nor categories; "
            "cast them in the expression: CAST(... AS VARCHAR)"
        ) from None
    if palette is not None and not pa.types.is_null(kind):
        raise errors.InvalidInputError(
            "palette= has colours of categories, and color= yields numbers: choose a colour map "
            "with cmap="
        )
    return Numbers(numbers)


def _categories(values: pa.Array, order: pa.Array | None, palette: Palette | None) -> Categories:
    counted = values.drop_null().value_counts().to_pylist()
    counts = {each["values"]: each["counts"] for each in counted}
    whole = [] if order is None else order.to_pylist()
    labels = [each for each in whole if each in counts]
    labels += sorted(set(counts) - set(labels))
    if len(labels) > _MOST_CATEGORIES:  # the largest, and one for the others
        ranked = sorted(labels, key=lambda label: (-counts[label], label))
        largest = set(ranked[: _MOST_CATEGORIES - 1])
        others = [each for each in labels if each not in largest]
        shown = [each for each in labels if each in largest]
        labels = [*shown, f"{_OTHER} ({len(others):,} more)"]
        found = pc.index_in(values, value_set=pa.array([*shown, *others]))
    else:
        found = pc.index_in(values, value_set=pa.array(labels, pa.string()))
    codes = np.minimum(pc.fill_null(found, -1).to_numpy().astype(np.int64), len(labels) - 1)
    sizes = np.bincount(codes[codes >= 0], minlength=len(labels))
    return Categories(codes, tuple(labels), tuple(sizes.tolist()), _colours(labels, whole, palette))


def _colours(labels: list[str], whole: list[str], palette: Palette | None) -> tuple[str, ...]:
    """Return the colour of each category; by their places among all, where these are few."""
    is_among = len(whole) <= _MOST_CATEGORIES and set(labels) <= set(whole)
    places = whole if is_among else labels
    if palette is None:
        colours = dict(zip(places, _default_colours(len(places)), strict=True))
        return tuple(colours[label] for label in labels)
    if isinstance(palette, str):
        raise errors.InvalidInputError("palette= is a list or a mapping of colours, not a string")
    if isinstance(palette, Mapping):
        lacking = next((label for label in labels if label not in palette), None)
        if lacking is not None and not lacking.startswith(f"{_OTHER} ("):
            raise errors.InvalidInputError(
                f"palette= has no colour for {lacking!r}, which color= yields"
            )
        given = [palette.get(label, MISSING_COLOUR) for label in labels]
    elif len(palette) < len(labels):
        raise errors.InvalidInputError(
            f"palette= has {len(palette)} colours, and color= yields {len(labels)} categories"
        )
    else:
        listed = dict(zip(places if len(palette) >= len(places) else labels, palette, strict=False))
        given = [listed[label] for label in labels]
    names = optional_import("matplotlib.colors", extra="plot")
    for colour in given:
        if not names.is_color_like(colour):
            raise errors.InvalidInputError(f"palette= has {colour!r}, which is no colour")
    return tuple(given)


def _default_colours(count: int) -> list[str]:
    library: Any = optional_import("matplotlib", extra="plot")
    names = optional_import("matplotlib.colors", extra="plot")
    if count <= 20:
        colours = library.colormaps["tab10" if count <= 10 else "tab20"].colors[:count]
    else:
        colours = library.colormaps["turbo"](np.linspace(0.02, 0.98, count))
    return [names.to_hex(colour) for colour in colours]


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
    style: dict[str, Any] = {"s": area, "linewidths": 0, "rasterized": count > _RASTERISED}
    order = np.random.default_rng(seed).permutation(count)
    order = order[np.isfinite(points[order]).all(axis=1)]
    if colouring is None:
        ax.scatter(*points[order].T, c="0.45", **style)
        return
    is_missing = colouring.is_missing[order]
    if is_missing.any():
        ax.scatter(*points[order[is_missing]].T, c=MISSING_COLOUR, **style)
    valued = order[~is_missing]
    if isinstance(colouring, Categories):
        if valued.size:
            names = optional_import("matplotlib.colors", extra="plot")
            colours = names.to_rgba_array(list(colouring.colours))
            ax.scatter(*points[valued].T, c=colours[colouring.codes[valued]], **style)
        if legend:
            _add_legend(ax, colouring, title)
    elif valued.size:
        values = colouring.values[valued]
        finite = values[np.isfinite(values)]
        least, greatest = (finite.min(), finite.max()) if finite.size else (0.0, 1.0)
        style |= {"c": values, "cmap": cmap, "vmin": least, "vmax": greatest}
        artist = ax.scatter(*points[valued].T, **style)
        if legend:
            ax.figure.colorbar(artist, ax=ax, shrink=0.7)
    write_labels(ax, title=title)


def legend_inches(colouring: Colouring | None) -> float:
    """Return how wide the legend of a colouring is, or its colour bar."""
    if not isinstance(colouring, Categories):
        return _BAR_INCHES
    labels = [f"{plotted_name(label)} (99,999)" for label in (*colouring.labels, "missing")]
    return _legend_columns(len(labels)) * (_SMALL * names_inches(labels, 60) + _MARKER_INCHES)


def _legend_columns(count: int) -> int:
    return 1 + (count - 1) // _LEGEND_ROWS


def _add_legend(ax: AxesLike, colouring: Categories, title: str) -> None:
    """Name the categories, with the number of points of each."""
    lines = optional_import("matplotlib.lines", extra="plot")
    entries = list(zip(colouring.labels, colouring.counts, colouring.colours, strict=True))
    missing = int(colouring.is_missing.sum())
    if missing:
        entries.append(("missing", missing, MISSING_COLOUR))
    style = {"marker": "o", "linestyle": ""}
    handles = [
        lines.Line2D([], [], color=colour, label=f"{plotted_name(label)} ({count:,})", **style)
        for label, count, colour in entries
    ]
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

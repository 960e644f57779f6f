"""Colourings: categories with a colour each, or numbers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from daf_storage import errors
from daf_storage.base import optional_import

Palette: TypeAlias = Mapping[str, str] | Sequence[str]
"""Colours as matplotlib writes them: by category, or in the order of the categories."""

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
    if pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind):
        if palette is not None:
            raise errors.InvalidInputError(
                "palette= has colours of categories, and color= yields numbers: choose a "
                "colour map with cmap="
            )
        numbers = values.cast(pa.float64(), safe=False).to_numpy(zero_copy_only=False)
        return Numbers(numbers.astype(np.float64, copy=False))
    if pa.types.is_null(kind):
        return Numbers(np.full(len(values), np.nan))
    raise errors.InvalidInputError(
        f"color= yields values of type {kind}, which are neither numbers nor categories; "
        "cast them in the expression: CAST(... AS VARCHAR)"
    )


def _categories(values: pa.Array, order: pa.Array | None, palette: Palette | None) -> Categories:
    encoded = values.dictionary_encode()
    counts = np.bincount(
        pc.fill_null(encoded.indices, -1).to_numpy().astype(np.int64) + 1,
        minlength=len(encoded.dictionary) + 1,
    )[1:]
    found = dict(zip(encoded.dictionary.to_pylist(), counts.tolist(), strict=True))
    whole = [] if order is None else order.to_pylist()
    known = [each for each in whole if each in found]
    labels = known + sorted(set(found) - set(known))
    shown = _shown(labels, found)
    place_of = {label: place for place, label in enumerate(shown)}
    last = len(shown) - 1
    places = np.array([place_of.get(each, last) for each in found] or [0], np.int64)
    indices = pc.fill_null(encoded.indices, -1).to_numpy().astype(np.int64)
    codes = np.where(indices < 0, -1, places[indices])
    sizes = np.bincount(codes[codes >= 0], minlength=len(shown))
    colours = _colours(shown, whole, palette)
    return Categories(codes, tuple(shown), tuple(sizes.tolist()), colours)


def _shown(labels: list[str], counts: Mapping[str, int]) -> list[str]:
    """Return the categories that get a colour; of very many the largest, and one for the others."""
    if len(labels) <= _MOST_CATEGORIES:
        return labels
    largest = sorted(labels, key=lambda label: (-counts[label], label))[: _MOST_CATEGORIES - 1]
    others = len(labels) - len(largest)
    return [each for each in labels if each in set(largest)] + [f"{_OTHER} ({others:,} more)"]


def _colours(
    labels: Sequence[str], whole: Sequence[str], palette: Palette | None
) -> tuple[str, ...]:
    if isinstance(palette, str):
        raise errors.InvalidInputError("palette= is a list or a mapping of colours, not a string")
    if isinstance(palette, Mapping):
        lacking = [label for label in labels if label not in palette]
        if lacking and not lacking[0].startswith(f"{_OTHER} ("):
            raise errors.InvalidInputError(
                f"palette= has no colour for {lacking[0]!r}, which color= yields"
            )
        return _checked([palette.get(label, MISSING_COLOUR) for label in labels])
    place_of = {label: place for place, label in enumerate(whole)}
    has_places = len(whole) <= _MOST_CATEGORIES and all(label in place_of for label in labels)
    if palette is not None:
        if has_places and len(palette) >= len(whole):
            return _checked([palette[place_of[label]] for label in labels])
        if len(palette) < len(labels):
            raise errors.InvalidInputError(
                f"palette= has {len(palette)} colours, and color= yields {len(labels)} categories"
            )
        return _checked(list(palette[: len(labels)]))
    if has_places:
        colours = _default_colours(len(whole))
        return tuple(colours[place_of[label]] for label in labels)
    return _default_colours(len(labels))


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


def _checked(colours: list[str]) -> tuple[str, ...]:
    names = optional_import("matplotlib.colors", extra="plot")
    for colour in colours:
        if not names.is_color_like(colour):
            raise errors.InvalidInputError(f"palette= has {colour!r}, which is no colour")
    return tuple(colours)


def _default_colours(count: int) -> tuple[str, ...]:
    library: Any = optional_import("matplotlib", extra="plot")
    names = optional_import("matplotlib.colors", extra="plot")
    if count <= 20:
        listed = library.colormaps["tab10" if count <= 10 else "tab20"].colors
        return tuple(names.to_hex(colour) for colour in listed[:count])
    shades = library.colormaps["turbo"](np.linspace(0.02, 0.98, count))
    return tuple(names.to_hex(shade) for shade in shades)

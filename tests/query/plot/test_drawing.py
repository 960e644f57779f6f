"""Tests of drawing: colourings, points, violins, and axes without pyplot."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from matplotlib import pyplot as plt
from matplotlib.axes import Axes
from matplotlib.colors import to_hex
from matplotlib.figure import Figure

from daf_query.plot import (
    Categories,
    Numbers,
    axes_for,
    axes_with_legend,
    colouring_of,
    draw_points,
)

STYLE: dict[str, Any] = {"title": "t", "size": None, "cmap": "viridis", "seed": 0, "legend": True}


@pytest.fixture
def ax() -> Any:
    """Return axes of a figure of this test."""
    axes = axes_for(None, inches=(4, 3))
    assert isinstance(axes, Axes)
    return axes


def test_categories_have_their_order_counts_and_colours() -> None:
    """Alphabetical, or as given; booleans and dictionaries too; NULL is missing."""
    values = pa.array(["b", "a", None, "b"])
    found = colouring_of(values)
    assert isinstance(found, Categories)
    assert (found.labels, found.counts, found.codes.tolist()) == (("a", "b"), (1, 2), [1, 0, -1, 1])
    ordered = colouring_of(
        values, order=pa.array(["b", "x", "a"]), palette={"a": "red", "b": "#00ff00"}
    )
    assert isinstance(ordered, Categories)
    assert (ordered.labels, ordered.colours) == (("b", "a"), ("#00ff00", "red"))
    assert ordered.codes.tolist() == [0, 1, -1, 0]
    truth = colouring_of(pa.chunked_array([[True], [False, None]]))
    assert isinstance(truth, Categories)
    assert truth.labels == ("false", "true")
    coded = colouring_of(pa.DictionaryArray.from_arrays([1, 0, None], ["z", "y"], ordered=True))
    assert isinstance(coded, Categories)
    assert (coded.labels, coded.codes.tolist()) == (("z", "y"), [1, 0, -1])
    assert colouring_of(pa.array([], pa.string())).is_missing.size == 0
    assert colouring_of(pa.nulls(2)).is_missing.tolist() == [True, True]


def test_many_categories_become_others(ax: Any) -> None:
    """The largest have a colour of their own, the rest share the last; the legend counts them."""
    names = [f"c{n:02}" for n in range(50)]
    found = colouring_of(pa.array([*names, *names[5:44], None]))
    assert isinstance(found, Categories)
    assert found.labels == (*names[5:44], "other (11 more)")
    assert found.counts == (*[2] * 39, 11)
    assert found.codes.tolist() == [*[39] * 5, *range(39), *[39] * 6, *range(39), -1]
    assert len(set(found.colours)) == 40
    draw_points(ax, np.zeros((90, 2)), found, **STYLE)
    shown = [text.get_text() for text in ax.get_legend().get_texts()]
    assert shown[::39] == ["c05 (2)", "other (11 more) (11)"]
    assert shown[-1] == "missing (1)"
    assert not ax.get_legend().get_frame_on()


def test_points_are_drawn_once_in_an_order_of_the_seed(ax: Any) -> None:
    """Each with its colour; those without a value first, in grey; those without a place not."""
    points = np.random.default_rng(1).normal(size=(50, 2))
    points[3, 0] = np.nan
    values = np.arange(50.0)
    values[7] = np.nan
    draw_points(ax, points, Numbers(values), **STYLE)
    assert ax.get_title() == "t"
    grey, dots = ax.collections[:2]
    assert grey.get_offsets().tolist() == [points[7].tolist()]
    assert to_hex(grey.get_facecolors()[0]) == "#cccccc"
    expected = {(*points[n].tolist(), float(n)) for n in range(50) if n not in (3, 7)}
    offsets = np.asarray(dots.get_offsets()).tolist()
    assert {
        (*place, value) for place, value in zip(offsets, dots.get_array().tolist(), strict=True)
    } == expected
    assert offsets != sorted(offsets, key=lambda place: points.tolist().index(place))
    again = axes_for(None, inches=(4, 3))
    draw_points(again, points, Numbers(values), **STYLE)
    assert np.asarray(again.collections[1].get_offsets()).tolist() == offsets
    other = axes_for(None, inches=(4, 3))
    draw_points(other, points, Numbers(values), **{**STYLE, "seed": 1})
    assert np.asarray(other.collections[1].get_offsets()).tolist() != offsets


def test_a_notebook_shows_the_axes() -> None:
    """As a picture of their figure, twice as fine as its size; they can be pickled."""
    axes = axes_for(None, inches=(3, 2))
    picture, size = axes._repr_png_()
    assert picture.startswith(b"\x89PNG")
    assert int.from_bytes(picture[16:20], "big") == 2 * size["width"]
    assert isinstance(pickle.loads(pickle.dumps(axes.figure)), Figure)
    given = Figure().add_subplot()
    assert axes_for(given, inches=(3, 2)) is given


def test_drawing_leaves_pyplot_alone() -> None:
    """It keeps no figure, so that none has to be closed."""
    before = plt.get_fignums()
    axes = axes_for(None, inches=(3, 3))
    draw_points(axes, np.zeros((3, 2)), None, **STYLE)
    axes._repr_png_()
    axes_with_legend(inches=(3, 3), widths=(2, 1))
    assert plt.get_fignums() == before

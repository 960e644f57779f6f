"""Tests of grids of groups and columns: where marks are, how large, and what is written."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from daf_query.plot import axes_for, draw_dots, draw_grid, scaled

NAMES: dict[str, Any] = {"groups": ["a", "b"], "columns": ["X", "Y", "Z"], "title": "t"}
MEANS = np.array([[0.0, 1.0, 2.0], [3.0, 4.0, np.nan]])


def written(ax: Any) -> tuple[list[str], list[str], str]:
    """Return the names of columns and of groups, and the title."""
    columns = [label.get_text() for label in ax.get_xticklabels()]
    assert {label.get_rotation() for label in ax.get_xticklabels()} == {90.0}
    assert [*ax.get_xticks(), *ax.get_yticks()] == [0, 1, 2, 0, 1]
    return columns, [label.get_text() for label in ax.get_yticklabels()], ax.get_title()


def test_dots() -> None:
    """One for each group and column: the area is the fraction, the colour the mean, NaN no dot."""
    ax = axes_for(None, inches=(4, 3))
    fractions = np.array([[0.0, 0.5, 1.0], [0.25, 0.75, np.nan]])
    dots = draw_dots(ax, fractions, MEANS, cmap="viridis", **NAMES)
    places = [[column, group] for group in range(2) for column in range(3)]
    assert np.ma.filled(dots.get_offsets(), -1).tolist() == [*places[:5], [-1, -1]]
    assert dots.get_sizes().tolist() == [0, 90, 180, 45, 135, 0]
    assert np.ma.filled(dots.get_array(), np.nan).tolist()[:5] == [0, 1, 2, 3, 4]
    assert dots.get_cmap().name == "viridis"
    assert dots.get_linewidths() == [0.4]
    assert written(ax) == (["X", "Y", "Z"], ["a", "b"], "t")
    assert ax.get_xlim() == pytest.approx((-0.7, 2.7))
    assert ax.get_ylim() == pytest.approx((1.7, -0.7))  # the first group is at the top


def test_squares() -> None:
    """One for each group and column, the first group at the top; a bar says what colours are."""
    ax = axes_for(None, inches=(4, 3))
    picture = draw_grid(ax, MEANS, cmap="magma", label="mean", **NAMES)
    assert np.ma.filled(picture.get_array(), -1).tolist() == [[0, 1, 2], [3, 4, -1]]
    assert (picture.get_cmap().name, picture.get_interpolation()) == ("magma", "nearest")
    assert ax.get_aspect() == "auto"
    assert written(ax) == (["X", "Y", "Z"], ["a", "b"], "t")
    assert ax.get_ylim() == (1.5, -0.5)
    assert [each.get_ylabel() for each in ax.figure.axes[1:]] == ["mean"]
    plain = axes_for(None, inches=(4, 3))
    draw_grid(plain, MEANS, groups=[], columns=[], title="", cmap="magma", label=None)
    assert len(plain.figure.axes) == 1
    assert [*plain.get_xticks(), *plain.get_yticks()] == []


def test_scaled_columns() -> None:
    """Each from 0 to 1, equal ones 0, without a warning where all are missing."""
    nan = np.nan
    means = np.array([[1.0, 5.0, nan, nan], [3.0, 5.0, nan, 2.0], [2.0, nan, nan, 4.0]])
    np.testing.assert_array_equal(
        scaled(means), [[0.0, 0.0, nan, nan], [1.0, 0.0, nan, 0.0], [0.5, nan, nan, 1.0]]
    )

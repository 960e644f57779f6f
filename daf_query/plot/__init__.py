"""Pictures: points in two dimensions, grids of groups and columns.

**Nouns.** A *colouring* says how points are coloured: by *categories*, each with a colour of its
own, or by *numbers* and a colour map.  *Axes* are those of matplotlib; new ones belong to a figure
that pyplot does not know, and show themselves in a notebook.

Must not know data sets, SQL or sessions: it draws arrays.
"""

from daf_query.plot._axes import (
    AxesLike,
    axes_for,
    axes_with_legend,
    names_inches,
    require_matplotlib,
    write_labels,
)
from daf_query.plot._colours import Categories, Colouring, Numbers, Palette, colouring_of
from daf_query.plot._grids import add_dot_legend, draw_dots, draw_grid, scaled
from daf_query.plot._points import draw_points, legend_inches

__all__ = [
    "AxesLike",
    "Categories",
    "Colouring",
    "Numbers",
    "Palette",
    "add_dot_legend",
    "axes_for",
    "axes_with_legend",
    "colouring_of",
    "draw_dots",
    "draw_grid",
    "draw_points",
    "legend_inches",
    "names_inches",
    "require_matplotlib",
    "scaled",
    "write_labels",
]

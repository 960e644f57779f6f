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
from daf_query.plot._drawing import (
    add_dot_legend,
    draw_dots,
    draw_grid,
    draw_points,
    legend_inches,
    scaled,
)

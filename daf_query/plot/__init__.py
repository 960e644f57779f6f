"""Points in two dimensions, such as an embedding, and axes to draw into.

**Nouns.** A *colouring* says how points are coloured: by *categories*, each with a colour of its
own, or by *numbers* and a colour map.  *Axes* are those of matplotlib; new ones belong to a figure
that pyplot does not know, and show themselves in a notebook.

Must not know data sets, SQL or sessions: it draws arrays.
"""

from daf_query.plot._drawing import (
    RAW,
    Categories,
    Colouring,
    Numbers,
    Palette,
    axes_for,
    axes_with_legend,
    check_cmap,
    colouring_of,
    draw_points,
    legend_inches,
    names_inches,
    write_labels,
    write_names,
)

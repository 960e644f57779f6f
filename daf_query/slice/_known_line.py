"""The slice of one entry by its name, such as a gene of all cells, of a matrix that is kept.

It is what `slice_matrix` returns, by fewer steps: one look at the files of the matrix and its axes,
one name that is looked up, and the one layout that has its elements side by side.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from daf_query.matrix import Selection, known_line
from daf_query.slice._asked import Asked, written_selector
from daf_query.slice._matrix_slice import MatrixSlice
from daf_query.slice._part import CurrentAxes, Part
from daf_query.slice._whole import Whole
from daf_storage import DafReader


def known_line_slice(
    daf: DafReader,
    axes: tuple[str, str],
    name: str,
    selectors: tuple[Any, Any],
    schema: str,
    *,
    is_described: bool,
) -> MatrixSlice | None:
    """Return the slice of a single name of one axis, and all of the other.

    None of any other slice; of an axis of a single entry; of a matrix that is not kept in memory,
    or that changed; and of what there is not: these are for whoever looks for everything.

    Parameters
    ----------
    schema, is_described
        As of `Asked`.
    """
    number = 1 if selectors[0] is None else 0
    entry = _single_name(selectors[number])
    if entry is None or selectors[1 - number] is not None or axes[0] == axes[1]:
        return None
    known = daf.known_matrix(*(axes if number else axes[::-1]), name)
    position = None if known is None else daf.known_position(known, entry)
    if known is None or position is None:
        return None
    states = known.states if number else known.states[::-1]
    if states[number][0] == 1:  # both selections would be of all entries
        return None
    one = Selection(np.array([position]), is_all=False)
    every = Selection.all(states[1 - number][0])
    selections = (every, one) if number else (one, every)
    layouts = known_line(daf, axes, known.stored, *selections)
    if layouts is None or not known.is_current():
        return None
    written = written_selector(selectors[number], 1, states[number][0])
    asked = Asked(
        schema,
        None if number else written,
        written if number else None,
        is_described=is_described,
    )
    current = CurrentAxes(daf, axes, states)
    return MatrixSlice(Whole.of(Part(daf, axes, name, selections, layouts, current)), asked)


def _single_name(selector: Any) -> str | None:
    """Return the name of a plain list of one name; None of any other selector.

    >>> _single_name(["FOXA1"]), _single_name([7]), _single_name("FOXA1")
    ('FOXA1', None, None)
    """
    if type(selector) is not list or len(selector) != 1 or type(selector[0]) is not str:
        return None
    return selector[0]

"""HTML that notebooks show of a slice: its size, what reading it costs, some of its values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from daf_query.slice._base import SliceBase
from daf_query.slice._explanation import explain
from daf_storage import errors
from daf_storage.spi import (
    Markup,
    Preview,
    PreviewBudget,
    arrow_of,
    html_element,
    html_page,
    html_table,
    lazy_module,
    plain_values,
    preview_cells,
    preview_of,
    shortened,
)

if TYPE_CHECKING:
    import scipy.sparse as sp
else:
    sp = lazy_module("scipy.sparse")

_ROWS: Final = (64, 8, 1)
_MOST_VALUES: Final = 1 << 16


def slice_page(part: SliceBase, facts: Mapping[str, object], notes: Sequence[str] = ()) -> Markup:
    """Return the page of a slice.

    Parameters
    ----------
    facts
        Rows of the table, by their titles.
    notes
        Lines below it.
    """
    budget = PreviewBudget()
    stored = f"{'sparse' if part.is_sparse else 'dense'} {part.dtype}"
    size = f"{part.shape[0]:,} {part.rows_axis} x {part.shape[1]:,} {part.columns_axis}"
    seen = _values(part, budget)
    what = "non-zero values" if part.is_sparse else "values"
    rows: list[tuple[object, ...]] = [("stored", stored)]
    rows += [(title, fact) for title, fact in facts.items() if fact]
    heading = html_element("div", html_element("strong", shortened(part.name)), f": {size}")
    preview, note = seen if isinstance(seen, tuple) else (seen, "")
    chart, figures, _ = preview_cells(preview)
    cells = html_table((), [(what, chart, figures, note)]) if preview else Markup()
    lines = [html_element("div", note, class_="note") for note in notes]
    return html_page(heading, html_table((), rows), cells, *lines)


def _values(part: SliceBase, budget: PreviewBudget) -> tuple[Preview, str] | str:
    """Return what values of some rows look like; nothing large is read for that."""
    height = part.shape[0]
    if not height or not part.shape[1]:
        return ""
    if part.loaded is not None:
        return _look(part.loaded, height, height)
    for most in _ROWS:
        offsets = np.unique(np.linspace(0, height - 1, most).astype(np.int64))
        try:
            some = part.take_rows(offsets)
            cost = explain(some.whole)
            if cost.requests is not None:
                return "on a server, not read yet"
            if budget.spend(max(cost.read_bytes, cost.decoded_bytes, cost.result_bytes)):
                return _look(some.values(), offsets.size, height)
        except errors.DafError as error:  # such as a closed session: the rest is shown all the same
            return f"cannot be read: {shortened(error, 160)}"
    return "not read yet; too much to look at quickly"


def _look(values: Any, looked_at: int, height: int) -> tuple[Preview, str]:
    elements = values.data if sp.issparse(values) else np.asarray(values).reshape(-1)
    count = elements.size
    if count > _MOST_VALUES:
        elements = elements[:: -(-count // _MOST_VALUES)]
    arrow = plain_values(elements, what="values") if elements.dtype == object else elements
    arrow = arrow_of(arrow) if isinstance(arrow, np.ndarray) else arrow
    preview = preview_of(arrow, total=elements.size)
    note = "" if looked_at == height else f"of {looked_at:,} of {height:,} rows"
    if count > elements.size:
        note = f"a sample of {elements.size:,} of {count:,}"
    return preview, note

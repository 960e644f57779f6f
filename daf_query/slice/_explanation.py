"""Explain a slice before it is read, as text and as a page: its elements, layouts and costs.

**Nouns.** The *result* of a slice is what `MatrixSlice.values` returns: CSR if the matrix is stored
sparse, else dense.  A *budget* (``max_bytes=``) is how much memory the result may take.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Final, Literal, TypeAlias

import numpy as np

from daf_query.matrix import estimate_read, other_layout_command
from daf_query.slice._anndata import find_companions, select_companions
from daf_query.slice._parts import Part, Whole, figures_of, read_whole
from daf_storage import errors
from daf_storage._lazy import sp
from daf_storage._terminal_text import visible_name
from daf_storage.base import arrow_of
from daf_storage.data import plain_values
from daf_storage.display import (
    Markup,
    Preview,
    PreviewBudget,
    html_element,
    html_page,
    html_table,
    preview_cells,
    preview_of,
    readable_bytes,
    shortened,
)

LayoutState: TypeAlias = Literal["chosen", "costs more", "not stored", "damaged"]

_SHOWN: Final = 10
_LOOKED_AT: Final = (64, 8, 1)
_MOST_VALUES: Final = 1 << 16
_WHY: Final[dict[LayoutState, str]] = {
    "chosen": "read, it takes the least time",
    "costs more": "not read, it takes more time",
    "not stored": "not stored",
    "damaged": "not read, it is damaged",
}


@dataclass(frozen=True, slots=True)
class LayoutCost:
    """One of the two layouts in which a matrix may be stored, and why it is read or not."""

    by: str
    """The axis whose entries lie one after the other: of ``cell``, each cell's genes."""
    state: LayoutState
    """Whether it is read, and if not, why."""
    cost_bytes: int | None
    """About how many bytes of it the slice touches, its column pointers included."""
    problem: str | None = None
    """What is wrong with it, if it is damaged."""
    remedy: str = "relayout_matrix()"
    """What stores it, if it is not stored."""


@dataclass(frozen=True, slots=True, repr=False)
class SliceExplanation:
    """What a slice will read, and how much memory it will take; `MatrixSlice.explain` returns it.

    Sizes are in bytes, of values alone: without the names of rows and columns, and their tables.
    """

    location: str
    """The data set, or several."""
    matrix: str
    """The name of the matrix."""
    rows_axis: str
    columns_axis: str
    rows: int
    """Number of rows."""
    columns: int
    """Number of columns."""
    dtype: str
    """The numpy dtype of the values."""
    is_sparse: bool
    """Whether the matrix is stored sparse."""
    stored_elements: int
    """How many elements the slice has: the stored ones of a sparse matrix, all of a dense one."""
    is_exact: bool
    """Whether there are so many.  If not, there are at most so many: both axes are filtered, and
    the elements would have to be read to count them."""
    layouts: Sequence[LayoutCost]
    """Both layouts in which the matrix may be stored; of several data sets, `members` has them."""
    read_bytes: int
    """How many bytes of the stored elements are read, and of a server, downloaded.  The column
    pointers of a sparse matrix are not among them: they were read when the slice was chosen."""
    read_is_exact: bool
    """Whether there are so many; of compressed chunks on a server, about."""
    decoded_bytes: int
    """How many bytes the compressed chunks expand to that are needed.  Those that are remembered
    from an earlier read are not decoded again."""
    used_bytes: int
    """How many of these are used: where they are few, the other layout, larger blocks of
    neighbouring rows or smaller chunks would read less."""
    requests: int | None
    """About how many requests that takes; None if the data set is not on a server."""
    result_bytes: int
    """How much memory the result takes, at most: what a budget (``max_bytes=``) is compared to."""
    memory_bytes: Mapping[str, int]
    """How much memory each form takes, at most: ``scipy``, ``numpy``, ``pandas``, ``polars``,
    ``arrow``, and ``anndata`` with what comes along by default."""
    filled_elements: int = 0
    """How many elements several data sets lack, whether or not the result stores them."""
    members: Mapping[str, SliceExplanation] = field(default_factory=dict)
    """In a collection, the parts of the data sets of which something is selected, by name."""

    def to_dict(self) -> dict[str, Any]:
        """Return everything as plain Python, for JSON."""
        return asdict(self)

    def __repr__(self) -> str:
        at_most = "" if self.is_exact else "at most "
        about = "" if self.read_is_exact else "about "
        stored = "sparse" if self.is_sparse else "dense"
        head = (
            f"matrix {self.matrix!r} of {self.location}: {self.rows:,} {self.rows_axis} x "
            f"{self.columns:,} {self.columns_axis}, {stored} {self.dtype}"
        )
        decoded = (
            f"{readable_bytes(self.decoded_bytes)} of compressed chunks, of which "
            f"{readable_bytes(self.used_bytes)} are used"
        )
        lacking = "" if self.layouts else f" ({self.filled_elements:,} lacking)"
        lines = [
            head,
            f"  elements  {at_most}{self.stored_elements:,}{lacking}",
            *(f"  layout    {_text(layout)}" for layout in self.layouts),
            f"  read      {about}{readable_bytes(self.read_bytes)}{_in_requests(self)}",
            *([f"  decoded   {decoded}"] if self.decoded_bytes else []),
            f"  result    {at_most}{readable_bytes(self.result_bytes)} of memory",
            f"  forms     {_forms(self)}",
            *(member._line(name) for name, member in self.members.items()),  # noqa: SLF001 - its own
        ]
        return "\n".join(map(visible_name, lines))

    def _line(self, name: str) -> str:
        chosen = "".join(layout.by for layout in self.layouts if layout.state == "chosen")
        read = f"{readable_bytes(self.read_bytes)} to read"
        return f"  {name}: {self.rows:,} x {self.columns:,}, by {chosen}, {read}"


def _in_requests(found: SliceExplanation) -> str:
    return "" if found.requests is None else f" in about {found.requests:,} requests"


def _forms(found: SliceExplanation) -> str:
    return ", ".join(f"{name} {readable_bytes(size)}" for name, size in found.memory_bytes.items())


def _text(layout: LayoutCost) -> str:
    text = f"by {layout.by}: {_WHY[layout.state]}"
    if layout.state == "not stored":
        text += f"; {layout.remedy} stores it"
    if layout.cost_bytes is not None:
        text += f" (about {readable_bytes(layout.cost_bytes)})"
    return text if layout.problem is None else f"{text}: {layout.problem}"


def _layout_costs(part: Part) -> list[LayoutCost]:
    """Return both layouts of a matrix; of one of an axis with itself, the one that there is."""
    layouts, axes = part.layouts, part.axes
    faults = list(layouts.faults)
    found = {layout.rows_are_major: layout for layout in layouts.found}
    costs = []
    for axis, rows_are_major in zip(axes, (True, False), strict=True):
        layout = found.get(rows_are_major)
        if layout is not None:
            state: LayoutState = "chosen" if layout is layouts.first else "costs more"
            state = "damaged" if rows_are_major in layouts.damaged else state
            try:
                costs.append(LayoutCost(axis, state, layout.cost_bytes))
                continue
            except errors.FormatError as error:
                faults.append(error)
        if faults:
            costs.append(LayoutCost(axis, "damaged", None, str(faults.pop())))
        elif axes[0] != axes[1]:
            remedy = other_layout_command(part.daf, part.matrix) or "relayout_matrix()"
            costs.append(LayoutCost(axis, "not stored", None, remedy=remedy))
    return costs


def explain(whole: Whole, result: Any = None) -> SliceExplanation:
    """Return what a slice costs, in all and of each of several data sets; no values are read.

    Parameters
    ----------
    result
        Its values, if they were read.
    """
    figures = figures_of(whole, result)
    reads = [estimate_read(part.plan) for part in whole.members]
    requests = [read.requests for read in reads if read.is_remote]
    memory_bytes = figures.memory_bytes()
    memory_bytes["anndata"] = figures.result_bytes + _beside_x_bytes(whole)
    is_one = not whole.is_collection
    if not is_one:
        memory_bytes["arrow"] += 4 * figures.count  # the codes of the data sets
    return SliceExplanation(
        location=whole.location,
        matrix=whole.name,
        rows_axis=whole.axis_names[0],
        columns_axis=whole.axis_names[1],
        rows=whole.shape[0],
        columns=whole.shape[1],
        dtype=str(whole.dtype),
        is_sparse=whole.is_sparse,
        stored_elements=figures.count,
        is_exact=figures.is_exact,
        layouts=_layout_costs(whole.members[0]) if is_one else [],
        read_bytes=sum(read.size_bytes for read in reads),
        read_is_exact=all(read.is_exact for read in reads),
        decoded_bytes=sum(read.decoded_bytes for read in reads),
        used_bytes=sum(read.used_bytes for read in reads),
        requests=sum(requests) if requests else None,
        result_bytes=figures.result_bytes,
        memory_bytes=memory_bytes,
        filled_elements=whole.missing_count,
        members={} if is_one else {m.name: explain(Whole.of(m)) for m in whole.members},
    )


def _beside_x_bytes(whole: Whole) -> int:
    """Return about how much memory the other matrices of an AnnData take; no values are read."""
    try:
        companions = find_companions(whole)
    except errors.FormatError:  # one that cannot be read does not come along
        return 0
    chosen, _ = select_companions(whole.location, companions, {})
    return sum(companion.estimated_bytes for companion in chosen)


def check_budget(explanation: SliceExplanation, max_bytes: int) -> None:
    """Refuse a slice whose result may take more memory than a budget, or whose download is larger.

    Raises
    ------
    BudgetError
        It may; the message has the figures.
    """
    download = 0 if explanation.requests is None else explanation.read_bytes
    if max(explanation.result_bytes, download) <= max_bytes:
        return
    least = "" if explanation.is_exact else "up to "
    what = f"takes {least}{explanation.result_bytes:,} bytes of memory"
    if explanation.result_bytes <= max_bytes:
        what = f"downloads about {download:,} bytes"
    raise errors.over_budget(
        f"{explanation.location}: matrix {explanation.matrix!r}, {explanation.rows:,} "
        f"{explanation.rows_axis} x {explanation.columns:,} {explanation.columns_axis}, "
        f"{what}, more than the budget of "
        f"{max_bytes:,} ({least}{explanation.stored_elements:,} elements; "
        f"{readable_bytes(explanation.read_bytes)} to read{_in_requests(explanation)}; "
        f"{_forms(explanation)}); nothing was read"
    )


def slice_page(whole: Whole, result: Any, notes: Sequence[str]) -> Markup:
    """Return the page of a slice, with notes below its facts.

    Parameters
    ----------
    result
        Its values, if they were read.
    """
    rows: list[tuple[object, ...]] = [
        ("stored", f"{'sparse' if whole.is_sparse else 'dense'} {whole.dtype}"),
        ("of", whole.location),
    ]
    if whole.is_collection:
        shown = [f"{name} {count:,}" for name, count in whole.counts.items()]
        more = f" and {len(shown) - _SHOWN:,} more" if len(shown) > _SHOWN else ""
        rows.append((f"{len(shown):,} data sets", ", ".join(shown[:_SHOWN]) + more))
    else:
        plan = whole.members[0].plan
        by = f"read from the layout by {plan.stored.info.columns_axis}"
        rows.append(("reading", f"{by} (about {plan.cost_bytes:,} bytes)"))
    (n_rows, n_columns), (first, second) = whole.shape, whole.axis_names
    size = f"{n_rows:,} {first} x {n_columns:,} {second}"
    preview, note = _values(whole, result)
    what = "non-zero values" if whole.is_sparse else "values"
    heading = html_element("div", html_element("strong", shortened(whole.name)), f": {size}")
    chart, figures, _ = preview_cells(preview)
    cells = html_table((), [(what, chart, figures, note)]) if preview else Markup()
    lines = [html_element("div", note, class_="note") for note in notes]
    return html_page(heading, html_table((), rows), cells, *lines)


def _values(whole: Whole, result: Any) -> tuple[Preview | str, str]:
    """Return what values of some rows look like, and a note; nothing large is read for that."""
    height, budget = whole.shape[0], PreviewBudget()
    if not height or not whole.shape[1]:
        return "", ""
    if result is not None:
        return _look(result, height, height)
    for most in _LOOKED_AT:
        offsets = np.unique(np.linspace(0, height - 1, most).astype(np.int64))
        try:
            some = whole.take_rows(offsets)
            cost = explain(some)
            if cost.requests is not None:
                return "on a server, not read yet", ""
            if budget.spend(max(cost.read_bytes, cost.decoded_bytes, cost.result_bytes)):
                return _look(read_whole(some), offsets.size, height)
        except errors.DafError as error:  # such as a closed session: the rest is shown all the same
            return f"cannot be read: {shortened(error, 160)}", ""
    return "not read yet; too much to look at quickly", ""


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

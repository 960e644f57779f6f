"""Explain a slice before it is read: its elements, its layouts, what it costs, what it becomes.

**Nouns.** The *result* of a slice is what `MatrixSlice.values` returns: CSR if the matrix is stored
sparse, else dense.  A *budget* (``max_bytes=``) is how much memory the result may take.
"""

from __future__ import annotations

import html
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any, Final, Literal, Protocol, TypeAlias

import numpy as np

from daf_query.matrix import (
    ElementCount,
    Layout,
    PlannedLayouts,
    count_elements,
    estimate_read,
    other_layout_command,
)
from daf_query.slice import _anndata
from daf_query.slice._byte_sizes import shown_bytes
from daf_storage import DafReader, errors
from daf_storage.spi import visible_name

LayoutState: TypeAlias = Literal["chosen", "costs more", "not stored", "damaged"]

_STRING_BYTES: Final = 16
_LARGEST_INT32: Final = 2**31 - 1
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

    Sizes are in bytes, and without the names of rows and columns.
    """

    location: str
    """The data set."""
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
    layouts: tuple[LayoutCost, ...]
    """Both layouts in which the matrix may be stored."""
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

    def to_dict(self) -> dict[str, Any]:
        """Return everything as plain Python, for JSON."""
        return {
            "location": self.location,
            "matrix": self.matrix,
            "rows_axis": self.rows_axis,
            "columns_axis": self.columns_axis,
            "rows": self.rows,
            "columns": self.columns,
            "dtype": self.dtype,
            "is_sparse": self.is_sparse,
            "stored_elements": self.stored_elements,
            "is_exact": self.is_exact,
            "layouts": [asdict(layout) for layout in self.layouts],
            "read_bytes": self.read_bytes,
            "read_is_exact": self.read_is_exact,
            "decoded_bytes": self.decoded_bytes,
            "used_bytes": self.used_bytes,
            "requests": self.requests,
            "result_bytes": self.result_bytes,
            "memory_bytes": dict(self.memory_bytes),
        }

    def __repr__(self) -> str:
        at_most = "" if self.is_exact else "at most "
        about = "" if self.read_is_exact else "about "
        stored = "sparse" if self.is_sparse else "dense"
        requests = "" if self.requests is None else f" in about {self.requests:,} requests"
        head = (
            f"matrix {self.matrix!r} of {self.location}: {self.rows:,} {self.rows_axis} x "
            f"{self.columns:,} {self.columns_axis}, {stored} {self.dtype}"
        )
        decoded = (
            f"{shown_bytes(self.decoded_bytes)} of compressed chunks, of which "
            f"{shown_bytes(self.used_bytes)} are used"
        )
        forms = [f"{name} {shown_bytes(size)}" for name, size in self.memory_bytes.items()]
        lines = [
            head,
            f"  elements  {at_most}{self.stored_elements:,}",
            *(f"  layout    {_text(layout)}" for layout in self.layouts),
            f"  read      {about}{shown_bytes(self.read_bytes)}{requests}",
            *([f"  decoded   {decoded}"] if self.decoded_bytes else []),
            f"  result    {at_most}{shown_bytes(self.result_bytes)} of memory",
            f"  forms     {', '.join(forms)}",
        ]
        return "\n".join(map(visible_name, lines))

    def _repr_html_(self) -> str:
        return f"<pre>{html.escape(repr(self))}</pre>"


def _text(layout: LayoutCost) -> str:
    text = f"by {layout.by}: {_WHY[layout.state]}"
    if layout.state == "not stored":
        text += f"; {layout.remedy} stores it"
    if layout.cost_bytes is not None:
        text += f" (about {shown_bytes(layout.cost_bytes)})"
    return text if layout.problem is None else f"{text}: {layout.problem}"


def layout_costs(
    daf: DafReader, axes: tuple[str, str], name: str, planned: PlannedLayouts
) -> tuple[LayoutCost, ...]:
    """Return both layouts of a matrix; of one of an axis with itself, the one that there is."""
    faults = list(planned.faults)
    costs = []
    for axis, rows_are_major in zip(axes, (True, False), strict=True):
        layout = next(
            (each for each in planned.whole if each.rows_are_major == rows_are_major), None
        )
        if layout is not None:
            state: LayoutState = "chosen" if layout is planned.whole[0] else "costs more"
            costs.append(LayoutCost(axis, state, layout.plan.cost_bytes))
        elif faults:
            costs.append(LayoutCost(axis, "damaged", None, str(faults.pop())))
        elif axes[0] != axes[1]:
            remedy = other_layout_command(daf, name) or "relayout_matrix()"
            costs.append(LayoutCost(axis, "not stored", None, remedy=remedy))
    return tuple(costs)


def after_damage(costs: Iterable[LayoutCost]) -> tuple[LayoutCost, ...]:
    """Return the layouts of a matrix of which the chosen one turned out to be damaged."""
    states: dict[LayoutState, LayoutState] = {"chosen": "damaged", "costs more": "chosen"}
    return tuple(replace(cost, state=states.get(cost.state, cost.state)) for cost in costs)


@dataclass(frozen=True, slots=True)
class Figures:
    """What the memory of each form follows from."""

    shape: tuple[int, int]
    dtype: np.dtype[Any]
    is_sparse: bool
    elements: ElementCount

    @property
    def item_bytes(self) -> int:
        """Of a value; of a string about."""
        return _STRING_BYTES if self.dtype == object else self.dtype.itemsize

    @property
    def index_bytes(self) -> int:
        """Of an index of CSR."""
        return 4 if max(*self.shape, self.elements.count) <= _LARGEST_INT32 else 8

    @property
    def element_bytes(self) -> int:
        """Of an element of CSR."""
        return self.item_bytes + self.index_bytes

    @property
    def csr_bytes(self) -> int:
        """Of the values as CSR."""
        return self.elements.count * self.element_bytes + (self.shape[0] + 1) * self.index_bytes

    @property
    def dense_bytes(self) -> int:
        """Of a dense array."""
        return self.shape[0] * self.shape[1] * self.item_bytes

    @property
    def result_bytes(self) -> int:
        """Of what `MatrixSlice.values` returns."""
        return self.csr_bytes if self.is_sparse else self.dense_bytes

    def memory_bytes(self) -> dict[str, int]:
        """Of each form but AnnData."""
        count, item_bytes = self.elements.count, self.item_bytes
        rows, columns = self.shape
        is_bool = self.dtype == np.bool_
        wide = columns * -(-rows // 8) if is_bool else self.dense_bytes
        long = -(-count // 8) if is_bool else count * item_bytes
        return {
            "scipy": self.csr_bytes,
            "numpy": self.dense_bytes,
            "pandas": count * (item_bytes + 4) if self.is_sparse else self.dense_bytes,
            "polars": wide,
            "arrow": count * 8 + long,
        }


def explain(
    part: _anndata.Slice, figures: Figures, layout: Layout, layouts: tuple[LayoutCost, ...]
) -> SliceExplanation:
    """Return what a slice costs in a layout."""
    read = estimate_read(layout.plan)
    memory_bytes = figures.memory_bytes()
    memory_bytes["anndata"] = figures.result_bytes + _beside_x_bytes(part)
    return SliceExplanation(
        location=part.daf.location,
        matrix=part.name,
        rows_axis=part.rows_axis,
        columns_axis=part.columns_axis,
        rows=figures.shape[0],
        columns=figures.shape[1],
        dtype=str(figures.dtype),
        is_sparse=figures.is_sparse,
        stored_elements=figures.elements.count,
        is_exact=figures.elements.is_exact,
        layouts=layouts,
        read_bytes=read.size_bytes,
        read_is_exact=read.is_exact,
        decoded_bytes=read.decoded_bytes,
        used_bytes=read.used_bytes,
        requests=read.requests if read.is_remote else None,
        result_bytes=figures.result_bytes,
        memory_bytes=memory_bytes,
    )


def _beside_x_bytes(part: _anndata.Slice) -> int:
    """Return about how much memory an AnnData takes beside ``X``; no values are read."""
    total = 0
    for axis, selection in zip((part.rows_axis, part.columns_axis), part.selections, strict=True):
        total += axis_bytes(part.daf, axis, selection.size)
    try:
        companions = _anndata.find_companions(part)
    except errors.FormatError:  # one that cannot be read does not come along
        return total
    selected = _anndata.select_companions(part.daf.location, companions, {})
    return total + sum(companion.estimated_bytes for companion in selected.chosen)


def axis_bytes(daf: DafReader, axis: str, count: int) -> int:
    """Return about how many bytes the vectors of an axis have for some of its entries."""
    return count * _entry_bytes(daf, axis)


def _entry_bytes(daf: DafReader, axis: str) -> int:
    total = _STRING_BYTES
    for name in daf.vectors_set(axis):
        try:
            storage_type = daf.vector_info(axis, name).storage_type
        except errors.FormatError:  # it is left out
            continue
        total += _STRING_BYTES if storage_type.is_string else storage_type.dtype.itemsize
    return total


class Explained(Protocol):
    """What a budget is compared to, and what is said where it is too small."""

    @property
    def location(self) -> str:
        """The data set."""
        ...

    @property
    def matrix(self) -> str:
        """The name of the matrix."""
        ...

    @property
    def rows_axis(self) -> str:
        """The axis of the rows."""
        ...

    @property
    def columns_axis(self) -> str:
        """The axis of the columns."""
        ...

    @property
    def rows(self) -> int:
        """Number of rows."""
        ...

    @property
    def columns(self) -> int:
        """Number of columns."""
        ...

    @property
    def stored_elements(self) -> int:
        """How many elements the slice has."""
        ...

    @property
    def is_exact(self) -> bool:
        """Whether there are so many, or at most."""
        ...

    @property
    def read_bytes(self) -> int:
        """How many bytes are read."""
        ...

    @property
    def requests(self) -> int | None:
        """In about how many requests."""
        ...

    @property
    def result_bytes(self) -> int:
        """How much memory the result takes."""
        ...

    @property
    def memory_bytes(self) -> Mapping[str, int]:
        """How much memory each form takes."""
        ...


def check_budget(explanation: Explained, max_bytes: int) -> None:
    """Refuse a slice whose result may take more memory than a budget.

    Raises
    ------
    BudgetError
        It may; the message has the figures.
    """
    if explanation.result_bytes <= max_bytes:
        return
    least = "" if explanation.is_exact else "up to "
    requests = (
        "" if explanation.requests is None else f" in about {explanation.requests:,} requests"
    )
    forms = ", ".join(
        f"{name} {shown_bytes(size)}" for name, size in explanation.memory_bytes.items()
    )
    raise errors.over_budget(
        f"{explanation.location}: matrix {explanation.matrix!r}, {explanation.rows:,} "
        f"{explanation.rows_axis} x {explanation.columns:,} {explanation.columns_axis}, takes "
        f"{least}{explanation.result_bytes:,} bytes of memory, more than the budget of "
        f"{max_bytes:,} ({least}{explanation.stored_elements:,} elements; "
        f"{shown_bytes(explanation.read_bytes)} to read{requests}; {forms}); nothing was read"
    )


def figures_of(
    shape: tuple[int, int], dtype: np.dtype[Any], layouts: Iterable[Layout], result: Any
) -> Figures:
    """Return the figures of a slice; exact if its result is there."""
    layouts = tuple(layouts)
    is_sparse = layouts[0].plan.stored.info.is_sparse
    if result is not None and is_sparse:
        return Figures(shape, dtype, is_sparse, ElementCount(int(result.nnz), is_exact=True))
    return Figures(shape, dtype, is_sparse, count_elements(layouts))

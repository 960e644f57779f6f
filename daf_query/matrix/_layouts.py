"""The stored layouts of a matrix: choose the cheaper one, and the other if that one is damaged.

A matrix may be stored by its columns, by its rows, or both.  A *layout* is one of these with the
plan of a slice in it.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, TypeVar

from daf_query.matrix._costs import gathering_ns, looking_at_all_ns
from daf_query.matrix._dense_gather import gather_dense
from daf_query.matrix._gather import gather_sparse
from daf_query.matrix._slice_plan import Selection, SlicePlan
from daf_storage import DafReader, errors
from daf_storage.data import StoredMatrix, is_in_place
from daf_storage.stores import is_remote
from daf_storage.upkeep import can_have_sidecar

_T = TypeVar("_T")


class DamagedLayoutWarning(errors.DafWarning):
    """One of the two stored layouts of a matrix is damaged, so the other one is read."""


@dataclass(frozen=True, slots=True)
class Layout:
    """A slice, planned in one stored layout."""

    plan: SlicePlan
    rows_are_major: bool
    """Whether the stored columns are the rows of the slice."""

    @property
    def cost_ns(self) -> float:
        """About how many nanoseconds of a processor gathering it takes."""
        return gathering_ns(self.plan, is_turned=not self.rows_are_major)

    @property
    def rows(self) -> Selection:
        """The selected rows of the matrix, whichever of the axes is stored first."""
        return self.plan.major if self.rows_are_major else self.plan.minor

    @property
    def columns(self) -> Selection:
        """The selected columns of the matrix, whichever of the axes is stored first."""
        return self.plan.minor if self.rows_are_major else self.plan.major

    def at(self, rows: Selection, columns: Selection) -> Layout:
        """Return the layout with a plan of other entries of the same matrix; reads nothing."""
        majors, minors = (rows, columns) if self.rows_are_major else (columns, rows)
        return Layout(self.plan.at(majors, minors), self.rows_are_major)

    def gather(self, progress: Callable[[int], None] = lambda _: None) -> Any:
        """Return the values: ``csr_array`` if sparse, else ``ndarray``.

        Raises
        ------
        FormatError
            What is stored is damaged.
        """
        if not self.plan.stored.info.is_sparse:
            dense = gather_dense(self.plan)
            return dense if self.rows_are_major else dense.T
        sparse = gather_sparse(self.plan, progress=progress)
        return sparse if self.rows_are_major else sparse.T.tocsr()


class PlannedLayouts:
    """The layouts in which a matrix is stored, with the plan of a slice in each.

    What turns out to be damaged is not tried again, in these plans and in those made of them.

    Parameters
    ----------
    found
        The one that takes less time first.
    faults
        What is wrong with others; a layout that is not stored is not among them.
    damaged
        Those that turned out to be damaged, by whether rows are their majors.
    """

    def __init__(
        self,
        found: Iterable[Layout],
        faults: Iterable[errors.FormatError] = (),
        damaged: set[bool] | None = None,
    ) -> None:
        self.found = tuple(found)
        self.faults = tuple(faults)
        self.damaged: set[bool] = set() if damaged is None else damaged

    def __iter__(self) -> Iterator[Layout]:
        """Yield those that are worth a try, the one that takes less time first."""
        usable = [each for each in self.found if each.rows_are_major not in self.damaged]
        return iter(usable or self.found)

    @property
    def first(self) -> Layout:
        """The layout that is read."""
        return next(iter(self))

    def at(self, rows: Selection, columns: Selection) -> PlannedLayouts:
        """Return plans of other entries of the same matrix."""
        faults = list(self.faults)
        found = _by_cost([layout.at(rows, columns) for layout in self.found], faults)
        return PlannedLayouts(found, faults, self.damaged)

    def gather(self, progress: Callable[[int], None] = lambda _: None) -> Any:
        """Return the values: ``csr_array`` if sparse, else ``ndarray``; see `read`."""
        return self.read(lambda layout: layout.gather(progress))

    def read(self, read: Callable[[Layout], _T]) -> _T:
        """Return what is read from the first layout that is whole.

        Warns
        -----
        DamagedLayoutWarning
            The first is damaged, and the second was read.

        Raises
        ------
        FormatError
            No layout is whole; it is the error of the first.
        """
        fault: errors.FormatError | None = None
        for layout in self:
            try:
                values = read(layout)
            except errors.FormatError as error:
                fault = fault or error
                continue
            if fault is not None:
                self.damaged.add(not layout.rows_are_major)
                _warn(fault, layout)
            return values
        raise fault or TypeError("a matrix has a layout at least")


def find_layouts(
    daf: DafReader, axes: tuple[str, str], name: str, rows: Selection, columns: Selection
) -> PlannedLayouts:
    """Plan a slice in each layout in which a matrix is stored; reads column pointers at most.

    Warns
    -----
    DamagedLayoutWarning
        One of two is damaged, and left out.

    Raises
    ------
    MatrixNotFoundError
        There is no such matrix.
    FormatError
        No layout is whole.
    """
    stored, faults = open_layouts(daf, axes, name)
    layouts = []
    for matrix in stored:
        rows_are_major = matrix.info.is_row_major or matrix.info.rows_axis != axes[0]
        majors, minors = (rows, columns) if rows_are_major else (columns, rows)
        layouts.append(Layout(SlicePlan(matrix, majors, minors), rows_are_major))
    found = _by_cost(layouts, faults)
    if not found:
        raise faults[0]
    for fault in faults:
        _warn(fault, found[0])
    return PlannedLayouts(found, faults)


def _by_cost(layouts: list[Layout], faults: list[errors.FormatError]) -> list[Layout]:
    """Return layouts, the one that takes less time first; what is wrong with others is added.

    Of a slice with all entries of one axis and few of the other, one of two layouts is looked at:
    of the other one, which may be on a server, not even the column pointers are read.
    """
    costs: list[tuple[float, Layout]] = []
    for layout in sorted(layouts, key=lambda each: not each.plan.minor.is_all):
        try:
            cost = layout.cost_ns
        except errors.FormatError as error:
            faults.append(error)
            continue
        costs.append((cost, layout))
        count, plan = layout.plan.stored.info.nnz, layout.plan
        has_few_majors = plan.minor.is_all and not plan.major.is_all and count is not None
        if has_few_majors and cost <= looking_at_all_ns(count or 0):
            return [layout, *(each for each in layouts if each is not layout)]
    return [layout for _, layout in sorted(costs, key=lambda pair: pair[0])]


def open_layouts(
    daf: DafReader, axes: tuple[str, str], name: str
) -> tuple[list[StoredMatrix], list[errors.FormatError]]:
    """Return the layouts whose metadata is whole, and what is wrong with the others."""
    try:
        return daf.open_orientations(*axes, name), []
    except errors.FormatError as error:
        faults = [error]
    stored = []
    for pair in dict.fromkeys([axes, axes[::-1]]):
        try:
            stored.append(daf.open_matrix(*pair, name))
        except (errors.FormatError, errors.MatrixNotFoundError):
            continue
    return stored, faults


def other_layout_command(daf: DafReader, name: str) -> str:
    """Return the command that stores the other layout of a matrix beside a file read in place.

    Empty for a data set of Daf, to which ``relayout_matrix`` can add it.
    """
    if not is_in_place(daf):
        return ""
    if is_remote(daf.location):
        return "'daf index' of a copy on this machine"
    if not can_have_sidecar(daf):
        place = f"open_daf({daf.location!r}, obs_is=..., sidecar='other.daf.zarr')"
        return f"accelerate({name!r}) of a session over {place}"
    return f"'daf index {daf.location} --matrix {name}'"


def _warn(fault: errors.FormatError, other: Layout) -> None:
    info = other.plan.stored.info
    warnings.warn(
        f"{fault}; it is read from the other layout, {info.rows_axis} x "
        f"{info.columns_axis}. To write the damaged one again, open the data set with 'r+' and "
        f"call relayout_matrix({info.rows_axis!r}, {info.columns_axis!r}, {info.name!r}, "
        "if_exists='replace'); `daf verify` lists all damage",
        DamagedLayoutWarning,
        stacklevel=2,
    )

"""The stored layouts of a matrix: choose the cheaper one, and the other if that one is damaged.

A matrix may be stored by its columns, by its rows, or both.  A *layout* is one of these with the
plan of a slice in it.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np

from daf_query.matrix._dense_gather import gather_dense
from daf_query.matrix._gather import gather_sparse, scatter_major
from daf_query.matrix._selection import Selection
from daf_query.matrix._slice_plan import SlicePlan, plan_slice, replan
from daf_storage import DafReader, errors
from daf_storage.spi import StoredMatrix, can_have_sidecar, is_in_place, is_remote

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
        gathering = self.plan.gathering
        return gathering.nanoseconds if self.rows_are_major else gathering.turned()

    @property
    def columns(self) -> Selection:
        """The selected columns of the matrix, whichever of the axes is stored first."""
        return self.plan.minor if self.rows_are_major else self.plan.major

    @property
    def rows(self) -> Selection:
        """The selected rows of the matrix, whichever of the axes is stored first."""
        return self.plan.major if self.rows_are_major else self.plan.minor

    def of_rows(self, start: int, stop: int) -> Layout:
        """Return the layout with a plan of some rows of the slice; reads nothing."""
        return self.at(self.rows.part(start, stop), self.columns)

    def at(self, rows: Selection, columns: Selection) -> Layout:
        """Return the layout with a plan of other entries of the same matrix; reads nothing."""
        majors, minors = (rows, columns) if self.rows_are_major else (columns, rows)
        return Layout(replan(self.plan, majors, minors), self.rows_are_major)

    def gather(self, progress: Callable[[int], None]) -> Any:
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

    def gather_dense(self) -> Any:
        """Return the values of a sparse matrix as a new ``ndarray``; errors are those of `gather`.

        A single one of the stored columns is put into its place straight from the file.
        """
        line = scatter_major(self.plan)
        if line is not None:
            return line[np.newaxis] if self.rows_are_major else line[:, np.newaxis]
        sparse = gather_sparse(self.plan)
        if self.rows_are_major:
            return sparse.toarray()
        # A single column lies in the same order either way, and is not turned before.
        return sparse.toarray().T if 1 in sparse.shape else sparse.T.tocsr().toarray()


@dataclass(frozen=True, slots=True)
class PlannedLayouts:
    """The layouts in which a matrix is stored, with the plan of a slice in each."""

    whole: tuple[Layout, ...]
    """Those that can be read as far as is known, the one that takes less time first."""
    faults: tuple[errors.FormatError, ...]
    """What is wrong with the others; a layout that is not stored is not among them."""


def plan_layouts(
    daf: DafReader, axes: tuple[str, str], name: str, rows: Selection, columns: Selection
) -> list[Layout]:
    """Return the layouts in which a matrix is stored; see `find_layouts`."""
    return list(find_layouts(daf, axes, name, rows, columns).whole)


def find_layouts(
    daf: DafReader,
    axes: tuple[str, str],
    name: str,
    rows: Selection,
    columns: Selection,
    *,
    lengths: Mapping[str, int] | None = None,
) -> PlannedLayouts:
    """Plan a slice in each layout in which a matrix is stored.

    Parameters
    ----------
    lengths
        How many entries the axes have, if they have just been looked at.

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
    stored, faults = open_layouts(daf, axes, name, lengths)
    layouts = []
    for matrix in stored:
        rows_are_major = matrix.info.is_row_major or matrix.info.rows_axis != axes[0]
        majors, minors = (rows, columns) if rows_are_major else (columns, rows)
        try:
            layouts.append(Layout(plan_slice(matrix, majors, minors), rows_are_major))
        except errors.FormatError as error:
            faults.append(error)
    if not layouts:
        raise faults[0]
    for fault in faults:
        _warn(fault, layouts[0])
    layouts.sort(key=lambda layout: layout.cost_ns)
    return PlannedLayouts(tuple(layouts), tuple(faults))


def open_layouts(
    daf: DafReader, axes: tuple[str, str], name: str, lengths: Mapping[str, int] | None = None
) -> tuple[list[StoredMatrix], list[errors.FormatError]]:
    """Return the layouts whose metadata is whole, and what is wrong with the others."""
    faults = []
    try:
        return daf.open_orientations(*axes, name, lengths=lengths), []
    except errors.FormatError as error:
        if lengths is not None:  # perhaps an axis was replaced since
            return open_layouts(daf, axes, name)
        faults.append(error)
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


def gather_first(
    layouts: Sequence[Layout], progress: Callable[[int], None] = lambda _: None
) -> tuple[Any, Layout]:
    """Return the values from the first layout that is whole, and that layout; see `read_first`."""
    return read_first(layouts, lambda layout: layout.gather(progress))


def read_first(layouts: Sequence[Layout], read: Callable[[Layout], _T]) -> tuple[_T, Layout]:
    """Return what is read from the first layout that is whole, and that layout.

    Warns
    -----
    DamagedLayoutWarning
        The first is damaged, and the second was read.

    Raises
    ------
    FormatError
        No layout is whole; it is the error of the first.
    """
    try:
        return read(layouts[0]), layouts[0]
    except errors.FormatError as error:
        for other in layouts[1:]:
            try:
                values = read(other)
            except errors.FormatError:
                continue
            _warn(error, other)
            return values, other
        raise


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

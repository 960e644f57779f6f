"""The stored layouts of a matrix: choose the cheaper one, and the other if that one is damaged.

A matrix may be stored by its columns, by its rows, or both.  A *layout* is one of these with the
plan of a slice in it.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeAlias, TypeVar

import numpy as np

from daf_query.matrix._costs import looking_at_all_ns
from daf_query.matrix._dense_gather import gather_dense
from daf_query.matrix._gather import gather_sparse, scatter_major
from daf_query.matrix._selection import Selection
from daf_query.matrix._slice_plan import SlicePlan, plan_slice, replan
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


_Found: TypeAlias = tuple[list[Layout], list[errors.FormatError]]
"""Layouts that can be read, and what is wrong with others."""


class PlannedLayouts:
    """The layouts in which a matrix is stored, with the plan of a slice in each.

    Parameters
    ----------
    whole
        Those that can be read as far as is known, the one that takes less time first.
    faults
        What is wrong with the others; a layout that is not stored is not among them.
    others
        Looks for layouts that surely take longer, when they are first asked for.
    """

    def __init__(
        self,
        whole: Sequence[Layout],
        faults: Sequence[errors.FormatError] = (),
        *,
        others: Callable[[], _Found] | None = None,
    ) -> None:
        self.first = whole[0]
        """The layout that takes the least time."""
        self._whole = tuple(whole)
        self._faults = tuple(faults)
        self._others = others
        self._problem: errors.DafError | None = None

    def __iter__(self) -> Iterator[Layout]:
        """Yield the layouts; others are looked for only after the first."""
        yield self.first
        yield from self.whole[1:]

    def with_layouts(self, layouts: Sequence[Layout]) -> PlannedLayouts:
        """Return other plans in these layouts, or in some of them."""
        planned = PlannedLayouts(layouts, self._faults)
        planned._problem = self._problem
        return planned

    @property
    def whole(self) -> tuple[Layout, ...]:
        """Those that can be read as far as is known, the one that takes less time first."""
        others = self._others
        if others is not None:
            try:
                layouts, faults = others()
            except errors.DafError as error:
                self._problem = error
            else:
                self._whole, self._faults = (self.first, *layouts), tuple(faults)
            self._others = None
        return self._whole

    @property
    def faults(self) -> tuple[errors.FormatError, ...]:
        """What is wrong with those that cannot be read.

        Raises
        ------
        DafError
            It is not known by now: the matrix was replaced, or the data set was closed.
        """
        if self.whole and self._problem is not None:
            raise self._problem
        return self._faults


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

    Of a slice with all entries of one axis and few of the other, one layout is looked at: the other
    would have to look at every stored element.

    Parameters
    ----------
    lengths
        How many entries the axes have, if they have just been looked at.

    Warns
    -----
    DamagedLayoutWarning
        One of two is damaged, and left out; of a layout that is not looked at nothing is known.

    Raises
    ------
    MatrixNotFoundError
        There is no such matrix.
    FormatError
        No layout is whole.
    """
    first = _of_whole_majors(daf, axes, name, (rows, columns), lengths)
    if first is not None and _is_surely_first(first):
        return PlannedLayouts([first], others=partial(_others, daf, axes, name, first))
    layouts, faults = _all_layouts(daf, axes, name, (rows, columns), lengths, first)
    return PlannedLayouts(layouts, faults)


def _of_whole_majors(
    daf: DafReader,
    axes: tuple[str, str],
    name: str,
    selections: tuple[Selection, Selection],
    lengths: Mapping[str, int] | None,
) -> Layout | None:
    """Return the layout in which a slice has all minors of some majors, if it is whole."""
    rows, columns = selections
    if rows.is_all == columns.is_all or axes[0] == axes[1]:
        return None
    pair = axes if rows.is_all else axes[::-1]
    try:
        stored = daf.find_matrix(*pair, name, lengths=lengths)
        if stored is None:
            return None
        majors, minors = (columns, rows) if rows.is_all else (rows, columns)
        return Layout(plan_slice(stored, majors, minors), rows_are_major=columns.is_all)
    except errors.FormatError:  # found again, and said, when the other is looked for
        return None


def _is_surely_first(layout: Layout) -> bool:
    """Return whether no other layout takes less time, since it looks at every stored element."""
    count = layout.plan.stored.info.nnz
    return count is not None and layout.cost_ns <= looking_at_all_ns(count)


def _others(daf: DafReader, axes: tuple[str, str], name: str, first: Layout) -> _Found:
    """Return the layouts of the same slice beside the first.

    Raises
    ------
    InvalidInputError
        The matrix was replaced since.
    """
    layouts, faults = _all_layouts(daf, axes, name, (first.rows, first.columns))
    same = [each for each in layouts if each.rows_are_major == first.rows_are_major]
    if not same or not same[0].plan.stored.is_same(first.plan.stored):
        raise errors.InvalidInputError(
            f"{daf.location}: the matrix {name!r} was replaced since this slice of it was made; "
            "make the slice again"
        )
    return [each for each in layouts if each is not same[0]], faults


def _all_layouts(
    daf: DafReader,
    axes: tuple[str, str],
    name: str,
    selections: tuple[Selection, Selection],
    lengths: Mapping[str, int] | None = None,
    first: Layout | None = None,
) -> _Found:
    """Return the layouts that are whole, the one that takes less time first, and others' faults.

    Parameters
    ----------
    first
        One that was found whole just now.
    """
    stored, faults = (
        _beside(daf, first, lengths) if first else open_layouts(daf, axes, name, lengths)
    )
    layouts = [first] if first else []
    for matrix in stored:
        rows_are_major = matrix.info.is_row_major or matrix.info.rows_axis != axes[0]
        majors, minors = selections if rows_are_major else selections[::-1]
        try:
            layouts.append(Layout(plan_slice(matrix, majors, minors), rows_are_major))
        except errors.FormatError as error:
            faults.append(error)
    if not layouts:
        raise faults[0]
    for fault in faults:
        _warn(fault, layouts[0])
    layouts.sort(key=lambda layout: layout.cost_ns)
    return layouts, faults


def _beside(
    daf: DafReader, first: Layout, lengths: Mapping[str, int] | None
) -> tuple[list[StoredMatrix], list[errors.FormatError]]:
    """Return the layout beside one, if its metadata is whole, and what is wrong with it if not."""
    info = first.plan.stored.info
    try:
        stored = daf.find_matrix(info.columns_axis, info.rows_axis, info.name, lengths=lengths)
    except errors.FormatError as error:
        return [], [error]
    return [] if stored is None else [stored], []


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
    layouts: Iterable[Layout], progress: Callable[[int], None] = lambda _: None
) -> tuple[Any, Layout]:
    """Return the values from the first layout that is whole, and that layout; see `read_first`."""
    return read_first(layouts, lambda layout: layout.gather(progress))


def read_first(layouts: Iterable[Layout], read: Callable[[Layout], _T]) -> tuple[_T, Layout]:
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
    each = iter(layouts)
    first = next(each)
    try:
        return read(first), first
    except errors.FormatError as error:
        for other in each:
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

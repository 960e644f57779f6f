"""The entries that a slice has of one data set, and the stored layouts they are read from."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from daf_query.matrix import (
    ElementCount,
    Layout,
    PlannedLayouts,
    Selection,
    SlicePlan,
    count_elements,
    find_layouts,
    gather_first,
    major_counts,
    minor_counts,
    read_first,
)
from daf_query.scan import NAME
from daf_storage import DafReader, Origin, errors
from daf_storage.base import Span
from daf_storage.data import StoredMatrix, matrix_version

Axes = tuple[str, str]
"""That of the rows, and that of the columns."""


class CurrentAxes:
    """The axes of a slice as they were; nothing of them is open.

    Parameters
    ----------
    states
        The number of entries and the identity of each, if they have just been looked at.
    """

    def __init__(
        self, daf: DafReader, axes: Axes, states: Sequence[tuple[int, Hashable]] | None = None
    ) -> None:
        self._daf = daf
        self._axes = axes
        if states is None:
            states = [daf.axis_state(axis) for axis in axes]
        self.lengths = {axis: length for axis, (length, _) in zip(axes, states, strict=True)}
        """How many entries each axis has."""
        self._identities = [identity for _, identity in states]

    def are_same(self) -> bool:
        """Return whether they are the same by now."""
        try:
            now = [self._daf.axis_state(axis)[1] for axis in self._axes]
        except errors.DafError:  # one was deleted, or is damaged
            return False
        return self._identities == now


class Part:
    """Some rows and columns of a stored matrix, planned in its layouts; no values are kept.

    What turns out to be damaged is not tried again, here and where this was cut from.
    """

    def __init__(
        self,
        daf: DafReader,
        axes: Axes,
        name: str,
        selections: tuple[Selection, Selection],
        layouts: PlannedLayouts,
        current: CurrentAxes,
        cut_from: Part | None = None,
    ) -> None:
        self.daf = daf
        self.axes = axes
        self.name = name
        """The name of the matrix."""
        self.selections = selections
        """The selected rows, and the selected columns."""
        self.found = layouts
        """The layouts that are stored, the one that takes the least time first."""
        self.planned = layouts
        """Those that are worth a try; once the values are read, the one that they are from."""
        self.is_damaged = False
        """Whether the first that was found turned out to be damaged."""
        self._current = current
        self._cut_from = cut_from

    @classmethod
    def of(
        cls,
        daf: DafReader,
        axes: Axes,
        name: str,
        selections: tuple[Selection, Selection],
        current: CurrentAxes | None = None,
    ) -> Part:
        """Plan the part in the layout that takes the least time; reads column pointers at most.

        Parameters
        ----------
        current
            The axes as they were when their entries were chosen; by default they are looked at now.
        """
        current = current or CurrentAxes(daf, axes)
        layouts = find_layouts(daf, axes, name, *selections, lengths=current.lengths)
        return cls(daf, axes, name, selections, layouts, current)

    def __reduce__(self) -> Any:
        """Pickle what was chosen; the other process opens the data set again."""
        origin = self.daf.require_origin()
        return _part_again, (origin, self.axes, self.name, self.selections)

    @property
    def location(self) -> str:
        """The data set, for messages."""
        return self.daf.location

    def data_version(self, columns: Sequence[str]) -> str | None:  # noqa: ARG002 - of a table
        """Return what differs once the matrix or one of its axes was changed; see `Source`."""
        return matrix_version(self.daf, *self.axes, self.name)

    @property
    def plan(self) -> SlicePlan:
        """The stored layout that is read, and about how many bytes of it."""
        return self.planned.first.plan

    @property
    def shape(self) -> tuple[int, int]:
        """Numbers of rows and of columns."""
        return self.selections[0].size, self.selections[1].size

    @property
    def is_sparse(self) -> bool:
        """Whether the matrix is stored sparse."""
        return self.plan.stored.info.is_sparse

    @property
    def dtype(self) -> np.dtype[Any]:
        """The numpy dtype of the values; ``object`` for strings."""
        storage_type = self.plan.stored.info.storage_type
        if storage_type.is_string:
            return np.dtype(object)
        return storage_type.dtype.newbyteorder("=")

    def at(self, rows: Selection, columns: Selection) -> Part:
        """Return other entries of the same matrix; nothing is read."""
        layouts = [layout.at(rows, columns) for layout in self.planned.whole]
        layouts.sort(key=lambda layout: layout.cost_ns)
        planned, both = self.planned.with_layouts(layouts), (rows, columns)
        return Part(self.daf, self.axes, self.name, both, planned, self._current, self)

    def of_rows(self, span: Span) -> Part:
        """Return some of the rows, by their offsets; nothing is read."""
        rows, columns = self.selections
        return self.at(rows.part(span.start, span.stop), columns)

    def take_rows(self, offsets: npt.NDArray[np.int64]) -> Part:
        """Return some of the rows, by their offsets; nothing is read."""
        rows, columns = self.selections
        return self.at(rows.take(offsets), columns)

    def gather(self, progress: Callable[[int], None] = lambda _: None) -> Any:
        """Return the values as they are read: ``csr_array`` if sparse, else ``ndarray``."""
        values, layout = gather_first(self.planned, progress)
        if layout is not self.planned.first:
            self._leave_out(layout)
        self.planned = PlannedLayouts([layout])
        return values

    def gather_dense(self) -> Any:
        """Return the values of a sparse matrix as a new dense array."""
        return read_first(self.planned, Layout.gather_dense)[0]

    def _leave_out(self, used: Layout) -> None:
        """Leave out the layout that is damaged, here and where this was cut from."""
        part: Part | None = self
        while part is not None:
            whole = [
                each for each in part.planned.whole if each.rows_are_major == used.rows_are_major
            ]
            part.planned, part.is_damaged = part.planned.with_layouts(whole), True
            part = part._cut_from  # noqa: SLF001 - of this class

    def element_count(self) -> ElementCount:
        """Return how many elements it has, at most; nothing is read."""
        return count_elements(self.planned)

    def row_counts(self, *, are_exact: bool) -> npt.NDArray[Any]:
        """Return how many elements each row has, at most.

        Where the matrix is stored by columns alone, exact ones are counted, which reads the row
        numbers of the selected columns once; else all rows are taken to have equally many.
        """
        n_rows, n_columns = self.shape
        if not self.is_sparse:
            return np.full(n_rows, n_columns)
        for layout in self.planned:
            if layout.rows_are_major:
                return major_counts(layout.plan)
        if are_exact:
            return minor_counts(self.plan)
        return np.full(n_rows, self.element_count().count / max(n_rows, 1))

    def names(self, number: int) -> pa.Array:
        """Return the entries of the rows (0) or of the columns (1).

        Raises
        ------
        InvalidInputError
            An axis was replaced or reordered.
        """
        with self.unchanged_axes():
            names = self.daf.get_pa_vector(self.axes[number], NAME)
            return names.take(pa.array(self.selections[number].positions))

    @contextmanager
    def unchanged_axes(self) -> Iterator[None]:
        """Refuse what is read meanwhile by positions, if they may mean other entries by now.

        Raises
        ------
        InvalidInputError
            An axis was replaced or reordered since the slice was made.
        """
        self._check_axes()
        yield
        self._check_axes()

    def check_matrix(self) -> None:
        """Refuse a matrix that was replaced or deleted, if others are to open it again.

        Raises
        ------
        InvalidInputError
            It was.
        """
        if not self._is_there(self.plan.stored):
            raise errors.InvalidInputError(
                f"{self.daf.location}: the matrix {self.name!r} was replaced since this "
                "slice of it was made; make the slice again"
            )

    def _check_axes(self) -> None:
        # Another identity need not mean another axis: an HDF5 file has one for all that is in it,
        # and what was written a moment ago has none that lasts.  The matrix is replaced whenever
        # one of its axes is.
        if self._current.are_same() or self._is_there(self.plan.stored):
            return
        raise errors.InvalidInputError(
            f"{self.daf.location}: one of the axes {self.axes[0]!r} and {self.axes[1]!r} was "
            f"replaced or reordered since this slice of {self.name!r} was made; make the "
            "slice again"
        )

    def _is_there(self, stored: StoredMatrix) -> bool:
        """Return whether the matrix is still the stored one."""
        info = stored.info
        try:
            now = self.daf.open_matrix(info.rows_axis, info.columns_axis, info.name)
        except errors.NotFoundError:
            return False
        return stored.is_same(now)


def _part_again(
    origin: Origin, axes: Axes, name: str, selections: tuple[Selection, Selection]
) -> Part:
    return Part.of(origin.open(), axes, name, selections)

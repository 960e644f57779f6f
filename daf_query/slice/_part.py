"""The entries that a slice has of one data set, and the stored layouts they are read from."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from daf_query.matrix import (
    ElementCount,
    PlannedLayouts,
    Selection,
    SlicePlan,
    count_elements,
    find_layouts,
    major_counts,
    minor_counts,
)
from daf_query.scan import NAME
from daf_storage import DafReader, Origin, errors
from daf_storage.base import Span
from daf_storage.data import matrix_version

Axes: TypeAlias = tuple[str, str]
"""That of the rows, and that of the columns."""

Selections: TypeAlias = tuple[Selection, Selection]
"""The selected rows, and the selected columns."""


@dataclass(frozen=True, slots=True, eq=False)
class Part:
    """Some rows and columns of a stored matrix, planned in its layouts; no values are kept."""

    daf: DafReader
    axes: Axes
    name: str
    """The name of the matrix."""
    selections: Selections
    layouts: PlannedLayouts

    @classmethod
    def of(cls, daf: DafReader, axes: Axes, name: str, selections: Selections) -> Part:
        """Plan the part in the layout that takes the least time; reads column pointers at most."""
        return cls(daf, axes, name, selections, find_layouts(daf, axes, name, *selections))

    def __reduce__(self) -> Any:
        """Pickle what was chosen; the other process opens the data set again."""
        return _part_again, (self.daf.require_origin(), self.axes, self.name, self.selections)

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
        return self.layouts.first.plan

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
        """Return other entries of the same matrix; no values are read."""
        layouts = self.layouts.at(rows, columns)
        return Part(self.daf, self.axes, self.name, (rows, columns), layouts)

    def of_rows(self, span: Span) -> Part:
        """Return some of the rows, by their offsets; no values are read."""
        rows, columns = self.selections
        return self.at(rows.part(span.start, span.stop), columns)

    def take_rows(self, offsets: npt.NDArray[np.int64]) -> Part:
        """Return some of the rows, by their offsets; no values are read."""
        return self.at(self.selections[0].take(offsets), self.selections[1])

    def element_count(self) -> ElementCount:
        """Return how many elements it has, at most; nothing is read."""
        return count_elements(self.layouts)

    def row_counts(self, *, are_exact: bool) -> npt.NDArray[Any]:
        """Return how many elements each row has, at most.

        Where the matrix is stored by columns alone, exact ones are counted, which reads the row
        numbers of the selected columns once; else all rows are taken to have equally many.
        """
        n_rows, n_columns = self.shape
        if not self.is_sparse:
            return np.full(n_rows, n_columns)
        for layout in self.layouts:
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
            The matrix or an axis was replaced or reordered since the slice was made.
        """
        self.check_current()
        yield
        self.check_current()

    def check_current(self) -> None:
        """Refuse a matrix that was replaced, as it is whenever one of its axes is.

        Raises
        ------
        InvalidInputError
            It was.
        """
        stored = self.plan.stored
        info = stored.info
        try:
            is_same = stored.is_same(
                self.daf.open_matrix(info.rows_axis, info.columns_axis, info.name)
            )
        except errors.NotFoundError:
            is_same = False
        if not is_same:
            raise errors.InvalidInputError(
                f"{self.daf.location}: the matrix {self.name!r} or one of its axes "
                f"{self.axes[0]!r} and {self.axes[1]!r} was replaced or reordered since this slice "
                "of it was made; make the slice again"
            )


def _part_again(origin: Origin, axes: Axes, name: str, selections: Selections) -> Part:
    return Part.of(origin.open(), axes, name, selections)

"""Write one matrix of the result, piece by piece, and then its transpose."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from daf_storage.base import StorageType
from daf_storage.concat._members import Member, ResultAxis, Run, is_worth_sparse, promoted
from daf_storage.concat._options import Options
from daf_storage.data import (
    Alignment,
    Convention,
    Part,
    StoredMatrix,
    convention_attributes,
    size_bytes,
    write_assembled,
)


@dataclass(frozen=True)
class MatrixPlan:
    """A matrix of the result: whose matrices it consists of, and how it is stored."""

    rows: ResultAxis
    columns: ResultAxis
    name: str
    stored: tuple[StoredMatrix | None, ...]
    """That of each member, None of one that has none; in either orientation."""
    fill: Any
    """What stands where a member has no such entry of the rows axis, or no such matrix."""

    @property
    def is_square(self) -> bool:
        """Whether it is a matrix of an axis with itself."""
        return self.rows.name == self.columns.name

    @property
    def is_row_major(self) -> bool:
        """Whether what is stored as columns are its rows."""
        first = next(stored for stored in self.stored if stored is not None)
        return self.is_square and first.info.is_row_major

    @property
    def is_string(self) -> bool:
        """Whether its elements are strings."""
        return any(s is not None and s.info.storage_type.is_string for s in self.stored)

    def is_transposed(self, stored: StoredMatrix) -> bool:
        """Return whether what a member stores as columns are not those of the result."""
        if self.is_square:
            return stored.info.is_row_major != self.is_row_major
        return stored.info.rows_axis != self.rows.name

    def n_columns(self, number: int) -> int:
        """Return how many columns a member contributes."""
        is_part = self.columns.is_concatenated
        return self.columns.member_length(number) if is_part else self.columns.length

    def lacks(self, number: int) -> bool:
        """Return whether the fill value occurs in the columns of a member."""
        if self.rows.is_concatenated or not self.n_columns(number):
            return False
        has_none = self.stored[number] is None and self.rows.length > 0
        lacks_rows = self.rows.alignments[number].missing.size > 0
        return has_none or lacks_rows or self.lacks_columns(number)

    def lacks_columns(self, number: int) -> bool:
        """Return whether a member has not all columns, which are not concatenated."""
        is_shared = not self.columns.is_concatenated
        return is_shared and self.columns.alignments[number].missing.size > 0


def plan_matrix(
    members: list[Member], rows: ResultAxis, columns: ResultAxis, name: str, options: Options
) -> MatrixPlan:
    """Open the matrices of all members; no values are read."""
    axes = (rows.name, columns.name)
    stored = tuple(
        m.daf.open_orientations(*axes, name)[0] if name in m.matrices(*axes) else None
        for m in members
    )
    plan = MatrixPlan(rows, columns, name, stored, 0)
    if rows.is_concatenated or plan.is_string:
        return plan
    fill = options.empty_of((*axes, name), (*axes[::-1], name))
    fill = options.fill_value if fill is None else fill
    if fill is None:
        is_sparse = any(matrix is not None and matrix.info.is_sparse for matrix in stored)
        fill = 0 if is_sparse else np.nan
    return MatrixPlan(rows, columns, name, stored, fill)


def write_matrix(run: Run, plan: MatrixPlan) -> None:
    """Write a matrix in both orientations, or in one."""
    axes = (plan.rows.name, plan.columns.name)
    kind = StorageType.STRING if plan.is_string else StorageType.of(_dtype(plan))
    is_sparse = not plan.is_string and is_stored_sparse(plan, kind.dtype, run.options)
    parts = [_part(plan, number, kind, run.folder) for number in range(len(plan.stored))]
    with run.daf.new_matrix(*axes, plan.name) as (path, changes):
        if plan.is_row_major:
            changes.annotate(path, convention_attributes(Convention.ROW_MAJOR))
        write_assembled(changes, path, parts, is_sparse=is_sparse, add=run.add)
    if run.options.relayout and not plan.is_square:
        item_bytes = 1 if kind.is_string else kind.dtype.itemsize + 4 * is_sparse
        run.daf.relayout_matrix(
            *axes, plan.name, progress=lambda count: run.add(count * item_bytes)
        )


def _dtype(plan: MatrixPlan) -> np.dtype[Any]:
    dtypes = [matrix.info.storage_type.dtype for matrix in plan.stored if matrix is not None]
    needs_fill = any(plan.lacks(number) for number in range(len(plan.stored)))
    return promoted(dtypes, plan.fill if needs_fill else None)


def is_stored_sparse(plan: MatrixPlan, dtype: np.dtype[Any], options: Options) -> bool:
    """Return whether sparse storage saves enough, as the reference estimates it.

    What is stored densely counts as having no zeros.
    """
    if plan.fill and any(map(plan.lacks_columns, range(len(plan.stored)))):
        return False
    count = 0
    for number, stored in enumerate(plan.stored):
        if stored is not None:
            info = stored.info
            count += info.shape[0] * info.shape[1] if info.nnz is None else info.nnz
        if plan.fill and plan.lacks(number):
            missing = plan.rows.alignments[number].missing.size
            count += plan.n_columns(number) * (plan.rows.length if stored is None else missing)
    size = plan.rows.length * plan.columns.length
    return is_worth_sparse(
        options.sparse_if_saves_storage_fraction,
        size=size,
        stored=count,
        itemsize=dtype.itemsize,
        pointers=plan.columns.length + 1,
        largest=size,
    )


def _part(plan: MatrixPlan, number: int, kind: StorageType, folder: Path | None) -> Part:
    stored = plan.stored[number]
    rows, columns = plan.rows.alignments[number], plan.columns.alignments[number]
    is_whole = plan.columns.is_concatenated or columns.places is None
    return Part(
        stored,
        Alignment.absent(plan.rows.length) if stored is None else rows,
        plan.n_columns(number),
        kind,
        plan.fill if plan.lacks(number) and not plan.is_string else 0,
        is_transposed=stored is not None and plan.is_transposed(stored),
        chosen=None if is_whole else columns.sources,
        folder=folder,
    )


def matrix_bytes(plan: MatrixPlan, options: Options) -> int:
    """Return about how many bytes will be written, in all orientations."""
    arrays = [a for stored in plan.stored if stored is not None for a in stored.arrays().values()]
    return sum(map(size_bytes, arrays)) * (2 if options.relayout and not plan.is_square else 1)

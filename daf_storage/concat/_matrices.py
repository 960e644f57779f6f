"""Write one matrix of the result, piece by piece, and then its transpose."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from daf_storage._lazy import lazy_module
from daf_storage.base import AnyArray, Progress, StorageType
from daf_storage.concat._members import Alignment, Member, ResultAxis
from daf_storage.concat._options import Options
from daf_storage.concat._pieces import Part, SparsePieces, columns_of, dense_pieces
from daf_storage.concat._promotion import promoted
from daf_storage.data import (
    DafWriter,
    EmptySparse,
    StoredMatrix,
    layout,
    new_property,
    write_text,
)
from daf_storage.trees import TreeTransaction

if TYPE_CHECKING:
    import pyarrow.compute as pc
else:
    pc = lazy_module("pyarrow.compute")

_UINT32_MOST = 2**32 - 1


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
        return self.columns.member_length(number)

    def lacks_rows(self, number: int) -> bool:
        """Return whether the fill value occurs in the columns of a member."""
        if self.rows.is_concatenated or not self.n_columns(number):
            return False
        has_none = self.stored[number] is None and self.rows.length > 0
        return has_none or self.rows.alignments[number].missing.size > 0


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


class MatrixWriter:
    """Writes matrices of the result one after the other."""

    def __init__(
        self, daf: DafWriter, options: Options, progress: Progress, *, folder: Path | None
    ) -> None:
        self._daf = daf
        self._options = options
        self._progress = progress
        self._folder = folder

    def write(self, plan: MatrixPlan) -> bool:
        """Write a matrix in both orientations, or in one; return whether it is sparse."""
        path = layout.matrix_path(plan.rows.name, plan.columns.name, plan.name)
        is_sparse = False
        with new_property(self._daf, path) as changes:
            if plan.is_string:
                _write_strings(changes, path, plan)
            else:
                dtype = self._dtype(plan)
                is_sparse = self._is_sparse(plan, dtype)
                parts = [self._part(plan, number, dtype) for number in range(len(plan.stored))]
                if plan.is_row_major:
                    changes.annotate(path, _row_major(plan))
                if is_sparse:
                    self._write_sparse(changes, path, plan, parts, dtype)
                else:
                    self._write_dense(changes, path, plan, parts, dtype)
        if self._options.relayout and not plan.is_square:
            item_bytes = self._item_bytes(plan)
            self._daf.relayout_matrix(
                plan.rows.name,
                plan.columns.name,
                plan.name,
                progress=lambda count: self._progress.add(count * item_bytes),
            )
        return is_sparse

    def _item_bytes(self, plan: MatrixPlan) -> int:
        info = self._daf.open_matrix(plan.rows.name, plan.columns.name, plan.name).info
        if info.storage_type.is_string:
            return 1
        return info.storage_type.dtype.itemsize + 4 * info.is_sparse

    def _dtype(self, plan: MatrixPlan) -> np.dtype[Any]:
        dtypes = [matrix.info.storage_type.dtype for matrix in plan.stored if matrix is not None]
        needs_fill = any(plan.lacks_rows(number) for number in range(len(plan.stored)))
        return promoted(dtypes, plan.fill if needs_fill else None)

    def _is_sparse(self, plan: MatrixPlan, dtype: np.dtype[Any]) -> bool:
        """Return whether sparse storage saves enough, as the reference estimates it.

        What is stored densely counts as having no zeros.
        """
        n_rows = plan.rows.length
        count = 0
        for number, stored in enumerate(plan.stored):
            n_columns = plan.n_columns(number)
            if stored is not None:
                info = stored.info
                count += info.shape[0] * info.shape[1] if info.nnz is None else info.nnz
            if plan.fill and plan.lacks_rows(number):
                alignment = plan.rows.alignments[number]
                count += n_columns * (n_rows if stored is None else alignment.missing.size)
        size = n_rows * plan.columns.length
        index_bytes = 4 if size <= _UINT32_MOST else 8
        dense_bytes = size * dtype.itemsize
        sparse_bytes = count * (dtype.itemsize + index_bytes)
        sparse_bytes += (plan.columns.length + 1) * index_bytes
        least = self._options.sparse_if_saves_storage_fraction
        return dense_bytes > 0 and (dense_bytes - sparse_bytes) / dense_bytes >= least

    def _part(self, plan: MatrixPlan, number: int, dtype: np.dtype[Any]) -> Part:
        stored = plan.stored[number]
        rows, n_columns = plan.rows.alignments[number], plan.n_columns(number)
        fill = plan.fill if plan.lacks_rows(number) else 0
        if stored is None:
            absent = Alignment.absent(plan.rows.length)
            return Part(None, absent, n_columns, dtype, fill)
        is_transposed = plan.is_transposed(stored)
        columns = columns_of(stored, is_transposed=is_transposed, folder=self._folder)
        return Part(columns, rows, n_columns, dtype, fill)

    def _write_sparse(
        self,
        changes: TreeTransaction,
        path: str,
        plan: MatrixPlan,
        parts: list[Part],
        dtype: np.dtype[Any],
    ) -> None:
        pieces = [SparsePieces(part) for part in parts]
        colptr = np.concatenate([[1], *(piece.counts() for piece in pieces)]).astype(np.int64)
        np.cumsum(colptr, out=colptr)
        nnz = int(colptr[-1]) - 1
        index = StorageType.UINT32 if max(nnz + 1, plan.rows.length) <= _UINT32_MOST else None
        index = StorageType.UINT64 if index is None else index
        changes.create_group(path)
        changes.write_array(f"{path}/colptr", colptr.astype(index.dtype))
        is_all_true = dtype == np.bool_ and not any(piece.has_values for piece in pieces)
        kind = StorageType.of(dtype)
        is_packed = changes.packs((nnz,), index) or changes.packs((nnz,), kind)
        if is_all_true or is_packed:
            rows = (row.astype(index.dtype) for piece in pieces for row in piece.rows())
            changes.write_blocks(f"{path}/rowval", (nnz,), index, self._counted(rows))
        if is_all_true:
            return
        if is_packed:
            values = self._counted(block for piece in pieces for block in piece.values())
            changes.write_blocks(f"{path}/nzval", (nnz,), kind, values)
            return
        out = EmptySparse(
            rowval=changes.reserve_array(f"{path}/rowval", (nnz,), index),
            nzval=changes.reserve_array(f"{path}/nzval", (nnz,), kind),
        )
        self._fill(out, pieces)

    def _fill(self, out: EmptySparse, pieces: list[SparsePieces]) -> None:
        start = 0
        for piece in pieces:
            for rows, values in piece.elements():
                stop = start + rows.size
                out.rowval[start:stop] = rows
                out.nzval[start:stop] = values
                self._progress.add((stop - start) * (out.rowval.itemsize + out.nzval.itemsize))
                start = stop

    def _write_dense(
        self,
        changes: TreeTransaction,
        path: str,
        plan: MatrixPlan,
        parts: list[Part],
        dtype: np.dtype[Any],
    ) -> None:
        shape = (plan.columns.length, plan.rows.length)
        blocks = self._counted(block for part in parts for block in dense_pieces(part))
        changes.write_blocks(path, shape, StorageType.of(dtype), blocks)

    def _counted(self, blocks: Iterator[AnyArray]) -> Iterator[AnyArray]:
        for block in blocks:
            yield block
            self._progress.add(block.nbytes)


def _row_major(plan: MatrixPlan) -> dict[str, str]:
    stored = next(matrix for matrix in plan.stored if matrix is not None)
    return stored.attributes


def _write_strings(changes: TreeTransaction, path: str, plan: MatrixPlan) -> None:
    """Write a matrix of strings, of which all elements are in memory."""
    parts = []
    for number, stored in enumerate(plan.stored):
        n_columns = plan.n_columns(number)
        if stored is None:
            empty = pa.scalar("", pa.large_string())
            parts.append(pa.repeat(empty, n_columns * plan.rows.length))
            continue
        strings = stored.dense().read_strings().cast(pa.large_string())
        places = np.arange(len(strings)).reshape(stored.dense().info.shape)
        places = places.T if plan.is_transposed(stored) else places
        sources = plan.rows.alignments[number].sources
        chosen = np.where(sources < 0, -1, places[:, sources]).reshape(-1)
        parts.append(pc.fill_null(strings.take(pa.array(chosen, mask=chosen < 0)), ""))
    shape = (plan.columns.length, plan.rows.length)
    write_text(changes, path, pa.concat_arrays(parts), shape)


def matrix_bytes(plan: MatrixPlan, options: Options) -> int:
    """Return about how many bytes will be written, in all orientations."""
    total = 0
    for number, stored in enumerate(plan.stored):
        if stored is None or stored.info.storage_type.is_string:
            continue
        info = stored.info
        itemsize = info.storage_type.dtype.itemsize
        if info.nnz is None:
            total += plan.n_columns(number) * plan.rows.length * itemsize
        else:
            total += info.nnz * (itemsize + 4)
    return total * (2 if options.relayout and not plan.is_square else 1)

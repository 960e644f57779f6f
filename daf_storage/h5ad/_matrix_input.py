"""Copy the matrices of an AnnData, as they are presented in place, block by block on all cores."""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import numpy as np

from daf_storage._lazy import lazy_module
from daf_storage.anndata import Report
from daf_storage.base import AnyArray, Progress, Span, StorageType
from daf_storage.data import (
    DafWriter,
    EmptySparse,
    StoredMatrix,
    ascend,
    block_spans,
    changed_by,
    column_blocks,
    ordered,
    refused_value,
)
from daf_storage.errors import CorruptDataError
from daf_storage.stores import put_values
from daf_storage.trees import THREADS, StoredArray, passing_over, run_all

if TYPE_CHECKING:
    import scipy.sparse as sp
else:
    sp = lazy_module("scipy.sparse")

_NARROW: Final = (np.dtype(np.uint16), np.dtype(np.uint32), np.dtype(np.uint64))

Change: TypeAlias = Callable[[Span, AnyArray], AnyArray]
"""Returns what is stored of a range of values."""


class _Refused(Exception):  # noqa: N818 - a signal, not an error
    """A value that cannot be stored exactly: its place among those that are stored, and itself."""

    def __init__(self, place: tuple[int, ...], value: Any) -> None:
        super().__init__(place, value)
        self.place = place
        self.value = value


class _StoredTwice(Exception):  # noqa: N818 - a signal, not an error
    """A sparse matrix holds an element twice."""


class MatrixCopy:
    """Copies matrices one after the other, reporting progress and what changes.

    Parameters
    ----------
    counts
        The types of matrices that are stored as whole numbers, by what messages call them.
    """

    def __init__(
        self,
        daf: DafWriter,
        report: Report,
        progress: Progress,
        *,
        relayout: bool,
        counts: Mapping[str, StorageType],
        memory_bytes: int,
    ) -> None:
        self._daf = daf
        self._packing = daf.writable_tree.packing
        self._counts = counts
        self._report = report
        self._progress = progress
        self._relayout = relayout
        self._memory_bytes = memory_bytes
        self._lock = threading.Lock()

    def write(self, stored: StoredMatrix, label: str, *, is_by_columns: bool) -> None:
        """Store a matrix as it is presented, and in the other layout if that is asked for.

        Parameters
        ----------
        is_by_columns
            Whether the stored columns are AnnData's, too; of CSC alone.
        """
        info = stored.info
        try:
            if info.is_sparse:
                self._write_canonical(stored, label)
            else:
                self._write_dense(stored, label)
        except _Refused as refused:
            names = self._names_of(stored, refused.place)
            row, column = names[::-1] if is_by_columns else names
            dtype = self._counts[label].dtype
            raise refused_value(label, refused.value, row, column, dtype) from None
        if self._relayout and info.rows_axis != info.columns_axis:
            item_bytes = size_bytes(stored) / max(info.nnz or info.shape[0] * info.shape[1], 1)
            self._daf.relayout_matrix(
                info.rows_axis,
                info.columns_axis,
                info.name,
                progress=lambda done: self._progress.add(int(done * item_bytes)),
                packed=self._packing,
                memory_bytes=self._memory_bytes,
            )

    def _write_dense(self, stored: StoredMatrix, label: str) -> None:
        info, change = stored.info, self._change(label)
        dtype = self._counts.get(label, info.storage_type).dtype
        with self._daf.empty_dense_matrix(
            info.rows_axis,
            info.columns_axis,
            info.name,
            dtype,
            row_major=info.is_row_major,
            packed=self._packing or False,
        ) as out:
            self._fill(out if info.is_row_major else out.T, stored.dense(), change)

    def _write_canonical(self, stored: StoredMatrix, label: str) -> None:
        """Store a sparse matrix; elements that are stored twice are added up."""
        try:
            self._write_sparse(stored, label)
        except _StoredTwice:
            summed = ordered(stored)
            if summed.info.nnz != stored.info.nnz:
                message = "elements that were stored more than once were added up"
                self._report.changed(label, message)
            self._write_sparse(summed, label)

    def _write_sparse(self, stored: StoredMatrix, label: str) -> None:
        info, base = stored.info, stored.index_base
        rowval, colptr = stored.entries("rowval"), stored.colptr()
        index_dtype = rowval.info.storage_type.dtype
        nnz = int(colptr[-1])
        if self._packing is not None:
            index_dtype = _narrow_dtype(max(nnz + 1, info.shape[0]))
        with self._daf.empty_sparse_matrix(
            info.rows_axis,
            info.columns_axis,
            info.name,
            self._counts.get(label, info.storage_type).dtype,
            nnz,
            index_dtype=index_dtype,
            row_major=info.is_row_major,
            packed=self._packing or False,
        ) as out:
            out.colptr[:] = colptr + 1

            def from_one(_: Span, indices: AnyArray) -> AnyArray:
                found = np.empty(indices.size, index_dtype)
                low, high = (indices.min(), indices.max()) if indices.size else (base, base)
                if int(low) < base or int(high) >= info.shape[0] + base:
                    raise CorruptDataError(
                        f"{label}: a column index is outside 0 to {info.shape[0] - 1:,}"
                    )
                return np.add(indices, 1 - base, out=found, dtype=index_dtype, casting="unsafe")

            self._fill(out.rowval, stored.indices, from_one)
            blocks = [b for b in column_blocks(colptr) if not _block_ascends(b, colptr, out.rowval)]
            try:
                self._fill(out.nzval, stored.entries("nzval"), self._change(label))
            except _Refused:  # what is added up may be whole
                if base == 0 and blocks:
                    raise _StoredTwice from None
                raise
            for block in blocks:
                _sort_block(block, colptr, out, info.shape[0])

    def _fill(self, target: AnyArray, array: StoredArray, change: Change) -> None:
        """Copy an array into its place, each chunk of which is read once."""

        def put(span: Span, values: AnyArray) -> None:
            put_values(target[span.slice], change(span, values))
            with self._lock:
                self._progress.add(values.nbytes)

        spans = block_spans(array, self._memory_bytes // (2 * THREADS))
        with passing_over():
            run_all(functools.partial(put, span, array.read_rows(span)) for span in spans)

    def _change(self, label: str) -> Change:
        """Return how values are stored: as they are, or exactly as whole numbers."""
        kind = self._counts.get(label)
        if kind is None:
            return lambda _, values: values

        def counted(span: Span, values: AnyArray) -> AnyArray:
            cast, place = changed_by(values, kind.dtype)
            if place is not None:
                first, *rest = (int(n) for n in np.unravel_index(place, values.shape))
                raise _Refused((span.start + first, *rest), values[(first, *rest)])
            return cast

        return counted

    def _names_of(self, stored: StoredMatrix, place: tuple[int, ...]) -> tuple[str, str]:
        """Return the entries of the stored column and of the row of an element."""
        info = stored.info
        major, *rest = place
        if info.is_sparse:
            rest = [int(stored.indices.read_rows(Span(major, major + 1))[0]) - stored.index_base]
            major = int(np.searchsorted(stored.colptr(), major, side="right")) - 1
        columns, rows = (
            self._daf.axis_entries(axis) for axis in (info.columns_axis, info.rows_axis)
        )
        return str(columns[major]), str(rows[rest[0]])


def size_bytes(stored: StoredMatrix) -> int:
    """Return how many bytes there are to be copied of a matrix."""
    arrays = (array for name, array in stored.arrays().items() if name != "colptr")
    return sum(array.info.size * array.info.storage_type.dtype.itemsize for array in arrays)


def _narrow_dtype(largest: int) -> np.dtype[Any]:
    """Return the smallest of the types that the reference uses for indices.

    >>> [str(_narrow_dtype(n)) for n in (65_535, 65_536, 2**32)]
    ['uint16', 'uint32', 'uint64']
    """
    return next(dtype for dtype in _NARROW if largest <= np.iinfo(dtype).max)


def _block_ascends(span: Span, colptr: AnyArray, rowval: AnyArray) -> bool:
    start, stop = int(colptr[span.start]), int(colptr[span.stop])
    return ascend(rowval[start:stop], colptr[span.start : span.stop + 1] - start)


def _sort_block(span: Span, colptr: AnyArray, out: EmptySparse, n_rows: int) -> None:
    """Put the elements of some columns in order."""
    part = slice(int(colptr[span.start]), int(colptr[span.stop]))
    pointers = colptr[span.start : span.stop + 1] - part.start
    rowval, nzval = out.rowval[part], out.nzval[part]
    block = sp.csr_array((nzval, rowval, pointers), shape=(span.size, n_rows + 1), copy=True)
    block.sort_indices()
    if not ascend(block.indices, pointers):
        raise _StoredTwice
    rowval[:], nzval[:] = block.indices, block.data

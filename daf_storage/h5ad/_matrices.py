"""Write the matrices of an AnnData into a Daf data set, block by block."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from daf_storage._lazy import lazy_module
from daf_storage.anndata_rules import Report
from daf_storage.base import AnyArray, Progress, Span, StorageType
from daf_storage.data import (
    DafWriter,
    EmptySparse,
    ascend,
    changed_by,
    column_blocks,
    refused_value,
)
from daf_storage.errors import CorruptDataError, UnsupportedInputError
from daf_storage.h5ad._element_copy import ElementCopy, ElementReader, RefusedElement
from daf_storage.h5ad._sources import DenseSource, SparseSource

if TYPE_CHECKING:
    import scipy.sparse as sp
else:
    sp = lazy_module("scipy.sparse")

_BLOCK_BYTES = 64 << 20
_NARROW: Final = (np.dtype(np.uint16), np.dtype(np.uint32), np.dtype(np.uint64))

StoredSource = SparseSource | DenseSource
"""What Daf has matrices of."""


class _NotCanonical(Exception):  # noqa: N818 - a signal, not an error
    """The sparse matrix holds an element twice."""


class MatrixWriter:
    """Writes matrices one after the other, reporting progress and what cannot be stored."""

    def __init__(
        self,
        daf: DafWriter,
        report: Report,
        notes: dict[str, Any],
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
        self._notes = notes
        self._progress = progress
        self._relayout = relayout
        self._memory_bytes = memory_bytes

    def write(
        self, source: StoredSource, rows_axis: str, columns_axis: str, name: str, *, part: str
    ) -> None:
        """Store a matrix of AnnData shape (rows, columns), in both orientations if asked.

        Compressed rows are the columns of the transpose, so they are stored as they are under
        (columns axis, rows axis); so are the rows of a dense matrix.
        """
        is_csc = isinstance(source, SparseSource) and source.layout == "csc"
        axes = (rows_axis, columns_axis) if is_csc else (columns_axis, rows_axis)
        self._stream(source, *axes, name, part=part)
        if self._relayout:
            info = self._daf.matrix_info(*axes, name)
            element_bytes = source.size_bytes / max(info.nnz or info.shape[0] * info.shape[1], 1)
            self._daf.relayout_matrix(
                *axes,
                name,
                progress=lambda done: self._progress.add(int(done * element_bytes)),
                packed=self._packing,
                memory_bytes=self._memory_bytes,
            )

    def write_square(self, source: StoredSource, axis: str, name: str, *, part: str) -> None:
        """Store ``obsp`` and ``varp`` in AnnData's row-major bytes, and note that they are."""
        if isinstance(source, SparseSource) and source.layout == "csc":
            self._notes.setdefault(part, {})["format"] = "csc"
            rows = source.to_scipy().tocsr()
            indptr = rows.indptr.astype(np.int64)
            source = SparseSource(
                source.shape, "csr", indptr, rows.indices, rows.data, is_array=source.is_array
            )
        self._stream(source, axis, axis, name, part=part)

    def _stream(
        self, source: StoredSource, rows_axis: str, columns_axis: str, name: str, *, part: str
    ) -> None:
        if isinstance(source, DenseSource):
            self._stream_dense(source, rows_axis, columns_axis, name, part)
            return
        note = self._notes.setdefault(part, {})
        note.setdefault("format", source.layout)
        if source.is_array:
            note["is_array"] = True
        try:
            self._stream_sparse(source, rows_axis, columns_axis, name, part)
        except _NotCanonical:
            whole = source.to_scipy()
            if isinstance(source.data, np.ndarray):
                whole = whole.copy()  # the caller's matrix is left as it is
            whole.sum_duplicates()
            indptr = whole.indptr.astype(np.int64)
            summed = SparseSource(source.shape, source.layout, indptr, whole.indices, whole.data)
            self._report.changed(part, "elements that were stored more than once were added up")
            self._stream_sparse(summed, rows_axis, columns_axis, name, part)

    def _stream_dense(
        self, source: DenseSource, rows_axis: str, columns_axis: str, name: str, part: str
    ) -> None:
        dtype = self._stored_dtype(source.values.dtype, part)
        block_bytes = min(_BLOCK_BYTES, self._memory_bytes // 4)
        rows = max(block_bytes // max(source.shape[1] * dtype.itemsize, 1), 1)
        row_major = rows_axis == columns_axis
        with self._daf.empty_dense_matrix(
            rows_axis,
            columns_axis,
            name,
            dtype,
            row_major=row_major,
            packed=self._packing or False,
        ) as out:
            by_rows = out if row_major else out.T
            for start in range(0, source.shape[0], rows):
                block = np.asarray(source.values[start : start + rows])
                cast, place = self._counted(block, dtype, part)
                if place is not None:
                    row, column = np.unravel_index(place, block.shape)
                    names = (columns_axis, start + int(row)), (rows_axis, int(column))
                    raise self._refused(part, block[row, column], dtype, *names)
                by_rows[start : start + rows] = cast
                self._progress.add(block.nbytes)

    def _stream_sparse(
        self, source: SparseSource, rows_axis: str, columns_axis: str, name: str, part: str
    ) -> None:
        dtype = self._stored_dtype(source.data.dtype, part)
        nnz = int(source.indptr[-1])
        _check_rises(source, part)
        n_minor = source.shape[1] if source.layout == "csr" else source.shape[0]
        index_dtype = _index_dtype(source.indices.dtype, max(nnz, n_minor))
        if self._packing is not None:
            index_dtype = _narrow_dtype(max(nnz + 1, n_minor))
        with self._daf.empty_sparse_matrix(
            rows_axis,
            columns_axis,
            name,
            dtype,
            nnz,
            index_dtype=index_dtype,
            row_major=rows_axis == columns_axis,
            packed=self._packing or False,
        ) as out:
            out.colptr[:] = source.indptr + 1
            copying = ElementCopy(source.indptr, out, n_minor, self._progress, what=part)
            copying.check_lengths(source.indices, source.data)
            memory_bytes = self._memory_bytes // 2
            copying.copy_indices(source.indices, memory_bytes=memory_bytes)
            is_counted = part in self._counts
            if is_counted and not copying.ascends:
                _check_unique(source.indptr, out, n_minor)  # values that are added up may be whole
            try:
                copying.copy_values(source.data, memory_bytes=memory_bytes, is_exact=is_counted)
            except RefusedElement as element:
                names = self._names_of(source, element.place, rows_axis, columns_axis)
                raise self._refused(part, element.value, dtype, *names) from None
            if not copying.ascends:
                for span in column_blocks(source.indptr):
                    _sort_block(span, source.indptr, out, n_minor)

    def _names_of(
        self, source: SparseSource, place: int, rows_axis: str, columns_axis: str
    ) -> tuple[tuple[str, int], tuple[str, int]]:
        """Return the row and the column of a stored element, as AnnData has them."""
        major = int(np.searchsorted(source.indptr, place, side="right")) - 1
        minor = int(ElementReader(source.indices).read(Span(place, place + 1))[0])
        names = (columns_axis, major), (rows_axis, minor)
        return names if source.layout == "csr" else names[::-1]

    def _counted(self, values: Any, dtype: np.dtype[Any], part: str) -> tuple[Any, int | None]:
        """Return values of a matrix as they are stored, and the place of one that cannot be."""
        return changed_by(np.asarray(values), dtype) if part in self._counts else (values, None)

    def _refused(
        self,
        part: str,
        value: Any,
        dtype: np.dtype[Any],
        row: tuple[str, int],
        column: tuple[str, int],
    ) -> UnsupportedInputError:
        row_name, column_name = (
            str(self._daf.axis_entries(axis)[position]) for axis, position in (row, column)
        )
        return refused_value(part, value, row_name, column_name, dtype)

    def _stored_dtype(self, dtype: np.dtype[Any], part: str) -> np.dtype[Any]:
        """Return the dtype that is stored; half floats are widened and narrowed on the way back."""
        counts = self._counts.get(part)
        if counts is not None and counts.dtype != dtype:
            self._notes.setdefault(part, {})["dtype"] = dtype.str
            return counts.dtype
        if dtype == np.float16:
            self._notes.setdefault(part, {})["dtype"] = "float16"
            return np.dtype(np.float32)
        if not dtype.isnative:
            self._notes.setdefault(part, {})["dtype"] = dtype.str
        return StorageType.of(dtype).dtype


def _narrow_dtype(largest: int) -> np.dtype[Any]:
    """Return the smallest of the types that the reference uses for indices.

    >>> [str(_narrow_dtype(n)) for n in (65_535, 65_536, 2**32)]
    ['uint16', 'uint32', 'uint64']
    """
    return next(dtype for dtype in _NARROW if largest <= np.iinfo(dtype).max)


def _sort_block(span: Span, indptr: AnyArray, out: EmptySparse, n_minor: int) -> None:
    """Put the elements of some compressed rows in order."""
    part = slice(int(indptr[span.start]), int(indptr[span.stop]))
    pointers = indptr[span.start : span.stop + 1] - part.start
    rowval, nzval = out.rowval[part], out.nzval[part]
    if ascend(rowval, pointers):
        return
    block = sp.csr_array((nzval, rowval, pointers), shape=(span.size, n_minor + 1), copy=True)
    block.sort_indices()
    if not ascend(block.indices, pointers):
        raise _NotCanonical
    rowval[:], nzval[:] = block.indices, block.data


def _check_unique(indptr: AnyArray, out: EmptySparse, n_minor: int) -> None:
    """Raise if an element is stored twice; nothing is put in order."""
    for span in column_blocks(indptr):
        part = slice(int(indptr[span.start]), int(indptr[span.stop]))
        rowval = out.rowval[part].copy()
        pointers = indptr[span.start : span.stop + 1] - part.start
        copied = EmptySparse(nzval=np.empty(rowval.size, np.uint8), rowval=rowval)
        _sort_block(Span(0, span.size), pointers, copied, n_minor)


def _check_rises(source: SparseSource, part: str) -> None:
    """Raise unless ``indptr`` has a place for each compressed row, and they rise from 0."""
    indptr = source.indptr
    n_major = source.shape[0] if source.layout == "csr" else source.shape[1]
    rises = bool(np.all(indptr[1:] >= indptr[:-1]))
    if indptr.shape != (n_major + 1,) or int(indptr[0]) != 0 or not rises:
        raise CorruptDataError(
            f"{part}: indptr does not rise from 0 in {n_major + 1:,} steps, so where its rows "
            "begin is not known"
        )


def _index_dtype(dtype: np.dtype[Any], largest: int) -> np.dtype[Any]:
    """Keep the file's integer type unless counting from 1 would overflow it."""
    return dtype if largest + 1 <= np.iinfo(dtype).max else np.dtype(np.int64)

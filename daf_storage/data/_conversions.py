"""Stored values as numpy, Arrow and scipy have them; and strings on the way in and out.  Pure."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from daf_storage import errors
from daf_storage._lazy import sp
from daf_storage.base import AnyArray, Span
from daf_storage.data._coercion import (
    MatrixInput,
    SparseMatrixInput,
    SparseVectorInput,
    StringMatrixInput,
    VectorInput,
)
from daf_storage.data._layout import PartsNode, StoredMatrix
from daf_storage.data._transpose import check_rows, column_blocks
from daf_storage.trees import memory_array


def arrow_of(values: AnyArray) -> pa.Array:
    """Return a numeric array as Arrow; shares the memory except for Bool."""
    if values.dtype == np.bool_:
        return pa.array(values.view(np.uint8) != 0)
    arrow_type = pa.from_numpy_dtype(values.dtype.newbyteorder("="))
    contiguous = np.require(values, requirements=("C_CONTIGUOUS", "ALIGNED"))
    return pa.Array.from_buffers(arrow_type, len(values), [None, pa.py_buffer(contiguous)])


def number_strings(values: AnyArray) -> pa.Array:
    """Return numbers as strings, as they are where strings and numbers have to become one type.

    >>> number_strings(np.array([1.5, 2.0])).tolist(), number_strings(np.array([True])).tolist()
    (['1.5', '2.0'], ['true'])
    """
    if values.dtype == np.bool_:
        return pa.array(["false", "true"]).take(arrow_of(values).cast(pa.int8()))
    return pa.array(values.astype(str), pa.string())


def is_same_scalar(one: object, other: object) -> bool:
    """Return whether two scalars have the same type and value; NaN is equal to itself."""
    return type(one) is type(other) and bool(one == other or (one != one and other != other))  # noqa: PLR0124 - NaN


def scipy_of(stored: StoredMatrix) -> Any:
    """Return a stored sparse matrix as ``csc_array``, or ``csr_array``; values are views."""
    shape, colptr = stored.info.shape, stored.colptr()
    stored.indices.check_stored(is_complete=stored.index_base == 1)
    rows = checked_indices(stored, stored.indices.read())
    indices = rows - rows.dtype.type(1) if stored.index_base else rows
    values = stored.entries("nzval").read() if stored.has_values() else np.ones(rows.size, bool)
    index_type = scipy_index_dtype(max(*shape, rows.size))
    matrix: Any = sp.csc_array(shape, dtype=values.dtype)
    matrix.data, matrix.indices, matrix.indptr = (
        values,
        indices.astype(index_type, copy=False),
        colptr.astype(index_type),
    )
    return matrix.T if stored.info.is_row_major else matrix


def scipy_index_dtype(largest: int) -> type[np.int32 | np.int64]:
    """Return the integers of all indices of a sparse matrix of scipy.

    Examples
    --------
    >>> scipy_index_dtype(2**31 - 1), scipy_index_dtype(2**31)
    (<class 'numpy.int32'>, <class 'numpy.int64'>)
    """
    return np.int32 if largest < 2**31 else np.int64


def numpy_vector(value: VectorInput) -> AnyArray:
    """Return a vector that a caller gave as numpy; strings as objects."""
    if isinstance(value, SparseVectorInput):
        dense = np.zeros(value.length, value.values.dtype)
        dense[value.positions] = value.values
        return dense
    return value if isinstance(value, np.ndarray) else objects(value)


def numpy_matrix(value: MatrixInput) -> Any:
    """Return a matrix that a caller gave as numpy, strings as objects, or as scipy's."""
    if isinstance(value, SparseMatrixInput):
        return sp.csc_array((value.values, value.indices, value.indptr), shape=value.shape)
    if isinstance(value, StringMatrixInput):
        return objects(value.strings).reshape(value.shape, order="F")
    is_zero = value.strides == (0, 0) and value.size and not value[0, 0]
    return sp.csc_array(value.shape, dtype=value.dtype) if is_zero else value


def objects(strings: Any) -> npt.NDArray[np.object_]:
    """Return Arrow strings as an array of ``str`` objects."""
    found: npt.NDArray[np.object_] = strings.to_numpy(zero_copy_only=False)
    return found.astype(object, copy=False)


def integer_positions(requested: Any, where: str) -> npt.NDArray[np.int64]:
    """Return positions as 64-bit integers; fractions, masks and strings are errors.

    >>> integer_positions([2, 0], "indices=")
    array([2, 0])
    """
    positions = np.asarray(requested)
    if positions.size and positions.dtype.kind not in "iu":
        raise errors.InvalidInputError(
            f"{where} holds {positions.dtype} values; pass positions (integers), for a mask "
            "those of numpy.flatnonzero(mask)"
        )
    too_large = np.iinfo(np.int64).max
    if positions.dtype == np.uint64:  # beyond int64 is beyond every axis
        positions = np.minimum(positions, np.uint64(too_large))
    return positions.astype(np.int64)


_BLOCK_ELEMENTS: Final = 1 << 22


def ordered(stored: StoredMatrix) -> StoredMatrix:
    """Return a matrix whose row numbers ascend within each column, each occurring once.

    The stored one, if it is so: of a file of another program all row numbers are read.  Else one in
    memory, in which elements stored twice are added up, as scipy does.

    Raises
    ------
    CorruptDataError
        A row number leaves its axis, or a chunk of row numbers is missing.
    """
    if not stored.info.is_sparse or stored.is_ordered:
        return stored
    return stored if _is_in_order(stored) else _in_memory(stored)


def _is_in_order(stored: StoredMatrix) -> bool:
    """Return whether the row numbers ascend within each column; reads them in blocks."""
    colptr, indices = stored.colptr(), stored.indices
    for span in column_blocks(colptr, max_elements=_BLOCK_ELEMENTS):
        start, stop = int(colptr[span.start]), int(colptr[span.stop])
        rows = checked_indices(stored, indices.read_rows(Span(start, stop)))
        if not ascend(rows, colptr[span.start : span.stop + 1] - start):
            return False
    return True


def checked_indices(stored: StoredMatrix, rows: AnyArray) -> AnyArray:
    """Return row numbers as they are stored, after checking that they are on their axis.

    Of a file of others, also that none of them stands in for one that is missing.
    """
    base, n_rows = stored.index_base, stored.info.shape[0]
    check_rows(rows, n_rows, stored.what, base)
    if rows.size and not stored.is_filled and not rows.all():  # what Zarr leaves out reads as zeros
        stored.check_filled(asks_server=not (rows[1:] | rows[:-1]).all())
    return rows


def ascend(rows: AnyArray, pointers: AnyArray) -> bool:
    """Return whether row numbers ascend within each column, given where the columns begin.

    >>> ascend(np.array([1, 3, 0, 2]), np.array([0, 2, 2, 4]))
    True
    >>> ascend(np.array([1, 1]), np.array([0, 2])), ascend(np.array([1, 1]), np.array([0, 1, 2]))
    (False, True)
    """
    rises = rows[1:] > rows[:-1]
    borders = pointers[1:-1] - 1
    rises[borders[(borders >= 0) & (borders < rises.size)]] = True
    return bool(rises.all())


def _in_memory(stored: StoredMatrix) -> StoredMatrix:
    """Return the matrix with its elements in order, in memory."""
    matrix = scipy_of(stored).copy()
    matrix.sum_duplicates()
    index_dtype = stored.entries("rowval").info.storage_type.dtype
    parts = {
        "colptr": (matrix.indptr.astype(np.int64) + 1).astype(index_dtype),
        "rowval": (matrix.indices.astype(np.int64) + 1).astype(index_dtype),
        "nzval": matrix.data,
    }
    node = PartsNode(stored.node, {name: memory_array(part) for name, part in parts.items()})
    return StoredMatrix(replace(stored.info, nnz=int(matrix.nnz)), node, what=stored.what)

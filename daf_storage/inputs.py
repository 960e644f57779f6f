"""What people pass to a writer, turned into the few shapes that are stored.

Vectors become a numpy array, Arrow strings, or sorted sparse parts; matrices a 2-D numpy array,
Arrow strings, or CSC parts.  Pure; raises `UnsupportedInputError` for what Daf has no place for.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
import scipy.sparse as sp

from daf_storage.errors import UnsupportedInputError
from daf_storage.model import AnyArray, StorageType

_INT64 = np.iinfo(np.int64)
_UINT64 = np.iinfo(np.uint64)


@dataclass(frozen=True, slots=True)
class SparseVectorInput:
    """A sparse vector, positions ascending and counting from 0."""

    length: int
    """Number of elements, zeros included."""
    positions: AnyArray
    """Where the stored elements are."""
    values: AnyArray
    """The stored elements."""


@dataclass(frozen=True, slots=True)
class SparseMatrixInput:
    """A sparse matrix in CSC form, indices from 0, row numbers ascending in each column."""

    shape: tuple[int, int]
    """Numbers of rows and of columns."""
    indptr: AnyArray
    """Where each column begins."""
    indices: AnyArray
    """Row numbers."""
    values: AnyArray
    """The stored elements."""


VectorInput: TypeAlias = AnyArray | pa.Array | SparseVectorInput


def scalar_input(value: Any, dtype: Any = None) -> AnyArray | pa.Array:
    """Return a scalar as an array of one element."""
    if isinstance(value, str):
        return strings_input([value], what="the scalar")
    if dtype is None and type(value) is int and not _INT64.min <= value <= _INT64.max:
        if not 0 <= value <= _UINT64.max:
            raise UnsupportedInputError(f"the integer {value} does not fit into 64 bits")
        dtype = np.uint64
    return numeric_input(np.asarray(value).reshape(1), dtype, what="the scalar")


def vector_input(value: Any, *, length: int, dtype: Any, what: str) -> VectorInput:
    """Return a vector in one of the stored shapes; scalars fill the length of the axis."""
    if isinstance(value, str):
        return strings_input(np.full(length, value, dtype=object), what=what)
    if sp.issparse(value):
        return _sparse_vector(value, dtype, what=what)
    if isinstance(value, pa.Array | pa.ChunkedArray):
        return _from_arrow(value, dtype, what=what)
    values = np.asarray(value)
    if values.ndim == 0:
        values = np.full(length, values[()])
    if values.ndim != 1:
        raise UnsupportedInputError(f"{what} has {values.ndim} dimensions; a vector has one")
    if _is_text(values) and (dtype is None or np.dtype(dtype).kind in "OUT"):
        return strings_input(values, what=what)
    return numeric_input(values, dtype, what=what)


def matrix_input(
    value: Any, *, shape: tuple[int, int], dtype: Any, what: str
) -> AnyArray | SparseMatrixInput:
    """Return a matrix as a 2-D array (of ``str`` objects for text) or in CSC form."""
    if sp.issparse(value):
        return _sparse_matrix(value, dtype, what=what)
    values = np.asarray(value)
    if values.ndim == 0:
        values = np.broadcast_to(values, shape)
    if values.ndim != 2:
        raise UnsupportedInputError(f"{what} has {values.ndim} dimensions; a matrix has two")
    if _is_text(values):
        return values.astype(object)
    return numeric_input(values, dtype, what=what)


def strings_input(values: Any, *, what: str) -> pa.Array:
    """Return strings as Arrow, or say which value is none."""
    listed = values.astype(object) if isinstance(values, np.ndarray) else list(values)
    for position, item in enumerate(listed):
        if not isinstance(item, str):
            raise UnsupportedInputError(
                f"{what} holds {item!r} of type {type(item).__name__} at position {position}; "
                "Daf has no missing values and no mixed types: pass strings only, '' for no entry"
            )
    try:
        return pa.array(listed, pa.string())
    except (pa.ArrowException, UnicodeEncodeError) as error:
        raise UnsupportedInputError(
            f"{what} cannot be stored as UTF-8 strings ({error})"
        ) from error


def numeric_input(values: AnyArray, dtype: Any, *, what: str) -> AnyArray:
    """Return numbers in a dtype that Daf stores, refusing any other."""
    if dtype is not None:
        values = values.astype(np.dtype(dtype), copy=False)
    kind = StorageType.from_numpy(values.dtype)
    if kind is None or kind.is_string:
        raise UnsupportedInputError(
            f"{what} has dtype {values.dtype}; Daf stores Bool, Int8 to Int64, UInt8 to UInt64, "
            "Float32, Float64 and strings; convert it with astype"
        )
    return values.astype(kind.dtype, copy=False)


def _is_text(values: AnyArray) -> bool:
    if values.dtype.kind in "UT":
        return True
    return values.dtype == object and (values.size == 0 or isinstance(values.flat[0], str))


def _from_arrow(value: Any, dtype: Any, *, what: str) -> VectorInput:
    array = value.combine_chunks() if isinstance(value, pa.ChunkedArray) else value
    if array.null_count:
        raise UnsupportedInputError(
            f"{what} has {array.null_count} nulls; Daf has no missing values: fill them first"
        )
    if pa.types.is_dictionary(array.type):
        array = array.dictionary_decode()
    is_view = hasattr(pa.types, "is_string_view") and pa.types.is_string_view(array.type)
    if is_view:
        array = array.cast(pa.string())
    if pa.types.is_string(array.type) or pa.types.is_large_string(array.type):
        return array
    return numeric_input(array.to_numpy(zero_copy_only=False), dtype, what=what)


def _sparse_vector(value: Any, dtype: Any, *, what: str) -> SparseVectorInput:
    flat = sp.coo_array(value)
    if flat.ndim == 2 and 1 not in flat.shape:
        raise UnsupportedInputError(f"{what} has shape {flat.shape}; a vector has one dimension")
    length = int(np.prod(flat.shape))
    row = sp.csr_array(flat.reshape((1, length)))
    row.sum_duplicates()
    values = numeric_input(row.data, dtype, what=what)
    return SparseVectorInput(length, row.indices, values)


def _sparse_matrix(value: Any, dtype: Any, *, what: str) -> SparseMatrixInput:
    csc = value.tocsc() if value.format == "csc" else sp.csc_array(value)
    if csc.indices.dtype not in (np.int32, np.int64):  # scipy's own code knows no others
        indices, indptr = csc.indices.astype(np.int64), csc.indptr.astype(np.int64)
        csc = sp.csc_array((csc.data, indices, indptr), shape=csc.shape)
    if not csc.has_canonical_format:
        csc = csc.copy() if csc is value or csc.data is value.data else csc
        csc.sum_duplicates()
    values = numeric_input(csc.data, dtype, what=what)
    return SparseMatrixInput(csc.shape, csc.indptr, csc.indices, values)

"""Sparse vectors and matrices that people pass to a writer, in the form that is stored.

scipy trusts its parts: an index out of range crashes the interpreter when another format is made of
it, and elements that occur twice are added up in their own type, which wraps.  Both are checked
here.  Pure.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from daf_storage._lazy import lazy_module
from daf_storage.base import AnyArray
from daf_storage.data._casting import numeric_type, position_of, stored_numbers
from daf_storage.errors import UnsupportedInputError

if TYPE_CHECKING:
    import scipy.sparse as sp
else:
    sp = lazy_module("scipy.sparse")

_COMPRESSED: Final = ("csc", "csr", "bsr")
_LARGEST_SURE_SUM: Final = 2.0**62


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


def sparse_vector_input(value: Any, dtype: Any, *, what: str) -> SparseVectorInput:
    """Return the parts of a sparse array of one row or one column."""
    if value.ndim == 2 and 1 not in value.shape:
        raise UnsupportedInputError(f"{what} has shape {value.shape}; a vector has one dimension")
    length = int(np.prod(value.shape))
    checked = _summable(value, dtype, what=what)
    row = sp.csr_array(sp.coo_array(checked).reshape((1, length)))
    row.sum_duplicates()

    def place(indices: tuple[int, ...]) -> str:
        return position_of((int(row.indices[indices[0]]),))

    values = stored_numbers(row.data, _final_dtype(value, dtype), what=what, place=place)
    return SparseVectorInput(length, row.indices, values)


def sparse_matrix_input(value: Any, dtype: Any, *, what: str) -> SparseMatrixInput:
    """Return the parts of a sparse matrix by columns; those of a CSC matrix without a copy."""
    if value.ndim != 2:
        raise UnsupportedInputError(f"{what} has {value.ndim} dimensions; a matrix has two")
    checked = _summable(value, dtype, what=what)
    csc = checked if checked.format == "csc" else sp.csc_array(checked)
    if not csc.has_canonical_format:
        csc = csc.copy() if csc is value or csc.data is value.data else csc
        csc.sum_duplicates()
    nnz = int(csc.indptr[-1])  # what lies beyond is no part of the matrix
    indices = csc.indices[:nnz]

    def place(numbers: tuple[int, ...]) -> str:
        column = int(np.searchsorted(csc.indptr, numbers[0], side="right")) - 1
        return position_of((int(indices[numbers[0]]), column))

    dtype = _final_dtype(value, dtype)
    values = stored_numbers(csc.data[:nnz], dtype, what=what, place=place)
    return SparseMatrixInput((csc.shape[0], csc.shape[1]), csc.indptr, indices, values)


def _final_dtype(value: Any, dtype: Any) -> Any:
    return value.dtype if dtype is None else dtype


def _summable(value: Any, dtype: Any, *, what: str) -> Any:
    """Return the matrix with parts that scipy handles without crashing and without wrapping."""
    target = numeric_type(_final_dtype(value, dtype), what=what)
    _check_indices(value, what=what)
    value = _wide_indices(value)
    if value.dtype.kind not in "biuf":
        raise UnsupportedInputError(
            f"{what} has dtype {value.dtype}, which is not converted to {target.value}; "
            "convert it with astype"
        )
    if value.dtype == np.float16:  # scipy knows no half floats, which all of Float32 are
        return value.astype(np.float32)
    if value.dtype.kind in "iu" and not getattr(value, "has_canonical_format", True):
        return _widened(value, what=what)
    return value


def _widened(value: Any, *, what: str) -> Any:
    """Return integers in 64 bits, in which the sums of those at one place do not wrap."""
    wide = value.astype(np.uint64 if value.dtype == np.uint64 else np.int64)
    parts = sp.coo_array(wide)
    parts = parts if parts.ndim == 2 else parts.reshape((1, -1))
    sums = sp.coo_array((np.abs(parts.data.astype(np.float64)), parts.coords), parts.shape).tocsr()
    if sums.nnz and float(sums.data.max()) >= _LARGEST_SURE_SUM and sums.nnz < parts.nnz:
        number = int(np.argmax(sums.data))
        row = int(np.searchsorted(sums.indptr, number, side="right")) - 1
        where = position_of((row, int(sums.indices[number])))
        raise UnsupportedInputError(
            f"{what} has elements stored more than once{where}, whose sum may exceed 64 bits; "
            "nothing was stored: add them up first"
        )
    return wide


def _wide_indices(value: Any) -> Any:
    """Return the matrix with indices of the two types that scipy's own code knows."""
    if value.format not in ("csc", "csr") or value.indices.dtype in (np.int32, np.int64):
        return value
    indices, indptr = value.indices.astype(np.int64), value.indptr.astype(np.int64)
    return type(value)((value.data, indices, indptr), shape=value.shape)


def _check_indices(value: Any, *, what: str) -> None:
    """Raise unless all indices are within the shape."""
    if value.format in _COMPRESSED:
        _check_compressed(value, what=what)
    elif value.format == "coo":
        for dimension, (found, length) in enumerate(zip(value.coords, value.shape, strict=True)):
            _check_bounds(found, length, dimension, what=what)


def _check_compressed(value: Any, *, what: str) -> None:
    indptr, nnz = value.indptr, value.indices.size
    rises = indptr.size and indptr[0] == 0 and bool(np.all(indptr[1:] >= indptr[:-1]))
    if not rises or int(indptr[-1]) > nnz or len(value.data) < int(indptr[-1]):
        raise UnsupportedInputError(
            f"{what} has an indptr that does not rise from 0 to the number of its elements, {nnz:,}"
        )
    blocks = value.blocksize if value.format == "bsr" else (1,) * value.ndim
    minor = 0 if value.format == "csc" else value.ndim - 1
    length = value.shape[minor] // blocks[minor]
    _check_bounds(value.indices[: int(indptr[-1])], length, minor, what=what)


def _check_bounds(indices: AnyArray, length: int, dimension: int, *, what: str) -> None:
    if indices.size and (int(indices.min()) < 0 or int(indices.max()) >= length):
        is_wrong = (indices < 0) | (indices >= length)
        word = "row" if dimension == 0 else "column"
        raise UnsupportedInputError(
            f"{what} has an element in {word} {int(indices[int(np.argmax(is_wrong))]):,}, but "
            f"only {length:,} of them; its indices are out of range"
        )

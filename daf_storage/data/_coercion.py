"""Coerce values that are passed to a writer into the few shapes that are stored.

Vectors become a numpy array, Arrow strings, or sorted sparse parts; matrices a 2-D numpy array,
Arrow strings, or CSC parts.  Every value is stored as it was given, or an error names the first one
that cannot be.  Pure; raises `UnsupportedInputError` for what Daf has no place for.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

import numpy as np
import pyarrow as pa

from daf_storage._lazy import sp
from daf_storage.base import AnyArray
from daf_storage.data._casting import (
    arrow_strings,
    holds_strings,
    numeric_type,
    plain_values,
    position_of,
    stored_numbers,
    strings_array,
)
from daf_storage.errors import UnsupportedInputError, wrong_labels, wrong_length

_MAX_STRING_BYTES: Final = 2**31 - 1
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


@dataclass(frozen=True, slots=True)
class StringMatrixInput:
    """A dense matrix of strings."""

    shape: tuple[int, int]
    """Numbers of rows and of columns."""
    strings: pa.Array
    """The elements, column after column, as they are stored."""


VectorInput: TypeAlias = AnyArray | pa.Array | SparseVectorInput
MatrixInput: TypeAlias = AnyArray | StringMatrixInput | SparseMatrixInput


def scalar_input(value: Any, dtype: Any = None, *, what: str = "the scalar") -> Any:
    """Return a scalar as an array of one element, of numbers or of strings."""
    values = plain_values(value, what=what)
    if isinstance(values, np.ndarray):
        if values.ndim > 1 or values.size != 1:
            raise UnsupportedInputError(f"{what} has shape {values.shape}; pass a single value")
        values = values.reshape(())
    elif len(values) != 1:
        raise UnsupportedInputError(f"{what} has {len(values)} values; pass a single one")
    return _filled(values, 1, dtype, what=what)


def vector_input(value: Any, *, length: int, dtype: Any, what: str) -> VectorInput:
    """Return a vector in one of the stored shapes; scalars fill the length of the axis."""
    if sp.issparse(value):
        return _sparse_vector_input(value, dtype, what=what)
    values = plain_values(value, what=what)
    if not isinstance(values, np.ndarray):
        check_string_dtype(dtype, what=what)
        return values
    if values.ndim == 0:
        return _filled(values, length, dtype, what=what)
    if values.ndim != 1:
        raise UnsupportedInputError(f"{what} has {values.ndim} dimensions; a vector has one")
    return stored_numbers(values, dtype, what=what)


def matrix_input(value: Any, *, shape: tuple[int, int], dtype: Any, what: str) -> MatrixInput:
    """Return a matrix as a 2-D array, as strings, or in CSC form."""
    if sp.issparse(value):
        return _sparse_matrix_input(value, dtype, what=what)
    columns = _columns(value)
    if columns is not None:
        return _of_columns(columns, dtype, what=what)
    values = plain_values(value, what=what)
    if isinstance(values, np.ndarray) and values.ndim == 0:
        return _filled_matrix(values, shape, dtype, what=what)
    if not isinstance(values, np.ndarray) or values.ndim != 2:
        n_dimensions = values.ndim if isinstance(values, np.ndarray) else 1
        raise UnsupportedInputError(f"{what} has {n_dimensions} dimensions; a matrix has two")
    if not holds_strings(values):
        return stored_numbers(values, dtype, what=what)
    check_string_dtype(dtype, what=what)
    found = (values.shape[0], values.shape[1])
    flat = strings_array(values.reshape(-1, order="F"), what=what, shape=found)
    return StringMatrixInput(found, flat)


def strings_input(values: Any, *, what: str) -> pa.Array:
    """Return strings as Arrow, or say which value is none."""
    if isinstance(values, str):
        raise UnsupportedInputError(f"{what} is a single string, {values!r}; pass a list of them")
    listed = values if hasattr(values, "dtype") or hasattr(values, "type") else list(values)
    found = plain_values(listed, what=what)
    if not isinstance(found, np.ndarray):
        return found
    if found.ndim != 1:
        raise UnsupportedInputError(f"{what} has {found.ndim} dimensions; it must have one")
    return strings_array(found, what=what)


def _filled(value: Any, length: int, dtype: Any, *, what: str) -> AnyArray | pa.Array:
    """Return a single value as often as needed."""
    if isinstance(value, pa.Array) or holds_strings(value):
        check_string_dtype(dtype, what=what)
        one = value if isinstance(value, pa.Array) else strings_array(value.reshape(1), what=what)
        is_long = len(one[0].as_py().encode()) * length > _MAX_STRING_BYTES
        return pa.repeat(one[0].cast(pa.large_string()) if is_long else one[0], length)
    return np.full(length, stored_numbers(value, dtype, what=what)[()])


def _filled_matrix(
    value: AnyArray, shape: tuple[int, int], dtype: Any, *, what: str
) -> AnyArray | StringMatrixInput:
    if holds_strings(value):
        check_string_dtype(dtype, what=what)
        return StringMatrixInput(shape, _filled(value, shape[0] * shape[1], dtype, what=what))
    return np.broadcast_to(stored_numbers(value, dtype, what=what), shape)


def _columns(value: Any) -> list[tuple[str, Any]] | None:
    """Return the columns of a table of columns of different types; None for anything else."""
    pandas = sys.modules.get("pandas")
    if pandas is not None and isinstance(value, pandas.DataFrame):
        if len(set(value.dtypes)) == 1 and isinstance(value.dtypes.iloc[0], np.dtype):
            return None
        return [(str(name), value.iloc[:, n]) for n, name in enumerate(value.columns)] or None
    if isinstance(value, np.ndarray) or not hasattr(value, "__arrow_c_stream__"):
        return None
    if isinstance(value, pa.ChunkedArray) or getattr(value, "ndim", 2) == 1:
        return None
    table = pa.table(value)
    return list(zip(table.column_names, table.columns, strict=True)) or None


def _of_columns(
    columns: list[tuple[str, Any]], dtype: Any, *, what: str
) -> AnyArray | StringMatrixInput:
    """Return columns of any types side by side, in a type that holds all their values."""
    names = [f"column {name!r} of {what}" for name, _ in columns]
    found = [plain_values(v, what=n) for n, (_, v) in zip(names, columns, strict=True)]
    strings = [v.cast(pa.large_string()) for v in found if not isinstance(v, np.ndarray)]
    if len(strings) == len(found):
        check_string_dtype(dtype, what=what)
        return StringMatrixInput((len(found[0]), len(found)), pa.concat_arrays(strings))
    numbers = []
    for name, values in zip(names, found, strict=True):
        if not isinstance(values, np.ndarray):
            raise UnsupportedInputError(
                f"{name} holds strings and other columns hold numbers; a matrix has one type"
            )
        numbers.append(stored_numbers(values, dtype, what=name))
    common = np.result_type(*(values.dtype for values in numbers))
    out = np.empty((len(numbers[0]), len(numbers)), common, order="F")
    for number, (name, values) in enumerate(zip(names, numbers, strict=True)):
        out[:, number] = stored_numbers(values, common, what=name)
    return stored_numbers(out, None, what=what)


def check_string_dtype(dtype: Any, *, what: str) -> None:
    """Raise if strings shall become something else."""
    if dtype is not None and np.dtype(dtype).kind not in "OUT":
        raise UnsupportedInputError(
            f"{what} holds strings, which are not converted to {np.dtype(dtype)}: convert them "
            "first, say with numpy.array(values).astype(dtype)"
        )


@dataclass(frozen=True, slots=True)
class GivenAxis:
    """An axis along which values are given."""

    location: str
    """The data set, as messages name it."""
    name: str
    length: int
    entries: Callable[[], pa.Array]
    """Reads the entries."""

    def check_length(self, length: int, what: str) -> None:
        """Raise unless there are as many values as entries."""
        if length != self.length:
            raise wrong_length(self.location, what, length, self.name, self.length)

    def check_labels(self, labels: Any, what: str) -> None:
        """Raise ``LabelsError`` if a pandas index is given and is not the entries.

        A plain ``RangeIndex`` counts as no labels.
        """
        if labels is None or callable(labels) or type(labels).__name__ == "RangeIndex":
            return
        entries = self.entries()
        is_long = len(labels) == len(entries)
        if not (is_long and arrow_strings(labels).cast(entries.type).equals(entries)):
            raise wrong_labels(self.location, what, self.name)


def given_vector(
    axis: GivenAxis, name: str, value: Any, dtype: Any = None, *, called: str = "vector"
) -> VectorInput:
    """Check and convert what is to be a vector."""
    what = f"{called} {name!r}"
    given = f"{axis.location}: {what} of axis {axis.name!r}"
    stored = vector_input(value, length=axis.length, dtype=dtype, what=given)
    length = stored.length if isinstance(stored, SparseVectorInput) else len(stored)
    axis.check_length(length, what)
    axis.check_labels(getattr(value, "index", None), what)
    return stored


def given_matrix(
    rows: GivenAxis,
    columns: GivenAxis,
    name: str,
    value: Any,
    dtype: Any = None,
    *,
    called: str = "matrix",
) -> MatrixInput:
    """Check and convert what is to be a matrix."""
    what = f"{rows.location}: {called} {name!r} of axes {rows.name!r} and {columns.name!r}"
    shape = rows.length, columns.length
    stored = matrix_input(value, shape=shape, dtype=dtype, what=what)
    parts = [f"the {part} of {called} {name!r}" for part in ("rows", "columns")]
    for axis, part, length in zip((rows, columns), parts, stored.shape, strict=True):
        axis.check_length(length, part)
    for axis, part, labels in zip((rows, columns), parts, ("index", "columns"), strict=True):
        axis.check_labels(getattr(value, labels, None), part)
    return stored


# Sparse ones: scipy trusts their parts.  An index out of range crashes the interpreter when another
# format is made of it, and elements that occur twice are added up in their own type, which wraps.


def _sparse_vector_input(value: Any, dtype: Any, *, what: str) -> SparseVectorInput:
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


def _sparse_matrix_input(value: Any, dtype: Any, *, what: str) -> SparseMatrixInput:
    """Return the parts of a sparse matrix by columns; those of a CSC matrix without a copy."""
    if value.ndim != 2:
        raise UnsupportedInputError(f"{what} has {value.ndim} dimensions; a matrix has two")
    checked = _summable(value, dtype, what=what)
    csc = checked if checked.format == "csc" else sp.csc_array(checked)
    if not csc.has_canonical_format:
        csc = csc.copy()
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
    if value.dtype.kind not in "biuf":
        raise UnsupportedInputError(
            f"{what} has dtype {value.dtype}, which is not converted to {target.value}; "
            "convert it with astype"
        )
    value = _with_checked_parts(value, what=what)
    if value.dtype.kind in "iu" and not getattr(value, "has_canonical_format", True):
        return _widened(value, what=what)
    return value


def _with_checked_parts(value: Any, *, what: str) -> Any:
    """Return a matrix of the same parts, which scipy has checked; half floats are made single."""
    if value.format not in ("csc", "csr", "bsr", "coo"):
        return value
    data = value.data.astype(np.float32) if value.dtype == np.float16 else value.data
    try:
        if value.format == "coo":
            return type(value)((data, value.coords), shape=value.shape)
        checked = type(value)((data, value.indices, value.indptr), shape=value.shape)
        checked.check_format(full_check=True)
    except ValueError as error:
        raise UnsupportedInputError(
            f"{what} has parts that do not fit together: {error}"
        ) from error
    return checked


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

"""Coerce values that are passed to a writer into the few shapes that are stored.

Vectors become a numpy array, Arrow strings, or sorted sparse parts; matrices a 2-D numpy array,
Arrow strings, or CSC parts.  Every value is stored as it was given, or an error names the first one
that cannot be.  Pure; raises `UnsupportedInputError` for what Daf has no place for.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import numpy as np
import pyarrow as pa

from daf_storage._lazy import lazy_module
from daf_storage.base import AnyArray
from daf_storage.data._casting import stored_numbers
from daf_storage.data._containers import holds_strings, plain_values, strings_array
from daf_storage.data._sparse_inputs import (
    SparseMatrixInput,
    SparseVectorInput,
    sparse_matrix_input,
    sparse_vector_input,
)
from daf_storage.errors import UnsupportedInputError

if TYPE_CHECKING:
    import scipy.sparse as sp
else:
    sp = lazy_module("scipy.sparse")

_MAX_STRING_BYTES: Final = 2**31 - 1


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
        return sparse_vector_input(value, dtype, what=what)
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
        return sparse_matrix_input(value, dtype, what=what)
    columns = _columns(value)
    if columns is not None:
        return _of_columns(columns, dtype, what=what)
    values = plain_values(value, what=what)
    if isinstance(values, np.ndarray) and values.ndim == 0:
        return _filled_matrix(values, shape, dtype, what=what)
    if not isinstance(values, np.ndarray) or values.ndim != 2:
        found = values.ndim if isinstance(values, np.ndarray) else 1
        raise UnsupportedInputError(f"{what} has {found} dimensions; a matrix has two")
    if not holds_strings(values):
        return stored_numbers(values, dtype, what=what)
    check_string_dtype(dtype, what=what)
    return _string_matrix(values, what=what)


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


def _string_matrix(values: AnyArray, *, what: str) -> StringMatrixInput:
    shape = (values.shape[0], values.shape[1])
    flat = strings_array(values.reshape(-1, order="F"), what=what, shape=shape)
    return StringMatrixInput(shape, flat)


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

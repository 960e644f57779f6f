"""Values of callers in the few shapes that are stored, and numbers in another dtype.

Vectors become a numpy array, Arrow strings, or sorted sparse parts; matrices a 2-D numpy array,
Arrow strings, or CSC parts.  Pure; raises `UnsupportedInputError` for what Daf has no place for.

A value is stored as it was given or not at all, with one exception: a float is rounded to the
narrower float type that the caller asked for by ``dtype=``.  An integer is never rounded, a finite
float never becomes infinite, NaN never becomes an integer.  numpy alone would make strings of a
list that mixes strings and numbers, take the NUL at the end of a string for padding, and forget
what a masked array hides.  There is no Python object per element but for lists and arrays of
objects.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from decimal import Decimal
from numbers import Integral, Rational
from typing import Any, Final, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from daf_storage._lazy import pc, sp
from daf_storage.base import MAX_STRING_BYTES, AnyArray, Span, StorageType, one_array
from daf_storage.errors import UnsupportedInputError, wrong_labels, wrong_length
from daf_storage.stores import translated

Place: TypeAlias = Callable[[tuple[int, ...]], str]
"""Says in words where the element with these indices is, as `position_of` does."""

_BLOCK_ELEMENTS: Final = 1 << 20
_INT64: Final = np.iinfo(np.int64)
_NUMBERS: Final = (Integral, Rational, Decimal, float, np.number, np.bool_)
_KINDS: Final = (
    "Daf stores Bool, Int8 to Int64, UInt8 to UInt64, Float32, Float64 and strings; "
    "convert it with astype"
)


def position_of(indices: tuple[int, ...]) -> str:
    """Say where an element of a scalar, a vector or a matrix is, counted from 0.

    >>> position_of((3,)), position_of((3, 5)), position_of(())
    (' at position 3', ' at row 3, column 5', '')
    """
    if not indices:
        return ""
    if len(indices) == 1:
        return f" at position {indices[0]:,}"
    return f" at row {indices[0]:,}, column {indices[1]:,}"


def stored_numbers(
    values: AnyArray, dtype: Any, *, what: str, place: Place = position_of
) -> AnyArray:
    """Return numbers in a dtype that Daf stores.

    Parameters
    ----------
    values
        An array of any dtype and of up to two dimensions; of Python objects too.
    dtype
        What to convert to, or None for the dtype that the values have; for Python objects then
        Bool, Int64, UInt64 or Float64, the first that all fit into.
    what
        What the values are, for messages.
    place
        Where an element is, for messages; by its position unless the values are parts of
        something.

    Returns
    -------
    numpy.ndarray
        Of the same shape, little-endian; the same memory where nothing changes.

    Raises
    ------
    UnsupportedInputError
        The values are no numbers, the dtype is not one of Daf's, or a value does not fit.

    Examples
    --------
    >>> stored_numbers(np.array([1.0, 255.0]), "uint8", what="vector 'x'")
    array([  1, 255], dtype=uint8)
    >>> stored_numbers(np.array([1.0, 256.0]), "uint8", what="vector 'x'")
    Traceback (most recent call last):
        ...
    daf_storage.errors.UnsupportedInputError: vector 'x' holds 256.0 at position 1, which does not \
fit into UInt8; nothing was stored: pass a dtype that can hold it, or change the value
    """
    target = None if dtype is None else numeric_type(dtype, what=what)
    if values.dtype == object:
        return _of_objects(values, target, what=what, place=place)
    if values.dtype.kind not in "biuf":
        raise UnsupportedInputError(f"{what} has dtype {values.dtype}; {_KINDS}")
    kind = numeric_type(values.dtype, what=what) if target is None else target
    if kind.dtype == values.dtype.newbyteorder("<"):
        return values.astype(kind.dtype, copy=False)
    _check_fits(values, kind, what=what, place=place)
    with np.errstate(all="ignore"):
        return values.astype(kind.dtype)


def numeric_type(dtype: Any, *, what: str) -> StorageType:
    """Return the storage type of a dtype of numbers, refusing any other."""
    try:
        found = np.dtype(dtype)
    except TypeError as error:
        raise UnsupportedInputError(f"{what}: numpy knows no dtype {dtype!r}; {_KINDS}") from error
    kind = StorageType.from_numpy(found)
    if kind is None or kind.is_string:
        raise UnsupportedInputError(f"{what} has dtype {found}; {_KINDS}")
    return kind


def refused(item: object, where: str, kind: StorageType, *, what: str) -> UnsupportedInputError:
    """Return the error for a value that a storage type cannot hold."""
    return UnsupportedInputError(
        f"{what} holds {item!s}{where}, which does not fit into {kind.value}; nothing was stored: "
        "pass a dtype that can hold it, or change the value"
    )


def _check_fits(values: AnyArray, kind: StorageType, *, what: str, place: Place) -> None:
    rounds = kind.dtype.kind == "f" and values.dtype.itemsize >= kind.dtype.itemsize
    if values.dtype.kind in "biu" and np.can_cast(values.dtype, kind.dtype) and not rounds:
        return  # numpy calls a conversion of 64-bit integers to Float64 safe
    for start, block in _blocks(values):
        with np.errstate(all="ignore"):
            misfits = _misfits(block, kind)
        if misfits.any():
            first = np.unravel_index(int(np.argmax(misfits)), block.shape)
            indices = tuple(int(n) for n in first)
            if indices:
                indices = (indices[0] + start, *indices[1:])
            raise refused(block[first], place(indices), kind, what=what)


def _blocks(values: AnyArray) -> Iterator[tuple[int, AnyArray]]:
    """Yield ranges of the first dimension with their start; a scalar whole."""
    if values.ndim == 0:
        yield 0, values
        return
    width = math.prod(values.shape[1:])
    step = max(_BLOCK_ELEMENTS // max(width, 1), 1)
    for start in range(0, values.shape[0], step):
        yield start, values[start : start + step]


def _misfits(block: AnyArray, kind: StorageType) -> npt.NDArray[np.bool_]:
    """Return which numbers a type cannot hold: those that do not come back from it."""
    cast = block.astype(kind.dtype)
    floats = [values for values in (block, cast) if values.dtype.kind == "f"]
    if len(floats) > 1:
        return np.asarray(np.isinf(cast) & np.isfinite(block))
    misfits = cast.astype(block.dtype) != block
    misfits |= (cast < 0) != (block < 0)  # what wraps may come back
    if floats and kind is not StorageType.BOOL and block.dtype != np.bool_:
        integers = cast.dtype if block.dtype.kind == "f" else block.dtype
        most = float(np.iinfo(integers).max + 1)
        misfits |= (floats[0] >= most) | np.isinf(floats[0])  # some processors saturate
    return np.asarray(misfits)


# Python objects


def _of_objects(
    values: AnyArray, target: StorageType | None, *, what: str, place: Place
) -> AnyArray:
    """Convert Python objects one by one: they are in memory already."""
    flat = values.reshape(-1)
    kind = _common_type(flat) if target is None else target
    out = np.empty(flat.size, kind.dtype)
    for number, item in enumerate(flat):
        if not isinstance(item, _NUMBERS) or not _is_put(item, out, number):
            where = place(tuple(int(n) for n in np.unravel_index(number, values.shape)))
            if isinstance(item, _NUMBERS):
                raise refused(item, where, kind, what=what)
            raise UnsupportedInputError(
                f"{what} holds {item!r} of type {type(item).__name__}{where}; Daf has no missing "
                "values and no mixed types: pass numbers only, or strings only"
            )
    return out.reshape(values.shape)


def _is_put(item: Any, out: AnyArray, number: int) -> bool:
    """Put a number into an array; return whether it is that number, or a float that is rounded.

    >>> bytes_, floats = np.zeros(1, np.int8), np.zeros(1, np.float32)
    >>> [_is_put(each, bytes_, 0) for each in (127, 128, 1.5, 2.0, np.inf, "a")]
    [True, False, False, True, False, False]
    >>> [_is_put(each, floats, 0) for each in (0.1, 1e300, np.inf, np.nan, 2**24 + 1)]
    [True, False, True, True, False]
    """
    try:
        with np.errstate(all="ignore"):
            out[number] = item
    except (OverflowError, ValueError, TypeError):  # infinite, NaN, complex
        return False
    found = out[number].item()
    if isinstance(item, float | np.floating) and out.dtype.kind == "f":
        return bool(np.isfinite(found) or not np.isfinite(item))
    return bool(found == item)


def _common_type(flat: AnyArray) -> StorageType:
    """Return the type of Python's numbers.

    >>> given = [[True], [True, 1], [2**63 - 1], [2**63], [1, 0.5], []]
    >>> [_common_type(np.array(each, object)).value for each in given]
    ['Bool', 'Int64', 'Int64', 'UInt64', 'Float64', 'Float64']
    """
    types = set(map(type, flat))
    if types and all(issubclass(t, bool | np.bool_) for t in types):
        return StorageType.BOOL
    if not types or not all(issubclass(t, Integral | np.bool_) for t in types):
        return StorageType.FLOAT64
    is_beyond = any(int(item) > _INT64.max for item in flat)
    return StorageType.UINT64 if is_beyond else StorageType.INT64


def changed_by(values: AnyArray, dtype: npt.DTypeLike) -> tuple[AnyArray, int | None]:
    """Return values in another type, and the place of the first that this changes; or None.

    Every bit counts: -0 is no 0, and NaN is no number.

    >>> changed_by(np.array([1.0, 2.0]), np.dtype("u1"))
    (array([1, 2], dtype=uint8), None)
    >>> changed_by(np.array([1.0, 256.0]), np.dtype("u1"))[1], changed_by(np.array([-1]), "u4")[1]
    (1, 0)
    """
    values = np.ascontiguousarray(values)
    with np.errstate(invalid="ignore", over="ignore"):
        cast = values.astype(dtype)
        back = cast.astype(values.dtype)
    width = f"u{values.dtype.itemsize}"
    same = back.reshape(-1).view(width) == values.reshape(-1).view(width)
    same &= ((cast < 0) == (values < 0)).reshape(-1)  # what wraps comes back
    return cast, None if bool(same.all()) else int(np.argmin(same))


_EXACT_IN_ANY_FLOAT: Final = 2**24


def promoted(dtypes: Iterable[np.dtype[Any]], fill: Any = None) -> np.dtype[Any]:
    """Return the dtype that holds the values of all these, and the fill value if there is one.

    As numpy promotes, but that Int64 and UInt64 become Int64: they would be rounded to floats.  A
    fill value has the type of a numpy scalar, or else the narrowest that is enough.

    >>> promoted([np.dtype("uint8"), np.dtype("int8")]), promoted([np.dtype(bool)], float("nan"))
    (dtype('int16'), dtype('float32'))
    >>> promoted([np.dtype("int64"), np.dtype("uint64")])
    dtype('int64')
    >>> promoted([np.dtype("int8")], 127), promoted([np.dtype("int8")], 128)
    (dtype('int8'), dtype('int16'))
    >>> promoted([np.dtype("int8")], 0.1), promoted([np.dtype("int8")], 1e39)
    (dtype('float32'), dtype('float64'))
    """
    given = set(dtypes)
    dtype = np.result_type(*given)
    if dtype.kind == "f" and not any(each.kind == "f" for each in given):
        dtype = np.dtype(np.int64)
    if isinstance(fill, np.generic):
        return promoted([dtype, fill.dtype])
    if fill is None or dtype.kind == "f":
        return dtype
    if float(fill).is_integer() and -(2**63) <= fill < 2**64:
        if dtype.kind == "b" and fill in (0, 1):
            return dtype
        if dtype.kind in "iu" and np.iinfo(dtype).min <= fill <= np.iinfo(dtype).max:
            return dtype
        return promoted([dtype, np.min_scalar_type(int(fill))])
    return np.result_type(dtype, np.float32, np.min_scalar_type(float(fill)))


def plain_values(value: Any, *, what: str) -> AnyArray | pa.Array:
    """Return values as numpy (of Python objects too) or, where they are strings, as Arrow.

    Parameters
    ----------
    value
        An array of any library, a list, a list of lists, or a single value.
    what
        What the values are, for messages.

    Raises
    ------
    UnsupportedInputError
        A value is missing, or is a string among numbers.

    Examples
    --------
    >>> plain_values([2**64 - 1, 1], what="x").tolist()
    [18446744073709551615, 1]
    >>> plain_values(["a", "b"], what="x").type
    DataType(string)
    """
    found = _from_any(value, what=what)
    if isinstance(found, np.ndarray) and found.ndim == 1 and holds_strings(found):
        return strings_array(found, what=what)
    return found


def holds_strings(values: AnyArray) -> bool:
    """Return whether any value is a string; true for no objects at all."""
    if values.dtype.kind in "UT":
        return True
    if values.dtype != object:
        return False
    types = set(map(type, values.flat))
    return not types or any(issubclass(found, str) for found in types)


def strings_array(values: Any, *, what: str, shape: tuple[int, ...] | None = None) -> pa.Array:
    """Return a list or an array of strings as Arrow, or say which value is none.

    Parameters
    ----------
    shape
        Of the matrix whose columns the values are, one after the other; for messages.
    """
    listed = values.astype(object) if isinstance(values, np.ndarray) else list(values)

    def place(number: int) -> str:
        if shape is None:
            return position_of((number,))
        return position_of(tuple(int(n) for n in np.unravel_index(number, shape, order="F")))

    if not all(issubclass(found, str) for found in set(map(type, listed))):
        number = next(n for n, item in enumerate(listed) if not isinstance(item, str))
        item = listed[number]
        raise UnsupportedInputError(
            f"{what} holds {item!r} of type {type(item).__name__}{place(number)}; "
            "Daf has no missing values and no mixed types: pass strings only, '' for no entry"
        )
    try:
        return one_array(pa.array(listed, pa.string()))
    except (pa.ArrowException, UnicodeEncodeError) as error:
        lossy = (text.encode(errors="ignore").decode() for text in listed)
        number = next((n for n, text in enumerate(lossy) if text != listed[n]), 0)
        raise UnsupportedInputError(
            f"{what} holds {listed[number]!r}{place(number)}, which cannot be stored as UTF-8 "
            f"({error})"
        ) from error


def arrow_strings(values: Iterable[Any]) -> Any:
    """Return any list of labels as Arrow strings."""
    if isinstance(values, pa.Array | pa.ChunkedArray):
        array = one_array(values)
        return array if pa.types.is_large_string(array.type) else array.cast(pa.string())
    listed = values.astype(object) if isinstance(values, np.ndarray) else list(values)
    try:
        return one_array(pa.array(listed, pa.string()))
    except (pa.ArrowException, UnicodeEncodeError):
        return strings_array(list(map(str, listed)), what="the list of entries")


def arrow_values(value: pa.Array | pa.ChunkedArray, *, what: str) -> AnyArray | pa.Array:
    """Return the values of an Arrow array as numpy, or as they are if they are strings."""
    _check_nulls(value, what=what)
    has_runs = pa.types.is_run_end_encoded(value.type)
    view, large = pa.string_view(), pa.large_string()
    if has_runs or isinstance(value.type, pa.DictionaryType):
        kind = large if value.type.value_type == view else value.type.value_type
        # Arrow decodes no dictionary of views.
        encoding = value.type if has_runs else pa.dictionary(value.type.index_type, kind)
        value = pc.run_end_decode(value) if has_runs else value.cast(encoding).cast(kind)
        _check_nulls(value, what=what)  # the dictionary may have one
    if value.type == pa.null():
        return pa.array([], pa.string())
    if value.type in (pa.string(), large, view):
        array = one_array(value.cast(large) if value.type == view else value)
        problem = f"{what} holds strings that are not UTF-8"
        with translated(pa.ArrowException, UnsupportedInputError, problem):
            array.validate(full=True)
        return array
    kinds = (pa.types.is_integer, pa.types.is_floating, pa.types.is_boolean, pa.types.is_decimal)
    if not any(is_kind(value.type) for is_kind in kinds):
        raise UnsupportedInputError(
            f"{what} has the Arrow type {value.type}; Daf stores Bool, integers, floats and "
            "strings; cast it to one of them"
        )
    found: AnyArray = one_array(value).to_numpy(zero_copy_only=False)
    return found


def _from_any(value: Any, *, what: str) -> AnyArray | pa.Array:
    if isinstance(value, np.ma.MaskedArray):
        return _unmasked(value, what=what)
    if isinstance(value, pa.Array | pa.ChunkedArray):
        return arrow_values(value, what=what)
    if isinstance(value, pa.Scalar):
        value = value.as_py()
    pandas = sys.modules.get("pandas")  # it is optional, and whoever passes its objects has it
    if pandas is not None and isinstance(
        value, (pandas.Series, pandas.Index, pandas.api.extensions.ExtensionArray)
    ):
        return _from_pandas(value, what=what)
    if hasattr(value, "__arrow_c_stream__") and not hasattr(value, "iloc"):  # polars and others
        return arrow_values(pa.chunked_array(value), what=what)
    if isinstance(value, str):  # numpy would take a NUL at its end for padding
        return np.array(value, dtype=object)
    if isinstance(value, Sequence) and not isinstance(value, bytes):
        return _from_sequence(value, what=what)
    return np.asarray(value)


def _unmasked(value: Any, *, what: str) -> AnyArray:
    mask = np.ma.getmaskarray(value)
    if mask.any():
        first = np.unravel_index(int(np.argmax(mask)), mask.shape)
        where = position_of(tuple(map(int, first)))
        raise UnsupportedInputError(
            f"{what} has a masked value{where}; Daf has no missing values: call filled(value)"
        )
    return np.asarray(np.ma.getdata(value))


def _from_pandas(value: Any, *, what: str) -> AnyArray | pa.Array:
    """Convert a Series, an Index or one of pandas' own arrays."""
    if isinstance(value.dtype, np.dtype) or hasattr(value.dtype, "subtype"):  # pandas' sparse ones
        return np.asarray(value)
    try:
        return arrow_values(pa.array(getattr(value, "array", value)), what=what)
    except (pa.ArrowException, TypeError):
        return np.asarray(value)


def _from_sequence(value: Sequence[Any], *, what: str) -> AnyArray:
    """Convert a list, or a list of lists, as numpy does unless that changes a value."""
    types = _element_types(value, what=what)
    try:
        values = np.asarray(value)
        if values.dtype.kind in "US":
            return np.asarray(value, dtype=object)
        has_integers = any(issubclass(found, Integral) for found in types)
        if values.dtype.kind == "f" and has_integers and values.size:
            with np.errstate(invalid="ignore"):
                is_large = bool((np.abs(values) > _EXACT_IN_ANY_FLOAT).any())
            return np.asarray(value, dtype=object) if is_large else values
    except ValueError as error:
        raise UnsupportedInputError(f"{what} is no array: {error}") from error
    return values


def _element_types(value: Iterable[Any], *, what: str) -> set[type]:
    """Return the types of the elements of a list and of the lists and arrays in it.

    >>> _element_types(range(2), what="x"), _element_types([1], what="x")
    ({<class 'int'>}, {<class 'int'>})
    >>> found = _element_types([[1], np.zeros(1, np.int8), ("a",)], what="x")
    >>> sorted(each.__name__ for each in found)
    ['int', 'int8', 'list', 'ndarray', 'str', 'tuple']
    """
    if isinstance(value, range):
        return {int}
    types = set(map(type, value))
    if not any(issubclass(found, list | tuple | np.ndarray) for found in types):
        return types
    for number, item in enumerate(value):
        if isinstance(item, np.ma.MaskedArray) and np.ma.getmaskarray(item).any():
            raise UnsupportedInputError(
                f"{what} has a masked value{position_of((number,))}; Daf has no missing values: "
                "call filled() with the value to store"
            )
        if isinstance(item, list | tuple):
            types |= _element_types(item, what=what)
        elif isinstance(item, np.ndarray):
            types.add(item.dtype.type)
    return types


def _check_nulls(value: pa.Array | pa.ChunkedArray, *, what: str) -> None:
    if value.null_count:
        first = pc.index(pc.is_null(value), True).as_py()
        raise UnsupportedInputError(
            f"{what} has a missing value{position_of((first,))}; Daf has none: fill it first (NaN "
            "is a float as any, '' says that there is no string)"
        )


_LARGEST_SURE_SUM: Final = 2.0**62


@dataclass(frozen=True, eq=False, slots=True)
class SparseVectorParts:
    """A sparse vector as stored: views of the mapped files, indices counting from 1.

    The views are read-only and valid as long as they are referred to.
    """

    length: int
    """Number of elements, zeros included."""
    nzind: AnyArray
    """Positions of the stored elements, ascending, the first position being 1."""
    nzval: AnyArray | None
    """The stored elements; None where all are true (Bool)."""

    def to_dense(self, span: Span) -> AnyArray:
        """Return the elements of ``span`` with their zeros, as a new array."""
        bounds = np.searchsorted(self.nzind, np.array([span.start, span.stop], np.int64) + 1)
        stored = slice(int(bounds[0]), int(bounds[1]))
        values = True if self.nzval is None else self.nzval[stored]
        dense = np.zeros(span.size, dtype=bool if self.nzval is None else self.nzval.dtype)
        dense[self.nzind[stored].astype(np.int64) - (1 + span.start)] = values
        return dense


@dataclass(frozen=True, slots=True)
class StringMatrixInput:
    """A dense matrix of strings."""

    shape: tuple[int, int]
    """Numbers of rows and of columns."""
    strings: pa.Array
    """The elements, column after column, as they are stored."""


VectorInput: TypeAlias = AnyArray | pa.Array | SparseVectorParts
MatrixInput: TypeAlias = Any
"""A 2-D array, a `StringMatrixInput`, or a ``csc_array`` of scipy in its canonical format."""


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
        if value.ndim != 2:
            raise UnsupportedInputError(f"{what} has {value.ndim} dimensions; a matrix has two")
        return _sparse_columns(value, dtype, what=what)
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
        is_long = len(one[0].as_py().encode()) * length > MAX_STRING_BYTES
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
    if strings:
        named = (n for n, v in zip(names, found, strict=True) if not isinstance(v, np.ndarray))
        raise UnsupportedInputError(
            f"{next(named)} holds strings and other columns hold numbers; a matrix has one type"
        )
    numbers = [stored_numbers(v, dtype, what=n) for n, v in zip(names, found, strict=True)]
    common = np.result_type(*(values.dtype for values in numbers))
    cast = [stored_numbers(v, common, what=n) for n, v in zip(names, numbers, strict=True)]
    return np.column_stack(cast)


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
    length = stored.length if isinstance(stored, SparseVectorParts) else len(stored)
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
    names = "column_names" if isinstance(value, pa.Table | pa.RecordBatch) else "columns"
    for axis, part, labels in zip((rows, columns), parts, ("index", names), strict=True):
        axis.check_labels(getattr(value, labels, None), part)
    return stored


# Sparse ones: scipy trusts their parts.  An index out of range crashes the interpreter when another
# format is made of it, and elements that occur twice are added up in their own type, which wraps.


def _sparse_vector_input(value: Any, dtype: Any, *, what: str) -> SparseVectorParts:
    """Return the parts of a sparse array of one row or one column."""
    if value.ndim == 2 and 1 not in value.shape:
        raise UnsupportedInputError(f"{what} has shape {value.shape}; a vector has one dimension")
    column = _sparse_columns(value, dtype, what=what, is_vector=True)
    length = column.shape[0]
    return SparseVectorParts(length, from_one(column.indices, length), column.data)


def _sparse_columns(value: Any, dtype: Any, *, what: str, is_vector: bool = False) -> Any:
    """Return a sparse matrix by columns, the parts of a CSC matrix without a copy; or one column.

    Parameters
    ----------
    is_vector
        Whether to make that of all elements.
    """
    dtype = value.dtype if dtype is None else dtype
    csc = _summable(value, numeric_type(dtype, what=what), what=what)
    if is_vector:
        csc = sp.coo_array(csc).reshape((math.prod(value.shape), 1))
    csc = csc if csc.format == "csc" else sp.csc_array(csc)
    if not csc.has_canonical_format:
        csc = csc.copy()
        csc.sum_duplicates()
    nnz = int(csc.indptr[-1])  # what lies beyond is no part of the matrix
    indices = csc.indices[:nnz]

    def place(numbers: tuple[int, ...]) -> str:
        row = int(indices[numbers[0]])
        column = int(np.searchsorted(csc.indptr, numbers[0], side="right")) - 1
        return position_of((row,) if is_vector else (row, column))

    values = stored_numbers(csc.data[:nnz], dtype, what=what, place=place)
    return sp.csc_array((values, indices, csc.indptr), shape=csc.shape)


def from_one(indices: AnyArray, largest: int) -> AnyArray:
    """Count from 1, in the caller's integer type unless that overflows."""
    fits = largest + 1 <= np.iinfo(indices.dtype).max
    return indices.astype(indices.dtype if fits else np.int64) + 1


def _summable(value: Any, target: StorageType, *, what: str) -> Any:
    """Return the matrix with parts that scipy handles without crashing and without wrapping."""
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
        where = position_of((row, int(sums.indices[number]))[-value.ndim :])
        raise UnsupportedInputError(
            f"{what} has elements stored more than once{where}, whose sum may exceed 64 bits; "
            "nothing was stored: add them up first"
        )
    return wide

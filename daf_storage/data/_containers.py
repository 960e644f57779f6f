"""Convert containers of values to a numpy array or Arrow strings, without changing a value.

numpy alone would change some: it makes strings of a list that mixes strings and numbers, takes the
NUL at the end of a string for padding, makes floats of large integers, and forgets what a masked
array hides.  Here a missing value is an error that names its position, in numpy, pandas, polars
and Arrow alike.  Pure; no Python object per element but for lists and arrays of objects.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from numbers import Integral
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa

from daf_storage._lazy import lazy_module
from daf_storage.base import AnyArray, one_array
from daf_storage.data._casting import position_of
from daf_storage.errors import UnsupportedInputError

if TYPE_CHECKING:
    import pyarrow.compute as pc
else:
    pc = lazy_module("pyarrow.compute")

_EXACT_IN_ANY_FLOAT: Final = 2**24


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
        number = next((n for n, item in enumerate(listed) if not _is_unicode(item)), 0)
        raise UnsupportedInputError(
            f"{what} holds {listed[number]!r}{place(number)}, which cannot be stored as UTF-8 "
            f"({error})"
        ) from error


def arrow_values(value: pa.Array | pa.ChunkedArray, *, what: str) -> AnyArray | pa.Array:
    """Return the values of an Arrow array as numpy, or as they are if they are strings."""
    _check_nulls(value, what=what)
    if isinstance(value.type, pa.DictionaryType) or _is_run_end_encoded(value.type):
        value = _decoded(value)
        _check_nulls(value, what=what)  # the dictionary may have one
    if value.type == pa.null():
        return pa.array([], pa.string())
    if _is_any_string(value.type):
        array = _plain_strings(one_array(value))
        try:
            array.validate(full=True)
        except pa.ArrowException as error:
            raise UnsupportedInputError(
                f"{what} holds strings that are not UTF-8 ({error})"
            ) from error
        return array
    kinds = (pa.types.is_integer, pa.types.is_floating, pa.types.is_boolean, pa.types.is_decimal)
    if not any(is_kind(value.type) for is_kind in kinds):
        raise UnsupportedInputError(
            f"{what} has the Arrow type {value.type}; Daf stores Bool, integers, floats and "
            "strings; cast it to one of them"
        )
    found: AnyArray = one_array(value).to_numpy(zero_copy_only=False)
    return found


def missing_value(where: str, *, what: str) -> UnsupportedInputError:
    """Return the error for a missing value."""
    return UnsupportedInputError(
        f"{what} has a missing value{where}; Daf has none: fill it first (NaN is a float as any, "
        "'' says that there is no string)"
    )


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
            f"{what} has a masked value{where}; Daf has no missing values: call filled() with "
            "the value to store"
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
    """Return the types of the elements of a list and of the lists and arrays in it."""
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
        raise missing_value(position_of((first,)), what=what)


def _is_any_string(kind: pa.DataType) -> bool:
    is_view = hasattr(pa.types, "is_string_view") and pa.types.is_string_view(kind)
    return bool(is_view or pa.types.is_string(kind) or pa.types.is_large_string(kind))


def _plain_strings(array: Any) -> Any:
    """Return string views as strings, large ones where there are many."""
    if pa.types.is_string(array.type) or pa.types.is_large_string(array.type):
        return array
    try:
        return array.cast(pa.string())
    except pa.ArrowException:
        return array.cast(pa.large_string())


def _is_run_end_encoded(kind: pa.DataType) -> bool:
    return bool(pa.types.is_run_end_encoded(kind))


def _decoded(value: Any) -> Any:
    """Return a dictionary or a run-end encoding as plain values."""
    if _is_run_end_encoded(value.type):
        return pc.run_end_decode(value)
    return value.cast(value.type.value_type)


def _is_unicode(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True

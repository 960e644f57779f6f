"""The type that the values of several data sets have together, and how they get it.  Pure."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from daf_storage.base import AnyArray
from daf_storage.data import stored_numbers

_EXACT_FLOAT_BITS = 32


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
    """
    given = set(dtypes)
    dtype = np.result_type(*given)
    if dtype.kind == "f" and not any(each.kind == "f" for each in given):
        dtype = np.dtype(np.int64)
    if isinstance(fill, np.generic):
        return promoted([dtype, fill.dtype])
    if fill is None or dtype.kind == "f":
        return dtype
    if isinstance(fill, bool):
        return np.result_type(dtype, np.bool_)
    if float(fill).is_integer():
        if dtype.kind == "b" and fill in (0, 1):
            return dtype
        if dtype.kind in "iu" and np.iinfo(dtype).min <= fill <= np.iinfo(dtype).max:
            return dtype
        return promoted([dtype, np.min_scalar_type(int(fill))])
    return np.result_type(dtype, np.float32)


def converted(values: AnyArray, dtype: np.dtype[Any], *, what: str) -> AnyArray:
    """Return numbers in another dtype, or an error that names the first that does not fit."""
    if values.dtype == dtype:
        return values
    is_rounding = dtype.kind == "f" and values.dtype.itemsize * 8 > _EXACT_FLOAT_BITS
    if values.dtype.kind in "iu" and (is_rounding or dtype.kind != "f"):
        return stored_numbers(values, dtype, what=what)
    return values.astype(dtype)

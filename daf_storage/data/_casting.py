"""Numbers in another dtype, or an error that names the first one that it cannot hold.

A value is stored as it was given or not at all, with one exception: a float is rounded to the
narrower float type that the caller asked for by ``dtype=``.  An integer is never rounded, a finite
float never becomes infinite, NaN never becomes an integer.  Pure; arrays are checked in blocks,
without a Python object per element unless the array consists of Python objects.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from decimal import Decimal
from numbers import Integral, Rational
from typing import Any, Final, Literal, TypeAlias, get_args

import numpy as np
import numpy.typing as npt

from daf_storage import errors
from daf_storage.base import AnyArray, StorageType
from daf_storage.errors import UnsupportedInputError

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


def not_a_number(item: object, where: str, *, what: str) -> UnsupportedInputError:
    """Return the error for a value that is no number at all."""
    return UnsupportedInputError(
        f"{what} holds {item!r} of type {type(item).__name__}{where}; Daf has no missing values "
        "and no mixed types: pass numbers only, or strings only"
    )


def _check_fits(values: AnyArray, kind: StorageType, *, what: str, place: Place) -> None:
    if not values.size or _fits_by_range(values, kind):
        return
    for start, block in _blocks(values):
        with np.errstate(all="ignore"):
            misfits = _misfits(block, kind)
        if misfits.any():
            first = np.unravel_index(int(np.argmax(misfits)), block.shape)
            item = block[first]
            indices = tuple(int(n) for n in first)
            if indices:
                indices = (indices[0] + start, *indices[1:])
            raise refused(item, place(indices), kind, what=what)


def _blocks(values: AnyArray) -> Iterator[tuple[int, AnyArray]]:
    """Yield ranges of the first dimension with their start; a scalar whole."""
    if values.ndim == 0:
        yield 0, values
        return
    width = math.prod(values.shape[1:])
    step = max(_BLOCK_ELEMENTS // max(width, 1), 1)
    for start in range(0, values.shape[0], step):
        yield start, values[start : start + step]


def _fits_by_range(values: AnyArray, kind: StorageType) -> bool:
    """Return whether the dtypes, or the smallest and the largest integer, tell that all fit."""
    if np.can_cast(values.dtype, kind.dtype, "safe") and not _rounds(values.dtype, kind):
        return True
    if values.dtype.kind not in "iu":
        return False
    low, high = _exact_range(kind)
    return low <= int(values.min()) and int(values.max()) <= high


def _rounds(dtype: np.dtype[Any], kind: StorageType) -> bool:
    """Return whether numpy calls a conversion safe that rounds: of 64-bit integers to Float64."""
    return dtype.kind in "iu" and kind.dtype.kind == "f" and dtype.itemsize >= kind.dtype.itemsize


def _exact_range(kind: StorageType) -> tuple[int, int]:
    """Return a range of which a type can hold all integers."""
    if kind is StorageType.BOOL:
        return 0, 1
    if kind.is_integer:
        limits = np.iinfo(kind.dtype)
        return int(limits.min), int(limits.max)
    largest = 2 ** (np.finfo(kind.dtype).nmant + 1)
    return -largest, largest


def _misfits(block: AnyArray, kind: StorageType) -> npt.NDArray[np.bool_]:
    """Return which numbers a type cannot hold."""
    if kind is StorageType.BOOL:
        return np.asarray((block != 0) & (block != 1))
    is_float = block.dtype.kind == "f"
    if kind.is_integer and not is_float:
        low, high = _exact_range(kind)
        return np.asarray((block < low) | (block > high))
    if kind.is_integer:
        limits = np.iinfo(kind.dtype)
        lowest = block.dtype.type(float(limits.min))
        beyond = block.dtype.type(float(limits.max + 1))  # a power of two, exact if finite
        fits = np.isfinite(block) & (np.trunc(block) == block)
        return np.asarray(~(fits & (block >= lowest) & (block < beyond)))
    cast = block.astype(kind.dtype)
    if is_float:
        return np.asarray(np.isinf(cast) & np.isfinite(block))
    wide = cast.astype(np.float64)
    is_within = wide < float(np.iinfo(block.dtype).max + 1)
    back = np.where(is_within, wide, 0).astype(block.dtype)
    return np.asarray(~is_within | (back != block))


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
            raise not_a_number(item, where, what=what)
    return out.reshape(values.shape)


def _is_put(item: Any, out: AnyArray, number: int) -> bool:
    """Put a number into an array; return whether it is that number, or a float that is rounded."""
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
    types = set(map(type, flat))
    if types and all(issubclass(t, bool | np.bool_) for t in types):
        return StorageType.BOOL
    if not types or not all(issubclass(t, Integral | np.bool_) for t in types):
        return StorageType.FLOAT64
    is_beyond = any(int(item) > _INT64.max for item in flat)
    return StorageType.UINT64 if is_beyond else StorageType.INT64


CountType: TypeAlias = Literal["uint8", "uint16", "uint32"]
"""The types in which whole numbers are stored when that is asked for."""

CountsAs: TypeAlias = "CountType | Mapping[str, CountType] | None"
"""The type of the main matrix, or of matrices by their names."""

_NAMES: Final[tuple[str, ...]] = get_args(CountType)


def count_types(counts_as: CountsAs, main: str) -> dict[str, StorageType]:
    """Return the types that were asked for, by the name of the matrix; checked.

    >>> count_types("uint16", "UMIs")
    {'UMIs': <StorageType.UINT16: 'UInt16'>}
    """
    if counts_as is None:
        return {}
    by_name = {main: counts_as} if isinstance(counts_as, str) else dict(counts_as)
    for name, asked in by_name.items():
        if asked not in _NAMES:
            raise errors.InvalidInputError(
                f"counts_as: the matrix {name!r} cannot be stored as {asked!r}; choose one of "
                f"{', '.join(_NAMES)}"
            )
    return {name: StorageType.of(np.dtype(asked)) for name, asked in by_name.items()}


def changed_by(values: AnyArray, dtype: np.dtype[Any]) -> tuple[AnyArray, int | None]:
    """Return values in another type, and the place of the first that this changes; or None.

    Every bit counts: -0 is no 0, and NaN is no number.

    >>> changed_by(np.array([1.0, 2.0]), np.dtype("u1"))
    (array([1, 2], dtype=uint8), None)
    >>> changed_by(np.array([1.0, 256.0]), np.dtype("u1"))[1]
    1
    """
    if values.dtype == dtype:
        return values, None
    values = np.ascontiguousarray(values)
    with np.errstate(invalid="ignore", over="ignore"):
        cast = values.astype(dtype)
        back = cast.astype(values.dtype)
    width = f"u{values.dtype.itemsize}"
    same = back.reshape(-1).view(width) == values.reshape(-1).view(width)
    return cast, None if bool(same.all()) else int(np.argmin(same))


def refused_value(
    what: str, value: Any, row: str, column: str, dtype: object
) -> errors.UnsupportedInputError:
    """Say which value of a matrix cannot be stored in a type."""
    return errors.UnsupportedInputError(
        f"{what}: the value {value} of row {row!r} and column {column!r} is no {dtype}, so the "
        "matrix is not stored as counts of that type; ask for a wider one, or leave it as it is"
    )

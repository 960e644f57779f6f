"""Values that are stored in a narrower type: exactly, or not at all."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, Literal, TypeAlias, get_args

import numpy as np

from daf_storage import errors
from daf_storage.base import AnyArray, StorageType

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

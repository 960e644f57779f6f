"""The values of a property of one data set, along the axes of another."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from daf_storage import errors
from daf_storage._lazy import lazy_module
from daf_storage.base import AnyArray
from daf_storage.upkeep._alignment import Alignment

if TYPE_CHECKING:
    import scipy.sparse as sp
else:
    sp = lazy_module("scipy.sparse")


def aligned_strings(strings: pa.Array, along: Alignment, empty: Any, *, what: str) -> pa.Array:
    """Return strings along the axis of the destination; ``empty`` where the source has none."""
    if along.is_identity:
        return strings
    if empty is not None and not isinstance(empty, str):
        raise errors.InvalidInputError(f"{what} has strings, and empty={empty!r} is none")
    filled = pa.concat_arrays([strings, pa.array([empty or ""], strings.type)])
    return filled.take(pa.array(np.where(along.taken < 0, len(strings), along.taken)))


def aligned_vector(values: Any, along: Alignment, empty: Any, *, what: str) -> Any:
    """Return numbers along the axis of the destination, sparse if they were and can be.

    Parameters
    ----------
    values
        Shape ``(n,)``; or a sparse array of one row.
    """
    if along.is_identity:
        return values
    if not sp.issparse(values):
        out = filled((along.taken.size,), values.dtype, along, empty, what)
        out[along.places] = values[along.positions]
        return out
    if along.first_missing is not None and empty != 0:
        return aligned_vector(values.toarray()[0], along, empty, what=what)
    found = values.tocoo()
    places = along.moved[found.col]
    is_kept = places >= 0
    places, stored = places[is_kept], found.data[is_kept]
    order = np.argsort(places)
    ends = np.array([0, places.size])
    return sp.csr_array((stored[order], places[order], ends), shape=(1, along.taken.size))


def aligned_matrix(
    values: Any, rows: Alignment, columns: Alignment, empty: Any, *, what: str
) -> Any:
    """Return a matrix along the axes of the destination.

    It is sparse if the source's is, or entries are missing, and the missing elements are zero.
    """
    if rows.is_identity and columns.is_identity:
        return values
    is_embedded = rows.first_missing is not None or columns.first_missing is not None
    is_text = values.dtype.kind == "O"
    is_sparse = sp.issparse(values)
    if not is_text and (is_sparse or is_embedded) and (not is_embedded or empty == 0):
        return _aligned_sparse(values, rows, columns)
    shape = rows.taken.size, columns.taken.size
    if is_text and is_embedded and not isinstance(empty, str):
        raise errors.InvalidInputError(f"{what} has strings, and empty={empty!r} is none")
    lacking = columns if rows.first_missing is None else rows
    out = filled(shape, values.dtype, lacking, empty, what)
    dense = values.toarray() if is_sparse else values
    for place, position in zip(columns.places, columns.positions, strict=True):
        out[rows.places, place] = dense[rows.positions, position]
    return out


def _aligned_sparse(values: Any, rows: Alignment, columns: Alignment) -> Any:
    found = sp.coo_array(values)
    row, column = rows.moved[found.row], columns.moved[found.col]
    is_kept = (row >= 0) & (column >= 0)
    shape = rows.taken.size, columns.taken.size
    parts = (found.data[is_kept], (row[is_kept], column[is_kept]))
    return sp.coo_array(parts, shape=shape).tocsc()


def filled(
    shape: tuple[int, ...], dtype: np.dtype[Any], along: Alignment, empty: Any, what: str
) -> AnyArray:
    """Return an array of a value, which must be one of its type where entries are missing."""
    if dtype.kind == "O":
        return np.full(shape, "" if empty is None else empty, dtype, order="F")
    if along.first_missing is None:
        return np.zeros(shape, dtype, order="F")
    try:
        with np.errstate(all="ignore"):
            value = np.asarray(empty).astype(dtype)[()]
        fits = bool(value == empty) or (value != value and empty != empty)  # noqa: PLR0124 - NaN
    except (ValueError, TypeError, OverflowError):
        fits = False
    if not fits and dtype.kind == "f" and isinstance(empty, float):
        fits = True  # rounded, as floats are
    if not fits:
        raise errors.InvalidInputError(
            f"{what} has elements of type {dtype}, and empty={empty!r} is none; pass dtype= as well"
        )
    return np.full(shape, value, dtype, order="F")

"""Values of all entries of an axis in its order: points, and what they are coloured by.

Batches come in any order; each is put where it belongs, so that nothing is sorted.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from daf_query._runs import Interruptible
from daf_query.explore._axis_rows import AxisRows, Positions, batches_of, expressions_of
from daf_storage import errors

VALUE: Final = "value"
_X: Final = "x"
_Y: Final = "y"


def points_of(
    rows: AxisRows, x: str, y: str, interruptible: Interruptible
) -> npt.NDArray[np.float32]:
    """Return two SQL expressions of each entry, of shape ``(entries, 2)``; NaN where missing.

    Raises
    ------
    QueryError
        They are no numbers, or not one for each entry.
    """
    points = np.full((rows.length, 2), np.nan, np.float32)
    places = _Places(rows)
    wrapped = expressions_of(rows, {_X: x, _Y: y})
    for batch in batches_of(rows.session, wrapped, interruptible, what="coordinates"):
        positions = places.of(batch)
        for number, name in enumerate((_X, _Y)):
            points[positions, number] = _numbers(batch.column(name), "a coordinate", np.float32)
    places.check()
    return points


def values_of(
    rows: AxisRows,
    sql: str,
    interruptible: Interruptible,
    *,
    dtype: Any = np.float32,
    order: pa.Array | None = None,
) -> pa.Array:
    """Return an SQL expression of each entry.

    Parameters
    ----------
    order
        Categories that come first, in their order, whether they occur or not.

    Returns
    -------
    pyarrow.Array
        Numbers of a dtype of numpy, NaN where they are missing; all else as a dictionary of
        strings in alphabetical order, in the smallest codes, NULL where it is missing.

    Raises
    ------
    QueryError
        It has not one value for each entry, or none that can be shown.
    """
    places = _Places(rows)
    wrapped = expressions_of(rows, {VALUE: sql})
    numbers: npt.NDArray[Any] | None = None
    coded: list[tuple[Positions, pa.Array]] = []
    for batch in batches_of(rows.session, wrapped, interruptible, what="expression"):
        positions, column = places.of(batch), batch.column(VALUE)
        if _is_number(column.type):
            numbers = np.full(rows.length, np.nan, dtype) if numbers is None else numbers
            numbers[positions] = _numbers(column, "the expression", dtype)
        else:
            coded.append((positions, _encoded(column)))
    places.check()
    if coded:
        return _categories(rows.length, coded, order)
    return pa.array(np.empty(0, dtype) if numbers is None else numbers)


class _Places:
    """Where rows belong; each entry has one."""

    def __init__(self, rows: AxisRows) -> None:
        self._rows = rows
        self._seen = np.zeros(rows.length, np.bool_)
        self._count = 0

    def of(self, batch: pa.RecordBatch) -> Positions:
        """Return the positions of the rows of a batch."""
        positions = self._rows.positions(batch)
        self._seen[positions] = True
        self._count += batch.num_rows
        return positions

    def check(self) -> None:
        """Refuse what has not one row for each entry."""
        if self._count != self._rows.length or not self._seen.all():
            raise errors.QueryError(
                f"the expression has {self._count:,} values, and axis {self._rows.axis!r} has "
                f"{self._rows.length:,} entries; it needs one for each"
            )


def _is_number(kind: pa.DataType) -> bool:
    types = pa.types
    return bool(types.is_integer(kind) or types.is_floating(kind) or types.is_decimal(kind))


def _numbers(column: pa.Array, what: str, dtype: Any) -> npt.NDArray[Any]:
    """Return numbers, NaN where they are missing."""
    if pa.types.is_null(column.type):
        return np.full(len(column), np.nan, dtype)
    if not _is_number(column.type):
        raise errors.QueryError(f"{what} has to be a number, and is {column.type}")
    if pa.types.is_decimal(column.type):
        column = column.cast(pa.float64())
    if column.null_count:
        column = pc.fill_null(column.cast(pa.float64()), float("nan"))
    with np.errstate(over="ignore", invalid="ignore"):  # too large for the dtype: infinite
        values: npt.NDArray[Any] = column.to_numpy(zero_copy_only=False).astype(dtype)
    return values


def _encoded(column: pa.Array) -> pa.Array:
    """Return values as a dictionary of strings."""
    types, kind = pa.types, column.type
    try:
        if types.is_dictionary(kind):
            return column.cast(pa.dictionary(pa.int32(), pa.string()))
        if not (types.is_nested(kind) or types.is_binary(kind) or types.is_large_binary(kind)):
            return column.cast(pa.string()).dictionary_encode()
    except pa.ArrowNotImplementedError:  # intervals
        pass
    raise errors.QueryError(
        f"the expression is {kind}, which has no colours; it has to be a number or a string"
    )


def _categories(
    length: int, coded: Iterable[tuple[Positions, pa.Array]], order: pa.Array | None
) -> pa.Array:
    """Return one dictionary array of parts, its strings in their order, or the alphabetical."""
    places, parts = zip(*coded, strict=True)
    unified = pa.chunked_array(parts).unify_dictionaries()
    dictionary = unified.chunk(0).dictionary
    first = pa.array([], pa.string()) if order is None else order.cast(pa.string())
    others = dictionary.filter(pc.invert(pc.is_in(dictionary, value_set=first)))
    categories = pa.concat_arrays([first, others.take(pc.sort_indices(others))])
    ranks = np.empty(len(dictionary) + 1, _code_dtype(len(categories)))
    ranks[:-1] = pc.index_in(dictionary, value_set=categories).to_numpy(zero_copy_only=False)
    ranks[-1] = -1
    codes = np.full(length, -1, ranks.dtype)
    for positions, part in zip(places, unified.chunks, strict=True):
        indices = pc.fill_null(part.indices, len(dictionary)).to_numpy(zero_copy_only=False)
        codes[positions] = ranks[indices]
    is_missing = codes < 0
    indices = pa.array(
        np.where(is_missing, 0, codes), mask=is_missing if is_missing.any() else None
    )
    return pa.DictionaryArray.from_arrays(
        indices.cast(pa.from_numpy_dtype(codes.dtype)), categories
    )


def _code_dtype(count: int) -> Any:
    return next(dtype for dtype in (np.int8, np.int16, np.int32) if count <= np.iinfo(dtype).max)

"""The rows of an axis: values of SQL in its order, positions that SQL chooses, and summaries.

Batches come in any order; each is put where it belongs, so that nothing is sorted.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence
from typing import Any, Final, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from daf_query.scan import INDEX, NAME
from daf_query.slice import AxisRows, positions_in
from daf_query.sql import query_result
from daf_query.syntax import (
    is_select,
    quoted_name,
    unopened_bracket,
)
from daf_query.table import DATASET
from daf_storage import errors

Positions: TypeAlias = npt.NDArray[np.int64]


def identity(rows: AxisRows) -> Hashable | None:
    """Return what changes when the entries do; None while they are being changed."""
    first, second = (
        tuple(daf.vector_identity(rows.axis, NAME) for daf in rows.readers) for _ in range(2)
    )
    return first if first == second else None


def chosen_by(rows: AxisRows, sql: str) -> Positions:
    """Return the positions that SQL chooses, ascending, each once.

    Parameters
    ----------
    sql
        A predicate, also in Python's spellings, or a SELECT that yields ``name`` or ``index``.

    Raises
    ------
    QueryError
        It is wrong, or its rows are not of this axis.
    """
    if not is_select(sql):
        if not sql.strip():
            raise errors.QueryError("the predicate is empty")
        return np.unique(rows.chosen(sql))
    result = query_result(rows.engine, sql, allow="read")
    wanted = map(quoted_name, _keys_among(rows, result.column_names))
    return positions_of(rows, result.select(*wanted).to_arrow_table())


def positions_of(rows: AxisRows, table: pa.Table) -> Positions:
    """Return the positions of rows by their keys, ascending, each once.

    An outer join lacks some keys.

    Raises
    ------
    QueryError, NotFoundError
        They are not of this axis.
    """
    keys = table.select(_keys_among(rows, table.column_names)).drop_null()
    try:
        positions = positions_in(rows.whole, keys, "rows")
    except errors.DafError as error:
        raise errors.QueryError(f"the rows are none of axis {rows.axis!r}: {error}") from None
    return np.unique(positions)


def _keys_among(rows: AxisRows, names: Sequence[str]) -> list[str]:
    """Return the columns that say which rows they are."""
    keys = [name for name in (DATASET, INDEX, NAME) if names.count(name) == 1]
    if not keys:
        raise errors.QueryError(
            f"the rows are none of axis {rows.axis!r}: a query has to yield {NAME} or {INDEX}, "
            f"and this yields {errors.shown_names(names, none='none')}"
        )
    return keys


def _expression(rows: AxisRows, sql: str) -> pa.Array:
    if unopened_bracket(sql) is not None:
        raise errors.QueryError(f"a bracket closes none in {sql!r}")
    return rows.values(sql)


def points_of(rows: AxisRows, x: str, y: str) -> npt.NDArray[np.float32]:
    """Return two SQL expressions of each entry, of shape ``(entries, 2)``; NaN where missing.

    Raises
    ------
    QueryError
        They are no numbers, or not one for each entry.
    """
    found = [_expression(rows, sql) for sql in (x, y)]
    return np.stack([_numbers(each, "a coordinate", np.float32) for each in found], axis=1)


def values_of(rows: AxisRows, sql: str, *, order: pa.Array | None = None) -> pa.Array:
    """Return an SQL expression of each entry.

    Parameters
    ----------
    order
        Categories that come first, in their order, whether they occur or not.

    Returns
    -------
    pyarrow.Array
        Numbers as float64, NaN where they are missing; all else as a dictionary of strings in
        alphabetical order, in the smallest codes, NULL where it is missing.

    Raises
    ------
    QueryError
        It has not one value for each entry, or none that can be shown.
    """
    column = _expression(rows, sql)
    if _is_number(column.type):
        return pa.array(_numbers(column, "the expression", np.float64))
    return _categories(_strings(column).dictionary_encode(), order)


def _is_number(kind: pa.DataType) -> bool:
    types = pa.types
    return bool(types.is_integer(kind) or types.is_floating(kind) or types.is_decimal(kind))


def _numbers(column: Any, what: str, dtype: Any) -> npt.NDArray[Any]:
    """Return numbers, NaN where they are missing."""
    if not (_is_number(column.type) or pa.types.is_null(column.type)):
        raise errors.QueryError(f"{what} has to be a number, and is {column.type}")
    if column.null_count or not pa.types.is_integer(column.type):
        column = pc.fill_null(column.cast(pa.float64()), float("nan"))
    with np.errstate(over="ignore", invalid="ignore"):  # too large for the dtype: infinite
        values: npt.NDArray[Any] = column.to_numpy(zero_copy_only=False).astype(dtype)
    return values


def _strings(column: Any) -> Any:
    """Return values as strings."""
    types, kind = pa.types, column.type
    try:
        if types.is_nested(kind) or types.is_binary(kind) or types.is_large_binary(kind):
            raise pa.ArrowNotImplementedError
        return column.cast(pa.string())
    except pa.ArrowNotImplementedError:  # intervals
        raise errors.QueryError(
            f"the expression is {kind}, which has no colours; it has to be a number or a string"
        ) from None


def _categories(coded: pa.DictionaryArray, order: pa.Array | None) -> pa.Array:
    """Return a dictionary array whose strings are in their order, or the alphabetical."""
    dictionary = coded.dictionary
    first = pa.array([], pa.string()) if order is None else order.cast(pa.string())
    others = dictionary.filter(pc.invert(pc.is_in(dictionary, value_set=first)))
    categories = pa.concat_arrays([first, others.take(pc.sort_indices(others))])
    count = len(categories)
    dtype = next(kind for kind in (np.int8, np.int16, np.int32) if count <= np.iinfo(kind).max)
    ranks = np.full(len(dictionary) + 1, -1, dtype)
    ranks[:-1] = pc.index_in(dictionary, value_set=categories).to_numpy(zero_copy_only=False)
    indices = pc.fill_null(coded.indices, len(dictionary)).to_numpy(zero_copy_only=False)
    codes = ranks[indices]
    return pa.DictionaryArray.from_arrays(pa.array(codes, mask=codes < 0), categories)


_BINS: Final = 32
_TOP: Final = 20


def summarised(values: pa.Array, counts: npt.NDArray[Any]) -> dict[str, Any]:
    """Return a summary of a column: of its distinct values, ascending, and their counts.

    NaN counts as missing.

    >>> summarised(pa.array([1.0, float("nan")]), np.array([2, 1]))["top"]
    [['1', 2]]
    """
    is_number = _is_number(values.type)
    is_there = pc.invert(pc.is_null(values, nan_is_null=True))
    if pa.types.is_decimal(values.type):
        values = values.cast(pa.float64())
    elif not is_number:
        values = _strings(values)
    kept = counts[is_there.to_numpy(zero_copy_only=False)]
    values = values.filter(is_there)
    first = np.argsort(-kept, kind="stable")[:_TOP]
    written = map(_written, values.take(pa.array(first)).to_pylist())
    low, high, bins = _bins(values.to_numpy(), kept) if is_number else (None, None, [])
    return {
        "count": int(counts.sum()),
        "nulls": int(counts.sum() - kept.sum()),
        "min": low,
        "max": high,
        "bins": bins,
        "top": [[value, int(kept[place])] for value, place in zip(written, first, strict=True)],
        "distinct": len(values),
    }


def _bins(numbers: npt.NDArray[Any], counts: npt.NDArray[Any]) -> tuple[Any, Any, list[int]]:
    """Return the range, and how many values are in each of equal parts of it."""
    is_finite = np.isfinite(numbers)
    finite, weights = numbers[is_finite], counts[is_finite]
    if not finite.size:
        return None, None, []
    low, high = finite.min().item(), finite.max().item()
    if not math.isfinite(high - low):
        return low, high, []
    # Places from 0 to 1: a narrow range far from zero has no 32 floats that could be edges.
    span = float(high - low)
    if finite.dtype.kind == "i":  # what overflows is right as an unsigned number
        shifted = (finite.astype(np.int64) - np.int64(low)).view(np.uint64)
    else:
        shifted = finite - finite.dtype.type(low)
    places = shifted / span if span else np.full(finite.shape, 0.5)
    binned, _ = np.histogram(places, bins=_BINS, range=(0.0, 1.0), weights=weights)
    return low, high, [round(count) for count in binned]


def _written(value: Any) -> str:
    is_whole = isinstance(value, float) and math.isfinite(value) and value == int(value)
    return str(int(value) if is_whole else value)

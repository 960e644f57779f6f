"""Values of columns and genes, and their summaries, profiles included.

Batches come in any order; each is put where it belongs, so that nothing is sorted.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterator
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from starlette.requests import Request
from starlette.responses import Response

from daf_query.explore._data import AxisRows, Positions
from daf_query.explore._explorer import Explorer
from daf_query.explore._http import Part, address_part, asked_of, json_parts
from daf_query.profile import Profile
from daf_query.scan import NAME
from daf_query.syntax import quoted_name
from daf_storage import errors

VALUE: Final = "value"
_X: Final = "x"
_Y: Final = "y"


def points_of(rows: AxisRows, x: str, y: str) -> npt.NDArray[np.float32]:
    """Return two SQL expressions of each entry, of shape ``(entries, 2)``; NaN where missing.

    Raises
    ------
    QueryError
        They are no numbers, or not one for each entry.
    """
    points = np.empty((rows.length, 2), np.float32)
    places, columns = rows.values(x, y)
    for number, column in enumerate(columns):
        points[:, number] = _numbers(column, "a coordinate", np.float32)[places]
    return points


def values_of(
    rows: AxisRows, sql: str, *, dtype: Any = np.float32, order: pa.Array | None = None
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
    places, (column,) = rows.values(sql)
    if _is_number(column.type):
        return pa.array(_numbers(column, "the expression", dtype)[places])
    return _categories(places, _encoded(column), order)


def _is_number(kind: pa.DataType) -> bool:
    types = pa.types
    return bool(types.is_integer(kind) or types.is_floating(kind) or types.is_decimal(kind))


def _numbers(column: pa.ChunkedArray, what: str, dtype: Any) -> npt.NDArray[Any]:
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
        values: npt.NDArray[Any] = column.to_numpy().astype(dtype)
    return values


def _encoded(column: pa.ChunkedArray) -> pa.DictionaryArray:
    """Return values as a dictionary of strings."""
    types, kind = pa.types, column.type
    try:
        if types.is_dictionary(kind):
            column = column.cast(pa.dictionary(pa.int32(), pa.string()))
        elif types.is_nested(kind) or types.is_binary(kind) or types.is_large_binary(kind):
            raise pa.ArrowNotImplementedError
        else:
            column = column.cast(pa.string()).dictionary_encode()
    except pa.ArrowNotImplementedError:  # intervals
        raise errors.QueryError(
            f"the expression is {kind}, which has no colours; it has to be a number or a string"
        ) from None
    return column.unify_dictionaries().combine_chunks()


def _categories(places: Positions, coded: pa.DictionaryArray, order: pa.Array | None) -> pa.Array:
    """Return a dictionary array whose strings are in their order, or the alphabetical."""
    dictionary = coded.dictionary
    first = pa.array([], pa.string()) if order is None else order.cast(pa.string())
    others = dictionary.filter(pc.invert(pc.is_in(dictionary, value_set=first)))
    categories = pa.concat_arrays([first, others.take(pc.sort_indices(others))])
    ranks = np.empty(len(dictionary) + 1, _code_dtype(len(categories)))
    ranks[:-1] = pc.index_in(dictionary, value_set=categories).to_numpy(zero_copy_only=False)
    ranks[-1] = -1
    indices = pc.fill_null(coded.indices, len(dictionary)).to_numpy(zero_copy_only=False)
    codes = ranks[indices[places]]
    is_missing = codes < 0
    kept = pa.array(np.where(is_missing, 0, codes), mask=is_missing if is_missing.any() else None)
    return pa.DictionaryArray.from_arrays(kept.cast(pa.from_numpy_dtype(codes.dtype)), categories)


def _code_dtype(count: int) -> Any:
    return next(dtype for dtype in (np.int8, np.int16, np.int32) if count <= np.iinfo(dtype).max)


_BINS: Final = 32
_TOP: Final = 20
_MOST_REMEMBERED: Final = 1000
_FEW: Final = 50
_MOST_ENTRIES: Final = 1000


async def summary(explorer: Explorer, request: Request) -> Response:
    """Answer with counts, the range and the top values of a vector."""
    schema, axis, vector = (address_part(request, each) for each in ("schema", "axis", "vector"))

    def produce() -> Iterator[Part]:
        rows = explorer.data.rows(schema, axis)
        key = _identity(rows, vector)
        with explorer.lock:
            known = explorer.summaries.get(key)
        if known is None:
            known = summarised(_values(rows, vector))
            with explorer.lock:
                explorer.summaries[key] = known
                while len(explorer.summaries) > _MOST_REMEMBERED:
                    explorer.summaries.popitem(last=False)
        yield from json_parts(known)

    return explorer.response(produce)


def _values(rows: AxisRows, vector: str) -> pa.Array:
    """Return the values of a vector: whole numbers in any order and exact, others as colours."""
    field = rows.session.table(rows.axis, schema=rows.schema).schema
    place = field.get_field_index(vector)
    if place >= 0 and pa.types.is_integer(field.field(place).type):
        return rows.values(quoted_name(vector))[1][0].combine_chunks()
    return values_of(rows, quoted_name(vector), dtype=np.float64)


def _identity(rows: AxisRows, vector: str) -> Hashable:
    """Return what changes when a vector does."""
    members = rows.session.members(rows.schema).values()
    identities = []
    for daf in members:
        is_there = daf.has_axis(rows.axis) and (vector == NAME or daf.has_vector(rows.axis, vector))
        identities.append(
            (daf.axis_identity(rows.axis), daf.vector_identity(rows.axis, vector))
            if is_there and vector != NAME
            else None
        )
    return id(rows.session), rows.schema, rows.axis, vector, rows.identity(), tuple(identities)


def summarised(values: pa.Array) -> dict[str, Any]:
    """Return a summary of numbers, or of a dictionary of strings; NaN counts as missing.

    >>> summarised(pa.array([1.0, 1.0, float("nan")]))["top"]
    [['1', 2]]
    """
    if pa.types.is_dictionary(values.type):
        return _of_strings(values)
    numbers = values.drop_null().to_numpy(zero_copy_only=False)
    valid = numbers[~np.isnan(numbers)]
    finite = valid[np.isfinite(valid)]
    low, high = (finite.min().item(), finite.max().item()) if finite.size else (None, None)
    different, counts = np.unique(valid, return_counts=True)
    first = np.argsort(-counts, kind="stable")[:_TOP]
    return {
        "count": len(values),
        "nulls": len(values) - int(valid.size),
        "min": low,
        "max": high,
        "bins": _bins(finite, low, high),
        "top": [[_written(different[place]), int(counts[place])] for place in first],
        "distinct": int(different.size),
    }


def _bins(finite: npt.NDArray[Any], low: Any, high: Any) -> list[int]:
    """Return how many values are in each of equal parts of the range."""
    if low is None or high is None or not math.isfinite(high - low):
        return []
    # Places from 0 to 1: a narrow range far from zero has no 32 floats that could be edges.
    span = float(high - low)
    if finite.dtype.kind == "i":  # what overflows is right as an unsigned number
        shifted = (finite.astype(np.int64) - np.int64(low)).view(np.uint64)
    else:
        shifted = finite - finite.dtype.type(low)
    places = shifted / span if span else np.full(finite.shape, 0.5)
    counts, _ = np.histogram(places, bins=_BINS, range=(0.0, 1.0))
    return [int(count) for count in counts]


def _written(number: Any) -> str:
    is_whole = np.isfinite(number) and number == int(number)
    return str(int(number)) if is_whole else str(float(number))


def _of_strings(values: pa.Array) -> dict[str, Any]:
    dictionary, codes = values.dictionary, values.indices.drop_null().to_numpy()
    counts = np.bincount(codes, minlength=len(dictionary))
    first = np.argsort(-counts, kind="stable")[:_TOP]
    return {
        "count": len(values),
        "nulls": int(values.null_count),
        "min": None,
        "max": None,
        "bins": [],
        "top": [[dictionary[int(place)].as_py(), int(counts[place])] for place in first],
        "distinct": len(dictionary),
    }


async def entries(explorer: Explorer, request: Request) -> Response:
    """Answer with the first entries of an axis that begin with some letters, in any case."""
    schema, axis = (address_part(request, each) for each in ("schema", "axis"))
    prefix = request.query_params.get("prefix", "")
    limit = _limit(request.query_params.get("limit", str(_FEW)))

    def produce() -> Iterator[Part]:
        rows = explorer.data.rows(schema, axis)
        names = rows.all_names()
        matching = names.filter(pc.starts_with(names, prefix, ignore_case=True))
        if rows.is_collection:
            matching = pc.unique(matching)
        first = matching.slice(0, limit).to_pylist()
        yield from json_parts({"entries": first, "total": len(matching)})

    return explorer.response(produce)


def _limit(written: str) -> int:
    if not (written.isascii() and written.isdigit() and int(written) <= _MOST_ENTRIES):
        raise errors.InvalidInputError(f"'limit' is a number up to {_MOST_ENTRIES:,}")
    return int(written)


_MISSING: Final = "(missing)"


async def profile(explorer: Explorer, request: Request) -> Response:
    """Answer with the numbers of a dot plot."""
    asked = await asked_of(request)
    names = ("schema", "rows_axis", "columns_axis", "matrix", "by")
    schema, rows_axis, columns_axis, matrix, by = (asked.string(name) for name in names)
    columns, rows = asked.strings("columns"), asked.optional_string("rows")

    def produce() -> Iterator[Part]:
        made = explorer.session.profile(
            rows_axis, columns_axis, matrix, by=by, rows=rows, columns=columns, schema=schema
        )
        yield from json_parts(
            {
                "groups": _groups(made),
                "columns": columns,
                "mean": _listed(made.statistic("mean")),
                "fraction": _listed(made.statistic("fraction")),
                "sizes": made.content.moments.count.tolist(),
            }
        )

    return explorer.response(produce, sql=by)


def _groups(made: Profile) -> list[str]:
    """Return a label for each group."""
    values = [group.to_pylist() for group in made.content.groups.values()]
    return [
        " | ".join(_MISSING if each is None else str(each) for each in row)
        for row in zip(*values, strict=True)
    ]


def _listed(values: npt.NDArray[Any]) -> list[list[float | None]]:
    """Return numbers for JSON, which has no NaN."""
    objects = values.astype(object)
    objects[~np.isfinite(values)] = None
    plain: list[list[float | None]] = objects.tolist()
    return plain

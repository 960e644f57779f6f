"""Summaries of vectors, and entries of axes by the beginning of their names."""

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

from daf_query._runs import Interruptible
from daf_query.explore._axis_rows import AxisRows, batches_of, expressions_of
from daf_query.explore._explorer import Explorer
from daf_query.explore._requests import address_part
from daf_query.explore._responses import Part, json_parts
from daf_query.explore._values import VALUE, values_of
from daf_query.scan import NAME
from daf_query.syntax import quoted_name
from daf_storage import errors

_BINS: Final = 32
_TOP: Final = 20
_MOST_REMEMBERED: Final = 1000
_FEW: Final = 50
_MOST_ENTRIES: Final = 1000


async def summary(explorer: Explorer, request: Request) -> Response:
    """Answer with counts, the range and the top values of a vector."""
    schema, axis, vector = (address_part(request, each) for each in ("schema", "axis", "vector"))

    def produce(interruptible: Interruptible) -> Iterator[Part]:
        rows = explorer.data.rows(schema, axis)
        key = _identity(rows, vector)
        with explorer.lock:
            known = explorer.summaries.get(key)
        if known is None:
            known = summarised(_values(rows, vector, interruptible))
            with explorer.lock:
                explorer.summaries[key] = known
                while len(explorer.summaries) > _MOST_REMEMBERED:
                    explorer.summaries.popitem(last=False)
        yield from json_parts(known)

    return explorer.response(produce)


def _values(rows: AxisRows, vector: str, interruptible: Interruptible) -> pa.Array:
    """Return the values of a vector: whole numbers in any order and exact, others as colours."""
    table = rows.session.table(rows.axis, schema=rows.schema).schema
    if table.get_field_index(vector) < 0 or not pa.types.is_integer(table.field(vector).type):
        return values_of(rows, quoted_name(vector), interruptible, dtype=np.float64)
    wrapped = expressions_of(rows, {VALUE: quoted_name(vector)})
    batches = batches_of(rows.session, wrapped, interruptible, what="expression")
    columns = [batch.column(VALUE) for batch in batches]
    return pa.chunked_array(columns, table.field(vector).type).combine_chunks()


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

    def produce(_: Interruptible) -> Iterator[Part]:
        rows = explorer.data.rows(schema, axis)
        names = pa.chunked_array(rows.all_names())
        matching = names.filter(pc.starts_with(names, prefix, ignore_case=True))
        if rows.joined is not None:
            matching = pc.unique(matching)
        first = matching.slice(0, limit).to_pylist()
        yield from json_parts({"entries": first, "total": len(matching)})

    return explorer.response(produce)


def _limit(written: str) -> int:
    if not (written.isascii() and written.isdigit() and int(written) <= _MOST_ENTRIES):
        raise errors.InvalidInputError(f"'limit' is a number up to {_MOST_ENTRIES:,}")
    return int(written)

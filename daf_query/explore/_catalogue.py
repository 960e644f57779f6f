"""The catalogue for the page: tables with their columns, matrices, and embeddings.

Made of metadata alone: no values along an axis are read.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from daf_query.scan import INDEX, NAME
from daf_query.session import candidates, vector_pairs
from daf_query.slice import AxisRows
from daf_query.sql import AxisSchema, is_number
from daf_query.syntax import unopened_bracket
from daf_query.table import DATASET
from daf_storage import DafReader, DafWriter, errors
from daf_storage._lazy import pc
from daf_storage.data import axes_in_order, is_in_place
from daf_storage.display import bins_of, shortened


def identity(rows: AxisRows) -> Hashable | None:
    """Return what changes when the entries do; None while they are being changed."""
    first, second = (
        tuple(daf.vector_identity(rows.axis, NAME) for daf in rows.readers) for _ in range(2)
    )
    return first if first == second else None


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
    if unopened_bracket(sql) is not None:
        raise errors.QueryError(f"a bracket closes none in {sql!r}")
    column = rows.values(sql)
    if is_number(column.type):
        return column.cast(pa.float64(), safe=False).fill_null(float("nan"))
    return _categories(_strings(column), order)


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


def _categories(strings: Any, order: pa.Array | None) -> pa.Array:
    """Return a dictionary array whose strings are in their order, or the alphabetical."""
    first = pa.array([], pa.string()) if order is None else order.cast(pa.string())
    others = pc.unique(strings).drop_null()
    others = others.filter(pc.invert(pc.is_in(others, value_set=first)))
    categories = pa.concat_arrays([first, others.take(pc.sort_indices(others))])
    count = len(categories)
    kind = next(each for each in (np.int8, np.int16, np.int32) if count <= np.iinfo(each).max)
    codes = pc.index_in(strings, value_set=categories).cast(pa.from_numpy_dtype(kind))
    return pa.DictionaryArray.from_arrays(codes, categories)


_BINS: Final = 32
_TOP: Final = 20


def summarised(values: pa.Array, counts: npt.NDArray[Any]) -> dict[str, Any]:
    """Return a summary of a column: of its distinct values, ascending, and their counts.

    NaN counts as missing.

    >>> summarised(pa.array([1.0, float("nan")]), np.array([2, 1]))["top"]
    [['1', 2]]
    """
    is_numeric = is_number(values.type)
    is_there = pc.invert(pc.is_null(values, nan_is_null=True))
    if not is_numeric:
        values = _strings(values)
    kept = counts[is_there.to_numpy(zero_copy_only=False)]
    values = values.filter(is_there)
    first = np.argsort(-kept, kind="stable")[:_TOP]
    written = map(_written, values.take(pa.array(first)).to_pylist())
    numbers = values.to_numpy() if is_numeric else np.empty(0)
    finite = numbers[np.isfinite(numbers)]
    bins = bins_of(numbers, kept, parts=_BINS) if is_numeric else ()
    return {
        "count": int(counts.sum()),
        "nulls": int(counts.sum() - kept.sum()),
        "min": finite.min().item() if finite.size else None,
        "max": finite.max().item() if finite.size else None,
        "bins": bins,
        "top": [[value, int(kept[place])] for value, place in zip(written, first, strict=True)],
        "distinct": len(values),
    }


def _written(value: Any) -> str:
    is_whole = isinstance(value, float) and math.isfinite(value) and value == int(value)
    return str(int(value) if is_whole else value)


_MOST_DIMENSIONS: Final = 2000
_FIRST: Final = ("spatial", "umap", "tsne", "draw_graph", "phate", "diffmap", "pca")
"""What people look at first."""


def _rank(name: str) -> int:
    folded = name.casefold()
    return next((rank for rank, each in enumerate(_FIRST) if each in folded), len(_FIRST))


def _of_matrices(members: Sequence[DafReader], axis: str) -> Iterator[str]:
    """Yield the matrices whose other axis has their columns alone."""
    for daf in members:
        for _, other, name in candidates(daf, axis):
            with suppress(errors.DafError):  # of what is damaged
                if _is_own_axis(name, other) and _is_embedding(daf, axis, other, name):
                    yield name


def _is_own_axis(name: str, axis: str) -> bool:
    """Return whether an axis is that of the columns of a matrix, as imports make it.

    >>> _is_own_axis("X_umap", "X_umap"), _is_own_axis("umap", "umap_axis")
    (True, True)
    >>> _is_own_axis("X", "gene")
    False
    """
    stem, folded = name.casefold().removeprefix("x_"), axis.casefold()
    return name == axis or (len(stem) > 1 and stem in folded) or name.startswith("X_")


def _is_embedding(daf: DafReader, axis: str, other: str, name: str) -> bool:
    """Return whether a matrix is of dense numbers, and its other axis of its dimensions."""
    if not 2 <= daf.axis_length(other) <= _MOST_DIMENSIONS or daf.vectors_set(other):
        return False
    info = next(stored.info for stored in daf.open_orientations(axis, other, name))
    return not info.is_sparse and not info.storage_type.is_string


_SHOWN: Final = 200
"""Characters of a scalar that are shown."""
_KEYS: Final = (NAME, INDEX)


def embeddings_of(tables: AxisSchema, axis: str) -> list[str]:
    """Return the embeddings of an axis, those that people look at first coming first.

    They are matrices, or what the names of two vectors have in common.
    """
    members = list(tables.readers(axis).values())
    fields = _fields(tables, axis)
    numbers = [field.name for field in fields if kind_of(field.type) == "number"]
    names = {*_of_matrices(members, axis), *vector_pairs(numbers)}
    return sorted(names, key=lambda name: (_rank(name), name))


def kind_of(data_type: pa.DataType) -> str:
    """Return what a column is to people.

    >>> [kind_of(each) for each in (pa.int8(), pa.string_view(), pa.timestamp("s"), pa.binary())]
    ['number', 'string', 'date', 'other']
    """
    types = pa.types
    if types.is_dictionary(data_type):
        return kind_of(data_type.value_type)
    found = (
        kind
        for kind, tests in _KINDS.items()
        if any(getattr(types, f"is_{test}")(data_type) for test in tests)
    )
    return next(found, "other")


_KINDS: Final[Mapping[str, tuple[str, ...]]] = {
    "boolean": ("boolean",),
    "number": ("integer", "floating", "decimal"),
    "date": ("date", "timestamp", "time", "duration"),
    "string": ("string", "large_string", "string_view"),
}


def data_set(tables: AxisSchema) -> dict[str, Any]:
    """Return what a data set has, for JSON."""
    members = tables.readers()
    scalars = [] if tables.is_collection else tables.description("scalars").to_table().to_pylist()
    return {
        "schema": tables.name,
        "path": tables.location,
        "form": _form(members, is_collection=tables.is_collection),
        "is_collection": tables.is_collection,
        "axes": [_axis(tables, axis) for axis in _axes(members.values())],
        "matrices": list(_matrices(tables, members.values())),
        "scalars": {row["name"]: shortened(row["value"], _SHOWN) for row in scalars},
    }


def _form(members: Mapping[str, DafReader], *, is_collection: bool) -> str:
    if is_collection:
        return f"collection of {len(members):,} data sets"
    (daf,) = members.values()
    if is_in_place(daf):
        return "AnnData, read in place"
    if daf.location == "<memory>":
        return "data set in memory"
    if isinstance(daf, DafWriter):
        return "data set with an overlay"
    path = daf.location.partition("#")[0]
    return "archive" if path.endswith(".zip") else "data set"


def _axes(members: Iterable[DafReader]) -> list[str]:
    """Return the axes of all, those of observations and variables first."""
    return list(dict.fromkeys(axis for daf in members for axis in axes_in_order(daf)))


def _fields(tables: AxisSchema, axis: str) -> list[pa.Field]:
    """Return the columns of a table that are vectors."""
    keys = (*_KEYS, DATASET) if tables.is_collection else _KEYS
    return [field for field in tables.dataset(axis).schema if field.name not in keys]


def _axis(tables: AxisSchema, axis: str) -> dict[str, Any]:
    described: dict[str, Any] = {
        "name": axis,
        "length": None,
        "vectors": [],
        "embeddings": [],
        "problem": None,
    }
    try:
        described["length"] = tables.axis_length(axis)
        described["vectors"] = [
            {"name": field.name, "type": str(field.type), "kind": kind_of(field.type)}
            for field in _fields(tables, axis)
        ]
        described["embeddings"] = embeddings_of(tables, axis)
    except errors.DafError as error:
        described["problem"] = str(error)
    return described


def _matrices(tables: AxisSchema, members: Iterable[DafReader]) -> Iterator[dict[str, Any]]:
    """Yield the matrices, the rows being those of the axis that comes first; the main one first.

    That is the one of the first two axes, and of its layers X; square ones come last.
    """
    order = {axis: place for place, axis in enumerate(_axes(members))}
    merged: dict[tuple[str, str, str], dict[str, Any]] = {}
    for row in tables.description("matrices").to_table().to_pylist():
        axes = sorted((row["rows_axis"], row["columns_axis"]), key=lambda axis: order.get(axis, 0))
        key = (axes[0], axes[1], row["name"])
        if key in merged:  # of another data set
            merged[key]["stored"] += row["elements"]
            continue
        merged[key] = {
            "rows": axes[0],
            "columns": axes[1],
            "name": row["name"],
            "type": row["type"],
            "layouts": row["layouts"],
            "stored": row["elements"],
            "is_sparse": row["is_sparse"],
        }

    def place(key: tuple[str, str, str]) -> tuple[Any, ...]:
        rows, columns, name = key
        return rows == columns, order.get(rows, 0), order.get(columns, 0), name != "X", name

    yield from (merged[key] for key in sorted(merged, key=place))

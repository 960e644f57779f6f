"""The catalogue for the page: tables with their columns, matrices, and embeddings.

Made of metadata alone: no values along an axis are read.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa

from daf_query.scan import INDEX, NAME
from daf_query.session import DafSession
from daf_query.sql import AxisSchema
from daf_query.syntax import quoted_name, quoted_string
from daf_query.table import DATASET
from daf_storage import DafReader, DafWriter, errors
from daf_storage.data import axes_in_order, is_in_place

_MOST_DIMENSIONS: Final = 2000
_FIRST: Final = ("spatial", "umap", "tsne", "draw_graph", "phate", "diffmap", "pca")
"""What people look at first."""
_PAIRS: Final = (("1", "2"), ("0", "1"), ("x", "y"), ("X", "Y"))
_PAIR: Final = re.compile(r"(?P<stem>.*?)[_.\- ]?(?P<side>[12xyXY0])$", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Embedding:
    """Two columns that are x and y."""

    name: str
    """The matrix, or what the names of two vectors have in common."""
    x: str
    """The SQL of x."""
    y: str
    """The SQL of y."""
    x_label: str
    y_label: str
    matrix: tuple[str, str] | None = None
    """The other axis and the name of a matrix whose first two columns they are."""


def embeddings_of(
    members: Sequence[DafReader], axis: str, vectors: Iterable[str]
) -> list[Embedding]:
    """Return the embeddings of an axis, those that people look at first coming first.

    Parameters
    ----------
    members
        The data sets that have the axis.
    vectors
        The names of its vectors that are numbers.
    """
    named: dict[str, Embedding] = {}
    for embedding in (*_of_matrices(members, axis), *_of_vectors(list(vectors))):
        named.setdefault(embedding.name, embedding)
    return sorted(named.values(), key=lambda each: (_rank(each.name), each.name))


def _shown(embedding: Embedding) -> dict[str, Any]:
    """Return what JSON has of an embedding."""
    names = ("name", "x", "y", "x_label", "y_label")
    return {name: getattr(embedding, name) for name in names}


def _rank(name: str) -> int:
    folded = name.casefold()
    return next((rank for rank, each in enumerate(_FIRST) if each in folded), len(_FIRST))


def _of_matrices(members: Sequence[DafReader], axis: str) -> Iterator[Embedding]:
    """Yield those of matrices whose other axis has their columns alone."""
    for daf in members:
        for other in sorted(daf.axes_set() - {axis}):
            for name in sorted(daf.matrices_set(axis, other)):
                with suppress(errors.DafError):  # of what is damaged
                    if _is_own_axis(name, other) and _is_embedding(daf, axis, other, name):
                        yield _of_matrix(daf, other, name)


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


def _of_matrix(daf: DafReader, other: str, name: str) -> Embedding:
    """Return an embedding; a dimension is called by its entry, if that is no number."""
    entries = [str(entry) for entry in daf.axis_entries(other, [0, 1])]
    column = quoted_name(f"{other}.{name}")
    x, y = (f"{column}[{quoted_string(entry)}]" for entry in entries)
    labels = [f"{name} {n}" if e.isdigit() else e for n, e in enumerate(entries, 1)]
    return Embedding(name, x, y, labels[0], labels[1], (other, name))


def _of_vectors(vectors: Sequence[str]) -> Iterator[Embedding]:
    """Yield pairs of vectors such as ``umap_1`` and ``umap_2``, or ``x`` and ``y``."""
    sides: dict[str, dict[str, str]] = {}
    for vector in vectors:
        match = _PAIR.match(vector)
        if match:
            sides.setdefault(match["stem"], {})[match["side"]] = vector
    for stem, named in sides.items():
        for first, second in _PAIRS:
            if first in named and second in named:
                x, y = named[first], named[second]
                yield Embedding(stem or f"{x}, {y}", quoted_name(x), quoted_name(y), x, y)
                break


_SHOWN: Final = 200
"""Characters of a scalar that are shown."""
_KEYS: Final = (NAME, INDEX)


def catalogue(session: DafSession) -> list[dict[str, Any]]:
    """Return the data sets, for JSON."""
    schemas = session._connections.schemas  # noqa: SLF001 - our own
    return [_data_set(tables) for tables in schemas.values()]


def axis_embeddings(tables: AxisSchema, axis: str) -> list[Embedding]:
    """Return the embeddings of an axis."""
    members = [daf for daf in tables.readers().values() if daf.has_axis(axis)]
    fields = _fields(tables, axis)
    numbers = [field.name for field in fields if kind_of(field.type) == "number"]
    return embeddings_of(members, axis, numbers)


def kind_of(data_type: pa.DataType) -> str:
    """Return what a column is to people.

    >>> kind_of(pa.int8()), kind_of(pa.string_view()), kind_of(pa.timestamp("s"))
    ('number', 'string', 'date')
    """
    types = pa.types
    if types.is_dictionary(data_type):
        return kind_of(data_type.value_type)
    for kind, tests in _KINDS.items():
        if any(getattr(types, f"is_{test}")(data_type) for test in tests):
            return kind
    return "other"


_KINDS: Final[Mapping[str, tuple[str, ...]]] = {
    "boolean": ("boolean",),
    "number": ("integer", "floating", "decimal"),
    "date": ("date", "timestamp", "time", "duration"),
    "string": ("string", "large_string", "string_view"),
}


def _data_set(tables: AxisSchema) -> dict[str, Any]:
    members = tables.readers()
    return {
        "schema": tables.name,
        "path": tables.location,
        "form": _form(members, is_collection=tables.is_collection),
        "is_collection": tables.is_collection,
        "axes": [_axis(tables, axis) for axis in _axes(members.values())],
        "matrices": list(_matrices(tables, members.values())),
        "scalars": _scalars(members.values()),
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
        embeddings = axis_embeddings(tables, axis)
        described["embeddings"] = [_shown(embedding) for embedding in embeddings]
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


def _scalars(members: Iterable[DafReader]) -> dict[str, Any]:
    """Return the scalars of a single data set, long ones shortened."""
    readers: Sequence[DafReader] = list(members)
    scalars: dict[str, Any] = {}
    for name in sorted(readers[0].scalars_set()) if len(readers) == 1 else ():
        with suppress(errors.DafError):
            value = readers[0].get_scalar(name)
            is_long = isinstance(value, str) and len(value) > _SHOWN
            scalars[name] = f"{value[:_SHOWN]}…" if is_long else _plain(value)
    return scalars


def _plain(value: Any) -> Any:
    """Return a value that JSON has."""
    plain = value.item() if hasattr(value, "item") else value
    return plain if not isinstance(plain, float) or abs(plain) < float("inf") else str(plain)

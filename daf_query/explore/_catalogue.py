"""The catalogue: data sets, axes with their vectors and embeddings, matrices, scalars.

Made of metadata alone: no values along an axis are read.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any, Final

import pyarrow as pa

from daf_query.explore._embeddings import Embedding, embeddings_of
from daf_query.scan import INDEX, NAME
from daf_query.session import DafSession
from daf_query.table import DATASET
from daf_storage import DafReader, DafWriter, errors
from daf_storage.spi import axes_in_order, is_in_place

_SHOWN: Final = 200
"""Characters of a scalar that are shown."""
_KEYS: Final = (NAME, INDEX)


def catalogue(session: DafSession) -> list[dict[str, Any]]:
    """Return the data sets, for JSON."""
    return [_data_set(session, name) for name in session._connections.schemas]  # noqa: SLF001 - our own


def axis_embeddings(session: DafSession, schema: str, axis: str) -> list[Embedding]:
    """Return the embeddings of an axis."""
    members = [daf for daf in session.members(schema).values() if daf.has_axis(axis)]
    fields = _fields(session, schema, axis)
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


def _data_set(session: DafSession, schema: str) -> dict[str, Any]:
    members = session.members(schema)
    tables = session._connections.schema(schema)  # noqa: SLF001 - our own
    return {
        "schema": schema,
        "path": tables.location,
        "form": _form(members, is_collection=tables.is_collection),
        "is_collection": tables.is_collection,
        "axes": [_axis(session, schema, axis) for axis in _axes(members.values())],
        "matrices": list(_matrices(session, schema, members.values())),
        "scalars": _scalars(members.values()),
    }


def _form(members: Mapping[str, DafReader], *, is_collection: bool) -> str:
    if is_collection:
        return f"{len(members):,} data sets as one"
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


def _fields(session: DafSession, schema: str, axis: str) -> list[pa.Field]:
    """Return the columns of a table that are vectors."""
    tables = session._connections.schema(schema)  # noqa: SLF001 - our own
    keys = (*_KEYS, DATASET) if tables.is_collection else _KEYS
    return [field for field in tables.dataset(axis).schema if field.name not in keys]


def _axis(session: DafSession, schema: str, axis: str) -> dict[str, Any]:
    described: dict[str, Any] = {
        "name": axis,
        "length": None,
        "vectors": [],
        "embeddings": [],
        "problem": None,
    }
    try:
        described["length"] = session._connections.schema(schema).axis_length(axis)  # noqa: SLF001 - our own
        described["vectors"] = [
            {"name": field.name, "type": str(field.type), "kind": kind_of(field.type)}
            for field in _fields(session, schema, axis)
        ]
        embeddings = axis_embeddings(session, schema, axis)
        described["embeddings"] = [embedding.to_dict() for embedding in embeddings]
    except errors.DafError as error:
        described["problem"] = str(error)
    return described


def _matrices(
    session: DafSession, schema: str, members: Iterable[DafReader]
) -> Iterator[dict[str, Any]]:
    """Yield the matrices, the rows being those of the axis that comes first; the main one first.

    That is the one of the first two axes, and of its layers X; square ones come last.
    """
    order = {axis: place for place, axis in enumerate(_axes(members))}
    tables = session._connections.schema(schema)  # noqa: SLF001 - our own
    known: dict[tuple[str, str, str], dict[str, Any]] = {}
    for row in tables.description("matrices").to_table().to_pylist():
        axes = sorted((row["rows_axis"], row["columns_axis"]), key=lambda axis: order.get(axis, 0))
        key = (axes[0], axes[1], row["name"])
        if key in known:  # of another data set
            known[key]["stored"] += row["elements"]
            continue
        known[key] = {
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

    yield from (known[key] for key in sorted(known, key=place))


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

"""Vectors out of a table whose rows are found by a key: labels that another program made."""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from daf_query.scan import INDEX, NAME
from daf_query.session._derived_axis import rows_of
from daf_query.session._storable import is_any_string, one_array, storable
from daf_query.sql import Engine, Params
from daf_query.table import is_user_table, user_table
from daf_storage import DafReader, DafWriter, IfExists, errors

_MOST_EXAMPLES: Final = 5
_EXACT: Final = 1 << 53


@dataclass(frozen=True, slots=True)
class Annotation:
    """What was stored of a table, and which of its rows found no entry."""

    axis: str
    """The axis that was annotated."""
    vectors: Mapping[str, str]
    """The vectors that were stored, with their types."""
    entries: int
    """How many entries the axis has."""
    matched: int
    """How many of them have a row."""
    unmatched_keys: int
    """How many rows have a key that is no entry, or none."""
    examples: tuple[str, ...]
    """The first few of these keys."""

    def to_dict(self) -> dict[str, Any]:
        """Return it as plain Python, for JSON."""
        return {**asdict(self), "examples": list(self.examples)}

    def __str__(self) -> str:
        stored = ", ".join(f"{name} ({kind})" for name, kind in self.vectors.items())
        text = f"{stored}: {self.matched:,} of {self.entries:,} entries of {self.axis} have a row"
        if not self.unmatched_keys:
            return text
        return f"{text}; {_unmatched(self.axis, self.unmatched_keys, self.examples)}"


@dataclass(frozen=True, slots=True)
class AnnotationChoice:
    """Which columns are stored, and how."""

    key: str | None
    columns: Sequence[str] | Mapping[str, str] | None
    fill: Mapping[str, Any]
    strict: bool
    if_exists: IfExists


def table_of(engine: Engine, rows: Any, key: str | None, params: Params | None) -> pa.Table:
    """Return the rows of a file, a data frame, a query or its result.

    The keys of a text file are strings, also if they look like numbers: ``007`` is not 7.
    """
    if isinstance(rows, Path) or (isinstance(rows, str) and _is_file(rows)):
        if params is not None:
            raise errors.InvalidInputError("params= are of a query; a file has its values already")
        found = user_table(rows, strings=(NAME,) if key is None else (key,)).rows
        return found if isinstance(found, pa.Table) else found.to_table()
    return rows_of(engine, rows, params)


def _is_file(text: str) -> bool:
    """Return whether a text is the path of a file of rows, or of some other file, and no query."""
    # A query may be longer than a path, which is an error of Path.is_file.
    return is_user_table(text) or os.path.isfile(text)  # noqa: PTH113


def annotate(daf: DafWriter, axis: str, table: pa.Table, choice: AnnotationChoice) -> Annotation:
    """Store columns of a table as vectors; see `AxisWriting.annotate`.

    Nothing is stored if one of them is refused.
    """
    key = _key(table, choice.key)
    named = _chosen(table, key, choice.columns)
    _check_fill(choice.fill, named)
    keys = _keys(table, key)
    positions = daf.axis_indices(axis, keys, allow_empty=True, allow_missing=True)
    rows = _rows_of_entries(daf, axis, keys, positions, key)
    unmatched = keys.filter(pa.array(positions < 0))
    examples = tuple(map(str, unmatched[:_MOST_EXAMPLES].to_pylist()))
    if choice.strict and len(unmatched):
        problem = _unmatched(axis, len(unmatched), examples)
        raise errors.EntryNotFoundError(f"{daf.location}: {problem}; nothing was stored")
    vectors = {
        name: _values(table.column(column), rows, name, axis, choice.fill)
        for name, column in named.items()
    }
    _store(daf, axis, vectors, choice.if_exists)
    return Annotation(
        axis,
        {name: daf.vector_info(axis, name).storage_type.value for name in vectors},
        daf.axis_length(axis),
        int(np.count_nonzero(rows >= 0)),
        len(unmatched),
        examples,
    )


def _store(daf: DafWriter, axis: str, vectors: Mapping[str, pa.Array], if_exists: IfExists) -> None:
    for name in vectors if if_exists == "error" else ():
        if daf.has_vector(axis, name):
            what = f"vector {name!r} of axis {axis!r}"
            raise errors.property_exists(daf.location, what, is_append_only=daf.is_append_only)
    with daf.batch():
        for name, values in vectors.items():
            has_missing = values.null_count > 0
            stored = values.fill_null("") if has_missing else values
            daf.set_vector(axis, name, stored, if_exists=if_exists, empty_is_missing=has_missing)


def _unmatched(axis: str, count: int, examples: Sequence[str]) -> str:
    shown = ", ".join(map(repr, examples)) + (", ..." if count > len(examples) else "")
    return (
        f"{count:,} {'key is no entry' if count == 1 else 'keys are no entries'} of {axis}: {shown}"
    )


def _key(table: pa.Table, key: str | None) -> str:
    if key is None and NAME not in table.column_names:
        raise errors.InvalidInputError(
            f"say which column has the entries with key=; there are {', '.join(table.column_names)}"
        )
    _check_column(table, key or NAME)
    return key or NAME


def _chosen(
    table: pa.Table, key: str, columns: Sequence[str] | Mapping[str, str] | None
) -> dict[str, str]:
    """Return the column of each vector; by default all but the key."""
    if isinstance(columns, str):
        columns = [columns]
    if columns is None:
        columns = [column for column in table.column_names if column != key]
    named = dict(columns) if isinstance(columns, Mapping) else {name: name for name in columns}
    if not named:
        raise errors.InvalidInputError(f"the table has no column beside the key {key!r}")
    for column in named.values():
        _check_column(table, column)
    for reserved in {NAME, INDEX} & set(named):
        raise errors.InvalidNameError(
            f"no vector can be called {reserved!r}, since every axis has one of this name; pass "
            f"columns={{'other': {reserved!r}}}, or only the columns that are meant"
        )
    return named


def _check_column(table: pa.Table, column: str) -> None:
    if column not in table.column_names:
        known = errors.known_names(table.column_names, none="none")
        raise errors.InvalidInputError(
            f"the table has no column {column!r}; it has {known}"
            f"{errors.nearest(column, table.column_names)}"
        )


def _check_fill(fill: Mapping[str, Any], named: Collection[str]) -> None:
    for name in fill:
        if name not in named:
            raise errors.InvalidInputError(
                f"fill= has a value for {name!r}, which is none of the vectors {', '.join(named)}"
            )


def _keys(table: pa.Table, key: str) -> pa.Array:
    keys = one_array(table.column(key))
    if not is_any_string(keys.type) and not pa.types.is_integer(keys.type):
        raise errors.InvalidInputError(
            f"the key {key!r} holds {keys.type}, and the entries of an axis are strings; CAST it"
        )
    return pc.fill_null(keys.cast(pa.large_string()), "")


def _rows_of_entries(
    daf: DafReader, axis: str, keys: pa.Array, positions: Any, key: str
) -> np.ndarray[Any, np.dtype[np.int64]]:
    """Return the number of the row of each entry, or -1."""
    length = daf.axis_length(axis)
    counts = np.bincount(positions[positions >= 0], minlength=length)
    if counts.size and int(counts.max()) > 1:
        twice = keys[int(np.argmax(positions == int(np.argmax(counts > 1))))].as_py()
        raise errors.DuplicateEntriesError(
            f"{int((counts > 1).sum()):,} entries of axis {axis!r} have more than one row of key "
            f"{key!r}, the first is {twice!r}; leave one row for each"
        )
    if length and not counts.any():
        first = daf.get_pa_vector(axis, NAME)[0].as_py()
        shown = repr(keys[0].as_py()) if len(keys) else "no rows"
        raise errors.EntryNotFoundError(
            f"{daf.location}: no key {key!r} of the table is an entry of axis {axis!r}: the table "
            f"has {shown}, the axis {first!r}; nothing was stored"
        )
    rows = np.full(length, -1, np.int64)
    rows[positions[positions >= 0]] = np.flatnonzero(positions >= 0)
    return rows


def _values(
    column: pa.ChunkedArray, rows: Any, name: str, axis: str, fill: Mapping[str, Any]
) -> pa.Array:
    """Return the values of a column in the order of the axis, in a type that is stored."""
    what = f"vector {name!r} of axis {axis!r}"
    plain = _plain(one_array(column))
    values = plain.take(pa.array(rows, mask=rows < 0))
    if name in fill:
        values = _filled(values, fill[name], what)
    if values.null_count and pa.types.is_integer(values.type):
        values = _as_floats(values, what)
    if values.null_count and pa.types.is_boolean(values.type):
        raise errors.InvalidInputError(
            f"{what} has no value for {values.null_count:,} entries, and a Bool cannot be missing; "
            f"say with fill= which value {name!r} has there"
        )
    if values.null_count and is_any_string(values.type):
        values = pc.if_else(pc.equal(values, ""), pa.scalar(None, values.type), values)
    return storable(values, what, f"entries of axis {axis!r}")


def _plain(values: pa.Array) -> pa.Array:
    """Return dates and times as strings, decimals as floats: what can be stored of them."""
    kind = values.type
    if pa.types.is_temporal(kind) or pa.types.is_null(kind) or kind == pa.string_view():
        return values.cast(pa.string())
    return values.cast(pa.float64()) if pa.types.is_decimal(kind) else values


def _filled(values: pa.Array, value: Any, what: str) -> pa.Array:
    try:
        return pc.fill_null(values, pa.scalar(value, values.type))
    except (pa.ArrowException, TypeError) as error:
        raise errors.InvalidInputError(
            f"{what} holds {values.type}, and fill= has {value!r} for it"
        ) from error


def _as_floats(values: pa.Array, what: str) -> pa.Array:
    """Return whole numbers of which some are missing as floats, if none changes."""
    bounds = pc.min_max(values).as_py()
    if bounds["max"] is not None and max(abs(bounds["min"]), abs(bounds["max"])) > _EXACT:
        raise errors.InvalidInputError(
            f"{what} has no value for {values.null_count:,} entries, so it is stored as floats, "
            f"which cannot hold {max(bounds.values(), key=abs):,}; pass fill=, or store strings"
        )
    return values.cast(pa.float64())

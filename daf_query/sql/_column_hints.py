"""Hints for a column that an axis does not have: where a vector or an entry of that name is.

Must not cost more than the error is worth: entries are compared where they are decoded already, or
few; nothing is built of them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

import pyarrow.compute as pc

from daf_query.sql._axis_schema import AxisSchema
from daf_query.sql._collection_schema import CollectionSchema
from daf_query.sql._data_set_schema import DafSchema
from daf_query.syntax import joined_names, quoted_name
from daf_storage import DafError, DafReader

_MOST_ENTRIES: Final = 1 << 20
"""How many entries of an axis are decoded for a hint; more, if they are decoded already."""
_MOST_FOLDED: Final = 1 << 16
"""How many entries are compared without regard to case."""
_MOST_FORMS: Final = 3


def entry_hint(name: str, query: str, schema: AxisSchema, axis: str) -> str:
    """Return how to write an entry of another axis, as ``X['MS4A1']``; empty if it is none.

    Parameters
    ----------
    name
        The column that is not there; of ``HLA-DRA > 1``, the engine misses ``HLA``.
    axis
        The axis whose table does not have it.
    """
    names = joined_names(query, name)
    hints = []
    for daf in _data_sets(schema):
        matrices = _matrices_over(daf, axis)
        for other in sorted(matrices):
            entry = _entry(daf, other, names)
            if entry is not None:
                forms = _forms(other, entry, matrices)
                hints.append(f"{entry!r} is an entry of axis {other!r}: write {forms}")
        if hints:
            break
    return "; ".join(hints)


def join_hint(schema: AxisSchema, axis: str, other: str) -> str:
    """Return how to join an axis with another; empty if no vector has entries of it."""
    for daf in _data_sets(schema):
        if not {axis, other} <= daf.axes_set():
            continue
        for relation in daf.relations():
            if (relation.axis, relation.to_axis) == (axis, other):
                column = f"{_identifier(axis)}.{_identifier(relation.vector)}"
                table = _identifier(other)
                entries = f"(SELECT name FROM {table} WHERE ...)"  # noqa: S608 - a message
                return f": JOIN {table} ON {column} = {table}.name, or {column} IN {entries}"
    return ""


def _data_sets(schema: AxisSchema) -> Iterator[DafReader]:
    if isinstance(schema, DafSchema):
        yield schema.daf
    elif isinstance(schema, CollectionSchema):
        for member in schema.members.values():
            yield member.daf


def _matrices_over(daf: DafReader, axis: str) -> dict[str, list[str]]:
    """Return the names of the matrices of an axis with each other one that has some."""
    axes = daf.axes_set()
    if axis not in axes:
        return {}
    named = {other: sorted(daf.matrices_set(axis, other)) for other in axes - {axis}}
    return {other: names for other, names in named.items() if names}


def _entry(daf: DafReader, axis: str, names: Sequence[str]) -> str | None:
    """Return the first of some names that an axis has, maybe in other case."""
    try:
        length = daf.axis_length(axis)
        if length > _MOST_ENTRIES and daf.known_entries(axis) is None:
            return None
        positions = daf.axis_indices(axis, names, allow_missing=True, allow_empty=True)
        for name, position in zip(names, positions, strict=True):
            if position >= 0:
                return name
        return _in_other_case(daf, axis, names) if length <= _MOST_FOLDED else None
    except DafError:  # the axis is damaged: the error is about something else
        return None


def _in_other_case(daf: DafReader, axis: str, names: Sequence[str]) -> str | None:
    entries = daf.get_pa_vector(axis, "name")
    folded = pc.utf8_lower(entries)
    for name in names:
        position = pc.index(folded, name.lower()).as_py()
        if position >= 0:
            return str(entries[position].as_py())
    return None


def _forms(other: str, entry: str, matrices: dict[str, list[str]]) -> str:
    """Return how queries name an entry, of each matrix that has it."""
    written = entry.replace("'", "''")
    forms = []
    for name in matrices[other][:_MOST_FORMS]:
        is_shared = sum(name in names for names in matrices.values()) > 1
        matrix = quoted_name(f"{other}.{name}") if is_shared else _identifier(name)
        forms.append(f"{matrix}['{written}']")
    return " or ".join(forms)


def _identifier(name: str) -> str:
    """Return a name, quoted if it has to be."""
    return name if name.isascii() and name.isidentifier() else quoted_name(name)

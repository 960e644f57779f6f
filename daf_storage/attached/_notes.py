"""The notes that an import of an AnnData would have stored, made when they are read."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from contextlib import suppress
from typing import Any

from daf_storage.anndata_rules import Notes
from daf_storage.attached._columns import BrokenColumn, PlainColumn
from daf_storage.attached._elements import swapped_dtype
from daf_storage.attached._frame_vectors import FrameVector
from daf_storage.attached._plan import Plan
from daf_storage.errors import FormatError


def notes_text(plan: Plan, uns: list[list[Any]], kept_names: Mapping[tuple[str, str], str]) -> str:
    """Return the notes as an import stores them.

    Parameters
    ----------
    uns
        What they hold of ``uns``.
    kept_names
        The last components of the paths of kept columns, by their axis and column.
    """
    _note_swapped(plan)
    notes: Notes = {
        "version": 1,
        "axes": {axis: _axis_notes(plan, axis, kept_names) for axis in plan.frames},
        "matrices": plan.matrix_notes,
        "uns": uns,
        **plan.annotations,
    }
    if plan.layers:
        notes["layers"] = plan.layers
    if plan.raw_axis is not None:
        notes["raw"] = {"axis": plan.raw_axis}
    return json.dumps(notes, separators=(",", ":"))


def _note_swapped(plan: Plan) -> None:
    """Note the dtypes of matrices whose bytes are in the other order."""
    for label, place, header in plan.matrices.values():
        path = place.path if header.layout == "dense" else f"{place.path}/data"
        if place.is_stored and header.error is None and (dtype := swapped_dtype(plan.tree, path)):
            part, key = place.path.rpartition("/")[::2]
            note = plan.annotations.get(part.replace("/", "."), {}).get(key)
            note = plan.matrix_notes.setdefault(label, {}) if note is None else note
            note["dtype"] = dtype


def _axis_notes(plan: Plan, axis: str, kept_names: Mapping[tuple[str, str], str]) -> dict[str, Any]:
    frame, _ = plan.frames[axis]
    columns = []
    for vector in plan.vectors(axis):
        if isinstance(vector.column, BrokenColumn):
            continue
        if vector.problem:
            name = kept_names.get((axis, vector.column_name))
            if name is not None:
                columns.append({"column": vector.column_name, "kept": name})
            continue
        rule = _rule(plan, axis, vector)
        if isinstance(vector.column, PlainColumn) and "kind" not in rule:
            dtype = swapped_dtype(plan.tree, vector.column.sources[0])
            rule |= {"kind": "number", "dtype": dtype} if dtype else {}
        columns.append(rule)
    return {"index_name": frame.index_name, "columns": columns}


def _rule(plan: Plan, axis: str, vector: FrameVector) -> dict[str, Any]:
    """Return what restores a column from its vector."""
    rule = {"column": vector.column_name, "vector": vector.name, **vector.column.rule()}
    categories = vector.column.categories()
    category_axis = plan.category_axes.get((axis, vector.column_name))
    if category_axis is not None:
        rule["axis"] = category_axis.axis
    elif categories is not None:
        rule["categories"] = categories.to_pylist()
    if vector.companion:
        rule["is_missing"] = vector.companion
    return rule


def column_rules(plan: Plan, axis: str, names: Iterable[str] | None) -> list[dict[str, Any]]:
    """Return the rules of the notes for some vectors of an axis, by default for all of them."""
    if names is None:
        vectors = plan.vectors(axis)
    else:
        found = (plan.find_vector(axis, name) for name in sorted(names))
        vectors = tuple(vector for vector in found if vector is not None)
    rules = []
    for vector in vectors:
        if vector.name and not isinstance(vector.column, BrokenColumn):
            with suppress(FormatError):  # whoever reads the vector gets it
                rules.append(_rule(plan, axis, vector))
    return rules

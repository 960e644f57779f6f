"""An axis as a pandas DataFrame, as AnnData has it in obs and var."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from daf_storage import errors
from daf_storage._lazy import lazy_module
from daf_storage.anndata_rules import AnnDataWarning
from daf_storage.anndata_rules import columns as _columns
from daf_storage.anndata_rules import notes as _notes
from daf_storage.base import (
    NAME_VECTOR,
    pandas,
)
from daf_storage.data import DafReader
from daf_storage.h5ad._restore import with_kept_columns

if TYPE_CHECKING:
    import scipy.sparse as sp
else:
    sp = lazy_module("scipy.sparse")

COLOR = "color"
"""The vector of a categorical's axis that has its colours."""


def axis_frame(
    daf: DafReader,
    axis: str,
    positions: npt.NDArray[np.int64] | None = None,
    *,
    unreadable: Literal["raise", "warn"] = "raise",
) -> tuple[Any, dict[str, Any]]:
    """Return an axis as a pandas DataFrame, and the colours of its categoricals.

    Parameters
    ----------
    positions
        0-based positions of the wanted entries, in any order; all by default.
    unreadable
        Whether a vector that cannot be read is an error, or left out with an `AnnDataWarning`.

    Returns
    -------
    frame
        A row per entry, labelled by it, and a column per vector.  Categoricals, missing values
        and dates come back as they were imported.  A vector with the name of an axis is a
        categorical of that axis's entries.
    uns
        ``{"type_colors": [...]}`` for each categorical whose axis has a vector ``color``.
    """
    taken = None if positions is None else pa.array(positions)
    notes = _notes.axis_notes(_notes.read_notes(daf), axis)
    present = daf.vectors_set(axis)
    if unreadable == "warn":
        present = _readable(daf, axis, present)
    rules = column_rules(daf, axis, notes, present)
    companions = {rule["is_missing"] for rule in rules.values() if "is_missing" in rule}
    columns: dict[str, Any] = {}
    uns: dict[str, Any] = {}
    for vector, rule in rules.items():
        if vector in companions:
            continue
        missing = rule.get("is_missing")
        try:
            values = _values(daf, axis, vector, positions, taken)
            is_missing = None if missing is None else _values(daf, axis, missing, positions, taken)
            categories = _categories(daf, vector, rule)
        except errors.FormatError as error:
            if unreadable == "raise":
                raise
            _warn_of(axis, vector, error)
            continue
        column = rule.get("column", vector)
        column = vector if column in columns else column
        columns[column] = _columns.decode_column(
            values, rule, is_missing=is_missing, categories=categories
        )
        colors_axis = rule.get("axis", vector)
        if categories is not None and _has_colors(daf, colors_axis):
            uns[f"{column}_colors"] = daf.get_np_vector(colors_axis, COLOR)
    columns = with_kept_columns(daf, axis, columns, notes.get("columns", []), positions)
    names = daf.get_pa_vector(axis, NAME_VECTOR)
    labels = (names if taken is None else names.take(taken)).to_numpy(zero_copy_only=False)
    index = pandas().Index(labels.astype(object), dtype=object, name=notes.get("index_name"))
    frame = pandas().DataFrame(columns, index=index, copy=False)
    return frame, uns


def _readable(daf: DafReader, axis: str, vectors: set[str]) -> set[str]:
    """Return the vectors whose metadata and length are right; a warning names each other one."""
    found = set()
    for vector in sorted(vectors):
        try:
            daf.vector_info(axis, vector)
            found.add(vector)
        except errors.FormatError as error:
            _warn_of(axis, vector, error)
    return found


def _warn_of(axis: str, vector: str, error: errors.FormatError) -> None:
    text = f"vector {vector!r} of axis {axis!r} is left out, it cannot be read: {error}"
    warnings.warn(text, AnnDataWarning, stacklevel=4)


def column_rules(
    daf: DafReader, axis: str, notes: dict[str, Any], present: set[str]
) -> dict[str, dict[str, Any]]:
    """Return the rule of each vector: those of the import in its order, then the others."""
    noted = [rule for rule in notes.get("columns", []) if rule.get("vector") in present]
    rules: dict[str, dict[str, Any]] = {rule["vector"]: rule for rule in noted}
    for vector in sorted(present - rules.keys()):
        has_missing = daf.vector_info(axis, vector).empty_is_missing and not daf.has_axis(vector)
        rules[vector] = {"kind": "text", "missing": True} if has_missing else {}
    return rules


def _values(
    daf: DafReader, axis: str, vector: str, positions: Any, taken: pa.Array | None
) -> npt.NDArray[Any]:
    if daf.vector_info(axis, vector).storage_type.is_string:
        strings = daf.get_pa_vector(axis, vector)
        picked = strings if taken is None else strings.take(taken)
        objects: npt.NDArray[Any] = picked.to_numpy(zero_copy_only=False).astype(object, copy=False)
        return objects
    numbers = daf.get_np_vector(axis, vector)
    return np.array(numbers) if positions is None else numbers[positions]


def _categories(daf: DafReader, vector: str, rule: dict[str, Any]) -> list[str] | None:
    if "categories" in rule:
        return list(rule["categories"])
    axis = rule.get("axis", vector)
    if rule.get("kind") not in (None, "categorical") or not daf.has_axis(axis):
        return [] if rule.get("kind") == "categorical" else None
    return list(daf.axis_entries(axis))


def _has_colors(daf: DafReader, axis: str) -> bool:
    return daf.has_axis(axis) and daf.has_vector(axis, COLOR)

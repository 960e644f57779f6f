"""An axis as a pandas DataFrame, as AnnData has it in obs and var, and the types that it had."""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Literal

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from daf_storage import errors
from daf_storage._lazy import lazy_module
from daf_storage.anndata._encoding import decode_column
from daf_storage.anndata._report import (
    AXIS_KEYS,
    NOTES,
    AnnDataWarning,
    axis_notes,
    column_rules,
    read_notes,
)
from daf_storage.base import NAME_VECTOR, pandas
from daf_storage.data import DafReader, kept

if TYPE_CHECKING:
    import pyarrow.compute as pc
else:
    pc = lazy_module("pyarrow.compute")

COLOR: Final = "color"
"""The vector of a categorical's axis that has its colours."""

_FRAMES: Final = frozenset({"obs", "var", "raw.var"})
_DATE: Final = re.compile(
    r"(?:datetime64|timestamp)\[(?P<unit>s|ms|us|ns)(?:, (?:tz=)?(?P<zone>[^\]]+))?\]"
)
_INTEGERS: Final = {
    str(kind): kind
    for kind in (
        *(pa.int8(), pa.int16(), pa.int32(), pa.int64()),
        *(pa.uint8(), pa.uint16(), pa.uint32(), pa.uint64()),
    )
}


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
    notes = axis_notes(read_notes(daf), axis)
    present = daf.vectors_set(axis)
    if unreadable == "warn":
        present = _readable(daf, axis, present)
    rules = vector_rules(daf, axis, notes, present)
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
        columns[column] = decode_column(values, rule, is_missing=is_missing, categories=categories)
        colors_axis = rule.get("axis", vector)
        has_colors = daf.has_axis(colors_axis) and daf.has_vector(colors_axis, COLOR)
        if categories is not None and has_colors:
            uns[f"{column}_colors"] = daf.get_np_vector(colors_axis, COLOR)
    columns = _with_kept_columns(daf, axis, columns, notes.get("columns", []), positions)
    names = daf.get_pa_vector(axis, NAME_VECTOR)
    labels = (names if taken is None else names.take(taken)).to_numpy(zero_copy_only=False)
    index = pandas().Index(labels.astype(object), dtype=object, name=notes.get("index_name"))
    frame = pandas().DataFrame(columns, index=index, copy=False)
    return frame, uns


def unstructured(daf: DafReader) -> dict[str, Any]:
    """Return what ``uns`` has but for colours: scalars, and parts that belong to no axis.

    Warns
    -----
    AnnDataWarning
        A part cannot be read; it is left out.
    """
    own = {*AXIS_KEYS, NOTES, "base_daf_repository", "base_daf_view"}
    names = sorted(daf.scalars_set() - own)
    uns: dict[str, Any] = {name: daf.get_scalar(name) for name in names}
    for part in kept.parts(daf.tree, axes=()):
        if part.part == "uns":
            try:
                uns[part.key] = part.value()
            except errors.FormatError as error:
                text = f"uns[{part.key!r}] is left out, it cannot be read: {error}"
                warnings.warn(text, AnnDataWarning, stacklevel=5)
    return uns


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


def vector_rules(
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


def _with_kept_columns(
    daf: DafReader,
    axis: str,
    columns: dict[str, Any],
    noted: list[dict[str, Any]],
    positions: npt.NDArray[Any] | None,
) -> dict[str, Any]:
    """Return the columns of an axis with those that no vector can hold, in their order.

    Parameters
    ----------
    noted
        What the import noted of its columns, in their order.
    """
    own = {
        part.name: part
        for part in kept.parts(daf.tree, axes=(axis,))
        if part.part in _FRAMES and part.key not in columns
    }
    if not own:
        return columns
    length = daf.axis_length(axis)
    values = {part.key: part.value() for part in own.values()}
    values = {key: value for key, value in values.items() if len(value) == length}
    if positions is not None:
        values = {key: value[positions] for key, value in values.items()}
    order = [own[n["kept"]].key if n.get("kept") in own else n.get("column") for n in noted]
    every = {**columns, **values}
    first = {key: every[key] for key in order if key in every}
    return {**first, **every}


# Types


@dataclass(frozen=True, slots=True)
class RecordedType:
    """What the values of a vector were before they were stored as strings or floats."""

    type: pa.DataType
    """A timestamp, ``bool``, an integer; ``string`` of a categorical."""
    categories: pa.Array | None = None
    """Of a categorical, its categories in their order."""
    is_ordered: bool = False
    """Whether the order of the categories has a meaning."""


def recorded_types(
    daf: DafReader, axis: str, among: Iterable[str] | None = None
) -> Mapping[str, RecordedType]:
    """Return what an import noted of the vectors of an axis, by their names.

    A vector that was replaced since may hold something else: who converts it has to check.  The
    notes are from a file: whatever makes no sense is ignored.

    Parameters
    ----------
    among
        The vectors of which it is needed, if not of all; others may be left out.
    """
    try:
        rules = column_rules(daf, axis, among)
    except (errors.FormatError, errors.ReadOnlyError, AttributeError):
        return {}
    recorded = {}
    for rule in rules:
        found = _recorded(daf, rule) if isinstance(rule, dict) else None
        if found is not None:
            recorded[str(rule["vector"])] = found
    return recorded


def _recorded(daf: DafReader, rule: dict[str, Any]) -> RecordedType | None:
    if not isinstance(rule.get("vector"), str):
        return None
    kind, dtype = rule.get("kind"), str(rule.get("dtype", ""))
    if kind == "categorical":
        categories = _recorded_categories(daf, rule)
        if categories is None:
            return None
        return RecordedType(pa.string(), categories, is_ordered=rule.get("ordered") is True)
    if kind == "date" and (match := _DATE.match(dtype)):
        return RecordedType(_timestamp(match["unit"], match["zone"]))
    if kind == "nullable":
        name = dtype.lower().split("[", 1)[0]
        if name in ("boolean", "bool"):
            return RecordedType(pa.bool_())
        if name in _INTEGERS:
            return RecordedType(_INTEGERS[name])
    return None


def _timestamp(unit: str, zone: str | None) -> pa.DataType:
    """Return a type of times; those of a zone that Arrow does not know are shown in UTC."""
    if zone is None:
        return pa.timestamp(unit)
    zone = zone.removeprefix("UTC") if re.fullmatch(r"UTC[+-]\d\d:\d\d", zone) else zone
    try:
        pc.local_timestamp(pa.scalar(0, pa.timestamp("s", zone))).as_py()
        pa.scalar(0, pa.timestamp("s", zone)).as_py()
    except (pa.ArrowException, ValueError, LookupError):
        return pa.timestamp(unit, "UTC")
    return pa.timestamp(unit, zone)


def _recorded_categories(daf: DafReader, rule: dict[str, Any]) -> pa.Array | None:
    listed, axis = rule.get("categories"), rule.get("axis")
    if isinstance(listed, list) and all(isinstance(name, str) for name in listed):
        return pa.array(list(dict.fromkeys(listed)), pa.string())
    if isinstance(axis, str) and daf.has_axis(axis):
        return pa.array(daf.axis_entries(axis).tolist(), pa.string())
    return None

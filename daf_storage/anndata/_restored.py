"""The reports and the notes of an AnnData, and the parts that are restored by them.

The *notes* are one scalar, a JSON object, that has what Daf has no place for: the order of columns,
the rules that restore them, sparse formats.

**Nouns.** An *aligned matrix* is a matrix of the data set and its place in an AnnData: a *part*
(``layers``, ``obsm``, ...) and a key.  The *note* is what the import recorded of it, from which its
dtype and sparse format are restored.
"""

from __future__ import annotations

import json
import posixpath
import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Final, Literal, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from daf_storage import errors
from daf_storage._lazy import pc, sp
from daf_storage.anndata._encoding import Rule, decode_column, decode_frame, narrowed
from daf_storage.anndata._stored import part_label
from daf_storage.base import NAME_VECTOR, pandas
from daf_storage.data import DafReader, DafWriter, kept
from daf_storage.errors import DafWarning, FormatError, ReadOnlyError, UnsupportedInputError

NOTES: Final = "anndata_notes"
"""Name of the scalar; deleting it loses nothing but the details of an export."""

AXIS_KEYS: Final = {"obs_is": "obs", "var_is": "var", "X_is": "X"}
"""Scalars (and ``uns`` keys) that name the axes and the main matrix, and their defaults."""


Notes = dict[str, Any]


class AnnDataWarning(DafWarning):
    """A part of an AnnData was not carried over, or not as it was."""


@dataclass(frozen=True, slots=True)
class ReportItem:
    """One part that differs."""

    kind: Literal["lost", "changed", "renamed", "kept"]
    """``lost``: not carried over at all.  ``changed``: carried over in another form.  ``renamed``:
    carried over as it is under another name, and back under its own.  ``kept``: Daf has no place
    for it; it lies beside the data in anndata's own encoding, and comes back on export."""
    what: str
    """Which part, such as ``obs['age']``."""
    message: str
    """Why, and what became of it."""

    def __str__(self) -> str:
        return f"{self.kind}: {self.what}: {self.message}"


@dataclass(slots=True)
class Report:
    """What differs after an import or an export."""

    items: list[ReportItem] = field(default_factory=list)
    """In the order in which they were met."""

    def lost(self, what: str, message: str) -> None:
        """Note a part that was not carried over."""
        self.items.append(ReportItem("lost", what, message))

    def changed(self, what: str, message: str) -> None:
        """Note a part that was carried over in another form."""
        self.items.append(ReportItem("changed", what, message))

    def renamed(self, what: str, message: str) -> None:
        """Note a part that has another name now."""
        self.items.append(ReportItem("renamed", what, message))

    def kept(self, what: str, message: str) -> None:
        """Note a part that lies beside the data."""
        self.items.append(ReportItem("kept", what, message))

    def refuse_losses(self, source: str, *, what: str) -> None:
        """Raise if something is lost.

        Raises
        ------
        UnsupportedInputError
            It names what, and why.
        """
        lost = [f"{item.what} ({item.message})" for item in self.items if item.kind == "lost"]
        if lost:
            raise UnsupportedInputError(
                f"{source}: the {what} would lose {'; '.join(lost)}; nothing was written; do it "
                "without strict=True (on the command line: --strict) to leave that out"
            )

    def warn(self) -> None:
        """Issue a warning for each part that was lost or changed."""
        for item in self.items:
            if item.kind in {"lost", "changed"}:
                errors.warn(f"{item.what}: {item.message}", AnnDataWarning)

    def __str__(self) -> str:
        return "\n".join(map(str, self.items))


def scalar_value(value: Any) -> Any:
    """Return a value of ``uns`` that Daf can hold as a scalar; None for anything else.

    >>> held = (2**63 - 1, -(2**63), True, 0.5, "a", np.str_("b"), np.int8(1), np.bool_(1))
    >>> [scalar_value(each) for each in held]
    [9223372036854775807, -9223372036854775808, True, 0.5, 'a', 'b', np.int8(1), np.True_]
    >>> others = (2**63, -(2**63) - 1, np.float16(1), np.datetime64(0, "s"), [1], None, b"a")
    >>> [scalar_value(each) for each in others]
    [None, None, None, None, None, None, None]
    """
    if isinstance(value, int) and not -(2**63) <= value < 2**63:
        return None
    if isinstance(value, np.str_):  # which is a str, too
        return str(value)
    if isinstance(value, bool | int | float | str):
        return value
    is_number = isinstance(value, np.generic) and value.dtype.kind in "biuf"
    return value if is_number and value.dtype != np.float16 else None


def _is_string(found: Any) -> bool:
    return isinstance(found, str)


def _are_strings(found: Any) -> bool:
    return isinstance(found, list) and all(map(_is_string, found))


def _are_types(found: Any) -> bool:
    """Return whether this names a type of numbers, or is a list of such names."""
    with suppress(TypeError, ValueError, SyntaxError):
        names = found if isinstance(found, list) else [found]
        return all(_is_string(name) and np.dtype(name).kind in "biuf" for name in names)
    return False


def _is_entry(found: Any) -> bool:
    """Return whether this is a key of ``uns``, and what became of its value."""
    is_pair = isinstance(found, list) and len(found) == len(("key", "entry"))
    return is_pair and _is_string(found[0]) and isinstance(found[1], dict)


_ANY: Final = "*"
_STRINGS: Final = ("column", "vector", "kept", "kind", "dtype", "axis", "is_missing")
_RULE: Final = {**dict.fromkeys(_STRINGS, _is_string), "categories": _are_strings}
_MATRIX: Final = {"axis": _is_string, "format": _is_string, "frame": _are_strings}
_MATRICES: Final = {_ANY: {**_MATRIX, "dtype": _are_types, "dtypes": _are_types}}
_OF_ANNDATA: Final = {
    "axes": {_ANY: {"index_name": _is_string, "columns": [_RULE]}},
    **dict.fromkeys(("matrices", "obsm", "varm", "raw.varm"), _MATRICES),
    "layers": {_ANY: _is_string},
    "raw": {"axis": _is_string},
    "uns": [_is_entry],
}
_OF_MUDATA: Final = {"modalities": {_ANY: _OF_ANNDATA}, "columns": {_ANY: [_RULE]}}
_FORM: Final = {**_OF_ANNDATA, "mudata": _OF_MUDATA}
"""What is in the notes: by their keys, ``*`` for any, in lists, or so that a predicate is true."""


def read_notes(daf: DafReader) -> Notes:
    """Return the notes of an import; empty where there was none.

    A tree that is a part of a data set has its own.

    Warns
    -----
    AnnDataWarning
        They are not what an import notes, and are left out.
    """
    own: Notes | None = getattr(daf.tree, "notes", None)
    if own is not None:
        return own
    found = daf.get_scalar(NOTES, default="{}")
    with suppress(TypeError, ValueError, RecursionError):
        found = json.loads(found)
    if isinstance(found, dict) and _fits(found, _FORM):
        return found
    errors.warn(
        f"{daf.location}: this is not what an import notes, and is ignored: {NOTES}",
        AnnDataWarning,
    )
    return {}


def _fits(found: Any, form: Any) -> bool:
    """Return whether something is of a form, as far as that says."""
    if found is None or form is None:
        return True
    if isinstance(form, dict):
        every = form.get(_ANY)
        return isinstance(found, dict) and all(
            _fits(part, form.get(key, every)) for key, part in found.items()
        )
    if isinstance(form, list):
        return isinstance(found, list) and all(_fits(part, form[0]) for part in found)
    return bool(form(found))


def axis_notes(notes: Notes, axis: str) -> dict[str, Any]:
    """Return the notes of one axis: its columns in order, their rules, and its index name."""
    return dict(notes.get("axes", {}).get(axis, {}))


def note_categories(
    daf: DafWriter, axis: str, categoricals: Mapping[str, tuple[list[str], bool]]
) -> None:
    """Note that vectors were categoricals, so that they are again in an AnnData.

    An archive, in which nothing can be replaced, keeps the notes that it has.

    Parameters
    ----------
    categoricals
        By vector, the categories in their order, and whether that has a meaning.
    """
    if daf.is_append_only and daf.has_scalar(NOTES):
        return
    notes = read_notes(daf)
    of_axis = notes.setdefault("axes", {}).setdefault(axis, {})
    others = [r for r in of_axis.get("columns", []) if r.get("vector") not in categoricals]
    own = [
        {"column": name, "vector": name, "kind": "categorical", "categories": c, "ordered": o}
        for name, (c, o) in categoricals.items()
    ]
    of_axis["columns"] = [*others, *own]
    daf.set_scalar(NOTES, json.dumps(notes, separators=(",", ":")), if_exists="replace")


def raw_axis_of(notes: Notes, var: str) -> str:
    """Return the axis of ``raw.var``, of a data set whose ``var`` has a name."""
    return str(notes.get("raw", {}).get("axis", f"{var}_raw"))


def column_rules(daf: DafReader, axis: str, names: Iterable[str] | None = None) -> list[Rule]:
    """Return the rules of the columns of an axis, in no order.

    A tree that makes its notes of a file has a method ``column_rules`` to make those of some
    vectors alone.

    Parameters
    ----------
    names
        The vectors whose rules are needed, if not all of them are.
    """
    rules_of = getattr(daf.tree, "column_rules", None)
    if rules_of is not None:
        return list(rules_of(axis, names))
    notes = read_notes(daf)
    of_modalities = notes.get("mudata", {}).get("columns", {})
    return [*axis_notes(notes, axis).get("columns", []), *of_modalities.get(axis, [])]


COLOR: Final = "color"
"""The vector of a categorical's axis that has its colours."""

FRAMES: Final = frozenset({"obs", "var", "raw.var"})
_DATE: Final = re.compile(
    r"(?:datetime64|timestamp)\[(?P<unit>s|ms|us|ns)(?:, (?:tz=)?(?P<zone>[^\]]+))?\]"
)


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
    notes = axis_notes(read_notes(daf), axis)
    rules = vector_rules(notes, daf.vectors_set(axis))
    companions = {rule["is_missing"] for rule in rules.values() if "is_missing" in rule}
    columns: dict[str, Any] = {}
    uns: dict[str, Any] = {}
    for vector, rule in rules.items():
        if vector in companions:
            continue
        mask = rule.get("is_missing", "")
        try:
            if not rule and daf.vector_info(axis, vector).empty_is_missing:
                rule = {} if daf.has_axis(vector) else {"kind": "text", "missing": True}  # noqa: PLW2901 - of this vector
            values = _values(daf, axis, vector, positions)
            is_missing = None if mask not in rules else _values(daf, axis, mask, positions)
            categories = _categories(daf, vector, rule)
        except errors.FormatError as error:
            if unreadable == "raise":
                raise
            text = f"vector {vector!r} of axis {axis!r} is left out, it cannot be read: {error}"
            errors.warn(text, AnnDataWarning)
            continue
        column = rule.get("column", vector)
        column = vector if column in columns else column
        decoded = decode_column(values, rule, is_missing=is_missing, categories=categories)
        columns[column] = decoded
        colors_axis = rule.get("axis", vector)
        has_colors = daf.has_axis(colors_axis) and daf.has_vector(colors_axis, COLOR)
        is_whole = len(getattr(decoded, "categories", ())) == len(categories or ())
        if has_colors and is_whole and categories == list(daf.axis_entries(colors_axis)):
            uns[f"{column}_colors"] = daf.get_np_vector(colors_axis, COLOR)
    columns = _with_kept_columns(daf, axis, columns, notes.get("columns", []), positions)
    labels = _values(daf, axis, NAME_VECTOR, positions)
    index = pandas().Index(labels, dtype=str, name=notes.get("index_name"))
    return pandas().DataFrame(columns, index=index, copy=False), uns


def unstructured(daf: DafReader) -> dict[str, Any]:
    """Return what ``uns`` has but for colours: scalars, and parts that belong to no axis.

    Warns
    -----
    AnnDataWarning
        A part cannot be read; it is left out.
    """
    uns = noted_scalars(daf)
    for part in kept.parts(daf.tree, axes=()):
        if part.part == "uns":
            try:
                uns[part.key] = part.value()
            except errors.FormatError as error:
                text = f"uns[{part.key!r}] is left out, it cannot be read: {error}"
                errors.warn(text, AnnDataWarning)
    return uns


def noted_scalars(daf: DafReader) -> dict[str, Any]:
    """Return the scalars of ``uns``, of numpy where an import noted that."""
    own = {*AXIS_KEYS, NOTES, "base_daf_repository", "base_daf_view"}
    noted = {key for key, entry in read_notes(daf).get("uns", []) if entry.get("of") == "numpy"}
    found = {name: daf.get_scalar(name) for name in sorted(daf.scalars_set() - own)}
    of_numpy = {name for name in noted & found.keys() if not isinstance(found[name], str)}
    return found | {name: daf.scalar_type(name).dtype.type(found[name]) for name in of_numpy}


def vector_rules(notes: dict[str, Any], present: set[str]) -> dict[str, dict[str, Any]]:
    """Return the rule of each vector: those of the import in its order, then none of the others."""
    rules = {rule["vector"]: rule for rule in notes.get("columns", []) if "vector" in rule}
    noted = {vector: rule for vector, rule in rules.items() if vector in present}
    return {**noted, **{vector: {} for vector in sorted(present - noted.keys())}}


def _values(daf: DafReader, axis: str, vector: str, positions: Any) -> npt.NDArray[Any]:
    if not daf.vector_info(axis, vector).storage_type.is_string:
        numbers = daf.get_np_vector(axis, vector)
        return np.array(numbers) if positions is None else numbers[positions]
    strings = daf.get_pa_vector(axis, vector)
    picked = strings if positions is None else strings.take(pa.array(positions))
    objects: npt.NDArray[Any] = picked.to_numpy(zero_copy_only=False).astype(object, copy=False)
    return objects


def _categories(daf: DafReader, vector: str, rule: dict[str, Any]) -> list[str] | None:
    if "categories" in rule:
        return list(rule["categories"])
    axis, is_categorical = rule.get("axis", vector), rule.get("kind") == "categorical"
    if (rule and not is_categorical) or not daf.has_axis(axis):
        return [] if is_categorical else None
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
        posixpath.basename(part.path): part
        for part in kept.parts(daf.tree, axes=(axis,))
        if part.part in FRAMES and part.key not in columns
    }
    if not own:
        return columns
    shape, values = (daf.axis_length(axis),), {}
    for part in own.values():
        value = part.value()
        if np.shape(value) == shape:
            values[part.key] = value if positions is None else value[positions]
        else:
            text = f"it has the shape {np.shape(value)}, and its axes {shape}"
            errors.warn(f"{part_label(part.part, part.key)}: {text}", AnnDataWarning)
    order = [own[n["kept"]].key if n.get("kept") in own else n.get("column") for n in noted]
    every = {**columns, **values}
    return {**{key: every[key] for key in order if key in every}, **every}


# Types


@dataclass(frozen=True, slots=True)
class RecordedType:
    """What the values of a vector were before they were stored as strings or floats."""

    type: pa.DataType
    """A timestamp, ``bool``, an integer; ``string`` of a categorical."""
    categories: pa.Array | None = None
    """The categories of a categorical, in their order."""
    is_ordered: bool = False
    """Whether the order of the categories has a meaning."""


def recorded_types(
    daf: DafReader, axis: str, among: Iterable[str] | None = None
) -> Mapping[str, RecordedType]:
    """Return what an import noted of the vectors of an axis, by their names.

    A vector that was replaced since may hold something else: who converts it has to check.

    Parameters
    ----------
    among
        The vectors of which it is needed, if not of all; others may be left out.
    """
    try:
        rules = column_rules(daf, axis, among)
    except (errors.FormatError, errors.ReadOnlyError):
        return {}
    recorded = {rule["vector"]: _recorded(daf, rule) for rule in rules if "vector" in rule}
    return {vector: found for vector, found in recorded.items() if found is not None}


def _recorded(daf: DafReader, rule: Rule) -> RecordedType | None:
    kind, dtype = rule.get("kind"), rule.get("dtype", "")
    if kind == "categorical":
        listed, axis = rule.get("categories"), rule.get("axis", "")
        if listed is None and not daf.has_axis(axis):
            return None
        listed = daf.axis_entries(axis) if listed is None else listed
        categories = pa.array([*dict.fromkeys(listed)], pa.string())
        return RecordedType(pa.string(), categories, is_ordered=rule.get("ordered") is True)
    if kind == "date" and (match := _DATE.match(dtype)):
        return RecordedType(_timestamp(match["unit"], match["zone"]))
    if kind == "nullable":
        with suppress(ValueError):
            found = pa.type_for_alias(dtype.lower().partition("[")[0])
            if pa.types.is_integer(found) or pa.types.is_boolean(found):
                return RecordedType(found)
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


Part: TypeAlias = Literal["X", "layers", "obsm", "varm", "obsp", "varp"]
"""Where an AnnData has matrices."""

ANNDATA_PARTS: Final[tuple[Part, ...]] = ("layers", "obsm", "varm", "obsp", "varp")
"""The parts beside ``X``."""


@dataclass(frozen=True, slots=True)
class AlignedMatrix:
    """A matrix of a data set, and its place in an AnnData."""

    part: Part
    key: str
    """Its key within the part; empty for ``X``."""
    rows_axis: str
    columns_axis: str
    name: str
    """Its name in the data set."""
    note: dict[str, Any] = field(default_factory=dict)
    """What the import recorded of it; empty for a matrix that was not imported."""

    @property
    def is_annotation(self) -> bool:
        """Whether it belongs to ``obsm`` or ``varm``, whose columns have an axis of their own."""
        return self.part in ("obsm", "varm")

    @property
    def is_by_columns(self) -> bool:
        """Whether AnnData has its columns one after the other."""
        return self.note.get("format") == "csc"

    def read(self, daf: DafReader) -> Any:
        """Return it as AnnData had it, in memory."""
        axes = (self.rows_axis, self.columns_axis)
        is_as_stored = self.is_by_columns or axes[0] == axes[1]
        values = (
            daf.get_np_matrix(*axes, self.name)
            if is_as_stored
            else daf.get_np_matrix(*axes[::-1], self.name).T
        )
        index, columns = map(daf.axis_entries, axes) if self.is_annotation else (None, None)
        copied = values.copy() if sp.issparse(values) else values
        return self.restore(copied, index=index, columns=columns)

    def restore(self, values: Any, *, index: Any, columns: Any) -> Any:
        """Return gathered values as AnnData had them: dtype, sparse format, or DataFrame.

        Parameters
        ----------
        values
            Dense or sparse, of shape (rows, columns).  Dense ones are copied; sparse ones share
            their arrays where they need no conversion.
        index, columns
            Labels of the rows and of the columns, for a DataFrame.
        """
        note, is_sparse = self.note, sp.issparse(values)
        if self.is_annotation and not is_sparse and "format" not in note:
            return decode_frame(values, note, index=index, columns=columns)
        if not is_sparse:
            dense = np.array(values, order="C")
            return narrowed(dense, note["dtype"]) if "dtype" in note else dense
        kind = note.get("format", "csr" if self.is_annotation else values.format)
        kind = kind if kind in ("csr", "csc", "coo") else "csr"
        matrix = getattr(sp, f"{kind}_{'array' if note.get('is_array') else 'matrix'}")(values)
        return (
            matrix.astype(narrowed(matrix.data, note["dtype"]).dtype) if "dtype" in note else matrix
        )


def aligned_matrices(
    daf: DafReader, rows_axis: str, columns_axis: str, name: str
) -> list[AlignedMatrix]:
    """Return the matrices of an AnnData whose ``X`` is a matrix of two axes; ``X`` comes first.

    The matrices of an axis with itself are the layers of such a matrix, and else ``obsp`` and
    ``varp``.  The order is that of the parts, then of the keys.
    """
    axes = _Axes(daf, rows_axis, columns_axis)
    main = AlignedMatrix("X", "", rows_axis, columns_axis, name, axes.layer_note(name))
    aligned = [main, *axes.layers(name)]
    aligned += [*axes.annotations("obsm", rows_axis), *axes.annotations("varm", columns_axis)]
    if rows_axis != columns_axis:
        aligned += [*axes.square("obsp", rows_axis), *axes.square("varp", columns_axis)]
    order = ("X", *ANNDATA_PARTS)
    return sorted(aligned, key=lambda matrix: (order.index(matrix.part), matrix.key))


def was_float(daf: DafReader, rows_axis: str, columns_axis: str, name: str) -> bool:
    """Return whether a matrix was one of floats, according to the notes of the import.

    The axes may be named in either order.
    """
    pairs = ((rows_axis, columns_axis), (columns_axis, rows_axis))
    try:
        notes = (_Axes(daf, *axes).layer_note(name) for axes in pairs)
        return any(np.dtype(note.get("dtype", "?")).kind == "f" for note in notes)
    except (FormatError, ReadOnlyError):
        return False


def imported_label(daf: DafReader, rows_axis: str, columns_axis: str, name: str) -> str:
    """Return what messages and notes of an import call a matrix of two axes; empty if nothing."""
    return _Axes(daf, rows_axis, columns_axis).label(name)


class _Axes:
    """Two axes of a data set, and what an import recorded of the matrices over them."""

    def __init__(self, daf: DafReader, rows_axis: str, columns_axis: str) -> None:
        self._daf = daf
        self._rows_axis, self._columns_axis = rows_axis, columns_axis
        self._notes: Notes = read_notes(daf)
        imported = [daf.get_scalar(key, default=name) for key, name in AXIS_KEYS.items()]
        obs, var, self._imported_x = map(str, imported)
        raw = raw_axis_of(self._notes, var)
        self._is_obs = rows_axis == obs
        self._is_var, self._is_raw = columns_axis == var, columns_axis == raw
        others = f"{columns_axis}_raw", columns_axis.removesuffix("_raw")  # rna.var_raw of rna.var
        self._main_axes = {rows_axis, columns_axis, obs, var, raw, *(n for n in others if "." in n)}

    def label(self, name: str) -> str:
        """Return what the import called a matrix over both axes; empty if it had none there."""
        is_imported_x = name == self._imported_x
        if self._is_obs and self._is_raw and is_imported_x:
            return "raw.X"
        if not (self._is_obs and self._is_var):
            return ""
        return "X" if is_imported_x else part_label("layers", self._layer_key(name))

    def layer_note(self, name: str) -> dict[str, Any]:
        """Return what the import recorded of a matrix over both axes."""
        return self._note(self.label(name))

    def layers(self, main: str) -> Iterator[AlignedMatrix]:
        """Yield the matrices over both axes but the one that is ``X``."""
        keys: set[str] = set()
        for name in sorted(self._daf.matrices_set(self._rows_axis, self._columns_axis) - {main}):
            key = _unused_key(self._layer_key(name), keys)
            note = self.layer_note(name)
            yield AlignedMatrix("layers", key, self._rows_axis, self._columns_axis, name, note)

    def annotations(self, part: Part, axis: str) -> Iterator[AlignedMatrix]:
        """Yield ``obsm`` or ``varm``: the matrices of an axis with axes that are no main ones."""
        is_varm = part == "varm"
        is_imported = (self._is_var or self._is_raw) if is_varm else self._is_obs
        label = "raw.varm" if is_varm and not self._is_var else part
        noted: dict[str, Any] = self._notes.get(label, {}) if is_imported else {}
        keys: set[str] = set()
        for key, note in noted.items():
            other = note.get("axis", "")
            if self._daf.has_axis(other) and self._daf.has_matrix(axis, other, key):
                keys.add(key)
                yield AlignedMatrix(part, key, axis, other, key, note)
        for other in sorted(self._daf.axes_set() - self._main_axes):
            for name in sorted(self._daf.matrices_set(axis, other)):
                if noted.get(name, {}).get("axis") != other:
                    key = _unused_key(name if name not in keys else f"{other}_{name}", keys)
                    yield AlignedMatrix(part, key, axis, other, name)

    def square(self, part: Part, axis: str) -> Iterator[AlignedMatrix]:
        """Yield the matrices of an axis with itself."""
        is_imported = self._is_obs if part == "obsp" else self._is_var
        for name in sorted(self._daf.matrices_set(axis, axis)):
            note = self._note(part_label(part, name)) if is_imported else {}
            yield AlignedMatrix(part, name, axis, axis, name, note)

    def _layer_key(self, name: str) -> str:
        is_imported = self._is_obs and self._is_var
        return self._notes.get("layers", {}).get(name, name) if is_imported else name

    def _note(self, label: str) -> dict[str, Any]:
        return dict(self._notes.get("matrices", {}).get(label, {}))


def _unused_key(key: str, used: set[str]) -> str:
    """Return the key, with underscores if it is used, and record it as used."""
    while key in used:
        key = f"{key}_"
    used.add(key)
    return key

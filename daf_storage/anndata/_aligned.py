"""The matrices over two axes, as the parts of an AnnData that has these axes as obs and var.

**Nouns.** An *aligned matrix* is a matrix of the data set and its place in an AnnData: a *part*
(``layers``, ``obsm``, ...) and a key.  The *note* is what the import recorded of it, from which its
dtype and sparse format are restored.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias

import numpy as np

from daf_storage._lazy import lazy_module
from daf_storage.anndata._encoding import decode_annotation, narrowed
from daf_storage.anndata._report import AXIS_KEYS, Notes, part_label, raw_axis_of, read_notes
from daf_storage.data import DafReader
from daf_storage.errors import FormatError, ReadOnlyError

if TYPE_CHECKING:
    import scipy.sparse as sp
else:
    sp = lazy_module("scipy.sparse")

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
        note = self.note
        if self.is_annotation:
            return decode_annotation(values, note, index=index, columns=columns)
        if not sp.issparse(values):
            dense = np.array(values, order="C")
            return narrowed(dense, note["dtype"]) if "dtype" in note else dense
        matrix = getattr(sp, f"{values.format}_matrix")(values)
        if "dtype" in note:
            matrix = matrix.astype(narrowed(matrix.data, note["dtype"]).dtype)
        matrix = matrix.asformat(note["format"]) if "format" in note else matrix
        return getattr(sp, f"{matrix.format}_array")(matrix) if note.get("is_array") else matrix


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

    The axes may be named in either order.  The notes are from a file: what makes no sense in them
    is ignored.
    """
    try:
        notes = [
            _Axes(daf, *axes).layer_note(name)
            for axes in ((rows_axis, columns_axis), (columns_axis, rows_axis))
        ]
        return any(np.dtype(str(note["dtype"])).kind == "f" for note in notes if "dtype" in note)
    except (FormatError, ReadOnlyError, AttributeError, TypeError, ValueError):
        return False


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
        self._main_axes = {rows_axis, columns_axis, obs, var, raw}

    def layer_note(self, name: str) -> dict[str, Any]:
        """Return what the import recorded of a matrix over both axes."""
        is_imported_x = name == self._imported_x
        if self._is_obs and self._is_raw and is_imported_x:
            return self._note("raw.X")
        if not (self._is_obs and self._is_var):
            return {}
        return self._note("X" if is_imported_x else part_label("layers", self._layer_key(name)))

    def layers(self, main: str) -> Iterator[AlignedMatrix]:
        """Yield the matrices over both axes but the one that is ``X``."""
        keys: set[str] = set()
        for name in sorted(self._daf.matrices_set(self._rows_axis, self._columns_axis) - {main}):
            key = _unused_key(self._layer_key(name), keys)
            note = self.layer_note(name)
            yield AlignedMatrix("layers", key, self._rows_axis, self._columns_axis, name, note)

    def annotations(self, part: Part, axis: str) -> Iterator[AlignedMatrix]:
        """Yield ``obsm`` or ``varm``: the matrices of an axis with axes that are no main ones."""
        noted: dict[str, dict[str, Any]] = {}
        if part == "obsm" and self._is_obs:
            noted = self._notes.get("obsm", {})
        elif part == "varm" and (self._is_var or self._is_raw):
            noted = self._notes.get("varm" if self._is_var else "raw.varm", {})
        keys: set[str] = set()
        for key, note in noted.items():
            other = note["axis"]
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
        return str(self._notes.get("layers", {}).get(name, name)) if is_imported else name

    def _note(self, label: str) -> dict[str, Any]:
        note: dict[str, Any] = self._notes.get("matrices", {}).get(label, {})
        return note


def _unused_key(key: str, used: set[str]) -> str:
    """Return the key, with underscores if it is used, and record it as used."""
    while key in used:
        key = f"{key}_"
    used.add(key)
    return key

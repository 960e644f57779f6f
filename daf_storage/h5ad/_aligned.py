"""The matrices over two axes, as the parts of an AnnData that has these axes as obs and var.

**Nouns.** An *aligned matrix* is a matrix of the data set and its place in an AnnData: a *part*
(``layers``, ``obsm``, ...) and a key.  The *note* is what the import recorded of it, from which its
dtype and sparse format are restored.  Names and notes only: nothing of the values is read.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias

import numpy as np

from daf_storage._lazy import lazy_module
from daf_storage.anndata_rules import Notes
from daf_storage.anndata_rules import annotations as _annotations
from daf_storage.anndata_rules import columns as _columns
from daf_storage.anndata_rules import notes as _notes
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

    def restore(self, values: Any, *, index: Any, columns: Any) -> Any:
        """Return gathered values as AnnData had them: dtype, sparse format, or DataFrame.

        Parameters
        ----------
        values
            Dense or CSR, of shape (rows, columns).
        index, columns
            Labels of the rows and of the columns, for a DataFrame.
        """
        if self.is_annotation:
            return _annotations.decode_annotation(values, self.note, index=index, columns=columns)
        return restore_matrix(values, self.note)


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
    aligned += axis_annotations(daf, "obsm", rows_axis, axes.main, axes.noted_annotations("obsm"))
    aligned += axis_annotations(
        daf, "varm", columns_axis, axes.main, axes.noted_annotations("varm")
    )
    if rows_axis != columns_axis:
        aligned += axes.square("obsp", rows_axis)
        aligned += axes.square("varp", columns_axis)
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


def axis_annotations(
    daf: DafReader,
    part: Part,
    axis: str,
    main_axes: Collection[str],
    noted: dict[str, dict[str, Any]],
) -> Iterator[AlignedMatrix]:
    """Yield ``obsm`` or ``varm``: the matrices of an axis with axes that are none of the main ones.

    Parameters
    ----------
    noted
        What the import recorded of each key.
    """
    keys: set[str] = set()
    for key, note in noted.items():
        if daf.has_axis(note["axis"]) and daf.has_matrix(axis, note["axis"], key):
            keys.add(key)
            yield AlignedMatrix(part, key, axis, note["axis"], key, note)
    for other in sorted(daf.axes_set() - set(main_axes)):
        for name in sorted(daf.matrices_set(axis, other)):
            if noted.get(name, {}).get("axis") != other:
                key = _unused_key(name if name not in keys else f"{other}_{name}", keys)
                yield AlignedMatrix(part, key, axis, other, name)


def restore_matrix(values: Any, note: dict[str, Any]) -> Any:
    """Return a matrix in the dtype and the sparse format that the import recorded.

    Returns
    -------
    numpy.ndarray or scipy sparse
        A dense matrix is copied; a sparse one shares its arrays where they need no conversion.
    """
    if not sp.issparse(values):
        dense = np.array(values, order="C")
        return _columns.narrowed(dense, note["dtype"]) if "dtype" in note else dense
    matrix = getattr(sp, f"{values.format}_matrix")(values)
    if "dtype" in note:
        matrix = matrix.astype(_columns.narrowed(matrix.data, note["dtype"]).dtype)
    matrix = matrix.asformat(note["format"]) if "format" in note else matrix
    return getattr(sp, f"{matrix.format}_array")(matrix) if note.get("is_array") else matrix


class _Axes:
    """Two axes of a data set, and what an import recorded of the matrices over them."""

    def __init__(self, daf: DafReader, rows_axis: str, columns_axis: str) -> None:
        self._daf = daf
        self._rows_axis, self._columns_axis = rows_axis, columns_axis
        self._notes: Notes = _notes.read_notes(daf)
        imported = [daf.get_scalar(key, default=name) for key, name in _notes.AXIS_KEYS.items()]
        obs, var, self._imported_x = map(str, imported)
        raw = str(self._notes.get("raw", {}).get("axis", f"{var}_raw"))
        self._is_obs = rows_axis == obs
        self._is_var, self._is_raw = columns_axis == var, columns_axis == raw
        self.main = frozenset({rows_axis, columns_axis, obs, var, raw})

    def layer_note(self, name: str) -> dict[str, Any]:
        """Return what the import recorded of a matrix over both axes."""
        is_imported_x = name == self._imported_x
        if self._is_obs and self._is_raw and is_imported_x:
            return self._note("raw.X")
        if not (self._is_obs and self._is_var):
            return {}
        return self._note("X" if is_imported_x else f"layers[{self._layer_key(name)!r}]")

    def layers(self, main: str) -> Iterator[AlignedMatrix]:
        """Yield the matrices over both axes but the one that is ``X``."""
        keys: set[str] = set()
        for name in sorted(self._daf.matrices_set(self._rows_axis, self._columns_axis) - {main}):
            key = _unused_key(self._layer_key(name), keys)
            note = self.layer_note(name)
            yield AlignedMatrix("layers", key, self._rows_axis, self._columns_axis, name, note)

    def noted_annotations(self, part: Part) -> dict[str, dict[str, Any]]:
        """Return what the import recorded of ``obsm`` or ``varm``."""
        noted: dict[str, dict[str, Any]] = {}
        if part == "obsm" and self._is_obs:
            noted = self._notes.get("obsm", {})
        elif part == "varm" and (self._is_var or self._is_raw):
            noted = self._notes.get("varm" if self._is_var else "raw.varm", {})
        return noted

    def square(self, part: Part, axis: str) -> Iterator[AlignedMatrix]:
        """Yield the matrices of an axis with itself."""
        is_imported = self._is_obs if part == "obsp" else self._is_var
        for name in sorted(self._daf.matrices_set(axis, axis)):
            note = self._note(f"{part}[{name!r}]") if is_imported else {}
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

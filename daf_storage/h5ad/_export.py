"""From Daf to AnnData: an object in memory, or a file written in blocks."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from daf_storage import errors
from daf_storage._lazy import lazy_module
from daf_storage.anndata_rules import Notes, Report
from daf_storage.anndata_rules import notes as _notes
from daf_storage.base import (
    IfExists,
    Progress,
    ShowProgress,
    optional_import,
    progress_bar,
)
from daf_storage.data import DafReader, StoredMatrix, check_reader, kept, ordered
from daf_storage.h5ad._aligned import AlignedMatrix, Part, axis_annotations, restore_matrix
from daf_storage.h5ad._file_values import writable_frame, write_parts, write_value
from daf_storage.h5ad._frames import COLOR, axis_frame, column_rules
from daf_storage.h5ad._matrix_output import (
    index_dtype,
    size_bytes,
    sparse_blocks,
    write_dense,
    write_sparse,
)
from daf_storage.h5ad._restore import KeptParts
from daf_storage.opening import check_outside
from daf_storage.stores import check_output, output_path
from daf_storage.trees import hdf5_output

if TYPE_CHECKING:
    import scipy.sparse as sp
else:
    sp = lazy_module("scipy.sparse")


def to_anndata(
    daf: DafReader,
    *,
    obs_is: str | None = None,
    var_is: str | None = None,
    X_is: str | None = None,  # noqa: N803 - the reference's spelling
) -> Any:
    """Return a Daf data set as an AnnData object in memory.

    Parameters
    ----------
    obs_is, var_is, X_is
        Which axes become ``obs`` and ``var``, and which matrix ``X``.  By default what the
        scalars of these names say, else ``obs``, ``var`` and ``X``.

    Warns
    -----
    AnnDataWarning
        For each part that AnnData has no place for.

    Examples
    --------
    >>> import daf_storage
    >>> daf = daf_storage.MemoryDaf()
    >>> daf.add_axis("cell", ["TATA", "GATA", "CATA"], vectors={"age": [30, 60, 90]})
    >>> daf.add_axis("gene", ["FOXA1", "WNT6"])
    >>> daf.set_matrix("cell", "gene", "UMIs", [[0, 1], [2, 3], [4, 5]])
    >>> daf_storage.to_anndata(daf, obs_is="cell", var_is="gene", X_is="UMIs").shape
    (3, 2)
    """
    check_reader(daf, "to_anndata")
    anndata = optional_import("anndata", extra="anndata")
    exporter = _Exporter(daf, {"obs_is": obs_is, "var_is": var_is, "X_is": X_is})
    adata = anndata.AnnData(**exporter.frames())
    for part, key, stored in exporter.matrices():
        matrix = exporter.whole(exporter.note(part, key), stored)
        if part == "X":
            adata.X = matrix
        else:
            getattr(adata, part)[key] = matrix
    exporter.kept.restore(adata)
    if exporter.has_raw:
        raw = anndata.AnnData(
            X=exporter.raw_matrix(),
            obs=adata.obs[[]],
            var=exporter.raw_var(),
            varm=exporter.annotations("raw.varm", exporter.raw_axis),
        )
        exporter.kept.restore(raw, below="raw.")
        adata.raw = raw
    exporter.report_what_stays()
    exporter.report.warn()
    return adata


def export_h5ad(  # noqa: PLR0913 - the choices of an export
    daf: DafReader,
    path: str | Path,
    *,
    obs_is: str | None = None,
    var_is: str | None = None,
    X_is: str | None = None,  # noqa: N803 - the reference's spelling
    strict: bool = False,
    if_exists: IfExists = "error",
    progress: ShowProgress = "auto",
) -> Report:
    """Write a Daf data set as an ``h5ad`` file, streaming its matrices.

    Other parameters are those of `to_anndata`; the file appears when it is complete.

    Parameters
    ----------
    strict
        Whether to raise if something would be lost.

    Returns
    -------
    Report
        What an h5ad file cannot hold, or not as it was.

    Raises
    ------
    UnsupportedInputError
        Something would be lost and ``strict`` is true; no file was written.

    Examples
    --------
    >>> import daf_storage, pathlib, tempfile
    >>> daf = daf_storage.MemoryDaf()
    >>> daf.add_axis("cell", ["TATA", "GATA", "CATA"], vectors={"age": [30, 60, 90]})
    >>> daf.add_axis("gene", ["FOXA1", "WNT6"])
    >>> daf.set_matrix("cell", "gene", "UMIs", [[0, 1], [2, 3], [4, 5]])
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "pbmc.h5ad"
    >>> daf_storage.export_h5ad(daf, path, obs_is="cell", var_is="gene", X_is="UMIs").items
    []
    """
    check_reader(daf, "export_h5ad")
    check_output(path, if_exists=if_exists)
    check_outside(daf, path)
    anndata = optional_import("anndata", extra="anndata")
    exporter = _Exporter(daf, {"obs_is": obs_is, "var_is": var_is, "X_is": X_is})
    parts = exporter.frames()
    uns = parts.pop("uns")
    for name in ("obs", "var"):
        parts[name] = writable_frame(parts[name], name, exporter.report)
    with output_path(path, if_exists=if_exists) as prepared:
        adata = anndata.AnnData(**parts)
        with hdf5_output(prepared) as (file, check):
            write_parts(file, adata, check)
            for key, value in uns.items():
                write_value(file["uns"], key, value, what=f"uns[{key!r}]", report=exporter.report)
            exporter.write_matrices(file, check, show=progress)
            exporter.kept.write(file)
        exporter.report_what_stays()
        if strict:
            exporter.report.refuse_losses(daf.location, what="export")
    return exporter.report


class _Exporter:
    """One export: which part of the Daf data set becomes which part of the AnnData."""

    def __init__(self, daf: DafReader, names: dict[str, str | None]) -> None:
        self._daf = daf
        self._notes: Notes = _notes.read_notes(daf)
        self.report = Report()
        for key, default in _notes.AXIS_KEYS.items():
            said = daf.get_scalar(key, default=default)
            names[key] = names[key] if names[key] is not None else str(said)
        self._names = names
        self._obs, self._var, self._main = (str(names[key]) for key in _notes.AXIS_KEYS)
        for axis, key in ((self._obs, "obs_is"), (self._var, "var_is")):
            if not daf.has_axis(axis):
                missing = errors.axis_not_found(daf.location, axis, daf.axes_set())
                raise type(missing)(f"{missing}; say which axis with {key}=")
        raw_axis = self._notes.get("raw", {}).get("axis", f"{self._var}_raw")
        self.raw_axis = raw_axis
        self.raw = self._layout(raw_axis, "raw.X") if daf.has_axis(raw_axis) else None
        self.kept = KeptParts(daf, self.report, obs=self._obs, var=self._var, raw=raw_axis)
        self.has_raw = self.raw is not None or self.kept.has("raw.X")

    def frames(self) -> dict[str, Any]:
        """Return everything but the large matrices, as the arguments of ``AnnData``."""
        obs, obs_colors = axis_frame(self._daf, self._obs)
        var, var_colors = axis_frame(self._daf, self._var)
        return {
            "obs": obs,
            "var": var,
            "obsm": self.annotations("obsm", self._obs),
            "varm": self.annotations("varm", self._var),
            "uns": self._unstructured({**var_colors, **obs_colors}),
        }

    def raw_matrix(self) -> Any:
        """Return ``raw.X`` in memory."""
        if self.raw is None:
            return self.kept.value("raw.X")
        return self.whole(self.note("raw.X", ""), self.raw)

    def raw_var(self) -> Any:
        """Return ``raw.var``."""
        return axis_frame(self._daf, self.raw_axis)[0]

    def matrices(self) -> Iterator[tuple[str, str, StoredMatrix]]:
        """Yield ``X``, the layers and the square matrices: part, key and stored layout."""
        renamed = self._notes.get("layers", {})
        for name in sorted(self._daf.matrices_set(self._obs, self._var)):
            part = "X" if name == self._main else "layers"
            key = renamed.get(name, name)
            stored = self._layout(self._var, "X" if part == "X" else f"layers[{key!r}]", name)
            if stored is not None and self._is_numeric(stored):
                yield part, "" if part == "X" else key, stored
        for axis, part in ((self._obs, "obsp"), (self._var, "varp")):
            for name in sorted(self._daf.matrices_set(axis, axis)):
                stored = ordered(self._daf.open_matrix(axis, axis, name))
                if self._is_numeric(stored):
                    yield part, name, stored

    def _is_numeric(self, stored: StoredMatrix) -> bool:
        """Return whether AnnData can hold a matrix; say so if it cannot."""
        if stored.info.storage_type.is_string:
            self.report.lost(stored.what, "AnnData has no matrices of strings")
        return not stored.info.storage_type.is_string

    def report_what_stays(self) -> None:
        """Name the vectors and matrices of other axes, for which AnnData has no place."""
        main = [self._obs, self._var]
        main += [self.raw_axis] if self.has_raw else []
        others = sorted(self._daf.axes_set() - set(main))
        categorical = {
            rule.get("axis", vector)
            for axis in main
            for vector, rule in column_rules(
                self._daf,
                axis,
                _notes.axis_notes(self._notes, axis),
                self._daf.vectors_set(axis),
            ).items()
        }
        for axis in others:
            carried = {COLOR} if axis in categorical else set()
            for vector in sorted(self._daf.vectors_set(axis) - carried):
                what = f"vector {vector!r} of axis {axis!r}"
                self.report.lost(what, "AnnData has no vectors of other axes")
        for position, first in enumerate(others):
            for second in others[position:]:
                for name in sorted(self._daf.matrices_set(first, second)):
                    what = f"matrix {name!r} of axes {first!r} and {second!r}"
                    self.report.lost(what, "AnnData has no matrices between other axes")

    def _layout(self, columns_axis: str, what: str, name: str | None = None) -> StoredMatrix | None:
        """Return the stored orientation that is nearest to what AnnData had, or wants."""
        name = self._main if name is None else name
        orders = [(columns_axis, self._obs), (self._obs, columns_axis)]
        if self._notes.get("matrices", {}).get(what, {}).get("format") == "csc":
            orders.reverse()
        if not self._daf.has_matrix(*orders[0], name):
            return None
        return ordered(self._daf.open_orientations(*orders[0], name)[0])

    def _label(self, part: str, key: str) -> str:
        return f"{part}[{key!r}]" if key else part

    def note(self, part: str, key: str) -> dict[str, Any]:
        """Return what the import noted of a matrix."""
        found: dict[str, Any] = self._notes.get("matrices", {}).get(self._label(part, key), {})
        return found

    def _is_by_rows(self, stored: StoredMatrix) -> bool:
        """Return whether the stored columns are AnnData's rows."""
        info = stored.info
        return info.is_row_major or (info.columns_axis == self._obs != info.rows_axis)

    def whole(self, note: dict[str, Any], stored: StoredMatrix) -> Any:
        """Return a matrix in memory, as AnnData had it according to the note."""
        by_rows = self._is_by_rows(stored)
        if not stored.info.is_sparse:
            values = stored.dense().read()
            return restore_matrix(values if by_rows else values.T, note)
        indptr, blocks = np.array(stored.colptr()), list(sparse_blocks(stored))
        indices = np.concatenate([np.empty(0, index_dtype(stored)), *(b[0] for b in blocks)])
        data = np.concatenate([np.empty(0, blocks[0][1].dtype), *(b[1] for b in blocks)])
        n_minor, n_major = stored.info.shape
        if by_rows:
            matrix = sp.csr_matrix((data, indices, indptr), shape=(n_major, n_minor))
        else:
            matrix = sp.csc_matrix((data, indices, indptr), shape=(n_minor, n_major))
        return restore_matrix(matrix, note)

    def write_matrices(self, file: Any, check: Callable[[], None], *, show: ShowProgress) -> None:
        """Write the large matrices into an h5ad file, block by block; see `write_sparse`."""
        chosen = list(self.matrices())
        every = [stored for *_, stored in chosen] + ([self.raw] if self.raw else [])
        with progress_bar("export", sum(map(size_bytes, every)), show=show) as progress:
            for part, key, stored in chosen:
                parent = file if part == "X" else file.require_group(part)
                if part == "X" and "X" in file:
                    del file["X"]
                self._write(parent, key or "X", stored, self.note(part, key), progress, check)
            if self.has_raw:
                self._write_raw(file, progress, check)

    def _write_raw(self, file: Any, progress: Progress, check: Callable[[], None]) -> None:
        write_elem = optional_import("anndata", extra="anndata").io.write_elem
        raw = file.create_group("raw")
        raw.attrs.update({"encoding-type": "raw", "encoding-version": "0.1.0"})
        if self.raw is not None:
            self._write(raw, "X", self.raw, self.note("raw.X", ""), progress, check)
        frame = writable_frame(self.raw_var(), "raw.var", self.report)
        write_value(raw, "var", frame, what="raw.var", report=self.report)
        write_elem(raw, "varm", self.annotations("raw.varm", self.raw_axis))

    def _write(
        self,
        parent: Any,
        key: str,
        stored: StoredMatrix,
        note: dict[str, Any],
        progress: Progress,
        check: Callable[[], None],
    ) -> None:
        by_rows = self._is_by_rows(stored)
        if note.get("format") == "csc" and by_rows:
            write_elem = optional_import("anndata", extra="anndata").io.write_elem
            write_elem(parent, key, self.whole(note, stored))
        elif stored.info.is_sparse:
            write_sparse(parent, key, stored, "csr" if by_rows else "csc", progress, note, check)
        else:
            write_dense(parent, key, stored, progress, note, check, by_rows=by_rows)

    def annotations(self, part: str, axis: str) -> dict[str, Any]:
        """Return ``obsm`` or ``varm``: the matrices of an axis with axes of their own."""
        main_axes = {self._obs, self._var, self.raw_axis}
        noted = self._notes.get(part, {})
        place: Part = "obsm" if part == "obsm" else "varm"
        return {
            matrix.key: self._annotation(matrix)
            for matrix in axis_annotations(self._daf, place, axis, main_axes, noted)
        }

    def _annotation(self, matrix: AlignedMatrix) -> Any:
        axes = (matrix.rows_axis, matrix.columns_axis)
        values = self._daf.get_np_matrix(*axes, matrix.name)
        index, columns = (self._daf.axis_entries(axis) for axis in axes)
        return matrix.restore(values, index=index, columns=columns)

    def _unstructured(self, colors: dict[str, Any]) -> dict[str, Any]:
        uns: dict[str, Any] = {}
        for key, entry in self._notes.get("uns", []):
            if entry["type"] == "json":
                self.report.lost(f"uns[{key!r}]", kept.EARLIER_FORM)
            elif entry["type"] == "colors" and key in colors:
                uns[key] = list(colors.pop(key)) if entry["list"] else colors.pop(key)
            elif entry["type"] == "scalar_of_daf" and self._daf.has_scalar(key):
                uns[key] = self._scalar(key, of_numpy=entry["of"] == "numpy")
        uns.update(colors)
        for name in sorted(self._daf.scalars_set()):
            if name not in {*uns, *_notes.AXIS_KEYS, _notes.SCALAR}:
                uns[name] = self._scalar(name, of_numpy=False)
        uns.update({key: str(name) for key, name in self._names.items()})
        return uns

    def _scalar(self, name: str, *, of_numpy: bool) -> Any:
        value = self._daf.get_scalar(name)
        kind = self._daf.scalar_type(name)
        if kind.is_string or not of_numpy:
            return value
        return kind.dtype.type(value)

"""From Daf to AnnData: an object in memory, or a file written in blocks."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from daf_storage import errors
from daf_storage._lazy import pc
from daf_storage.anndata import (
    AXIS_KEYS,
    COLOR,
    NOTES,
    AlignedMatrix,
    MuDataParts,
    Report,
    aligned_matrices,
    axis_frame,
    axis_notes,
    narrowed,
    part_label,
    raw_axis_of,
    read_notes,
    vector_rules,
    writable_frame,
    write_parts,
    write_value,
)
from daf_storage.base import (
    IfExists,
    Progress,
    ShowProgress,
    Span,
    optional_import,
    progress_bar,
)
from daf_storage.data import (
    DafReader,
    StoredMatrix,
    check_reader,
    column_blocks,
    kept,
    ordered,
    scipy_index_dtype,
)
from daf_storage.opening import check_outside
from daf_storage.stores import check_output, output_path
from daf_storage.trees import hdf5_output


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
    for matrix in exporter.matrices:
        value = matrix.read(daf)
        if matrix.part == "X":
            adata.X = value
        else:
            getattr(adata, matrix.part)[matrix.key] = value
    exporter.kept.restore(adata)
    if exporter.has_raw:
        raw = anndata.AnnData(
            X=exporter.raw_x.read(daf) if exporter.raw_x else exporter.kept.value("raw.X"),
            obs=adata.obs[[]],
            var=exporter.raw_var(),
            varm=exporter.raw_varm(),
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
    _check_export(daf, path, if_exists, "export_h5ad")
    exporter = _Exporter(daf, {"obs_is": obs_is, "var_is": var_is, "X_is": X_is})
    return _exported(daf, path, {"": exporter}, None, strict, if_exists, progress)


def export_h5mu(
    daf: DafReader,
    path: str | Path,
    *,
    strict: bool = False,
    if_exists: IfExists = "error",
    progress: ShowProgress = "auto",
) -> Report:
    """Write a Daf data set with several modalities as an ``h5mu`` file, streaming its matrices.

    What belongs to which modality, its names say, as those of a MuData that is read in place: the
    matrix ``rna.X`` and the axis ``rna.var`` are of the modality ``rna``.  The file appears when it
    is complete.

    Parameters
    ----------
    strict
        Whether to raise if something would be lost.

    Returns
    -------
    Report
        What an h5mu file cannot hold, or not as it was.

    Raises
    ------
    UnsupportedInputError
        The data set has no modality; or something would be lost and ``strict`` is true.  No file
        was written.

    Examples
    --------
    >>> import daf_storage, pathlib, tempfile
    >>> daf = daf_storage.MemoryDaf()
    >>> daf.add_axis("obs", ["TATA", "GATA"])
    >>> daf.add_axis("var", ["FOXA1", "CD4"])
    >>> daf.add_axis("rna.var", ["FOXA1"])
    >>> daf.add_axis("prot.var", ["CD4"])
    >>> daf.set_matrix("obs", "rna.var", "rna.X", [[0], [2]])
    >>> daf.set_matrix("obs", "prot.var", "prot.X", [[5], [3]])
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "pbmc.h5mu"
    >>> daf_storage.export_h5mu(daf, path).items
    []
    >>> daf_storage.open_daf(f"{path}#/mod/prot").axis_entries("var").tolist()
    ['CD4']
    """
    _check_export(daf, path, if_exists, "export_h5mu")
    parts = MuDataParts(daf)
    if not parts.modalities:
        raise errors.UnsupportedInputError(
            f"{daf.location}: it has no modality, which is what has an axis such as 'rna.var' and "
            "a matrix 'rna.X'; write an h5ad file: export_h5ad() (on the command line: daf export "
            f"{daf.location} OUT.h5ad)"
        )
    trees = {"": parts.whole, **{each.name: each.tree for each in parts.modalities}}
    exporters = {
        name: _Exporter(DafReader(tree, name=name), {}, is_alone=False)
        for name, tree in trees.items()
    }
    exporters[""].leave_out({"X", "layers"}, "a MuData has no matrices beside its modalities")
    return _exported(daf, path, exporters, parts, strict, if_exists, progress)


def _check_export(daf: DafReader, path: str | Path, if_exists: IfExists, function: str) -> None:
    check_reader(daf, function)
    check_output(path, if_exists=if_exists)
    check_outside(daf, path)
    optional_import("anndata", extra="anndata")


def _exported(
    daf: DafReader,
    path: str | Path,
    exporters: Mapping[str, _Exporter],
    parts: MuDataParts | None,
    strict: bool,  # noqa: FBT001 - as it was given
    if_exists: IfExists,
    show: ShowProgress,
) -> Report:
    """Write an AnnData, or those of modalities by their names; return what is not as it was."""
    report, total = Report(), sum(exporter.size_bytes() for exporter in exporters.values())
    with output_path(path, if_exists=if_exists) as prepared:
        with (
            hdf5_output(prepared, header=b"" if parts is None else _MUDATA) as (file, check),
            progress_bar("export", total, show=show) as bar,
        ):
            for name, exporter in exporters.items():
                exporter.write(file.create_group(f"mod/{name}") if name else file, check, bar)
                report.items += [
                    replace(item, what=f"{name}: {item.what}" if name else item.what)
                    for item in exporter.report.items
                ]
            if parts is not None:
                _write_mudata(file, daf, parts)
        if strict:
            report.refuse_losses(daf.location, what="export")
    return report


_MUDATA: Final = b"MuData (format-version=0.1.0;creator=daf-query)"
"""How a file begins that mudata reads without a warning."""


def _write_mudata(file: Any, daf: DafReader, parts: MuDataParts) -> None:
    """Write where the entries of the global axes are in each modality, and masks of them."""
    del file["layers"]
    file.attrs.update({"encoding-type": "MuData", "axis": parts.axis})
    file["mod"].attrs["mod-order"] = [each.name for each in parts.modalities]
    for part, axis in parts.axes.items():
        kept.write_element(file, f"{part}map", {})
        for each in parts.modalities:
            places = np.arange(1, daf.axis_length(axis) + 1, dtype=np.uint32)
            if (own := each.axes[part]) != axis:
                names = daf.get_pa_vector(axis, own if daf.has_vector(axis, own) else "name")
                found = pc.index_in(names, daf.get_pa_vector(own, "name").cast(names.type))
                places = (pc.fill_null(found, -1).to_numpy() + 1).astype(np.uint32)
            kept.write_element(file[f"{part}map"], each.name, places)
            kept.write_element(file[f"{part}m"], each.name, places > 0)


class _Exporter:
    """One export: which part of the Daf data set becomes which part of the AnnData.

    Parameters
    ----------
    given
        The names of the axes and of the main matrix, as far as they were given.
    is_alone
        Whether the AnnData says what all of these are called; a part of a MuData only says what
        does not go without saying.
    """

    def __init__(
        self, daf: DafReader, given: Mapping[str, str | None], *, is_alone: bool = True
    ) -> None:
        self._daf = daf
        self._is_alone = is_alone
        names = {key: given.get(key) for key in AXIS_KEYS}
        self._notes = read_notes(daf)
        self.report = Report()
        for key, default in AXIS_KEYS.items():
            said = daf.get_scalar(key, default=default)
            names[key] = names[key] if names[key] is not None else str(said)
        self._names = names
        self._obs, self._var, self._main = (str(names[key]) for key in AXIS_KEYS)
        for axis, key in ((self._obs, "obs_is"), (self._var, "var_is")):
            if not daf.has_axis(axis):
                missing = errors.axis_not_found(daf.location, axis, daf.axes_set())
                raise type(missing)(f"{missing}; say which axis with {key}=")
        self._raw_axis = raw_axis_of(self._notes, self._var)
        self.matrices = list(self._aligned(self._var))
        """Those of the axes, by their places in an AnnData."""
        of_raw = list(self._aligned(self._raw_axis)) if daf.has_axis(self._raw_axis) else []
        self.raw_x = next((matrix for matrix in of_raw if matrix.part == "X"), None)
        self._raw_varm = [matrix for matrix in of_raw if matrix.part == "varm"]
        self.kept = KeptParts(daf, self.report, obs=self._obs, var=self._var, raw=self._raw_axis)
        self.has_raw = self.raw_x is not None or self.kept.has("raw.X")

    def _aligned(self, columns_axis: str) -> Iterator[AlignedMatrix]:
        """Yield the matrices that AnnData can hold; the report names the others."""
        daf, is_main = self._daf, columns_axis == self._var
        for matrix in aligned_matrices(daf, self._obs, columns_axis, self._main):
            axes, is_annotation = (matrix.rows_axis, matrix.columns_axis), matrix.is_annotation
            if not is_main and matrix.part not in ("X", "varm"):
                continue
            if matrix.part == "X" and not daf.has_matrix(*axes, matrix.name):
                continue
            stored = daf.open_orientations(*axes[::-1], matrix.name)[0]
            if not is_annotation and stored.info.storage_type.is_string:
                self.report.lost(stored.what, "AnnData has no matrices of strings")
                continue
            yield matrix

    def frames(self) -> dict[str, Any]:
        """Return ``obs``, ``var`` and ``uns``, as the arguments of ``AnnData``."""
        obs, obs_colors = axis_frame(self._daf, self._obs)
        var, var_colors = axis_frame(self._daf, self._var)
        return {"obs": obs, "var": var, "uns": self._unstructured({**var_colors, **obs_colors})}

    def raw_var(self) -> Any:
        """Return ``raw.var``."""
        return axis_frame(self._daf, self._raw_axis)[0]

    def raw_varm(self) -> dict[str, Any]:
        """Return ``raw.varm``."""
        return {matrix.key: matrix.read(self._daf) for matrix in self._raw_varm}

    def report_what_stays(self) -> None:
        """Name the vectors and matrices of other axes, for which AnnData has no place."""
        daf = self._daf
        main = [self._obs, self._var, *([self._raw_axis] if self.has_raw else [])]
        others = sorted(daf.axes_set() - set(main))
        categorical = set()
        for axis in main:
            rules = vector_rules(daf, axis, axis_notes(self._notes, axis), daf.vectors_set(axis))
            categorical |= {rule.get("axis", vector) for vector, rule in rules.items()}
        for axis in others:
            carried = {COLOR} if axis in categorical else set()
            for vector in sorted(daf.vectors_set(axis) - carried):
                what = f"vector {vector!r} of axis {axis!r}"
                self.report.lost(what, "AnnData has no vectors of other axes")
        for position, first in enumerate(others):
            for second in others[position:]:
                for name in sorted(daf.matrices_set(first, second)):
                    what = f"matrix {name!r} of axes {first!r} and {second!r}"
                    self.report.lost(what, "AnnData has no matrices between other axes")

    def leave_out(self, parts: Collection[str], why: str) -> None:
        """Leave out parts, and say why."""
        for matrix in self.matrices:
            if matrix.part in parts:
                self.report.lost(part_label(matrix.part, matrix.key), why)
        self.matrices = [matrix for matrix in self.matrices if matrix.part not in parts]

    def size_bytes(self) -> int:
        """Return about how many bytes the large matrices take."""
        return sum(size_bytes(self._stored(matrix)) for matrix in self._large())

    def _large(self) -> list[AlignedMatrix]:
        chosen = [matrix for matrix in self.matrices if not matrix.is_annotation]
        return [*chosen, *([self.raw_x] if self.raw_x else [])]

    def write(self, file: Any, check: Callable[[], None], progress: Progress) -> None:
        """Write all of it into an h5ad file, or a group; the large matrices block by block.

        Parameters
        ----------
        check
            Called after each block: raises if it could not be written.
        """
        anndata, parts = optional_import("anndata", extra="anndata"), self.frames()
        uns = parts.pop("uns")
        for name in ("obs", "var"):
            parts[name] = writable_frame(parts[name], name, self.report)
        adata = anndata.AnnData(**parts)
        for matrix in self.matrices:
            if matrix.is_annotation:
                getattr(adata, matrix.part)[matrix.key] = matrix.read(self._daf)
        write_parts(file, adata, check)
        for key, value in uns.items():
            write_value(file["uns"], key, value, what=f"uns[{key!r}]", report=self.report)

        def done(size: int) -> None:
            progress.add(size)
            check()

        for matrix in self.matrices:
            if not matrix.is_annotation:
                parent = file if matrix.part == "X" else file.require_group(matrix.part)
                if matrix.part == "X" and "X" in file:
                    del file["X"]
                self._write(parent, matrix.key or "X", matrix, done)
        if self.has_raw:
            self._write_raw(file, done)
        self.kept.write(file)
        self.report_what_stays()

    def _write_raw(self, file: Any, done: Callable[[int], None]) -> None:
        raw = file.create_group("raw")
        raw.attrs.update({"encoding-type": "raw", "encoding-version": "0.1.0"})
        if self.raw_x is not None:
            self._write(raw, "X", self.raw_x, done)
        frame = writable_frame(self.raw_var(), "raw.var", self.report)
        write_value(raw, "var", frame, what="raw.var", report=self.report)
        write_value(raw, "varm", self.raw_varm(), what="raw.varm", report=self.report)

    def _stored(self, matrix: AlignedMatrix) -> StoredMatrix:
        """Return the stored orientation that is nearest to what AnnData had, or wants."""
        axes = (matrix.rows_axis, matrix.columns_axis)
        first = axes if matrix.is_by_columns else axes[::-1]
        return ordered(self._daf.open_orientations(*first, matrix.name)[0])

    def _write(
        self, parent: Any, key: str, matrix: AlignedMatrix, done: Callable[[int], None]
    ) -> None:
        stored = self._stored(matrix)
        info = stored.info
        by_rows = info.is_row_major or (info.columns_axis == self._obs != info.rows_axis)
        if matrix.is_by_columns and by_rows:
            kept.write_element(parent, key, matrix.read(self._daf))
        elif info.is_sparse:
            _write_sparse(parent, key, stored, "csr" if by_rows else "csc", matrix.note, done)
        else:
            values = stored.dense().read()
            _write_dense(parent, key, values if by_rows else values.T, matrix.note, done)

    def _unstructured(self, colors: dict[str, Any]) -> dict[str, Any]:
        uns: dict[str, Any] = {}
        for key, entry in self._notes.get("uns", []):
            if entry["type"] == "colors" and key in colors:
                uns[key] = list(colors.pop(key)) if entry["list"] else colors.pop(key)
            elif entry["type"] == "scalar_of_daf" and self._daf.has_scalar(key):
                uns[key] = self._scalar(key, of_numpy=entry["of"] == "numpy")
        uns.update(colors)
        for name in sorted(self._daf.scalars_set()):
            if name not in {*uns, *AXIS_KEYS, NOTES}:
                uns[name] = self._scalar(name, of_numpy=False)
        for key, said in self._names.items():
            if self._is_alone or said != AXIS_KEYS[key]:
                uns[key] = str(said)
        return uns

    def _scalar(self, name: str, *, of_numpy: bool) -> Any:
        value = self._daf.get_scalar(name)
        kind = self._daf.scalar_type(name)
        return kind.dtype.type(value) if of_numpy and not kind.is_string else value


_COLUMNS = frozenset({"obs", "var", "raw.var"})
"""Parts that are columns of a DataFrame; `axis_frame` has them."""
_WHOLE = frozenset({"X", "raw.X"})
"""Parts without keys."""
_FRAMES = {"obsm": "obs", "varm": "var", "raw.varm": "raw/var"}
"""Parts whose DataFrames have the names of another one, as anndata requires."""


class KeptParts:
    """The kept parts of a data set, as far as they belong to the axes of an export.

    Parameters
    ----------
    obs, var, raw
        The axes that become ``obs``, ``var`` and ``raw.var``.
    """

    def __init__(self, daf: DafReader, report: Report, *, obs: str, var: str, raw: str) -> None:
        aligned: dict[str, tuple[str, ...]] = {
            "uns": (),
            "obs": (obs,),
            "var": (var,),
            "obsm": (obs,),
            "varm": (var,),
            "X": (obs, var),
            "layers": (obs, var),
            "obsp": (obs, obs),
            "varp": (var, var),
            "raw.X": (obs, raw),
            "raw.var": (raw,),
            "raw.varm": (raw,),
        }
        self._daf = daf
        self._report = report
        self._parts: list[kept.KeptPart] = []
        for part in kept.parts(daf.tree):
            if part.part not in aligned:
                report.lost(
                    part_label(part.part, part.key),
                    "AnnData has no such part; it stays in the data set",
                )
            elif part.axes != aligned[part.part]:
                report.lost(
                    part_label(part.part, part.key), "it belongs to axes that are not exported"
                )
            elif part.part not in _COLUMNS:
                self._parts.append(part)

    def has(self, name: str) -> bool:
        """Return whether there is a part, such as ``raw.X``."""
        return any(part.part == name for part in self._parts)

    def value(self, name: str) -> Any:
        """Return a part that has no keys."""
        return next(part.value() for part in self._parts if part.part == name)

    def restore(self, adata: Any, *, below: str = "") -> None:
        """Put the parts into an AnnData; what was stored under the same name since wins.

        Parameters
        ----------
        below
            ``"raw."`` to fill the AnnData that becomes ``raw``.
        """
        for part in self._parts:
            name = part.part.removeprefix(below)
            if part.part.startswith("raw.") != bool(below) or part.part == "raw.X":
                continue
            value = part.value()
            if part.axes and not self._fits(
                part, value.shape if hasattr(value, "shape") else (len(value),)
            ):
                continue
            if part.part in _FRAMES and hasattr(value, "iloc"):
                value = value.set_axis(adata.obs_names if name == "obsm" else adata.var_names)
            if name == "X":
                adata.X = value if adata.X is None else adata.X
            elif part.key not in getattr(adata, name):
                getattr(adata, name)[part.key] = value

    def write(self, file: Any) -> None:
        """Write the parts into an h5ad file, as they were in one if they come from one."""
        for part in self._parts:
            place = file.require_group("raw") if part.part.startswith("raw.") else file
            name = part.part.removeprefix("raw.")
            place, key = (place, name) if part.part in _WHOLE else (place[name], part.key)
            if key in place:
                continue
            part.copy_to(place, key)
            stored = place[key]
            shape = getattr(stored, "shape", stored.attrs.get("shape"))
            if shape is not None and not self._fits(part, shape):
                del place[key]
            elif part.part in _FRAMES:
                _rename_rows(stored, file[_FRAMES[part.part]])

    def _fits(self, part: kept.KeptPart, given: Any) -> bool:
        """Return whether a shape has the length of its axes; say so if it has not."""
        lengths = tuple(self._daf.axis_length(axis) for axis in part.axes)
        shape = tuple(map(int, given))
        if shape[: len(lengths)] == lengths:
            return True
        self._report.lost(
            part_label(part.part, part.key), f"it has the shape {shape}, and its axes {lengths}"
        )
        return False


def _rename_rows(element: Any, frame: Any) -> None:
    """Give a DataFrame in a file the names of another one."""
    if element.attrs.get("encoding-type") == "dataframe":
        index, names = element.attrs["_index"], frame.attrs["_index"]
        del element[index]
        frame.copy(frame[names], element, index)


_BLOCK_BYTES = 64 << 20


def size_bytes(stored: StoredMatrix) -> int:
    """Return about how many bytes the values and indices of a matrix take."""
    info = stored.info
    item = 1 if info.storage_type.is_string else info.storage_type.dtype.itemsize
    return info.shape[0] * info.shape[1] * item if info.nnz is None else info.nnz * (item + 4)


def _write_blocks(
    parent: Any,
    key: str,
    shape: tuple[int, ...],
    dtype: np.dtype[Any],
    blocks: Callable[[], Iterable[npt.NDArray[Any]]],
    done: Callable[[int], None],
    *,
    note: Mapping[str, Any] = MappingProxyType({}),
) -> Any:
    """Write an array block by block, in the dtype that it had unless new values need more."""
    wanted = np.dtype(note.get("dtype", dtype))
    if wanted != dtype and all(narrowed(block, wanted).dtype == wanted for block in blocks()):
        dtype = wanted
    dataset, start = parent.create_dataset(key, shape=shape, dtype=dtype), 0
    for block in blocks():
        dataset[start : start + len(block)] = block
        start += len(block)
        done(block.nbytes)
    return dataset


def _write_sparse(
    parent: Any,
    key: str,
    stored: StoredMatrix,
    layout: str,
    note: Mapping[str, Any],
    done: Callable[[int], None],
) -> None:
    """Write a sparse matrix as ``csr`` or ``csc``."""
    info, indptr = stored.info, stored.colptr()
    integer: Any = np.dtype(scipy_index_dtype(max(*info.shape, info.nnz or 0)))
    spans = [
        Span(int(indptr[each.start]), int(indptr[each.stop])) for each in column_blocks(indptr)
    ]

    def positions() -> Iterator[npt.NDArray[Any]]:
        for span in spans:
            yield stored.indices.read_rows(span).astype(integer) - integer.type(stored.index_base)

    values = partial(map, stored.values, spans)
    group, length = parent.create_group(key), (info.nnz or 0,)
    shape = info.shape[::-1] if layout == "csr" else info.shape
    group.attrs.update(
        {"encoding-type": f"{layout}_matrix", "encoding-version": "0.1.0", "shape": shape}
    )
    group.create_dataset("indptr", data=indptr.astype(integer))
    _write_blocks(group, "indices", length, integer, positions, done)
    _write_blocks(group, "data", length, info.storage_type.dtype, values, done, note=note)


def _write_dense(
    parent: Any,
    key: str,
    values: npt.NDArray[Any],
    note: Mapping[str, Any],
    done: Callable[[int], None],
) -> None:
    """Write a dense matrix."""
    rows = max(_BLOCK_BYTES // max(values.shape[1] * values.itemsize, 1), 1)

    def blocks() -> Iterator[npt.NDArray[Any]]:
        for start in range(0, values.shape[0], rows):
            yield values[start : start + rows]

    dataset = _write_blocks(parent, key, values.shape, values.dtype, blocks, done, note=note)
    dataset.attrs.update({"encoding-type": "array", "encoding-version": "0.2.0"})

"""From Daf to AnnData: an object in memory, or a file written in blocks."""

from __future__ import annotations

import posixpath
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from itertools import combinations_with_replacement
from pathlib import Path
from typing import Any, Final, TypeAlias, TypeGuard

import numpy as np
import numpy.typing as npt

from daf_storage import errors
from daf_storage._lazy import pc
from daf_storage.anndata import (
    AXIS_KEYS,
    COLOR,
    AlignedMatrix,
    MuDataParts,
    Report,
    aligned_matrices,
    axis_frame,
    axis_notes,
    narrowed,
    noted_scalars,
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
    column_blocks,
    optional_import,
    progress_bar,
    spans_of_length,
)
from daf_storage.data import (
    DafReader,
    StoredMatrix,
    check_reader,
    kept,
    ordered,
    scipy_index_dtype,
    size_bytes,
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
    contents = exporter.contents()
    parts: dict[str, Any] = {}
    for place in contents:
        part, key = place
        value = exporter.value(place, contents)
        parts = parts | {part: value if part in _WHOLE else {**parts.get(part, {}), key: value}}
    own = {part: value for part, value in parts.items() if not part.startswith(_RAW)}
    adata = anndata.AnnData(**own)
    if exporter.has_raw:
        raw = {part.removeprefix(_RAW): parts[part] for part in parts.keys() - own.keys()}
        adata.raw = anndata.AnnData(obs=adata.obs[[]], **raw)
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
    exporters = {
        name: _Exporter(DafReader(tree, name=name), {}, is_alone=False)
        for name, tree in parts.trees.items()
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
    file["mod"].attrs["mod-order"] = list(parts.modalities)
    for part, axis in parts.axes.items():
        kept.write_element(file, f"{part}map", {})
        for name, axes in parts.modalities.items():
            places = np.arange(1, daf.axis_length(axis) + 1, dtype=np.uint32)
            if (own := axes[part]) != axis:
                names = daf.get_pa_vector(axis, own if daf.has_vector(axis, own) else "name")
                found = pc.index_in(names, daf.get_pa_vector(own, "name").cast(names.type))
                places = (pc.fill_null(found, -1).to_numpy() + 1).astype(np.uint32)
            kept.write_element(file[f"{part}map"], name, places)
            kept.write_element(file[f"{part}m"], name, places > 0)


Place: TypeAlias = tuple[str, str]
"""A part of an AnnData, such as ``layers`` or ``raw.X``, and a key; empty of what has none."""

_RAW: Final = "raw."
_WHOLE: Final = frozenset({"X", "obs", "var", "raw.X", "raw.var"})
"""Parts without keys."""
_ALIGNED: Final[Mapping[str, tuple[str, ...]]] = {
    "uns": (),
    "obs": ("obs",),
    "var": ("var",),
    "obsm": ("obs",),
    "varm": ("var",),
    "X": ("obs", "var"),
    "layers": ("obs", "var"),
    "obsp": ("obs", "obs"),
    "varp": ("var", "var"),
    "raw.X": ("obs", "raw.var"),
    "raw.var": ("raw.var",),
    "raw.varm": ("raw.var",),
}
"""The parts, and to which axes they are aligned."""
_ROWS_OF: Final = {"obsm": "obs", "varm": "var", "raw.varm": "raw.var"}
"""Parts whose DataFrames have the names of another one, as anndata requires."""


class _Exporter:
    """One export: what of the Daf data set comes to which place of the AnnData.

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
        self._notes = read_notes(daf)
        self.report = Report()
        self._names = {
            key: str(daf.get_scalar(key, default=default) if given.get(key) is None else given[key])
            for key, default in AXIS_KEYS.items()
        }
        obs, var, main = self._names.values()
        for axis, key in ((obs, "obs_is"), (var, "var_is")):
            if not daf.has_axis(axis):
                missing = errors.axis_not_found(daf.location, axis, daf.axes_set())
                raise type(missing)(f"{missing}; say which axis with {key}=")
        self._axes = {"obs": obs, "var": var, "raw.var": raw_axis_of(self._notes, var)}
        self._stored: dict[Place, AlignedMatrix | kept.KeptPart] = {}
        self._placed: set[tuple[frozenset[str], str]] = set()
        self._add_matrices(var, main, "")
        if daf.has_axis(self._axes["raw.var"]):
            self._add_matrices(self._axes["raw.var"], main, _RAW)
        for part in kept.parts(daf.tree):
            place = part.part, part.key
            problem = "" if place in self._stored else self._problem_of(part)
            if problem:
                self.report.lost(part_label(*place), problem)
            elif part.part not in ("obs", "var", "raw.var"):  # the columns of which are in a frame
                self._stored.setdefault(place, part)
        self.has_raw = ("raw.X", "") in self._stored

    def _add_matrices(self, columns_axis: str, main: str, start: str) -> None:
        """Add the matrices that AnnData can hold; the report names the others."""
        daf = self._daf
        for matrix in aligned_matrices(daf, self._axes["obs"], columns_axis, main):
            axes, part = (matrix.rows_axis, matrix.columns_axis), start + matrix.part
            if part not in _ALIGNED or (matrix.part == "X" and not daf.has_matrix(*axes, main)):
                continue
            self._placed.add((frozenset(axes), matrix.name))
            stored = daf.open_orientations(*axes[::-1], matrix.name)[0]
            if not matrix.is_annotation and stored.info.storage_type.is_string:
                self.report.lost(stored.what, "AnnData has no matrices of strings")
            else:
                self._stored[part, matrix.key] = matrix

    def _problem_of(self, part: kept.KeptPart) -> str:
        """Return why a kept part has no place in the AnnData; empty if it has."""
        if part.part not in _ALIGNED:
            return "AnnData has no such part; it stays in the data set"
        if part.axes != tuple(self._axes[each] for each in _ALIGNED[part.part]):
            return "it belongs to axes that are not exported"
        lengths = tuple(map(self._daf.axis_length, part.axes))
        try:
            shape = part.shape() if lengths else lengths
        except errors.UnsupportedDataError as error:
            return str(error)
        n_given = None if part.part in self._axes else len(lengths)
        if shape is None or shape[:n_given] == lengths:
            return ""
        return f"it has the shape {shape}, and its axes {lengths}"

    def contents(self) -> dict[Place, Any]:
        """Return what there is by its places: values, and what is stored of matrices and parts."""
        axes = self._axes if self.has_raw else {name: self._axes[name] for name in ("obs", "var")}
        frames = {name: axis_frame(self._daf, axis) for name, axis in axes.items()}
        found: dict[Place, Any] = {(name, ""): frame for name, (frame, _) in frames.items()}
        uns = self._unstructured({**frames["var"][1], **frames["obs"][1]})
        found |= {("uns", key): value for key, value in uns.items()}
        for place, stored in self._stored.items():
            if self.has_raw or not place[0].startswith(_RAW):
                found.setdefault(place, stored)
        return found

    def value(self, place: Place, contents: Mapping[Place, Any]) -> Any:
        """Return what is at a place of the contents, in memory."""
        found = contents[place]
        if isinstance(found, AlignedMatrix):
            return found.read(self._daf)
        if not isinstance(found, kept.KeptPart):
            return found
        value, rows_of = found.value(), _ROWS_OF.get(place[0])
        is_frame = rows_of is not None and hasattr(value, "iloc")
        return value.set_axis(contents[str(rows_of), ""].index) if is_frame else value

    def report_what_stays(self) -> None:
        """Name the vectors and matrices of other axes, for which AnnData has no place."""
        daf = self._daf
        main = [axis for name, axis in self._axes.items() if self.has_raw or name != "raw.var"]
        others = sorted(daf.axes_set() - set(main))
        categorical = set()
        for axis in main:
            rules = vector_rules(axis_notes(self._notes, axis), daf.vectors_set(axis))
            categorical |= {rule.get("axis", vector) for vector, rule in rules.items()}
        for axis in others:
            carried = {COLOR} if axis in categorical else set()
            for vector in sorted(daf.vectors_set(axis) - carried):
                what = f"vector {vector!r} of axis {axis!r}"
                self.report.lost(what, "AnnData has no vectors of other axes")
        for first, second in combinations_with_replacement(sorted(daf.axes_set()), 2):
            is_main = self.has_raw or self._axes["raw.var"] not in (first, second)
            for name in sorted(daf.matrices_set(first, second)):
                if not is_main or (frozenset((first, second)), name) not in self._placed:
                    what = f"matrix {name!r} of axes {first!r} and {second!r}"
                    self.report.lost(what, "AnnData has no matrices between other axes")

    def leave_out(self, parts: Collection[str], why: str) -> None:
        """Leave out parts, and say why."""
        for place in [place for place in self._stored if place[0] in parts]:
            self.report.lost(part_label(*place), why)
            del self._stored[place]

    def size_bytes(self) -> int:
        """Return about how many bytes the large matrices take."""
        stored = [self._nearest(each) for each in self._stored.values() if _is_large(each)]
        return size_bytes(array for one in stored for array in one.arrays().values())

    def write(self, file: Any, check: Callable[[], None], progress: Progress) -> None:
        """Write all of it into an h5ad file, or a group; the large matrices block by block.

        Parameters
        ----------
        check
            Called after each block: raises if it could not be written.
        """

        def done(size: int) -> None:
            progress.add(size)
            check()

        anndata, contents = optional_import("anndata", extra="anndata"), self.contents()
        frames = {
            name: writable_frame(contents[name, ""], name, self.report) for name in ("obs", "var")
        }
        write_parts(file, anndata.AnnData(**frames), check)
        if self.has_raw:
            raw = file.create_group("raw")
            raw.attrs.update({"encoding-type": "raw", "encoding-version": "0.1.0"})
            kept.write_element(raw, "varm", {})
        for place, found in contents.items():
            part, key = place
            where = part.replace(".", "/")
            parent, name = posixpath.split(where) if part in _WHOLE else (where, key)
            group = file[parent] if parent else file
            if part in frames:
                continue
            if "/" in key and part != "uns":  # anndata would write it, and read no such file
                self.report.lost(part_label(*place), f"an h5ad file has no keys such as {key!r}")
            elif _is_large(found):
                self._write(group, name, found, done)
            elif isinstance(found, kept.KeptPart) and not (part in _ROWS_OF and found.is_frame()):
                found.copy_to(group, name)
            else:
                value = self.value(place, contents)
                write_value(group, name, value, what=part_label(*place), report=self.report)
        self.report_what_stays()

    def _nearest(self, matrix: AlignedMatrix) -> StoredMatrix:
        """Return the stored orientation that is nearest to what AnnData had, or wants."""
        axes = (matrix.rows_axis, matrix.columns_axis)
        first = axes if matrix.is_by_columns else axes[::-1]
        return self._daf.open_orientations(*first, matrix.name)[0]

    def _write(
        self, parent: Any, key: str, matrix: AlignedMatrix, done: Callable[[int], None]
    ) -> None:
        stored = ordered(self._nearest(matrix))
        info = stored.info
        by_rows = info.is_row_major or (info.columns_axis == self._axes["obs"] != info.rows_axis)
        if matrix.is_by_columns and by_rows:
            kept.write_element(parent, key, matrix.read(self._daf))
        elif info.is_sparse:
            _write_sparse(parent, key, stored, "csr" if by_rows else "csc", matrix.note, done)
        else:
            values = stored.dense().read()
            values = values if by_rows else values.T
            height = max(_BLOCK_BYTES // max(values.shape[1] * values.itemsize, 1), 1)
            spans = list(spans_of_length(len(values), height))
            blocks, dtype = lambda: (values[span.slice] for span in spans), values.dtype
            written = _write_blocks(parent, key, values.shape, dtype, blocks, done, matrix.note)
            written.attrs.update({"encoding-type": "array", "encoding-version": "0.2.0"})

    def _unstructured(self, colors: dict[str, Any]) -> dict[str, Any]:
        lists = {key for key, entry in self._notes.get("uns", []) if entry.get("list")}
        uns = {key: list(each) if key in lists else each for key, each in colors.items()}
        names = {
            key: name
            for key, name in self._names.items()
            if self._is_alone or name != AXIS_KEYS[key]
        }
        return {**noted_scalars(self._daf), **uns, **names}


def _is_large(found: Any) -> TypeGuard[AlignedMatrix]:
    """Return whether this is a matrix that is written in blocks."""
    return isinstance(found, AlignedMatrix) and not found.is_annotation


_BLOCK_BYTES = 64 << 20


def _write_blocks(
    parent: Any,
    key: str,
    shape: tuple[int, ...],
    dtype: np.dtype[Any],
    blocks: Callable[[], Iterable[npt.NDArray[Any]]],
    done: Callable[[int], None],
    note: Mapping[str, Any],
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
    _write_blocks(group, "indices", length, integer, positions, done, {})
    _write_blocks(group, "data", length, info.storage_type.dtype, values, done, note)

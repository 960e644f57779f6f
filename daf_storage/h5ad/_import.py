"""From AnnData to Daf, in blocks: memory does not grow with the matrices.

What each part becomes is written down in docs/reference/anndata.md.  Nothing is dropped silently:
what cannot be carried over is listed in the report.
"""

from __future__ import annotations

import json
import warnings
from collections.abc import Collection
from pathlib import Path
from typing import Any, Literal, TypeAlias

import numpy as np
import pyarrow as pa

from daf_storage import errors
from daf_storage.anndata_rules import Report, free_name, part_label, scalar_value
from daf_storage.anndata_rules import annotations as _annotations
from daf_storage.anndata_rules import columns as _columns
from daf_storage.anndata_rules import notes as _notes
from daf_storage.base import (
    IMPORT_CHUNK_KB,
    RESERVED_VECTORS,
    IfExists,
    Packing,
    ShowProgress,
    StorageType,
    first_duplicate,
    name_problem,
    optional_import,
    progress_bar,
)
from daf_storage.data import (
    DEFAULT_MEMORY_BYTES,
    CountsAs,
    DafWriter,
    check_memory,
    count_types,
    kept,
    strings_input,
)
from daf_storage.h5ad._matrices import MatrixWriter
from daf_storage.h5ad._sources import (
    AnnDataSource,
    MatrixSource,
    OtherSource,
    from_object,
    open_h5ad,
)
from daf_storage.h5ad._undo import undone_on_error
from daf_storage.opening import MemoryDaf, new_data_set
from daf_storage.trees import ZarrVersion

Duplicates: TypeAlias = Literal["error", "make_unique"]
"""What to do with names that occur more than once: refuse, or append ``-1``, ``-2`` and so on."""


def from_anndata(  # noqa: PLR0913 - the choices of an import
    adata: Any,
    destination: DafWriter | None = None,
    *,
    name: str | None = None,
    obs_is: str | None = None,
    var_is: str | None = None,
    X_is: str | None = None,  # noqa: N803 - the reference's spelling
    categorical_axes: Collection[str] = (),
    relayout: bool = True,
    duplicates: Duplicates = "error",
    strict: bool = False,
    counts_as: CountsAs = None,
) -> DafWriter:
    """Return an AnnData object as a Daf data set, in memory unless a destination is given.

    Parameters
    ----------
    destination
        An empty data set to fill; a new `MemoryDaf` by default.
    name
        What the new `MemoryDaf` is called; a destination has its own name.
    obs_is, var_is, X_is
        Names of the two axes and of the main matrix.  By default what ``uns`` says under these
        keys, else ``obs``, ``var`` and ``X``.
    categorical_axes
        Categorical columns that become an axis of their own, besides those that have colours.
    relayout
        Whether to store the matrices in both orientations.
    duplicates
        What to do if ``obs_names`` or ``var_names`` are not unique.
    strict
        Whether to raise if a part cannot be carried over.
    counts_as
        The type in which the whole numbers of the main matrix are stored: ``"uint8"``,
        ``"uint16"`` or ``"uint32"``; or that of several matrices, by the key of the layer, ``"X"``
        and ``"raw.X"``.  Slices and SQL have that type; a matrix becomes an AnnData's in the type
        that it had.

    Warns
    -----
    AnnDataWarning
        For each part that cannot be carried over, or not as it was.

    Raises
    ------
    UnsupportedInputError
        Something would be lost and ``strict`` is true, or a value does not fit into the type of
        ``counts_as``; the destination is as empty as it was.

    Examples
    --------
    >>> import anndata, numpy as np
    >>> daf = from_anndata(anndata.AnnData(np.eye(2)), name="tiny!", obs_is="cell", var_is="gene")
    >>> daf.name, sorted(daf.axes_set())
    ('tiny!', ['cell', 'gene'])
    """
    if destination is not None and name is not None:
        raise errors.InvalidInputError(
            f"{destination.location}: a destination has a name already, {destination.name!r}; pass "
            f"name={name!r} without a destination, or when the destination is opened"
        )
    daf = destination if destination is not None else MemoryDaf(name=name)
    importer = Importer(
        from_object(adata, "AnnData"),
        daf,
        names={"obs_is": obs_is, "var_is": var_is, "X_is": X_is},
        categorical_axes=categorical_axes,
        relayout=relayout,
        duplicates=duplicates,
        strict=strict,
        counts_as=counts_as,
        memory_bytes=DEFAULT_MEMORY_BYTES,
        progress="never",
    )
    with undone_on_error(daf):
        report = importer.run()
    report.warn()
    return daf


def import_h5ad(  # noqa: PLR0913 - the choices of an import
    source: str | Path,
    destination: str | Path | DafWriter,
    *,
    obs_is: str | None = None,
    var_is: str | None = None,
    X_is: str | None = None,  # noqa: N803 - the reference's spelling
    categorical_axes: Collection[str] = (),
    relayout: bool = True,
    duplicates: Duplicates = "error",
    strict: bool = False,
    counts_as: CountsAs = None,
    if_exists: IfExists = "error",
    zarr_format: ZarrVersion | None = None,
    packed: bool | Packing = False,
    memory_bytes: int = DEFAULT_MEMORY_BYTES,
    progress: ShowProgress = "auto",
) -> Report:
    """Import an ``h5ad`` file into a new Daf data set, streaming its matrices.

    Parameters
    ----------
    source
        The file.
    destination
        A path, at which the data set appears when it is complete, or an empty data set.
    counts_as
        The type in which the whole numbers of matrices are stored, as of `from_anndata`.
    if_exists
        What becomes of a data set at the destination's path:
        ``"error"`` leaves it, ``"replace"`` replaces it.
    zarr_format, packed
        How to write it at a path, see `open_daf`; a data set was opened so.  Where it is packed,
        indices have the narrowest type, and ``True`` asks for chunks of 64 KiB.
    memory_bytes
        How much memory the elements of matrices may take on their way, 16 MiB or more.  Names,
        columns and pointers to rows are not counted.  With more, the second orientation of a matrix
        is written in fewer passes.  Of what is packed, each matrix is held besides.
    progress
        Whether to show a progress bar on stderr.

    Other parameters are those of `from_anndata`.

    Returns
    -------
    Report
        What could not be carried over, or not as it was, and what is kept beside the data.

    Raises
    ------
    FormatError
        The source is not an h5ad file.
    InvalidInputError
        ``memory_bytes`` is too little.
    UnsupportedInputError
        Something would be lost and ``strict`` is true; nothing is left at the destination.
    ExistsError
        There is something at the destination and ``if_exists`` is ``"error"``.

    Examples
    --------
    >>> import anndata, daf_storage, pathlib, tempfile
    >>> folder = pathlib.Path(tempfile.mkdtemp())
    >>> anndata.AnnData(shape=(2, 3)).write_h5ad(folder / "empty.h5ad")
    >>> path = folder / "empty.daf.zarr"
    >>> report = daf_storage.import_h5ad(folder / "empty.h5ad", path, obs_is="cell", var_is="gene")
    >>> daf_storage.open_daf(path).axis_length("gene")
    3
    """
    options: dict[str, Any] = {
        "names": {"obs_is": obs_is, "var_is": var_is, "X_is": X_is},
        "categorical_axes": categorical_axes,
        "relayout": relayout,
        "duplicates": duplicates,
        "strict": strict,
        "counts_as": counts_as,
        "memory_bytes": check_memory(memory_bytes),
        "progress": progress,
    }
    if isinstance(destination, DafWriter) and (packed or zarr_format is not None):
        raise errors.InvalidInputError(
            f"{destination.location}: it was opened already; open it with packed= and "
            "zarr_format=, or pass its path"
        )
    with open_h5ad(Path(source)) as parts:
        if isinstance(destination, DafWriter):
            importer = Importer(parts, destination, **options)
            with undone_on_error(destination):
                return importer.run()
        with new_data_set(
            destination,
            if_exists=if_exists,
            zarr_format=zarr_format,
            packed=_import_packing(packed),
        ) as daf:
            return Importer(parts, daf, **options).run()


def _import_packing(packed: bool | Packing) -> bool | Packing:  # noqa: FBT001 - as `packed=` is given
    """Return how an import packs: by default, in larger chunks than what is written by hand."""
    return Packing(chunk_kb=IMPORT_CHUNK_KB) if packed is True else packed


class Importer:
    """One import: from the parts of an AnnData into an empty data set."""

    def __init__(  # noqa: PLR0913 - the choices of an import
        self,
        source: AnnDataSource,
        daf: DafWriter,
        *,
        names: dict[str, str | None],
        categorical_axes: Collection[str],
        relayout: bool,
        duplicates: Duplicates,
        strict: bool,
        counts_as: CountsAs,
        memory_bytes: int,
        progress: ShowProgress,
    ) -> None:
        if daf.axes_set():
            raise errors.ExistsError(
                f"{daf.location}: an import needs an empty data set; this one has axes "
                f"{errors.known_names(daf.axes_set(), none='')}"
            )
        self._source = source
        self._daf = daf
        self._report = Report()
        self._uns = dict(source.uns)
        self._names = {key: self._name_of(key, given) for key, given in names.items()}
        self._obs, self._var, self._main = (self._names[key] for key in _notes.AXIS_KEYS)
        self._categorical_axes = set(categorical_axes)
        self._relayout = relayout
        self._duplicates = duplicates
        self._strict = strict
        self._counts = self._counts_by_part(count_types(counts_as, "X"))
        self._memory_bytes = memory_bytes
        self._show = progress
        self._notes: _notes.Notes = {"version": 1, "axes": {}, "matrices": {}, "uns": []}

    def run(self) -> Report:
        """Do it; return what differs."""
        if self._obs == self._var:
            raise errors.InvalidInputError(
                f"both axes would be called {self._obs!r}; pass different obs_is= and var_is="
            )
        self._check_categorical_axes()
        self._add_axis(self._obs, self._source.obs, "obs")
        self._add_axis(self._var, self._source.var, "var")
        raw_axis = self._add_raw_axis()
        for axis, frame, part in self._frames(raw_axis):
            self._add_columns(axis, frame, part)
        self._add_matrices(raw_axis)
        for part, element in self._source.unknown.items():
            self._keep((), part, "", element, "this part of the file is not known to AnnData")
        self._add_uns()
        if self._strict:
            self._report.refuse_losses(self._source.name, what="import")
        for key, name in self._names.items():
            self._daf.set_scalar(key, name)
        self._daf.set_scalar(_notes.SCALAR, json.dumps(self._notes, separators=(",", ":")))
        return self._report

    def _counts_by_part(self, counts: dict[str, StorageType]) -> dict[str, StorageType]:
        """Return the types of matrices by what reports call them; refuse names of none."""
        source = self._source
        parts = {key: part_label("layers", key) for key in source.layers}
        parts |= {"X": "X"} if source.main is not None else {}
        parts |= {"raw.X": "raw.X"} if source.raw is not None else {}
        unknown = set(counts) - set(parts)
        if unknown:
            asked = min(unknown)
            raise errors.MatrixNotFoundError(
                f"{source.name}: there is no matrix {asked!r} to store as counts; there are "
                f"{errors.known_names(parts, none='none')}{errors.nearest(asked, parts)}"
            )
        return {parts[name]: kind for name, kind in counts.items()}

    def _name_of(self, key: str, given: str | None) -> str:
        said = self._uns.pop(key, None)
        if given is not None:
            return given
        return str(said) if said is not None else _notes.AXIS_KEYS[key]

    def _check_categorical_axes(self) -> None:
        """Refuse columns that are not there, before anything is written."""
        raw = self._source.raw
        frames = [self._source.obs, self._source.var, *([] if raw is None else [raw.var])]
        columns = {str(column) for frame in frames for column in frame.columns}
        unknown = self._categorical_axes - columns
        if unknown:
            asked = min(unknown)
            raise errors.VectorNotFoundError(
                f"{self._source.name}: there is no column {asked!r} to make an axis of; there are "
                f"{errors.known_names(columns, none='none')}{errors.nearest(asked, columns)}"
            )

    # Axes and vectors

    def _frames(self, raw_axis: str | None) -> list[tuple[str, Any, str]]:
        frames = [(self._obs, self._source.obs, "obs"), (self._var, self._source.var, "var")]
        if raw_axis is not None and self._source.raw is not None:
            frames.append((raw_axis, self._source.raw.var, "raw.var"))
        return frames

    def _add_axis(self, axis: str, frame: Any, part: str) -> None:
        names = frame.index
        if not all(issubclass(found, str) for found in set(map(type, names))):
            self._report.changed(f"{part}_names", "names that are not strings became text")
            names = names.map(str)
        strings = strings_input(names, what=f"{self._source.name}: {part}_names")
        twice = first_duplicate(strings)
        if twice is not None:
            if self._duplicates == "error":
                raise errors.with_remedy(
                    errors.DuplicateEntriesError(
                        f"{self._source.name}: {part}_names are not unique: {twice!r} occurs more "
                        "than once"
                    ),
                    errors.Remedy(
                        "make them unique in AnnData, or import with ", 'duplicates="make_unique"'
                    ),
                )
            self._report.renamed(f"{part}_names", f"made unique, such as {twice!r} to '{twice}-1'")
            make_unique = optional_import("anndata.utils", extra="anndata").make_index_unique
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                strings = make_unique(names)
        self._daf.add_axis(axis, strings)
        self._notes["axes"][axis] = {"index_name": _text_or_none(frame.index.name), "columns": []}

    def _add_raw_axis(self) -> str | None:
        raw = self._source.raw
        if raw is None:
            return None
        axis = self._free_axis(f"{self._var}_raw")
        self._add_axis(axis, raw.var, "raw.var")
        self._notes["raw"] = {"axis": axis}
        return axis

    def _add_columns(self, axis: str, frame: Any, part: str) -> None:
        taken = set(RESERVED_VECTORS)
        columns = self._notes["axes"][axis]["columns"]
        for position, column in enumerate(frame.columns):
            what = f"{part}[{column!r}]"
            series = frame.iloc[:, position]
            try:
                encoded = _columns.encode_column(series)
            except (
                errors.UnsupportedInputError,
                ValueError,
                TypeError,
                pa.ArrowException,
            ) as error:
                kept_as = self._keep((axis,), part, str(column), series.array, str(error))
                if kept_as is not None:
                    columns.append({"column": str(column), "kept": kept_as})
                continue
            if encoded.note:
                self._report.changed(what, encoded.note)
            name = free_name(str(column), taken)
            if name != column:
                self._report.renamed(what, f"stored as the vector {name!r}")
            columns.append({"column": str(column), "vector": name, **encoded.rule})
            if encoded.categories is not None:
                self._add_categories(str(column), encoded.categories, columns[-1], part)
            self._daf.set_vector(
                axis,
                name,
                encoded.values,
                empty_is_missing=encoded.empty_is_missing,
                entries_of=columns[-1].get("axis"),
            )
            taken.add(name)
            if encoded.is_missing is not None:
                missing = free_name(f"{name}{_columns.MISSING_SUFFIX}", taken)
                self._daf.set_vector(axis, missing, encoded.is_missing)
                columns[-1]["is_missing"] = missing
                taken.add(missing)

    def _add_categories(
        self, column: str, categories: Any, rule: dict[str, Any], part: str
    ) -> None:
        """Keep the order of the categories: as an axis, or in the rule."""
        colors = self._colors_of(column, categories)
        if colors is None and column not in self._categorical_axes:
            rule["categories"] = categories.to_pylist()
            return
        axis = column if name_problem(column) is None else rule["vector"]
        axis = self._free_axis(axis if not self._daf.has_axis(axis) else f"{axis}_{part}")
        self._daf.add_axis(axis, categories)
        rule["axis"] = axis
        if colors is not None:
            self._daf.set_vector(axis, "color", colors)

    def _colors_of(self, column: str, categories: Any) -> list[str] | None:
        """Take the colours of a categorical out of ``uns``, if they fit its categories."""
        colors = self._uns.get(f"{column}_colors")
        if not isinstance(colors, list | np.ndarray):
            return None
        if np.ndim(colors) != 1 or len(colors) != len(categories):
            return None
        if not all(isinstance(color, str) for color in colors):
            return None
        is_string = isinstance(colors, np.ndarray) and colors.dtype.kind in "OUT"
        self._notes["uns"].append([f"{column}_colors", {"type": "colors", "list": not is_string}])
        del self._uns[f"{column}_colors"]
        return [str(color) for color in colors]

    # Matrices

    def _add_matrices(self, raw_axis: str | None) -> None:
        source = self._source
        raw = source.raw
        large = [source.main, raw.matrix if raw else None, *source.layers.values()]
        square = [*source.obsp.values(), *source.varp.values()]
        total = sum(m.size_bytes for m in large if m is not None) * (1 + self._relayout)
        total += sum(m.size_bytes for m in square)
        with progress_bar("import", total, show=self._show) as progress:
            writer = MatrixWriter(
                self._daf,
                self._report,
                self._notes["matrices"],
                progress,
                relayout=self._relayout,
                counts=self._counts,
                memory_bytes=self._memory_bytes,
            )
            if source.main is not None:
                self._add_matrix(writer, source.main, self._var, self._main, "X", "")
            if raw is not None and raw_axis is not None:
                self._add_matrix(writer, raw.matrix, raw_axis, self._main, "raw.X", "")
            taken = {self._main}
            for key, matrix in source.layers.items():
                if isinstance(matrix, OtherSource):
                    self._add_matrix(writer, matrix, self._var, "", "layers", key)
                    continue
                name = free_name(key, taken)
                if name != key:
                    self._report.renamed(f"layers[{key!r}]", f"stored as the matrix {name!r}")
                    self._notes.setdefault("layers", {})[name] = key
                taken.add(name)
                self._add_matrix(writer, matrix, self._var, name, "layers", key)
            for axis, part in ((self._obs, "obsp"), (self._var, "varp")):
                for key, matrix in getattr(source, part).items():
                    self._add_square(writer, matrix, axis, key, part)
        self._add_annotations(self._obs, source.obsm, "obsm")
        self._add_annotations(self._var, source.varm, "varm")
        if raw is not None and raw_axis is not None:
            self._add_annotations(raw_axis, raw.varm, "raw.varm")

    def _add_matrix(
        self, writer: MatrixWriter, source: MatrixSource, axis: str, name: str, part: str, key: str
    ) -> None:
        """Store a matrix of ``obs`` and another axis, or keep what is no matrix."""
        if isinstance(source, OtherSource):
            self._keep((self._obs, axis), part, key, source.value, source.problem)
        else:
            writer.write(source, self._obs, axis, name, part=part_label(part, key))

    def _add_square(
        self, writer: MatrixWriter, source: MatrixSource, axis: str, key: str, part: str
    ) -> None:
        problem = name_problem(key)
        if isinstance(source, OtherSource):
            self._keep((axis, axis), part, key, source.value, source.problem)
        elif problem is not None:
            self._keep((axis, axis), part, key, source.whole(), f"its name {problem}")
        else:
            writer.write_square(source, axis, key, part=part_label(part, key))

    def _add_annotations(self, axis: str, parts: dict[str, Any], part: str) -> None:
        """Store ``obsm`` and ``varm``: each is a matrix to an axis of its own."""
        for key, value in parts.items():
            problem = name_problem(key)
            try:
                if problem is not None:
                    raise errors.UnsupportedInputError(f"its name {problem}")
                encoded = _annotations.encode_annotation(value)
            except errors.UnsupportedInputError as error:
                self._keep((axis,), part, key, value, str(error))
                continue
            columns_axis = self._columns_axis(axis, key, encoded.labels)
            self._notes.setdefault(part, {})[key] = {**encoded.note, "axis": columns_axis}
            self._daf.set_matrix(axis, columns_axis, key, encoded.matrix, relayout=self._relayout)

    def _columns_axis(self, axis: str, key: str, labels: list[str]) -> str:
        """Return an axis with these entries, adding it; the same key shares one if it can."""
        if self._daf.has_axis(key):
            if list(self._daf.axis_entries(key)) == labels and key not in (self._obs, self._var):
                return key
            key = self._free_axis(f"{key}_{axis}")
        self._daf.add_axis(key, labels)
        return key

    # The rest

    def _add_uns(self) -> None:
        for key, value in self._uns.items():
            if isinstance(value, OtherSource):
                self._keep((), "uns", key, value.value, value.problem)
                continue
            if name_problem(key) is None and key not in _notes.AXIS_KEYS and key != _notes.SCALAR:
                scalar = scalar_value(value)
                if scalar is not None:
                    self._daf.set_scalar(key, scalar)
                    kind = "python" if not isinstance(value, np.generic | np.ndarray) else "numpy"
                    self._notes["uns"].append([key, {"type": "scalar_of_daf", "of": kind}])
                    continue
            try:
                self._notes["uns"].append([key, {"type": "json", "value": kept.encode(value)}])
            except errors.UnsupportedInputError as error:
                whole = self._source.uns_elements.get(key, value)
                self._keep((), "uns", key, whole, f"it holds {error}")

    def _keep(self, axes: tuple[str, ...], part: str, key: str, value: Any, why: str) -> str | None:
        """Keep a value beside the data; return under which name, None if that is not possible."""
        what = part_label(part, key)
        try:
            name = kept.keep(self._daf.writable_tree, axes, part, key, value)
        except errors.UnsupportedInputError as error:
            self._report.lost(what, f"{why}; and it holds {error}")
            return None
        self._report.kept(what, why)
        return name

    def _free_axis(self, name: str) -> str:
        return free_name(name, {*self._daf.axes_set(), self._obs, self._var})


def _text_or_none(value: Any) -> str | None:
    return None if value is None else str(value)

"""One import from the parts of an AnnData into an empty data set, part by part."""

from __future__ import annotations

import json
import warnings
from collections.abc import Collection
from typing import Any, Literal, TypeAlias

import numpy as np
import pyarrow as pa

from daf_storage import errors
from daf_storage.anndata_rules import Report, free_name, part_label, scalar_value
from daf_storage.anndata_rules import annotations as _annotations
from daf_storage.anndata_rules import columns as _columns
from daf_storage.anndata_rules import notes as _notes
from daf_storage.base import (
    RESERVED_VECTORS,
    ShowProgress,
    StorageType,
    first_duplicate,
    name_problem,
    optional_import,
    progress_bar,
)
from daf_storage.data import (
    CountsAs,
    DafWriter,
    count_types,
    kept,
    strings_input,
)
from daf_storage.h5ad._matrices import MatrixWriter
from daf_storage.h5ad._sources import (
    AnnDataSource,
    MatrixSource,
    OtherSource,
)

Duplicates: TypeAlias = Literal["error", "make_unique"]
"""What to do with names that occur more than once: refuse, or append ``-1``, ``-2`` and so on."""


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

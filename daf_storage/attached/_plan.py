"""The properties of a Daf data set that the parts of an AnnData are, and where each lies.

The names are those that an import gives.  A plan is made from metadata alone; the vectors of a
frame and the values of ``uns`` are looked at when they are first listed.
"""

from __future__ import annotations

import functools
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np
import pyarrow as pa

from daf_storage import errors
from daf_storage.anndata_rules import Report, free_name, part_label
from daf_storage.anndata_rules import notes as rules
from daf_storage.attached import _elements as elements
from daf_storage.attached._elements import MatrixHeader
from daf_storage.attached._frames import Frame, FrameVector, FrameVectors
from daf_storage.attached._matrices import (
    MatrixOf,
    Place,
    annotation_at,
    annotation_property,
    matrix_property,
)
from daf_storage.attached._parts import Parts
from daf_storage.attached._virtual import (
    Property,
    array_property,
    broken_property,
    memory_property,
)
from daf_storage.base import StorageType, name_problem
from daf_storage.data import ENTRIES_OF, layout, required_array
from daf_storage.trees import MemoryArray, Tree

_COLORS: Final = "_colors"
_STRING: Final = StorageType.STRING


@dataclass(frozen=True, slots=True)
class KeptPlace:
    """A part that Daf has no place for."""

    axes: tuple[str, ...]
    """To which axes it is aligned."""
    part: str
    key: str
    place: Place
    why: str


@dataclass(frozen=True, slots=True)
class CategoryAxis:
    """An axis of the categories of a column that has colours."""

    axis: str
    has_colors: bool
    """Whether there are colours; else it was asked for."""
    is_list: bool
    """Whether the colours were a list rather than an array."""


class Plan:
    """The properties of one AnnData.

    Parameters
    ----------
    names
        What the caller calls obs, var and X, by ``obs_is``, ``var_is`` and ``X_is``.
    categorical_axes
        Categorical columns that become an axis of their own, besides those that have colours.
    """

    def __init__(
        self,
        tree: Tree,
        parts: Parts,
        names: Mapping[str, str | None],
        categorical_axes: Collection[str] = (),
    ) -> None:
        self.tree = tree
        self._categorical_axes = frozenset(categorical_axes)
        self.parts = parts
        self.report = Report()
        self.uns = dict(parts.uns)
        self.names = {key: self._name_of(key, names.get(key)) for key in rules.AXIS_KEYS}
        self.obs, self.var, self.main = (self.names[key] for key in rules.AXIS_KEYS)
        if self.obs == self.var:
            raise errors.InvalidInputError(
                f"{tree.location}: both axes would be called {self.obs!r}; pass different obs_is= "
                "and var_is="
            )
        self.properties: dict[str, Property] = {}
        self.kept: list[KeptPlace] = []
        self.category_axes: dict[tuple[str, str], CategoryAxis] = {}
        self.layers: dict[str, str] = {}
        self.annotations: dict[str, dict[str, Any]] = {}
        self.matrix_notes: dict[str, dict[str, Any]] = {}
        self.matrices: dict[str, tuple[str, Place, MatrixHeader]] = {}
        """By its path what messages call a matrix, where it is, and what is known of it."""
        self._entries: dict[str, list[str] | None] = {}
        self.frames: dict[str, tuple[Frame, str]] = {}
        self._vectors: dict[str, FrameVectors] = {}
        self.raw_axis = self._add_frames()
        self._check_categorical_axes()
        self._add_category_axes()
        self._add_matrices()
        for part, problem in parts.damaged.items():
            self.report.lost(part.replace("/", "."), problem)
        for path in parts.unknown:
            why = "this part of the file is not known to AnnData"
            self.kept.append(KeptPlace((), path, "", Place(path), why))

    def _name_of(self, key: str, given: Any) -> str:
        """Return what an axis or the main matrix is called: as given, as the file says, or else."""
        place = self.uns.pop(key, None)
        if given is not None:
            problem = name_problem(given) if isinstance(given, str) else "is no string"
            if problem is not None:
                raise errors.InvalidNameError(
                    f"{self.tree.location}: {key}={given!r} cannot be a name: it {problem}"
                )
            return str(given)
        stated = rules.AXIS_KEYS[key] if place is None else str(place.read(self.tree))
        return rules.AXIS_KEYS[key] if name_problem(stated) is not None else stated

    def count_keys(self) -> dict[str, str]:
        """Return what ``X``, ``raw.X`` and the layers are called by callers, and by messages."""
        parts = self.parts
        keys = {key: part_label("layers", key) for key in parts.layers}
        keys |= {"X": "X"} if parts.main is not None else {}
        return keys | ({"raw.X": "raw.X"} if parts.raw_main is not None else {})

    # Axes

    def _add_frames(self) -> str | None:
        self._add_frame(self.obs, self.parts.obs, "obs")
        self._add_frame(self.var, self.parts.var, "var")
        if self.parts.raw_var is None:
            return None
        axis = self._free_axis(f"{self.var}_raw")
        self._add_frame(axis, self.parts.raw_var, "raw.var")
        return axis

    def _add_frame(self, axis: str, frame: Frame, part: str) -> None:
        self._entries[axis] = None
        self.frames[axis] = (frame, part)
        self._vectors[axis] = FrameVectors(frame)
        self.properties[layout.axis_path(axis)] = array_property(frame.index_sources, frame.names)

    def _free_axis(self, name: str) -> str:
        return free_name(name, {*self._entries, self.obs, self.var})

    def _check_categorical_axes(self) -> None:
        """Refuse columns that are not there."""
        if not self._categorical_axes:
            return
        columns = {name for frame, _ in self.frames.values() for name in frame.column_names()}
        unknown = self._categorical_axes - columns
        if unknown:
            asked = min(unknown)
            raise errors.VectorNotFoundError(
                f"{self.tree.location}: there is no column {asked!r} to make an axis of; there "
                f"are {errors.known_names(columns, none='none')}{errors.nearest(asked, columns)}"
            )

    def _add_category_axes(self) -> None:
        """Make axes of the categories of columns that have colours, or were asked for."""
        for axis, (frame, part) in list(self.frames.items()):
            names = dict.fromkeys(frame.column_names())
            for name in names:
                if f"{name}{_COLORS}" in self.uns or name in self._categorical_axes:
                    self._add_category_axis(axis, frame, part, name)

    def _add_category_axis(self, axis: str, frame: Frame, part: str, column_name: str) -> None:
        place = self.uns.get(f"{column_name}{_COLORS}")
        try:
            position = frame.column_names().index(column_name)
            column = frame.column(position)
            count = column.category_count()
            if count is None or column.problem:
                return
            place = None if place is None or not _are_colors(self.tree, place, count) else place
            if place is None and column_name not in self._categorical_axes:
                return
        except errors.FormatError:
            return
        name = column_name
        if name_problem(name) is not None:
            name = next(v.name for v in self.vectors(axis) if v.column_name == column_name)
        if name in self._entries:
            name = f"{name}_{part}"
        name = self._free_axis(name)
        self._entries[name] = None
        sources = column.sources
        self.properties[layout.axis_path(name)] = memory_property(
            sources,
            lambda: MemoryArray(column.categories, shape=(count,), storage_type=_STRING),
            frame.state(position),
        )
        if place is not None:
            self.properties[layout.vector_path(name, "color")] = _strings_property(place)
            del self.uns[f"{column_name}{_COLORS}"]
        is_list = place is not None and isinstance(place.value, list)
        self.category_axes[axis, column_name] = CategoryAxis(name, place is not None, is_list)

    # Matrices

    def _add_matrices(self) -> None:
        parts = self.parts
        if parts.main is not None:
            self._add_matrix(parts.main, self.var, self.main, "X", "")
        if parts.raw_main is not None and self.raw_axis is not None:
            self._add_matrix(parts.raw_main, self.raw_axis, self.main, "raw.X", "")
        taken = {self.main}
        for key, place in parts.layers.items():
            name = free_name(key, taken)
            if self._add_matrix(place, self.var, name, "layers", key):
                taken.add(name)
                if name != key:
                    label = part_label("layers", key)
                    self.report.renamed(label, f"stored as the matrix {name!r}")
                    self.layers[name] = key
        for axis, part in ((self.obs, "obsp"), (self.var, "varp")):
            for key, place in getattr(parts, part).items():
                self._add_square(place, axis, part, key)
        self._add_annotations(self.obs, parts.obsm, "obsm")
        self._add_annotations(self.var, parts.varm, "varm")
        if self.raw_axis is not None:
            self._add_annotations(self.raw_axis, parts.raw_varm, "raw.varm")

    def _add_matrix(self, place: Place, axis: str, name: str, part: str, key: str) -> bool:
        header = self._header(place)
        if header.problem:
            self.kept.append(KeptPlace((self.obs, axis), part, key, place, header.problem))
            return False
        self._put(place, header, MatrixOf(self.obs, axis, name), part_label(part, key))
        return True

    def _add_square(self, place: Place, axis: str, part: str, key: str) -> None:
        header = self._header(place)
        problem = header.problem or (f"its name {name_problem(key)}" if name_problem(key) else "")
        if problem:
            self.kept.append(KeptPlace((axis, axis), part, key, place, problem))
            return
        self._put(place, header, MatrixOf(axis, axis, key), part_label(part, key))

    def _header(self, place: Place) -> MatrixHeader:
        """Return what is known of a matrix, or the error that whoever uses it gets."""
        try:
            return place.header(self.tree)
        except errors.FormatError as error:
            return MatrixHeader("dense", (0, 0), np.dtype(float), error=error)

    def _put(self, place: Place, header: MatrixHeader, target: MatrixOf, label: str) -> None:
        frames = [self.frames[axis][0] for axis in (target.rows_axis, target.columns_axis)]
        is_square = target.rows_axis == target.columns_axis
        path = target.path(header)
        self.matrices[path] = label, place, header
        self.properties[path] = (
            broken_property(header.error)
            if header.error is not None
            else matrix_property(
                self.tree,
                place,
                header,
                is_square=is_square,
                lengths=lambda: (frames[0].length, frames[1].length),
            )
        )
        note = self.matrix_notes.setdefault(label, {})
        if header.layout != "dense":
            note["format"] = header.layout
        if header.is_array:
            note["is_array"] = True
        if header.dtype == np.float16 or not header.dtype.isnative:
            note["dtype"] = "float16" if header.dtype == np.float16 else header.dtype.str
        if not note:
            del self.matrix_notes[label]

    def _add_annotations(self, axis: str, places: Mapping[str, Place], part: str) -> None:
        for key, place in places.items():
            problem = name_problem(key)
            try:
                if problem is not None:
                    raise errors.UnsupportedInputError(f"its name {problem}")
                annotation = annotation_at(self.tree, place)
            except errors.UnsupportedInputError as error:
                self.kept.append(KeptPlace((axis,), part, key, place, str(error)))
                continue
            except errors.FormatError as error:
                self.report.lost(part_label(part, key), str(error))
                continue
            columns_axis = self._columns_axis(axis, key, annotation.labels, place)
            self.annotations.setdefault(part, {})[key] = {**annotation.note, "axis": columns_axis}
            path = MatrixOf(axis, columns_axis, key).path(annotation.header)
            self.matrices[path] = part_label(part, key), place, annotation.header
            self.properties[path] = annotation_property(
                self.tree, place, annotation, functools.partial(_length_of, self.frames[axis][0])
            )

    def _columns_axis(self, axis: str, key: str, labels: list[str], place: Place) -> str:
        """Return an axis with these entries, adding it; the same key shares one if it can."""
        if key in self._entries:
            if key not in (self.obs, self.var) and self._entries_of(key, len(labels)) == labels:
                return key
            key = self._free_axis(f"{key}_{axis}")
        self._entries[key] = labels
        self.properties[layout.axis_path(key)] = memory_property(
            (place.path,), lambda: MemoryArray(lambda: pa.array(labels, pa.string()))
        )
        return key

    def _entries_of(self, axis: str, length: int) -> list[str]:
        """Return the entries of an axis that was added before, unless it has another length."""
        known = self._entries[axis]
        if known is not None:
            return known
        array = self.properties[layout.axis_path(axis)].node(self.tree).array()
        if array is None or array.info.size != length:
            return []
        entries: list[str] = array.read_strings().to_pylist()
        return entries

    # Vectors

    def vectors(self, axis: str) -> tuple[FrameVector, ...]:
        """Return the columns of an axis; looked at when first asked for."""
        return self._vectors[axis].every if axis in self._vectors else ()

    def find_vector(self, axis: str, name: str) -> FrameVector | None:
        """Return the vector that has a name, or whose companion has it; None if there is none."""
        return self._vectors[axis].find(name) if axis in self._vectors else None

    def vector_properties(self, axis: str) -> Iterator[tuple[str, Property]]:
        """Yield the paths and the vectors of the columns of an axis."""
        for vector in self.vectors(axis):
            yield from self._vector_properties(axis, vector)

    def vector_property(self, axis: str, name: str) -> Property | None:
        """Return the vector of this name; None if there is none.  Other columns may stay unread."""
        vector = self.find_vector(axis, name)
        if vector is None:
            return None
        return dict(self._vector_properties(axis, vector)).get(layout.vector_path(axis, name))

    def _vector_properties(self, axis: str, vector: FrameVector) -> Iterator[tuple[str, Property]]:
        if not vector.name:
            return
        categories = self.category_axes.get((axis, vector.column_name))
        entries_of = None if categories is None else categories.axis
        yield layout.vector_path(axis, vector.name), _vector_property(vector, entries_of)
        if vector.companion:
            yield (
                layout.vector_path(axis, vector.companion),
                replace(
                    array_property(vector.column.sources, vector.column.is_missing),
                    state=vector.state,
                ),
            )


def _vector_property(vector: FrameVector, entries_of: str | None) -> Property:
    """Return the vector of a column; its values may be entries of an axis."""
    column = vector.column
    more = {} if entries_of is None else {ENTRIES_OF: entries_of}
    return Property(
        "array",
        column.sources,
        lambda nodes: {"": lambda: column.array(nodes)},
        lambda: {**column.attributes(), **more},
        vector.state,
    )


def _length_of(frame: Frame) -> int:
    return frame.length


def _are_colors(tree: Tree, place: Place, count: int) -> bool:
    """Return whether a value is a list of as many strings."""
    if not place.is_stored:
        colors = place.value
        if not isinstance(colors, list | np.ndarray) or np.ndim(colors) != 1:
            return False
        return len(colors) == count and all(isinstance(color, str) for color in colors)
    if tree.kind(place.path) != "array":
        return False
    array = elements.array_at(tree, place.path)
    return array.info.shape == (count,) and array.info.storage_type.is_string


def _strings_property(place: Place) -> Property:
    if not place.is_stored:
        colors = [str(color) for color in place.value]
        return memory_property(
            (place.path,), lambda: MemoryArray(lambda: pa.array(colors, pa.string()))
        )
    return array_property((place.path,), lambda nodes: required_array(nodes[0], "", place.path))

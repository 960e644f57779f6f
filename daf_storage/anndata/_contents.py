"""The properties of a Daf data set that the parts of an AnnData are, and where each lies.

The names are those that an import gives.  What there is is found by metadata alone; the vectors of
a frame, and what is kept, are looked at when they are first listed.  AnnData's rows, dense or
compressed, are Daf's columns of the transpose: ``X`` of obs and var is the matrix of var and obs.
"""

from __future__ import annotations

import functools
import math
import posixpath
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from daf_storage import errors
from daf_storage.anndata import _stored as elements
from daf_storage.anndata._encoding import encode_frame
from daf_storage.anndata._parts import Frame, FrameVector, FrameVectors, Parts, Places
from daf_storage.anndata._restored import AXIS_KEYS, Report
from daf_storage.anndata._stored import (
    ArrayMaker,
    Converted,
    MatrixHeader,
    Nodes,
    Place,
    Property,
    ShiftedIndices,
    array_property,
    broken_property,
    free_name,
    part_label,
    strings_property,
)
from daf_storage.base import AnyArray, StorageType, name_problem, pandas
from daf_storage.data import ENTRIES_OF, Convention, convention_attributes, layout, required_array
from daf_storage.errors import CorruptDataError, UnsupportedInputError
from daf_storage.trees import MemoryArray, Node, StoredArray, Tree, memory_array

_LONG_BYTES = 8
_CHUNK_BYTES: Final = 1 << 24


def path_of_matrix(axes: tuple[str, str], name: str, header: MatrixHeader) -> str:
    """Return the path of a matrix: the axis whose entries are stored one by one comes last.

    Parameters
    ----------
    axes
        Those of its rows and its columns, as AnnData has it.
    """
    return layout.matrix_path(*(axes if header.layout == "csc" else axes[::-1]), name)


def matrix_property(
    tree: Tree,
    place: Place,
    header: MatrixHeader,
    *,
    is_square: bool = False,
    lengths: Callable[[], tuple[int, int]],
) -> Property:
    """Return a matrix of two axes, or of an axis with itself.

    Parameters
    ----------
    lengths
        Returns the lengths of the two axes.
    """
    is_by_rows = is_square and header.layout != "csc"
    convention = Convention.ROW_MAJOR if is_by_rows else None

    def parts(nodes: Nodes) -> Mapping[str, ArrayMaker]:
        if not place.is_stored:
            return _parts_of_value(place.value, header)
        if header.layout == "dense":
            return {"": lambda: _numbers(tree, nodes[0], "", place.path, header.dtype)}
        if header.shape != lengths():
            raise CorruptDataError(
                f"{tree.location}: {place.path}: the sparse matrix has the shape "
                f"{list(header.shape)}, and its axes have {lengths()[0]:,} and {lengths()[1]:,} "
                "entries"
            )
        return _stored_parts(tree, nodes[0], place.path, header)

    kind: Any = "array" if header.layout == "dense" else "group"
    return Property((place.path,), parts, lambda: convention_attributes(convention), kind)


def _stored_parts(
    tree: Tree, node: Node, path: str, header: MatrixHeader
) -> Mapping[str, ArrayMaker]:
    """Return the parts of a stored sparse matrix."""

    def stored(name: str) -> StoredArray:
        array = required_array(node, name, f"{tree.location}: {path}")
        if not array.info.storage_type.is_integer or len(array.info.shape) != 1:
            raise CorruptDataError(f"{tree.location}: {path}: {name} is no list of positions")
        return array

    values = f"{path}/data"
    return {
        "colptr": lambda: _shifted(stored("indptr"), stored("indices"), header),
        "rowval": lambda: _shifted(stored("indices"), stored("indices"), header),
        "nzval": lambda: _numbers(tree, node, "data", values, header.dtype),
    }


def _parts_of_value(value: Any, header: MatrixHeader) -> Mapping[str, ArrayMaker]:
    """Return the parts of a matrix in memory."""
    dtype = np.dtype(np.float32) if header.dtype == np.float16 else header.dtype
    kind = StorageType.of(dtype)
    if header.layout == "dense":
        return {"": lambda: _converted(value, header.shape, kind)}
    stored = value if value.format == header.layout else value.tocsr()
    indices = memory_array(stored.indices)
    return {
        "colptr": lambda: _shifted(memory_array(stored.indptr), indices, header),
        "rowval": lambda: _shifted(indices, indices, header),
        "nzval": lambda: _converted(stored.data, stored.data.shape, kind),
    }


def _shifted(positions: StoredArray, indices: StoredArray, header: MatrixHeader) -> ShiftedIndices:
    """Return positions from 1, in the type of the indices unless they would overflow it."""
    kind = indices.info.storage_type
    largest = max(indices.info.size, header.shape[1 if header.layout == "csr" else 0])
    fits = largest + 1 <= np.iinfo(kind.dtype).max
    return ShiftedIndices(positions, kind if fits else StorageType.INT64)


def _numbers(tree: Tree, node: Node, name: str, path: str, dtype: np.dtype[Any]) -> StoredArray:
    """Return stored numbers; half floats widened."""
    if dtype == np.float16:
        return elements.half_floats(tree, path)
    return required_array(node, name, f"{tree.location}: {path}")


def _converted(values: Any, shape: tuple[int, ...], kind: StorageType) -> Converted:
    """Return numbers in memory, of which a range is copied when it is asked for."""
    chunk = max(_CHUNK_BYTES // max(math.prod(shape[1:]) * kind.dtype.itemsize, 1), 1)

    def read_range(rows: slice, columns: slice | None) -> AnyArray:
        return np.asarray(values[rows] if columns is None else values[rows, columns])

    return Converted(shape, (min(chunk, shape[0]), *shape[1:]), kind, read_range)


# Values of obsm and varm


@dataclass(frozen=True, slots=True)
class Annotation:
    """A value of ``obsm`` or ``varm`` as a matrix to an axis of its own."""

    labels: list[str]
    """The entries of that axis."""
    note: dict[str, Any]
    """What restores the value."""
    header: MatrixHeader
    """How it is stored; a DataFrame is put together by rows."""
    is_frame: bool = False


def annotation_at(tree: Tree, place: Place) -> Annotation:
    """Return what a value of ``obsm`` or ``varm`` becomes, by its metadata.

    Raises
    ------
    UnsupportedInputError
        Daf has no matrix that says all of it; the message says why.
    """
    if hasattr(place.value, "iloc"):
        matrix, labels, note = encode_frame(place.value)
        header = MatrixHeader("dense", (matrix.shape[0], len(labels)), matrix.dtype)
        return Annotation(labels, note, header, is_frame=True)
    node = tree.node(place.path) if place.is_stored else None
    if node is not None and elements.encoding_of(node) == "dataframe":
        return _frame_annotation(tree, place, elements.names_of(node.attribute("column-order")))
    header = place.header(tree)
    if header.problem:
        raise UnsupportedInputError(header.problem)
    note = {"format": header.layout, "dtype": str(header.dtype)}
    note |= {"is_array": True} if header.is_array else {}
    return Annotation([str(n) for n in range(header.shape[1])], note, header)


def _frame_annotation(tree: Tree, place: Place, columns: list[str]) -> Annotation:
    """Return what a DataFrame of numbers becomes."""
    dtypes = {}
    for name in columns:
        path = posixpath.join(place.path, name)
        node = tree.node(path)
        if node is None or node.kind != "array":
            raise UnsupportedInputError("a DataFrame of which a matrix of numbers does not say all")
        dtypes[name] = elements.shape_and_dtype(tree, path)[1]
    frame: Any = pandas(extra="anndata").DataFrame(
        {name: np.empty(0, dtype) for name, dtype in dtypes.items()}
    )
    matrix, labels, note = encode_frame(frame)
    is_long = any(dtype.itemsize == _LONG_BYTES and dtype.kind in "iu" for dtype in dtypes.values())
    if is_long and matrix.dtype.kind == "f":  # integers may be too large for fractions
        matrix, labels, note = encode_frame(place.read(tree))
    height = elements.shape_and_dtype(tree, posixpath.join(place.path, columns[0]))[0][0]
    header = MatrixHeader("dense", (height, len(columns)), matrix.dtype)
    return Annotation(labels, note, header, is_frame=True)


def annotation_property(
    tree: Tree, place: Place, annotation: Annotation, length: Callable[[], int]
) -> Property:
    """Return the matrix of a value of ``obsm`` or ``varm``, of an axis of some length."""
    header = annotation.header
    if not annotation.is_frame:
        n_columns = len(annotation.labels)
        return matrix_property(tree, place, header, lengths=lambda: (length(), n_columns))
    kind = StorageType.of(header.dtype)

    def values() -> AnyArray:
        return np.asarray(place.read(tree).to_numpy(), kind.dtype)

    return array_property(
        (place.path,), lambda _: MemoryArray(values, shape=header.shape, storage_type=kind)
    )


_COLORS: Final = "_colors"


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
    is_list: bool
    """Whether the colours were a list rather than an array."""


class Contents:
    """What an AnnData is as a data set, at one time.

    Parameters
    ----------
    names
        What the caller calls obs, var and X, by ``obs_is``, ``var_is`` and ``X_is``.
    """

    def __init__(self, tree: Tree, parts: Parts, names: Mapping[str, str | None]) -> None:
        self.tree = tree
        self.parts = parts
        self.lost = Report()
        """What is damaged, and layers that have other names."""
        self.uns = dict(parts.uns)
        """The values that are neither names nor colours."""
        self.names = {key: self._name_of(key, names.get(key)) for key in AXIS_KEYS}
        self.obs, self.var, self.main = (self.names[key] for key in AXIS_KEYS)
        if self.obs == self.var:
            raise errors.InvalidInputError(
                f"{tree.location}: both axes would be called {self.obs!r}; pass different obs_is= "
                "and var_is="
            )
        self.properties: dict[str, Property] = {}
        """The axes, the matrices and the colours by their paths."""
        self.unplaced: list[KeptPlace] = []
        """The parts but columns and ``uns`` that Daf has no place for."""
        self.category_axes: dict[tuple[str, str], CategoryAxis] = {}
        self.layers: dict[str, str] = {}
        """The keys of layers that have other names."""
        self.annotations: dict[str, dict[str, Any]] = {}
        self.more_notes: Callable[[], dict[str, Any]] = dict
        """Returns what else restores the file."""
        self.matrix_notes: dict[str, dict[str, Any]] = {}
        self.matrices: dict[str, tuple[str, MatrixHeader]] = {}
        """By its path what messages call a matrix, and what is known of it."""
        self._entries: dict[str, list[str] | None] = {}
        self.frames: dict[str, FrameVectors] = {}
        self.raw_axis = self._add_frames()
        self._add_category_axes()
        self._add_matrices()
        self._add_annotations(self.obs, parts.obsm, "obsm")
        self._add_annotations(self.var, parts.varm, "varm")
        if self.raw_axis is not None:
            self._add_annotations(self.raw_axis, parts.raw_varm, "raw.varm")
        for part, problem in parts.damaged.items():
            self.lost.lost(part.replace("/", "."), problem)
        why = "this part of the file is not known to AnnData"
        self.unplaced += [KeptPlace((), path, "", Place(path), why) for path in parts.unknown]

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
        stated = AXIS_KEYS[key] if place is None else str(place.read(self.tree))
        return AXIS_KEYS[key] if name_problem(stated) is not None else stated

    def count_keys(self) -> dict[str, str]:
        """Return what ``X``, ``raw.X`` and the layers are called by callers, and by messages."""
        parts = self.parts
        keys = {key: part_label("layers", key) for key in parts.layers}
        keys |= {"X": "X"} if parts.main is not None else {}
        return keys | ({"raw.X": "raw.X"} if parts.raw_main is not None else {})

    # Axes

    @functools.cached_property
    def axes(self) -> list[str]:
        """The axes, in order."""
        return sorted(self._entries)

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
        self.frames[axis] = FrameVectors(frame, part)
        self.properties[layout.axis_path(axis)] = array_property(frame.index_sources, frame.names)

    def _free_axis(self, name: str) -> str:
        return free_name(name, {*self._entries, self.obs, self.var})

    def _add_category_axes(self) -> None:
        """Make axes of the categories of columns that have colours."""
        for axis, vectors in list(self.frames.items()):
            for name in dict.fromkeys(vectors.frame.column_names):
                if f"{name}{_COLORS}" in self.uns:
                    self._add_category_axis(axis, vectors, name)

    def _add_category_axis(self, axis: str, vectors: FrameVectors, column_name: str) -> None:
        colors = self.uns[f"{column_name}{_COLORS}"]
        try:
            vector = vectors.of_column(column_name)
            count = vector.column.category_count()
            if count is None or vector.problem or not _are_colors(self.tree, colors, count):
                return
        except errors.FormatError:
            return
        name = column_name if name_problem(column_name) is None else vector.name
        name = self._free_axis(f"{name}_{vectors.part}" if name in self._entries else name)
        self._entries[name] = None
        self.properties[layout.axis_path(name)] = array_property(
            vector.column.sources, lambda _: _categories_of(vectors, column_name)
        )
        self.properties[layout.vector_path(name, "color")] = _strings_at(colors)
        del self.uns[f"{column_name}{_COLORS}"]
        is_list = isinstance(colors.value, list)
        self.category_axes[axis, column_name] = CategoryAxis(name, is_list)

    # Matrices

    def _add_matrices(self) -> None:
        parts, obs, var = self.parts, self.obs, self.var
        if parts.main is not None:
            self._add_matrix(parts.main, (obs, var), self.main, "X")
        if parts.raw_main is not None and self.raw_axis is not None:
            self._add_matrix(parts.raw_main, (obs, self.raw_axis), self.main, "raw.X")
        taken = {self.main}
        for key, place in parts.layers.items():
            name = free_name(key, taken)
            if self._add_matrix(place, (obs, var), name, "layers", key):
                taken.add(name)
                if name != key:
                    label = part_label("layers", key)
                    self.lost.renamed(label, f"stored as the matrix {name!r}")
                    self.layers[name] = key
        for axis, part in ((obs, "obsp"), (var, "varp")):
            for key, place in getattr(parts, part).items():
                self._add_matrix(place, (axis, axis), key, part, key)

    def _add_matrix(
        self, place: Place, axes: tuple[str, str], name: str, part: str, key: str = ""
    ) -> bool:
        """Add a matrix; say whether Daf has a place for it."""
        try:
            header = place.header(self.tree)
        except errors.FormatError as error:
            header = MatrixHeader(error=error)
        problem = header.problem or (f"its name {name_problem(name)}" if name_problem(name) else "")
        if problem:
            self.unplaced.append(KeptPlace(axes, part, key, place, problem))
            return False
        rows, columns = (self.frames[axis].frame for axis in axes)
        path, label = path_of_matrix(axes, name, header), part_label(part, key)
        self.matrices[path] = label, header
        self.properties[path] = (
            broken_property(header.error)
            if header.error is not None
            else matrix_property(
                self.tree,
                place,
                header,
                is_square=axes[0] == axes[1],
                lengths=lambda: (rows.length, columns.length),
            )
        )
        note: dict[str, Any] = {} if header.layout == "dense" else {"format": header.layout}
        if header.is_array:
            note["is_array"] = True
        if header.dtype == np.float16:
            note["dtype"] = "float16"
        if note:
            self.matrix_notes[label] = note
        return True

    def _add_annotations(self, axis: str, places: Places, part: str) -> None:
        for key, place in places.items():
            problem = name_problem(key)
            try:
                if problem is not None:
                    raise errors.UnsupportedInputError(f"its name {problem}")
                annotation = annotation_at(self.tree, place)
            except errors.UnsupportedInputError as error:
                self.unplaced.append(KeptPlace((axis,), part, key, place, str(error)))
                continue
            except errors.FormatError as error:
                self.lost.lost(part_label(part, key), str(error))
                continue
            other = self._columns_axis(axis, key, annotation.labels, place)
            self.annotations.setdefault(part, {})[key] = {**annotation.note, "axis": other}
            path = path_of_matrix((axis, other), key, annotation.header)
            self.matrices[path] = part_label(part, key), annotation.header
            frame = self.frames[axis].frame
            self.properties[path] = annotation_property(
                self.tree, place, annotation, functools.partial(getattr, frame, "length")
            )

    def _columns_axis(self, axis: str, key: str, labels: list[str], place: Place) -> str:
        """Return an axis with these entries, adding it; the same key shares one if it can."""
        if key in self._entries:
            if key not in (self.obs, self.var) and self._entries_of(key, len(labels)) == labels:
                return key
            key = self._free_axis(f"{key}_{axis}")
        self._entries[key] = labels
        self.properties[layout.axis_path(key)] = strings_property(place.path, lambda: labels)
        return key

    def _entries_of(self, axis: str, length: int) -> list[str]:
        """Return the entries of an axis that was added before, unless it has another length."""
        cached = self._entries[axis]
        if cached is not None:
            return cached
        array = self.properties[layout.axis_path(axis)].node(self.tree).array()
        if array is None or array.info.size != length:
            return []
        entries: list[str] = array.read_strings().to_pylist()
        return entries

    # Vectors

    def vector(self, axis: str, name: str) -> Property | None:
        """Return the vector of a column; other columns are not looked at."""
        vector = self.frames[axis].find(name) if axis in self.frames else None
        if vector is None or vector.problem:
            return None
        column, is_companion = vector.column, name == vector.companion
        if vector.error is not None:
            return broken_property(vector.error)
        if is_companion:
            return array_property(column.sources, column.is_missing, state=column.state)
        own_axis = self.category_axes.get((axis, vector.column_name))
        more = {} if own_axis is None else {ENTRIES_OF: own_axis.axis}
        return array_property(
            column.sources, column.array, lambda: {**column.attributes(), **more}, column.state
        )

    def columns(self, axis: str) -> Iterator[FrameVector]:
        """Yield the columns of an axis."""
        return self.frames[axis].every() if axis in self.frames else iter(())


def _categories_of(vectors: FrameVectors, column_name: str) -> MemoryArray:
    """Return the categories of a column, as they are now."""
    column = vectors.of_column(column_name).column
    shape = (column.category_count() or 0,)
    return MemoryArray(column.categories, shape=shape, storage_type=StorageType.STRING)


def _are_colors(tree: Tree, place: Place, count: int) -> bool:
    """Return whether a value is a list of as many strings."""
    if not place.is_stored:
        colors = place.value
        if not isinstance(colors, list | np.ndarray) or np.ndim(colors) != 1:
            return False
        return len(colors) == count and all(isinstance(color, str) for color in colors)
    array = elements.array_at(tree, place.path)
    return array.info.shape == (count,) and array.info.storage_type.is_string


def _strings_at(place: Place) -> Property:
    if not place.is_stored:
        return strings_property(place.path, lambda: [str(color) for color in place.value])
    return array_property((place.path,), lambda nodes: required_array(nodes[0], "", place.path))

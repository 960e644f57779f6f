"""The parts of an AnnData in a file, and the properties of a Daf data set that they are.

The names are those that an import gives.  What there is is found by metadata alone; the vectors of
a frame, and what is kept, are looked at when they are first listed.  AnnData's rows, dense or
compressed, are Daf's columns of the transpose: ``X`` of obs and var is the matrix of var and obs.
The frames of a file from before AnnData 0.7 are records, which are read into memory.
"""

from __future__ import annotations

import functools
import posixpath
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np

from daf_storage import errors
from daf_storage.anndata import _stored as elements
from daf_storage.anndata._encoding import encode_frame
from daf_storage.anndata._frames import Column, Frame, MemoryFrame, stored_frame
from daf_storage.anndata._restored import AXIS_KEYS, Report
from daf_storage.anndata._stored import (
    MatrixHeader,
    Place,
    Property,
    array_property,
    broken_property,
    matrix_property,
    part_label,
    strings_property,
)
from daf_storage.base import AnyArray, StorageType, free_name, name_problem, pandas
from daf_storage.data import ENTRIES_OF, layout, required_array
from daf_storage.stores import translated
from daf_storage.trees import Hdf5Tree, MemoryArray, Node, Tree

_LONG_BYTES = 8

_PARTS: Final = frozenset(
    {"X", "layers", "obs", "var", "obsm", "varm", "obsp", "varp", "uns", "raw"}
    | {"raw.X", "raw.var", "raw.varm"}
)
_CATEGORIES: Final = "_categories"
_NAMES: Final = {"obs": ("obs_names", "row_names"), "var": ("var_names", "col_names")}
"""What the names are called in a group that does not say what it is."""
_OF_PLACES: Final = ("layers", "obsm", "varm", "obsp", "varp", "uns")
"""The parts whose values have keys."""
_NEIGHBORS: Final = ("distances", "connectivities")
GROUPS: Final = (
    *("", "obs", "var", "layers", "obsm", "varm", "obsp", "varp", "uns"),
    *("raw", "raw/var", "raw/varm"),
)
"""The groups whose children decide what properties there are."""

Places = dict[str, Place]


@dataclass(slots=True)
class Parts:
    """The parts of an AnnData: where each lies in a file, or what it is."""

    obs: Frame
    var: Frame
    main: Place | None
    layers: Places = field(default_factory=dict)
    obsm: Places = field(default_factory=dict)
    varm: Places = field(default_factory=dict)
    obsp: Places = field(default_factory=dict)
    varp: Places = field(default_factory=dict)
    uns: Places = field(default_factory=dict)
    raw_var: Frame | None = None
    raw_main: Place | None = None
    raw_varm: Places = field(default_factory=dict)
    unknown: tuple[str, ...] = ()
    """Groups and arrays that AnnData does not know."""
    damaged: Mapping[str, str] = field(default_factory=dict)
    """What is wrong with the groups that cannot be read."""


def is_anndata(tree: Tree) -> bool:
    """Return whether a tree holds an AnnData; by its root alone."""
    root = tree.node("")
    if root is None or root.kind != "group":
        return False
    encoding = elements.encoding_of(root)
    if encoding:  # a MuData has obs and var too
        return encoding == "anndata"
    has_frames = all(tree.kind(part) is not None for part in ("obs", "var"))
    return has_frames and tree.kind("mod") is None  # the first MuData had no encoding either


def anndata_parts(tree: Tree) -> Parts:
    """Return the parts of an AnnData, by metadata.

    Raises
    ------
    FormatError
        Its obs or var cannot be read.
    """
    children, damaged = tree.children(""), dict[str, str]()
    with_keys: Any = {part: _places(tree, part, damaged) for part in _OF_PLACES}
    uns: Places = with_keys["uns"]
    obs, var = (_frame(tree, part, uns) for part in ("obs", "var"))
    for frame in (obs, var):
        for key in frame.of_uns & uns.keys():
            del uns[key]
    raw = "raw." if "raw.X" in children else "raw/"
    raw_var = _raw_var(tree, raw, damaged)
    parts = Parts(
        obs=obs,
        var=var,
        main=_main(tree, "X"),
        raw_var=raw_var,
        raw_main=None if raw_var is None else _main(tree, f"{raw}X"),
        raw_varm={} if raw_var is None else _places(tree, f"{raw}varm", damaged),
        unknown=tuple(sorted(set(children) - _PARTS)),
        damaged=damaged,
        **with_keys,
    )
    _add_neighbors(tree, parts)
    return parts


def parts_of_object(adata: Any, tree: Tree) -> Parts:
    """Return the parts of an AnnData in memory; of one that is backed, ``X`` lies in its file."""
    raw = adata.raw
    with_keys: Any = {part: _values(getattr(adata, part)) for part in _OF_PLACES}

    def main(path: str, owner: Any) -> Place | None:
        if isinstance(tree, Hdf5Tree) and tree.kind(path) is not None:
            return _main(tree, path)
        return None if owner.X is None else Place("", owner.X)

    return Parts(
        obs=MemoryFrame(adata.obs, part="obs"),
        var=MemoryFrame(adata.var, part="var"),
        main=main("X", adata),
        raw_var=None if raw is None else MemoryFrame(raw.var, part="raw.var"),
        raw_main=None if raw is None else main("raw/X", raw),
        raw_varm={} if raw is None else _values(raw.varm),
        **with_keys,
    )


def _frame(tree: Tree, path: str, uns: Iterable[str] = ()) -> Frame:
    """Return a DataFrame; one from before AnnData 0.7 in memory, with its categories in ``uns``.

    Such a one is an array of records, or a group that does not say what it is.
    """
    node = tree.node(path)
    if node is None:
        raise errors.CorruptDataError(
            f"{tree.location}: this AnnData has no {path}; is it complete?"
        )
    if node.kind == "array":
        _check_readable(node)
    elif node.attribute("column-order") is not None:
        return stored_frame(tree, path)
    if not isinstance(tree, Hdf5Tree):
        raise errors.UnsupportedDataError(
            f"{tree.location}: a Zarr directory from before AnnData 0.7 is not read in place; "
            "read it with anndata.read_zarr, and pass the result to from_anndata"
        )
    frame = _old_frame(tree, path)
    keys = (key for key in uns if key.endswith(_CATEGORIES))
    of_uns = {key for key in keys if _set_categories(tree, frame, key)}
    return MemoryFrame(frame, part=path.replace("/", "."), of_uns=of_uns)


def _check_readable(node: Node) -> None:
    """Raise if an array is one because its metadata cannot be read; Daf need not have its type."""
    with suppress(errors.UnsupportedDataError):
        node.array()


def _raw_var(tree: Tree, raw: str, damaged: dict[str, str]) -> Frame | None:
    if raw == "raw/" and "var" not in _places(tree, "raw", damaged):
        return None
    try:
        return _frame(tree, "raw.var") if raw == "raw." else stored_frame(tree, "raw/var")
    except errors.CorruptDataError as error:
        damaged["raw"] = str(error)
        return None


def _main(tree: Tree, path: str) -> Place | None:
    """Return the place of a matrix, also of a damaged one: whoever uses it gets the error."""
    try:
        node = tree.node(path)
        if node is None:
            return Place(path) if tree.children(path) else None
        return None if elements.encoding_of(node) == "null" else Place(path)
    except errors.FormatError:
        return Place(path)


def _places(tree: Tree, path: str, damaged: dict[str, str]) -> Places:
    """Return what is in a group, or the fields of old records; if it cannot be listed, note why."""
    try:
        node = tree.node(path)
        if node is not None and node.kind == "array":
            _check_readable(node)
            return _values(_records(tree, path))
        children = tree.children(path)
    except errors.CorruptDataError as error:
        damaged[path] = str(error)
        return {}
    if node is None and children:
        damaged[path] = (
            f"{tree.location}: {path}: its metadata are missing, and what it has is there"
        )
        return {}
    return {key: Place(posixpath.join(path, key)) for key in children}


def _add_neighbors(tree: Tree, parts: Parts) -> None:
    """Take the matrices of neighbours from where AnnData 0.7 kept them."""
    if "neighbors" not in parts.uns or tree.kind("uns/neighbors") != "group":
        return
    for key, place in _places(tree, "uns/neighbors", {}).items():
        node = tree.node(place.path)
        if key in _NEIGHBORS and node is not None and elements.sparse_kind(node):
            parts.obsp.setdefault(key, place)
            others = parts.uns["neighbors"].without
            parts.uns["neighbors"] = Place("uns/neighbors", without=(*others, key))


def _readable(tree: Tree, path: str) -> AbstractContextManager[None]:
    """Let what h5py, numpy and pandas raise of an old part be a `CorruptDataError`."""
    caught, what = (OSError, TypeError, ValueError, IndexError), f"{tree.location}: {path}"
    after = "; is the file complete?"
    return translated(caught, errors.CorruptDataError, f"{what} cannot be read", after)


def _old_frame(tree: Tree, path: str) -> Any:
    """Return a DataFrame of records, or of a group that does not say what it is."""
    is_group = tree.kind(path) != "array"
    places = _places(tree, path, {}) if is_group else {}
    columns = {key: place.read(tree) for key, place in places.items()}
    columns = columns if is_group else _records(tree, path)
    with _readable(tree, path):
        frame = pandas(extra="anndata").DataFrame(columns)
        names = [key for key in _NAMES[path.rpartition(".")[2]] if key in places]
        if names:
            return frame.set_index(names[0]).rename_axis(None)
        return (
            frame.set_axis(frame.index.map(str)) if is_group else frame.set_index(frame.columns[0])
        )


def _records(tree: Tree, path: str) -> dict[str, Any]:
    """Return the fields of an array of records, with text for byte strings; of others none."""
    with _readable(tree, path), elements.element(tree, path) as stored:
        names = stored.dtype.names or ()
        records = stored[()] if names else {}
        return {name: _text(records[name]) for name in names}


def _text(values: Any) -> Any:
    return elements.names_of(values) if values.dtype.kind in "SO" else values


def _set_categories(tree: Tree, frame: Any, key: str) -> bool:
    """Make a categorical of the column whose categories are in uns; say if there is one."""
    name, path = key.removesuffix(_CATEGORIES), f"uns/{key}"
    if name not in frame or frame[name].dtype.kind not in "iu" or tree.kind(path) != "array":
        return False
    with _readable(tree, path):
        with elements.element(tree, path) as stored:
            categories = _text(np.ravel(stored[()]))
        is_coded = bool((frame[name] < len(categories)).all())  # else it is of the other frame
        if is_coded:
            frame[name] = pandas(extra="anndata").Categorical.from_codes(frame[name], categories)
    return is_coded


def _values(values: Mapping[str, Any]) -> Places:
    """Return places of values that were read; anything in the file may change them."""
    return {key: Place("", value) for key, value in named(values).items()}


def named(layers: Mapping[Any, Any]) -> dict[str, Any]:
    """Return the layers of an AnnData; from anndata 0.13 on, X is among them without a name."""
    return {key: value for key, value in layers.items() if key is not None}


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
        return Annotation(labels, note, header)
    node = tree.node(place.path) if place.is_stored else None
    if node is not None and elements.encoding_of(node) == "dataframe":
        return _frame_annotation(tree, place, elements.names_of(node.attribute("column-order")))
    header = place.header(tree)
    if header.problem:
        raise errors.UnsupportedInputError(header.problem)
    note = {"format": header.layout, "dtype": str(header.restored_dtype)}
    note |= {"is_array": True} if header.is_array else {}
    return Annotation([str(n) for n in range(header.shape[1])], note, header)


def _frame_annotation(tree: Tree, place: Place, columns: list[str]) -> Annotation:
    """Return what a DataFrame of numbers becomes."""
    dtypes = {}
    for name in columns:
        path = posixpath.join(place.path, name)
        node = tree.node(path)
        if node is None or node.kind != "array":
            raise errors.UnsupportedInputError(
                "a DataFrame of which a matrix of numbers does not say all"
            )
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
    return Annotation(labels, note, header)


def annotation_property(
    tree: Tree, place: Place, annotation: Annotation, length: Callable[[], int]
) -> Property:
    """Return the matrix of a value of ``obsm`` or ``varm``, of an axis of some length."""
    header = annotation.header
    if "frame" not in annotation.note:
        n_columns = len(annotation.labels)
        return matrix_property(tree, place, header, lengths=lambda: (length(), n_columns))
    kind = StorageType.of(header.dtype)

    def values() -> AnyArray:
        return np.asarray(place.read(tree).to_numpy(), kind.dtype)

    return array_property(
        (place.path,), lambda _: MemoryArray(values, shape=header.shape, storage_type=kind)
    )


def path_of_matrix(axes: tuple[str, str], name: str, header: MatrixHeader) -> str:
    """Return the path of a matrix: the axis whose entries are stored one by one comes last.

    Parameters
    ----------
    axes
        Those of its rows and its columns, as AnnData has it.
    """
    return layout.matrix_path(*(axes if header.layout == "csc" else axes[::-1]), name)


COLORS: Final = "_colors"


@dataclass(frozen=True, slots=True)
class KeptPlace:
    """A part that Daf has no place for."""

    axes: tuple[str, ...]
    """To which axes it is aligned."""
    part: str
    key: str
    place: Place
    why: str


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
        self.category_axes: dict[tuple[str, str], str] = {}
        """The axes of the categories of columns that have colours, by axis and column."""
        self.layers: dict[str, str] = {}
        """The keys of layers that have other names."""
        self.annotations: dict[str, dict[str, Any]] = {}
        self.more_notes: Callable[[], dict[str, Any]] = dict
        """Returns what else restores the file."""
        self.matrix_notes: dict[str, dict[str, Any]] = {}
        self.matrices: dict[str, tuple[str, MatrixHeader]] = {}
        """By its path what messages call a matrix, and what is known of it."""
        self._entries: dict[str, list[str] | None] = {}
        self.frames: dict[str, Frame] = {}
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
        self._add_frame(self.obs, self.parts.obs)
        self._add_frame(self.var, self.parts.var)
        if self.parts.raw_var is None:
            return None
        axis = self._free_axis(f"{self.var}_raw")
        self._add_frame(axis, self.parts.raw_var)
        return axis

    def _add_frame(self, axis: str, frame: Frame) -> None:
        self._entries[axis] = None
        self.frames[axis] = frame
        self.properties[layout.axis_path(axis)] = array_property(frame.index_sources, frame.names)

    def _free_axis(self, name: str) -> str:
        return free_name(name, {*self._entries, self.obs, self.var})

    def _add_category_axes(self) -> None:
        """Make axes of the categories of columns that have colours."""
        for axis, frame in list(self.frames.items()):
            for name in dict.fromkeys(frame.column_names):
                if f"{name}{COLORS}" in self.uns:
                    self._add_category_axis(axis, frame, name)

    def _add_category_axis(self, axis: str, frame: Frame, column_name: str) -> None:
        colors = self.uns[f"{column_name}{COLORS}"]
        try:
            column = frame.of_column(column_name)
            count = column.category_count()
            if count is None or column.problem or not _are_colors(self.tree, colors, count):
                return
        except errors.FormatError:
            return
        name = column_name if name_problem(column_name) is None else column.name
        name = self._free_axis(f"{name}_{frame.part}" if name in self._entries else name)
        self._entries[name] = None
        self.properties[layout.axis_path(name)] = array_property(
            column.sources, lambda _: _categories_of(frame, column_name)
        )
        self.properties[layout.vector_path(name, "color")] = _strings_at(colors)
        del self.uns[f"{column_name}{COLORS}"]
        self.category_axes[axis, column_name] = name

    # Matrices

    def _add_matrices(self) -> None:
        parts, obs, var = self.parts, self.obs, self.var
        if parts.main is not None:
            self._add_matrix(parts.main, (obs, var), self.main, "X")
        if parts.raw_main is not None and self.raw_axis is not None:
            self._add_matrix(parts.raw_main, (obs, self.raw_axis), self.main, "raw.X")
        taken = {self.main}
        for key, place in parts.layers.items():
            name = free_name(key, {*taken})
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
        rows, columns = map(self.frames.__getitem__, axes)
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
                lengths=lambda: (rows.length(), columns.length()),
            )
        )
        note: dict[str, Any] = {} if header.layout == "dense" else {"format": header.layout}
        if header.is_array:
            note["is_array"] = True
        if header.restored_dtype == np.float16:
            note["dtype"] = "float16"
        elif header.dtype == np.float16:
            self.lost.changed(label, "scipy has no such matrices of Float16; it became Float32")
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
            self.properties[path] = annotation_property(
                self.tree,
                place,
                annotation,
                self.frames[axis].length,
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

    def _entries_of(self, axis: str, length: int) -> list[str] | None:
        """Return the entries of an axis that was added before, unless it has another length."""
        cached = self._entries[axis]
        if cached is not None:
            return cached
        array = self.properties[layout.axis_path(axis)].node(self.tree).array()
        if array is None or array.info.size != length:
            return None
        entries: list[str] = array.read_strings().to_pylist()
        return entries

    # Vectors

    def vector(self, axis: str, name: str) -> Property | None:
        """Return the vector of a column; other columns are not looked at."""
        column = self.frames[axis].find(name) if axis in self.frames else None
        if column is None or column.problem:
            return None
        is_companion = name == column.companion
        if error := column.error or column.unclear:
            return broken_property(error)
        if is_companion:
            return array_property(column.sources, column.is_missing, state=column.state)
        own_axis = self.category_axes.get((axis, column.column_name))
        more = {} if own_axis is None else {ENTRIES_OF: own_axis}
        return array_property(
            column.sources, column.array, lambda: {**column.attributes(), **more}, column.state
        )

    def columns(self, axis: str) -> Iterator[Column]:
        """Yield the columns of an axis."""
        return self.frames[axis].every() if axis in self.frames else iter(())


def _categories_of(frame: Frame, column_name: str) -> MemoryArray:
    """Return the categories of a column, as they are now."""
    column = frame.of_column(column_name)
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

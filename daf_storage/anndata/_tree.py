"""An AnnData as the tree of a Daf data set, over the tree of the file that holds it.

What is neither axis, vector nor matrix, scalars of ``uns``, notes and kept parts, is made when it
is read.
"""

from __future__ import annotations

import functools
import json
import posixpath
import time
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from typing import Any, Final, TypeAlias

import numpy as np

from daf_storage import errors
from daf_storage.anndata import _stored as elements
from daf_storage.anndata._encoding import EncodedColumn
from daf_storage.anndata._frames import Column, Frame, stored_array
from daf_storage.anndata._parts import (
    GROUPS,
    KeptPlace,
    Parts,
    Places,
    anndata_parts,
    annotation_at,
    annotation_property,
    parts_of_object,
    path_of_matrix,
)
from daf_storage.anndata._restored import (
    AXIS_KEYS,
    FRAMES,
    NOTES,
    AnnDataWarning,
    Report,
    scalar_value,
)
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
from daf_storage.base import AnyArray, StorageType, free_name, name_problem, string_array
from daf_storage.data import (
    ENTRIES_OF,
    Convention,
    MadeNode,
    convention_attributes,
    kept,
    layout,
    required_array,
)
from daf_storage.stores import MemoryStore
from daf_storage.trees import Hdf5File, Hdf5Tree, MemoryArray, NodeKind, Tree, WritableZarrTree

_PYTHON: Final = {"b": StorageType.BOOL, "i": StorageType.INT64, "f": StorageType.FLOAT64}

WriteValue: TypeAlias = Callable[[Any, str, Any], None]
"""Writes a value into a group of an h5ad file, under a name; or nothing."""


def _scalar(tree: Tree, place: Place) -> tuple[Property, str] | None:
    """Return a scalar, and whether it is Python's or numpy's; None if a value is none."""
    path, library = place.path, ""
    if path:
        try:  # of what is a group there is no array
            shape, dtype = elements.shape_and_dtype(tree, path)
        except errors.FormatError:
            return None
        encoding = elements.encoding_of(elements.node_at(tree, path))
        library = "python" if encoding else ""
        if shape not in ((), (1,)):  # anndata takes old ones for scalars
            return None
        is_string = encoding == "string" and dtype == np.dtype(object)
        is_known = encoding == "numeric-scalar" and dtype.kind in _PYTHON and dtype != np.float16
        if not shape and (is_string or is_known):  # as anndata returns them: Python's
            kind = None if is_string else _PYTHON[dtype.kind]
            return array_property((path,), lambda nodes: _stored(nodes[0], path, kind)), library
    value = place.read(tree)
    if scalar_value(value) is None:
        return None
    made = array_property((path,), lambda _: MemoryArray(lambda: _as_array(place.read(tree))))
    return made, library or ("numpy" if isinstance(value, np.generic | np.ndarray) else "python")


def _stored(node: Any, path: str, kind: StorageType | None) -> Any:
    array = required_array(node, "", path)
    if kind is None:
        return array
    return MemoryArray(lambda: array.read().astype(kind.dtype), shape=(), storage_type=kind)


def _as_array(stored: Any) -> Any:
    value = scalar_value(stored)
    return string_array([value]) if isinstance(value, str) else np.array(value)


def kept_image(
    tree: Tree, place: KeptPlace, part: str, write: WriteValue = kept.write_element
) -> AnyArray:
    """Return a kept part as its image, which says which part it is.

    Parameters
    ----------
    write
        Writes what is not copied as it lies in a file of HDF5.

    Raises
    ------
    UnsupportedInputError
        Nothing of it can be written.
    """
    at, key = place.place, place.key
    if at.is_stored and isinstance(tree, Hdf5Tree):
        with elements.element(tree, at.path) as stored:
            return kept.image_of(part, key, kept.writer_of(stored))
    return kept.image_of(part, key, lambda group, name: write(group, name, at.read(tree)))


COLORS: Final = "_colors"


class Contents:
    """What an AnnData is as a data set, at one time, by the paths of the data set.

    Parameters
    ----------
    names
        What the caller calls obs, var and X, by ``obs_is``, ``var_is`` and ``X_is``.
    within
        What the names of its kept parts begin with.
    """

    def __init__(
        self, tree: Tree, parts: Parts, names: Mapping[str, str | None], within: str
    ) -> None:
        self.tree = tree
        self.parts = parts
        self.lost = Report()
        """What is damaged, and layers that have other names."""
        self.uns = dict(self._places("uns"))
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
        self._within = within
        self._nodes: dict[str, MadeNode] = {}
        self.frames: dict[str, Frame] = {}
        self._add_frame(self.obs, parts.obs)
        self._add_frame(self.var, parts.var)
        self.raw_axis: str | None = None
        if parts.raw_var is not None:
            self.raw_axis = self._free_axis(f"{self.var}_raw")
            self._add_frame(self.raw_axis, parts.raw_var)
        self._add_category_axes()
        self._add_matrices()
        for part, axis in (("obsm", self.obs), ("varm", self.var), ("raw.varm", self.raw_axis)):
            self._add_annotations(part, axis or "")
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
        parts = ("layers", "X", "raw.X")
        return {key or part: part_label(part, key) for part in parts for key in self._places(part)}

    def _places(self, part: str) -> Places:
        return self.parts.places.get(part, {})

    # Axes

    @functools.cached_property
    def axes(self) -> list[str]:
        """The axes, in order."""
        return sorted(self._entries)

    def _add_frame(self, axis: str, frame: Frame) -> None:
        self._entries[axis] = None
        self.frames[axis] = frame
        self.properties[layout.axis_path(axis)] = array_property(
            frame.index_sources, lambda _: frame.names()
        )

    def _free_axis(self, name: str) -> str:
        return free_name(name, {*self._entries})

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
            if count is None or not _are_colors(self.tree, colors, count):
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
        obs, var, taken = self.obs, self.var, {self.main}
        names = dict.fromkeys(("X", "raw.X"), self.main)
        aligned = {"X": (obs, var), "raw.X": (obs, self.raw_axis or ""), "layers": (obs, var)}
        for part, axes in {**aligned, "obsp": (obs, obs), "varp": (var, var)}.items():
            for key, place in self._places(part).items():
                is_layer = part == "layers"
                name = free_name(key, {*taken}) if is_layer else names.get(part, key)
                if self._add_matrix(place, axes, name, part, key) and is_layer:
                    taken.add(name)
                    if name != key:
                        label = part_label(part, key)
                        self.lost.renamed(label, f"stored as the matrix {name!r}")
                        self.layers[name] = key

    def _add_matrix(
        self, place: Place, axes: tuple[str, str], name: str, part: str, key: str
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

    def _add_annotations(self, part: str, axis: str) -> None:
        for key, place in self._places(part).items():
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
            if self._entries[key] == labels:
                return key
            key = self._free_axis(f"{key}_{axis}")
        self._entries[key] = labels
        self.properties[layout.axis_path(key)] = strings_property(place.path, lambda: labels)
        return key

    # Vectors

    def vector(self, axis: str, name: str) -> Property | None:
        """Return the vector of a column; other columns are not looked at."""
        column = self.frames[axis].find(name) if axis in self.frames else None
        if column is None or column.problem:
            return None
        if name != column.name:
            return array_property(
                column.sources,
                lambda _: stored_array(column.encoded().is_missing),
                state=column.state,
            )
        own_axis = self.category_axes.get((axis, column.column_name))
        more = {} if own_axis is None else {ENTRIES_OF: own_axis}

        def attributes() -> dict[str, str]:
            is_empty = column.encoded().empty_is_missing
            return convention_attributes(Convention.EMPTY_IS_MISSING if is_empty else None) | more

        return array_property(
            column.sources,
            lambda _: stored_array(column.encoded().values),
            attributes,
            column.state,
        )

    # By their paths

    @functools.cached_property
    def _of_uns(self) -> dict[str, tuple[Property, str]]:
        """The values of ``uns`` that are scalars, and of which library's; by metadata alone."""
        return {
            key: scalar
            for key, place in self.uns.items()
            if name_problem(key) is None
            and key not in (*AXIS_KEYS, NOTES)
            and (scalar := _scalar(self.tree, place)) is not None
        }

    @functools.cached_property
    def _scalars(self) -> dict[str, Property]:
        scalars = {key: scalar for key, (scalar, _) in self._of_uns.items()}
        for key, name in self.names.items():
            scalars[key] = strings_property("", functools.partial(list, (name,)))
        scalars[NOTES] = strings_property("", lambda: [self.notes])
        return {layout.scalar_path(key): scalar for key, scalar in scalars.items()}

    @functools.cached_property
    def kept(self) -> dict[str, KeptPlace]:
        """The parts that Daf has no place for, by the paths that an import gives them."""
        others = {key: place for key, place in self.uns.items() if key not in self._of_uns}
        places = [*self._kept_columns(), *self.unplaced]
        places += [KeptPlace((), "uns", key, at, "it is no scalar") for key, at in others.items()]
        found: dict[str, KeptPlace] = {}
        taken: dict[str, set[str]] = {}
        for place in places:
            group = posixpath.join(kept.GROUP, kept.LEVELS[len(place.axes)], *place.axes)
            names = taken.setdefault(group, set())
            name = kept.part_name(f"{place.part}.{place.key}" if place.key else place.part, names)
            found[posixpath.join(group, name)] = place
        return found

    def _kept_columns(self) -> Iterator[KeptPlace]:
        for axis, frame in self.frames.items():
            for column in frame.every():
                if not column.problem:
                    continue
                place = Place(column.sources[0])
                if column.series is not None:
                    place = Place(column.sources[0], column.series().values)
                yield KeptPlace((axis,), frame.part, column.column_name, place, column.problem)

    @functools.cached_property
    def notes(self) -> str:
        """What restores the AnnData, as JSON."""
        uns: list[list[Any]] = [
            [key, {"type": "colors", "list": isinstance(self._places("uns")[key].value, list)}]
            for key in (f"{column_name}{COLORS}" for _, column_name in self.category_axes)
        ]
        uns += [[k, {"type": "scalar_of_daf", "of": of}] for k, (_, of) in self._of_uns.items()]
        notes = {
            "version": 1,
            "axes": {axis: self._axis_notes(axis) for axis in self.frames},
            "matrices": self.matrix_notes,
            "uns": uns,
            **self.annotations,
            **self.more_notes(),
        }
        if self.layers:
            notes["layers"] = self.layers
        if self.raw_axis is not None:
            notes["raw"] = {"axis": self.raw_axis}
        return json.dumps(notes, separators=(",", ":"))

    def _axis_notes(self, axis: str) -> dict[str, Any]:
        frame, columns = self.frames[axis], []
        names = {
            place.key: posixpath.basename(path)
            for path, place in self.kept.items()
            if place.axes == (axis,) and place.part == frame.part
        }
        for column in frame.every():
            if column.problem:
                columns.append({"column": column.column_name, "kept": names[column.column_name]})
            elif column.found is not None:
                columns.append(self._rule(axis, column, column.found))
        return {"index_name": frame.index_name, "columns": columns}

    def _rule(self, axis: str, column: Column, found: EncodedColumn) -> dict[str, Any]:
        """Return what restores a column from its vector."""
        rule = {"column": column.column_name, "vector": column.name, **found.rule}
        category_axis = self.category_axes.get((axis, column.column_name))
        if category_axis is not None:
            rule["axis"] = category_axis
        elif found.categories is not None:
            rule["categories"] = found.categories.to_pylist()
        if column.companion:
            rule["is_missing"] = column.companion
        return rule

    def column_rules(self, axis: str, names: Iterable[str] | None) -> list[dict[str, Any]]:
        """Return what the notes say of some vectors of an axis, by default of all of them."""
        frame, columns = self.frames.get(axis), list[Column | None]()
        if frame is not None:
            columns += frame.every() if names is None else map(frame.find, sorted(names))
        pairs = [(column, column.found) for column in columns if column is not None]
        return [self._rule(axis, column, found) for column, found in pairs if found is not None]

    def report(self) -> Report:
        """Return what differs from the AnnData: parts that are not shown, changed or renamed.

        Those of obs and var come first, what is kept but ``uns`` last.
        """
        report = Report()
        for frame in self.frames.values():
            for column in frame.every():
                what = part_label(frame.part, column.column_name)
                if column.error is not None:
                    report.lost(what, str(column.error))
                elif column.problem:
                    report.kept(what, column.problem)
                elif note := column.encoded().note:
                    report.changed(what, note)
                if not column.problem and column.name != column.column_name:
                    report.renamed(what, f"stored as the vector {column.name!r}")
        report.items += self.lost.items
        for place in self.kept.values():
            if place.part not in (*FRAMES, "uns"):
                report.kept(part_label(place.part, place.key), place.why)
        return report

    def find(self, path: str) -> Property | None:
        """Return the property at a path."""
        top, _, rest = path.partition("/")
        if top == layout.SCALARS:
            return self._scalars.get(path)
        if top == kept.GROUP:
            place = self.kept.get(path)
            return None if place is None else self._kept_property(place)
        found = self.properties.get(path)
        if found is None and top == layout.VECTORS:
            axis, _, name = rest.partition("/")
            found = self.vector(axis, name) if name else None
        return found

    def _kept_property(self, place: KeptPlace) -> Property:
        image = functools.partial(kept_image, self.tree, place, self._within + place.part)
        return array_property((place.place.path,), lambda _: MemoryArray(image))

    def node(self, path: str, found: Property) -> MadeNode:
        """Return a property, pinned.

        In a file of HDF5 it is opened once: whatever changes in the file, there are other contents.
        """
        if not isinstance(self.tree, Hdf5Tree):
            return found.node(self.tree)
        if path not in self._nodes:
            self._nodes[path] = found.node(self.tree)
        return self._nodes[path]

    def is_group(self, path: str) -> bool:
        """Return whether there is a group at a path; no column is looked at."""
        group, names, depth = layout.split(path)
        if not path or path in layout.SKELETON:
            return True
        if group in (layout.VECTORS, layout.MATRICES):
            return len(names) <= (depth or 0) and set(self.axes) >= set(names)
        is_kept = group.startswith(kept.GROUP)
        return is_kept and any(f"{part}/".startswith(f"{path}/") for part in self.kept)

    def children(self, path: str) -> dict[str, NodeKind]:
        """Return the names directly below a group, and what each is."""
        if not self.is_group(path):
            return {}
        if not path:
            names = (*layout.SKELETON, *((kept.GROUP,) if self.kept else ()))
            return dict.fromkeys(names, "group")
        top, *axes = path.split("/")
        if (top == layout.VECTORS and not axes) or (top == layout.MATRICES and len(axes) < 2):
            return dict.fromkeys(self.axes, "group")
        found: dict[str, NodeKind] = {}
        for other in self._paths(top, *axes):
            if other.startswith(f"{path}/"):
                name, _, below = other.removeprefix(f"{path}/").partition("/")
                shown = None if below else self.find(other)
                found[name] = "group" if shown is None else shown.kind
        return found

    def _paths(self, top: str, *axes: str) -> Iterator[str]:
        """Yield paths, of which those below a group of properties are some."""
        if top == layout.SCALARS:
            yield from self._scalars
        elif top == kept.GROUP:
            yield from self.kept
        else:
            yield from self.properties
        if top == layout.VECTORS and axes[0] in self.frames:
            for column in self.frames[axes[0]].every():
                if not column.problem:
                    yield layout.vector_path(axes[0], column.name)
                    if column.companion:
                        yield layout.vector_path(axes[0], column.companion)


def _categories_of(frame: Frame, column_name: str) -> MemoryArray:
    """Return the categories of a column, as they are now."""
    column = frame.of_column(column_name)
    return MemoryArray(
        lambda: column.encoded().categories,
        shape=(column.category_count() or 0,),
        storage_type=StorageType.STRING,
    )


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


_CHECK_SECONDS: Final = 0.005
"""How long what there is in the file is believed to be the same, within one question."""
_LOOKS: Final = 3
"""How often a column is looked at again that is written to just then."""
_REMARKS: Final = {"lost": "not shown", "kept": "only in exports"}


class AnnDataTree:
    """An AnnData, read in place; see `Tree`.

    Parameters
    ----------
    base
        The tree of an h5ad file, or of a Zarr store that anndata wrote.
    read
        Returns the parts of the AnnData that the tree is, by metadata.
    remarks
        What is beside it in the file and is not shown, and why.
    extra
        Returns further properties by their paths.
    within
        What the names of its kept parts begin with.
    names
        Those of the two axes and of the main matrix, by ``obs_is``, ``var_is`` and ``X_is``; by
        default what ``uns`` says, else ``obs``, ``var`` and ``X``.
    """

    def __init__(
        self,
        base: Tree,
        *,
        read: Callable[[Tree], Parts] = anndata_parts,
        remarks: Iterable[tuple[str, str]] = (),
        extra: Callable[[Contents], Mapping[str, Property]] = lambda _: {},
        within: str = "",
        **names: str | None,
    ) -> None:
        self.base = base
        """The tree of the file."""
        self.location = base.location
        """Where the tree is, for messages."""
        self._read = read
        self._beside = list(remarks)
        self._extra = extra
        self._within = within
        self._names = names
        self._checked_at = time.monotonic()
        self._state = self._base_state()
        self._shown = self._looked_at()
        for what, problem in self.losses():
            errors.warn(f"{what} is not shown: {problem}", AnnDataWarning)

    def kind(self, path: str) -> NodeKind | None:
        """Return what is at ``path``; None if nothing is."""
        shown = self.current()
        found = shown.find(path)
        if found is not None:
            return found.kind
        return "group" if shown.is_group(path) else None

    def children(self, path: str) -> dict[str, NodeKind]:
        """Return the names directly below a group, and what each is."""
        return self.current().children(path)

    def identity(self, path: str) -> Hashable:
        """Return a value that changes whenever something at or below ``path`` does."""
        found = self.current(is_exact=True).find(path)
        return None if found is None else tuple(map(self.base.identity, found.sources))

    def version(self, path: str) -> Hashable:
        """Return what differs whenever something at ``path`` does, in any process."""
        found = self.current(is_exact=True).find(path)
        sources = ("",) if found is None else found.sources
        versions = tuple(self.base.version(source) for source in sources)
        return None if any(each is None for each in versions) else versions

    def listing_identity(self, path: str) -> Hashable:
        """Return a value that changes whenever a child of ``path`` does."""
        frames = self.current(is_exact=True).frames
        frame = frames.get(path.removeprefix(f"{layout.VECTORS}/"))
        if frame is None:
            return self._state
        return frame.renewals, *map(self.base.listing_identity, (*frame.sources, "uns"))

    def node(self, path: str) -> MadeNode | None:
        """Return the property at ``path``, pinned; None if there is none."""
        shown = self.current()
        found = shown.find(path)
        if found is None:
            return None
        node = shown.node(path, found)
        for _ in range(_LOOKS):
            if found is None or found.state is None or found.state == node.identity:
                break
            found = shown.find(path)  # written to between the look at it and at its arrays
            node = node if found is None else found.node(self.base)
        return node

    @property
    def index_tree(self) -> AnnDataTree:
        """The tree of its indexes: this one, which has none."""
        return self

    def remarks(self) -> list[tuple[str, str]]:
        """Return what differs from the AnnData, for summaries."""
        items = self.current().report().items
        shown = [
            (item.what, f"{_REMARKS.get(item.kind, item.kind)}: {item.message}") for item in items
        ]
        return shown + self._beside

    def losses(self) -> list[tuple[str, str]]:
        """Return the parts of the file that are damaged, so that nothing of them is shown."""
        items = self.current().lost.items
        return [(item.what, item.message) for item in items if item.kind == "lost"]

    def column_rules(self, axis: str, names: Iterable[str] | None) -> list[dict[str, Any]]:
        """Return what the notes say of some vectors; see `column_rules`."""
        return self.current().column_rules(axis, names)

    def current(self, *, is_exact: bool = False) -> Contents:
        """Return what there is, which another program may have changed in place."""
        now = time.monotonic()
        if is_exact or now - self._checked_at >= _CHECK_SECONDS:
            self._checked_at = now
            state = self._base_state()
            if state != self._state:
                self._shown = self._looked_at()
                self._state = state
        return self._shown

    def _looked_at(self) -> Contents:
        shown = Contents(self.base, self._read(self.base), self._names, self._within)
        shown.properties |= self._extra(shown)
        return shown

    def _base_state(self) -> Hashable:
        if isinstance(self.base, Hdf5Tree):
            return self.base.identity("")  # that of the root changes with all below it
        return tuple(self.base.listing_identity(group) for group in GROUPS)


def tree_of_object(adata: Any, **options: Any) -> AnnDataTree:
    """Return an AnnData in memory as a tree; of one that is backed, ``X`` stays in its file."""
    base: Tree
    if adata.isbacked and not adata.is_view:
        base = Hdf5Tree(Hdf5File(adata.file._file, location="AnnData"))  # noqa: SLF001 - no other way
    else:
        base = WritableZarrTree(MemoryStore(location="AnnData"), consolidated=False)
        with base.transaction() as changes:
            changes.mark_group("")
    return AnnDataTree(base, read=functools.partial(parts_of_object, adata), **options)

"""The rest of an AnnData, neither axis, vector nor matrix: scalars of ``uns``, notes, kept parts.

The notes are made when they are read; so are the images of what Daf has no place for.
"""

from __future__ import annotations

import json
import posixpath
from collections.abc import Callable, Container, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Any, Final, TypeAlias

import numpy as np
import pyarrow as pa

from daf_storage import errors
from daf_storage.anndata import _elements as elements
from daf_storage.anndata._columns import SeriesColumn
from daf_storage.anndata._contents import Contents, KeptPlace
from daf_storage.anndata._elements import Place
from daf_storage.anndata._frames import FrameVector, StoredFrame
from daf_storage.anndata._report import AXIS_KEYS, NOTES, Report, part_label, scalar_value
from daf_storage.anndata._virtual import Property, array_property
from daf_storage.base import AnyArray, StorageType, name_problem
from daf_storage.data import kept, required_array
from daf_storage.trees import Hdf5Tree, MemoryArray, Tree, WritableTree

_PYTHON: Final = {"b": StorageType.BOOL, "i": StorageType.INT64, "f": StorageType.FLOAT64}
_OF_FRAMES: Final = ("obs", "var", "raw.var")

WriteValue: TypeAlias = Callable[[Any, str, Any], None]
"""Writes a value into a group of an h5ad file, under a name; or nothing."""


# Scalars


def uns_scalars(contents: Contents) -> dict[str, tuple[Property, str]]:
    """Return the values of ``uns`` that are scalars, and of which library's; by metadata alone."""
    scalars = {}
    for key, place in contents.uns.items():
        if name_problem(key) is None and key not in AXIS_KEYS and key != NOTES:
            scalar = _scalar(contents.tree, place)
            if scalar is not None:
                scalars[key] = scalar
    return scalars


def _scalar(tree: Tree, place: Place) -> tuple[Property, str] | None:
    """Return a scalar, and whether it is Python's or numpy's; None if a value is none."""
    path, library = place.path, ""
    if place.is_stored:
        node = tree.node(path)
        if node is None or node.kind != "array":
            return None
        try:
            shape, dtype = elements.shape_and_dtype(tree, path)
        except errors.FormatError:
            return None
        encoding = elements.encoding_of(node)
        library = "python" if encoding else ""
        if shape not in ((), (1,)) or (shape and encoding):  # anndata takes old ones for scalars
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


def _as_array(known: Any) -> Any:
    value = scalar_value(known)
    return pa.array([value], pa.string()) if isinstance(value, str) else np.array(value)


# Parts that are kept


def kept_places(contents: Contents, scalars: Container[str]) -> dict[str, KeptPlace]:
    """Return the parts that Daf has no place for, by the paths that an import gives them."""
    places = [*_kept_columns(contents), *contents.unplaced]
    others = {key: place for key, place in contents.uns.items() if key not in scalars}
    places += [KeptPlace((), "uns", key, at, "it is no scalar") for key, at in others.items()]
    found: dict[str, KeptPlace] = {}
    taken: dict[str, set[str]] = {}
    for place in places:
        group = posixpath.join(kept.GROUP, kept.LEVELS[len(place.axes)], *place.axes)
        names = taken.setdefault(group, set())
        name = kept.free_name(f"{place.part}.{place.key}" if place.key else place.part, names)
        names.add(name)
        found[posixpath.join(group, name)] = place
    return found


def _kept_columns(contents: Contents) -> Iterator[KeptPlace]:
    for axis, vectors in contents.frames.items():
        for vector in vectors.every():
            if not vector.problem:
                continue
            column = vector.column
            place = Place(column.sources[0])
            is_whole = isinstance(vectors.frame, StoredFrame) and len(column.sources) == 1
            if isinstance(column, SeriesColumn) and not is_whole:
                place = Place(column.sources[0], column.value().values)
            yield KeptPlace((axis,), vectors.part, vector.column_name, place, vector.problem)


def kept_property(tree: Tree, place: KeptPlace) -> Property:
    """Return a kept part as its image."""

    def image() -> AnyArray:
        with _writer(tree, place.place, kept.write_element) as writer:
            return kept.image_of(place.part, place.key, writer)

    return array_property((place.place.path,), lambda _: MemoryArray(image))


def keep_part(tree: Tree, place: KeptPlace, target: WritableTree, write: WriteValue) -> None:
    """Store a part beside the data of another tree.

    Parameters
    ----------
    write
        Writes what is not copied as it lies in a file of HDF5.

    Raises
    ------
    UnsupportedInputError
        Nothing of it can be written, so nothing was stored.
    """
    with _writer(tree, place.place, write) as writer:
        kept.keep(target, place.axes, place.part, place.key, writer)


@contextmanager
def _writer(tree: Tree, place: Place, write: WriteValue) -> Iterator[kept.Writer]:
    if place.is_stored and isinstance(tree, Hdf5Tree):
        with elements.element(tree, place.path) as stored:
            yield kept.writer_of(stored)
    else:
        yield lambda group, name: write(group, name, place.read(tree))


# What is said of it


def notes_text(
    contents: Contents, scalars: Mapping[str, tuple[Property, str]], places: Mapping[str, KeptPlace]
) -> str:
    """Return the notes, which restore the AnnData, as JSON."""
    names = {
        (place.axes[0], place.key): posixpath.basename(path)
        for path, place in places.items()
        if place.part in _OF_FRAMES
    }
    uns: list[list[Any]] = [
        [f"{column_name}_colors", {"type": "colors", "list": category.is_list}]
        for (_, column_name), category in contents.category_axes.items()
        if category.has_colors
    ]
    uns += [[key, {"type": "scalar_of_daf", "of": of}] for key, (_, of) in scalars.items()]
    notes = {
        "version": 1,
        "axes": {axis: _axis_notes(contents, axis, names) for axis in contents.frames},
        "matrices": contents.matrix_notes,
        "uns": uns,
        **contents.annotations,
    }
    if contents.layers:
        notes["layers"] = contents.layers
    if contents.raw_axis is not None:
        notes["raw"] = {"axis": contents.raw_axis}
    return json.dumps(notes, separators=(",", ":"))


def _axis_notes(
    contents: Contents, axis: str, kept_names: Mapping[tuple[str, str], str]
) -> dict[str, Any]:
    columns = []
    for vector in contents.columns(axis):
        name = kept_names.get((axis, vector.column_name))
        if vector.problem and name is not None:
            columns.append({"column": vector.column_name, "kept": name})
        elif not vector.problem and vector.error is None:
            columns.append(_rule(contents, axis, vector))
    return {"index_name": contents.frames[axis].frame.index_name, "columns": columns}


def _rule(contents: Contents, axis: str, vector: FrameVector) -> dict[str, Any]:
    """Return what restores a column from its vector."""
    rule = {"column": vector.column_name, "vector": vector.name, **vector.column.rule()}
    categories = vector.column.categories()
    category_axis = contents.category_axes.get((axis, vector.column_name))
    if category_axis is not None:
        rule["axis"] = category_axis.axis
    elif categories is not None:
        rule["categories"] = categories.to_pylist()
    if vector.companion:
        rule["is_missing"] = vector.companion
    return rule


def rules_of_columns(
    contents: Contents, axis: str, names: Iterable[str] | None
) -> list[dict[str, Any]]:
    """Return the rules of the notes for some vectors of an axis, by default for all of them."""
    vectors: Iterable[FrameVector | None] = contents.columns(axis)
    if names is not None and axis in contents.frames:
        vectors = map(contents.frames[axis].find, sorted(names))
    rules = []
    for vector in vectors:
        with suppress(errors.FormatError):  # whoever reads the vector gets it
            if vector is not None and not vector.problem and vector.error is None:
                rules.append(_rule(contents, axis, vector))
    return rules


def report_of(contents: Contents, places: Iterable[KeptPlace]) -> Report:
    """Return what differs from the AnnData: of obs and var first, what is kept but uns last."""
    report = Report()
    for axis, vectors in contents.frames.items():
        for vector in contents.columns(axis):
            what = part_label(vectors.part, vector.column_name)
            if vector.error is not None:
                report.lost(what, str(vector.error))
            elif vector.problem:
                report.kept(what, vector.problem)
            elif vector.column.note:
                report.changed(what, vector.column.note)
            if not vector.problem and vector.name != vector.column_name:
                report.renamed(what, f"stored as the vector {vector.name!r}")
    report.items += contents.lost.items
    for place in places:
        if place.part not in (*_OF_FRAMES, "uns"):
            report.kept(part_label(place.part, place.key), place.why)
    return report

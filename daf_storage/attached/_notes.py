"""The scalars of ``uns``, the notes, and the parts that are kept: all without vector or matrix.

The notes are made when they are read; so are the images of what Daf has no place for.
"""

from __future__ import annotations

import json
import posixpath
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias

import numpy as np
import pyarrow as pa

from daf_storage import errors
from daf_storage.anndata_rules import Notes, scalar_value
from daf_storage.anndata_rules import notes as rules
from daf_storage.attached import _elements as elements
from daf_storage.attached._columns import BrokenColumn, PlainColumn
from daf_storage.attached._frames import FrameVector
from daf_storage.attached._matrices import Place
from daf_storage.attached._plan import KeptPlace, Plan
from daf_storage.attached._virtual import Property, array_property, memory_property
from daf_storage.base import AnyArray, StorageType, name_problem
from daf_storage.data import kept, layout, required_array
from daf_storage.trees import Hdf5Tree, MemoryArray, Node, Tree, WritableTree

_PYTHON: Final = {"b": StorageType.BOOL, "i": StorageType.INT64, "f": StorageType.FLOAT64}


WriteValue: TypeAlias = Callable[[Any, str, Any], None]
"""Writes a value into a group of an h5ad file, under a name; or nothing."""


@dataclass(slots=True)
class UnsValues:
    """What becomes of each value of ``uns``."""

    scalars: dict[str, Property] = field(default_factory=dict)
    """Scalars of the data set by their paths."""
    notes: list[tuple[str, dict[str, Any]]] = field(default_factory=list)
    """What the notes hold of the scalars, in order."""
    others: dict[str, Place] = field(default_factory=dict)
    """The values that are no scalars."""


def uns_values(tree: Tree, uns: Mapping[str, Place]) -> UnsValues:
    """Tell the scalars from other values, by metadata alone."""
    values = UnsValues()
    for key, place in uns.items():
        is_named = name_problem(key) is None and key not in rules.AXIS_KEYS and key != rules.SCALAR
        scalar = _scalar(tree, place) if is_named else None
        if scalar is None:
            values.others[key] = place
            continue
        values.scalars[layout.scalar_path(key)] = scalar
        values.notes.append((key, {"type": "scalar_of_daf", "of": _library_of(tree, place)}))
    return values


def _scalar(tree: Tree, place: Place) -> Property | None:
    """Return a scalar; None if a value is none."""
    if not place.is_stored:
        return _known_scalar(place.path, place.value, None)
    state = tree.identity(place.path)
    node = tree.node(place.path)
    if node is None or node.kind != "array":
        return None
    try:
        shape, dtype = elements.shape_and_dtype(tree, place.path)
    except errors.FormatError:
        return None
    encoding = elements.encoding_of(node)
    if shape == (1,) and not encoding:  # anndata takes it for a scalar
        return _known_scalar(place.path, place.read(tree), state)
    if shape != ():
        return None
    if encoding == "string" and dtype == np.dtype(object):
        return array_property((place.path,), lambda nodes: required_array(nodes[0], "", place.path))
    is_known = encoding == "numeric-scalar" and dtype.kind in "bif"
    if is_known and dtype != np.float16:  # as anndata returns them: Python's
        kind = _PYTHON[dtype.kind]
        return array_property((place.path,), lambda nodes: _PythonScalar(nodes[0], kind))
    return _known_scalar(place.path, place.read(tree), state)


def _known_scalar(path: str, known: Any, state: Hashable | None) -> Property | None:
    """Return a scalar that was read; ``state`` is the identity that it had before."""
    value = scalar_value(known)
    if value is None:
        return None
    array = pa.array([value], pa.string()) if isinstance(value, str) else np.array(value)
    return memory_property((path,), lambda: MemoryArray(lambda: array), state)


def _library_of(tree: Tree, place: Place) -> str:
    """Return whose scalars a scalar is one of."""
    if place.is_stored and elements.encoding_at(tree, place.path):
        return "python"
    value = place.read(tree)
    return "numpy" if isinstance(value, np.generic | np.ndarray) else "python"


class _PythonScalar(MemoryArray):
    """A number of a type that Python has, read when it is asked for."""

    def __init__(self, node: Node, kind: StorageType) -> None:
        super().__init__(lambda: self._read(node), shape=(), storage_type=kind)

    def _read(self, node: Node) -> Any:
        return (
            required_array(node, "", "a scalar of uns").read().astype(self.info.storage_type.dtype)
        )


# Parts that are kept


def kept_properties(
    tree: Tree, places: Iterable[KeptPlace]
) -> dict[str, tuple[KeptPlace, Property]]:
    """Return the kept parts by the paths that an import gives them."""
    properties: dict[str, tuple[KeptPlace, Property]] = {}
    taken: dict[str, set[str]] = {}
    for place in places:
        group = posixpath.join(kept.GROUP, kept.LEVELS[len(place.axes)], *place.axes)
        names = taken.setdefault(group, set())
        name = kept.free_name(f"{place.part}.{place.key}" if place.key else place.part, names)
        names.add(name)
        properties[posixpath.join(group, name)] = (place, _property(tree, place))
    return properties


def _property(tree: Tree, place: KeptPlace) -> Property:
    return memory_property((place.place.path,), lambda: MemoryArray(lambda: _image(tree, place)))


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


def _image(tree: Tree, place: KeptPlace) -> AnyArray:
    with _writer(tree, place.place, kept.write_element) as writer:
        return kept.image_of(place.part, place.key, writer)


@contextmanager
def _writer(tree: Tree, place: Place, write: WriteValue) -> Iterator[kept.Writer]:
    if place.is_stored and isinstance(tree, Hdf5Tree):
        with elements.element(tree, place.path) as stored:
            yield kept.writer_of(stored)
    else:
        yield lambda group, name: write(group, name, place.read(tree))


# The notes


def notes_text(plan: Plan, uns: list[list[Any]], kept_names: Mapping[tuple[str, str], str]) -> str:
    """Return the notes as an import stores them.

    Parameters
    ----------
    uns
        What they hold of ``uns``.
    kept_names
        The last components of the paths of kept columns, by their axis and column.
    """
    _note_swapped(plan)
    notes: Notes = {
        "version": 1,
        "axes": {axis: _axis_notes(plan, axis, kept_names) for axis in plan.frames},
        "matrices": plan.matrix_notes,
        "uns": uns,
        **plan.annotations,
    }
    if plan.layers:
        notes["layers"] = plan.layers
    if plan.raw_axis is not None:
        notes["raw"] = {"axis": plan.raw_axis}
    return json.dumps(notes, separators=(",", ":"))


def _note_swapped(plan: Plan) -> None:
    """Note the dtypes of matrices whose bytes are in the other order."""
    for label, place, header in plan.matrices.values():
        path = place.path if header.layout == "dense" else f"{place.path}/data"
        if (
            place.is_stored
            and header.error is None
            and (dtype := elements.swapped_dtype(plan.tree, path))
        ):
            part, key = place.path.rpartition("/")[::2]
            note = plan.annotations.get(part.replace("/", "."), {}).get(key)
            note = plan.matrix_notes.setdefault(label, {}) if note is None else note
            note["dtype"] = dtype


def _axis_notes(plan: Plan, axis: str, kept_names: Mapping[tuple[str, str], str]) -> dict[str, Any]:
    frame, _ = plan.frames[axis]
    columns = []
    for vector in plan.vectors(axis):
        if isinstance(vector.column, BrokenColumn):
            continue
        if vector.problem:
            name = kept_names.get((axis, vector.column_name))
            if name is not None:
                columns.append({"column": vector.column_name, "kept": name})
            continue
        rule = _rule(plan, axis, vector)
        if isinstance(vector.column, PlainColumn) and "kind" not in rule:
            dtype = elements.swapped_dtype(plan.tree, vector.column.sources[0])
            rule |= {"kind": "number", "dtype": dtype} if dtype else {}
        columns.append(rule)
    return {"index_name": frame.index_name, "columns": columns}


def _rule(plan: Plan, axis: str, vector: FrameVector) -> dict[str, Any]:
    """Return what restores a column from its vector."""
    rule = {"column": vector.column_name, "vector": vector.name, **vector.column.rule()}
    categories = vector.column.categories()
    category_axis = plan.category_axes.get((axis, vector.column_name))
    if category_axis is not None:
        rule["axis"] = category_axis.axis
    elif categories is not None:
        rule["categories"] = categories.to_pylist()
    if vector.companion:
        rule["is_missing"] = vector.companion
    return rule


def column_rules(plan: Plan, axis: str, names: Iterable[str] | None) -> list[dict[str, Any]]:
    """Return the rules of the notes for some vectors of an axis, by default for all of them."""
    if names is None:
        vectors = plan.vectors(axis)
    else:
        found = (plan.find_vector(axis, name) for name in sorted(names))
        vectors = tuple(vector for vector in found if vector is not None)
    found_rules = []
    for vector in vectors:
        if vector.name and not isinstance(vector.column, BrokenColumn):
            with suppress(errors.FormatError):  # whoever reads the vector gets it
                found_rules.append(_rule(plan, axis, vector))
    return found_rules

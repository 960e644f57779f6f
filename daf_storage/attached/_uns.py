"""The values of ``uns``: scalars, what the notes hold, and what Daf has no place for."""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
import pyarrow as pa

from daf_storage import errors
from daf_storage.anndata_rules import notes as rules
from daf_storage.anndata_rules import scalar_value
from daf_storage.attached import _elements as elements
from daf_storage.attached._matrices import Place
from daf_storage.attached._properties import Property, array_property, memory_property
from daf_storage.base import StorageType, name_problem
from daf_storage.data import kept, layout, required_array
from daf_storage.trees import MemoryArray, Node, Tree

_MOST_ELEMENTS: Final = 1 << 20
_DICTIONARIES: Final = frozenset(
    {"", "dict", "array", "string-array", "numeric-scalar", "string", "rec-array", "null"}
)
"""Encodings of which a dictionary may consist whose entries are read."""
_PYTHON: Final = {"b": StorageType.BOOL, "i": StorageType.INT64, "f": StorageType.FLOAT64}


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


def encoded_values(
    tree: Tree, others: Mapping[str, Place], moved: frozenset[str]
) -> Iterator[tuple[str, dict[str, Any] | None, str]]:
    """Yield each value that is no scalar as the notes hold it; or None, and why they do not.

    Parameters
    ----------
    moved
        Paths of matrices below ``uns`` that are in ``obsp``.
    """
    for key, place in others.items():
        try:
            problem = _why_unread(tree, place.path, moved) if place.is_stored else ""
            if problem:
                yield key, None, problem
                continue
            value = _without_moved(tree, place, moved)
            yield key, {"type": "json", "value": kept.encode(value)}, ""
        except errors.UnsupportedInputError as error:
            yield key, None, f"it holds {error}"
        except errors.FormatError as error:
            yield key, None, str(error)


def _without_moved(tree: Tree, place: Place, moved: frozenset[str]) -> Any:
    if not place.is_stored or not any(path.startswith(f"{place.path}/") for path in moved):
        return place.read(tree)
    paths = {name: f"{place.path}/{name}" for name in tree.children(place.path)}
    return {
        name: elements.read_value(tree, path) for name, path in paths.items() if path not in moved
    }


def _why_unread(tree: Tree, path: str, moved: frozenset[str], inside: str = "") -> str:
    """Return why a value is not read; empty for arrays of moderate size and their dictionaries."""
    node = tree.node(path)
    if node is None or path in moved:
        return ""
    encoding = elements.encoding_of(node)
    if node.attribute("h5sparse_format") is not None:
        encoding = "sparse matrix"
    if encoding not in _DICTIONARIES:
        return f"{f'{inside} in it' if inside else 'it'} is a {encoding}"
    if node.kind == "array":
        size = math.prod(elements.shape_and_dtype(tree, path)[0])
        return f"it has {size:,} elements" if size > _MOST_ELEMENTS else ""
    for name in tree.children(path):
        below = f"{inside}/{name}" if inside else name
        problem = _why_unread(tree, f"{path}/{name}", moved, below)
        if problem:
            return problem
    return ""

"""Parts that Daf has no place for, shown as an import would have kept them: made when read."""

from __future__ import annotations

import posixpath
from collections.abc import Iterable

import numpy as np

from daf_storage.attached import _elements as elements
from daf_storage.attached._plan import KeptPlace
from daf_storage.attached._properties import Property, memory_property
from daf_storage.base import AnyArray
from daf_storage.data import kept
from daf_storage.trees import Hdf5Tree, MemoryArray, Tree, WritableTree


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


def keep_part(tree: Tree, kept_place: KeptPlace, target: WritableTree) -> None:
    """Store a part beside the data of another tree.

    Raises
    ------
    UnsupportedInputError
        Anndata cannot write it either; nothing was stored.
    """
    axes, part, key, place = (
        kept_place.axes,
        kept_place.part,
        kept_place.key,
        kept_place.place,
    )
    if place.is_stored and isinstance(tree, Hdf5Tree):
        with elements.element(tree, place.path) as stored:
            kept.keep(target, axes, part, key, stored)
    else:
        kept.keep(target, axes, part, key, place.read(tree))


def _image(tree: Tree, kept_place: KeptPlace) -> AnyArray:
    part, key, place = kept_place.part, kept_place.key, kept_place.place
    if place.is_stored and isinstance(tree, Hdf5Tree):
        with elements.element(tree, place.path) as stored:
            return np.asarray(kept.image_of(part, key, stored))
    return kept.image_of(part, key, place.read(tree))

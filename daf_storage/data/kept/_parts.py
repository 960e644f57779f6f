"""Where the parts of an AnnData lie in a tree, and what follows the order of an axis."""

from __future__ import annotations

import io
import posixpath
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import IO, TYPE_CHECKING, Any, Final

import numpy as np

from daf_storage._lazy import lazy_module
from daf_storage.base import AnyArray, StorageType, name_problem
from daf_storage.data.kept import _image
from daf_storage.errors import CorruptDataError
from daf_storage.trees import StoredArray, Tree, TreeTransaction, WritableTree

if TYPE_CHECKING:
    import scipy.sparse as sp
else:
    sp = lazy_module("scipy.sparse")

GROUP: Final = "anndata"
"""The group beside ``scalars``, ``axes``, ``vectors`` and ``matrices``."""

LEVELS: Final = ("scalars", "vectors", "matrices")
"""Groups of the parts that are aligned to no axis, to one, and to two."""

_MOST_CHARACTERS = 60


@dataclass(frozen=True, slots=True)
class KeptPart:
    """One stored part of an AnnData."""

    path: str
    """Where it is in the tree."""
    axes: tuple[str, ...]
    """To which axes its first dimensions are aligned."""
    part: str
    """Of which part of the AnnData it is, such as ``uns``."""
    key: str
    """Under which key; empty if the part has none."""
    array: StoredArray
    """The image."""

    @property
    def name(self) -> str:
        """The last component of its path."""
        return posixpath.basename(self.path)

    def value(self) -> Any:
        """Return the value as the AnnData had it."""
        with _image.opened(self.array, what=self.path) as file:
            return _image.read_element(_image.element_of(file, what=self.path))

    def copy_to(self, group: Any, name: str) -> None:
        """Copy it into a group of an h5ad file."""
        with _image.opened(self.array, what=self.path) as file:
            file.copy(_image.element_of(file, what=self.path), group, name)


def keep(
    tree: WritableTree, axes: tuple[str, ...], part: str, key: str, write: _image.Writer
) -> None:
    """Store a part of an AnnData.

    Raises
    ------
    UnsupportedInputError
        Anndata cannot write it either; nothing was stored.
    """
    path = _free_path(tree, axes, f"{part}.{key}" if key else part)
    with (
        _image.new_image(part, key, write) as image,
        tree.transaction() as changes,
        tree.lock(),
    ):
        make_groups(tree, changes, path)
        _write(changes, path, image)
        changes.publish(path, replace=False)


def image_of(part: str, key: str, write: _image.Writer) -> AnyArray:
    """Return the bytes that `keep` would store of a part."""
    with _image.new_image(part, key, write) as image:
        return np.concatenate([np.empty(0, np.uint8), *_image.blocks_of(image)])


def parts(tree: Tree, *, axes: tuple[str, ...] | None = None) -> Iterator[KeptPart]:
    """Yield the stored parts; only those that are aligned to just these axes, if there are some."""
    for path, array in arrays(tree).items():
        found = _axes_of(path)
        if axes is not None and found != axes:
            continue
        with _image.opened(array, what=f"{tree.location}: {path}") as file:
            part, key = str(file.attrs["part"]), str(file.attrs["key"])
        yield KeptPart(path, found, part, key, array)


def arrays(tree: Tree) -> dict[str, StoredArray]:
    """Return the images by their paths."""
    found: dict[str, StoredArray] = {}
    if tree.kind(GROUP) is None:
        return found
    for depth, level in enumerate(LEVELS):
        groups = [posixpath.join(GROUP, level)]
        for _ in range(depth):
            groups = [f"{g}/{name}" for g in groups for name in sorted(tree.children(g))]
        for group in groups:
            for name, kind in sorted(tree.children(group).items()):
                node = tree.node(f"{group}/{name}") if kind == "array" else None
                array = None if node is None else node.array()
                if array is not None:
                    found[f"{group}/{name}"] = array
    return found


def check_part(path: str, array: StoredArray) -> None:
    """Raise unless an image can be opened."""
    with _image.opened(array, what=path) as file:
        _image.element_of(file, what=path)


def delete_part(tree: WritableTree, path: str) -> None:
    """Take a part away."""
    with tree.transaction() as changes, tree.lock():
        changes.remove(path)


def make_groups(tree: Tree, changes: TreeTransaction, path: str) -> None:
    """Make the groups on the way to a part that are missing."""
    names = path.split("/")
    for group in ("/".join(names[:n]) for n in range(1, len(names))):
        if tree.kind(group) is None:
            changes.create_group(group)
            changes.publish(group, replace=False)


# What follows an axis


def aligned_paths(tree: Tree, axes: Collection[str]) -> list[str]:
    """Return the paths of the parts that follow the order of some axes."""
    return [path for path in arrays(tree) if set(axes) & set(_axes_of(path))]


def paths_of_axis(tree: Tree, axis: str) -> list[str]:
    """Return the paths of everything that goes when an axis is deleted."""
    if tree.kind(GROUP) is None:
        return []
    matrices = posixpath.join(GROUP, "matrices")
    found = [posixpath.join(GROUP, "vectors", axis), posixpath.join(matrices, axis)]
    others = sorted(set(tree.children(matrices)) - {axis})
    found += [posixpath.join(matrices, other, axis) for other in others]
    return [path for path in found if tree.kind(path) is not None]


def write_reordered(source: Tree, target: WritableTree, orders: Mapping[str, AnyArray]) -> None:
    """Write the parts that follow the order of some axes; what is there already is complete."""
    aligned = set(aligned_paths(source, orders))
    for found in parts(source):
        if found.path not in aligned or target.kind(found.path) is not None:
            continue
        value = found.value()
        for dimension, own in enumerate(found.axes):
            if own in orders:
                value = _taken(value, orders[own], dimension, what=found.path)
        write = _image.writer_of(value)
        with (
            _image.new_image(found.part, found.key, write) as image,
            target.transaction() as changes,
        ):
            _write(changes, found.path, image)
            changes.publish(found.path, replace=False)


def _taken(value: Any, positions: AnyArray, dimension: int, *, what: str) -> Any:
    """Return a value in another order of its first or second dimension."""
    length = len(value) if dimension == 0 and not sp.issparse(value) else value.shape[dimension]
    if length != positions.size:
        raise CorruptDataError(
            f"{what}: it has {length:,} entries, and its axis has {positions.size:,}"
        )
    if hasattr(value, "iloc"):
        return value.iloc[positions] if dimension == 0 else value.iloc[:, positions]
    if sp.issparse(value):
        rows = value.tocsr() if dimension == 0 else value.tocsc()
        moved = rows[positions] if dimension == 0 else rows[:, positions]
        return moved.asformat(value.format)
    return value[positions] if dimension == 0 else value[:, positions]


# Helpers


def _write(changes: TreeTransaction, path: str, image: IO[bytes]) -> None:
    length = image.seek(0, io.SEEK_END)
    changes.write_blocks(path, (length,), StorageType.UINT8, _image.blocks_of(image))


def _axes_of(path: str) -> tuple[str, ...]:
    return tuple(path.split("/")[2:-1])


def _free_path(tree: Tree, axes: tuple[str, ...], wanted: str) -> str:
    group = posixpath.join(GROUP, LEVELS[len(axes)], *axes)
    taken = set(tree.children(group)) if tree.kind(group) is not None else set()
    return posixpath.join(group, free_name(wanted, taken))


def free_name(wanted: str, taken: Collection[str]) -> str:
    """Return the last component of the path of a part.

    >>> free_name("uns.a/b", {"uns.a_b"})
    'uns.a_b.2'
    """
    name = wanted.replace("/", "_").replace("\0", "_")[:_MOST_CHARACTERS]
    if name_problem(name) is not None:
        name = "part"
    free, count = name, 1
    while free in taken:
        count += 1
        free = f"{name}.{count}"
    return free

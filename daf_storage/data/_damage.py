"""Lost and damaged parts of a data set: the property of a stored path, in words.

Knows paths, and neither stores nor trees.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from daf_storage.base import METADATA_NAMES, Span
from daf_storage.data import _layout as layout
from daf_storage.errors import DafError, shown_names, warn
from daf_storage.stores import MmapZipStore, Recovery, RecoveryWarning
from daf_storage.trees import Tree, ZarrTree

_TOPS: Final = frozenset({*layout.SKELETON, layout.INDEXES, layout.KEPT})
_INDEX_PARTS: Final = len(("indexes", "axis", "vector"))


@dataclass(frozen=True, slots=True)
class Damage:
    """A property that is lost, or damaged."""

    what: str
    """The property in words, such as ``vector 'age' of axis 'cell'``."""
    path: str
    """Where it is, or was: ``vectors/cell/age``; in an archive of several data sets with the group
    in front."""
    problem: str
    """What is wrong, in a sentence."""

    def __str__(self) -> str:
        return f"{self.what}: {self.problem}"

    @property
    def is_index(self) -> bool:
        """Whether it is only an index, which can be built again from the data."""
        found = property_of(self.path)
        return found is not None and found[1][0] == layout.INDEXES


def damage_of(path: str, problem: str) -> Damage:
    """Return what is wrong with the property that a path belongs to.

    >>> print(damage_of("vectors/cell/age/0", "it is cut off"))
    vector 'age' of axis 'cell': it is cut off
    >>> damage_of("b/c/axes/cell/0", "it is cut off").path
    'b/c/axes/cell'
    """
    found = property_of(path)
    if found is None:
        return Damage(f"entry {path!r}" if path else "the data set", path, problem)
    group, parts = found
    whole = posixpath.join(group, *parts)
    what = layout.in_words("/".join(parts)) + (f" of data set {group!r}" if group else "")
    return Damage(what, whole, problem)


def property_of(path: str) -> tuple[str, tuple[str, ...]] | None:
    """Return the group of the data set, and the parts of the path, of a stored path's property.

    >>> property_of("vectors/cell/age/0")
    ('', ('vectors', 'cell', 'age'))
    >>> property_of("vectors/cell/.zgroup") is None
    True
    """
    parts = path.split("/")
    start = next((n for n, name in enumerate(parts) if name in _TOPS), len(parts))
    below = parts[start:]
    place = layout.property_of("/".join(below))
    whole = below[:_INDEX_PARTS] if place is None else place.path.split("/")
    is_index = whole[:1] == [layout.INDEXES] and len(whole) == _INDEX_PARTS
    if (place is None and not is_index) or whole[-1] in METADATA_NAMES:
        return None
    return "/".join(parts[:start]), tuple(whole)


def is_group_document(path: str) -> bool:
    """Return whether a stored path only says that there is a group, which anybody can see.

    >>> is_group_document("vectors/cell/.zgroup"), is_group_document("vectors/cell/flag/.zgroup")
    (True, False)
    """
    folder, _, name = path.rpartition("/")
    is_known = any(part in _TOPS for part in folder.split("/"))
    return name in METADATA_NAMES and is_known and property_of(path) is None


def one_each(damages: Iterable[Damage]) -> tuple[Damage, ...]:
    """Return the first damage of each property."""
    found: dict[str, Damage] = {}
    for damage in damages:
        found.setdefault(damage.path, damage)
    return tuple(found.values())


_NODE_DOCUMENTS = frozenset({".zgroup", ".zarray", "zarr.json"})
_CHUNK = re.compile(r"/(c(/\d+)*|\d+([./]\d+)*)$")


def recover_zarr_archive(store: MmapZipStore, tree: ZarrTree, root: str) -> list[Damage]:
    """Take what cannot be read out of an archive; return the properties that are lost.

    Recovery of the archive may have dropped single entries, of this data set or another one in it:
    the other parts of their properties go too, since a missing chunk can read as zeros and missing
    attributes change what the bytes mean.

    Parameters
    ----------
    root
        The group of a data set, whose incomplete properties go as well.
    """
    lost = lost_entries(store.recovery)
    store.recover()
    lost += [
        damage_of(posixpath.join(root, path), "part of its data is missing")
        for path in incomplete_properties(tree, store, root)
    ]
    found = one_each(lost)
    prefixes = tuple(f"{damage.path}/" for damage in found if damage.path)
    remove_lost(store, found, [key for key in store if key.startswith(prefixes)])
    return list(found)


def remove_lost(store: MmapZipStore, lost: Sequence[Damage], keys: Sequence[str]) -> None:
    """Take the entries of lost properties away, and warn of it; for a caller's caller."""
    if keys:
        store.remove_entries(keys)
    if lost:
        what = shown_names((damage.what for damage in lost), none="")
        warn(
            f"{store.location}: {what} could not be read and "
            "was taken away: a writer had stopped in the middle of writing it, or the file was "
            "damaged; write it again, or take it from a backup",
            RecoveryWarning,
        )


def lost_entries(recovery: Recovery) -> list[Damage]:
    """Return what is lost by the entries that recovery dropped: all but empty attributes."""
    return [
        damage_of(name, "its data was not whole")
        for name, size_bytes in zip(recovery.dropped, recovery.dropped_bytes, strict=True)
        if not is_group_document(name)
        and not (posixpath.basename(name) == ".zattrs" and size_bytes <= len("{}"))
    ]


def incomplete_properties(tree: Tree, store: MmapZipStore, root: str) -> list[str]:
    """Return the paths of properties whose metadata is there and part of their data is not."""
    start = f"{root}/" if root else ""
    names = [name[len(start) :] for name in store if name.startswith(start)]
    nodes = {posixpath.dirname(n) for n in names if posixpath.basename(n) in _NODE_DOCUMENTS}
    filled = {_CHUNK.sub("", n) for n in names if posixpath.basename(n) not in METADATA_NAMES}
    found = set()
    for node in nodes - filled:  # groups, and arrays without chunks
        group, parts = property_of(node) or ("", ("",))
        if group or parts[0] not in (*layout.SKELETON, layout.KEPT):
            continue
        path = posixpath.join(*parts)
        if tree.kind(node) == "group":
            if path == node and not _has_parts(node, nodes):
                found.add(path)
        elif not _is_readable(tree, node):
            found.add(path)
    return sorted(found)


def _has_parts(group: str, nodes: set[str]) -> bool:
    needed = ("nzind",) if group.startswith(f"{layout.VECTORS}/") else ("colptr", "rowval")
    return all(f"{group}/{part}" in nodes for part in needed)


def _is_readable(tree: Tree, path: str) -> bool:
    """Return whether an array without chunks needs none: it is empty, or has a fill value."""
    parent, name = posixpath.split(path)
    try:
        node = tree.node(path) or tree.node(parent)
        array = None if node is None else node.array("" if node.kind == "array" else name)
        if array is None:
            return False
        if array.info.storage_type.is_string:
            array.read_strings()
        elif array.info.shape:
            array.read_rows(Span(0, min(array.info.shape[0], 1)))
    except DafError:
        return False
    return True

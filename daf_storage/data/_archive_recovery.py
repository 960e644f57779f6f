"""Remove the properties of an archive that a crashed writer left incomplete.

An archive is append-only: a property whose metadata is there but not its data could neither be
read nor written again.  This software adds a property in one step; other writers add its entries
one by one, and recovery of the archive may drop the last of them.
"""

from __future__ import annotations

import posixpath
import re
import warnings
from collections.abc import Iterable, Sequence

from daf_storage.base import Span
from daf_storage.data import _layout as layout
from daf_storage.data import kept
from daf_storage.data._damage import (
    Damage,
    damage_of,
    is_group_document,
    listed,
    one_each,
    property_of,
)
from daf_storage.errors import DafError
from daf_storage.stores import MmapZipStore, Recovery, RecoveryWarning
from daf_storage.trees import Tree, ZarrTree

_ATTRIBUTES = ".zattrs"
_DOCUMENTS = frozenset({".zgroup", ".zarray", "zarr.json"})
_NO_CHUNKS = _DOCUMENTS | {".zattrs", ".zmetadata"}
_CHUNK = re.compile(r"/(c(/\d+)*|\d+([./]\d+)*)$")


def recover_archive(store: MmapZipStore, tree: Tree, root: str) -> list[Damage]:
    """Take what cannot be read out of an archive, and return the properties that are lost by it.

    Recovery of the archive may have dropped single entries, of this data set or another one in it:
    the other parts of their properties go too, since a missing chunk can read as zeros and missing
    attributes change what the bytes mean.

    Parameters
    ----------
    root
        The group of a data set, whose incomplete properties go as well.
    """
    recovery = store.recovery
    store.recover()
    lost = lost_entries(recovery)
    if store.is_own:
        lost += [
            damage_of(posixpath.join(root, path), "part of its data is missing")
            for path in incomplete_properties(tree, _names_below(store, root))
        ]
    found = one_each(lost)
    _remove(store, found)
    warn_of_lost(store.location, found)
    return list(found)


def warn_of_lost(location: str, lost: Sequence[Damage]) -> None:
    """Warn of properties that were taken away, if there are any; for a caller's caller."""
    if lost:
        warnings.warn(
            f"{location}: {listed(damage.what for damage in lost)} could not be read and "
            "was taken away: a writer had stopped in the middle of writing it, or the file was "
            "damaged; write it again, or take it from a backup",
            RecoveryWarning,
            stacklevel=5,
        )


def take_out_consolidated(store: MmapZipStore, tree: ZarrTree, root: str) -> bool:
    """Take consolidated metadata out of an archive, and say whether there was any.

    A directory that was packed with a ZIP program has brought it in.  What is added to an archive
    could not be added to it as well, and readers that depend on it would not see that.
    """
    key = posixpath.join(root, tree.format.consolidated_file)
    data = store.get(key)
    if data is None:
        return False
    without = tree.format.unconsolidated(bytes(data))
    if without is None:
        store.remove_entries([key])
        return True
    is_changed = without != bytes(data)
    if is_changed:
        store.replace_entry(key, without)
    return is_changed


def lost_entries(recovery: Recovery) -> list[Damage]:
    """Return what is lost by the entries that recovery dropped: all but empty attributes."""
    return [
        damage_of(name, "its data was not whole")
        for name, size_bytes in zip(recovery.dropped, recovery.dropped_bytes, strict=True)
        if not is_group_document(name) and not _is_empty(name, size_bytes)
    ]


def _is_empty(name: str, size_bytes: int) -> bool:
    return posixpath.basename(name) == _ATTRIBUTES and size_bytes <= len("{}")


def _remove(store: MmapZipStore, lost: Iterable[Damage]) -> None:
    prefixes = tuple(f"{damage.path}/" for damage in lost if damage.path)
    unwanted = [key for key in store if key.startswith(prefixes)] if prefixes else []
    if unwanted:
        store.remove_entries(unwanted)


def incomplete_properties(tree: Tree, names: list[str]) -> list[str]:
    """Return the paths of properties whose metadata is there and part of their data is not.

    Parameters
    ----------
    names
        All keys of the data set, relative to its root.
    """
    nodes = {posixpath.dirname(n) for n in names if posixpath.basename(n) in _DOCUMENTS}
    filled = {_CHUNK.sub("", n) for n in names if posixpath.basename(n) not in _NO_CHUNKS}
    found = set()
    for node in nodes - filled:  # groups, and arrays without chunks
        group, parts = property_of(node) or ("", ("",))
        if group or parts[0] not in (*layout.SKELETON, kept.GROUP):
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


def _names_below(store: MmapZipStore, root: str) -> list[str]:
    if not root:
        return store.keys()
    start = f"{root}/"
    return [name[len(start) :] for name in store if name.startswith(start)]

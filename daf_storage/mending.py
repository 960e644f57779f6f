"""Taking away properties of an archive that a crashed writer left half written.

An archive is append-only: a property whose metadata is there but not its data could neither be
read nor written again.  This software adds a property in one step; other writers add its entries
one by one, and recovery of the archive may drop the last of them.
"""

from __future__ import annotations

import posixpath
import re
import warnings
from collections.abc import Iterable

from daf_storage import kept, layout
from daf_storage.errors import DafError
from daf_storage.model import Span
from daf_storage.stores import MmapZipStore, Recovery
from daf_storage.trees import Tree

_DEPTHS = {layout.SCALARS: 2, layout.AXES: 2, layout.VECTORS: 3, layout.MATRICES: 4}
_MOST_NAMES_SHOWN = 5
_DOCUMENTS = frozenset({".zgroup", ".zarray", "zarr.json"})
_NO_CHUNKS = _DOCUMENTS | {".zattrs", ".zmetadata"}
_CHUNK = re.compile(r"/(c(/\d+)*|\d+([./]\d+)*)$")


class RecoveryWarning(UserWarning):
    """Something that a crashed writer had left half done was taken away."""


def mend_archive(store: MmapZipStore, tree: Tree, root: str) -> list[str]:
    """Take the incomplete properties of one data set out of an archive; return their paths."""
    recovery = store.recovery
    if store.recover():
        _warn_of(store, recovery)
    if not store.is_own:
        return []
    paths = incomplete_properties(tree, _names_below(store, root))
    if paths:
        prefixes = tuple(posixpath.join(root, path) + "/" for path in paths)
        store.remove_entries(key for key in store if key.startswith(prefixes))
        warnings.warn(
            f"{tree.location}: a writer had stopped in the middle of writing {_listed(paths)}; "
            "it could not be read and was taken away, write it again",
            RecoveryWarning,
            stacklevel=4,
        )
    return paths


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
        path = _property_of(node)
        if path is None:
            continue
        if tree.kind(node) == "group":
            if path == node and not _has_parts(node, nodes):
                found.add(path)
        elif not _is_readable(tree, node):
            found.add(path)
    return sorted(found)


def _property_of(path: str) -> str | None:
    """Return the path of the property that an array or group is, or is part of."""
    if path.startswith(f"{kept.GROUP}/"):
        below = _property_of(path.removeprefix(f"{kept.GROUP}/"))
        return None if below is None else f"{kept.GROUP}/{below}"
    parts = path.split("/")
    depth = _DEPTHS.get(parts[0])
    return None if depth is None or len(parts) < depth else "/".join(parts[:depth])


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


def _warn_of(store: MmapZipStore, recovery: Recovery) -> None:
    if recovery.dropped:
        warnings.warn(
            f"{store.location}: a writer had stopped in the middle of adding "
            f"{_listed(recovery.dropped)}; what was not complete was taken away",
            RecoveryWarning,
            stacklevel=5,
        )


def _listed(names: Iterable[str]) -> str:
    listed = list(names)
    shown = ", ".join(listed[:_MOST_NAMES_SHOWN])
    rest = len(listed) - _MOST_NAMES_SHOWN
    return f"{shown} and {rest:,} more" if rest > 0 else shown

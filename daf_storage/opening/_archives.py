"""The archives that are open in this process, and the data sets in them."""

from __future__ import annotations

import posixpath
from pathlib import Path

from daf_storage import errors, settings
from daf_storage.base import OpenMode
from daf_storage.data import kept, layout
from daf_storage.files_daf import DAF_FILE, INDEXES_FOLDER, FilesTree
from daf_storage.opening._handle_registry import Lease, Registry
from daf_storage.opening._paths import DafPath
from daf_storage.stores import MmapZipStore
from daf_storage.trees import Tree, ZarrTree

_PARTS = frozenset({*layout.SKELETON, layout.DAF, layout.INDEXES, INDEXES_FOLDER, kept.GROUP})
"""The groups of a data set, in which no other one can lie."""

REGISTRY: Registry[MmapZipStore] = Registry("zip file")


class _Archive(MmapZipStore):
    """An archive of data sets; whoever opens one of these names its parts that are lost."""

    names_dropped = False


def lease(path: Path, mode: OpenMode, location: str) -> Lease[MmapZipStore]:
    """Return a lease of the store of an archive, opening it if no other handle has done so.

    Raises
    ------
    InUseError
        It is open for reading only here, or open for writing in another process.
    """
    return REGISTRY.lease(
        path,
        mode,
        location,
        lambda: _Archive(
            path,
            mode,
            max_file_size=settings.DAF_ZARR_ZIP_MAX_FILE_SIZE,
            sync=settings.DAF_ZARR_ZIP_SYNC,
            location=location,
        ),
    )


def groups_of(store: MmapZipStore) -> list[str]:
    """Return the groups of an archive that are data sets; an empty name for the root."""
    groups = set()
    for key in store:
        for marker in (f"/{layout.DAF}/.zarray", f"/{layout.AXES}/zarr.json", f"/{DAF_FILE}"):
            if f"/{key}".endswith(marker):
                groups.add(key[: -len(marker) + 1].rstrip("/"))
    found: set[str] = set()
    for group in sorted(groups):  # what lies above comes before
        if not _is_within(group, found) and _is_daf(tree_of(store, group)):
            found.add(group)
    return sorted(found)


def _is_within(group: str, others: set[str]) -> bool:
    """Return whether a group lies among the properties of another data set."""
    names = group.split("/")
    return any(name in _PARTS and "/".join(names[:n]) in others for n, name in enumerate(names))


def tree_of(store: MmapZipStore, group: str) -> FilesTree | ZarrTree:
    """Return the tree of a group of an archive: of plain files if it is marked so, else of Zarr."""
    is_files = posixpath.join(group, DAF_FILE) in store
    return FilesTree(store, group) if is_files else ZarrTree(store, group)


def _is_daf(tree: Tree) -> bool:
    try:
        return layout.is_daf(tree)
    except errors.VersionError:  # whoever opens it learns which
        return True


def check_free_group(where: DafPath, tree: Tree) -> None:
    """Refuse a new group that is called as a part of a data set is, so that none lies in one."""
    name = next((name for name in where.group.split("/") if name in _PARTS), None)
    if name is not None and not layout.is_daf(tree):
        raise errors.InvalidInputError(
            f"{where.given}: {name!r} is the name of a part of each data set, in which no other "
            "one can lie; choose another group"
        )

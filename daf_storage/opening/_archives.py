"""The archives that are open in this process, and the data sets in them."""

from __future__ import annotations

import posixpath
from collections.abc import Callable
from pathlib import Path

from daf_storage import errors, settings
from daf_storage.base import OpenMode
from daf_storage.data import layout
from daf_storage.files_daf import DAF_FILE, FilesTree
from daf_storage.opening._handle_registry import Lease, Registry
from daf_storage.opening._paths import DafPath
from daf_storage.stores import MmapZipStore
from daf_storage.trees import Tree, ZarrTree

REGISTRY: Registry[MmapZipStore] = Registry("zip file")


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
        lambda: MmapZipStore(
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
    return sorted(group for group in groups if _is_daf(tree_of(store, group)))


def tree_of(store: MmapZipStore, group: str) -> FilesTree | ZarrTree:
    """Return the tree of a group of an archive: of plain files if it is marked so, else of Zarr."""
    is_files = posixpath.join(group, DAF_FILE) in store
    return FilesTree(store, group) if is_files else ZarrTree(store, group)


def _is_daf(tree: Tree) -> bool:
    try:
        return layout.is_daf(tree)
    except errors.VersionError:  # whoever opens it learns which
        return True


def check_free_group(where: DafPath, tree_of: Callable[[str], Tree]) -> None:
    """Refuse a group that lies among the properties of another data set of its archive."""
    parts = where.group.split("/")
    for depth in range(1, len(parts)):
        above = "/".join(parts[:depth])
        if parts[depth] in (*layout.SKELETON, layout.DAF) and layout.is_daf(tree_of(above)):
            raise errors.InvalidInputError(
                f"{where.given}: {above!r} is a data set itself, and {parts[depth]!r} is part of "
                "it; choose another group"
            )

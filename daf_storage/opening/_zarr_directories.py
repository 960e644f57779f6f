"""Data sets in Zarr directories: find, empty, recover and open them."""

from __future__ import annotations

import errno
import os
import warnings
from pathlib import Path

from daf_storage import errors
from daf_storage.base import OpenMode
from daf_storage.data import DafReader, DafWriter, RecoveryWarning, layout
from daf_storage.opening import _reorder_backup as backup
from daf_storage.opening._paths import (
    ARCHIVE_SUFFIX,
    DIRECTORY_SUFFIX,
    FILES_ARCHIVE_SUFFIX,
    FILES_SUFFIX,
    HDF5_SUFFIX,
    SHARED_ARCHIVE_SUFFIX,
    SHARED_FILES_ARCHIVE_SUFFIX,
    SHARED_HDF5_SUFFIX,
    DafPath,
)
from daf_storage.opening._skeleton import check_group, make_or_check, reader_name, writer_name
from daf_storage.opening._style import Style
from daf_storage.stores import (
    DirectoryStore,
    WritableStore,
    follow_links,
    interrupted_exchange,
    remove_leftovers,
    scratch,
    was_interrupted,
)
from daf_storage.trees import (
    WritableTree,
    WritableZarrTree,
    ZarrTree,
    find_version,
)

_SUFFIXES = (
    DIRECTORY_SUFFIX,
    ARCHIVE_SUFFIX,
    SHARED_ARCHIVE_SUFFIX,
    FILES_SUFFIX,
    FILES_ARCHIVE_SUFFIX,
    SHARED_FILES_ARCHIVE_SUFFIX,
    HDF5_SUFFIX,
    SHARED_HDF5_SUFFIX,
)
_MARKERS = (".zgroup", "zarr.json")
_FULL = (errno.ENOSPC, errno.EDQUOT)


def write_directory(where: DafPath, mode: OpenMode, name: str | None, style: Style) -> DafWriter:
    """Open a data set for writing; make it, or empty it first, as the mode says."""
    root, given = follow_links(where.container, where.given), where.given
    remove_leftovers(root)
    if mode == "r+" or interrupted_exchange(root):
        existing_directory(root, given)
    if mode == "w" and root.exists():
        empty_directory(root, given, _MARKERS, "a Zarr group")
    store: WritableStore = DirectoryStore(root, location=given)
    version = find_version(store)
    tree = WritableZarrTree(
        store,
        consolidated=True,
        zarr_format=version or style.version,
        packing=style.packing,
    )
    style.check_found(tree)
    if mode == "r+":
        check_group(tree)
    if mode != "r+" and root.exists() and not root.is_dir():
        raise errors.NotADafError(f"{given}: there is a file of this name, not a directory")
    make_or_check(tree, mode)
    if backup.restore_backup(where):
        tree.refresh()
    recover_directory(tree)
    return DafWriter(tree, name=writer_name(tree, name, where.full))


def recover_directory(tree: WritableTree) -> None:
    """Clear away what a crashed writer left; a full disk does not keep anybody from opening."""
    try:
        tree.recover()
    except OSError as error:
        if error.errno not in _FULL:
            raise
        warnings.warn(
            f"{tree.location}: the disk is full, so the consolidated metadata is not up to date: "
            "programs that depend on it, such as readers over HTTP, do not see everything; make "
            f"room and open it again, or run 'daf repair {tree.location}'",
            RecoveryWarning,
            stacklevel=5,
        )


def read_directory(where: DafPath, name: str | None, style: Style) -> DafReader:
    """Open a data set for reading."""
    tree = ZarrTree(existing_directory(where.container, where.given, is_read=True))
    style.check_found(tree)
    check_group(tree)
    layout.check_version(tree)
    backup.refuse_backup(where)
    return DafReader(tree, name=reader_name(tree, name, where.full))


def open_directory_tree(where: DafPath) -> WritableZarrTree:
    """Open the tree of a data set in a directory for mending."""
    store: WritableStore = existing_directory(where.container, where.given)
    tree = WritableZarrTree(store, consolidated=True)
    check_group(tree)
    layout.check_version(tree)
    return tree


def existing_directory(root: Path, given: str, *, is_read: bool = False) -> DirectoryStore:
    """Return the store of a directory that is there; put back what an interrupted program moved."""
    moved = interrupted_exchange(root)
    if (moved is not None or was_interrupted(root)) and is_read:
        raise errors.SourceNotFoundError(
            f"{given}: another program was stopped while it replaced this; open it for writing, "
            f"or run 'daf repair {given}', to get back what was there"
        )
    if moved is not None:
        os.rename(moved, root)
    if not root.is_dir():
        if root.exists():
            raise errors.NotADafError(f"{given}: there is a file of this name, not a directory")
        raise errors.SourceNotFoundError(f"no such directory: {root}{siblings(root)}")
    if not os.access(root, os.R_OK | os.X_OK):
        raise errors.ReadOnlyError(f"{given}: no permission to read this directory")
    return DirectoryStore(root, location=given)


def siblings(root: Path) -> str:
    """Name the data sets beside a path that does not exist, or say where its link leads."""
    if root.is_symlink():
        return f"; it is a symbolic link to {root.readlink()}, which is not there"
    try:
        names = os.listdir(root.parent)
    except OSError:
        return ""
    beside = [
        name
        for name in names
        if name.endswith(_SUFFIXES) and not name.startswith(".") and (root.parent / name).exists()
    ]
    return f"; beside it are {errors.known_names(beside, none='')}" if beside else ""


def empty_directory(root: Path, given: str, markers: tuple[str, ...], what: str) -> None:
    """Delete a data set for mode ``w``; what has none of the markers of one is left alone."""
    if not root.is_dir():
        raise errors.NotADafError(f"{given}: there is a file of this name, not a directory")
    is_marked = any((root / name).exists() for name in markers)
    if any(root.iterdir()) and not is_marked:
        raise errors.NotADafError(
            f"{given}: this directory is not {what}, so mode 'w' does not empty it; "
            "delete it yourself if that is what you want"
        )
    with scratch(root) as trash:
        os.rename(root, trash)

"""A data set that is written: made if it is missing, or emptied first, as the mode says.

**Nouns.** A *skeleton* is the group of a data set, the groups of its properties, and the version
that comes last.
"""

from __future__ import annotations

import errno
import os
import warnings
from contextlib import ExitStack
from pathlib import Path
from typing import Final, TypeAlias

from daf_storage import errors
from daf_storage.base import OpenMode
from daf_storage.data import RecoveryWarning, layout, recover_zarr_archive
from daf_storage.files_daf import DAF_FILE, WritableFilesTree, recover_files_archive
from daf_storage.opening._paths import DafPath, Form
from daf_storage.opening._reading import (
    PARTS,
    Container,
    Style,
    check_form,
    check_groups,
    check_not_reordered,
    existing_directory,
    form_of,
    no_group,
    written_in_place,
)
from daf_storage.opening._shared_files import Hdf5Handle, open_archive, open_hdf5
from daf_storage.stores import (
    DirectoryStore,
    MappingStore,
    MmapZipStore,
    follow_links,
    remove_leftovers,
    scratch,
)
from daf_storage.trees import WritableHdf5Tree, WritableTree, WritableZarrTree, find_version

_FULL: Final = (errno.ENOSPC, errno.EDQUOT)
_MARKERS: Final = {
    "zarr": ("a Zarr group", ".zgroup", "zarr.json"),
    "files": ("a FilesDaf", DAF_FILE),
}
"""What a directory of a form is, and the files that it has, one of which is enough."""

WritableStoredTree: TypeAlias = WritableZarrTree | WritableFilesTree
"""The tree of a data set in a store, to be written."""


def written_tree(where: Container, mode: OpenMode, style: Style, held: ExitStack) -> WritableTree:
    """Return the tree of a data set to be written; make it, or empty it first, as the mode says."""
    if isinstance(where, MappingStore):
        return _written_mapping(where, mode, style)
    if isinstance(where, Hdf5Handle) or where.kind == "hdf5":
        return _written_hdf5(open_hdf5(where, mode, held, style.packing), mode)
    if not where.is_archive:
        return _written_directory(where, mode, style)
    store = open_archive(where, mode, held)
    tree = _stored_tree(store, where.form, style, where.group)
    if mode == "r+":
        check_form(tree)
    elif where.group:
        _check_free_group(where, tree)
    make_or_check(tree, mode)
    if isinstance(tree, WritableFilesTree):
        recover_files_archive(store, tree)
    else:
        recover_zarr_archive(store, tree, where.group)
    return tree


def _stored_tree(
    store: DirectoryStore | MmapZipStore | MappingStore, form: Form, style: Style, root: str = ""
) -> WritableStoredTree:
    """Return the tree of a data set in a store; that of a directory repeats all documents."""
    if form == "files" and not isinstance(store, MappingStore):
        return WritableFilesTree(store, root)
    tree = WritableZarrTree(
        store,
        root,
        consolidated=isinstance(store, DirectoryStore),
        zarr_format=find_version(store, root) or style.version,
        packing=style.packing,
    )
    style.check_found(tree)
    return tree


def _written_directory(where: DafPath, mode: OpenMode, style: Style) -> WritableTree:
    root, given = follow_links(where.container, where.given), where.given
    remove_leftovers(root)
    if mode == "r+":
        existing_directory(root, given)
    if root.exists() and not root.is_dir():
        raise errors.NotADafError(f"{given}: there is a file of this name, not a directory")
    if mode == "w" and root.exists():
        _empty_directory(root, given, where.form)
    check_not_reordered(where)
    tree = _stored_tree(DirectoryStore(root, location=given), where.form, style)
    if mode == "r+":
        check_form(tree)
    make_or_check(tree, mode)
    _recover_directory(tree)
    return tree


def _recover_directory(tree: WritableTree) -> None:
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
            stacklevel=6,
        )


def open_directory_tree(where: DafPath) -> WritableStoredTree:
    """Open the tree of a data set in a directory for mending."""
    tree = _stored_tree(existing_directory(where.container, where.given), where.form, Style())
    check_form(tree)
    layout.check_version(tree)
    check_not_reordered(where)
    return tree


def _empty_directory(root: Path, given: str, form: Form) -> None:
    """Delete a data set for mode ``w``; what has none of the markers of its form is left alone."""
    what, *markers = _MARKERS[form]
    is_marked = any((root / name).exists() for name in markers)
    if any(root.iterdir()) and not is_marked:
        raise errors.NotADafError(
            f"{given}: this directory is not {what}, so mode 'w' does not empty it; "
            "delete it yourself if that is what you want"
        )
    with scratch(root) as trash:
        os.rename(root, trash)


def _written_mapping(store: MappingStore, mode: OpenMode, style: Style) -> WritableTree:
    if mode == "w":
        if len(store.keys()) and find_version(store) is None:
            raise errors.NotADafError(
                f"{store.location}: this mapping is not a Zarr group, so mode 'w' does not empty "
                "it, and nothing was changed; empty it yourself if that is what you want"
            )
        store.change(list(store.keys()), {})
    tree = _stored_tree(store, "zarr", style)
    if mode == "r+":
        check_form(tree)
    make_or_check(tree, mode)
    return tree


def _written_hdf5(tree: WritableHdf5Tree, mode: OpenMode) -> WritableTree:
    kind = tree.kind("")
    if kind == "array" or (kind is None and mode == "r+"):
        raise no_group(tree)
    is_daf = kind is not None and layout.is_daf(tree)
    children = sorted(tree.children("")) if kind is not None else []
    if children and not is_daf:
        if form_of(tree) is not None:
            raise written_in_place(tree.location, mode)
        if mode != "r+":
            raise errors.NotADafError(
                f"{tree.location}: not a daf data set, and not empty: it holds "
                f"{errors.shown_names(children, none='')}; nothing was changed; choose another "
                "file or group"
            )
    if mode == "w" and is_daf:
        tree.recover()
        with tree.transaction() as changes, tree.lock():
            for child in (layout.DAF, *(child for child in children if child != layout.DAF)):
                changes.remove(child)
    make_or_check(tree, mode)
    if tree.is_half_replaced():
        warnings.warn(
            f"{tree.location}: a writer was stopped while it changed an axis; what was there "
            "before is there again",
            RecoveryWarning,
            stacklevel=5,
        )
    tree.recover()
    indexes = tree.index_tree
    if mode == "w":
        for child in indexes.children(""):
            indexes.discard(child)
    indexes.recover()
    return tree


def _check_free_group(where: DafPath, tree: WritableTree) -> None:
    """Refuse a new group that is called as a part of a data set is, so that none lies in one."""
    name = next((name for name in where.group.split("/") if name in PARTS), None)
    if name is not None and not layout.is_daf(tree):
        raise errors.InvalidInputError(
            f"{where.given}: {name!r} is the name of a part of each data set, in which no other "
            "one can lie; choose another group"
        )


def create_skeleton(tree: WritableTree) -> None:
    """Make an empty data set; the version marker comes last, so that a crash leaves none."""
    with tree.batch(), tree.transaction() as changes, tree.lock():
        if layout.is_daf(tree):  # by another program, while this one waited for the lock
            return
        changes.mark_group("")
        for group in layout.SKELETON:
            if tree.kind(group) is None:
                changes.create_group(group)
                changes.publish(group, replace=False)
            elif tree.children(group):
                raise errors.NotADafError(
                    f"{tree.location}: not a daf data set, and its group {group!r} is not empty; "
                    "choose another path"
                )
        changes.mark(layout.DAF, layout.VERSION)


def make_or_check(tree: WritableTree, mode: OpenMode) -> None:
    """Make the data set if there is none and the mode allows it; check its version if there is."""
    if not layout.is_daf(tree):
        if mode == "r+":
            raise errors.NotADafError(
                f"{tree.location}: not a daf data set: it has no array named 'daf'"
            )
        create_skeleton(tree)
    layout.check_version(tree)
    check_groups(tree)

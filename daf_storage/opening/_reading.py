"""Containers and forms of data sets, and the tree by which what is at a path is read.

**Nouns.** A *container* is a directory, an archive, an HDF5 file or a mapping; a *form* is how a
data set lies in it: as Zarr, as plain files, as HDF5, or as an AnnData.  A *style* is
how one is written, or has to be.
"""

from __future__ import annotations

import os
import posixpath
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from daf_storage import errors
from daf_storage._lazy import lazy_module
from daf_storage.base import OpenMode, Packing, packing_of, unique_name
from daf_storage.data import kept, layout
from daf_storage.files_daf import DAF_FILE, INDEXES_FOLDER, FilesTree, check_packing
from daf_storage.opening._paths import OTHER_KINDS, DafPath, Form, siblings
from daf_storage.opening._shared_files import Hdf5Handle, open_archive, open_hdf5
from daf_storage.stores import DirectoryStore, MappingStore, MmapZipStore, was_interrupted
from daf_storage.trees import Hdf5Tree, Tree, WritableHdf5Tree, ZarrTree, ZarrVersion

if TYPE_CHECKING:
    from daf_storage import anndata
    from daf_storage.anndata import ForeignForm
else:
    anndata = lazy_module("daf_storage.anndata")

PARTS = frozenset({*layout.SKELETON, layout.DAF, layout.INDEXES, INDEXES_FOLDER, kept.GROUP})
"""The groups of a data set, in which no other one can lie."""
_BACKUP: Final = ".reorder.backup"
"""What the reference implementation links files into that it changes one by one; deleted last."""

Container: TypeAlias = DafPath | MappingStore | Hdf5Handle
"""Where a data set is that is not on a server."""


@dataclass(frozen=True, slots=True)
class Style:
    """How a data set is written: the version of Zarr and the packing."""

    zarr_format: ZarrVersion | None = None
    """The version of Zarr that was asked for."""
    packing: Packing | None = None
    """How arrays are packed, if they are."""

    @property
    def version(self) -> ZarrVersion | None:
        """The version to create; None for the default, which is that of what is there."""
        return self.zarr_format or (3 if self.packing is not None else None)

    def check_found(self, tree: object) -> None:
        """Refuse a data set of another version than was asked for, or than packing needs."""
        if not isinstance(tree, ZarrTree) or tree.kind("") is None:
            return
        if self.version not in (None, tree.format.version):
            needs = f"zarr_format={self.version}" if self.zarr_format else "packed="
            raise errors.InvalidInputError(
                f"{tree.location}: it is stored in Zarr v{tree.format.version}, and {needs} was "
                "asked for; convert it to a new path"
            )


def style_of(
    what: str,
    form: Form,
    mode: OpenMode,
    zarr_format: ZarrVersion | None,
    packed: bool | Packing,  # noqa: FBT001 - as in open_daf
) -> Style:
    """Return how a data set is written, if what was asked for goes together."""
    packing = packing_of(packed)
    if form != "zarr" and zarr_format is not None:
        kind = "an HDF5 file" if form == "hdf5" else "a FilesDaf"
        raise errors.InvalidInputError(f"{what}: {kind} has no zarr_format")
    if zarr_format not in (None, 2, 3):
        raise errors.InvalidInputError(
            f"{what}: there is no Zarr format {zarr_format!r}; choose 2 or 3"
        )
    if packing is not None and mode == "r":
        raise errors.InvalidInputError(
            f"{what}: packed= says how to write, and mode 'r' only reads; leave it out"
        )
    if packing is not None and zarr_format == 2:
        raise errors.InvalidInputError(
            f"{what}: Zarr v2 would need a file for each small chunk, so it is not packed; "
            "use zarr_format=3, or leave packed out"
        )
    if form == "files":
        check_packing(packing, what)
    return Style(zarr_format, packing)


def read_tree(where: Container, held: ExitStack) -> Tree:
    """Return the tree of what is there; what was opened for it is let go of with ``held``."""
    if isinstance(where, MappingStore):
        return ZarrTree(where)
    if isinstance(where, Hdf5Handle) or where.kind == "hdf5":
        return _hdf5_to_read(open_hdf5(where, "r", held))
    tree = FilesTree if where.is_files else ZarrTree
    if where.is_archive:
        return tree(open_archive(where, "r", held), where.group)
    store = existing_directory(where.container, where.given_container, is_read=True)
    check_not_reordered(where)
    return tree(store, where.group)


def existing_directory(root: Path, given: str, *, is_read: bool = False) -> DirectoryStore:
    """Return the store of a directory that is there."""
    if not root.is_dir():
        if root.exists():
            raise errors.NotADafError(f"{given}: there is a file of this name, not a directory")
        if is_read and was_interrupted(root):
            raise errors.SourceNotFoundError(
                f"{given}: another program was stopped while it replaced this; open it for "
                f"writing, or run 'daf repair {given}', to get back what was there"
            )
        raise errors.SourceNotFoundError(f"no such directory: {root}{siblings(root)}")
    if not os.access(root, os.R_OK | os.X_OK):
        raise errors.ReadOnlyError(f"{given}: no permission to read this directory")
    return DirectoryStore(root, location=given)


def check_not_reordered(where: DafPath) -> None:
    """Refuse a data set that another program was changing file by file when it was stopped."""
    if (where.container / _BACKUP).exists():
        raise errors.CorruptDataError(
            f"{where.given}: another program is reordering its axes, or was stopped while it did: "
            "their entries and their data do not belong together; if it was stopped, open it for "
            "writing with that program, which puts back what was there"
        )


def _hdf5_to_read(tree: WritableHdf5Tree) -> Tree:
    if tree.kind("") != "group":
        raise no_group(tree)
    if tree.is_half_replaced():
        raise errors.CorruptDataError(
            f"{tree.location}: a writer was stopped while it changed an axis: its entries and "
            "their data do not belong together; open it for writing or run 'daf repair "
            f"{tree.location}', to get back what was there"
        )
    return tree.read_only()


def no_group(tree: Tree) -> errors.NotADafError:
    return errors.NotADafError(f"not a daf data set: {tree.location}; there is no such group")


# What is there


def form_of(tree: Tree) -> ForeignForm | None:
    """Return the form of another format that a tree has; None if it has none."""
    return anndata.form_of(tree)


def not_read(tree: Tree) -> errors.NotADafError:
    """Say what a tree is that has none of the forms."""
    names = tree.children("")
    for kind in OTHER_KINDS:
        if kind.is_it(names):
            return kind.error(tree.location)
    no_form = ", and ".join(f"no {form.what}" for form in anndata.FORMS)
    return errors.NotADafError(
        f"{tree.location}: not a daf data set: it has no array named 'daf'; and {no_form}; it has "
        f"{errors.shown_names(names, none='nothing')}"
    )


def check_form(tree: Tree) -> None:
    """Refuse what is not of the form that the tree reads."""
    if isinstance(tree, FilesTree):
        if tree.marker(layout.DAF) is None:
            raise errors.NotADafError(f"{tree.location}: not a daf data set: it has no {DAF_FILE}")
    elif not isinstance(tree, Hdf5Tree) and tree.kind("") != "group":
        raise errors.NotADafError(
            f"not a zarr group: {tree.location}; it has no .zgroup or zarr.json"
        )


def readable_tree(tree: Tree, names: Mapping[str, Any]) -> Tree:
    """Return the tree of a data set to be read: itself if it is Daf's, else that of an AnnData.

    Parameters
    ----------
    names
        What the axes of an AnnData are called; nothing else is given names.

    Raises
    ------
    NotADafError, VersionError
        It is neither, or of a version that this code does not know.
    """
    if isinstance(tree, FilesTree):
        check_form(tree)
    elif not layout.is_daf(tree):
        form = form_of(tree)
        if form is not None:
            return form.present(tree, **names)
        check_form(tree)
        raise not_read(tree)
    layout.check_version(tree)
    check_groups(tree)
    refuse_names(tree, names)
    return tree


def refuse_names(tree: Tree, names: Mapping[str, Any]) -> None:
    """Refuse names for the axes of a data set of Daf, which have some."""
    given = " and ".join(f"{key}={name!r}" for key, name in names.items() if name is not None)
    if given:
        axes = ", ".join(sorted(tree.children(layout.AXES))) or "no axes"
        raise errors.InvalidInputError(
            f"{tree.location}: {given} names the axes of an AnnData that is read in place, and "
            f"this is a data set of Daf, which has the axes {axes}; leave it out, or rename axes "
            "by view()"
        )


def written_in_place(location: str, mode: OpenMode) -> errors.ReadOnlyError:
    """Say that an AnnData is not written."""
    return errors.ReadOnlyError(
        f"{location}: an AnnData is read in place and never written, so it cannot be opened with "
        f"mode {mode!r}; import it into a data set of its own (daf import {location} "
        f'OUT.daf.zarr), or write beside it: connect({location!r}, overlay="mine.daf.zarr")'
    )


def check_groups(tree: Tree) -> None:
    """Refuse a data set in HDF5 with a dataset in the place of one of its groups."""
    if not isinstance(tree, Hdf5Tree):
        return
    for name, kind in tree.children("").items():
        if kind == "array" and name in layout.SKELETON:
            raise errors.CorruptDataError(
                f"{tree.location}: {name!r} is a dataset, and a data set of Daf has a group there; "
                "take the file from a backup"
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
    return any(name in PARTS and "/".join(names[:n]) in others for n, name in enumerate(names))


def tree_of(store: MmapZipStore, group: str) -> FilesTree | ZarrTree:
    """Return the tree of a group of an archive: of plain files if it is marked so, else of Zarr."""
    is_files = posixpath.join(group, DAF_FILE) in store
    return FilesTree(store, group) if is_files else ZarrTree(store, group)


def _is_daf(tree: Tree) -> bool:
    try:
        return layout.is_daf(tree)
    except errors.VersionError:  # whoever opens it learns which
        return True


def name_of(tree: Tree, name: str | None, full_name: str, mode: OpenMode) -> str:
    """Return the name of a data set, which no other that is open has.

    That which was given, else its scalar ``name``, else its full path.
    """
    found = name if name is not None else _own_name(tree) or full_name
    return unique_name(f"{found}.read_only" if mode == "r" else found)


def _own_name(tree: Tree) -> str | None:
    try:
        array = layout.open_array(tree, layout.scalar_path("name"))
        if array is None or array.info.size != 1:
            return None
        if array.info.storage_type.is_string:
            return str(array.read_strings()[0].as_py())
        return str(array.read().reshape(-1)[0].item())
    except (errors.FormatError, errors.ReadOnlyError):
        return None  # who asks for the scalar learns why; the data set has a name anyway

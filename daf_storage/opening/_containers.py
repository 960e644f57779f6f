"""Containers and forms of data sets: the tree by which what is at a path is read, or written.

**Nouns.** A *container* is a directory, an archive, an HDF5 file, a mapping or a server; a *form*
is how a data set lies in it: as Zarr, as plain files, as HDF5, or as an AnnData.  A *style* is how
one is written, or has to be.  A *skeleton* is the group of a data set, the groups of its
properties, and the version that comes last.
"""

from __future__ import annotations

import errno
import json
import os
import posixpath
import warnings
from collections.abc import Callable, Mapping
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeAlias
from urllib.parse import unquote

from daf_storage import errors
from daf_storage._lazy import lazy_module
from daf_storage.base import OpenMode, Packing, optional_import, packing_of, unique_name
from daf_storage.data import DafReader, Damage, RecoveryWarning, kept, layout, recover_zarr_archive
from daf_storage.files_daf import (
    DAF_FILE,
    INDEXES_FOLDER,
    METADATA_FILE,
    FilesTree,
    WritableFilesTree,
    check_packing,
    documents_of,
    recover_files_archive,
)
from daf_storage.opening._paths import (
    HDF5_BEGINNING,
    NOT_A_PATTERN,
    OTHER_KINDS,
    DafPath,
    Form,
    OtherKind,
    in_unicode,
    parse_url,
    path_of_url,
    siblings,
)
from daf_storage.opening._shared_files import open_archive, open_hdf5
from daf_storage.stores import (
    DirectoryStore,
    MappingStore,
    MmapZipStore,
    RemoteArchive,
    RemoteFiles,
    RemoteStore,
    follow_links,
    is_url_pattern,
    remove_leftovers,
    scratch,
    was_interrupted,
)
from daf_storage.trees import (
    FORMATS,
    Hdf5Tree,
    RemoteHdf5File,
    StoredTree,
    Tree,
    WritableHdf5Tree,
    WritableTree,
    WritableZarrTree,
    ZarrFormat,
    ZarrTree,
    ZarrVersion,
    find_version,
)

if TYPE_CHECKING:
    from daf_storage import anndata
else:
    anndata = lazy_module("daf_storage.anndata")

Connect = Callable[[str], RemoteFiles]
_BEGINNING_BYTES = 16

_NOT_LISTED = (
    "needed where nothing can be listed: open it for writing once where it is stored, or run "
    "'daf repair' on it"
)


def open_remote_tree(url: str, connect: Connect = RemoteFiles) -> ZarrTree | FilesTree | Hdf5Tree:
    """Return the tree of a data set at a URL.

    What the URL ends in says what is there; if it ends in neither of the usual ways, the server
    is asked for the metadata of a directory, and then for the beginning of a file.

    Raises
    ------
    SourceNotFoundError
        The server has nothing there.
    NotADafError
        There is a directory without consolidated metadata, and servers cannot be asked for a list.
    RemoteError
        The server fails, or cannot be reached.
    InvalidInputError
        The URL names a group where there are none.
    """
    try:
        return _tree_at(url, connect)
    except (errors.SourceNotFoundError, errors.NotADafError) as error:
        if not is_url_pattern(url):
            raise
        raise errors.with_message(error, f"{error}{NOT_A_PATTERN}") from None


def _tree_at(url: str, connect: Connect) -> ZarrTree | FilesTree | Hdf5Tree:
    base, group, ending = parse_url(url)
    if ending is not None and ending.kind == "hdf5":
        folder, name = _folder_and_name(base)
        return Hdf5Tree(RemoteHdf5File(connect(folder), name), group)
    if ending is not None and ending.kind == "directory" and (group or not ending.is_foreign):
        files = connect(base)
        is_files = ending.form == "files"
        return _files_directory(files) if is_files else ZarrTree(_directory(files), group)
    if group or (ending is not None and not ending.is_foreign):
        return _archive(base, group, connect)
    return _whatever_is_there(base, connect)


def _folder_and_name(base: str) -> tuple[str, str]:
    """Return the URL of a folder, with the query of the file's, and the name of the file in it."""
    place, mark, query = base.partition("?")
    folder, _, name = place.rstrip("/").rpartition("/")
    return f"{folder}{mark}{query}", unquote(name)


def _archive(base: str, group: str, connect: Connect) -> ZarrTree | FilesTree:
    folder, name = _folder_and_name(base)
    return _archive_in(connect(folder), name, group)


def _archive_in(folder: RemoteFiles, name: str, group: str) -> ZarrTree | FilesTree:
    archive = RemoteArchive(folder, name)
    files = FilesTree(archive, group)
    return files if files.marker(layout.DAF) is not None else ZarrTree(archive, group)


def _files_directory(files: RemoteFiles) -> FilesTree:
    """Return the tree of a directory of plain files, by the file that repeats all documents."""
    marker, metadata = files.read(DAF_FILE), None
    if marker is not None:
        metadata = files.read(METADATA_FILE)
    if marker is None or metadata is None:
        missing = DAF_FILE if marker is None else METADATA_FILE
        raise errors.NotADafError(
            f"not a daf data set: {files.location}; the server has no {missing} there, and both "
            f"{DAF_FILE} and {METADATA_FILE} are {_NOT_LISTED}"
        )
    documents = documents_of(metadata, what=f"{files.location}/{METADATA_FILE}")
    return FilesTree(RemoteStore(files, {**documents, DAF_FILE: marker}))


def _whatever_is_there(base: str, connect: Connect) -> ZarrTree | FilesTree | Hdf5Tree:
    """Return the tree of a directory or a file whose name does not say which it is."""
    directory: errors.DafError
    files = connect(base)
    try:
        return ZarrTree(_directory(files))
    except (errors.NotADafError, errors.AccessDeniedError) as error:
        with suppress(errors.AccessDeniedError):  # what is absent may be answered like this
            if files.read(DAF_FILE) is not None:
                return _files_directory(files)
        if not path_of_url(base):  # the server itself, whose name is not that of an archive
            raise
        directory = error
    folder, name = _folder_and_name(base)
    try:
        return _file_in(connect(folder), name)
    except (errors.SourceNotFoundError, errors.AccessDeniedError):
        if isinstance(directory, errors.AccessDeniedError):
            raise directory from None
        _refuse_matrix_folder(files)
        raise errors.NotADafError(
            f"{directory}; nor is there an archive or another file of this name"
        ) from None


def _file_in(folder: RemoteFiles, name: str) -> ZarrTree | FilesTree | Hdf5Tree:
    """Return the tree of a file by what it begins with; an archive ends with what it is."""
    length = min(folder.size(name) or 0, _BEGINNING_BYTES)
    beginning = bytes(folder.read_ranges(name, [(0, length)])[0]) if length else b""
    if beginning.startswith(HDF5_BEGINNING):
        return Hdf5Tree(RemoteHdf5File(folder, name), "")
    for kind in OTHER_KINDS:
        if kind.is_it((), name, beginning):
            raise _not_read(kind, f"{folder.location}/{name}")
    return _archive_in(folder, name, "")


def _refuse_matrix_folder(files: RemoteFiles) -> None:
    """Say of what Cell Ranger writes beside its HDF5 file that it is read from the disk alone."""
    for name in ("matrix.mtx.gz", "matrix.mtx"):
        if files.size(name) is not None:
            kind = next(kind for kind in OTHER_KINDS if kind.is_it({name}))
            raise _not_read(kind, files.location)


def _not_read(kind: OtherKind, location: str) -> errors.NotADafError:
    error = kind.error(location)
    return errors.with_message(error, f"{error}; download it first")


def remote_directory(url: str) -> RemoteStore:
    """Return the files of a Zarr directory on a server, as its consolidated metadata has them.

    Raises
    ------
    NotADafError
        There is nothing, or no consolidated metadata.
    """
    return _directory(RemoteFiles(url))


def _directory(files: RemoteFiles) -> RemoteStore:
    denied: errors.AccessDeniedError | None = None
    for documents in FORMATS.values():
        try:
            data = files.read(documents.consolidated_file)
        except errors.AccessDeniedError as error:  # what is absent may be answered like this
            denied = error
            continue
        if data is not None:
            return RemoteStore(files, _listed(files, documents, data))
    if denied is not None:
        raise denied
    raise errors.NotADafError(
        f"failed to open remote zarr group: {files.location}; there is nothing, or a directory "
        f"without a consolidated .zmetadata or zarr.json, which is {_NOT_LISTED}"
    )


def _listed(files: RemoteFiles, documents: ZarrFormat, data: bytes) -> dict[str, bytes]:
    """Return the documents of consolidated metadata by their keys."""
    name = documents.consolidated_file
    try:
        root = json.loads(data)
        if documents.version == 3 and root.get("node_type") != "group":
            raise errors.NotADafError(f"not a zarr group: {files.location}")
        if documents.version == 3 and root.get("consolidated_metadata") is None:
            raise errors.NotADafError(
                f"{files.location}: the remote zarr group lacks an inline consolidated_metadata "
                f"field, which is {_NOT_LISTED}"
            )
        return documents.listed(data)
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        if isinstance(error, errors.DafError):
            raise
        raise errors.CorruptDataError(
            f"{files.location}: its {name} is malformed ({error!r})"
        ) from None


PARTS = frozenset({*layout.SKELETON, layout.DAF, layout.INDEXES, INDEXES_FOLDER, kept.GROUP})
"""The groups of a data set, in which no other one can lie."""
_BACKUP: Final = ".reorder.backup"
"""What the reference implementation links files into that it changes one by one; deleted last."""
_FULL: Final = (errno.ENOSPC, errno.EDQUOT)
_MARKERS: Final = {
    "zarr": ("a Zarr group", ".zgroup", "zarr.json"),
    "files": ("a FilesDaf", DAF_FILE),
}
"""What a directory of a form is, and the files that it has, one of which is enough."""

WritableStoredTree: TypeAlias = WritableZarrTree | WritableFilesTree
"""The tree of a data set in a store, to be written."""
_Writable: TypeAlias = WritableStoredTree | WritableHdf5Tree


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
    where: DafPath,
    mode: OpenMode,
    zarr_format: ZarrVersion | None = None,
    packed: bool | Packing = False,  # noqa: FBT001, FBT002 - as in open_daf
) -> Style:
    """Return how a data set is written, if what was asked for goes together."""
    if where.kind == "url":
        return Style()
    what, form, packing = where.given, where.form, packing_of(packed)
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


def read_tree(where: DafPath, held: ExitStack) -> StoredTree:
    """Return the tree of what is there; what was opened for it is let go of with ``held``."""
    if where.kind == "url":
        return _remote_tree(where.given, held)
    if where.kind == "mapping":
        return ZarrTree(where.opened)
    if where.kind == "hdf5":
        if where.is_foreign:
            optional_import("h5py", extra="anndata")  # what is in it may need anndata as well
        return _hdf5_to_read(open_hdf5(where, "r", held))
    tree = FilesTree if where.form == "files" else ZarrTree
    if where.kind == "archive":
        return tree(open_archive(where, "r", held), where.group)
    store = existing_directory(where.container, where.given_container, is_read=True)
    held.callback(store.kept.clear)
    check_not_reordered(where)
    return tree(store, where.group)


def _remote_tree(url: str, held: ExitStack) -> StoredTree:
    def connect(url: str) -> RemoteFiles:
        files = RemoteFiles(url)
        held.callback(files.close)
        return files

    tree = open_remote_tree(url, connect)
    if isinstance(tree, Hdf5Tree):
        held.callback(tree.close)
    return tree


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


def _hdf5_to_read(tree: WritableHdf5Tree) -> StoredTree:
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


def check_form(tree: StoredTree) -> None:
    """Refuse what is not of the form that the tree reads."""
    if isinstance(tree, FilesTree):
        if tree.marker(layout.DAF) is None:
            raise errors.NotADafError(f"{tree.location}: not a daf data set: it has no {DAF_FILE}")
    elif not isinstance(tree, Hdf5Tree) and tree.kind("") != "group":
        raise errors.NotADafError(
            f"not a zarr group: {tree.location}; it has no .zgroup or zarr.json"
        )


def readable_tree(tree: StoredTree, names: Mapping[str, Any]) -> Tree:
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
        form = anndata.form_of(tree)
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


def tree_of(store: MmapZipStore, group: str) -> WritableStoredTree:
    """Return the tree of a group of an archive: of plain files if it is marked so, else of Zarr."""
    is_files = posixpath.join(group, DAF_FILE) in store
    return _stored_tree(store, "files" if is_files else "zarr", Style(), group)


def _is_daf(tree: StoredTree) -> bool:
    try:
        return layout.is_daf(tree)
    except errors.VersionError:  # whoever opens it learns which
        return True


def name_of(tree: Tree, name: str | None, full_name: str, mode: OpenMode) -> str:
    """Return the name of a data set, which no other that is open has.

    That which was given, else its scalar ``name``, else its full path.
    """
    found = name if name is not None else _own_name(tree) or in_unicode(full_name)
    return unique_name(f"{found}.read_only" if mode == "r" else found)


def _own_name(tree: Tree) -> str | None:
    try:
        name = DafReader(tree, name="!").get_scalar("name", default=None)
    except (errors.FormatError, errors.ReadOnlyError):
        return None  # who asks for the scalar learns why; the data set has a name anyway
    return None if name is None else str(name)


# What is written


def written_tree(where: DafPath, mode: OpenMode, style: Style, held: ExitStack) -> WritableTree:
    """Return the tree of a data set to be written; make it, or empty it first, as the mode says."""
    if where.kind == "hdf5":
        return _written_hdf5(open_hdf5(where, mode, held, style.packing), mode)
    store: DirectoryStore | MmapZipStore | MappingStore
    if where.kind == "archive":
        store = open_archive(where, mode, held)
    elif where.kind == "mapping":
        store = _mapping_to_write(where.opened, mode)
    else:
        store = _directory_to_write(where, mode)
        held.callback(store.kept.clear)
    tree = _stored_tree(store, where.form, style, where.group)
    if mode == "r+":
        check_form(tree)
    elif where.group:
        _check_free_group(where, tree)
    make_or_check(tree, mode)
    if isinstance(store, MmapZipStore):
        recovery_of(tree)(store, tree, where.group)
    else:
        _recover(tree)
    return tree


def recovery_of(tree: WritableStoredTree) -> Callable[[MmapZipStore, Any, str], list[Damage]]:
    """Return what takes out of an archive what cannot be read of such a tree."""
    return recover_files_archive if isinstance(tree, WritableFilesTree) else recover_zarr_archive


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


def _directory_to_write(where: DafPath, mode: OpenMode) -> DirectoryStore:
    root, given = follow_links(where.container, where.given), where.given
    remove_leftovers(root)
    if mode == "r+":
        existing_directory(root, given)
    if root.exists() and not root.is_dir():
        raise errors.NotADafError(f"{given}: there is a file of this name, not a directory")
    if mode == "w" and root.exists():
        _empty_directory(root, given, where.form)
    check_not_reordered(where)
    return DirectoryStore(root, location=given)


def _recover(tree: WritableStoredTree) -> None:
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


def open_directory_tree(where: DafPath) -> WritableStoredTree:
    """Open the tree of a data set in a directory, to repair it."""
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


def _mapping_to_write(store: MappingStore, mode: OpenMode) -> MappingStore:
    if mode == "w":
        if len(store.keys()) and find_version(store) is None:
            raise errors.NotADafError(
                f"{store.location}: this mapping is not a Zarr group, so mode 'w' does not empty "
                "it, and nothing was changed; empty it yourself if that is what you want"
            )
        store.change(list(store.keys()), {})
    return store


def _written_hdf5(tree: WritableHdf5Tree, mode: OpenMode) -> WritableTree:
    kind = tree.kind("")
    if kind == "array" or (kind is None and mode == "r+"):
        raise no_group(tree)
    is_daf = kind is not None and layout.is_daf(tree)
    children = sorted(tree.children("")) if kind is not None else []
    if children and not is_daf:
        if anndata.form_of(tree) is not None:
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


def _check_free_group(where: DafPath, tree: _Writable) -> None:
    """Refuse a new group that is called as a part of a data set is, so that none lies in one."""
    name = next((name for name in where.group.split("/") if name in PARTS), None)
    if name is not None and not layout.is_daf(tree):
        raise errors.InvalidInputError(
            f"{where.given}: {name!r} is the name of a part of each data set, in which no other "
            "one can lie; choose another group"
        )


def create_skeleton(tree: _Writable) -> None:
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


def make_or_check(tree: _Writable, mode: OpenMode) -> None:
    """Make the data set if there is none and the mode allows it; check its version if there is."""
    if not layout.is_daf(tree):
        if mode == "r+":
            raise errors.NotADafError(
                f"{tree.location}: not a daf data set: it has no array named 'daf'"
            )
        create_skeleton(tree)
    layout.check_version(tree)
    check_groups(tree)

"""The tree of a data set on a server: a directory by its consolidated metadata, or a file."""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import ExitStack, suppress
from urllib.parse import unquote

from daf_storage import errors
from daf_storage.data import layout
from daf_storage.files_daf import DAF_FILE, METADATA_FILE, FilesTree, documents_of
from daf_storage.opening._paths import (
    HDF5_BEGINNING,
    NOT_A_PATTERN,
    OTHER_KINDS,
    OtherKind,
    parse_url,
    path_of_url,
)
from daf_storage.stores import RemoteArchive, RemoteFiles, RemoteStore, is_url_pattern
from daf_storage.trees import FORMATS, Hdf5Tree, RemoteHdf5File, StoredTree, ZarrFormat, ZarrTree

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
    folder, name = _folder_and_name(base)
    if ending is not None and ending.kind == "hdf5":
        return Hdf5Tree(RemoteHdf5File(connect(folder), name), group)
    if ending is not None and ending.kind == "directory" and (group or not ending.is_foreign):
        files = connect(base)
        is_files = ending.form == "files"
        return _files_directory(files) if is_files else ZarrTree(remote_directory(files), group)
    if group or (ending is not None and not ending.is_foreign):
        return _archive_in(connect(folder), name, group)
    return _whatever_is_there(base, connect)


def remote_tree(url: str, held: ExitStack) -> StoredTree:
    def connect(url: str) -> RemoteFiles:
        files = RemoteFiles(url)
        held.callback(files.close)
        return files

    tree = open_remote_tree(url, connect)
    if isinstance(tree, Hdf5Tree):
        held.callback(tree.close)
    return tree


def _folder_and_name(base: str) -> tuple[str, str]:
    """Return the URL of a folder, with the query of the file's, and the name of the file in it."""
    place, mark, query = base.partition("?")
    folder, _, name = place.rstrip("/").rpartition("/")
    return f"{folder}{mark}{query}", unquote(name)


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
        return ZarrTree(remote_directory(files))
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


def remote_directory(files: RemoteFiles) -> RemoteStore:
    """Return the files of a Zarr directory on a server, as its consolidated metadata has them.

    Raises
    ------
    NotADafError
        There is nothing, or no consolidated metadata.
    """
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

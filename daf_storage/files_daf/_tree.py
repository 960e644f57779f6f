"""The files of a data set as a tree of groups and arrays, over any place that has files."""

from __future__ import annotations

import json
import posixpath
from collections.abc import Hashable, Iterator
from typing import Any, TypeAlias

from daf_storage.data import kept, layout
from daf_storage.errors import CorruptDataError, DafError, FormatError, ReadOnlyError
from daf_storage.files_daf._arrays import lines_in
from daf_storage.files_daf._descriptors import (
    DAF_FILE,
    DOCUMENT_ENDING,
    parse_property,
    parse_version,
)
from daf_storage.files_daf._node import (
    FolderNode,
    PropertyNode,
    SharedSnapshot,
    identity_of,
)
from daf_storage.files_daf._places import (
    INDEXES_FOLDER,
    LINES_ENDING,
    Place,
    is_sparse,
    place_of,
)
from daf_storage.stores import (
    DirectorySnapshot,
    DirectoryStore,
    MemoryStore,
    MmapZipStore,
    PropertyFiles,
    RemoteArchive,
    RemoteStore,
)
from daf_storage.trees import Node, NodeKind, StoredArray, Tree, ZarrTree, new_chunk_cache

_VECTORS_DEPTH = 2
_MATRICES_DEPTH = 3

FileStore: TypeAlias = DirectoryStore | MmapZipStore | RemoteArchive | RemoteStore
"""Where files can be."""


class FilesTree:
    """Groups and arrays of a FilesDaf.

    A path of the tree is a directory, or a property with a document beside it.

    Parameters
    ----------
    store
        Where the files are.
    root
        The directory of the data set within the store; empty for the whole store.
    """

    def __init__(self, store: FileStore, root: str = "") -> None:
        self._store = store
        self._root = root
        self._chunk_cache = new_chunk_cache()
        self._lengths: dict[str, tuple[Hashable, int]] = {}

    @property
    def location(self) -> str:
        """Where the tree is, for messages."""
        return f"{self._store.location}#/{self._root}" if self._root else self._store.location

    def marker(self, name: str) -> Any:
        """Return the version of the layout; None if the files are not marked as a data set.

        Raises
        ------
        VersionError
            The files have a version that this code does not read.
        """
        snapshot = self.folder("") if name == layout.DAF else None
        data = None if snapshot is None else snapshot.read(DAF_FILE)
        if data is None:
            return None
        parse_version(data, what=f"{self.location}: {DAF_FILE}")
        return list(layout.VERSION)

    def kind(self, path: str) -> NodeKind | None:
        """Return what is at ``path``; None if it is neither a directory nor a property.

        What cannot be opened is an array: the reason is raised when it is used.
        """
        try:
            node = self.node(path)
        except (FormatError, ReadOnlyError):
            if not path:
                raise
            return "array"
        if node is None:
            return "group" if self._is_implied(path) else None
        return node.kind

    def _is_implied(self, path: str) -> bool:
        """Return whether a directory is there, though the store has no directories."""
        if isinstance(self._store, DirectoryStore) or not path:
            return False
        group, *axes = path.split("/")
        depths = {layout.SCALARS: 0, layout.AXES: 0, layout.VECTORS: 1, layout.MATRICES: 2}
        if len(axes) > depths.get(group, -1) or self.marker(layout.DAF) is None:
            return False
        return all(self._files(place_of(layout.axis_path(axis))) is not None for axis in axes)

    def children(self, path: str) -> dict[str, NodeKind]:
        """Return the properties and directories directly below ``path``."""
        snapshot = self.folder(path)
        if snapshot is None:
            return {}
        names = set(snapshot.names())
        if isinstance(self._store, DirectoryStore):
            names |= self._store.replaced_documents(self.key(path))
            names |= set(snapshot.names())  # a writer may have put one in place meanwhile
        kinds: dict[str, NodeKind] = {}
        for file in sorted(names):
            name = None if _has_folders_only(path) else _property_name(file, path)
            if name is not None:
                is_group = place_of(posixpath.join(path, name)).may_be_sparse and (
                    is_sparse(name, names) or self._is_sparse_remote(snapshot, file)
                )
                kinds[name] = "group" if is_group else "array"
            elif not _has_properties_only(path) and self._is_folder(snapshot, path, file):
                kinds[file] = "group"
        return kinds

    def _is_sparse_remote(self, snapshot: DirectorySnapshot | SharedSnapshot, file: str) -> bool:
        """Return whether a document says so, where a server shows no other files."""
        if not isinstance(self._store, RemoteStore):
            return False
        try:
            return parse_property(snapshot.read(file) or b"", what=file).kind == "sparse"
        except FormatError:
            return False

    def _is_folder(
        self, snapshot: DirectorySnapshot | SharedSnapshot, path: str, name: str
    ) -> bool:
        if name.startswith(".") and not path:
            return False
        if isinstance(self._store, RemoteStore):
            return bool(snapshot.names(name))
        return snapshot.size(name) is None

    def identity(self, path: str) -> Hashable:
        """Return a value that changes whenever something at or below ``path`` does."""
        place = place_of(path)
        files = self._files(place)
        if files is not None:
            return identity_of(files, place)
        snapshot = self.folder(path)
        return None if snapshot is None else snapshot.identity()

    def version(self, path: str) -> Hashable:
        """Return what differs whenever something at or below ``path`` does, in any process."""
        place = place_of(path)
        files = self._files(place)
        if isinstance(files, PropertyFiles):
            return files.version()
        snapshot = self.folder(path) if files is None else files
        return None if snapshot is None else snapshot.version()

    def listing_identity(self, path: str) -> Hashable:
        """Return a value that changes whenever a child of ``path``, or what it is, does."""
        snapshot = self.folder(path)
        if isinstance(snapshot, DirectorySnapshot):
            return snapshot.files_identity((DOCUMENT_ENDING, LINES_ENDING))
        return None if snapshot is None else snapshot.listing_identity(())

    def node(self, path: str) -> Node | None:
        """Return the directory or the property at ``path``, pinned."""
        place, what = place_of(path), f"{self.location}: {path}"
        files = self._files(place)
        if files is not None:
            return PropertyNode(
                files, place, self._length_of, chunk_cache=self._chunk_cache, what=what
            )
        snapshot = None if place.kind != "other" else self.folder(path)
        if snapshot is None:
            return None
        return FolderNode(snapshot, lambda name: self._array_in(path, name), what=what)

    def paths(self, path: str = "") -> Iterator[str]:
        """Yield the paths of the properties at and below a path."""
        place = place_of(path)
        if path and self._files(place) is not None:
            yield path
        if path and place.kind != "other":
            return
        for name, kind in self.children(path).items():
            below = posixpath.join(path, name)
            if kind == "array" or place_of(below).may_be_sparse:
                yield below
            else:
                yield from self.paths(below)

    @property
    def index_tree(self) -> Tree:
        """The tree of its indexes: a Zarr hierarchy in a hidden directory; of a server none."""
        if isinstance(self._store, RemoteStore | RemoteArchive):
            return ZarrTree(MemoryStore(location=self.location), zarr_format=2)
        return ZarrTree(self._store, self.key(INDEXES_FOLDER), zarr_format=2)

    def folder(self, path: str) -> DirectorySnapshot | SharedSnapshot | None:
        """Return a view of a directory; None if there is none."""
        return self._store.snapshot(self.key(path))

    def key(self, path: str) -> str:
        """Return the key of a path in the store."""
        return posixpath.join(self._root, path) if path else self._root

    def _array_in(self, path: str, name: str) -> StoredArray | None:
        node = self.node(posixpath.join(path, name))
        return None if node is None or node.kind == "group" else node.array()

    def _files(self, place: Place) -> PropertyFiles | SharedSnapshot | None:
        """Return the files of a property; None if there is no document."""
        if not place.may_exist:
            return None
        if isinstance(self._store, DirectoryStore):
            return self._store.files(
                self.key(place.folder), place.document, lambda data: _parts(place, data)
            )
        snapshot = self._store.snapshot(self.key(place.folder))
        if snapshot is None or not place.name:
            return None
        if isinstance(self._store, RemoteStore):
            return snapshot if place.name + DOCUMENT_ENDING in snapshot.names() else None
        return snapshot if snapshot.size(place.document) is not None else None

    def _length_of(self, axis: str) -> int:
        """Return the length of an axis; its lines are counted once, until the file changes."""
        place = place_of(layout.axis_path(axis))
        what = f"{self.location}: {place.path}"
        files = self._files(place)
        if files is None:
            raise CorruptDataError(f"{what}: there is no such axis, and its length is needed")
        identity = identity_of(files, place)
        known = self._lengths.get(axis)
        if known is not None and known[0] == identity:
            return known[1]
        length = self._count_entries(files, place, what)
        self._lengths[axis] = (identity, length)
        return length

    def _count_entries(self, files: PropertyFiles | SharedSnapshot, place: Place, what: str) -> int:
        if isinstance(self._store, RemoteStore):
            document = files.read(place.name + DOCUMENT_ENDING)
            length = json.loads(document or b"{}").get("n_entries")
            if type(length) is int and length >= 0:
                return length
        return lines_in(files, place.document, what=what)


def _parts(place: Place, data: bytes) -> list[str]:
    """Return the files of a property by its document; of a damaged one none, as reading shows."""
    if place.kind in ("scalar", "axis"):
        return []
    try:
        return place.files(parse_property(data, what=place.path))
    except DafError:
        return []


def _property_name(file: str, path: str) -> str | None:
    """Return the name of the property whose document a file is; None if it is no document."""
    is_axes = path == layout.AXES
    if is_axes and file.endswith(LINES_ENDING):
        return file[: -len(LINES_ENDING)] or None
    return file[: -len(DOCUMENT_ENDING)] or None if file.endswith(DOCUMENT_ENDING) else None


def _has_folders_only(path: str) -> bool:
    """Return whether all that counts in a directory are directories, whatever they are called.

    >>> _has_folders_only("anndata/matrices/cell"), _has_folders_only("scalars")
    (True, False)
    """
    names = path.split("/") if path else []
    names = names[1:] if names[:1] == [kept.GROUP] else names
    depths = {layout.VECTORS: _VECTORS_DEPTH, layout.MATRICES: _MATRICES_DEPTH}
    return not names or len(names) < depths.get(names[0], 1)


def _has_properties_only(path: str) -> bool:
    """Return whether whatever is not a property in a directory is a part of one."""
    return place_of(f"{path}/x").kind != "other"

"""The tree of a FilesDaf that can be changed, and the changes: written into a transaction."""

from __future__ import annotations

import posixpath
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import numpy as np
import pyarrow as pa

from daf_storage.base import Packing, StorageType
from daf_storage.data import Damage, damage_of, kept, layout, one_each, remove_lost
from daf_storage.errors import DafError, FormatError, ReadOnlyError
from daf_storage.files_daf._arrays import encode_lines
from daf_storage.files_daf._descriptors import (
    DAF_FILE,
    INDEXES_FOLDER,
    METADATA_FILE,
    PARTS,
    STRINGS_PART,
    VERSION,
    PartForm,
    Place,
    check_packing,
    parse_consolidated,
    parse_object,
    parse_property,
    parse_version,
    place_of,
    property_document,
    scalar_document,
    to_json,
    version_document,
)
from daf_storage.files_daf._tree import FilesTree, read_document
from daf_storage.stores import DirectoryStore, FileTransaction, MmapZipStore
from daf_storage.trees import Consolidated, FileChanges, FileTree, WritableZarrTree


class WritableFilesTree(FilesTree, FileTree[dict[str, Any]]):
    """Groups and arrays of a FilesDaf that can be changed.

    Parameters
    ----------
    store
        Where the files are.
    root
        The directory of the data set within the store; empty for the whole store.
    """

    def __init__(
        self,
        store: DirectoryStore | MmapZipStore,
        root: str = "",
    ) -> None:
        super().__init__(store, root)
        self._writable = store
        self.packing = None
        self._consolidated = None if store.is_append_only else Consolidated()

    @property
    def index_tree(self) -> WritableZarrTree:
        """The tree of its indexes: a Zarr hierarchy in a hidden directory."""
        return WritableZarrTree(
            self._writable, self.key(INDEXES_FOLDER), consolidated=False, zarr_format=2
        )

    @contextmanager
    def transaction(self) -> Iterator[FilesTransaction]:
        """Begin changes."""
        with self._writable.transaction() as changes:
            yield FilesTransaction(self, changes)

    def check_packing(self, packing: Packing | None) -> None:
        """Refuse to pack what is written."""
        check_packing(packing, self.location)

    @property
    def is_old(self) -> bool:
        """Whether it is marked with an older version, and that can be changed."""
        snapshot = None if self.is_append_only else self.folder("")
        data = None if snapshot is None else snapshot.read(DAF_FILE)
        return data is not None and parse_version(data, what=self.location) < VERSION

    @contextmanager
    def rebuilt(self, without: list[str]) -> Iterator[WritableFilesTree]:
        """Hand out a tree without some nodes, which takes the place of this one at the end."""
        left_out: list[str] = []
        for path in without:
            place = place_of(path)
            folder = self.key(place.folder)
            names = [place.document, *place.candidates]
            left_out += [self.key(path), *(posixpath.join(folder, name) for name in names)]
        with self._writable.rebuilt(left_out) as store:
            tree = WritableFilesTree(store, self._root)
            yield tree
            tree.refresh()

    @property
    def consolidated_key(self) -> str:
        """The key of ``metadata.json``."""
        return self.key(METADATA_FILE)

    def is_consolidated(self) -> bool:
        """Return whether ``metadata.json``, if it is kept, names all that is there."""
        data = self.consolidated()
        if self._consolidated is None:
            return True
        try:
            listed = parse_consolidated(data or b"", what=METADATA_FILE)
        except FormatError:
            return False
        return listed.keys() == set(self.paths(""))

    def consolidated(self) -> bytes | None:
        """Return the bytes of ``metadata.json``; None if there is none, or none can be read."""
        snapshot = self.folder("")
        try:
            return None if snapshot is None else snapshot.read(METADATA_FILE)
        except (FormatError, ReadOnlyError):
            return None

    def consolidate(self, documents: Mapping[str, dict[str, Any]]) -> bytes:
        """Return ``metadata.json``."""
        return to_json(dict(sorted(documents.items())))

    def documents(self, path: str) -> Iterator[tuple[str, dict[str, Any]]]:
        """Yield the documents at and below a path, but for those that cannot be read."""
        for below in self.paths(path):
            place = place_of(below)
            try:
                if place.kind == "axis":
                    length = self._length_of(place.name)
                    yield below, {"format": "axis", "n_entries": length}
                    continue
                files = self._files(place)
                data = None if files is None else files.read(place.document)
                if data is not None:
                    yield below, parse_object(data, what=below)
            except DafError:  # whoever reads the property learns why
                continue


class FilesTransaction(FileChanges):
    """Changes to the files of a data set; see `TreeTransaction`."""

    stores_sparse_strings = True
    has_empty_files = True
    _tree: WritableFilesTree

    def __init__(self, tree: WritableFilesTree, changes: FileTransaction) -> None:
        super().__init__(tree, changes)
        self._folders: set[str] = set()
        self._parts: dict[str, dict[str, PartForm]] = {}

    def mark(self, name: str, numbers: tuple[int, ...]) -> None:  # noqa: ARG002 - the files have their own version
        """Mark the root as a data set."""
        self._changes.replace_file(self._tree.key(DAF_FILE), version_document())
        self.refresh(None)

    def create_group(self, path: str) -> None:
        """Prepare an empty directory, or a sparse property."""
        place = place_of(path)
        if place.may_be_sparse:
            place.check_name(self._tree.location)
            self._parts[path] = {}
            return
        self._folders.add(path)
        self._changes.make_directory(self._tree.key(path))

    def mark_group(self, path: str) -> None:
        """Do nothing: a directory is a group by itself."""

    def write_scalar(self, path: str, values: Any) -> None:
        """Prepare a scalar, which is all in its document."""
        place = place_of(path)
        place.check_name(self._tree.location)
        if isinstance(values, np.ndarray):
            document = scalar_document(StorageType.of(values.dtype), values.reshape(-1)[0])
        else:
            document = scalar_document(StorageType.STRING, values[0].as_py())
        self._changes.write(self._document_key(place), document)

    def write_strings(self, path: str, strings: pa.Array, shape: tuple[int, ...]) -> None:
        """Prepare an array of strings, a line each."""
        place, kind = place_of(path), StorageType.STRING
        if place.kind == "axis":
            place.check_name(self._tree.location)
            self._write_lines(self._document_key(place), strings, path)
        else:
            self._write_lines(self._prepared(path, shape, kind), strings, path)

    def publish(self, path: str, *, replace: bool) -> None:
        """Put what was prepared at and below ``path`` in place."""
        for prepared in [p for p in self._parts if f"{p}/".startswith(f"{path}/")]:
            self._write_document(prepared)
        if path in self._folders:
            self._changes.publish(self._tree.key(path), replace=replace)
        else:
            document, *candidates = _keys(self._tree, path)
            folder = posixpath.dirname(document)
            place, forms = place_of(path), self._parts.get(path, {})
            new = [posixpath.join(folder, place.file(*each)) for each in forms.items()]
            stale = [key for key in candidates if key not in new]
            self._changes.publish(document, new, stale, replace=replace)
        self._forget(path)
        self.refresh([path])

    def remove(self, path: str) -> None:
        """Take a property or a directory away."""
        document, *files = _keys(self._tree, path)
        self._changes.remove(document, files)
        if place_of(path).kind == "other":
            self._changes.remove(self._tree.key(path))
        self.refresh([path])

    def _place(self, path: str) -> tuple[Place, str]:
        """Return the property of an array, and the name of its part; of a dense one it is empty."""
        parent, name = posixpath.split(path)
        if (
            name in (*PARTS, STRINGS_PART)
            and parent in self._parts
            and place_of(parent).may_be_sparse
        ):
            return place_of(parent), "nzval" if name == STRINGS_PART else name
        return place_of(path), ""

    def _file(self, path: str, shape: tuple[int, ...], kind: StorageType, _: Packing | None) -> str:
        place, part = self._place(path)
        name = place.file(part, self._form(place, part, shape, kind))
        return posixpath.join(self._tree.key(place.folder), name)

    def _note(
        self, path: str, shape: tuple[int, ...], kind: StorageType, _: Packing | None
    ) -> None:
        place, part = self._place(path)
        place.check_name(self._tree.location)
        form = self._form(place, part, shape, kind)
        self._parts.setdefault(place.path, {})[part] = form

    def _form(self, place: Place, part: str, shape: tuple[int, ...], kind: StorageType) -> PartForm:
        is_of_axes = part or place.axes
        return PartForm(kind, shape[0] if part else None, None if is_of_axes else shape)

    def _write_document(self, path: str) -> None:
        parts = self._parts[path]
        if "" not in parts and self._tree.is_old:  # whose readers know no such document
            self._changes.replace_file(self._tree.key(DAF_FILE), version_document())
        document = property_document(parts, self._attributes.pop(path, {}))
        self._changes.write(self._document_key(place_of(path)), document)

    def _forget(self, path: str) -> None:
        """Forget what was put in place: the same transaction may prepare another one."""
        start = f"{path}/"
        self._parts = {p: v for p, v in self._parts.items() if not f"{p}/".startswith(start)}
        self._folders = {p for p in self._folders if not f"{p}/".startswith(start)}

    def _document_key(self, place: Place) -> str:
        return posixpath.join(self._tree.key(place.folder), place.document)

    def _write_lines(self, key: str, strings: pa.Array, path: str) -> None:
        blocks = encode_lines(strings, what=f"{self._tree.location}: {path}")
        if not len(strings):
            self._changes.write(key, b"")
        for block in blocks:
            self._changes.write(key, block)


def recover_files_archive(
    store: MmapZipStore, tree: WritableFilesTree, _: str = ""
) -> list[Damage]:
    """Take what cannot be read out of an archive; return the properties that are lost.

    Other programs add the files of a property one by one: one that is stopped in between leaves a
    document without its data.
    """
    dropped = store.recovery.dropped
    store.recover()
    lost = [damage_of(property_path(name), "its data was not whole") for name in dropped]
    incomplete = incomplete_properties(tree)
    lost += [damage_of(tree.key(path), "part of its data is missing") for path in incomplete]
    start = tree.key("")
    here = [n.removeprefix(f"{start}/") for n in dropped if not start or n.startswith(f"{start}/")]
    paths = {*incomplete, *(property_path(name) for name in here)}
    damages = one_each(lost)
    keys = [key for path in sorted(paths) for key in _keys(tree, path) if key in store]
    remove_lost(store, damages, keys)
    return list(damages)


def incomplete_properties(tree: FilesTree) -> list[str]:
    """Return the paths of properties of which a file is missing; no data are read."""
    return [path for path in tree.paths() if not _is_complete(tree, place_of(path))]


def _is_complete(tree: FilesTree, place: Place) -> bool:
    snapshot = tree.folder(place.folder)
    if place.kind in ("scalar", "axis") or snapshot is None:
        return True
    try:
        form = parse_property(read_document(snapshot, place, place.path), what=place.path)
    except DafError:
        return False
    parts = {**form.parts}
    if not form.is_explicit:  # it does not say which parts there are
        first = ("nzind",) if place.kind == "vector" else ("colptr", "rowval")
        parts = {part: form.parts[part] for part in first}
    return all(snapshot.size(place.file(part, one)) is not None for part, one in parts.items())


def _keys(tree: WritableFilesTree, path: str) -> list[str]:
    place = place_of(path)
    folder = tree.key(place.folder)
    return [posixpath.join(folder, name) for name in (place.document, *place.candidates)]


def property_path(key: str) -> str:
    """Return the path of the property that a file of an archive belongs to, with its group.

    >>> property_path("day/vectors/cell/age.data")
    'day/vectors/cell/age'
    """
    parts = key.split("/")
    groups = (*layout.SKELETON, kept.GROUP)
    start = next((n for n, name in enumerate(parts) if name in groups), 0)
    folder, name = "/".join(parts[start:-1]), parts[-1]
    stems = name.split(".")
    for stop in range(1, len(stems)):
        place = place_of(posixpath.join(folder, ".".join(stems[:stop])))
        if name in (place.document, *place.candidates):
            return posixpath.join(*parts[:start], place.path)
    return key

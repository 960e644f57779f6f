"""Properties and directories as nodes of a tree; what changes is written into a transaction."""

from __future__ import annotations

import json
import math
import posixpath
from collections.abc import Callable, Hashable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa

from daf_storage.base import DecodedCache, Packing, StorageType
from daf_storage.data import Damage, damage_of, kept, layout, one_each, remove_lost
from daf_storage.errors import CorruptDataError, DafError, FormatError
from daf_storage.files_daf._descriptors import (
    DAF_FILE,
    DOCUMENT_ENDING,
    INDEXES_FOLDER,
    LINES_ENDING,
    MAX_DOCUMENT_BYTES,
    METADATA_FILE,
    PARTS,
    STRINGS_PART,
    VERSION,
    LinesArray,
    PartForm,
    Place,
    check_packing,
    encode_lines,
    is_sparse,
    lines_in,
    missing,
    no_zeros,
    parse_consolidated,
    parse_object,
    parse_property,
    parse_scalar,
    parse_version,
    place_of,
    property_document,
    scalar_document,
    to_json,
    version_document,
)
from daf_storage.stores import (
    ArchiveSnapshot,
    DirectorySnapshot,
    DirectoryStore,
    MemoryStore,
    MmapZipStore,
    PropertyFiles,
    RemoteArchive,
    RemoteSnapshot,
    RemoteStore,
    Snapshot,
)
from daf_storage.trees import (
    ArrayInfo,
    ArrayMetadata,
    ChunkEncoding,
    Consolidated,
    FileChanges,
    FileTree,
    MemoryArray,
    Node,
    NodeKind,
    ShardLayout,
    StoredArray,
    StoreTree,
    Tree,
    WritableZarrTree,
    ZarrTree,
    open_zarr_array,
    read_document,
)

SharedSnapshot: TypeAlias = ArchiveSnapshot | RemoteSnapshot
"""A view of a whole directory of which nothing changes but by new files."""

LengthOf: TypeAlias = Callable[[str], int]
"""The length of an axis by its name."""


@dataclass(eq=False)
class PropertyNode:
    """A scalar, an axis, a vector or a matrix, pinned; see `Node`."""

    snapshot: PropertyFiles | SharedSnapshot
    """Its files, by their names."""
    _place: Place
    _length_of: LengthOf
    _chunk_cache: DecodedCache
    _what: str
    _arrays: dict[str, StoredArray | None] = field(default_factory=dict)

    def __post_init__(self) -> None:
        place, what, self._form = self._place, self._what, None
        if place.kind not in ("scalar", "axis"):
            self._form = parse_property(document_of(self.snapshot, place, what), what=what)
        is_group = self._form is not None and self._form.is_sparse
        self.kind: NodeKind = "group" if is_group else "array"

    @property
    def identity(self) -> Hashable:
        """What a cache goes by."""
        return self.snapshot.identity(), self._place.path

    @property
    def place(self) -> Hashable:
        """What another node has another one of, also if that is new."""
        return self.snapshot.place, self._place.path

    def array(self, name: str = "") -> StoredArray | None:
        """Return this array, or a part of a sparse property; None if absent."""
        if name not in self._arrays:
            self._arrays[name] = self._open(name)
        return self._arrays[name]

    def attribute(self, name: str) -> Any:
        """Return what the document has under a name that is not of the format."""
        return None if self._form is None else self._form.attributes.get(name)

    def _open(self, name: str) -> StoredArray | None:
        place, form, what = self._place, self._form, self._what
        is_part = self.kind == "group"
        if form is None and place.kind == "scalar":
            kind, scalar = parse_scalar(document_of(self.snapshot, place, what), what=what)
            value = pa.array([scalar]) if kind.is_string else np.array([scalar], kind.dtype)
            return MemoryArray(lambda: value, shape=(1,), storage_type=kind)
        if form is None:
            shape: tuple[int, ...] = (self._length_of(place.name),)
            return LinesArray(self.snapshot, place.document, shape, what=what)
        stored = "nzval" if name == STRINGS_PART else name
        part = form.parts.get(stored)
        if part is None or (is_part and part.storage_type.is_string != (name == STRINGS_PART)):
            return None
        file = place.file(stored, part)
        if is_part and not form.is_explicit and self.snapshot.size(file) is None:
            if name == "nzval" and part.storage_type is not StorageType.BOOL:
                raise missing(what, file)
            return None
        shape = self._shape(file, part)
        return self._stored(file, part, shape, f"{what}/{name}" if is_part else what)

    def _stored(self, file: str, form: PartForm, shape: tuple[int, ...], what: str) -> StoredArray:
        """Return an array of this shape in a file."""
        kind, chunks, shard = form.storage_type, form.chunks, None
        if kind.is_string and chunks is None:
            return LinesArray(self.snapshot, file, shape, what=what)
        if chunks is not None:
            if len(chunks) != len(shape):
                raise CorruptDataError(
                    f"{what}: chunks of shape {list(chunks)} cannot make up an array of shape "
                    f"{list(shape)}"
                )
            if 0 in shape:  # what is empty is not packed
                raise CorruptDataError(
                    f"{what}: its data is packed, and an axis of it has no entries (any more); "
                    "take the files of the axes from a backup"
                )
            grid = tuple(math.ceil(n / c) for n, c in zip(shape, chunks, strict=True))
            shard = ShardLayout(grid, index_at_start=True, has_checksum=True)
        codecs = () if chunks is None else ({"id": form.codec},)
        zero = "" if kind.is_string else kind.dtype.type(0)
        metadata = ArrayMetadata(
            info=ArrayInfo(shape, kind, chunks or no_zeros(shape), is_mappable=chunks is None),
            encoding=ChunkEncoding(codecs, None if kind.is_string else kind.dtype),
            has_plain_chunk=chunks is None,
            fill_value=None if chunks is None else zero,
            prefix=file,
            is_single_file=True,
            shard=shard,
        )
        return open_zarr_array(self.snapshot, "", metadata, cache=self._chunk_cache, what=what)

    def _shape(self, file: str, form: PartForm) -> tuple[int, ...]:
        """Return the shape of an array: of its axes, or of the file where they may differ."""
        axes = () if self.kind == "group" else self._place.axes
        is_flat = form.chunks is None and not form.storage_type.is_string
        if len(axes) > 1 or (axes and not (is_flat and self.snapshot.is_local)):
            return tuple(self._length_of(axis) for axis in axes)
        if not axes and form.shape is not None:
            return form.shape
        length = None if axes else form.length
        return (self._count(file, form) if length is None else length,)

    def _count(self, file: str, form: PartForm) -> int:
        """Return how many elements a file has."""
        if form.chunks is not None:
            raise CorruptDataError(
                f"{self._what}: the document does not say how many elements {file!r} has, which "
                "is needed where they are packed; write it again"
            )
        if form.storage_type.is_string:
            return lines_in(self.snapshot, file, what=self._what)
        size_bytes = self.snapshot.size(file)
        if size_bytes is None:
            raise missing(self._what, file)
        return size_bytes // form.storage_type.dtype.itemsize


@dataclass(eq=False)
class FolderNode:
    """A directory, pinned as far as its own names go; see `Node`."""

    snapshot: DirectorySnapshot | SharedSnapshot
    """Its files."""
    _array: Callable[[str], StoredArray | None]
    kind: NodeKind = "group"

    @property
    def identity(self) -> Hashable:
        """What a cache goes by."""
        return self.snapshot.identity()

    @property
    def place(self) -> Hashable:
        """What another directory has another one of, also if that is new."""
        return self.snapshot.place

    def array(self, name: str = "") -> StoredArray | None:
        """Return the array of that name in this directory; None if absent."""
        return self._array(name) if name else None

    def attribute(self, name: str) -> None:
        """Return None: directories have no attributes."""


def document_of(snapshot: Snapshot, place: Place, what: str) -> bytes:
    """Return the document of a property."""
    data = read_document(snapshot, place.document, what=what, most_bytes=MAX_DOCUMENT_BYTES)
    if data is None:
        raise missing(what, place.document)
    return data


FileStore: TypeAlias = DirectoryStore | MmapZipStore | RemoteArchive | RemoteStore
"""Where files can be."""


class FilesTree(StoreTree):
    """Groups and arrays of a FilesDaf; see `StoreTree`.

    A path of the tree is a directory, or a property with a document beside it.
    """

    _store: FileStore

    def __init__(self, store: FileStore, root: str = "") -> None:
        super().__init__(store, root)
        self._lengths: dict[str, tuple[Hashable, int]] = {}

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
        """Return what is at ``path``; None if it is neither a directory nor a property."""
        kind = super().kind(path)
        return "group" if kind is None and self._is_implied(path) else kind

    def _is_implied(self, path: str) -> bool:
        """Return whether a directory is there, though the store has no directories."""
        if isinstance(self._store, DirectoryStore) or not path:
            return False
        group, axes, depth = layout.split(path)
        is_folder = group in layout.SKELETON and len(axes) <= (depth or 0)
        if not is_folder or self.marker(layout.DAF) is None:
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
            # what is below a property is a part of it
            elif place_of(f"{path}/x").kind == "other" and self._is_folder(snapshot, path, file):
                kinds[file] = "group"
        return kinds

    def _is_sparse_remote(self, snapshot: DirectorySnapshot | SharedSnapshot, file: str) -> bool:
        """Return whether a document says so, where a server shows no other files."""
        if not isinstance(self._store, RemoteStore):
            return False
        try:
            return parse_property(snapshot.read(file) or b"", what=file).is_sparse
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
            return files.identity(), place.path
        snapshot = self.folder(path)
        return None if snapshot is None else snapshot.identity()

    def version(self, path: str) -> Hashable:
        """Return what differs whenever something at or below ``path`` does, in any process."""
        snapshot = self._files(place_of(path)) or self.folder(path)
        return None if snapshot is None else snapshot.version()

    def listing_identity(self, path: str) -> Hashable:
        """Return a value that changes whenever a child of ``path``, or what it is, does."""
        snapshot = self.folder(path)
        return None if snapshot is None else snapshot.listing_identity(_documents_of)

    def node(self, path: str) -> Node | None:
        """Return the directory or the property at ``path``, pinned."""
        place, what = place_of(path), f"{self.location}: {path}"
        files = self._files(place)
        if files is not None:
            return PropertyNode(files, place, self._length_of, self._chunk_cache, what)
        snapshot = None if place.kind != "other" else self.folder(path)
        if snapshot is None:
            return None
        return FolderNode(snapshot, lambda name: self._array_in(path, name))

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
        identity = files.identity()
        cached = self._lengths.get(axis)
        if cached is not None and cached[0] == identity:
            return cached[1]
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
        parts = parse_property(data, what=place.path).parts
        return [place.file(part, form) for part, form in parts.items()]
    except DafError:
        return []


def _documents_of(names: list[str]) -> Iterator[str]:
    return (name for name in names if name.endswith((DOCUMENT_ENDING, LINES_ENDING)))


def _property_name(file: str, path: str) -> str | None:
    """Return the name of the property whose document a file is; None if it is no document."""
    is_lines = path == layout.AXES and file.endswith(LINES_ENDING)
    ending = LINES_ENDING if is_lines else DOCUMENT_ENDING
    return file.removesuffix(ending) or None if file.endswith(ending) else None


def _has_folders_only(path: str) -> bool:
    """Return whether all that counts in a directory are directories, whatever they are called.

    >>> _has_folders_only("anndata/matrices/cell"), _has_folders_only("scalars")
    (True, False)
    """
    _, axes, depth = layout.split(path)
    return path in ("", kept.GROUP) or len(axes) < (depth or 0)


class WritableFilesTree(FilesTree, FileTree[dict[str, Any]]):
    """Groups and arrays of a FilesDaf that can be changed.

    Parameters
    ----------
    store
        Where the files are.
    root
        The directory of the data set within the store; empty for the whole store.
    """

    def __init__(self, store: DirectoryStore | MmapZipStore, root: str = "") -> None:
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

    def keys(self, path: str) -> list[str]:
        """Return the keys of a directory, or of a property and all files that it may have."""
        return [self.key(path), *_keys(self, path)]

    @property
    def consolidated_file(self) -> str:
        """The name of the file that repeats all documents."""
        return METADATA_FILE

    def listed(self, data: bytes) -> dict[str, dict[str, Any]]:
        """Return the documents in ``metadata.json``."""
        return parse_consolidated(data, what=METADATA_FILE)

    def _is_all(self, documents: Mapping[str, dict[str, Any]]) -> bool:
        """Return whether it names all that is there: other programs may have added something."""
        return documents.keys() == set(self.paths())

    def consolidate(self, documents: Mapping[str, dict[str, Any]]) -> bytes:
        """Return ``metadata.json``."""
        return to_json(dict(sorted(documents.items())))

    def lost_file(self, key: str) -> str | None:
        """Return where a document was that is gone, while files of its property are there."""
        place = place_of(key)
        folder = self.folder(place.folder)
        if folder is None or self._files(place) or not {*folder.names()} & {*place.candidates}:
            return None
        return posixpath.join(self.key(place.folder), place.document)

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

    def __init__(self, tree: WritableFilesTree, changes: Any) -> None:
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
        forms = self._parts.get(path, {})
        for prepared in [p for p in self._parts if f"{p}/".startswith(f"{path}/")]:
            parts = self._parts.pop(prepared)  # the same transaction may prepare another one
            if "" not in parts and self._tree.is_old:  # whose readers know no such document
                self._changes.replace_file(self._tree.key(DAF_FILE), version_document())
            written = property_document(parts, self._attributes.pop(prepared, {}))
            self._changes.write(self._document_key(place_of(prepared)), written)
        if path in self._folders:
            self._changes.publish(self._tree.key(path), replace=replace)
        else:
            document, *candidates = _keys(self._tree, path)
            folder, place = posixpath.dirname(document), place_of(path)
            new = [posixpath.join(folder, place.file(*each)) for each in forms.items()]
            stale = [key for key in candidates if key not in new]
            self._changes.publish(document, new, stale, replace=replace)
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
        if parent in self._parts and name in (*PARTS, STRINGS_PART):
            return place_of(parent), "nzval" if name == STRINGS_PART else name
        return place_of(path), ""

    def _prepared(
        self,
        path: str,
        shape: tuple[int, ...],
        kind: StorageType,
        packing: Packing | None = None,  # noqa: ARG002 - nothing is packed
    ) -> str:
        place, part = self._place(path)
        place.check_name(self._tree.location)
        form = PartForm(kind, shape[0] if part else None, None if part or place.axes else shape)
        self._parts.setdefault(place.path, {})[part] = form
        return posixpath.join(self._tree.key(place.folder), place.file(part, form))

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
        form = parse_property(document_of(snapshot, place, place.path), what=place.path)
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
    >>> property_path("day/other")
    'day/other'
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

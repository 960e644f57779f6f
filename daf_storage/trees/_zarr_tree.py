"""The Zarr tree, of v2 or v3, over any store.

Arrays in the layout that Daf writes (one uncompressed chunk) are mapped, or decoded straight into
Arrow; all others are decoded chunk by chunk.  After each change the directory's consolidated
metadata are brought up to date, for readers that depend on them; this reader never looks at them.
"""

from __future__ import annotations

import posixpath
from collections.abc import Hashable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import pyarrow as pa

from daf_storage import errors
from daf_storage._lazy import lazy_module, zarr
from daf_storage.base import METADATA_NAMES, Packing, StorageType, new_chunk_cache
from daf_storage.base import strings as vlen
from daf_storage.stores import MmapZipStore, ReadableStore, Snapshot, Transaction, WritableStore
from daf_storage.trees._file_changes import (
    Consolidated,
    FileChanges,
    FileTree,
    consolidated_of,
    consolidated_paths,
)
from daf_storage.trees._metadata import NODE_FILE, ZarrVersion, key_below
from daf_storage.trees._stored_array import NodeKind
from daf_storage.trees._zarr_array import ZarrNode
from daf_storage.trees._zarr_formats import FORMATS, ZarrFormat

if TYPE_CHECKING:
    from daf_storage import stores
else:
    stores = lazy_module("daf_storage.stores")


def find_version(store: ReadableStore, root: str = "") -> ZarrVersion | None:
    """Return the version of the Zarr hierarchy that is there; None if there is none."""
    snapshot = store.snapshot(root)
    if snapshot is None:
        return None
    if snapshot.size(NODE_FILE) is not None:
        return 3
    return 2 if FORMATS[2].kind(snapshot, "") is not None else None


class ZarrTree:
    """Groups and arrays of a Zarr hierarchy.

    Parameters
    ----------
    store
        Where the bytes are.
    root
        Prefix of the hierarchy within the store; empty for the whole store.
    zarr_format
        Its version, 2 or 3; by default that of what is there, else 2.
    """

    def __init__(
        self, store: ReadableStore, root: str = "", *, zarr_format: ZarrVersion | None = None
    ) -> None:
        self._store = store
        self._root = root
        self._chunk_cache = new_chunk_cache()
        self.format: ZarrFormat = FORMATS[zarr_format or find_version(store, root) or 2]

    @property
    def location(self) -> str:
        """Where the tree is, for messages."""
        return f"{self._store.location}#/{self._root}" if self._root else self._store.location

    def below(self, group: str) -> ZarrTree:
        """Return the tree of a group, to be read."""
        return ZarrTree(self._store, key_below(self._root, group))

    def kind(self, path: str) -> NodeKind | None:
        """Return what is at ``path``; None if it is neither a group nor an array.

        What cannot be opened is an array: the reason is raised when it is used.
        """
        try:
            snapshot = self._snapshot(path)
        except (errors.FormatError, errors.ReadOnlyError):
            if not path:
                raise
            return "array"
        return None if snapshot is None else self._kind_of(snapshot)

    def _kind_of(self, snapshot: Snapshot) -> NodeKind | None:
        """Return what is pinned; the hierarchy may be rewritten in the other version of Zarr."""
        kind = self.format.kind(snapshot, "")
        if kind is None and snapshot.is_local:
            self.format = FORMATS[find_version(self._store, self._root) or self.format.version]
            kind = self.format.kind(snapshot, "")
        return kind

    def children(self, path: str) -> dict[str, NodeKind]:
        """Return the groups and arrays directly below ``path``."""
        snapshot = self._snapshot(path)
        if snapshot is None:
            return {}
        kinds = ((name, self._kind_below(snapshot, path, name)) for name in snapshot.names())
        return {name: kind for name, kind in kinds if kind is not None}

    def _kind_below(self, snapshot: Snapshot, path: str, name: str) -> NodeKind | None:
        """Return what is at ``name`` below a pinned group.

        An array may take the place of a group between the looks for the documents of either: what
        looks like neither is pinned itself and looked at again.
        """
        kind = self.format.kind(snapshot, name)
        if kind is None and snapshot.is_local and name not in METADATA_NAMES:
            kind = self.kind(key_below(path, name))
        return kind

    def identity(self, path: str) -> Hashable:
        """Return a value that changes whenever something at or below ``path`` does."""
        snapshot = self._snapshot(path)
        return None if snapshot is None else snapshot.identity()

    def version(self, path: str) -> Hashable:
        """Return what differs whenever something at or below ``path`` does, in any process."""
        snapshot = self._snapshot(path)
        return None if snapshot is None else snapshot.version()

    def listing_identity(self, path: str) -> Hashable:
        """Return a value that changes whenever a child of ``path``, or what it is, does."""
        snapshot = self._snapshot(path)
        return None if snapshot is None else snapshot.listing_identity(self.format.node_files)

    def node(self, path: str) -> ZarrNode | None:
        """Return the group or array at ``path``, pinned."""
        snapshot = self._snapshot(path)
        if snapshot is None:
            return None
        kind = self._kind_of(snapshot)
        if kind is None:
            return None
        what = f"{self.location}: {path}"
        return ZarrNode(snapshot, kind, self.format, chunk_cache=self._chunk_cache, what=what)

    @contextmanager
    def element(self, path: str) -> Iterator[Any]:
        """Hand out a group or an array as zarr-python has it, for the length of a block.

        Raises
        ------
        UnsupportedDataError
            The installed zarr-python does not know its data type, or a codec.
        """
        snapshot = self._snapshot("")
        if snapshot is None or self.kind(path) is None:
            raise errors.CorruptDataError(f"{self.location}: {path} is missing")
        try:
            store = stores.SnapshotZarrStore(snapshot)
            found = zarr.open(store, path=path, mode="r", zarr_format=self.format.version)
        except Exception as error:  # zarr raises many kinds for what it does not know
            reason = " ".join(str(error).split()) or type(error).__name__
            raise errors.UnsupportedDataError(
                f"{self.location}: {path}: zarr-python cannot read it ({reason})"
            ) from error
        yield found

    @property
    def index_tree(self) -> Self:
        """The tree of its indexes: this one."""
        return self

    def marker(self, name: str) -> Any:
        """Return an attribute of the root; None if it has none, or is of v2, marked by an array."""
        snapshot = self._snapshot("")
        if snapshot is None or self.format.version == 2:
            return None
        return self.format.attribute(snapshot, "", name, what=self.location)

    def _snapshot(self, path: str) -> Snapshot | None:
        return self._store.snapshot(self.key(path))

    def key(self, path: str) -> str:
        """Return the key prefix of a node."""
        return key_below(self._root, path) if path else self._root


class WritableZarrTree(ZarrTree, FileTree[bytes]):
    """A Zarr hierarchy that can be changed.

    Parameters
    ----------
    store
        Where the bytes are.
    consolidated
        Whether to keep the consolidated metadata at the root up to date.
    zarr_format
        Its version; by default that of what is there, else 2.
    packing
        How to pack arrays that are written; by default they are not.
    """

    def __init__(
        self,
        store: WritableStore,
        root: str = "",
        *,
        consolidated: bool,
        zarr_format: ZarrVersion | None = None,
        packing: Packing | None = None,
    ) -> None:
        super().__init__(store, root, zarr_format=zarr_format)
        self.packing = packing
        self._writable = store
        self._consolidated = Consolidated() if consolidated else None

    @contextmanager
    def transaction(self) -> Iterator[ZarrTransaction]:
        """Begin changes."""
        with self._writable.transaction() as changes:
            yield ZarrTransaction(self, changes)

    def check_packing(self, packing: Packing | None) -> None:
        """Refuse to pack what is stored in Zarr v2."""
        if packing is not None and self.format.version == 2:
            raise errors.InvalidInputError(
                f"{self.location}: it is stored in Zarr v2, which would need a file for each small "
                "chunk, so nothing is packed in it; convert it with packed=True to a new path"
            )

    @contextmanager
    def rebuilt(self, without: list[str]) -> Iterator[WritableZarrTree]:
        """Hand out a tree without some nodes, which takes the place of this one at the end."""
        with self._writable.rebuilt([self.key(path) for path in without]) as store:
            tree = WritableZarrTree(
                store,
                self._root,
                consolidated=self._consolidated is not None,
                zarr_format=self.format.version,
                packing=self.packing,
            )
            yield tree
            if self._consolidated is not None:
                tree.refresh()

    def discard(self, path: str) -> None:
        """Take a node away, also out of an archive; for what can be made again from the rest."""
        if isinstance(self._writable, MmapZipStore):
            start = f"{self.key(path)}/"
            self._writable.remove_entries([key for key in self._writable if key.startswith(start)])
            return
        with self.transaction() as changes, self.lock():
            changes.remove(path)

    @property
    def consolidated_key(self) -> str:
        """The key of the file with the consolidated metadata."""
        return self.key(self.format.consolidated_file)

    def is_consolidated(self) -> bool:
        """Return whether the consolidated metadata, if it is kept, is there and can be read."""
        snapshot = self._snapshot("")
        if self._consolidated is None or snapshot is None:
            return True
        return bool(consolidated_paths(self.format, snapshot))

    def consolidated(self) -> bytes | None:
        """Return the file that has the consolidated metadata; None if there is none."""
        snapshot = self._snapshot("")
        return None if snapshot is None else consolidated_of(self.format, snapshot)

    def documents(self, path: str) -> Iterator[tuple[str, bytes]]:
        """Yield the documents at and below a path, but for those that cannot be read."""
        snapshot = self._snapshot("")
        if snapshot is not None:
            yield from self.format.documents(snapshot, path)

    def consolidate(self, documents: Mapping[str, bytes]) -> bytes:
        """Return the file that has the consolidated metadata."""
        return self.format.consolidated(self._snapshot(""), documents)


class ZarrTransaction(FileChanges):
    """Changes to a Zarr hierarchy; see `TreeTransaction`."""

    stores_sparse_strings = False
    _tree: WritableZarrTree

    def __init__(self, tree: WritableZarrTree, changes: Transaction) -> None:
        super().__init__(tree, changes)
        self._format = tree.format

    def mark(self, name: str, numbers: tuple[int, ...]) -> None:
        """Mark the root with a few numbers: an attribute in Zarr v3, an array in v2."""
        marked = self._format.root_document(self._tree.consolidated(), {name: list(numbers)})
        for file, data in marked.items():
            self._changes.replace_file(self._tree.key(file), data)
            self.refresh(None)
        if not marked:
            self.write_array(name, np.array(numbers, dtype=np.uint8))
            self.publish(name, replace=False)

    def create_group(self, path: str) -> None:
        """Prepare a group."""
        self._documents(path, self._format.group_documents())

    def mark_group(self, path: str) -> None:
        """Make what is at ``path`` a group, in place; the root of the tree if it is empty."""
        if not path and self._format.root_document(None, {}):
            return  # the marker makes it one
        for name, data in self._format.group_documents().items():
            self._changes.replace_file(posixpath.join(self._tree.key(path), name), data)

    def write_scalar(self, path: str, values: Any) -> None:
        """Prepare a scalar as an array of one element."""
        if isinstance(values, np.ndarray):
            self.write_array(path, values)
        else:
            self.write_strings(path, values, (1,))

    def write_strings(self, path: str, strings: pa.Array, shape: tuple[int, ...]) -> None:
        """Prepare an array of strings."""
        kind = StorageType.STRING
        if not self._write_packed(path, shape, kind, [strings]):
            key = self._prepared(path, shape, kind)
            if len(strings):
                for block in vlen.encode_vlen_utf8(strings):
                    self._changes.write(key, block)

    def publish(self, path: str, *, replace: bool) -> None:
        """Put a node in place and bring the consolidated metadata up to date."""
        self._changes.publish(self._tree.key(path), replace=replace)
        self.refresh([path])

    def remove(self, path: str) -> None:
        """Take a node away and bring the consolidated metadata up to date."""
        self._changes.remove(self._tree.key(path))
        self.refresh([path])

    def _file(
        self,
        path: str,
        shape: tuple[int, ...],
        kind: StorageType,  # noqa: ARG002 - all have files of one name
        packing: Packing | None,  # noqa: ARG002
    ) -> str:
        return posixpath.join(self._tree.key(path), self._format.chunk_key(shape))

    def _note(
        self, path: str, shape: tuple[int, ...], kind: StorageType, packing: Packing | None
    ) -> None:
        self._documents(path, self._format.array_documents(shape, kind, packing))

    def _documents(self, path: str, documents: dict[str, bytes]) -> None:
        attributes = self._attributes.pop(path, None)
        if attributes:
            documents = self._format.annotated(documents, attributes)
        for name, data in documents.items():
            self._changes.write(posixpath.join(self._tree.key(path), name), data)

"""Changes to a Zarr hierarchy: documents and chunks, written into a transaction of the store."""

from __future__ import annotations

import posixpath
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from daf_storage.base import Packing, StorageType
from daf_storage.base import strings as vlen
from daf_storage.stores import Transaction
from daf_storage.trees._array_documents import NODE_FILE
from daf_storage.trees._file_changes import FileChanges

if TYPE_CHECKING:
    from daf_storage.trees._zarr_tree import WritableZarrTree


class ZarrTransaction(FileChanges):
    """Changes to a Zarr hierarchy; see `TreeTransaction`."""

    stores_sparse_strings = False
    _tree: WritableZarrTree

    def __init__(self, tree: WritableZarrTree, changes: Transaction) -> None:
        super().__init__(tree, changes)
        self._format = tree.format

    def mark(self, name: str, numbers: tuple[int, ...]) -> None:
        """Mark the root with a few numbers: an attribute in Zarr v3, an array in v2."""
        snapshot = self._tree.root_snapshot()
        old = None if snapshot is None else snapshot.read(NODE_FILE)
        for file, data in self._format.root_document(old, {name: list(numbers)}).items():
            self._changes.replace_file(self._tree.key(file), data)
            self.refresh(None)
            return
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
        if not self._write_packed(path, shape, kind, lambda writer: writer.add_strings(strings)):
            key = self._prepared(path, shape, kind)
            if len(strings):
                blocks = vlen.encode_vlen_utf8(strings)
                self._write_filled(key, vlen.encoded_bytes(strings), blocks)

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
        if packing is None:
            documents = self._format.array_documents(shape, kind)
        else:
            documents = self._format.packed_documents(shape, kind, packing)
        self._documents(path, documents)

    def _documents(self, path: str, documents: dict[str, bytes]) -> None:
        attributes = self._attributes.pop(path, None)
        if attributes:
            documents = self._format.annotated(documents, attributes)
        for name, data in documents.items():
            self._changes.write(posixpath.join(self._tree.key(path), name), data)

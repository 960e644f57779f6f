"""Changes to a Zarr hierarchy: documents and chunks, written into a transaction of the store."""

from __future__ import annotations

import posixpath
from collections.abc import Collection, Iterable, Mapping
from typing import Any, Final, Protocol

import numpy as np
import pyarrow as pa

from daf_storage.base import AnyArray, Packing, StorageType
from daf_storage.base import strings as vlen
from daf_storage.stores import Snapshot, Transaction
from daf_storage.trees._array_v3 import NODE_FILE
from daf_storage.trees._decode_threads import fill_blocks
from daf_storage.trees._metadata import ZarrFormat
from daf_storage.trees._shard_writer import ShardWriter

_FILLED_IN_PLACE_BYTES: Final = 1 << 24


class ChangedTree(Protocol):
    """What a transaction has to know of its tree."""

    packing: Packing | None

    @property
    def format(self) -> ZarrFormat:
        """The version of Zarr that is written."""
        ...

    def path_in_store(self, path: str) -> str:
        """Return the key prefix of a node."""
        ...

    def root_snapshot(self) -> Snapshot | None:
        """Return a view of the root."""
        ...

    def refresh_consolidated(self, changes: Transaction, paths: Collection[str] | None) -> None:
        """Bring the consolidated metadata up to date after changes at ``paths`` (None: all)."""
        ...


class ZarrTransaction:
    """Changes to a Zarr hierarchy; see `TreeTransaction`."""

    stores_sparse_strings = False

    def __init__(self, tree: ChangedTree, changes: Transaction) -> None:
        self._tree = tree
        self._changes = changes
        self._attributes: dict[str, Mapping[str, str]] = {}

    def packs(self, shape: tuple[int, ...], storage_type: StorageType) -> bool:
        """Return whether an array of this kind would be packed."""
        packing = self._tree.packing
        return packing is not None and packing.chunks(shape, storage_type) is not None

    def mark(self, name: str, numbers: tuple[int, ...]) -> None:
        """Mark the root with a few numbers: an attribute in Zarr v3, an array in v2."""
        snapshot = self._tree.root_snapshot()
        old = None if snapshot is None else snapshot.read(NODE_FILE)
        for file, data in self._tree.format.root_document(old, {name: list(numbers)}).items():
            self._changes.replace_file(self._tree.path_in_store(file), data)
            self.refresh(None)
            return
        self.write_array(name, np.array(numbers, dtype=np.uint8))
        self.publish(name, replace=False)

    def annotate(self, path: str, attributes: Mapping[str, str]) -> None:
        """Give attributes to the group or array that will be prepared at ``path`` after this."""
        self._attributes[path] = attributes

    def create_group(self, path: str) -> None:
        """Prepare a group."""
        self._documents(path, self._tree.format.group_documents())

    def mark_group(self, path: str) -> None:
        """Make what is at ``path`` a group, in place; the root of the tree if it is empty."""
        if not path and self._tree.format.root_document(None, {}):
            return  # the marker makes it one
        for name, data in self._tree.format.group_documents().items():
            key = posixpath.join(self._tree.path_in_store(path), name)
            self._changes.replace_file(key, data)

    def write_scalar(self, path: str, values: Any) -> None:
        """Prepare a scalar as an array of one element."""
        if isinstance(values, np.ndarray):
            self.write_array(path, values)
        else:
            self.write_strings(path, values, (1,))

    def write_array(self, path: str, values: AnyArray) -> None:
        """Prepare a numeric array."""
        kind = StorageType.of(values.dtype)
        if self.packs(values.shape, kind):
            self.write_blocks(path, values.shape, kind, [values])
            return
        if not values.size or not values.flags.c_contiguous or values.dtype != kind.dtype:
            self.reserve_array(path, values.shape, kind)[...] = values
            return
        self._array_documents(path, values.shape, kind)
        data = values.reshape(-1).view(np.uint8).data
        self._changes.write(self._chunk_key(path, values.shape), data)

    def write_strings(self, path: str, strings: pa.Array, shape: tuple[int, ...]) -> None:
        """Prepare an array of strings."""
        packing = self._tree.packing
        if packing is not None and self.packs(shape, StorageType.STRING):
            writer = ShardWriter(shape, StorageType.STRING, packing)
            writer.add_strings(strings)
            self._write_packed(path, shape, StorageType.STRING, writer, packing)
            return
        self._array_documents(path, shape, StorageType.STRING)
        size_bytes = vlen.encoded_bytes(strings)
        if len(strings) and size_bytes < _FILLED_IN_PLACE_BYTES:
            for block in vlen.encode_vlen_utf8(strings):
                self._changes.write(self._chunk_key(path, shape), block)
        elif len(strings):  # the blocks of an archive, or in memory, would be held until the end
            out = self._changes.reserve(self._chunk_key(path, shape), size_bytes)
            position = 0
            for block in vlen.encode_vlen_utf8(strings):
                out[position : position + len(block)] = np.frombuffer(block, np.uint8)
                position += len(block)

    def write_blocks(
        self,
        path: str,
        shape: tuple[int, ...],
        storage_type: StorageType,
        blocks: Iterable[AnyArray],
    ) -> None:
        """Prepare a numeric array of consecutive ranges of its first dimension."""
        packing = self._tree.packing
        if packing is None or not self.packs(shape, storage_type):
            fill_blocks(self.reserve_array(path, shape, storage_type), blocks)
            return
        writer = ShardWriter(shape, storage_type, packing)
        for block in blocks:
            writer.add_numbers(block)
        self._write_packed(path, shape, storage_type, writer, packing)

    def adopt_array(
        self,
        path: str,
        shape: tuple[int, ...],
        storage_type: StorageType,
        descriptor: int,
        *,
        link: bool,
    ) -> bool:
        """Prepare an array whose single chunk is a file that is there already."""
        if self.packs(shape, storage_type):
            return False
        if not self._changes.adopt(self._chunk_key(path, shape), descriptor, link=link):
            return False
        self._array_documents(path, shape, storage_type)
        return True

    def reserve_array(
        self, path: str, shape: tuple[int, ...], storage_type: StorageType
    ) -> AnyArray:
        """Prepare a numeric array to be filled in place."""
        self._array_documents(path, shape, storage_type)
        dtype = storage_type.dtype
        size_bytes = int(np.prod(shape, dtype=object)) * dtype.itemsize
        if size_bytes == 0:
            return np.empty(shape, dtype)
        return (
            self._changes.reserve(self._chunk_key(path, shape), size_bytes)
            .view(dtype)
            .reshape(shape)
        )

    def publish(self, path: str, *, replace: bool) -> None:
        """Put a node in place and bring the consolidated metadata up to date."""
        self._changes.publish(self._tree.path_in_store(path), replace=replace)
        self.refresh([path])

    def remove(self, path: str) -> None:
        """Take a node away and bring the consolidated metadata up to date."""
        self._changes.remove(self._tree.path_in_store(path))
        self.refresh([path])

    def refresh(self, paths: Collection[str] | None) -> None:
        """Bring the consolidated metadata up to date, or leave a sign that this is to be done."""
        try:
            self._tree.refresh_consolidated(self._changes, paths)
        except BaseException:
            self._changes.leave_sign()
            raise

    def _write_packed(
        self,
        path: str,
        shape: tuple[int, ...],
        kind: StorageType,
        writer: ShardWriter,
        packing: Packing,
    ) -> None:
        self._documents(path, self._tree.format.packed_documents(shape, kind, packing))
        for part in writer.parts():
            self._changes.write(self._chunk_key(path, shape), part)

    def _array_documents(self, path: str, shape: tuple[int, ...], kind: StorageType) -> None:
        self._documents(path, self._tree.format.array_documents(shape, kind))

    def _documents(self, path: str, documents: dict[str, bytes]) -> None:
        attributes = self._attributes.pop(path, None)
        if attributes:
            documents = self._tree.format.annotated(documents, attributes)
        for name, data in documents.items():
            self._changes.write(posixpath.join(self._tree.path_in_store(path), name), data)

    def _chunk_key(self, path: str, shape: tuple[int, ...]) -> str:
        return posixpath.join(self._tree.path_in_store(path), self._tree.format.chunk_key(shape))

"""Changes to the files of a data set, written into a transaction of the store."""

from __future__ import annotations

import posixpath
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Any, Final, Protocol

import numpy as np
import pyarrow as pa

from daf_storage.base import AnyArray, Packing, StorageType
from daf_storage.files_daf._descriptors import (
    DAF_FILE,
    PartForm,
    PropertyForm,
    ScalarForm,
    packed_form,
    property_document,
    scalar_document,
    to_json,
    version_document,
)
from daf_storage.files_daf._lines import encode_lines, lines_bytes
from daf_storage.files_daf._places import ATTRIBUTES_FILE, STRINGS_PART, Place, place_of
from daf_storage.files_daf._zip_writer import ZipShardWriter
from daf_storage.stores import FileTransaction
from daf_storage.trees import fill_blocks

_FILLED_IN_PLACE_BYTES: Final = 1 << 24
_PARTS: Final = ("nzind", "colptr", "rowval", "nzval", STRINGS_PART)


class ChangedTree(Protocol):
    """What a transaction has to know of its tree."""

    packing: Packing | None

    @property
    def location(self) -> str:
        """Where the tree is, for messages."""
        ...

    @property
    def is_old(self) -> bool:
        """Whether it is marked with an older version, and that can be changed."""
        ...

    def key(self, path: str) -> str:
        """Return the key of a path in the store."""
        ...

    def refresh_consolidated(self, changes: FileTransaction, paths: Collection[str] | None) -> None:
        """Bring ``metadata.json`` up to date after changes at ``paths`` (None: all)."""
        ...


class FilesTransaction:
    """Changes to the files of a data set; see `TreeTransaction`."""

    stores_sparse_strings = True

    def __init__(self, tree: ChangedTree, changes: FileTransaction) -> None:
        self._tree = tree
        self._changes = changes
        self._folders: set[str] = set()
        self._parts: dict[str, dict[str, PartForm]] = {}
        self._documents: set[str] = set()
        self._attributes: dict[str, Mapping[str, str]] = {}

    def mark(self, name: str, numbers: tuple[int, ...]) -> None:  # noqa: ARG002 - the files have their own version
        """Mark the root as a data set."""
        self._changes.replace_file(self._tree.key(DAF_FILE), version_document())
        self.refresh(None)

    def annotate(self, path: str, attributes: Mapping[str, str]) -> None:
        """Give attributes to the property or directory that will be prepared at ``path``."""
        self._attributes[path] = attributes

    def create_group(self, path: str) -> None:
        """Prepare an empty directory, or a sparse property."""
        place = place_of(path)
        if place.may_be_sparse:
            place.check_name(self._tree.location)
            self._parts[path] = {}
            return
        self._folders.add(path)
        self._changes.make_directory(self._tree.key(path))
        if attributes := self._attributes.pop(path, None):
            key = posixpath.join(self._tree.key(path), ATTRIBUTES_FILE)
            self._changes.write(key, to_json(dict(attributes)) + b"\n")

    def mark_group(self, path: str) -> None:
        """Do nothing: a directory is a group by itself."""

    def write_scalar(self, path: str, values: Any) -> None:
        """Prepare a scalar, which is all in its document."""
        place = place_of(path)
        place.check_name(self._tree.location)
        if isinstance(values, np.ndarray):
            form = ScalarForm(StorageType.of(values.dtype), values.reshape(-1)[0])
        else:
            form = ScalarForm(StorageType.STRING, values[0].as_py())
        self._documents.add(path)
        self._changes.write(self._document_key(place), scalar_document(form))

    def write_array(self, path: str, values: AnyArray) -> None:
        """Prepare a numeric array."""
        kind = StorageType.of(values.dtype)
        if self.packs(values.shape, kind):
            self.write_blocks(path, values.shape, kind, [values])
            return
        if not values.size or not values.flags.c_contiguous or values.dtype != kind.dtype:
            self.reserve_array(path, values.shape, kind)[...] = values
            return
        data = values.reshape(-1).view(np.uint8).data
        self._changes.write(self._add(path, values.shape, kind), data)

    def write_strings(self, path: str, strings: pa.Array, shape: tuple[int, ...]) -> None:
        """Prepare an array of strings, a line each."""
        place, what = place_of(path), f"{self._tree.location}: {path}"
        if place.kind == "axis":
            place.check_name(self._tree.location)
            self._documents.add(path)
            self._write_lines(self._document_key(place), strings, what)
            return
        packing = self._tree.packing
        packed = None if packing is None else packed_form(packing, shape, StorageType.STRING)
        key = self._add(path, shape, StorageType.STRING)
        if packing is None or packed is None:
            self._write_lines(key, strings, what)
            return
        writer = ZipShardWriter(shape, StorageType.STRING, packing)
        writer.add_strings(strings)
        self._write_parts(key, writer.parts())

    def packs(self, shape: tuple[int, ...], storage_type: StorageType) -> bool:
        """Return whether an array of this kind would be packed."""
        packing = self._tree.packing
        return packing is not None and packing.chunks(shape, storage_type) is not None

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
        writer = ZipShardWriter(shape, storage_type, packing)
        for block in blocks:
            writer.add_numbers(block)
        self._write_parts(self._add(path, shape, storage_type), writer.parts())

    def adopt_array(
        self,
        path: str,
        shape: tuple[int, ...],
        storage_type: StorageType,
        descriptor: int,
        *,
        link: bool,
    ) -> bool:
        """Prepare a numeric array whose file is there already."""
        if storage_type.is_string or self.packs(shape, storage_type):
            return False
        place, part = self._place(path)
        key = posixpath.join(self._tree.key(place.folder), place.file(part, PartForm(storage_type)))
        if not self._changes.adopt(key, descriptor, link=link):
            return False
        self._add(path, shape, storage_type, is_flat=True)
        return True

    def reserve_array(
        self, path: str, shape: tuple[int, ...], storage_type: StorageType
    ) -> AnyArray:
        """Prepare a numeric array to be filled in place."""
        key = self._add(path, shape, storage_type, is_flat=True)
        dtype = storage_type.dtype
        size_bytes = int(np.prod(shape, dtype=object)) * dtype.itemsize
        if size_bytes == 0:
            self._changes.write(key, b"")
            return np.empty(shape, dtype)
        return self._changes.reserve(key, size_bytes).view(dtype).reshape(shape)

    def publish(self, path: str, *, replace: bool) -> None:
        """Put what was prepared at and below ``path`` in place."""
        for prepared in [p for p in self._parts if f"{p}/".startswith(f"{path}/")]:
            self._write_document(prepared)
        key = self._tree.key(path)
        if path in self._folders:
            self._changes.publish(key, replace=replace)
        else:
            place = place_of(path)
            folder = self._tree.key(place.folder)
            new = [posixpath.join(folder, name) for name in self._new_files(place)]
            stale = [posixpath.join(folder, name) for name in place.candidates]
            self._changes.publish_files(
                self._document_key(place),
                new,
                [name for name in stale if name not in new],
                replace=replace,
            )
        self._forget(path)
        self.refresh([path])

    def remove(self, path: str) -> None:
        """Take a property or a directory away."""
        place = place_of(path)
        folder = self._tree.key(place.folder)
        files = [posixpath.join(folder, name) for name in place.candidates]
        self._changes.remove_files(self._document_key(place), files)
        if place.kind == "other":
            self._changes.remove(self._tree.key(path))
        self.refresh([path])

    def refresh(self, paths: Collection[str] | None) -> None:
        """Bring ``metadata.json`` up to date, or leave a sign that this is to be done."""
        try:
            self._tree.refresh_consolidated(self._changes, paths)
        except BaseException:
            self._changes.leave_sign()
            raise

    def _place(self, path: str) -> tuple[Place, str]:
        """Return the property of an array, and the name of its part; of a dense one it is empty."""
        parent, name = posixpath.split(path)
        if name in _PARTS and parent in self._parts and place_of(parent).may_be_sparse:
            return place_of(parent), "nzval" if name == STRINGS_PART else name
        return place_of(path), ""

    def _add(
        self, path: str, shape: tuple[int, ...], kind: StorageType, *, is_flat: bool = False
    ) -> str:
        """Note an array that is prepared, and return the key of its file."""
        place, part = self._place(path)
        place.check_name(self._tree.location)
        packing = None if is_flat else self._tree.packing
        form = PartForm(
            kind,
            shape[0] if part else None,
            None if part or place.axes else shape,
            None if packing is None else packed_form(packing, shape, kind),
        )
        self._parts.setdefault(place.path, {})[part] = form
        return posixpath.join(self._tree.key(place.folder), place.file(part, form))

    def _new_files(self, place: Place) -> list[str]:
        return [place.file(part, form) for part, form in self._parts.get(place.path, {}).items()]

    def _write_document(self, path: str) -> None:
        if path in self._documents:
            return
        self._documents.add(path)
        parts = self._parts[path]
        attributes = self._attributes.pop(path, {})
        form = PropertyForm("dense" if "" in parts else "sparse", parts, attributes=attributes)
        if form.kind == "sparse" and self._tree.is_old:  # whose readers know no such document
            self._changes.replace_file(self._tree.key(DAF_FILE), version_document())
        self._changes.write(self._document_key(place_of(path)), property_document(form))

    def _forget(self, path: str) -> None:
        """Forget what was put in place: the same transaction may prepare another one."""
        start = f"{path}/"
        self._parts = {p: v for p, v in self._parts.items() if not f"{p}/".startswith(start)}
        self._documents = {p for p in self._documents if not f"{p}/".startswith(start)}
        self._folders = {p for p in self._folders if not f"{p}/".startswith(start)}

    def _document_key(self, place: Place) -> str:
        return posixpath.join(self._tree.key(place.folder), place.document)

    def _write_lines(self, key: str, strings: pa.Array, what: str) -> None:
        size_bytes = lines_bytes(strings)
        blocks = encode_lines(strings, what=what)
        if size_bytes < _FILLED_IN_PLACE_BYTES:
            self._write_parts(key, blocks)
            return
        out = self._changes.reserve(key, size_bytes)
        position = 0
        for block in blocks:
            out[position : position + len(block)] = np.frombuffer(block, np.uint8)
            position += len(block)

    def _write_parts(self, key: str, parts: Iterator[bytes | memoryview] | Iterator[bytes]) -> None:
        self._changes.write(key, b"")
        for part in parts:
            self._changes.write(key, part)

"""Changes to the files of a data set, written into a transaction of the store."""

from __future__ import annotations

import posixpath
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa

from daf_storage.base import Packing, StorageType
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
from daf_storage.trees import FileChanges

if TYPE_CHECKING:
    from daf_storage.files_daf._writable_tree import WritableFilesTree

_PARTS: Final = ("nzind", "colptr", "rowval", "nzval", STRINGS_PART)


class FilesTransaction(FileChanges):
    """Changes to the files of a data set; see `TreeTransaction`."""

    stores_sparse_strings = True
    writer = ZipShardWriter
    has_empty_files = True
    _tree: WritableFilesTree

    def __init__(self, tree: WritableFilesTree, changes: FileTransaction) -> None:
        super().__init__(tree, changes)
        self._folders: set[str] = set()
        self._parts: dict[str, dict[str, PartForm]] = {}
        self._documents: set[str] = set()

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

    def write_strings(self, path: str, strings: pa.Array, shape: tuple[int, ...]) -> None:
        """Prepare an array of strings, a line each."""
        place, kind = place_of(path), StorageType.STRING
        if place.kind == "axis":
            place.check_name(self._tree.location)
            self._documents.add(path)
            self._write_lines(self._document_key(place), strings, path)
        elif not self._write_packed(path, shape, kind, lambda writer: writer.add_strings(strings)):
            self._write_lines(self._prepared(path, shape, kind), strings, path)

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

    def _place(self, path: str) -> tuple[Place, str]:
        """Return the property of an array, and the name of its part; of a dense one it is empty."""
        parent, name = posixpath.split(path)
        if name in _PARTS and parent in self._parts and place_of(parent).may_be_sparse:
            return place_of(parent), "nzval" if name == STRINGS_PART else name
        return place_of(path), ""

    def _file(
        self, path: str, shape: tuple[int, ...], kind: StorageType, packing: Packing | None
    ) -> str:
        place, part = self._place(path)
        name = place.file(part, self._form(place, part, shape, kind, packing))
        return posixpath.join(self._tree.key(place.folder), name)

    def _note(
        self, path: str, shape: tuple[int, ...], kind: StorageType, packing: Packing | None
    ) -> None:
        place, part = self._place(path)
        place.check_name(self._tree.location)
        form = self._form(place, part, shape, kind, packing)
        self._parts.setdefault(place.path, {})[part] = form

    def _form(
        self,
        place: Place,
        part: str,
        shape: tuple[int, ...],
        kind: StorageType,
        packing: Packing | None,
    ) -> PartForm:
        return PartForm(
            kind,
            shape[0] if part else None,
            None if part or place.axes else shape,
            None if packing is None else packed_form(packing, shape, kind),
        )

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

    def _write_lines(self, key: str, strings: pa.Array, path: str) -> None:
        blocks = encode_lines(strings, what=f"{self._tree.location}: {path}")
        if not len(strings):
            self._changes.write(key, b"")
        self._write_filled(key, lines_bytes(strings), blocks)

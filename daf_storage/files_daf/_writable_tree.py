"""The tree of a FilesDaf that can be changed."""

from __future__ import annotations

import posixpath
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from daf_storage.base import Packing
from daf_storage.errors import DafError, FormatError, ReadOnlyError
from daf_storage.files_daf._consolidated import (
    METADATA_FILE,
    axis_document,
    parse_consolidated,
)
from daf_storage.files_daf._descriptors import (
    DAF_FILE,
    VERSION,
    check_packing,
    parse_object,
    parse_version,
    to_json,
)
from daf_storage.files_daf._places import INDEXES_FOLDER, place_of
from daf_storage.files_daf._transaction import FilesTransaction
from daf_storage.files_daf._tree import FilesTree
from daf_storage.stores import DirectoryStore, MmapZipStore
from daf_storage.trees import Consolidated, FileTree, WritableZarrTree


class WritableFilesTree(FilesTree, FileTree[dict[str, Any]]):
    """Groups and arrays of a FilesDaf that can be changed.

    Parameters
    ----------
    store
        Where the files are.
    root
        The directory of the data set within the store; empty for the whole store.
    packing
        How to pack arrays that are written; by default they are not.
    """

    def __init__(
        self,
        store: DirectoryStore | MmapZipStore,
        root: str = "",
        *,
        packing: Packing | None = None,
    ) -> None:
        super().__init__(store, root)
        check_packing(packing, self.location)
        self._writable = store
        self.packing = packing
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
        """Refuse a codec that plain files have no name for."""
        check_packing(packing, self.location)

    @property
    def is_old(self) -> bool:
        """Whether it is marked with an older version, and that can be changed."""
        snapshot = None if self.is_append_only else self.folder("")
        data = None if snapshot is None else snapshot.read(DAF_FILE)
        return data is not None and parse_version(data, what=self.location) < VERSION

    @contextmanager
    def rebuilt(self, token: str, without: list[str]) -> Iterator[WritableFilesTree]:
        """Hand out a tree without some nodes, which takes the place of this one at the end."""
        left_out: list[str] = []
        for path in without:
            place = place_of(path)
            folder = self.key(place.folder)
            names = [place.document, *place.candidates]
            left_out += [self.key(path), *(posixpath.join(folder, name) for name in names)]
        with self._writable.rebuilt(token, left_out) as store:
            tree = WritableFilesTree(store, self._root, packing=self.packing)
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
                    yield below, axis_document(self._length_of(place.name))
                    continue
                files = self._files(place)
                data = None if files is None else files.read(place.document)
                if data is not None:
                    yield below, parse_object(data, what=below)
            except DafError:  # whoever reads the property learns why
                continue

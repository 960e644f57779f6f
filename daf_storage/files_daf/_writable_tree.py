"""The tree of a FilesDaf that can be changed."""

from __future__ import annotations

import copy
import posixpath
from collections.abc import Collection, Iterator
from contextlib import contextmanager, nullcontext
from typing import Any

from daf_storage.base import Packing
from daf_storage.errors import DafError, FormatError, ReadOnlyError
from daf_storage.files_daf._consolidated import (
    METADATA_FILE,
    axis_document,
    parse_consolidated,
    written_consolidated,
)
from daf_storage.files_daf._descriptors import (
    DAF_FILE,
    VERSION,
    check_packing,
    parse_object,
    parse_version,
)
from daf_storage.files_daf._places import INDEXES_FOLDER, place_of
from daf_storage.files_daf._transaction import FilesTransaction
from daf_storage.files_daf._tree import FilesTree
from daf_storage.stores import DirectoryStore, FileTransaction, MmapZipStore
from daf_storage.trees import Consolidated, WritableZarrTree


class WritableFilesTree(FilesTree):
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
        self._consolidated: Consolidated[dict[str, Any]] | None = (
            None if store.is_append_only else Consolidated()
        )

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

    def packing_as(self, packing: Packing | None) -> WritableFilesTree:
        """Return the same tree, which packs what is written so; None leaves it unpacked."""
        check_packing(packing, self.location)
        other = copy.copy(self)
        other.packing = packing
        return other

    @property
    def is_append_only(self) -> bool:
        """Whether what is there can be neither replaced nor removed."""
        return self._writable.is_append_only

    @property
    def is_old(self) -> bool:
        """Whether it is marked with an older version, and that can be changed."""
        snapshot = None if self.is_append_only else self.folder("")
        data = None if snapshot is None else snapshot.read(DAF_FILE)
        return data is not None and parse_version(data, what=self.location) < VERSION

    @contextmanager
    def batch(self) -> Iterator[None]:
        """Make many changes at the cost of one, if it can; ``metadata.json`` is written last."""
        once = (
            self._consolidated.written_once(self._refresh) if self._consolidated else nullcontext()
        )
        with self._writable.batch(), once:
            yield

    def _refresh(self, paths: Collection[str] | None) -> None:
        with self.transaction() as changes, self.lock():
            changes.refresh(paths)

    @contextmanager
    def lock(self) -> Iterator[None]:
        """Exclude other writers."""
        with self._writable.lock():
            yield

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

    def recover(self) -> bool:
        """Clear away what a crashed writer left, and mend ``metadata.json``.

        That is written again if a writer left a sign that it could not write it, or if its names
        are not those that are there.
        """
        is_changed = self._writable.recover()
        if is_changed or not self.is_consolidated():
            self.refresh()
        return is_changed

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

    def refresh(self) -> bool:
        """Write ``metadata.json`` again; say whether it had been another one."""
        before = self.consolidated()
        self._refresh(None)
        return self.consolidated() != before

    def refresh_consolidated(self, changes: FileTransaction, paths: Collection[str] | None) -> None:
        """Bring ``metadata.json`` up to date after changes at ``paths`` (None: all)."""
        if self._consolidated is not None and not self._consolidated.is_postponed(paths):
            now = self.consolidated()
            data = self._consolidated.updated(now, paths, self.documents, written_consolidated)
            changes.replace_file(self.key(METADATA_FILE), data)

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

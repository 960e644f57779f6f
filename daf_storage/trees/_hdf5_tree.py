"""The HDF5 tree: groups and datasets below one group of a file.

Source: docs/reference/format.md, "HDF5 files".
"""

from __future__ import annotations

import posixpath
import uuid
from collections.abc import Hashable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from typing import Any

from daf_storage.base import Packing
from daf_storage.errors import CorruptDataError, DafError, FormatError
from daf_storage.stores import settled
from daf_storage.trees._hdf5_array import Hdf5Node
from daf_storage.trees._hdf5_file import Hdf5File, HeldObject, index_tree
from daf_storage.trees._hdf5_objects import (
    H5PY_ERRORS,
    RECORD,
    STAGING,
    as_object,
    h5py,
    node_kind,
    open_below,
    reason_of,
)
from daf_storage.trees._hdf5_output import write_errors
from daf_storage.trees._hdf5_write import Hdf5Transaction, put_back
from daf_storage.trees._protocol import NodeKind
from daf_storage.trees._zarr_tree import WritableZarrTree


class Hdf5Tree:
    """Groups and datasets below one group.

    Parameters
    ----------
    shared
        The open file.
    root
        Path of the group, without a slash at either end; empty for the root of the file.
    """

    stores_sparse_strings = True

    def __init__(self, shared: Hdf5File, root: str = "") -> None:
        self._shared = shared
        self._root = root
        self.location = f"{shared.location}#/{root}" if root else shared.location
        """Where the tree is, for messages."""

    def below(self, group: str) -> Hdf5Tree:
        """Return the tree of a group, to be read."""
        return Hdf5Tree(self._shared, f"{self._root}/{group}" if self._root else group)

    def kind(self, path: str) -> NodeKind | None:
        """Return what is at ``path``; None if it is neither a group nor a dataset.

        What cannot be opened is an array: the reason is raised when it is used.
        """
        with self._shared.lock:
            try:
                return node_kind(self._get(path))
            except FormatError:
                return "array"

    def children(self, path: str) -> dict[str, NodeKind]:
        """Return the groups and datasets directly below ``path``."""
        with self._shared.lock:
            group = self._get(path)
            kind = node_kind(group)
            if kind == "array":
                raise CorruptDataError(
                    f"{self.location}: {path or 'the root'} is a dataset, and should be a group"
                )
            names = [] if kind is None else self._names(group)
            kinds = ((name, self._kind_below(group, path, name)) for name in names)
            return {n: kind for n, kind in kinds if kind is not None and n != STAGING}

    def _names(self, group: Any) -> list[str]:
        listed = h5py().Group(group)
        try:
            return list(listed)
        except H5PY_ERRORS as error:
            raise CorruptDataError(
                f"{self.location}: the group {listed.name!r} cannot be read ({reason_of(error)})"
            ) from error

    def _kind_below(self, group: Any, path: str, name: str) -> NodeKind | None:
        """Return what a link leads to; what cannot be opened is an array, and raises when used."""
        try:
            return node_kind(open_below(group, name, what=f"{self.location}: {path}/{name}"))
        except FormatError:
            return "array"

    def identity(self, path: str) -> Hashable:
        """Return a value that changes whenever something is put in place, or the file changes."""
        with self._shared.lock:
            return None if self.kind(path) is None else self._shared.identity()

    def version(self, path: str) -> Hashable:
        """Return inode, size and times of the file; None if it is not one of the file system."""
        with self._shared.lock:
            return None if self.kind(path) is None else settled(self._shared.state)

    def listing_identity(self, path: str) -> Hashable:
        """Return a value that changes whenever a child of ``path`` does."""
        return self.identity(path)

    def node(self, path: str) -> Hdf5Node | None:
        """Return the group or dataset at ``path``; it stays readable when it is replaced."""
        with self._shared.lock:
            identity = self._shared.identity()
            found = self._get(path)
            kind = node_kind(found)
            if kind is None:
                return None
            held = HeldObject(self._shared, found, self.path_in_file(path))
            return Hdf5Node(self._shared, held, kind, identity, what=f"{self.location}: {path}")

    def close(self) -> None:
        """Close the file, which others may share."""
        self._shared.close()

    @contextmanager
    def element(self, path: str) -> Iterator[Any]:
        """Hand out a group or a dataset as h5py has it, for the length of a block."""
        with self._shared.lock:
            found = self._get(path)
            if found is None:
                raise CorruptDataError(f"{self.location}: {path} is missing")
            yield as_object(found, is_writable=self._shared.is_writable)

    @property
    def index_tree(self) -> WritableZarrTree:
        """The tree of its indexes, beside the file."""
        return index_tree(self._shared.index_store, self._root)

    def marker(self, name: str) -> None:  # noqa: ARG002 - the same for all trees
        """Return nothing: a file of HDF5 is marked with a dataset."""
        return

    def path_in_file(self, path: str) -> str:
        """Return the path of a node from the root of the file."""
        return posixpath.join(self._root, path).rstrip("/") if self._root else path.rstrip("/")

    def _get(self, path: str) -> Any:
        """Return the identifier of what is at a path; None if nothing is."""
        self._shared.refresh()
        what = f"{self.location}: {path or 'the root'}"
        return open_below(self._shared.file.id, self.path_in_file(path) or "/", what=what)


class WritableHdf5Tree(Hdf5Tree):
    """Groups and datasets below one group that can be changed.

    Parameters
    ----------
    packing
        How to pack numbers that are written; by default they are not.
    """

    is_append_only = False

    def __init__(self, shared: Hdf5File, root: str = "", *, packing: Packing | None = None) -> None:
        super().__init__(shared, root)
        self.packing = packing

    def read_only(self) -> Hdf5Tree:
        """Return the same tree, without its changing side."""
        return Hdf5Tree(self._shared, self._root)

    @contextmanager
    def transaction(self) -> Iterator[Hdf5Transaction]:
        """Begin changes; what was not published when the block ends is discarded."""
        self._shared.require_linked()
        self._shared.require_space(0)
        changes = Hdf5Transaction(
            self._shared, self.path_in_file, location=self.location, packing=self.packing
        )
        with write_errors(self.location):
            try:
                yield changes
            except BaseException:
                with suppress(OSError, RuntimeError):  # the first failure says more
                    changes.close()
                raise
            changes.close()

    def packing_as(self, packing: Packing | None) -> WritableHdf5Tree:
        """Return the same tree, which packs what is written so; None leaves it unpacked."""
        return WritableHdf5Tree(self._shared, self._root, packing=packing)

    def batch(self) -> AbstractContextManager[None]:
        """Do nothing: each publication is complete by itself."""
        return nullcontext()

    @contextmanager
    def lock(self) -> Iterator[None]:
        """Exclude other threads; other processes are kept out by HDF5 itself."""
        with self._shared.lock:
            yield

    @contextmanager
    def rebuilt(self, token: str, without: list[str]) -> Iterator[WritableHdf5Tree]:  # noqa: ARG002 - a crash leaves nothing to be found
        """Hand out an empty tree, whose nodes take the places of these at the end, at once.

        At once for this process, which alone has the file open; HDF5 has no atomic changes, so a
        record in the file says what to put back, see `recover`.
        """
        prepared = posixpath.join(STAGING, uuid.uuid4().hex)
        target = WritableHdf5Tree(self._shared, self.path_in_file(prepared), packing=self.packing)
        self._shared.require_space(0)
        with self._shared.lock, write_errors(self.location):
            self._shared.file.require_group(self.path_in_file(prepared))
        try:
            yield target
            with self._shared.lock, self.transaction() as changes:
                changes.adopt(prepared, without)
        except BaseException:
            with suppress(DafError):  # the first failure says more
                self.recover()
            raise
        self.recover()

    def recover(self) -> bool:
        """Clear away what a crashed writer left."""
        with self._shared.lock, write_errors(self.location):
            group = self._get("")
            found = STAGING in self._names(group)  # "in group" raises where that is damaged
            if found:
                root = h5py().Group(group)
                if RECORD in root:
                    put_back(root)
                    self._shared.changes += 1
                    self._shared.flush()
                    root.move(RECORD, f"{STAGING}/{uuid.uuid4().hex}")
                    self._shared.flush()
                del root[STAGING]
                self._shared.flush()
            return found

    def is_half_replaced(self) -> bool:
        """Return whether a writer was stopped while it replaced several nodes; see `recover`."""
        return self.kind(RECORD) is not None

"""The HDF5 tree: groups and datasets below one group of a file, and changes of them.

Changes are prepared in a group aside, and put in place by renaming links.

Source: docs/reference/format.md, "HDF5 files".
"""

from __future__ import annotations

import math
import posixpath
import uuid
from collections.abc import Hashable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from typing import Any, Final
from urllib.parse import quote, unquote

import numpy as np
import pyarrow as pa

from daf_storage import errors
from daf_storage.base import AnyArray, Packing, StorageType, optional_import
from daf_storage.stores import stable, translated
from daf_storage.trees._file_changes import ArrayChanges
from daf_storage.trees._hdf5_array import Hdf5Node
from daf_storage.trees._hdf5_file import (
    H5PY_ERRORS,
    RECORD,
    STAGING,
    STRING_BLOCK,
    Hdf5File,
    HeldObject,
    as_object,
    h5py,
    hdf5_type,
    index_tree,
    node_kind,
    open_below,
    write_errors,
)
from daf_storage.trees._hdf5_output import METADATA_BYTES, string_bytes
from daf_storage.trees._stored_array import NodeKind
from daf_storage.trees._zarr_tree import WritableZarrTree

_HEADER_BYTES: Final = 1 << 13
"""What HDF5 has of a column beside its values lies so near, as a rule."""


class Hdf5Transaction(ArrayChanges):
    """Changes prepared in a group aside; see `TreeTransaction`.

    Putting them in place is renaming a link, which no reader of this process sees half done.
    """

    stores_sparse_strings = True

    def __init__(self, shared: Hdf5File, tree: WritableHdf5Tree) -> None:
        super().__init__(tree)
        self._shared = shared
        self._path_in_file = tree.path_in_file
        self._token = f"{tree.path_in_file(STAGING)}/{uuid.uuid4().hex}"
        self._old_count = 0
        self._moved: list[tuple[str, str]] = []

    def create_group(self, path: str) -> None:
        """Prepare an empty group."""
        with self._changing():
            self._shared.file.require_group(self._prepared(path))

    def mark_group(self, path: str) -> None:
        """Make what is at ``path`` a group, in place; the root of the tree if it is empty."""
        with self._changing():
            self._shared.file.require_group(f"/{self._path_in_file(path)}")

    def write_scalar(self, path: str, values: Any) -> None:
        """Prepare a scalar, given as one element."""
        if isinstance(values, np.ndarray):
            self.write_array(path, values.reshape(()))
        else:
            self.write_strings(path, values, ())

    def write_array(self, path: str, values: AnyArray) -> None:
        """Prepare a numeric array with these values."""
        self.write_blocks(path, values.shape, StorageType.of(values.dtype), [values])

    def write_blocks(
        self,
        path: str,
        shape: tuple[int, ...],
        storage_type: StorageType,
        blocks: Iterable[AnyArray],
    ) -> None:
        """Prepare a numeric array of consecutive ranges of its first dimension."""
        packing, start = self._packing(shape, storage_type), 0
        with self._changing():
            dataset = self._create(path, shape, storage_type, packing)
        for block in blocks:
            if packing is not None:  # else there is room already
                self._shared.require_space(block.nbytes)
            with self._changing():
                _write(dataset, np.asarray(block, storage_type.dtype, order="C"), start)
                self._shared.check_written()
            start += math.prod(block.shape[:1])
        if packing is not None:
            with self._changing():
                dataset.flush()

    def write_strings(self, path: str, strings: pa.Array, shape: tuple[int, ...]) -> None:
        """Prepare an array of strings, given flattened in C order."""
        width = int(np.prod(shape[1:], dtype=object))
        step = max(STRING_BLOCK // max(width, 1), 1)
        try:
            with self._changing():
                dataset = self._shared.file.create_dataset(
                    self._prepared(path), shape=shape, dtype=h5py().string_dtype()
                )
                if not shape:
                    dataset[()] = strings[0].as_py()
            for start in range(0, shape[0] if shape and width else 0, step):
                block = strings.slice(start * width, step * width)
                self._shared.require_space(string_bytes(block))
                values = block.to_numpy(zero_copy_only=False).astype(object, copy=False)
                with self._changing():
                    dataset[start : start + step] = values.reshape(-1, *shape[1:])
                    self._shared.check_written()
        except ValueError as error:
            raise errors.UnsupportedInputError(
                f"{self._tree.location}: {path} cannot be stored in HDF5, whose strings end at the "
                f"first NUL character ({errors.reason_of(error)})"
            ) from error

    def _mapped(
        self, path: str, shape: tuple[int, ...], storage_type: StorageType
    ) -> AnyArray | None:
        size_bytes = int(np.prod(shape, dtype=object)) * storage_type.dtype.itemsize
        with self._changing():
            if not self._shared.can_map:
                return None
            dataset = self._create(path, shape, storage_type)
            if size_bytes == 0:
                return np.empty(shape, storage_type.dtype)
            self._shared.flush()
            data = self._shared.map(dataset, size_bytes, is_writable=True)
        return np.frombuffer(data, storage_type.dtype).reshape(shape)

    def publish(self, path: str, *, replace: bool) -> None:
        """Rename what was prepared at ``path`` into its place."""
        target = self._path_in_file(path)
        with self._shared.lock:
            if not replace and self._tree.kind(path) is not None:
                raise FileExistsError(f"{path} exists")
            with self._changing():
                self._put_in_place(path, target)

    def _put_in_place(self, path: str, target: str) -> None:
        file = self._shared.file
        self.write_aside(path)
        for annotated in [key for key in self._attributes if f"{key}/".startswith(f"{path}/")]:
            prepared = file[self._prepared(annotated)]
            prepared.attrs.update(self._attributes.pop(annotated))
        if target in file:
            self._take_away(target)
        self._move(self._prepared(path), target)
        self._settle()

    def adopt(self, source: str, paths: Iterable[str]) -> None:
        """Put the nodes below ``source`` in place of those of the same paths: all, or none.

        If there is none, the one at the path is taken away.  What was there is recorded until all
        are in place, see `put_back`.
        """
        record = self._path_in_file(RECORD)
        with self._changing():
            file = self._shared.file
            drafted = f"{self._token}/record"
            for path in paths:
                target = self._path_in_file(path)
                if target in file:
                    file[f"{drafted}/old/{quote(path, safe='')}"] = file[target]
                else:
                    file.require_group(f"{drafted}/absent/{quote(path, safe='')}")
            self._move(drafted, record)
            self._settle()
            for path in paths:
                new = self._path_in_file(posixpath.join(source, path))
                target = self._path_in_file(path)
                if target in file:
                    self._take_away(target)
                if new in file:
                    self._move(new, target)
            self._settle(is_last=False)
            self._move(record, f"{self._token}/record")
            self._settle()

    def remove(self, path: str) -> None:
        """Take a node away; what others have open stays readable until they let go."""
        target = self._path_in_file(path)
        with self._changing():
            if target in self._shared.file:
                self._take_away(target)
                self._settle()

    def close(self) -> None:
        """Discard what was not published."""
        with self._changing():
            file = self._shared.file
            if not file.id.valid:
                return
            staging = posixpath.dirname(self._token)
            if self._token in file:
                del file[self._token]
            if staging in file and not len(file[staging]):
                del file[staging]
                self._shared.flush()

    @contextmanager
    def _changing(self) -> Iterator[None]:
        """Hold the lock; what HDF5 reports of a failed write is a `StorageError`."""
        with self._shared.lock, write_errors(self._tree.location):
            yield

    def _packing(self, shape: tuple[int, ...], kind: StorageType) -> Packing | None:
        """Return how an array is packed; HDF5 cannot compress strings."""
        return None if kind.is_string else super()._packing(shape, kind)

    def _take_away(self, target: str) -> None:
        self._shared.file.require_group(self._token)
        self._move(target, f"{self._token}/old-{self._old_count}")
        self._old_count += 1

    def _move(self, source: str, target: str) -> None:
        """Rename a node, until `_settle` or back."""
        folder = posixpath.dirname(target)
        if folder:
            self._shared.file.require_group(folder)
        self._shared.file.move(source, target)
        self._moved.append((source, target))

    def _settle(self, *, is_last: bool = True) -> None:
        """Write what was renamed; where that fails, all is again as it was.

        Parameters
        ----------
        is_last
            Whether it stays so from now on, whatever follows.
        """
        try:
            self._shared.changes += 1
            self._shared.flush()
        except BaseException:
            for source, target in reversed(self._moved):
                self._shared.file.move(target, source)
            self._moved.clear()
            raise
        if is_last:
            self._moved.clear()

    def _prepared(self, path: str) -> str:
        return f"{self._token}/new/{path}"

    def _create(
        self, path: str, shape: tuple[int, ...], kind: StorageType, packing: Packing | None = None
    ) -> Any:
        size_bytes = int(np.prod(shape, dtype=object)) * kind.dtype.itemsize
        self._shared.require_space(METADATA_BYTES if packing is not None else size_bytes)
        h5, options = h5py(), dict[str, Any]()
        if packing is not None:
            options = {"chunks": packing.chunks(shape, kind), **_compression_of(packing)}
        else:
            options["dcpl"] = properties = h5.h5p.create(h5.h5p.DATASET_CREATE)
            properties.set_alloc_time(h5.h5d.ALLOC_TIME_EARLY)
            properties.set_fill_time(h5.h5d.FILL_TIME_ALLOC)
        stored = h5.Datatype(hdf5_type(kind))
        return self._shared.file.create_dataset(self._prepared(path), shape, stored, **options).id


def put_back(root: Any) -> None:
    """Put what `Hdf5Transaction.adopt` has recorded, and did not replace as a whole, back in place.

    Links are made before others are removed: HDF5 deletes what has none.

    Parameters
    ----------
    root
        The group of the tree, as h5py has it.
    """
    for quoted, node in root.get(f"{RECORD}/old", {}).items():
        path = unquote(quoted)
        if path in root and root[path] == node:
            continue
        if path in root:
            root.move(path, f"{STAGING}/{uuid.uuid4().hex}")
        root[path] = node
    for quoted in root.get(f"{RECORD}/absent", {}):
        if unquote(quoted) in root:
            root.move(unquote(quoted), f"{STAGING}/{uuid.uuid4().hex}")


def _write(dataset: Any, values: AnyArray, start: int) -> None:
    """Write a range of the first dimension, if there is one."""
    if not values.size:
        return
    h5s = h5py().h5s
    memory = space = h5s.ALL
    if values.ndim:
        memory, space = h5s.create_simple(values.shape), dataset.get_space()
        space.select_hyperslab((start, *(0,) * (values.ndim - 1)), values.shape)
    kind = StorageType.of(values.dtype)
    data = values.view("u1") if kind is StorageType.BOOL else values
    dataset.write(memory, space, data, mtype=hdf5_type(kind))


def _compression_of(packing: Packing) -> Mapping[str, Any]:
    """Return how h5py compresses what is written; only ``gzip`` is part of every HDF5 library.

    Other filters are optional for h5py: a chunk that does not become smaller is stored as it is.
    """
    if packing.codec == "gzip":
        return {"compression": "gzip", "compression_opts": packing.level, "shuffle": True}
    plugin = optional_import("hdf5plugin", extra="hdf5")
    if packing.codec == "zstd":
        return dict(plugin.Zstd(clevel=packing.level))
    shuffle = getattr(plugin.Blosc, packing.shuffle.upper())
    return dict(plugin.Blosc(cname=packing.compressor, clevel=packing.level, shuffle=shuffle))


class Hdf5Tree:
    """Groups and datasets below one group.

    Parameters
    ----------
    shared
        The open file.
    root
        Path of the group, without a slash at either end; empty for the root of the file.
    """

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
            except errors.FormatError:
                return "array"

    def children(self, path: str) -> dict[str, NodeKind]:
        """Return the groups and datasets directly below ``path``."""
        with self._shared.lock:
            group = self._get(path)
            kind = node_kind(group)
            if kind == "array":
                raise errors.CorruptDataError(
                    f"{self.location}: {path or 'the root'} is a dataset, and should be a group"
                )
            names = [] if kind is None else self._names(group)
            kinds = ((name, self._kind_below(group, path, name)) for name in names)
            return {n: kind for n, kind in kinds if kind is not None and n != STAGING}

    def _kind_below(self, group: Any, path: str, name: str) -> NodeKind | None:
        try:  # not from the root again, for each of many
            return node_kind(open_below(group, name, what=f"{self.location}: {path}/{name}"))
        except errors.FormatError:
            return "array"

    def _names(self, group: Any) -> list[str]:
        listed = h5py().Group(group)
        what = f"{self.location}: the group {listed.name!r} cannot be read"
        with translated(H5PY_ERRORS, errors.CorruptDataError, what):
            return list(listed)

    def look_ahead(self, path: str) -> None:
        """Download the headers of all that is directly below a group, if it is on a server."""
        shared = self._shared
        if shared.is_remote:
            with shared.lock, suppress(*H5PY_ERRORS):
                group = self._get(path)
                if node_kind(group) == "group":
                    below = h5py().Group(group)
                    with shared.whole_trees():
                        found = [below.id.links.get_info(name.encode()) for name in below]
                    hard, size = h5py().h5l.TYPE_HARD, shared.size_bytes()
                    places = [link.u for link in found if link.type == hard and link.u < size]
                    shared.stored([(at, min(at + _HEADER_BYTES, size)) for at in places])

    def identity(self, path: str) -> Hashable:
        """Return a value that changes whenever something is put in place, or the file changes."""
        with self._shared.lock:
            return None if self.kind(path) is None else self._shared.identity()

    def version(self, path: str) -> Hashable:
        """Return inode, size and times of the file; None if it is not one of the file system."""
        with self._shared.lock:
            return None if self.kind(path) is None else stable(self._shared.state)

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
            what = f"{self.location}: {path}"
            return Hdf5Node(self._shared, held, kind, identity, what)

    @property
    def server_version(self) -> tuple[Any, ...] | None:
        """Length, ETag and date of a file on a server; None for any other."""
        return self._shared.server_version

    def close(self) -> None:
        """Close the file, which others may share."""
        self._shared.close()

    @contextmanager
    def element(self, path: str) -> Iterator[Any]:
        """Hand out a group or a dataset as h5py has it, for the length of a block."""
        with self._shared.lock:
            found = self._get(path)
            if found is None:
                raise errors.CorruptDataError(f"{self.location}: {path} is missing")
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
        changes = Hdf5Transaction(self._shared, self)
        try:
            yield changes
        except BaseException:
            with suppress(errors.DafError, OSError, RuntimeError):  # the first failure says more
                changes.close()
            raise
        changes.close()

    def packing_as(self, packing: Packing | None) -> WritableHdf5Tree:
        """Return the same tree, which packs what is written so; None leaves it unpacked."""
        return WritableHdf5Tree(self._shared, self._root, packing=packing)

    def batch(self) -> AbstractContextManager[None]:
        """Do nothing: each publication is complete by itself."""
        return nullcontext()

    def lock(self) -> AbstractContextManager[Any]:
        """Exclude other threads; other processes are kept out by HDF5 itself."""
        return self._shared.lock

    @contextmanager
    def rebuilt(self, without: list[str]) -> Iterator[WritableHdf5Tree]:
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
            with suppress(errors.DafError):  # the first failure says more
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

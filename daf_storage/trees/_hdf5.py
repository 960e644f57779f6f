"""The HDF5 tree: groups and datasets below one group of a file.

Datasets of fixed-size types that lie in the file as they are get mapped, not read through h5py;
chunked and compressed ones are read through it, only the part that is asked for.  The one file that
knows h5py.  Source: docs/reference/format.md, "HDF5 files".
"""

from __future__ import annotations

import math
import os
import posixpath
import uuid
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from typing import Any

import numpy as np
import pyarrow as pa

from daf_storage.base import (
    STAGING_NAME,
    AnyArray,
    ForkLock,
    Packing,
    Span,
    StorageType,
    one_array,
    optional_import,
)
from daf_storage.errors import (
    CorruptDataError,
    DafError,
    FormatError,
    InvalidInputError,
    MissingDependencyError,
    UnsupportedDataError,
    UnsupportedInputError,
)
from daf_storage.stores import (
    Fingerprint,
    allocate,
    check_length,
    file_identity,
    fingerprint,
    is_settled,
    map_range,
)
from daf_storage.trees._free_space import METADATA_BYTES, require_space, string_bytes, write_errors
from daf_storage.trees._hdf5_checks import (
    check_expansion,
    check_links,
    check_source,
    has_all_chunks,
    references_of,
)
from daf_storage.trees._hdf5_heaps import check_heaps
from daf_storage.trees._index_place import index_store, index_tree
from daf_storage.trees._metadata import check_chunk_bytes
from daf_storage.trees._protocol import ArrayInfo, NodeKind, NotFileBacked, fill_blocks
from daf_storage.trees._zarr import WritableZarrTree

STAGING = STAGING_NAME
"""Group in which changes are prepared; exists only while a writer works."""

ALIGNMENT = (1, 8)
"""Every object begins at a multiple of 8 bytes, so that what is mapped is aligned."""


_FIRST_FOREIGN_FILTER = 256
_MAX_ELEMENTS = 2**62

_FOREIGN = (
    OSError,
    RuntimeError,
    ValueError,
    TypeError,
    KeyError,
    IndexError,
    OverflowError,
    MemoryError,
    AttributeError,
    NotImplementedError,
)
"""What h5py raises for data that it cannot read."""
_STRING_BLOCK = 1 << 18  # h5py makes an object of each string


def h5py() -> Any:
    """Return the package h5py."""
    return optional_import("h5py", extra="hdf5")


class Hdf5File:
    """An open file that all trees of this process within it share.

    Parameters
    ----------
    file
        An open ``h5py.File``.
    location
        The file as messages name it.
    file_identity
        What tells the file from any other, if it is one of the file system.
    reopen
        Opens the file once more, if it was opened for reading and for this object alone.  HDF5
        keeps what it has read, also if another program has written into the file since.
    """

    def __init__(
        self,
        file: Any,
        *,
        location: str,
        file_identity: tuple[int, int] = (0, 0),
        reopen: Callable[[], Any] | None = None,
    ) -> None:
        self.file = file
        self.file_identity = file_identity
        self.location = location
        self.lock = ForkLock()
        self._reopen = reopen
        # Asking h5py takes as long as a small read.
        self._is_plain = file.driver in ("sec2", "stdio")
        self._opened_as = self._fingerprint()
        self._least_bytes = 0
        self._note_length()
        self._count = 0
        self._changed: dict[str, int] = {}
        self._changed_below: dict[str, int] = {}
        self.index_store = index_store(file.filename if self.can_map else None, location)
        """Where the indexes of its data sets are."""

    @property
    def is_writable(self) -> bool:
        """Whether the file can be changed."""
        return bool(self.file.mode == "r+")

    def close(self) -> None:
        """Close the file; arrays that were mapped stay valid."""
        with self.lock, write_errors(self.location):
            self._reopen = None
            self.file.close()

    def require_space(self, size_bytes: int) -> None:
        """Raise ``StorageFullError`` unless there is room for some bytes more."""
        with self.lock:
            status = self._status()
            if status is not None:
                pending = max(int(self.file.id.get_filesize()) - status.st_size, 0)
                handle = self.file.id.get_vfd_handle()
                require_space(handle, size_bytes, self.location, pending_bytes=pending)

    def refresh(self) -> None:
        """Let go of what HDF5 remembers of the file if another program has written into it."""
        with self.lock:
            if self._reopen is None or self._fingerprint() in (None, self._opened_as):
                return
            status = os.stat(self.file.filename)
            if (status.st_dev, status.st_ino) != self.file_identity:
                return  # another file has this name by now; this one stays as it is
            self.file.close()
            self.file = self._reopen()
            self._opened_as = self._fingerprint()
            self._note_length()

    def flush(self) -> None:
        """Write what HDF5 has in memory."""
        with self.lock:
            self.file.flush()
            self._note_length()

    def check_length(self, *, what: str) -> None:
        """Raise if another program has cut the file: HDF5 reads zeros where there is nothing."""
        least_bytes = self._least_bytes  # before the length, which a thread of this process changes
        status = self._status()
        if status is None or status.st_size >= least_bytes:
            return
        with self.lock:
            status = self._status()
            if status is not None:
                check_length(status.st_size, self._least_bytes, what=what)

    def _note_length(self) -> None:
        """Remember how long the file is; one that was passed may change without this object."""
        status = self._status() if any(self.file_identity) else None
        self._least_bytes = 0 if status is None else status.st_size

    def state(self) -> Hashable:
        """Return what changes whenever somebody writes into the file, also in place."""
        status = self._status()
        return None if status is None else file_identity(status)

    def fingerprint(self) -> list[int] | None:
        """Return inode, size and times of the file; None while it is too new to tell by them."""
        status = self._status()
        return None if status is None or not is_settled(status) else list(fingerprint(status))

    def _fingerprint(self) -> Fingerprint | None:
        status = self._status()
        return None if status is None else fingerprint(status)

    def _status(self) -> os.stat_result | None:
        """Return the state of the open file; None if it is not one of the file system."""
        return os.fstat(self.file.id.get_vfd_handle()) if self.can_map else None

    @property
    def can_map(self) -> bool:
        """Whether the file is a plain file of the file system."""
        return self._is_plain and bool(self.file.id.valid)

    def map(self, dataset: Any, size_bytes: int, *, is_writable: bool = False) -> memoryview:
        """Map the bytes of a contiguous dataset, given as h5py's low-level object.

        It is kept open as long as a view lives: HDF5 reuses the space of what was deleted only
        when nobody has it open.  The file is opened once more for that: a mapping through HDF5's
        own descriptor would keep HDF5's lock as long as a view lives.
        """
        offset = dataset.get_offset()
        descriptor = self._reopened(os.O_RDWR if is_writable else os.O_RDONLY)
        try:
            if is_writable:
                allocate(descriptor, offset, size_bytes)
            return map_range(
                descriptor,
                offset,
                size_bytes,
                keep=dataset,
                what=self.location,
                is_writable=is_writable,
            )
        finally:
            os.close(descriptor)

    def _reopened(self, flags: int) -> int:
        own = self.file.id.get_vfd_handle()
        descriptor = os.open(self.file.filename, flags | os.O_CLOEXEC)
        if os.path.samestat(os.fstat(descriptor), os.fstat(own)):
            return descriptor
        os.close(descriptor)
        return os.dup(int(own))  # another file has this name by now

    def whole(self) -> AnyArray:
        """Map the whole file, to look at what HDF5 keeps in it."""
        descriptor = self._reopened(os.O_RDONLY)
        try:
            size_bytes = os.fstat(descriptor).st_size
            data = map_range(descriptor, 0, size_bytes, keep=None, what=self.location)
        finally:
            os.close(descriptor)
        return np.frombuffer(data, np.uint8)

    def note_change(self, path: str) -> None:
        """Remember that what is at and below ``path`` is not what it was."""
        self._count += 1
        self._changed[path] = self._count
        while True:
            self._changed_below[path] = self._count
            if not path:
                return
            path = posixpath.dirname(path)

    def version(self, path: str) -> Hashable:
        """Return a value that changes whenever something at, below or above ``path`` does."""
        below = self._changed_below.get(path, 0)
        above = 0
        while True:
            above = max(above, self._changed.get(path, 0))
            if not path:
                return id(self), below, above
            path = posixpath.dirname(path)


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

    @property
    def location(self) -> str:
        """Where the tree is, for messages."""
        location = self._shared.location
        return f"{location}#/{self._root}" if self._root else location

    def kind(self, path: str) -> NodeKind | None:
        """Return what is at ``path``; None if it is neither a group nor a dataset.

        What cannot be opened is an array: the reason is raised when it is used.
        """
        with self._shared.lock:
            try:
                return _kind(self._get(path))
            except FormatError:
                return "array"

    def children(self, path: str) -> dict[str, NodeKind]:
        """Return the groups and datasets directly below ``path``."""
        with self._shared.lock:
            group = self._get(path)
            if _kind(group) != "group":
                return {}
            kinds = ((name, self._kind_below(group, path, name)) for name in self._names(group))
            return {n: kind for n, kind in kinds if kind is not None and n != STAGING}

    def _names(self, group: Any) -> list[str]:
        try:
            return list(group)
        except _FOREIGN as error:
            raise CorruptDataError(
                f"{self.location}: the group {group.name!r} cannot be read ({_reason(error)})"
            ) from error

    def _kind_below(self, group: Any, path: str, name: str) -> NodeKind | None:
        """Return what a link leads to; what cannot be opened is an array, and raises when used."""
        try:
            return _kind(_opened(group, name, what=f"{self.location}: {path}/{name}"))
        except FormatError:
            return "array"

    def identity(self, path: str) -> Hashable:
        """Return a value that changes whenever a child of ``path`` is put in place or removed."""
        with self._shared.lock:
            if _kind(self._get(path)) is None:
                return None
            return self._shared.version(self.path_in_file(path)), self._shared.state()

    def listing_identity(self, path: str) -> Hashable:
        """Return a value that changes whenever a child of ``path`` does."""
        return self.identity(path)

    def node(self, path: str) -> Hdf5Node | None:
        """Return the group or dataset at ``path``; it stays readable when it is replaced."""
        with self._shared.lock:
            found = self._get(path)
            kind = _kind(found)
            if kind is None:
                return None
            what = f"{self.location}: {path}"
            version = self._shared.version(self.path_in_file(path))
            return Hdf5Node(self._shared, found, kind, version, what=what)

    @property
    def index_tree(self) -> WritableZarrTree:
        """The tree of its indexes, beside the file."""
        return index_tree(self._shared.index_store, self._root)

    def marker(self, name: str) -> None:  # noqa: ARG002 - the same for all trees
        """Return nothing: a file of HDF5 is marked with a dataset."""
        return

    def path_in_file(self, path: str) -> str:
        """Return the path of a node from the root of the file."""
        return posixpath.join(self._root, path).rstrip("/")

    def _get(self, path: str) -> Any:
        name = self.path_in_file(path)
        self._shared.refresh()
        if not self._shared.file.id.valid:
            raise InvalidInputError(f"{self.location}: the file was closed; open it again")
        what = f"{self.location}: {path or 'the root'}"
        return _opened(self._shared.file, name or "/", what=what)


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
        self._shared.require_space(0)
        changes = Hdf5Transaction(self, self._shared)
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

        At once for this process, which alone has the file open; HDF5 has no atomic changes.
        """
        prepared = posixpath.join(STAGING, uuid.uuid4().hex)
        target = WritableHdf5Tree(self._shared, self.path_in_file(prepared), packing=self.packing)
        self._shared.require_space(0)
        with self._shared.lock, write_errors(self.location):
            self._shared.file.require_group(self.path_in_file(prepared))
        try:
            yield target
            with self._shared.lock, self.transaction() as changes:
                for path in without:
                    changes.adopt(posixpath.join(prepared, path), path)
        except BaseException:
            with suppress(DafError):  # the first failure says more
                self.recover()
            raise
        self.recover()

    def recover(self) -> bool:
        """Clear away what a crashed writer left."""
        with self._shared.lock, write_errors(self.location):
            group = self._get("")
            found = STAGING in group
            if found:
                del group[STAGING]
                self._shared.flush()
            return found


class Hdf5Node:
    """A group or dataset, held open; see `Node`."""

    def __init__(
        self, shared: Hdf5File, found: Any, kind: NodeKind, version: Hashable, *, what: str
    ) -> None:
        self.kind = kind
        self.identity: Hashable = (version, shared.state())
        self.version = version
        """What changes whenever this process puts another one in its place."""
        self._shared = shared
        self._held = _Held(shared, found)
        self._what = what

    def is_same(self, other: object) -> bool:
        """Return whether another node is the very same stored one."""
        return isinstance(other, Hdf5Node) and self.version == other.version

    def array(self, name: str = "") -> Hdf5Array | None:
        """Return this dataset, or the one of that name below this group."""
        what = f"{self._what}/{name}" if name else self._what
        with self._shared.lock:
            if not name:
                found = self._held.get() if self.kind == "array" else None
            else:
                own = self._held.get()
                found = _opened(own, name, what=what) if self.kind == "group" else None
            if found is None or _kind(found) != "array":
                return None
            return Hdf5Array(self._shared, found, what=what)

    def attribute(self, name: str) -> Any:
        """Return an attribute of this group or dataset; None if it has none of this name."""
        with self._shared.lock:
            try:
                return self._held.get().attrs.get(name)
            except (OSError, RuntimeError, ValueError, TypeError, KeyError) as error:
                raise CorruptDataError(
                    f"{self._what}: the attribute {name!r} cannot be read ({_reason(error)})"
                ) from error


class _Held:
    """A group or dataset that is held open; opened again where the file was, see `Hdf5File`."""

    def __init__(self, shared: Hdf5File, found: Any) -> None:
        self._shared = shared
        self._object = found
        self._name = found.name

    def get(self) -> Any:
        """Return it."""
        if self._object.id.valid:
            return self._object
        if not self._shared.file.id.valid:
            raise InvalidInputError(f"{self._shared.location}: the file was closed; open it again")
        with self._shared.lock:
            self._object = self._shared.file[self._name]
        return self._object


class Hdf5Array(NotFileBacked):
    """One dataset; see `StoredArray`."""

    def __init__(self, shared: Hdf5File, dataset: Any, *, what: str) -> None:
        self._shared = shared
        self._held = _Held(shared, dataset)
        self._what = what
        try:
            self.info = _info(shared, dataset, what)
        except DafError:
            raise
        except _FOREIGN as error:
            raise CorruptDataError(f"{what}: cannot be read ({_reason(error)})") from error
        self._is_checked = False

    @property
    def _dataset(self) -> Any:
        return self._held.get()

    def fingerprint(self) -> list[int] | None:
        """Return what tells the file from what it was."""
        with self._shared.lock:
            return self._shared.fingerprint()

    def check_stored(self, *, is_complete: bool = False) -> None:
        """Raise if there is no room in the file for the elements, by what it says of its size."""
        with self._shared.lock:
            dataset = self._dataset
            item_bytes = int(self._attempt(lambda: dataset.id.get_type().get_size()))
            is_needed = is_complete or dataset.chunks is None
            if is_needed and not self._attempt(
                lambda: has_all_chunks(dataset, self.info.shape, item_bytes)
            ):
                raise CorruptDataError(
                    f"{self._what}: the shape {list(self.info.shape)} needs more elements than are "
                    "stored"
                )
            offset = self._attempt(dataset.id.get_offset)
            if offset is not None:
                self._check_size(offset, self.info.size * item_bytes)

    def _check_size(self, offset: int, size_bytes: int) -> None:
        """Raise if the file ends before the elements do."""
        available = self._shared.file.id.get_filesize()
        if offset + size_bytes > available:
            raise CorruptDataError(
                f"{self._what}: the file is truncated: {size_bytes:,} bytes at {offset:,} were "
                f"recorded, and the file has {available:,}"
            )

    def _check_heaps(self) -> None:
        """Check all that strings of variable length refer to, once."""
        dataset = self._dataset
        h5 = h5py()
        kind = dataset.id.get_type()
        is_variable = kind.get_class() == h5.h5t.STRING and kind.is_variable_str()
        sizes = self._shared.file.id.get_create_plist().get_sizes()
        if self._is_checked or not is_variable or not self._shared.can_map or sizes != (8, 8):
            return
        with self._shared.lock:
            self._shared.check_length(what=self._what)
            if self._shared.is_writable:
                self._shared.flush()
            file = self._shared.whole()
            base = int(self._shared.file.userblock_size)
            total = 0
            for references in references_of(dataset, file, what=self._what):
                total += check_heaps(file, references, base=base, what=self._what)
                if total > file.size:
                    raise CorruptDataError(
                        f"{self._what}: its strings are said to have {total:,} bytes together, "
                        f"more than the file"
                    )
        self._is_checked = True

    def read(self) -> AnyArray:
        """Return all elements; a read-only view of the mapped file where that is possible."""
        if self.info.is_mappable:
            return self._mapped()
        self._check_expansion(Span(0, self.info.shape[0] if self.info.shape else 1))
        return self._converted(self._attempt(lambda: self._dataset[()]))

    def read_rows(self, span: Span) -> AnyArray:
        """Return a range of the first dimension; of a chunked dataset, only its chunks."""
        if self.info.is_mappable:
            return self._mapped()[span.slice]
        self._check_expansion(span)
        return self._converted(self._attempt(lambda: self._dataset[span.slice]))

    def read_spans(self, spans: list[Span], within: Span | None = None) -> list[AnyArray]:
        """Return several ranges of the first dimension."""
        if within is None:
            return [self.read_rows(span) for span in spans]
        if self.info.is_mappable:
            return [self.read_rows(span)[:, within.slice] for span in spans]
        for span in spans:
            self._check_expansion(span)
        return [
            self._converted(
                self._attempt(lambda rows=span.slice: self._dataset[rows, within.slice])
            )
            for span in spans
        ]

    def read_strings(self) -> pa.StringArray | pa.LargeStringArray:
        """Return all strings, flattened in C order."""
        self._check_expansion(Span(0, self.info.shape[0] if self.info.shape else 1))
        self._attempt(self._check_heaps)
        strings = self._dataset.asstr()
        n_rows = self.info.shape[0] if self.info.shape else 0
        step = max(_STRING_BLOCK * n_rows // max(self.info.size, 1), 1)
        picks: list[Any] = [slice(n, n + step) for n in range(0, n_rows, step)]
        try:
            blocks = [
                pa.array(self._objects(strings, pick), pa.string())
                for pick in (picks if self.info.shape else [()])
            ]
            return one_array(pa.chunked_array(blocks, pa.string()))
        except (pa.ArrowException, UnicodeDecodeError, UnicodeEncodeError) as error:
            raise CorruptDataError(
                f"{self._what}: the strings are not UTF-8 ({_reason(error)})"
            ) from error

    def _objects(self, strings: Any, pick: Any) -> AnyArray:
        """Return a range of the strings, in one dimension."""
        return np.asarray(self._attempt(lambda: strings[pick]), dtype=object).reshape(-1)

    def _mapped(self) -> AnyArray:
        dtype = self.info.storage_type.dtype
        size_bytes = self.info.size * dtype.itemsize
        with self._shared.lock:
            self._check_size(self._dataset.id.get_offset(), size_bytes)
            data = self._shared.map(self._dataset.id, size_bytes)
        return np.frombuffer(data, dtype).reshape(self.info.shape)

    def _converted(self, values: Any) -> AnyArray:
        found: AnyArray = np.asarray(values).astype(self.info.storage_type.dtype, copy=False)
        found.flags.writeable = False
        return found

    def _check_expansion(self, rows: Span) -> None:
        dataset = self._dataset
        self._attempt(lambda: check_expansion(dataset, rows, what=self._what))

    def _attempt(self, read: Any) -> Any:
        held = self._dataset
        self._shared.check_length(what=self._what)
        try:
            return read()
        except DafError:
            raise
        except UnicodeDecodeError as error:
            raise CorruptDataError(
                f"{self._what}: the strings are not UTF-8 ({_reason(error)})"
            ) from error
        except _FOREIGN as error:
            if not held.id.valid and self._shared.file.id.valid:  # the file was opened again
                return self._attempt(read)
            reason = _reason(error)
            if "filter" in reason.lower():
                raise UnsupportedDataError(
                    f"{self._what}: the dataset is stored with a filter that is not available here "
                    f"({reason}); install 'daf-query[hdf5]' with hdf5plugin, or rewrite the dataset"
                ) from error
            raise CorruptDataError(f"{self._what}: cannot be read ({reason})") from error


class Hdf5Transaction:
    """Changes prepared in a group aside; see `TreeTransaction`.

    Putting them in place is renaming a link, which no reader of this process sees half done.
    """

    stores_sparse_strings = True

    def __init__(self, tree: WritableHdf5Tree, shared: Hdf5File) -> None:
        self._tree = tree
        self._shared = shared
        self._token = f"{tree.path_in_file(STAGING)}/{uuid.uuid4().hex}"
        self._old_count = 0
        self._buffers: dict[str, tuple[Any, AnyArray]] = {}
        self._attributes: dict[str, Mapping[str, str]] = {}

    def mark(self, name: str, numbers: tuple[int, ...]) -> None:
        """Mark the root with a few numbers."""
        self.write_array(name, np.array(numbers, dtype=np.uint8))
        self.publish(name, replace=False)

    def annotate(self, path: str, attributes: Mapping[str, str]) -> None:
        """Give attributes to the group or dataset that is prepared at ``path``."""
        self._attributes[path] = attributes

    def create_group(self, path: str) -> None:
        """Prepare an empty group."""
        with self._shared.lock:
            self._shared.file.require_group(self._prepared(path))

    def mark_group(self, path: str) -> None:
        """Make what is at ``path`` a group, in place; the root of the tree if it is empty."""
        with self._shared.lock:
            self._shared.file.require_group(f"/{self._tree.path_in_file(path)}")

    def write_scalar(self, path: str, values: Any) -> None:
        """Prepare a scalar, given as one element."""
        if isinstance(values, np.ndarray):
            self.write_array(path, values.reshape(()))
        else:
            self.write_strings(path, values, ())

    def write_array(self, path: str, values: AnyArray) -> None:
        """Prepare a numeric array with these values."""
        kind = StorageType.of(values.dtype)
        if self.packs(values.shape, kind):
            self.write_blocks(path, values.shape, kind, [values])
            return
        with self._shared.lock:
            dataset = self._create(path, values.shape, kind)
            if values.size:
                _write(dataset, np.ascontiguousarray(values, kind.dtype).reshape(values.shape))

    def packs(self, shape: tuple[int, ...], storage_type: StorageType) -> bool:
        """Return whether an array of this kind would be packed; HDF5 cannot compress strings."""
        packing = self._tree.packing
        if packing is None or storage_type.is_string:
            return False
        return packing.chunks(shape, storage_type) is not None

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
        with self._shared.lock:
            dataset = self._create(path, shape, storage_type, packing)
        start = 0
        for block in blocks:
            self._shared.require_space(block.nbytes)
            with self._shared.lock:
                _write_part(dataset, start, np.ascontiguousarray(block, storage_type.dtype))
            start += len(block)
        with self._shared.lock:
            dataset.flush()

    def adopt_array(
        self,
        path: str,  # noqa: ARG002 - see below
        shape: tuple[int, ...],  # noqa: ARG002
        storage_type: StorageType,  # noqa: ARG002
        descriptor: int,  # noqa: ARG002
        *,
        link: bool,  # noqa: ARG002
    ) -> bool:
        """Do nothing: all datasets are in one file."""
        return False

    def write_strings(self, path: str, strings: pa.Array, shape: tuple[int, ...]) -> None:
        """Prepare an array of strings, given flattened in C order."""
        width = int(np.prod(shape[1:], dtype=object))
        step = max(_STRING_BLOCK // max(width, 1), 1)
        try:
            with self._shared.lock:
                dataset = self._shared.file.create_dataset(
                    self._prepared(path), shape=shape, dtype=h5py().string_dtype()
                )
            if not shape:
                with self._shared.lock:
                    dataset[()] = strings[0].as_py()
            for start in range(0, shape[0] if shape and width else 0, step):
                block = strings.slice(start * width, step * width)
                self._shared.require_space(string_bytes(block))
                values = block.to_numpy(zero_copy_only=False).astype(object, copy=False)
                with self._shared.lock:
                    dataset[start : start + step] = values.reshape(-1, *shape[1:])
        except ValueError as error:
            raise UnsupportedInputError(
                f"{self._tree.location}: {path} cannot be stored in HDF5, whose strings end at the "
                f"first NUL character ({_reason(error)})"
            ) from error

    def reserve_array(
        self, path: str, shape: tuple[int, ...], storage_type: StorageType
    ) -> AnyArray:
        """Prepare a numeric array of zeros and return it, mapped, to be filled in place."""
        size_bytes = int(np.prod(shape, dtype=object)) * storage_type.dtype.itemsize
        with self._shared.lock:
            dataset = self._create(path, shape, storage_type)
            if size_bytes == 0:
                return np.empty(shape, storage_type.dtype)
            if not self._shared.can_map:
                values = np.zeros(shape, storage_type.dtype)
                self._buffers[path] = (dataset, values)
                return values
            self._shared.flush()
            data = self._shared.map(dataset, size_bytes, is_writable=True)
        return np.frombuffer(data, storage_type.dtype).reshape(shape)

    def publish(self, path: str, *, replace: bool) -> None:
        """Rename what was prepared at ``path`` into its place."""
        target = self._tree.path_in_file(path)
        with self._shared.lock:
            file = self._shared.file
            if target in file and not replace:
                raise FileExistsError(f"{path} exists")
            for filled in [key for key in self._buffers if f"{key}/".startswith(f"{path}/")]:
                _write(*self._buffers.pop(filled))
            self._write_attributes(path)
            if target in file:
                self._take_away(target)
            if posixpath.dirname(target):
                file.require_group(posixpath.dirname(target))
            file.move(self._prepared(path), target)
            self._shared.note_change(target)
            self._shared.flush()

    def adopt(self, source: str, path: str) -> None:
        """Put a node that is elsewhere in the tree in place of the one at ``path``."""
        target = self._tree.path_in_file(path)
        with self._shared.lock:
            if target in self._shared.file:
                self._take_away(target)
            self._shared.file.move(self._tree.path_in_file(source), target)
            self._shared.note_change(target)
            self._shared.flush()

    def remove(self, path: str) -> None:
        """Take a node away; what others have open stays readable until they let go."""
        target = self._tree.path_in_file(path)
        with self._shared.lock:
            if target in self._shared.file:
                self._take_away(target)
                self._shared.note_change(target)
                self._shared.flush()

    def close(self) -> None:
        """Discard what was not published."""
        with self._shared.lock:
            file = self._shared.file
            if not file.id.valid:
                return
            staging = posixpath.dirname(self._token)
            if self._token in file:
                del file[self._token]
            if staging in file and not len(file[staging]):
                del file[staging]
                self._shared.flush()

    def _write_attributes(self, path: str) -> None:
        """Attach the attributes of what was prepared at and below a path."""
        for annotated in [key for key in self._attributes if f"{key}/".startswith(f"{path}/")]:
            prepared = self._shared.file[self._prepared(annotated)]
            prepared.attrs.update(self._attributes.pop(annotated))

    def _take_away(self, target: str) -> None:
        self._shared.file.require_group(self._token)
        self._shared.file.move(target, f"{self._token}/old-{self._old_count}")
        self._old_count += 1

    def _prepared(self, path: str) -> str:
        return f"{self._token}/new/{path}"

    def _create(
        self,
        path: str,
        shape: tuple[int, ...],
        kind: StorageType,
        packing: Packing | None = None,
    ) -> Any:
        size_bytes = int(np.prod(shape, dtype=object)) * kind.dtype.itemsize
        self._shared.require_space(METADATA_BYTES if packing is not None else size_bytes)
        h5 = h5py()
        properties = h5.h5p.create(h5.h5p.DATASET_CREATE)
        links = h5.h5p.create(h5.h5p.LINK_CREATE)
        links.set_create_intermediate_group(True)
        if packing is None:
            properties.set_layout(h5.h5d.CONTIGUOUS)
            properties.set_alloc_time(h5.h5d.ALLOC_TIME_EARLY)
            properties.set_fill_time(h5.h5d.FILL_TIME_ALLOC)
        else:
            properties.set_chunk(packing.chunks(shape, kind))
            _set_filters(properties, packing)
        space = h5.h5s.create_simple(shape) if shape else h5.h5s.create(h5.h5s.SCALAR)
        name = self._prepared(path).encode()
        return h5.h5d.create(
            self._shared.file.id, name, _type_of(kind), space, dcpl=properties, lcpl=links
        )


def _write(dataset: Any, values: AnyArray) -> None:
    every = h5py().h5s.ALL
    if values.dtype == np.bool_:
        dataset.write(every, every, values.view("u1"), mtype=_type_of(StorageType.BOOL))
    else:
        dataset.write(every, every, values)


def _write_part(dataset: Any, start: int, values: AnyArray) -> None:
    """Write a range of the first dimension."""
    h5s = h5py().h5s
    space = dataset.get_space()
    space.select_hyperslab((start, *(0,) * (values.ndim - 1)), values.shape)
    kind = StorageType.of(values.dtype)
    data = values.view("u1") if kind is StorageType.BOOL else values
    dataset.write(h5s.create_simple(values.shape), space, data, mtype=_type_of(kind))


def _set_filters(properties: Any, packing: Packing) -> None:
    """Compress what is written; only ``gzip`` is part of every HDF5 library.

    Optional means that a chunk which does not become smaller is stored as it is; if the filter were
    mandatory, that would be an error, and one that HDF5 meets when it is too late to tell it.
    """
    if packing.codec == "gzip":
        properties.set_shuffle()
        properties.set_deflate(packing.level)
        return
    plugin = optional_import("hdf5plugin", extra="hdf5")
    if packing.codec == "zstd":
        options = plugin.Zstd(clevel=packing.level)
    else:
        name = packing.codec.removeprefix("blosc-")
        options = plugin.Blosc(cname=name, clevel=packing.level, shuffle=plugin.Blosc.BITSHUFFLE)
    properties.set_filter(
        options["compression"], h5py().h5z.FLAG_OPTIONAL, tuple(options["compression_opts"])
    )


def _opened(group: Any, name: str, *, what: str) -> Any:
    """Return what is at a path below a group, as long as it is in the same file; None if absent."""
    check_links(group, name, what=what)
    try:
        return group.get(name)
    except _FOREIGN as error:
        raise CorruptDataError(f"{what} cannot be read ({_reason(error)})") from error


def _info(shared: Hdf5File, dataset: Any, what: str) -> ArrayInfo:
    """Return the metadata of a dataset."""
    storage_type = _storage_type(dataset, what)
    check_source(dataset, what=what)
    shape = tuple(int(n) for n in dataset.shape or ())
    if math.prod(max(n, 1) for n in shape) > _MAX_ELEMENTS:
        raise CorruptDataError(f"{what}: the dataset is said to have the shape {list(shape)}")
    chunks = tuple(max(int(c), 1) for c in dataset.chunks or shape)
    if dataset.chunks:
        _load_filters(dataset)
        item_bytes = int(dataset.id.get_type().get_size())
        check_chunk_bytes(shape, chunks, item_bytes, what=what)
    return ArrayInfo(
        shape=shape,
        storage_type=storage_type,
        chunks=chunks,
        is_mappable=shared.can_map and _is_plain(dataset, storage_type),
    )


def _load_filters(dataset: Any) -> None:
    """Load the package that has the filters which are not part of every HDF5 library."""
    properties = dataset.id.get_create_plist()
    numbers = [properties.get_filter(n)[0] for n in range(properties.get_nfilters())]
    if any(number >= _FIRST_FOREIGN_FILTER for number in numbers):
        with suppress(MissingDependencyError):  # reading names the filter, and the package
            optional_import("hdf5plugin", extra="hdf5")


def _kind(found: Any) -> NodeKind | None:
    if isinstance(found, h5py().Group):
        return "group"
    return "array" if isinstance(found, h5py().Dataset) else None


def _type_of(kind: StorageType) -> Any:
    """Return the HDF5 type of the stored elements; Bool is a bit field of one byte."""
    h5t = h5py().h5t
    return h5t.NATIVE_B8 if kind is StorageType.BOOL else h5t.py_create(kind.dtype)


def _storage_type(dataset: Any, what: str) -> StorageType:
    h5 = h5py()
    stored = dataset.id.get_type()
    if dataset.shape is None:
        raise UnsupportedDataError(f"{what}: the dataset is empty: it has not even a shape")
    if stored.get_class() == h5.h5t.BITFIELD and stored.get_size() == 1:
        return StorageType.BOOL
    if h5.check_string_dtype(dataset.dtype) is not None:
        return StorageType.STRING
    found = None if dataset.dtype.kind not in "biuf" else StorageType.from_numpy(dataset.dtype)
    if found is None:
        raise UnsupportedDataError(
            f"{what}: the dataset has the type {dataset.dtype}; Daf has Bool, Int8 to Int64, "
            "UInt8 to UInt64, Float32, Float64 and strings"
        )
    return found


def _is_plain(dataset: Any, storage_type: StorageType) -> bool:
    """Return whether the elements lie in the file as they are in memory, in one piece."""
    if storage_type.is_string or dataset.id.get_offset() is None:
        return False
    return bool(storage_type is StorageType.BOOL or dataset.dtype == storage_type.dtype)


def _reason(error: BaseException) -> str:
    return " ".join(str(error).split()) or type(error).__name__

"""HDF5 files that trees share, their objects as h5py has them, and where their indexes are.

Indexes are in a Zarr directory beside the file: they can be made again from the data, so no failed
write of theirs may harm it.  Of a file on a server or in a bucket, HDF5 reads metadata through a
file object that downloads blocks; the chunks of datasets, and heaps of strings, are downloaded side
by side and decoded as those of a file on the disk are.

Files are untrusted: HDF5 follows links into other files, waits for named pipes among them, and ends
the process where a type was damaged.  So nothing is opened before it was looked at.
"""

from __future__ import annotations

import atexit
import functools
import hashlib
import io
import mmap
import os
import posixpath
import re
import weakref
from collections.abc import Callable, Hashable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, NamedTuple
from urllib.parse import quote

import numpy as np

from daf_storage.base import (
    STAGING_NAME,
    AnyArray,
    ForkLock,
    StorageType,
    new_chunk_cache,
    optional_import,
    paused_collection,
)
from daf_storage.errors import (
    CorruptDataError,
    DafError,
    ForkedProcessError,
    InvalidInputError,
    NotADafError,
    SourceNotFoundError,
    UnsupportedDataError,
    reason_of,
)
from daf_storage.stores import (
    DirectoryStore,
    MemoryStore,
    ReadEstimate,
    RemoteFiles,
    allocate,
    check_length,
    check_linked,
    check_own,
    estimate_ranges,
    file_identity,
    fingerprint,
    inode_of,
    map_file,
    os_errors,
    stable_fingerprint,
    translated,
)
from daf_storage.trees._hdf5_output import OutputFile, OutputLock, require_space
from daf_storage.trees._stored_array import NodeKind
from daf_storage.trees._zarr_tree import WritableZarrTree

STAGING = STAGING_NAME
"""Group in which changes are prepared; exists only while a writer works."""

RECORD = f"{STAGING}/replaced"
"""Group of what was in the place of nodes that are replaced together, until all of them are."""

ALIGNMENT = (1, 8)
"""Every object begins at a multiple of 8 bytes, so that what is mapped is aligned."""

H5PY_ERRORS = (
    OSError,
    RuntimeError,
    ValueError,
    TypeError,
    KeyError,
    IndexError,
    OverflowError,
    MemoryError,
    AttributeError,
)
"""What h5py raises for data that it cannot read."""

STRING_BLOCK = 1 << 18  # h5py makes an object of each string

_MAX_LINKS: Final = 16
_CATEGORIES: Final = "categories"
"""The attribute by which anndata finds the categories of an old column: a reference."""
_ENCODED: Final = 2
"""So many bytes come before a type where HDF5 encodes it."""
_VLEN_KIND, _VLEN_STRING = 0xF, 1
"""Of what a type of variable length is: 0 says a sequence, 1 a string."""


@functools.cache
def h5py() -> Any:
    """Return the package h5py."""
    return optional_import("h5py", extra="hdf5")


def node_kind(item: Any) -> NodeKind | None:
    """Return what an identifier of h5py stands for; None for what is neither group nor dataset."""
    if isinstance(item, h5py().h5g.GroupID):
        return "group"
    return "array" if isinstance(item, h5py().h5d.DatasetID) else None


def as_object(found: Any, *, is_writable: bool) -> Any:
    """Return what h5py makes of an identifier."""
    kind = node_kind(found)
    if kind == "group":
        return h5py().Group(found)
    if kind == "array":
        return h5py().Dataset(found, readonly=not is_writable)
    return h5py().Datatype(found)


# Types.


class ElementType(NamedTuple):
    """A type of HDF5."""

    dtype: np.dtype[Any]
    """What h5py makes of it; of a bit field of one byte, bool."""
    storage_type: StorageType | None
    """What it is in Daf, if it has a place there."""
    is_native: bool
    """Whether the dtype says all of how numbers are stored, bit by bit."""


def element_type_of(stored: Any) -> ElementType:
    """Return what there is to know of a type, given by its identifier."""
    h5 = h5py()
    if stored.get_class() == h5.h5t.BITFIELD and stored.get_size() == 1:
        return ElementType(np.dtype(bool), StorageType.BOOL, is_native=True)
    dtype = stored.dtype
    if h5.check_string_dtype(dtype) is not None:
        return ElementType(dtype, StorageType.STRING, is_native=False)
    storage_type = None if dtype.kind not in "biuf" else StorageType.from_numpy(dtype)
    is_native = storage_type is not None and stored == h5.h5t.py_create(dtype, logical=True)
    return ElementType(dtype, storage_type, is_native=bool(is_native))


def filters_of(properties: Any) -> tuple[int, ...]:
    return tuple(properties.get_filter(n)[0] for n in range(properties.get_nfilters()))


def hdf5_type(storage_type: StorageType) -> Any:
    """Return the HDF5 type of the stored elements; Bool is a bit field of one byte."""
    h5t = h5py().h5t
    return h5t.NATIVE_B8 if storage_type is StorageType.BOOL else h5t.py_create(storage_type.dtype)


def check_type(stored: Any, what: str) -> None:
    """Raise if a type is one that HDF5 cannot convert: it ends the process where it tries.

    Parameters
    ----------
    stored
        The identifier of a type that was read from a file.

    Raises
    ------
    CorruptDataError
        A type of variable length, or one within, is neither a sequence nor a string.
    """
    h5t = h5py().h5t
    kind = stored.get_class()
    if kind == h5t.COMPOUND:
        for number in range(stored.get_nmembers()):
            check_type(stored.get_member_type(number), what)
    elif kind in (h5t.VLEN, h5t.ARRAY):
        if kind == h5t.VLEN and stored.encode()[_ENCODED + 1] & _VLEN_KIND > _VLEN_STRING:
            raise CorruptDataError(f"{what} has a type that HDF5 does not have; it was damaged")
        check_type(stored.get_super(), what)


# What leads out of the file.


def open_below(group: Any, name: str, *, what: str) -> Any:
    """Return the identifier of what is at a path below a group, in the same file; None if absent.

    Parameters
    ----------
    group
        The identifier of the group.
    """
    is_linked = _check_links(group, name, what=what)
    with translated(H5PY_ERRORS, CorruptDataError, f"{what} cannot be read"):
        try:
            return h5py().h5o.open(group, name.encode())
        except KeyError:  # h5py raises it for damage, too
            if is_linked:
                raise
            return None


def _check_links(group: Any, path: str, *, what: str) -> bool:
    """Return whether all links on a path are there; raise if it leads out of the file.

    Parameters
    ----------
    group
        The identifier of the group from which the path begins.

    Raises
    ------
    UnsupportedDataError
        A link on the way leads to another file, or there are too many.
    """
    h5l = h5py().h5l
    at, rest = "", [part for part in path.split("/") if part]
    for _ in range(_MAX_LINKS + 2 * len(rest)):
        if not rest:
            return True
        at = f"{at}/{rest.pop(0)}" if at else rest.pop(0)
        try:
            kind = group.links.get_info(at.encode()).type
        except (KeyError, RuntimeError, ValueError, OSError):
            return False  # there is nothing, or no group in which it could be looked for
        if kind == h5l.TYPE_HARD:
            continue
        if kind != h5l.TYPE_SOFT:
            raise _leads_out(what)
        target = group.links.get_val(at.encode()).decode("utf-8", "surrogateescape")
        full = posixpath.join("/" if target.startswith("/") else posixpath.dirname(at), target)
        if target.startswith("/"):
            group = h5py().h5i.get_file_id(group)
        at, rest = "", [part for part in full.split("/") if part not in ("", ".")] + rest
    raise UnsupportedDataError(f"{what}: it is reached over too many links; replace them")


def _leads_out(what: str) -> UnsupportedDataError:
    """Say that a link leads to another file."""
    return UnsupportedDataError(
        f"{what}: it is a link to another file, and no file but this one is read; copy what it "
        "leads to into the file"
    )


def check_source(properties: Any, *, what: str) -> None:
    """Raise if the elements of a dataset are in other files, by how it was created."""
    is_virtual = properties.get_layout() == h5py().h5d.VIRTUAL
    if is_virtual or properties.get_external_count() > 0:
        raise UnsupportedDataError(
            f"{what}: its elements are in other files or datasets, which are not read; copy them "
            "into this dataset"
        )


def check_contained(file: Any, *, what: str) -> None:
    """Raise if anything in a file leads out of it.

    Parameters
    ----------
    file
        An open ``h5py.File``.

    Raises
    ------
    UnsupportedDataError
        A link leads to another file, or the elements of a dataset are elsewhere.
    CorruptDataError
        The file cannot be looked through.
    """
    h5o = h5py().h5o
    with translated(H5PY_ERRORS, CorruptDataError, f"{what} cannot be read"):
        seen, referred = {h5o.get_info(file.id).addr}, [file]
        while referred:
            for found in _referred(referred.pop(), what):
                address = h5o.get_info(found.id).addr
                if address not in seen:
                    seen.add(address)
                    referred.append(found)


def _referred(item: Any, what: str) -> Iterator[Any]:
    """Check an object and all below it; yield what only categories refer to."""
    h5l, links = h5py().h5l, list[tuple[bytes, int]]()
    yield from _checked(item.id, item.name or _CATEGORIES, what)
    if node_kind(item.id) == "group":
        item.id.links.visit(lambda name, info: links.append((name, info.type)), info=True)
    for name, kind in links:
        path = name.decode("utf-8", "surrogateescape")
        if kind == h5l.TYPE_HARD:
            yield from _checked(h5py().h5o.open(item.id, name), path, what)
        elif kind != h5l.TYPE_SOFT:  # what that leads to is looked at by itself
            raise _leads_out(f"{what}: {path}")


def _checked(found: Any, path: str, what: str) -> Iterator[Any]:
    """Check one object; yield what its categories are, if it has any."""
    h5a = h5py().h5a
    if node_kind(found) == "array":
        check_source(found.get_create_plist(), what=f"{what}: {path}")
        check_type(found.get_type(), f"{what}: {path}")
    for number in range(h5a.get_num_attrs(found)):
        check_type(h5a.open(found, index=number).get_type(), f"{what}: an attribute of {path}")
    if h5a.exists(found, _CATEGORIES.encode()):
        holder = as_object(found, is_writable=False)
        reference = holder.attrs[_CATEGORIES]
        if isinstance(reference, h5py().Reference) and reference:
            yield holder.file[reference]


_HDF5_ERROR: Final = re.compile(
    r"errno = \d+|^\W*(Unable to|Can't|Couldn't|Internal path traversal) "
)


@contextmanager
def write_errors(location: str) -> Iterator[None]:
    """Raise what HDF5 reports of a failed write within the block as a `StorageError`."""
    with os_errors(location):
        try:
            yield
        except (RuntimeError, KeyError, ValueError) as error:
            if isinstance(error, DafError) or _HDF5_ERROR.search(str(error)) is None:
                raise
            raise OSError(str(error)) from error


class Hdf5File:
    """An open file that all trees of this process within it share.

    Parameters
    ----------
    file
        An open ``h5py.File``.
    location
        The file as messages name it.
    inode
        What tells the file from any other, if it is one of the file system.
    reopen
        Opens the file once more, if it was opened for reading and for this object alone.  HDF5
        keeps what it has read, also if another program has written into the file since.
    output
        What it writes through, if it was opened for writing and for this object.
    """

    def __init__(
        self,
        file: Any,
        *,
        location: str,
        inode: tuple[int, int] = (0, 0),
        reopen: Callable[[], Any] | None = None,
        output: OutputFile | None = None,
    ) -> None:
        self.file = file
        self.inode = inode
        self.location = location
        self.lock = ForkLock() if output is None else OutputLock()
        self._output = output
        self._owner = os.getpid()
        self._reopen = reopen
        self._path = file.filename
        self._is_plain = output is not None or file.driver in ("sec2", "stdio")
        self.is_writable = file.mode == "r+"
        """Whether the file can be changed."""
        self.changes = 0
        """How often this process has put something in place in it."""
        counter = mmap.mmap(-1, 8) if self.is_writable else bytes(8)
        self._changes_of_all = np.frombuffer(counter, np.int64)  # which forked processes share
        self._token = object()  # unlike an id, it is not that of another file later
        self.reopened = 0
        """How often another program had written into it."""
        self._note_state()
        self._kept_as: Hashable = None
        self._kept: dict[Hashable, Any] = {}
        self.chunk_cache = new_chunk_cache()
        """What was decoded of its datasets."""

    is_remote = False
    """Whether its bytes are downloaded."""
    server_version: tuple[Any, ...] | None = None
    """Length, ETag and date, where a server says them."""

    def close(self) -> None:
        """Close the file; arrays that were mapped stay valid."""
        with self.lock, write_errors(self.location):
            self._reopen = None
            self._kept.clear()
            self.chunk_cache.clear()
            self.file.close()
            if self._output is not None:
                self._output.close()

    # Its state.

    def status(self) -> os.stat_result | None:
        """Return the state of the open file; None if it is not one of the file system."""
        return os.fstat(self._handle()) if self.can_map else None

    def identity(self) -> Hashable:
        """Return a value that changes with every write to the file, also in place."""
        return self._token, self.changes, self.state()

    def state(self) -> Hashable:
        """Return inode, size and times of the file; None if it is not one of the file system."""
        status = self.status()
        return None if status is None else file_identity(status)

    @property
    def can_map(self) -> bool:
        """Whether the file is a plain file of the file system, and open."""
        return self._is_plain and bool(self.file.id.valid)

    def _handle(self) -> int:
        """Return the descriptor through which HDF5 reads and writes."""
        found = self.file.id.get_vfd_handle() if self._output is None else self._output.descriptor
        return int(found)

    def _note_state(self) -> None:
        """Remember how long the file is; one that was passed may change without this object."""
        status = self.status()
        self._opened_as = None if status is None else fingerprint(status)
        is_own = status is not None and any(self.inode)
        self._least_bytes = status.st_size if status is not None and is_own else 0

    def refresh(self) -> None:
        """Let go of what HDF5 remembers of the file if another program has written into it.

        Raises
        ------
        InvalidInputError
            The file was closed.
        ForkedProcessError
            A process of which this one was forked has changed it: HDF5 would read old places.
        """
        if self._owner != os.getpid() and self._changes_of_all[0] != self.changes:
            raise ForkedProcessError(
                f"{self.location}: process {self._owner}, of which this one was forked, has "
                "written into it since: read there, or open it here when it is closed there"
            )
        with self.lock:
            is_open = bool(self.file.id.valid)
            status = self.status() if is_open else None
            is_same = is_open and (status is None or fingerprint(status) == self._opened_as)
            if self._reopen is not None and not is_same:
                if inode_of(self._path) == self.inode:  # which still has its name
                    # Closed already where it was damaged or locked when it was last opened again.
                    self.file.close()
                    self.file = self._reopen()
                    was = self._opened_as or ()
                    self._note_state()
                    # Size and time of the data: chmod and links to the file change neither.
                    self.reopened += was[1:3] != (self._opened_as or ())[1:3]
                elif not is_open:
                    raise InvalidInputError(
                        f"{self.location}: the file was damaged, and is another one now; open it "
                        "again"
                    )
            if not self.file.id.valid:
                raise InvalidInputError(f"{self.location}: the file was closed; open it again")

    def check_length(self, *, what: str) -> None:
        """Raise if another program has cut the file: HDF5 reads zeros where there is nothing."""
        least_bytes = self._least_bytes  # before the length, which a thread of this process changes
        status = self.status()
        if status is None or status.st_size >= least_bytes:
            return
        with self.lock:
            status = self.status()
            if status is not None:
                check_length(status.st_size, self._least_bytes, what=what)

    # Writing.

    def require_linked(self) -> None:
        """Raise ``SourceNotFoundError`` if the file was deleted: what is written would be lost."""
        status = self.status() if any(self.inode) else None
        if status is not None:
            check_linked(status, self.location)

    def require_space(self, size_bytes: int) -> None:
        """Raise unless there is room for some bytes more, and the file is this process's own."""
        with self.lock:
            status = self.status()
            if status is not None:
                check_own(self._owner, self.location)
                pending = max(int(self.file.id.get_filesize()) - status.st_size, 0)
                require_space(self._handle(), size_bytes, self.location, pending_bytes=pending)

    def flush(self) -> None:
        """Write what HDF5 has in memory."""
        with self.lock:
            self._changes_of_all[0] = self.changes
            self.file.flush()
            self.check_written()
            self._note_state()

    def check_written(self) -> None:
        """Raise ``OSError`` if something could not be written; it is tried again."""
        if self._output is not None:
            with self.lock:
                self._output.check()

    # Its bytes.

    @functools.cached_property
    def index_store(self) -> DirectoryStore | MemoryStore:
        """Where the indexes of its data sets are; in memory for what is no file."""
        location = f"{self.location}{INDEXES_SUFFIX}"
        if not self._is_plain:
            return MemoryStore(location=location)
        return DirectoryStore(indexes_beside(self._path), location=location)

    @property
    def heap_base(self) -> int | None:
        """How many bytes of others come before those of HDF5: addresses do not count them.

        None where addresses have not 8 bytes.
        """
        properties = self.file.id.get_create_plist()
        return int(properties.get_userblock()) if properties.get_sizes() == (8, 8) else None

    def map(self, dataset: Any, size_bytes: int, *, is_writable: bool = False) -> memoryview:
        """Map the bytes of a contiguous dataset, given as h5py's low-level object.

        Of a file that is only read they are a view of the mapping of the whole file, which is
        kept.  Else the dataset is kept open as long as a view lives: HDF5 reuses the space of
        what was deleted only when nobody has it open.  The file is opened once more for that: a
        mapping through HDF5's own descriptor would keep HDF5's lock as long as a view lives.
        """
        offset = dataset.get_offset()
        if not self.is_writable:
            whole = self.whole()
            check_length(whole.size, offset + size_bytes, what=self.location)
            return whole.data[offset : offset + size_bytes]
        descriptor = self._reopened(os.O_RDWR if is_writable else os.O_RDONLY)
        try:
            if is_writable:
                allocate(descriptor, offset, size_bytes)
            return map_file(
                descriptor,
                size_bytes,
                offset=offset,
                keep=dataset,
                what=self.location,
                is_writable=is_writable,
            )
        finally:
            os.close(descriptor)

    def whole(self) -> AnyArray:
        """Map the whole file, to look at what HDF5 keeps in it; of a reader, once."""
        return self._mapped_whole() if self.is_writable else self.kept("", self._mapped_whole)

    def kept(self, key: Hashable, make: Callable[[], Any]) -> Any:
        """Return what was made of the file's bytes, until the file changes."""
        status = self.status()
        current = None if status is None else fingerprint(status)
        if self._kept_as != current:
            self._kept, self._kept_as = {}, current
        if key not in self._kept:
            self._kept[key] = make()
        return self._kept[key]

    def content_version(self) -> Hashable | None:
        """Return what changes with each write to the file; None while it is too new to tell."""
        return stable_fingerprint(self.status())

    def stored(self, ranges: Sequence[tuple[int, int]]) -> list[memoryview]:
        """Return several ranges of the file, as views of its mapping."""
        data = self.whole().data
        return [data[start:stop] for start, stop in ranges]

    def estimate(self, ranges: Sequence[tuple[int, int]], estimate: ReadEstimate) -> None:
        """Add what `stored` costs."""
        estimate.add_bytes(sum(stop - start for start, stop in ranges))

    def whole_trees(self) -> AbstractContextManager[None]:
        """Have whole B-trees read for this block, of which the nodes may be downloaded."""
        return nullcontext()

    def span(self, start: int, stop: int) -> AnyArray:
        """Return a range of the file."""
        return np.frombuffer(self.stored([(start, stop)])[0], np.uint8)

    def size_bytes(self) -> int:
        """Return how long the file is, with what HDF5 has not written yet."""
        status = None if self.is_writable else self.status()
        return int(self.file.id.get_filesize()) if status is None else status.st_size

    def _mapped_whole(self) -> AnyArray:
        descriptor = self._reopened(os.O_RDONLY)
        try:
            size_bytes = os.fstat(descriptor).st_size
            data = map_file(descriptor, size_bytes, what=self.location)
        finally:
            os.close(descriptor)
        return np.frombuffer(data, np.uint8)

    def _reopened(self, flags: int) -> int:
        own = self._handle()
        try:
            descriptor = os.open(self.file.filename, flags | os.O_CLOEXEC)
        except (FileNotFoundError, NotADirectoryError):
            return os.dup(own)  # no file has it any more
        if os.path.samestat(os.fstat(descriptor), os.fstat(own)):
            return descriptor
        os.close(descriptor)
        return os.dup(own)  # another file has this name by now


@dataclass(eq=False)
class HeldObject:
    """A group or dataset that is held open; opened again where the file was, see `Hdf5File`."""

    _shared: Hdf5File
    _id: Any
    name: str
    """Its path in the file."""

    def __post_init__(self) -> None:
        self.opened = self._shared.reopened
        """How often the file was opened again before: what was rewritten may have its address."""

    @property
    def id(self) -> Any:
        """Its identifier; it is looked for again where the file was opened again."""
        if self._id.valid:
            return self._id
        with self._shared.lock:
            self._shared.refresh()
            what = f"{self._shared.location}: {self.name}"
            found = open_below(self._shared.file.id, self.name or "/", what=what)
            if found is None:
                raise CorruptDataError(f"{what} is not in the file any more")
            self._id = found
        return self._id

    def get(self) -> Any:
        """Return it as h5py has it."""
        with self._shared.lock:
            return as_object(self.id, is_writable=self._shared.is_writable)


INDEXES_SUFFIX: Final = ".indexes"
"""What the directory has behind the name of the file."""
_MAX_NAME_BYTES: Final = 200


def indexes_beside(path: str | Path) -> Path:
    """Return the directory of the indexes of an HDF5 file."""
    real = Path(os.path.realpath(path))
    return real.with_name(f"{real.name}{INDEXES_SUFFIX}")


def index_tree(store: DirectoryStore | MemoryStore, group: str) -> WritableZarrTree:
    """Return the tree of the indexes of one data set of a file."""
    root = f"@{quote(group, safe='')}"  # no other one has it
    if len(root) > _MAX_NAME_BYTES:
        root = f"@@{hashlib.sha256(group.encode()).hexdigest()}"
    return WritableZarrTree(store, root, consolidated=False, zarr_format=2)


_AHEAD_BYTES: Final = 1 << 17
"""HDF5 asks for a few bytes of metadata at a time; others that it asks for next lie beside them."""

_TREE_BYTES: Final = 24
_TREE_CHILDREN: Final = 64
_NODE_BYTES: Final = 1 << 11

_open: weakref.WeakSet[RemoteHdf5File] = weakref.WeakSet()


class RemoteBytes(io.RawIOBase):
    """The bytes of a file on a server, as HDF5 reads them.

    Parameters
    ----------
    files
        The files below a URL.
    path
        The file in it.
    """

    def __init__(self, files: RemoteFiles, path: str) -> None:
        super().__init__()
        self._files = files
        self._path = path
        self._at = 0
        self.goes_through = False
        """Whether HDF5 goes through B-trees: what a node leads to is downloaded side by side."""
        size = files.size(path)
        if size is None:
            raise SourceNotFoundError(f"no such file: {files.location}/{path}")
        self.size = size
        """How many bytes it has."""

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        """Go to a place."""
        start = {io.SEEK_SET: 0, io.SEEK_CUR: self._at, io.SEEK_END: self.size}[whence]
        self._at = start + offset
        return self._at

    def tell(self) -> int:
        """Return the place."""
        return self._at

    def readinto(self, buffer: Any) -> int:
        """Read from the place on."""
        view = memoryview(buffer).cast("B")
        stop = min(self._at + len(view), self.size)
        first, last = self._at, stop
        if not self._files.has(self._path, first, last):
            first = first // _AHEAD_BYTES * _AHEAD_BYTES
            last = min(-(-stop // _AHEAD_BYTES) * _AHEAD_BYTES, self.size)
        # HDF5 holds its lock meanwhile, and a thread that frees one of its objects waits for that.
        with paused_collection():
            (data,) = self.read_ranges([(first, last)])
        count = stop - self._at
        view[:count] = data[self._at - first : stop - first]
        self._at = stop
        if self.goes_through:
            nodes = [(at, at + _NODE_BYTES) for at in children_of(view) if at < self.size]
            with paused_collection():
                self.read_ranges([(a, min(z, self.size)) for a, z in nodes])
        return count

    def read_ranges(self, ranges: Sequence[tuple[int, int]]) -> list[memoryview]:
        """Return several ranges, downloaded side by side."""
        return self._files.read_ranges(self._path, list(ranges))


def children_of(node: memoryview) -> list[int]:
    """Return where the nodes are that one of a B-tree (version 1 of HDF5) leads to, if it is one.

    >>> children_of(memoryview(b"TREE" + bytes([0, 0, 1, 0]) + bytes(24) + bytes([80]) + bytes(7)))
    [80]
    """
    head = bytes(node[:8])
    is_of_chunks, count = head[4:5] == b"\1", int.from_bytes(head[6:], "little")
    if not head.startswith(b"TREE") or (is_of_chunks and head[5:6] == b"\0"):
        return []
    key_bytes = 8
    if is_of_chunks:  # it has the place of a chunk in the dataset, whose dimensions are not known
        key_bytes = (len(node) - _TREE_BYTES - 8 * _TREE_CHILDREN) // (_TREE_CHILDREN + 1)
    starts = range(_TREE_BYTES + key_bytes, len(node) - 7, max(key_bytes + 8, 8))[:count]
    return [int.from_bytes(node[start : start + 8], "little") for start in starts]


class RemoteHdf5File(Hdf5File):
    """An open HDF5 file on a server; see `Hdf5File`.

    The server's version of it (ETag, date, length) is that of the first answer; another one is an
    error.
    """

    is_remote = True

    def __init__(self, files: RemoteFiles, path: str) -> None:
        location = f"{files.location}/{path}"
        self.source = RemoteBytes(files, path)
        """The bytes of the file, as HDF5 reads them."""
        self._files = files
        try:
            file = h5py().File(self.source, "r")
        except H5PY_ERRORS as error:
            reason = reason_of(error)
            if "signature" in reason:
                raise NotADafError(f"{location}: this is not an HDF5 file ({reason})") from error
            raise CorruptDataError(
                f"{location}: the HDF5 file cannot be opened ({reason}); is it complete?"
            ) from error
        super().__init__(file, location=location)
        self.server_version = files.version(path)
        _open.add(self)

    def close(self) -> None:
        """Close the file, and the connections."""
        super().close()
        self._files.close()

    def size_bytes(self) -> int:
        """Return how long the file is."""
        return self.source.size

    @contextmanager
    def whole_trees(self) -> Iterator[None]:
        """Download the nodes that a node of a B-tree leads to side by side, for this block."""
        self.source.goes_through = True
        try:
            yield
        finally:
            self.source.goes_through = False

    def content_version(self) -> object:
        """Return what stands for the version of the server's file: no other one is ever read."""
        return self._files.token

    def stored(self, ranges: Sequence[tuple[int, int]]) -> list[memoryview]:
        """Return several ranges of the file, downloaded side by side."""
        return self.source.read_ranges(ranges)

    def estimate(self, ranges: Sequence[tuple[int, int]], estimate: ReadEstimate) -> None:
        """Add what `stored` costs."""
        file_bytes = self.size_bytes()
        estimate_ranges(ranges, estimate, snapshot=None, file=self, file_bytes=file_bytes)


@atexit.register
def _close_all() -> None:
    """Close what is open: HDF5 must not read through Python once the interpreter ends."""
    for each in list(_open):
        with suppress(Exception):
            each.close()

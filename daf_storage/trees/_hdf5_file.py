"""An open HDF5 file that several trees share, a mapping of it, and where its indexes are.

Indexes are in a Zarr directory beside the file: they can be made again from the data, so no failed
write of theirs may harm it.
"""

from __future__ import annotations

import functools
import hashlib
import os
import posixpath
from collections.abc import Callable, Hashable
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

import numpy as np

from daf_storage.base import (
    AnyArray,
    ForkLock,
)
from daf_storage.errors import (
    CorruptDataError,
    InvalidInputError,
)
from daf_storage.stores import (
    DirectoryStore,
    Fingerprint,
    MemoryStore,
    allocate,
    check_length,
    check_linked,
    file_identity,
    files_version,
    fingerprint,
    is_settled,
    map_range,
)
from daf_storage.trees._chunked_array import new_chunk_cache
from daf_storage.trees._hdf5_checks import check_links
from daf_storage.trees._hdf5_chunks import MAX_LISTED_CHUNKS, ChunkListing, list_chunks
from daf_storage.trees._hdf5_output import OutputFile, OutputLock, require_space, write_errors
from daf_storage.trees._hdf5_strings import WalkedHeaps
from daf_storage.trees._hdf5_types import H5PY_ERRORS, as_object, h5py, reason_of
from daf_storage.trees._protocol import ArrayInfo
from daf_storage.trees._zarr_tree import WritableZarrTree


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
    output
        What it writes through, if it was opened for writing and for this object.
    """

    def __init__(
        self,
        file: Any,
        *,
        location: str,
        file_identity: tuple[int, int] = (0, 0),
        reopen: Callable[[], Any] | None = None,
        output: OutputFile | None = None,
    ) -> None:
        self.file = file
        self.file_identity = file_identity
        self.location = location
        self.lock = ForkLock() if output is None else OutputLock()
        self._output = output
        self._reopen = reopen
        self._path = file.filename
        self._descriptor: tuple[Any, Any, int] | None = None
        # Asking h5py takes as long as a small read.
        self._is_plain = output is not None or file.driver in ("sec2", "stdio")
        self.is_writable = file.mode == "r+"
        """Whether the file can be changed."""
        self._opened_as = self._fingerprint()
        self._least_bytes = 0
        self._note_length()
        self._token = object()  # unlike an id, it is not that of another file later
        self._count = 0
        self._changed: dict[str, int] = {}
        self._changed_below: dict[str, int] = {}
        self._whole: tuple[Fingerprint | None, AnyArray] | None = None
        self._listings: dict[str, ChunkListing | None] = {}
        self._listed_as: Fingerprint | None = None
        self._walked: tuple[Fingerprint | None, WalkedHeaps] | None = None
        self.chunk_cache = new_chunk_cache()
        """What was decoded of its datasets."""
        self.index_store = index_store(file.filename if self.can_map else None, location)
        """Where the indexes of its data sets are."""

    def close(self) -> None:
        """Close the file; arrays that were mapped stay valid."""
        with self.lock, write_errors(self.location):
            self._reopen = None
            self._whole = None
            self._listings.clear()
            self.chunk_cache.clear()
            self.file.close()
            if self._output is not None:
                self._output.close()

    def require_linked(self) -> None:
        """Raise ``SourceNotFoundError`` if the file was deleted: what is written would be lost."""
        status = self._status() if any(self.file_identity) else None
        if status is not None:
            check_linked(status, self.location)

    def require_space(self, size_bytes: int) -> None:
        """Raise ``StorageFullError`` unless there is room for some bytes more."""
        with self.lock:
            status = self._status()
            if status is not None:
                pending = max(int(self.file.id.get_filesize()) - status.st_size, 0)
                handle = self._handle()
                require_space(handle, size_bytes, self.location, pending_bytes=pending)

    def refresh(self, status: os.stat_result | None = None) -> None:
        """Let go of what HDF5 remembers of the file if another program has written into it.

        Parameters
        ----------
        status
            The state of the file, if it was just looked at.
        """
        if status is not None and fingerprint(status) == self._opened_as:
            return
        with self.lock:
            if self._reopen is None:
                return
            is_open = bool(self.file.id.valid)
            if is_open and self._fingerprint() in (None, self._opened_as):
                return
            if not self._is_in_place():
                if is_open:
                    return  # another file has this name by now; this one stays as it is
                raise InvalidInputError(
                    f"{self.location}: the file was damaged, and is another one now; open it again"
                )
            # Closed already where it was damaged or locked when it was last to be opened again.
            self.file.close()
            self.file = self._reopen()
            self.__dict__.pop("heap_base", None)
            self._opened_as = self._fingerprint()
            self._note_length()

    def _is_in_place(self) -> bool:
        """Return whether the file still has its name."""
        try:
            status = os.stat(self._path)
        except OSError:
            return False
        return (status.st_dev, status.st_ino) == self.file_identity

    def flush(self) -> None:
        """Write what HDF5 has in memory."""
        with self.lock:
            self.file.flush()
            self.check_written()
            self._note_length()

    def check_written(self) -> None:
        """Raise ``OSError`` if something could not be written; it is tried again."""
        if self._output is not None:
            with self.lock:
                self._output.check()

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
        """Return a value that changes with every write to the file, also in place."""
        status = self._status()
        return None if status is None else file_identity(status)

    def fingerprint(self) -> list[int] | None:
        """Return inode, size and times of the file; None while it is too new to tell by them."""
        status = self._status()
        return None if status is None or not is_settled(status) else list(fingerprint(status))

    def settled_version(self) -> Hashable:
        """Return inode, size and times of the file once the next write is bound to show in them.

        None if it is not one of the file system.
        """
        if self._status() is None:
            return None
        return files_version(lambda: [("file", os.fstat(self._handle()))])

    def _fingerprint(self) -> Fingerprint | None:
        status = self._status()
        return None if status is None else fingerprint(status)

    def _status(self) -> os.stat_result | None:
        """Return the state of the open file; None if it is not one of the file system."""
        known = self._descriptor
        if known is None or known[0] is not self.file:
            if not self.can_map:
                return None
            identifier = self.file.id
            known = self._descriptor = (self.file, identifier, self._handle())
        return os.fstat(known[2]) if known[1].valid else None

    def _handle(self) -> int:
        """Return the descriptor through which HDF5 reads and writes."""
        found = self.file.id.get_vfd_handle() if self._output is None else self._output.descriptor
        return int(found)

    @property
    def is_valid(self) -> bool:
        """Whether the file is open."""
        known = self._descriptor  # asking h5py for the identifier takes longer than to look at it
        opened = known[1] if known is not None and known[0] is self.file else self.file.id
        return bool(opened.valid)

    @property
    def can_map(self) -> bool:
        """Whether the file is a plain file of the file system."""
        return self._is_plain and bool(self.file.id.valid)

    @functools.cached_property
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
            return self.map_part(offset, size_bytes)
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

    def map_part(self, offset: int, size_bytes: int) -> memoryview:
        """Map a part of a file that is only read: a view of the mapping of the whole file."""
        whole = self.whole()
        check_length(whole.size, offset + size_bytes, what=self.location)
        return whole.data[offset : offset + size_bytes]

    def size_bytes(self) -> int:
        """Return how long the file is, with what HDF5 has not written yet."""
        status = None if self.is_writable else self._status()
        return int(self.file.id.get_filesize()) if status is None else status.st_size

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

    def status(self) -> os.stat_result | None:
        """Return the state of the open file; None if it is not one of the file system."""
        return self._status()

    def version_of_bytes(self) -> tuple[Fingerprint | None, bool]:
        """Return what changes with the bytes of the file, and whether the next change must show."""
        status = self._status()
        return (None, False) if status is None else (fingerprint(status), is_settled(status))

    def listing(
        self, name: str, dataset: Any, info: ArrayInfo, *, what: str
    ) -> ChunkListing | None:
        """Return where the chunks of a dataset are; remembered until the file changes.

        None if there are too many to be listed.

        Parameters
        ----------
        name
            Its path in the file.
        dataset
            Its identifier.
        """
        current = self._fingerprint()
        if self._listed_as != current:
            self._listings.clear()
            self._listed_as = current
        if name not in self._listings:
            found = list_chunks(dataset, info, self.whole().size, what=what)
            sizes = [0 if each is None else each.offsets.size for each in self._listings.values()]
            if sum(sizes) > MAX_LISTED_CHUNKS:
                self._listings.clear()
            self._listings[name] = found
        return self._listings[name]

    def walked_heaps(self) -> WalkedHeaps:
        """Return what was walked of the heaps of strings, as the file is now."""
        current = self._fingerprint()
        if self._walked is None or self._walked[0] != current or self.is_writable:
            self._walked = (current, WalkedHeaps())
        return self._walked[1]

    def whole(self) -> AnyArray:
        """Map the whole file, to look at what HDF5 keeps in it; of a reader, once."""
        current = self._fingerprint()
        if self._whole is not None and self._whole[0] == current and not self.is_writable:
            return self._whole[1]
        data = self._mapped_whole()
        self._whole = (current, data)
        return data

    def _mapped_whole(self) -> AnyArray:
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
        if not self._count:
            return id(self), 0, 0
        below = self._changed_below.get(path, 0)
        above = 0
        while True:
            above = max(above, self._changed.get(path, 0))
            if not path:
                return self._token, below, above
            path = posixpath.dirname(path)


def open_below(group: Any, name: str, *, what: str) -> Any:
    """Return the identifier of what is at a path below a group, in the same file; None if absent.

    Parameters
    ----------
    group
        The identifier of the group.
    """
    is_linked = check_links(group, name, what=what)
    try:
        return h5py().h5o.open(group, name.encode())
    except H5PY_ERRORS as error:
        if isinstance(error, KeyError) and not is_linked:  # h5py raises it for damage, too
            return None
        raise CorruptDataError(f"{what} cannot be read ({reason_of(error)})") from error


class HeldObject:
    """A group or dataset that is held open; opened again where the file was, see `Hdf5File`.

    Parameters
    ----------
    found
        Its identifier: h5py takes longer to make an object of it than HDF5 to open it.
    name
        Its path in the file.
    """

    def __init__(self, shared: Hdf5File, found: Any, name: str) -> None:
        self._shared = shared
        self._id = found
        self._object: Any = None
        self.name = name
        """Its path in the file."""

    @property
    def is_open(self) -> bool:
        """Whether it was found in the file as it is opened now."""
        return bool(self._id.valid)

    @property
    def id(self) -> Any:
        """Its identifier."""
        return self._id if self._id.valid else self._opened()

    def ensure_open(self) -> None:
        """Look for it again where the file was opened again; raise if the file was closed."""
        if not self.is_open:
            self._opened()

    def get(self) -> Any:
        """Return it as h5py has it."""
        if self._object is not None and self._id.valid:
            return self._object
        with self._shared.lock:
            found = self.id
            self._object = as_object(found, is_writable=self._shared.is_writable)
        return self._object

    def _opened(self) -> Any:
        with self._shared.lock:
            if not self._shared.file.id.valid:
                raise InvalidInputError(
                    f"{self._shared.location}: the file was closed; open it again"
                )
            self._object = None
            what = f"{self._shared.location}: {self.name}"
            found = open_below(self._shared.file.id, self.name or "/", what=what)
            if found is None:
                raise CorruptDataError(f"{what} is not in the file any more")
            self._id = found
        return self._id


INDEXES_SUFFIX: Final = ".indexes"
"""What the directory has behind the name of the file."""

_MAX_NAME_BYTES: Final = 200


def indexes_beside(path: str | Path) -> Path:
    """Return the directory of the indexes of an HDF5 file."""
    real = Path(os.path.realpath(path))
    return real.with_name(f"{real.name}{INDEXES_SUFFIX}")


def index_store(path: str | None, location: str) -> DirectoryStore | MemoryStore:
    """Return the store of the indexes of a file; in memory for what is no file."""
    if path is None:
        return MemoryStore(location=f"{location}{INDEXES_SUFFIX}")
    return DirectoryStore(indexes_beside(path), location=f"{location}{INDEXES_SUFFIX}")


def index_tree(store: DirectoryStore | MemoryStore, group: str) -> WritableZarrTree:
    """Return the tree of the indexes of one data set of a file."""
    return WritableZarrTree(store, group_name(group), consolidated=False, zarr_format=2)


def group_name(group: str) -> str:
    """Return the name of the directory for one data set: no other one has it.

    >>> group_name(""), group_name("day/1")
    ('@', '@day%2F1')
    """
    name = f"@{quote(group, safe='')}"
    if len(name) <= _MAX_NAME_BYTES:
        return name
    return f"@@{hashlib.sha256(group.encode()).hexdigest()}"

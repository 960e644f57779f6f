"""An archive that is read through one mapping and written at its end.

How a change reaches the file (docs/design/03):

1. The central directory as it is now is copied further down, so that new data has room behind the
   old.  The file ends with this copy, which says the same.
2. The new local headers and data are written, partly over where the directory was.
3. The new directory is written right behind the data.  The file still ends with the old one.
4. The file is cut behind the new directory, which becomes the one that counts: one atomic step.

So, but for the moment of the first step, the file ends with a whole directory of whole entries,
whatever happens, and what is in the file afterwards is byte for byte what the format prescribes.
"""

from __future__ import annotations

import os
import threading
from bisect import insort
from collections.abc import Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, NoReturn, Self
from zlib import crc32

import numpy as np

from daf_storage import errors
from daf_storage.base import AnyArray, ForkLock, OpenMode, check_mode
from daf_storage.stores._files import (
    Fingerprint,
    check_length,
    file_identity,
    fingerprint,
    map_file,
)
from daf_storage.stores._mapping_store import is_below
from daf_storage.stores.mmap_zip import _records as records
from daf_storage.stores.mmap_zip._file import (
    Appender,
    ArchiveFile,
    Recovery,
    RecoveryWarning,
    check_last_entry,
    directory_for_writing,
    open_for_reading,
    open_for_writing,
    sync_folder,
)
from daf_storage.stores.mmap_zip._reader import ArchiveReader
from daf_storage.stores.mmap_zip._records import Entry

_RESERVED_IN_FILE_BYTES = 1 << 20

MAX_FILE_SIZE: Final = 1 << 40
"""How far an archive may grow unless its opener says otherwise: 1 TiB."""


@dataclass(frozen=True, slots=True, eq=False)
class Reservation:
    """Data that is being filled and that no directory names yet."""

    key: str
    """The name of the entry that it is to be."""
    offset: int
    """Where its local header is."""
    data: memoryview
    """The mapped file, writable."""

    @property
    def array(self) -> AnyArray:
        """The data as an array of bytes."""
        return np.frombuffer(self.data, dtype=np.uint8)


class MmapZipStore(ArchiveReader):
    """A ZIP archive, memory-mapped, to which entries can be added.

    Entries are stored as they are, with their data at multiples of 8 bytes, so that what is read
    is the mapped file itself.  Nothing is ever changed or deleted.  It is safe to use from several
    threads; readers see entries as soon as they are added.  One process at a time can have an
    archive open for writing, which an advisory lock sees to.

    Parameters
    ----------
    path
        The archive.
    mode
        ``r`` to read, ``r+`` to read and add, ``w+`` to create it if missing, ``w`` to put an
        empty one in its place.  A writable open undoes what a crashed writer left half done, and
        warns (``RecoveryWarning``) of entries that it has to take away.
    max_file_size
        Number of bytes up to which the file can grow while it is open.  Not used by mode ``r``.
    sync
        Whether each commit waits until it is on the disk, so that not even a loss of power loses
        it.  That costs three waits for the disk per commit, milliseconds each.  Without it, what
        was committed survives a crash of the process, and the disk gets it when the system
        finds the time.
    location
        The name used in messages; ``path`` by default.

    Raises
    ------
    SourceNotFoundError
        There is no such file, and the mode does not create it.
    CorruptDataError
        It is not a ZIP archive, or not a complete one.
    InUseError
        Another process has it open for writing.
    SizeLimitError
        It is larger than ``max_file_size``.

    Examples
    --------
    >>> import tempfile, pathlib
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "x.zip"
    >>> with MmapZipStore(path, "w") as store:
    ...     store.append("greeting", b"hello")
    >>> MmapZipStore(path).try_mmap_entry_as("greeting", "u1", 5).tobytes()
    b'hello'
    """

    is_append_only = True
    """What is there can be neither changed nor deleted."""
    names_dropped = True
    """Whether a warning names the entries that were taken away; of a data set, its parts are."""

    def __init__(
        self,
        path: str | Path,
        mode: OpenMode = "r",
        *,
        max_file_size: int = MAX_FILE_SIZE,
        sync: bool = False,
        location: str | None = None,
    ) -> None:
        check_mode(mode)
        super().__init__(location or str(path))
        self._path_text = os.path.abspath(path)  # which the system is asked for again and again
        self.path = Path(self._path_text)
        self.mode = mode
        self.recovery = Recovery()
        self._writer_lock = threading.RLock()  # a forked process leaves the block that holds it
        self._append_lock = ForkLock()
        self._map_lock = ForkLock()
        self._pending: dict[int, Reservation] = {}
        self._batches = 0
        self._file: ArchiveFile | None = None
        self._opened_as: Fingerprint | None = None
        self.ends_with_directory = True
        """Whether the file ended as archives do: no writer had stopped in the middle."""
        self._appender: Appender | None = None
        if mode == "r":
            self._open_for_reading()
        else:
            self._open_for_writing(max_file_size, sync=sync)

    def _open_for_reading(self) -> None:
        file, directory = open_for_reading(self.path, self.location)
        try:
            # a writer may have moved its directory up since: what is behind the entries goes then
            self._view = map_file(file.descriptor, directory.offset, what=None)
            self.inode = file.inode()
            status = os.fstat(file.descriptor)
            self._opened_as = fingerprint(status)
            self.ends_with_directory = directory.stop >= status.st_size
        finally:
            file.close()
        self._have(directory)
        check_last_entry(directory, self._view[: self.present_bytes()], self.location, self.path)

    def _open_for_writing(self, max_file_size: int, *, sync: bool) -> None:
        """Make the file what it was after the last whole entry, and index it."""
        self._file = file = open_for_writing(self.path, self.mode, self.location)
        try:
            if file.size() > max_file_size:
                raise errors.SizeLimitError(
                    f"{self.location}: the file has {file.size():,} bytes, more than the "
                    f"{max_file_size:,} up to which it may grow; open it with a larger "
                    "max_file_size, or set daf_storage.settings.DAF_ZARR_ZIP_MAX_FILE_SIZE before"
                )
            directory, cut_bytes = directory_for_writing(file, self.location)
            self.is_own = True
            data = self._bytes(0, directory.offset)
            kept, completed = records.judge(directory.entries, data)
            for one in completed:
                header = records.pack_local(one.raw_name, one.size_bytes, one.crc, one.offset)
                file.write_at(one.offset, header)
            end = records.span_of(kept[-1], data)[1] if kept else 0
            self._index(kept)
            self._appender = Appender(
                file, directory, end=end, max_file_size=max_file_size, sync=sync
            )
            names = {entry.name for entry in kept}
            dropped = [entry for entry in directory.entries if entry.name not in names]
            self._directory = bytearray(b"".join(entry.record for entry in kept))
            if dropped or end != directory.offset:
                self._appender.commit(bytes(self._directory), len(kept))
            self.recovery = Recovery(
                dropped=tuple(entry.name for entry in dropped),
                dropped_bytes=tuple(entry.size_bytes for entry in dropped),
                completed=tuple(entry.name for entry in completed),
                cut_bytes=cut_bytes + directory.offset - end,
            )
            self.inode = file.inode()
            if sync:
                sync_folder(self.path)
            if self.names_dropped and self.recovery.dropped:
                errors.warn(
                    f"{self.location}: {', '.join(map(repr, self.recovery.dropped))} could not be "
                    "read and was taken away: a writer had stopped in the middle of writing it, or "
                    "the file was damaged; write it again, or take it from a backup",
                    RecoveryWarning,
                )
        except BaseException:
            file.close()
            raise

    def __repr__(self) -> str:
        return f"MmapZipStore({self.location!r}, {self.mode!r})"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Refuse further use and let others write; arrays and pins handed out stay valid."""
        with self._append_lock:
            file, appender = self._file, self._appender
            self._limit_bytes, self._is_closed = self.size_bytes, True
            if file is None or appender is None:
                return
            try:
                self._bytes(0, self._limit_bytes)  # which pins may not have asked for yet
                if file.owner == os.getpid():
                    appender.settle()
            finally:
                with self._map_lock:  # no thread maps what is closed
                    self._file = None
                self._appender = None
                file.close()

    @property
    def is_writable(self) -> bool:
        """Whether entries can be added."""
        return self.mode != "r"

    def file_state(self) -> Hashable:
        """Return what changes whenever anybody writes into the archive."""
        status = self._status()
        return None if status is None else file_identity(status)

    def _status(self) -> os.stat_result | None:
        """Return the state of the file; None if it was deleted, or another one has its name."""
        file = self._file
        try:
            status = os.stat(self._path_text) if file is None else os.fstat(file.descriptor)
        except OSError:
            return None
        return status if (status.st_dev, status.st_ino) == self.inode else None

    def _bytes(self, start: int, stop: int) -> memoryview:
        """Return a part of the file, or what is there of it; one that grew is mapped again."""
        view = self._view
        if stop > len(view):
            with self._map_lock:  # no thread puts an older, shorter mapping in the place of another
                if stop > len(self._view) and self._file is not None:
                    self._view = self._file.map()
                view = self._view
        return view[start:stop]

    def versions(self, prefix: str, limit: int) -> Hashable:
        """Return the inode, and name, place, size and CRC of entries; None if the file changed.

        Another program may have added entries, or have written another archive in its place.
        """
        status = self._status()
        if status is None or (self._file is None and fingerprint(status) != self._opened_as):
            return None
        return status.st_ino, super().versions(prefix, limit)

    def present_bytes(self) -> int:
        """Return how much of the entries' part of the file is there.

        Another program may have cut it; one that was deleted stays as it is.
        """
        status = self._status()
        return self.size_bytes if status is None else min(self.size_bytes, status.st_size)

    @property
    def size_bytes(self) -> int:
        """Length of the entries' part of the file: where the next entry goes."""
        appender = self._appender
        return self._limit_bytes if appender is None else appender.end

    def recover(self) -> bool:
        """Return whether opening found something to recover; asked again, there is nothing."""
        found, self.recovery = self.recovery, Recovery()
        return bool(found)

    @contextmanager
    def transaction(self) -> Iterator[ArchiveTransaction]:
        """Begin changes; what was not published when the block ends is discarded.

        Raises
        ------
        SourceNotFoundError
            The file was deleted, or replaced by another one.
        ForkedProcessError
            It was opened for writing by a process of which this one was forked.
        """
        if self._file is not None:
            self._file.require_linked()
        changes = ArchiveTransaction(self)
        try:
            yield changes
        finally:
            changes.abandon()

    def lock(self) -> AbstractContextManager[Any]:
        """Exclude other threads that write; other processes are excluded all the time."""
        return self._writer_lock

    def rebuilt(self, without: list[str]) -> NoReturn:
        """Refuse: an archive is only added to."""
        raise errors.append_only(self.location, ", ".join(without))

    def append(self, key: str, data: bytes | memoryview) -> None:
        """Add an entry.

        Raises
        ------
        AppendOnlyError
            There is one of this name.
        InvalidNameError
            The name is too long, or no relative path.
        SizeLimitError
            The file would grow beyond ``max_file_size``; it stays as it was.
        ReadOnlyError
            The archive was opened for reading.
        """
        self.add({key: [data]})

    def add(
        self,
        parts: Mapping[str, Sequence[bytes | memoryview]],
        reserved: Collection[Reservation] = (),
    ) -> None:
        """Add entries, all at once: whoever sees one of them sees all.

        Parameters
        ----------
        parts
            By its name, what each consists of, one behind the other.
        reserved
            Those that were reserved, and have been filled.
        """
        with self._writer_lock, self._append_lock:
            appender = self._writing()
            keys = [*(each.key for each in reserved), *parts]
            for key in keys:
                self._check_name(key)
                if self.find(key) is not None:
                    raise errors.append_only(self.location, key)
            room = self._room_for(*keys)
            entries = []
            for each in reserved:
                check_length(self.present_bytes(), appender.end, what=self.location)
                crc, size = crc32(each.data), len(each.data)
                entries.append(appender.patch(each.key, size, crc, each.offset))
                self._pending.pop(each.offset, None)
            for key, data in parts.items():
                views = [memoryview(part).cast("B") for part in data]
                entries.append(appender.write_entry(key, views, directory_bytes=room))
            self._publish(entries)

    def reserve(self, key: str, size_bytes: int) -> Reservation:
        """Make room for an entry, to be filled in place; then call `complete`.

        It is zero at first, and part of the mapped file.  Until `complete` the entry is not visible
        to anybody, and a crash leaves nothing of it; others of the name may be first.
        """
        with self._append_lock:
            appender = self._writing()
            self._check_name(key)
            offset, start = appender.reserve(key, size_bytes, directory_bytes=self._room_for(key))
            descriptor = self._file.descriptor  # type: ignore[union-attr]  # a writer has it
            data = map_file(
                descriptor, size_bytes, offset=start, what=self.location, is_writable=True
            )
            self._pending[offset] = reservation = Reservation(key, offset, data)
        return reservation

    def complete(self, reservation: Reservation) -> None:
        """Add an entry that was reserved and has been filled."""
        self.add({}, [reservation])

    def abandon(self, reservation: Reservation) -> None:
        """Give up what was reserved.

        Its bytes stay unused until the archive is next opened for writing: whoever holds the
        array may still store into it.
        """
        with self._append_lock:
            self._pending.pop(reservation.offset, None)

    def remove_entries(self, keys: Iterable[str]) -> None:
        """Take entries out of the directory; their bytes stay where they are.

        For mending only: an archive is append-only.  Unknown names are ignored.
        """
        unwanted = set(keys)
        with self._writer_lock, self._append_lock:
            self._writing()
            if self._batches:
                raise errors.InvalidInputError(
                    f"{self.location}: what is in the archive cannot be changed within a batch"
                )
            self._keep([e for e in self._entries if e.name not in unwanted])
            self._commit_or_forget(len(self._entries))

    @contextmanager
    def batch(self) -> Iterator[None]:
        """Write the directory once for everything that is added within the block.

        Threads of this process see what is added at once.  The file changes at the end of the
        block: all of it or, after an error or a crash, nothing.  Other writers wait meanwhile.
        """
        self._writing()
        with self._writer_lock:
            first = len(self._entries)
            self._batches += 1
            try:
                yield
            except BaseException:
                self._batches -= 1
                with self._append_lock:
                    if len(self._entries) > first and not self._is_closed:
                        self._keep(self._entries[:first])
                raise
            self._batches -= 1
            if not self._batches and len(self._entries) > first:
                with self._append_lock:
                    self._commit_or_forget(first)

    def _check_name(self, key: str) -> None:
        try:
            raw_name = key.encode()
        except UnicodeEncodeError as error:
            raise errors.InvalidNameError(
                f"{self.location}: {key!r} cannot be the name of an entry ({error})"
            ) from None
        if len(raw_name) > records.MAX_NAME_BYTES:
            raise errors.InvalidNameError(
                f"{self.location}: zip entry name too long: {len(raw_name):,} bytes, and at most "
                f"{records.MAX_NAME_BYTES:,} are possible"
            )
        problem = "is a directory's" if key.endswith("/") else records.name_problem(key)
        if problem is not None:
            raise errors.InvalidNameError(
                f"{self.location}: {key!r} cannot be the name of an entry: it {problem}; use a "
                "path such as 'axes/cell/0'"
            )

    def _writing(self) -> Appender:
        self._check_open()
        if self._appender is None or self._file is None:
            raise errors.ReadOnlyError(
                f"{self.location}: the archive was opened for reading; open it with mode 'r+'"
            )
        self._file.require_linked()
        return self._appender

    def _room_for(self, *new: str) -> int:
        """Return how long the directory can become with these and all reserved entries."""
        keys = (*new, *(reservation.key for reservation in self._pending.values()))
        added = sum(len(records.pack_central(one.encode(), 0, 0, 0)) for one in keys)
        return len(self._directory) + added

    def _publish(self, entries: Sequence[Entry]) -> None:
        first = len(self._entries)
        with self._index_lock:
            for entry in entries:
                self._numbers[entry.name] = len(self._entries)
                self._entries.append(entry)
                insort(self._names, entry.name)
        self._directory += b"".join(entry.record for entry in entries)
        offsets = [entry.offset for entry in self._entries[max(first - 1, 0) :]]
        if offsets != sorted(offsets):
            self._directory = self._records(self._entries)
        if not self._batches:
            self._commit_or_forget(first)

    def _records(self, entries: Sequence[Entry]) -> bytearray:
        """Return the directory of some entries, in the order of their data."""
        in_order = sorted(entries, key=lambda entry: entry.offset)
        return bytearray(b"".join(entry.record for entry in in_order))

    def _commit_or_forget(self, first: int) -> None:
        """Commit; if that fails, forget the entries that were to be committed."""
        try:
            self._writing().commit(bytes(self._directory), len(self._entries))
        except BaseException:
            self._keep(self._entries[:first])
            raise

    def _keep(self, kept: Sequence[Entry]) -> None:
        """Forget the other entries; what they were stays in the file, unnamed."""
        with self._index_lock:
            self._index(kept)
            self._generation += 1
        self._directory = self._records(kept)


@dataclass(eq=False)
class ArchiveTransaction:
    """Prepared entries; see `Transaction`.

    Small ones wait in memory.  Large ones that are to be filled in place lie in the file already,
    where nothing names them yet.
    """

    _archive: MmapZipStore
    _parts: dict[str, list[bytes | memoryview]] = field(default_factory=dict)
    _reserved: dict[str, Reservation] = field(default_factory=dict)

    def write(self, key: str, data: bytes | memoryview) -> None:
        """Remember ``data``, which must not change before it is published."""
        self._parts.setdefault(key, []).append(data)

    def reserve(self, key: str, size_bytes: int) -> AnyArray:
        """Return zeros to be filled: those of the file itself if there are many."""
        if size_bytes >= _RESERVED_IN_FILE_BYTES:
            self._reserved[key] = self._archive.reserve(key, size_bytes)
            return self._reserved[key].array
        zeros = np.zeros(size_bytes, dtype=np.uint8)
        self._parts[key] = [zeros.data]
        return zeros

    def publish(
        self,
        key: str,
        others: Sequence[str] = (),
        stale: Sequence[str] = (),  # noqa: ARG002 - nothing can be there without its document
        *,
        replace: bool,
    ) -> None:
        """Add the prepared entries below a prefix, or some that belong together, all at once.

        The smallest comes last, so that whoever checks the last entry of the archive, as the
        reference implementation does when it opens one for writing, has little to read.
        """
        with self._archive.lock():
            if self._is_there(key):
                if replace:
                    raise errors.append_only(self._archive.location, key)
                raise FileExistsError(f"{key} exists")
            reserved: dict[str, Reservation] = {}
            written: dict[str, list[bytes | memoryview]] = {}
            for prefix in (*others, key):
                reserved |= {k: each for k, each in self._reserved.items() if is_below(k, prefix)}
                below = [(k, parts) for k, parts in self._parts.items() if is_below(k, prefix)]
                written |= sorted(below, key=lambda part: sum(map(len, part[1])), reverse=True)
            self._archive.add(written, reserved.values())
            for added in reserved:
                del self._reserved[added]
            for added in written:
                del self._parts[added]

    def make_directory(self, key: str) -> None:
        """Do nothing: an archive has entries, and no directories."""

    def remove(self, key: str, others: Sequence[str] = ()) -> None:  # noqa: ARG002 - as above
        """Refuse to take away what is there."""
        if self._is_there(key):
            raise errors.append_only(self._archive.location, key)

    def _is_there(self, key: str) -> bool:
        return bool(self._archive.children(key)) or self._archive.get(key) is not None

    def replace_file(self, key: str, data: bytes) -> None:
        """Add an entry that is not there, or is there with these very bytes."""
        with self._archive.lock():
            found = self._archive.get(key)
            if found is None:
                self._archive.append(key, data)
            elif found != data:
                raise errors.append_only(self._archive.location, key)

    def leave_sign(self) -> None:
        """Do nothing: an archive changes in one step."""

    def abandon(self) -> None:
        """Give up what was not published."""
        self._parts.clear()
        for reservation in self._reserved.values():
            self._archive.abandon(reservation)
        self._reserved.clear()

"""The file of an archive: opened whatever its last writer did, and added to at its end.

Every change goes through the few methods of `ArchiveFile`, which makes each of them a point at
which a test can let the writer crash.  `Appender` knows positions and bytes, and neither names nor
readers.  It makes sure that no step touches the directory that counts at that moment; see
`_archive` for the order of the steps.

Readers never change the file.  A writer holds an advisory lock on it as long as it lives, so that
there is one at a time on a machine, and a crash releases it.
"""

from __future__ import annotations

import errno
import fcntl
import mmap
import os
import stat
import time
import weakref
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from zlib import crc32

from daf_storage import errors
from daf_storage.base import ForkLock, OpenMode
from daf_storage.stores._directories import follow_links, remove_leftovers, scratch
from daf_storage.stores._files import (
    allocate,
    check_linked,
    check_own,
    is_at,
    map_file,
    os_errors,
    release,
    try_lock,
)
from daf_storage.stores.mmap_zip import _records as records

_MAX_WRITE_BYTES = 1 << 30
_MAX_SEARCHED_BYTES = 1 << 31


class ArchiveFile:
    """An open file, read and written at given offsets.

    What the system refuses is a `DafError`; a `StorageError` is an ``OSError`` as well.

    Parameters
    ----------
    location
        The archive as messages name it.
    """

    def __init__(self, descriptor: int, location: str) -> None:
        self.descriptor = descriptor
        self.location = location
        self.owner = os.getpid()
        """The process that opened it: one that is forked from it has only a copy."""
        self._release = weakref.finalize(self, release, descriptor, self.owner)
        self._lengths_lock = ForkLock()

    @classmethod
    def open(cls, path: Path, flags: int, location: str = "") -> ArchiveFile:
        """Open a file; it is not inherited by programs that this one starts.

        A named pipe does not make it wait.
        """
        descriptor = os.open(path, flags | os.O_CLOEXEC | os.O_NONBLOCK, 0o666)
        return cls(descriptor, location or str(path))

    def size(self) -> int:
        """Return the length of the file."""
        return os.fstat(self.descriptor).st_size

    def inode(self) -> tuple[int, int]:
        """Return what tells this file from any other."""
        status = os.fstat(self.descriptor)
        return status.st_dev, status.st_ino

    def map(self) -> memoryview:
        """Return the whole file, mapped and read-only; its length does not change meanwhile."""
        with self._lengths_lock:
            return map_file(self.descriptor, self.size(), what=self.location)

    def require_linked(self) -> None:
        """Raise if the file was deleted, or this process is a fork of the one that opened it."""
        check_own(self.owner, self.location)
        check_linked(os.fstat(self.descriptor), self.location)

    def lock(self, operation: int = fcntl.LOCK_EX) -> bool:
        """Keep other writers away until the file is closed; false if there is one already."""
        return try_lock(self.descriptor, operation)

    def has_writer(self) -> bool:
        """Return whether a writer holds the lock of writers."""
        if not self.lock(fcntl.LOCK_SH):
            return True
        with suppress(OSError):
            fcntl.flock(self.descriptor, fcntl.LOCK_UN)
        return False

    def read_at(self, offset: int, size_bytes: int) -> bytes:
        """Return the bytes from ``offset`` on; fewer where the file ends."""
        return os.pread(self.descriptor, size_bytes, offset)

    def end_records(self) -> Iterator[int]:
        """Yield where there may be the record that ends an archive, the last of them first."""
        position = self.size()
        if position:
            first = max(position - _MAX_SEARCHED_BYTES, 0)
            with mmap.mmap(self.descriptor, 0, access=mmap.ACCESS_READ) as data:
                while (position := data.rfind(records.END_SIGNATURE, first, position)) >= 0:
                    yield position

    def write_at(self, offset: int, data: bytes | bytearray | memoryview) -> None:
        """Write all of ``data`` at ``offset``, growing the file if needed."""
        view = memoryview(data).cast("B")
        with os_errors(self.location):
            while view:
                written = os.pwrite(self.descriptor, view[:_MAX_WRITE_BYTES], offset)
                offset += written
                view = view[written:]

    def truncate(self, size_bytes: int) -> None:
        """Set the length of the file; one atomic step."""
        with self._lengths_lock, os_errors(self.location):
            os.ftruncate(self.descriptor, size_bytes)

    def allocate(self, offset: int, size_bytes: int) -> None:
        """Make sure that the disk has room for this range, so that filling it cannot fail."""
        with os_errors(self.location):
            allocate(self.descriptor, offset, size_bytes)

    def sync(self) -> None:
        """Wait until everything written so far is on the disk."""
        with os_errors(self.location):
            os.fsync(self.descriptor)

    def close(self) -> None:
        """Close the file and release its lock."""
        self._release()


_SLACK_BYTES = 1 << 16
_MAX_GROWTH_BYTES = 1 << 30
_BLOCK_BYTES = 1 << 20
_CRC_OFFSET = 14


class Appender:
    """The end of one file.

    Parameters
    ----------
    file
        The file, opened for writing, which ends with the directory.
    directory
        The central directory.
    end
        Where the next entry goes: behind the last one.
    max_file_size
        Length beyond which the file may not grow.
    sync
        Whether each step waits for the disk.
    """

    def __init__(
        self,
        file: ArchiveFile,
        directory: records.Directory,
        *,
        end: int,
        max_file_size: int,
        sync: bool,
    ) -> None:
        self.end = end
        self._file = file
        self._directory, self._count = directory.raw, len(directory.entries)
        self._directory_at = directory.offset
        self._file_stop = directory.offset + len(directory.raw) + records.TAIL_BYTES
        self._stale_stop = 0
        self._committed_end = end
        self._max_file_size = max_file_size
        self._sync = sync

    def write_entry(
        self, name: str, parts: Sequence[memoryview], *, directory_bytes: int
    ) -> records.Entry:
        """Write the local header and the data of an entry, which no directory names yet.

        Parameters
        ----------
        parts
            The data, as any number of buffers of bytes.
        directory_bytes
            Length of the directory that is to be written behind it.
        """
        size = sum(map(len, parts))
        with self._room(name, size, directory_bytes) as (offset, data_at):
            crc = self._write_blocks(data_at, parts)
            self._file.write_at(offset, records.pack_local(name.encode(), size, crc, offset))
        return records.pack_entry(name, size, crc, offset)

    def reserve(self, name: str, size_bytes: int, *, directory_bytes: int) -> tuple[int, int]:
        """Write a local header without a CRC; return where it is, and where the data goes.

        The data is zeros, and the disk has room for it.
        """
        with self._room(name, size_bytes, directory_bytes) as (offset, data_at):
            self._file.write_at(offset, records.pack_local(name.encode(), size_bytes, 0, offset))
            self._file.allocate(data_at, size_bytes)
            stop = min(self._stale_stop, data_at + size_bytes)  # an older directory may be there
            for at in range(data_at, stop, _BLOCK_BYTES):
                self._file.write_at(at, bytes(min(_BLOCK_BYTES, stop - at)))
        return offset, data_at

    def patch(self, name: str, size_bytes: int, crc: int, offset: int) -> records.Entry:
        """Write the local header of an entry that was reserved again, with its CRC."""
        entry = records.pack_entry(name, size_bytes, crc, offset)
        header = records.pack_local(entry.raw_name, size_bytes, crc, offset)
        self._file.write_at(offset + _CRC_OFFSET, header[_CRC_OFFSET:])
        return entry

    def commit(self, directory: bytes, count: int) -> None:
        """Put a new directory behind the last entry; it counts when this returns."""
        tail = records.pack_tail(count, len(directory), self.end)
        stop = self.end + len(directory) + len(tail)
        if stop > self._directory_at:
            self._copy_directory(max(stop, self._file_stop))
        self._stale_stop = max(self._stale_stop, stop)
        self._file.write_at(self.end, directory + tail)
        if self._sync:
            self._file.sync()
        self._file.truncate(stop)
        if self._sync:
            self._file.sync()
        self._directory, self._count, self._directory_at = directory, count, self.end
        self._file_stop = stop
        self._committed_end = self._stale_stop = self.end

    def settle(self) -> None:
        """Move the directory that counts up to behind the last entry."""
        if self._directory_at != self.end:
            self.commit(self._directory, self._count)

    @contextmanager
    def _room(self, name: str, size_bytes: int, directory_bytes: int) -> Iterator[tuple[int, int]]:
        """Hand out where an entry goes, and its data; after an error, that is free again."""
        offset = self.end
        data_at = offset + records.local_header_bytes(name.encode(), offset)
        stop = data_at + size_bytes
        needed = stop + directory_bytes + records.TAIL_BYTES
        if needed > self._max_file_size:
            raise errors.SizeLimitError(
                f"{self._file.location}: adding {name!r} needs a file of {needed:,} bytes, beyond "
                f"the {self._max_file_size:,} for which it was opened; open it with a larger "
                "max_file_size, or set daf_storage.settings.DAF_ZARR_ZIP_MAX_FILE_SIZE before"
            )
        if stop > self._directory_at:
            growth = min((stop - self._committed_end) // 2, _MAX_GROWTH_BYTES)
            slack = directory_bytes + records.TAIL_BYTES + _SLACK_BYTES + growth
            self._copy_directory(max(stop + slack, self._file_stop))
        self.end = stop
        try:
            yield offset, data_at
        except OSError:
            self._stale_stop = max(self._stale_stop, self.end)  # what is there counts as used
            self.end = offset
            raise

    def _copy_directory(self, at: int) -> None:
        """Write the directory that counts once more, at the end of the file."""
        tail = records.pack_tail(self._count, len(self._directory), at)
        try:
            self._file.write_at(at, self._directory + tail)
        except BaseException:
            with suppress(OSError):
                self._file.truncate(self._file_stop)
            raise
        if self._sync:
            self._file.sync()
        self._stale_stop = max(self._stale_stop, self._file_stop)
        self._directory_at = at
        self._file_stop = at + len(self._directory) + len(tail)

    def _write_blocks(self, at: int, parts: Sequence[memoryview]) -> int:
        crc = 0
        for part in parts:
            for start in range(0, len(part), _BLOCK_BYTES):
                block = part[start : start + _BLOCK_BYTES]
                crc = crc32(block, crc)
                self._file.write_at(at, block)
                at += len(block)
        return crc


_EMPTY = records.pack_tail(0, 0, 0)
_WAIT_SECONDS = 0.01
_PAUSE_SECONDS = 0.0002
_READER_TRIES = 300
_WRITER_TRIES = 5
_READERS_CHECK_BYTES = 1 << 24
_HEADER_READ_BYTES = 256


class RecoveryWarning(errors.DafWarning):
    """Something that a crashed writer had left half done was taken away."""


@dataclass(frozen=True, slots=True)
class Recovery:
    """What had to be done to an archive whose writer crashed."""

    dropped: tuple[str, ...] = ()
    """Entries that were not whole and are no longer in the directory."""
    dropped_bytes: tuple[int, ...] = ()
    """How many bytes each of them should have had."""
    completed: tuple[str, ...] = ()
    """Entries whose data was whole, but not their header."""
    cut_bytes: int = 0
    """Number of bytes behind the last committed data that were given back."""

    def __bool__(self) -> bool:
        return self != Recovery()


def open_for_reading(path: Path, location: str) -> tuple[ArchiveFile, records.Directory]:
    """Open an archive and read its directory, or the last one that was committed.

    Raises
    ------
    CorruptDataError
        There is none, or its last entries are not there: the message names the way out.
    """
    file = _open(path, os.O_RDONLY, location)
    try:
        return file, _directory_for_reading(file, location)
    except BaseException:
        file.close()
        raise


def _directory_for_reading(file: ArchiveFile, location: str) -> records.Directory:
    """Read the directory; if a writer appends at this moment, read again.

    Whoever appends lets the file grow before he writes where the directory was, so what was read
    while the length stayed the same belongs together.  If it never does, the local headers tell:
    nobody writes over those.
    """
    reason = "it changes all the time"
    for attempt in range(_READER_TRIES):
        size = file.size()
        try:
            found = records.read_directory(file.read_at, size)
        except records.MalformedError as error:
            reason = str(error)
        else:
            if file.size() == size or records.agrees_with_headers(found.entries, file.read_at):
                return found
        if file.size() == size and not file.has_writer():
            break
        time.sleep(min(attempt, 50) * _PAUSE_SECONDS)
    earlier = earlier_directory(file)
    if earlier is None:
        raise unreadable(location, file.size(), reason)
    return earlier


def earlier_directory(file: ArchiveFile) -> records.Directory | None:
    """Return the last committed directory of a file that does not end with one.

    The reference implementation writes a new directory partly over the old one if what it adds is
    smaller than that.  A crash in between leaves no directory, but all entries, and behind them
    what the old one began with.
    """
    found = records.find_earlier_directory(file.read_at, file.end_records())
    if found is not None:
        return found
    entries, stop = walk(file)
    if file.read_at(stop, 4) not in (records.CENTRAL_SIGNATURE, records.END64_SIGNATURE):
        return None
    return records.Directory(entries, stop, stop, 0, b"".join(entry.record for entry in entries))


def check_last_entry(
    directory: records.Directory, data: memoryview, location: str, path: Path
) -> None:
    """Raise if the directory names an entry at its end that is not there yet.

    Entries that are large are not checked here, only whether their header is there.
    """
    last = directory.entries[-1] if directory.entries else None
    if last is None or not records.is_own_entry(last) or directory.shift:
        return
    is_checked = last.size_bytes <= _READERS_CHECK_BYTES or not last.crc
    has_header = records.header_in(data, last) is not None
    is_there = has_header and records.span_of(last, data)[1] <= len(data)
    if not is_there or (is_checked and not records.is_whole(last, data)):
        raise errors.CorruptDataError(
            f"{location}: a writer stopped in the middle of adding {last.name!r}, and reading does "
            "not change the file; go back to what was complete with: daf repair "
            f"{errors.in_shell(path)}"
        )


def open_for_writing(path: Path, mode: OpenMode, location: str) -> ArchiveFile:
    """Open and lock the file of an archive, creating or emptying it as the mode says."""
    flags = os.O_RDWR | (0 if mode == "r+" else os.O_CREAT)
    path = follow_links(path, location)
    remove_leftovers(path)
    while True:
        file = _open(path, flags, location)
        try:
            _lock(file, location)
            if not is_at(file.descriptor, path):
                file.close()
                continue  # replaced by another one this very moment
            if mode == "w" and file.size():
                return _replaced(file, path, location)
            if _EMPTY.startswith(file.read_at(0, len(_EMPTY))) and file.size() < len(_EMPTY):
                file.write_at(0, _EMPTY)
        except BaseException:
            file.close()
            raise
        return file


def sync_folder(path: Path) -> None:
    """Wait until the disk knows the name of a file."""
    folder = ArchiveFile.open(path.parent, os.O_RDONLY | os.O_DIRECTORY)
    folder.sync()
    folder.close()


def _open(path: Path, flags: int, location: str) -> ArchiveFile:
    if path.is_dir():
        raise errors.NotADafError(f"{location}: there is a directory of this name, not a file")
    try:
        file = ArchiveFile.open(path, flags, location)
    except FileNotFoundError:
        if flags & os.O_CREAT:
            raise errors.SourceNotFoundError(
                f"{location}: there is no directory {path.parent} to create it in"
            ) from None
        raise errors.SourceNotFoundError(f"no such file: {path}") from None
    except OSError as error:
        if error.errno in (errno.EACCES, errno.EPERM, errno.EROFS):
            what = "read" if flags & os.O_ACCMODE == os.O_RDONLY else "write"
            raise errors.ReadOnlyError(f"{location}: no permission to {what} this file") from None
        if error.errno != errno.ENXIO:  # a socket, or a pipe that nobody reads
            raise
    else:
        if stat.S_ISREG(os.fstat(file.descriptor).st_mode):
            return file
        file.close()
    raise errors.NotADafError(
        f"{location}: this is not a regular file; give the path of an archive"
    )


def _lock(file: ArchiveFile, location: str) -> None:
    for _ in range(_WRITER_TRIES):  # a reader may hold the lock for a moment
        if file.lock():
            return
        time.sleep(_WAIT_SECONDS)
    raise errors.InUseError(
        f"{location}: another process has this archive open for writing, or another handle here; "
        "close it there, or open it with mode 'r'"
    )


def _replaced(file: ArchiveFile, path: Path, location: str) -> ArchiveFile:
    """Put an empty archive in the place of one that is there; its readers keep the old one."""
    try:
        records.read_directory(file.read_at, file.size())
    except records.MalformedError as error:
        if file.read_at(0, 4) not in (records.LOCAL_SIGNATURE, records.END64_SIGNATURE):
            raise errors.NotADafError(
                f"{location}: this file is not a ZIP archive, so mode 'w' does not replace it "
                f"({error}); delete it yourself if that is what you want"
            ) from None
    with scratch(path) as temporary:
        new = ArchiveFile.open(temporary, os.O_RDWR | os.O_CREAT | os.O_EXCL, location)
        try:
            new.lock()
            new.write_at(0, _EMPTY)
            os.replace(temporary, path)
        except BaseException:
            new.close()
            raise
    file.close()
    return new


def replace_archive(source: Path, target: Path, location: str) -> None:
    """Put one archive in the place of another, unless a writer has that one open."""
    with suppress(FileNotFoundError):
        file = ArchiveFile.open(target, os.O_RDWR)
        try:
            _lock(file, location)
            os.replace(source, target)
        finally:
            file.close()
        return
    os.replace(source, target)


def directory_for_writing(file: ArchiveFile, location: str) -> tuple[records.Directory, int]:
    """Return the last committed directory, and how many bytes behind it were cut off.

    Raises
    ------
    UnsupportedDataError
        Another program packed the archive: its records cannot be brought into our order.
    """
    size, reason = file.size(), ""
    try:
        found: records.Directory | None = records.read_directory(file.read_at, size)
    except records.MalformedError as error:
        found, reason = earlier_directory(file), str(error)
    if found is None:
        raise unreadable(location, size, reason)
    if not found.is_own():
        raise errors.UnsupportedDataError(
            f"{location}: another program packed this archive, so nothing is added to it; copy it "
            "into one that can be added to, with 'daf convert'"
        )
    if reason:
        file.truncate(found.stop)
    if found.stop == found.offset:  # its entries were found, and no directory
        tail = records.pack_tail(len(found.entries), len(found.raw), found.offset)
        file.write_at(found.offset, found.raw + tail)
        found = replace(found, stop=file.size())
    return found, size - found.stop


def unreadable(location: str, size_bytes: int, reason: str) -> errors.CorruptDataError:
    """Say why a file is not an archive, and what may be done."""
    if size_bytes < records.END_BYTES:
        return errors.CorruptDataError(f"{location}: file too small to be a zip archive")
    return errors.CorruptDataError(
        f"{location}: this is not a complete ZIP archive: {reason}; copy or download it again, or "
        "see what 'zip -FF' can save of it"
    )


def walk(file: ArchiveFile) -> tuple[list[records.Entry], int]:
    """Return the entries that lie one behind the other from the beginning, and where they end.

    What the directory would say, had it not been lost.  Only entries of our own kind are followed;
    their data is not looked at.
    """
    entries: list[records.Entry] = []
    offset, size = 0, file.size()
    while offset < size:
        head = file.read_at(offset, _HEADER_READ_BYTES)
        try:
            length = records.local_head_bytes(head)
            if length > len(head):
                head = file.read_at(offset, length)
            header = records.parse_local(head)
            entry = records.pack_entry(
                header.raw_name.decode(), header.size_bytes, header.crc, offset
            )
        except ValueError:
            break
        stop = offset + header.header_bytes + header.size_bytes
        own = records.pack_local(header.raw_name, header.size_bytes, header.crc, offset)
        if own != head[:length] or stop > size or records.name_problem(entry.name):
            break
        entries.append(entry)
        offset = stop
    return entries, offset

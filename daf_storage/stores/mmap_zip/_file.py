"""The file of an archive, and how bytes and a new directory are added to its end.

Every change goes through the few methods of `ArchiveFile`, which makes each of them a point at
which a test can let the writer crash.  `Appender` knows positions and bytes, and neither names nor
readers.  It makes sure that no step touches the directory that counts at that moment; see
`_archive` for the order of the steps.
"""

from __future__ import annotations

import fcntl
import mmap
import os
import stat
import weakref
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from zlib import crc32

from daf_storage import errors
from daf_storage.base import ForkLock
from daf_storage.stores._files import allocate, check_linked, map_file, release
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
        self._release = weakref.finalize(self, release, descriptor, os.getpid())
        self._lengths_lock = ForkLock()

    @classmethod
    def open(cls, path: Path, flags: int, location: str = "") -> ArchiveFile:
        """Open a file; it is not inherited by programs that this one starts.

        A named pipe does not make it wait: see `is_regular`.
        """
        descriptor = os.open(path, flags | os.O_CLOEXEC | os.O_NONBLOCK, 0o666)
        return cls(descriptor, location or str(path))

    @property
    def is_regular(self) -> bool:
        """Whether it is a plain file, and no directory, named pipe, socket or device."""
        return stat.S_ISREG(os.fstat(self.descriptor).st_mode)

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
        """Raise ``SourceNotFoundError`` if the file was deleted: what is written would be lost."""
        check_linked(os.fstat(self.descriptor), self.location)

    def lock(self, operation: int = fcntl.LOCK_EX) -> bool:
        """Keep other writers away until the file is closed; false if there is one already.

        On a file system without locks there is nothing to keep anybody away with.
        """
        try:
            fcntl.flock(self.descriptor, operation | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        except OSError:
            return True
        return True

    def has_writer(self) -> bool:
        """Return whether a writer holds the lock of writers."""
        if not self.lock(fcntl.LOCK_SH):
            return True
        with suppress(OSError):
            fcntl.flock(self.descriptor, fcntl.LOCK_UN)
        return False

    def read_at(self, offset: int, size_bytes: int) -> bytes:
        """Return the bytes from ``offset`` on; fewer where the file ends."""
        parts = []
        while size_bytes > 0:
            part = os.pread(self.descriptor, min(size_bytes, _MAX_WRITE_BYTES), offset)
            if not part:
                break
            parts.append(part)
            offset += len(part)
            size_bytes -= len(part)
        return b"".join(parts)

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
        with errors.os_errors(self.location):
            while view:
                written = os.pwrite(self.descriptor, view[:_MAX_WRITE_BYTES], offset)
                offset += written
                view = view[written:]

    def truncate(self, size_bytes: int) -> None:
        """Set the length of the file; one atomic step."""
        with self._lengths_lock, errors.os_errors(self.location):
            os.ftruncate(self.descriptor, size_bytes)

    def allocate(self, offset: int, size_bytes: int) -> None:
        """Make sure that the disk has room for this range, so that filling it cannot fail."""
        with errors.os_errors(self.location):
            allocate(self.descriptor, offset, size_bytes)

    def sync(self) -> None:
        """Wait until everything written so far is on the disk."""
        with errors.os_errors(self.location):
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
        raw_name, size = name.encode(), sum(map(len, parts))
        before = self.end
        offset, data_at = self._make_room(raw_name, size, name, directory_bytes)
        try:
            crc = self._write_blocks(data_at, parts)
            self._file.write_at(offset, records.pack_local(raw_name, size, crc, offset))
        except OSError:
            self.retreat(before)
            raise
        return records.pack_entry(name, size, crc, offset)

    def reserve(self, name: str, size_bytes: int, *, directory_bytes: int) -> tuple[int, int]:
        """Write a local header without a CRC; return where it is, and where the data goes.

        The data is zeros, and the disk has room for it.
        """
        raw_name = name.encode()
        before = self.end
        offset, data_at = self._make_room(raw_name, size_bytes, name, directory_bytes)
        try:
            self._file.write_at(offset, records.pack_local(raw_name, size_bytes, 0, offset))
            self._file.allocate(data_at, size_bytes)
            self._clear(data_at, min(self._stale_stop, data_at + size_bytes))
        except OSError:
            self.retreat(before)
            raise
        return offset, data_at

    def retreat(self, end: int) -> None:
        """Let the next entry begin earlier; what is behind ``end`` counts as used."""
        self._stale_stop = max(self._stale_stop, self.end)
        self.end = end

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

    def _make_room(
        self, raw_name: bytes, size_bytes: int, name: str, directory_bytes: int
    ) -> tuple[int, int]:
        offset = self.end
        data_at = offset + records.local_header_bytes(raw_name, offset)
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
        return offset, data_at

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

    def _clear(self, start: int, stop: int) -> None:
        """Write zeros where an older directory may have been."""
        for at in range(start, stop, _BLOCK_BYTES):
            self._file.write_at(at, bytes(min(_BLOCK_BYTES, stop - at)))

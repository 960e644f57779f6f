"""The file of an archive: every change to it goes through the few methods of `ArchiveFile`.

That makes each of them a point at which a test can let the writer crash.
"""

from __future__ import annotations

import errno
import fcntl
import os
import stat
import weakref
from collections.abc import Hashable, Iterator
from contextlib import contextmanager
from pathlib import Path

from daf_storage import errors
from daf_storage.base import ForkLock
from daf_storage.stores._allocate import allocate
from daf_storage.stores._identity import Unsettled, check_linked, fingerprint, is_settled
from daf_storage.stores._locks import release
from daf_storage.stores._mapping import map_file

_MAX_WRITE_BYTES = 1 << 30


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
        self._changes_lock = ForkLock()
        self._known = fingerprint(os.fstat(descriptor))
        self._foreign_changes = 0

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

    def identity(self) -> tuple[int, int]:
        """Return what tells this file from any other."""
        status = os.fstat(self.descriptor)
        return status.st_dev, status.st_ino

    def map(self) -> memoryview:
        """Return the whole file, mapped and read-only; its length does not change meanwhile."""
        with self._changes_lock:
            return map_file(self.descriptor, self.size(), what=self.location)

    def foreign_state(self) -> Hashable:
        """Return what changes whenever another program wrote into the file.

        The lock keeps only other writers of this package away.  What this object writes does not
        count, so that what was remembered of other entries outlives it.
        """
        with self._changes_lock:
            status = self._look()
            return self._foreign_changes if is_settled(status) else Unsettled()

    def _look(self) -> os.stat_result:
        """Count a change of the file that was not made here."""
        status = os.fstat(self.descriptor)
        if fingerprint(status) != self._known:
            self._known = fingerprint(status)
            self._foreign_changes += 1
        return status

    @contextmanager
    def _changing(self) -> Iterator[None]:
        """Tell a change that is made here from others."""
        with self._changes_lock:
            self._look()
            try:
                with errors.os_errors(self.location):
                    yield
            finally:
                self._known = fingerprint(os.fstat(self.descriptor))

    def require_linked(self) -> None:
        """Raise ``SourceNotFoundError`` if the file was deleted: what is written would be lost."""
        check_linked(os.fstat(self.descriptor), self.location)

    def is_at(self, path: Path) -> bool:
        """Return whether this is still the file at ``path``."""
        try:
            return os.path.samestat(os.fstat(self.descriptor), os.stat(path))
        except FileNotFoundError:
            return False

    def lock(self) -> bool:
        """Keep other writers away until the file is closed; false if there is one already.

        On a file system without locks there is nothing to keep anybody away with.
        """
        try:
            fcntl.flock(self.descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        except OSError:
            return True
        return True

    def has_writer(self) -> bool:
        """Return whether a writer holds the lock of writers."""
        try:
            fcntl.flock(self.descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
        except OSError:
            return False
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

    def data_extents(self) -> list[tuple[int, int]]:
        """Return the ranges of the file that are no holes, in ascending order."""
        size, position, found = self.size(), 0, []
        while position < size:
            try:
                start = os.lseek(self.descriptor, position, os.SEEK_DATA)
                stop = os.lseek(self.descriptor, start, os.SEEK_HOLE)
            except OSError as error:
                if error.errno != errno.ENXIO:  # cannot tell: all may be data
                    found.append((position, size))
                break
            found.append((start, stop))
            position = stop
        return found

    def write_at(self, offset: int, data: bytes | bytearray | memoryview) -> None:
        """Write all of ``data`` at ``offset``, growing the file if needed."""
        view = memoryview(data).cast("B")
        with self._changing():
            while view:
                written = os.pwrite(self.descriptor, view[:_MAX_WRITE_BYTES], offset)
                offset += written
                view = view[written:]

    def truncate(self, size_bytes: int) -> None:
        """Set the length of the file; one atomic step."""
        with self._changing():
            os.ftruncate(self.descriptor, size_bytes)

    def allocate(self, offset: int, size_bytes: int) -> None:
        """Make sure that the disk has room for this range, so that filling it cannot fail."""
        with self._changing():
            allocate(self.descriptor, offset, size_bytes)

    def sync(self) -> None:
        """Wait until everything written so far is on the disk."""
        with errors.os_errors(self.location):
            os.fsync(self.descriptor)

    def close(self) -> None:
        """Close the file and release its lock."""
        self._release()

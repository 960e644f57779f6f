"""Files that HDF5 writes through this process, so that none of its writes fails within HDF5.

Where a write fails, HDF5 loses data without a word, or ends the process.  So what the file system
refuses is kept, tried again before anything else is written, and raised where `check` is called.
And there has to be room before a change begins.  Knows nothing of what is in the file.
"""

from __future__ import annotations

import fcntl
import math
import os
import resource
import signal
import threading
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, Literal

import pyarrow as pa

from daf_storage.base import ForkLock, optional_import
from daf_storage.errors import StorageFullError
from daf_storage.stores import release

_MOST_KEPT_BYTES: Final = 1 << 28
"""What is larger has elements of datasets, which HDF5 does not need again."""


class _Interrupts:
    """Ctrl-C waits while HDF5 works, which calls Python and cannot go on if that raises."""

    def __init__(self) -> None:
        self._depth = 0
        self._handler: Any = None
        self._noted: list[tuple[int, Any]] = []

    def hold(self) -> None:
        """Note interrupts from now on, instead of raising them."""
        if threading.current_thread() is not threading.main_thread():
            return  # only the main thread gets any
        if self._depth == 0:
            handler = signal.getsignal(signal.SIGINT)
            self._handler = handler if callable(handler) else None
            if self._handler is not None:
                signal.signal(signal.SIGINT, self._note)
        self._depth += 1

    def release(self) -> None:
        """Raise what was noted, unless a caller holds interrupts too."""
        if threading.current_thread() is not threading.main_thread():
            return
        self._depth -= 1
        if self._depth == 0 and self._handler is not None:
            signal.signal(signal.SIGINT, self._handler)
            self.check()

    def check(self) -> None:
        """Raise what was noted: HDF5 does nothing now."""
        if self._noted and threading.current_thread() is threading.main_thread():
            noted = self._noted.pop()
            self._noted.clear()
            self._handler(*noted)

    def _note(self, number: int, frame: Any) -> None:
        self._noted.append((number, frame))


_INTERRUPTS = _Interrupts()


class OutputLock:
    """A `ForkLock` for a file that is written: Ctrl-C waits while it is held."""

    def __init__(self) -> None:
        self._lock = ForkLock()

    def __enter__(self) -> None:
        _INTERRUPTS.hold()
        self._lock.acquire()

    def __exit__(self, *_: object) -> None:
        try:
            self._lock.release()
        finally:
            _INTERRUPTS.release()


class OutputFile:
    """An open file as h5py writes it, whose writes do not fail.

    Parameters
    ----------
    descriptor
        The open file, which this object closes.
    """

    def __init__(self, descriptor: int) -> None:
        self.descriptor = descriptor
        self._owner = os.getpid()
        self._at = 0
        self._refused: deque[tuple[int, bytes | None]] = deque()
        """What was not written yet, in order: offset and bytes, or a length of the file."""
        self._kept_bytes = 0
        self._given_up: OSError | None = None

    def lock(self) -> None:
        """Lock the file as HDF5 locks what it writes, unless that was switched off.

        Raises
        ------
        BlockingIOError
            It is open elsewhere.
        """
        if os.environ.get("HDF5_USE_FILE_LOCKING", "").upper() in ("FALSE", "0"):
            return
        try:
            fcntl.flock(self.descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise
        except OSError:  # a file system without locks
            return

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        """Go to a place; HDF5 goes to the end only to ask where it is."""
        self._at = offset if whence == os.SEEK_SET else self._size() + offset
        return self._at

    def tell(self) -> int:
        """Return the place."""
        return self._at

    def readinto(self, target: memoryview) -> int:
        """Read as many bytes; zeros where there are none, as HDF5's own driver does."""
        view, done = memoryview(target).cast("B"), 0
        while count := os.preadv(self.descriptor, [view[done:]], self._at + done):
            done += count
        view[done:] = bytes(len(view) - done)
        for offset, kept in self._refused:
            data = kept or b""
            start, stop = max(offset, self._at), min(offset + len(data), self._at + len(view))
            if start < stop:
                view[start - self._at : stop - self._at] = data[start - offset : stop - offset]
        return len(view)

    def write(self, data: bytes) -> int:
        """Write, or keep what cannot be written."""
        self._try(self._at, data)
        return len(data)

    def truncate(self, size: int) -> int:
        """Make the file so long."""
        if self._size() != size:
            self._try(size, None)
        return size

    def flush(self) -> None:
        """Do nothing: what is written is not buffered here."""

    def check(self) -> None:
        """Raise if something could not be written until now; call it where HDF5 does nothing.

        Raises
        ------
        OSError
            Why.  What was not written is kept, and tried again.
        """
        _INTERRUPTS.check()
        self._write_refused()

    def close(self) -> None:
        """Check, and close the file; a fork of the process that opened it has nothing to check."""
        try:
            if self._owner == os.getpid():
                self.check()
        finally:
            self.discard()

    def discard(self) -> None:
        """Close the file, whatever is not written yet."""
        descriptor, self.descriptor = self.descriptor, -1
        if descriptor >= 0:
            self._refused.clear()
            release(descriptor, self._owner)

    __del__ = discard

    def _try(self, offset: int, data: bytes | None) -> None:
        try:
            self._write_refused()
            self._put(offset, data)
        except OSError as error:
            self._kept_bytes += len(data or b"")
            if self._kept_bytes > _MOST_KEPT_BYTES:
                self._given_up = self._given_up or error
            else:
                self._refused.append((offset, None if data is None else bytes(data)))

    def _write_refused(self) -> None:
        if self._given_up is not None:
            raise self._given_up
        while self._refused:
            self._put(*self._refused[0])
            self._refused.popleft()
        self._kept_bytes = 0

    def _put(self, offset: int, data: bytes | None) -> None:
        if self._owner != os.getpid():  # HDF5 writes, and cuts the file, even where it closes it
            raise OSError("this process was forked from the one that opened the file for writing")
        if data is None:
            os.ftruncate(self.descriptor, offset)
            return
        view, done = memoryview(data), 0
        while done < len(view):
            done += os.pwrite(self.descriptor, view[done:], offset + done)

    def _size(self) -> int:
        size = os.fstat(self.descriptor).st_size
        for offset, data in self._refused:
            size = offset if data is None else max(size, offset + len(data))
        return size


def open_for_output(path: Path, output: OutputFile, mode: str, **options: Any) -> Any:
    """Return a file of h5py that writes through an `OutputFile`.

    Parameters
    ----------
    mode
        ``w`` for a new or empty file, ``r+`` for one of HDF5.
    """
    h5py = optional_import("h5py", extra="hdf5")
    return h5py.File(path, mode, driver="fileobj", fileobj=output, **options)


@contextmanager
def hdf5_output(
    path: Path, mode: Literal["w", "r+"] = "w", *, header: bytes = b""
) -> Iterator[tuple[Any, Callable[[], None]]]:
    """Hand out a file of h5py; when the block ends, everything is in it, or an error is raised.

    Also hands out what is to be called between larger parts: it raises ``OSError`` if one could not
    be written, and ``KeyboardInterrupt``, for which there is no other place.

    Parameters
    ----------
    mode
        Whether to make the file, or to add to it.
    header
        What stands in a new file before that of HDF5, at most 512 bytes.
    """
    options = {"userblock_size": _HEADER_BYTES} if header else {}
    flags = os.O_RDWR | os.O_CLOEXEC | (os.O_CREAT | os.O_TRUNC if mode == "w" else 0)
    _INTERRUPTS.hold()
    try:
        output = OutputFile(os.open(path, flags, 0o666))
        try:
            with open_for_output(path, output, mode, **options) as file:
                yield file, output.check
            output.seek(0)
            output.write(header)
            output.check()
        finally:
            output.discard()
    finally:
        _INTERRUPTS.release()


_HEADER_BYTES: Final = 512
METADATA_BYTES: Final = 1 << 16
"""Room for what HDF5 itself notes of a change."""

_STRING_BYTES: Final = 40
_SHARE_OF_METADATA: Final = 64


def string_bytes(strings: pa.Array) -> int:
    """Return at most how many bytes strings take in an HDF5 file: references, lengths, padding.

    >>> string_bytes(pa.array(["a", "bc"])) > 2 * (16 + 16)
    True
    """
    data_bytes = int(strings.nbytes)
    return _STRING_BYTES * len(strings) + data_bytes + data_bytes // 8


def require_space(descriptor: int, size_bytes: int, location: str, *, pending_bytes: int) -> None:
    """Raise unless a file can grow by some bytes.

    Parameters
    ----------
    pending_bytes
        By how much it will grow anyway.

    Raises
    ------
    StorageFullError
        The disk has no such room, or files may not be so large here.
    """
    needed = size_bytes + pending_bytes + size_bytes // _SHARE_OF_METADATA + METADATA_BYTES
    status = os.fstat(descriptor)
    disk = os.fstatvfs(descriptor)
    blocks = disk.f_bfree if os.geteuid() == 0 else disk.f_bavail
    limit = resource.getrlimit(resource.RLIMIT_FSIZE)[0]
    allowed = math.inf if limit == resource.RLIM_INFINITY else limit - status.st_size
    free = min(blocks * disk.f_frsize, allowed)
    if needed > free:
        why = "the disk has" if free < allowed else "files may grow here by"
        raise StorageFullError(
            f"{location}: this needs {needed:,} bytes, and {why} {max(int(free), 0):,}; it was not "
            "written; free some space, or use another disk"
        )


def require_space_in(folder: Path, location: str) -> None:
    """Raise ``StorageFullError`` unless an empty HDF5 file can be made in a directory."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        require_space(descriptor, 0, location, pending_bytes=0)
    finally:
        os.close(descriptor)

"""Protocols of stores, and files of this machine: opened, mapped, filled, seen to change.

Untrusted data sets have anything in the place of a file, so only regular ones are opened, without
ever blocking.  They are mapped without being kept open: Python's own ``mmap`` holds a descriptor as
long as the mapping lives.  Memory that is mapped beyond the end of its file kills the process that
touches it (SIGBUS), so whoever hands out a mapping, or a part of one that it keeps, asks
`check_length` first; what remains is a file that shrinks while it is read
(docs/explanation/trust.md).

A file is known by its *fingerprint*.  The time of its data can be set back by any program
(``rsync --times``, ``os.utime``); the time of its inode cannot.  Both advance in steps of
milliseconds, so the *identity* of a file that was changed just now equals nothing: a second change
within the same step would not show.
"""

from __future__ import annotations

import ctypes
import errno
import fcntl
import mmap
import os
import stat
import time
import weakref
from collections.abc import Callable, Hashable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from functools import cache
from pathlib import Path
from typing import Any, Final, NoReturn, Protocol, TypeAlias

from daf_storage import errors
from daf_storage.base import AnyArray

_KINDS = {
    stat.S_IFIFO: "a named pipe",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
}


def open_regular(
    path: str | os.PathLike[str], *, what: str, dir_fd: int | None = None
) -> int | None:
    """Return a descriptor of a file, for reading; None if there is none, or a directory.

    Parameters
    ----------
    what
        The file as messages name it.
    dir_fd
        Descriptor of the directory to which ``path`` is relative.

    Raises
    ------
    ReadOnlyError
        There is no permission to read it.
    CorruptDataError
        It is a named pipe, a socket or a device, or the disk fails.
    """
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=dir_fd)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        if error.errno == errno.ENXIO:
            raise not_regular(stat.S_IFSOCK, what=what) from error
        refuse(error, what=what)
    mode = os.fstat(descriptor).st_mode
    if stat.S_ISREG(mode):
        return descriptor
    os.close(descriptor)
    if stat.S_ISDIR(mode):
        return None
    raise not_regular(mode, what=what)


def not_regular(mode: int, *, what: str) -> errors.CorruptDataError:
    """Return the error for something that is no regular file, by its ``st_mode``."""
    kind = _KINDS.get(stat.S_IFMT(mode), "something else")
    return errors.CorruptDataError(
        f"{what}: this is {kind}, not a regular file; put a file with the data in its place"
    )


def refuse(error: OSError, *, what: str) -> NoReturn:
    """Raise an error of the file system as one of ours."""
    if isinstance(error, PermissionError):
        raise errors.ReadOnlyError(
            f"{what}: no permission to read it; ask for read access"
        ) from error
    raise errors.CorruptDataError(f"{what}: it cannot be read ({error.strerror})") from error


@contextmanager
def os_errors(location: str) -> Iterator[None]:
    """Raise errors of the operating system within the block as `errors.from_os_error` has them.

    A broken pipe stays one, which says that a reader has seen enough, and so does a name that is
    taken, of which the caller knows more.  HDF5 reports some as a ``RuntimeError`` that states the
    number.

    >>> with os_errors("x"):
    ...     raise RuntimeError("Set slist enabled failed (file write failed: errno = 28, ...")
    Traceback (most recent call last):
        ...
    daf_storage.errors.StorageFullError: x: No space left on device; free some, or use another disk
    """
    try:
        yield
    except (BrokenPipeError, FileExistsError, errors.DafError):
        raise
    except OSError as error:
        raise errors.from_os_error(error, location) from error
    except RuntimeError as error:
        if errors.STATED_NUMBER.search(str(error)) is None:
            raise
        raise errors.from_os_error(OSError(str(error)), location) from error


@contextmanager
def translated(
    caught: type[Exception] | tuple[type[Exception], ...],
    kind: type[errors.DafError],
    what: str,
    after: str = "",
) -> Iterator[None]:
    """Raise what a library raises within the block as an error of ours, which has its reason.

    >>> with translated(OSError, errors.CorruptDataError, "x.h5: it cannot be read"):
    ...     raise OSError("no signature")
    Traceback (most recent call last):
        ...
    daf_storage.errors.CorruptDataError: x.h5: it cannot be read (no signature)
    """
    try:
        yield
    except caught as error:
        raise kind(f"{what} ({errors.reason_of(error)}){after}") from error


_FAILED = ctypes.c_void_p(-1).value


@cache
def _libc() -> Any:
    libc = ctypes.CDLL(None, use_errno=True)
    size, offset = ctypes.c_size_t, ctypes.c_int64
    libc.mmap.argtypes = (ctypes.c_void_p, size, ctypes.c_int, ctypes.c_int, ctypes.c_int, offset)
    libc.mmap.restype = ctypes.c_void_p
    libc.munmap.argtypes = (ctypes.c_void_p, size)
    return libc


def check_length(size_bytes: int, needed_bytes: int, *, what: str) -> None:
    """Raise if a file became shorter than what is to be read of it.

    Raises
    ------
    CorruptDataError
        It is.

    Examples
    --------
    >>> check_length(10, 10, what="x.zip")
    """
    if size_bytes < needed_bytes:
        raise errors.CorruptDataError(
            f"{what}: the file has {size_bytes:,} bytes by now, and {needed_bytes:,} are needed: "
            "another program has cut it or written over it; open it again when that is done"
        )


def map_file(
    descriptor: int,
    size_bytes: int,
    *,
    offset: int = 0,
    keep: object = None,
    what: str | None,
    is_writable: bool = False,
) -> memoryview:
    """Return a range of an open file, mapped; read-only unless it is to be written to.

    The descriptor may be closed at once; the mapping lives as long as a view of it.

    Parameters
    ----------
    keep
        Something that is to live as long as a view of the mapping.
    what
        The file as messages name it.  None if the range may end behind the file, since its length
        is looked at whenever the view is read.

    Raises
    ------
    CorruptDataError
        The file ends before the range does.
    """
    if size_bytes == 0:
        return memoryview(bytearray())
    if what is not None:
        check_length(os.fstat(descriptor).st_size, offset + size_bytes, what=what)
    start = offset // mmap.ALLOCATIONGRANULARITY * mmap.ALLOCATIONGRANULARITY
    length = offset - start + size_bytes
    protection = mmap.PROT_READ | (mmap.PROT_WRITE if is_writable else 0)
    address = _libc().mmap(None, length, protection, mmap.MAP_SHARED, descriptor, start)
    if address == _FAILED:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))
    mapped = (ctypes.c_ubyte * length).from_address(address)
    unmap = weakref.finalize(mapped, _unmap, address, length, keep)
    unmap.atexit = False  # threads may still read when the interpreter ends
    view = memoryview(mapped).cast("B")[offset - start :]
    return view if is_writable else view.toreadonly()


def _unmap(address: int, length: int, keep: object) -> None:
    """Unmap a range and let go of what was kept for it."""
    del keep
    _libc().munmap(address, length)


def allocate(descriptor: int, offset: int, size_bytes: int) -> None:
    """Reserve disk space for a range of a file, which grows to hold it.

    Storing into a mapping of a file for which the disk has no room left kills the process; a full
    disk is an ``OSError`` here instead.
    """
    if size_bytes == 0:
        return
    if hasattr(os, "posix_fallocate"):
        os.posix_fallocate(descriptor, offset, size_bytes)
    elif os.fstat(descriptor).st_size < offset + size_bytes:
        os.ftruncate(descriptor, offset + size_bytes)


Fingerprint: TypeAlias = tuple[int, int, int, int]
"""Inode, size, time of the data and time of the inode of a file."""

_TIME_STEP_NS: Final = 100_000_000
_MAX_WAITS: Final = 5


def check_linked(status: os.stat_result, location: str) -> None:
    """Raise if an open file has no name any more, so that what is written into it would be lost.

    Raises
    ------
    SourceNotFoundError
        It was deleted, or another file took its place.
    """
    if not status.st_nlink:
        raise errors.SourceNotFoundError(
            f"{location}: the file was deleted, or replaced by another one, since it was opened; "
            "nothing was written, since it would be lost; open it again"
        )


def check_own(owner: int, location: str) -> None:
    """Raise if this process is a fork of the one that opened a file for writing.

    Each would write where it believes the end to be, over what the other one wrote.

    Raises
    ------
    ForkedProcessError
        The process ``owner`` is another one.
    """
    if os.getpid() != owner:
        raise errors.ForkedProcessError(
            f"{location}: it was opened for writing by process {owner}, of which this one was "
            "forked: write there, or open it for reading here; once closed in both, it can "
            "be opened for writing again"
        )


def inode_of(path: str | os.PathLike[str]) -> tuple[int, int] | None:
    """Return device and inode, which tell a file from all others; None if there is none."""
    try:
        status = os.stat(path)
    except OSError:
        return None
    return status.st_dev, status.st_ino


class Unsettled:
    """What stands for a file that was changed just now: equal to nothing but itself."""

    __slots__ = ()


def is_lasting(identity: Hashable) -> bool:
    """Return whether an identity has no part that stands for files which were changed just now.

    What is remembered under any other would outlive a change that does not show.

    >>> is_lasting((1, ("", 2))), is_lasting((1, (Unsettled(),)))
    (True, False)
    """
    if isinstance(identity, tuple):
        return all(map(is_lasting, identity))
    return not isinstance(identity, Unsettled)


def fingerprint(status: os.stat_result) -> Fingerprint:
    """Return a value that changes with every write to a file."""
    return status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns


def is_stable(status: os.stat_result) -> bool:
    """Return whether the next change of a file is bound to show in its times."""
    return time.time_ns() - max(status.st_mtime_ns, status.st_ctime_ns) >= _TIME_STEP_NS


def stable_fingerprint(status: os.stat_result | None) -> Fingerprint | None:
    """Return the fingerprint of a file; None while it is too new to tell by that."""
    return None if status is None or not is_stable(status) else fingerprint(status)


def file_identity(status: os.stat_result) -> Hashable:
    """Return what differs whenever a file was written to; equal to nothing if that is now."""
    return stable_fingerprint(status) or Unsettled()


def stable(identity: Callable[[], Hashable]) -> Hashable:
    """Return the identity of files once their next change is bound to show; it may be kept.

    It is the same for whoever looks, in any process.  None if that takes too long, as where the
    clock of another machine is ahead.
    """
    for wait in range(_MAX_WAITS):
        time.sleep(bool(wait) * _TIME_STEP_NS / 1e9)
        found = identity()
        if is_lasting(found):
            return found
    return None


def files_identity(found: list[tuple[str, os.stat_result]]) -> tuple[Hashable, ...]:
    """Return what differs whenever one of some files was replaced or written to."""
    if not all(is_stable(status) for _, status in found):
        return (Unsettled(),)
    return tuple((name, *fingerprint(status)) for name, status in found)


def status_at(path: str, descriptor: int | None = None) -> os.stat_result:
    """Return the state of a file, maybe in an open directory; of a link to nothing, its own."""
    try:
        return os.stat(path, dir_fd=descriptor)
    except OSError:
        return os.stat(path, dir_fd=descriptor, follow_symlinks=False)


# Directories: their names, and locks on them.


@contextmanager
def locked(directory: Path, operation: int = fcntl.LOCK_EX) -> Iterator[int]:
    """Lock a directory for the length of a block, and hand out its descriptor."""
    descriptor, owner = os.open(directory, os.O_RDONLY | os.O_DIRECTORY), os.getpid()
    try:
        fcntl.flock(descriptor, operation)
        yield descriptor
    finally:
        release(descriptor, owner)


def exclusive(directory: Path) -> AbstractContextManager[int]:
    """Lock a directory, or raise ``OSError`` if its owner is alive."""
    return locked(directory, fcntl.LOCK_EX | fcntl.LOCK_NB)


def release(descriptor: int, owner: int) -> None:
    """Close what the process ``owner`` has locked; it is unlocked first.

    A mapping of the file would keep it locked otherwise, and so would a process that was forked
    meanwhile.  That one shares the lock, and must not release it.
    """
    if os.getpid() == owner:
        with suppress(OSError):
            fcntl.flock(descriptor, fcntl.LOCK_UN)
    os.close(descriptor)


def try_lock(descriptor: int, operation: int = fcntl.LOCK_SH) -> bool:
    """Lock what is open; false if another process has a lock that excludes this one.

    A shared lock keeps a directory from being deleted.  On a file system without locks there is
    nothing to keep anybody away with.
    """
    try:
        fcntl.flock(descriptor, operation | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:
        return True
    return True


def is_at(descriptor: int, path: Path | str) -> bool:
    """Return whether the opened directory is still the one at this path."""
    try:
        return os.path.samestat(os.fstat(descriptor), os.stat(path))
    except (FileNotFoundError, NotADirectoryError):
        return False


def names_in(directory: Path) -> list[str]:
    """Return the names in a directory; none if it does not exist."""
    try:
        return os.listdir(directory)
    except (FileNotFoundError, NotADirectoryError):
        return []


class Snapshot:
    """A consistent view of everything below one prefix.

    What is read through one pin belongs together: a writer that replaces the prefix meanwhile
    does not show through.  Keys are relative to the prefix.  Each store has its own way to `map`,
    to list `names` and to tell the data apart; the rest follows from that.
    """

    is_local = True
    """Whether `map` costs nothing; if not, read parts with `read_ranges`."""

    def map(self, key: str) -> memoryview | None:
        """Return the bytes of ``key`` without copying them; None if it is absent.

        Read-only, and valid as long as something refers to it: also after the store is closed
        and after the key is deleted or replaced.
        """
        raise NotImplementedError

    def names(self, key: str = "") -> list[str]:
        """Return the names directly below ``key``, sorted; empty where there is nothing."""
        raise NotImplementedError

    def identity(self) -> Hashable:
        """Return a value that differs whenever what is below the prefix was replaced.

        Or written to in place, by whichever program.  It costs a look at each file.
        """
        raise NotImplementedError

    def listing_identity(self, keys_of: Callable[[list[str]], Iterable[str]]) -> Hashable:  # noqa: ARG002 - of all keys
        """Return a value that differs whenever a name directly below came, went or was replaced.

        Or one of the files was written to of which these names are the keys.  The rest is not
        looked at where that takes time.

        Parameters
        ----------
        keys_of
            From the names directly below to these keys.
        """
        return self.identity()

    @property
    def place(self) -> Hashable:
        """What other data have another one of, also if both are new."""
        return self.identity()

    def version(self) -> Hashable:
        """Return a value that is another one whenever what is below the prefix is.

        Whoever looks at the same data gets the same one, in whichever process; None if nobody can
        say that.
        """
        return None

    def read(self, key: str) -> bytes | None:
        """Return a copy of the bytes of ``key``; None if it is absent."""
        data = self.map(key)
        return None if data is None else bytes(data)

    def size(self, key: str) -> int | None:
        """Return the number of bytes of ``key`` without reading them; None if it is absent."""
        data = self.map(key)
        return None if data is None else len(data)

    def read_ranges(self, key: str, ranges: list[tuple[int, int]]) -> list[memoryview]:
        """Return parts of the bytes of ``key``, given as start and stop, which must exist."""
        data = self.map(key)
        if data is None:
            raise KeyError(key)
        return [data[start:stop] for start, stop in ranges]

    def fingerprint(self, key: str) -> Fingerprint | None:  # noqa: ARG002 - few can tell
        """Return numbers that are others whenever the bytes of ``key`` are, to be remembered.

        None if it is absent, or the store cannot tell.
        """
        return None

    def bytes_version(self, key: str) -> Hashable | None:
        """Return what is another value whenever the bytes of ``key`` are; None if nothing shows it.

        To be asked for before they are read.
        """
        return self.fingerprint(key) or (None if self.is_local else self.identity())

    def is_mapped(self, key: str, alignment: int = 1) -> bool:  # noqa: ARG002 - those of archives differ
        """Return whether `map` hands out bytes of a file of this machine, so aligned.

        Entries of archives may be compressed, and begin anywhere.
        """
        return self.is_local

    def check_within(self, key: str, most_bytes: int, *, what: str) -> None:
        """Raise ``CorruptDataError`` if an archive would have to expand an entry to more."""

    def map_within(self, key: str, most_bytes: int, *, what: str) -> memoryview | None:
        """Return what `map` does, unless an archive would have to expand it to more."""
        self.check_within(key, most_bytes, what=what)
        return self.map(key)

    def open_file(self, key: str) -> int | None:  # noqa: ARG002 - few have one
        """Return a descriptor of a file that holds these bytes and no others, to be closed.

        None if there is no such file, because it is absent or the store keeps bytes otherwise.
        """
        return None


class ReadableStore(Protocol):
    """Bytes by key."""

    @property
    def location(self) -> str:
        """Where the bytes are, as people write it: the start of every message."""

    def snapshot(self, prefix: str) -> Snapshot | None:
        """Return a consistent view of everything below ``prefix``; None if nothing is there."""


class Transaction(Protocol):
    """Changes that are prepared aside and then put in place, one atomic step per prefix."""

    def write(self, key: str, data: bytes | memoryview) -> None:
        """Prepare the bytes of ``key``; nothing is visible yet.  Repeated calls append.

        They must not change before they are published.
        """

    def reserve(self, key: str, size_bytes: int) -> AnyArray:
        """Prepare ``size_bytes`` zeros for ``key`` and return them to be filled in place.

        The array is writable, of dtype uint8, and must not be written to after `publish`.
        """

    def publish(self, key: str, *, replace: bool) -> None:
        """Put everything prepared at or below ``key`` in its place, in one atomic step.

        Raises ``FileExistsError`` where something is there and ``replace`` is false; the prepared
        data stays prepared.  An append-only store raises ``AppendOnlyError`` if it is true.
        """

    def remove(self, key: str) -> None:
        """Take everything at or below ``key`` away, in one atomic step; nothing if absent."""

    def replace_file(self, key: str, data: bytes) -> None:
        """Replace the bytes of a single key, in one atomic step."""

    def leave_sign(self) -> None:
        """Let the next `recover` find something: what belongs to a publication was not done."""


class WritableStore(ReadableStore, Protocol):
    """A store that can be changed."""

    @property
    def is_append_only(self) -> bool:
        """Whether what is there can be neither replaced nor removed."""

    def transaction(self) -> AbstractContextManager[Transaction]:
        """Begin changes; what was not published when the block ends is discarded."""

    def batch(self) -> AbstractContextManager[None]:
        """Make many changes at the cost of one: they have what they need in common once.

        Whether an error or a crash undoes all of them depends on the store.  A store for which that
        makes no difference does nothing here.
        """

    def lock(self) -> AbstractContextManager[None]:
        """Exclude other writers, of this process and others, for the length of the block."""

    def rebuilt(self, without: list[str]) -> AbstractContextManager[WritableStore]:
        """Hand out a copy without some prefixes, which takes the place of this store at the end.

        That is one atomic step; an exception leaves everything as it was.
        """

    def recover(self) -> bool:
        """Clear away what a crashed writer left; say whether there was anything."""


class ReadEstimate:
    """Adds up what reads would cost, one after the other; see `StoredArray.estimate`."""

    def __init__(self) -> None:
        self._apart_bytes = 0
        self.files: dict[Hashable, tuple[int, int]] = {}
        """How many bytes are downloaded of files whose length is known, and that length."""
        self.requests = 0
        """How many requests they make."""
        self.is_remote = False
        """Whether anything of it is on a server."""
        self.is_exact = True
        """Whether the bytes are exact; where chunks are compressed, they may be those decoded."""
        self.decoded_bytes = 0
        """How many bytes the compressed chunks that they need expand to."""
        self.used_bytes = 0
        """How many of these they use; the rest is decoded in vain."""

    @property
    def size_bytes(self) -> int:
        """How many bytes of files they touch; of a server, how many are downloaded."""
        return self._apart_bytes + sum(map(min, self.files.values()))

    def add_bytes(self, size_bytes: int) -> None:
        """Add bytes of a file of this machine."""
        self._apart_bytes += size_bytes

    def add_inexact(self, size_bytes: int, *, requests: int) -> None:
        """Add bytes of which only about the number is known."""
        self._apart_bytes += size_bytes
        self.requests += requests
        self.is_remote = self.is_remote or requests > 0
        self.is_exact = False

    def add_download(
        self, file: Hashable, size_bytes: int, *, requests: int, most_bytes: int
    ) -> None:
        """Add bytes of a file on a server, of which no more are downloaded than it has."""
        self.add_inexact(0, requests=requests)
        self.is_remote = True
        self.files[file] = self.files.get(file, (0, 0))[0] + size_bytes, most_bytes

    def add_share(self, other: ReadEstimate, times: float = 1) -> None:
        """Add a multiple of another estimate, which is of a sample of what is read."""
        self._apart_bytes += round(other._apart_bytes * times)
        for file, (size_bytes, most_bytes) in other.files.items():
            added = round(size_bytes * times)
            self.add_download(file, added, requests=0, most_bytes=most_bytes)
        self.requests += round(other.requests * times)
        self.is_remote = self.is_remote or other.is_remote
        self.is_exact = self.is_exact and other.is_exact and times == 1
        self.decoded_bytes += round(other.decoded_bytes * times)
        self.used_bytes += round(other.used_bytes * times)

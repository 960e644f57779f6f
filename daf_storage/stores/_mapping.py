"""Map files without keeping them open, and a mapping that grows with its file.

Python's own ``mmap`` duplicates the file descriptor and holds it as long as the mapping lives, so
a thousand mapped vectors would be a thousand open files.

Memory that is mapped beyond the end of its file kills the process that touches it (SIGBUS).  So
whoever hands out a mapping, or a part of one that it keeps, asks `check_length` first; what remains
is a file that shrinks while it is read (docs/explanation/trust.md).
"""

from __future__ import annotations

import ctypes
import mmap
import os
import weakref
from functools import cache
from typing import Any

from daf_storage.errors import CorruptDataError

_FAILED = ctypes.c_void_p(-1).value
_MAP_FIXED = 0x10
_MAP_NORESERVE = getattr(mmap, "MAP_NORESERVE", 0)


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
        raise CorruptDataError(
            f"{what}: the file has {size_bytes:,} bytes by now, and {needed_bytes:,} are needed: "
            "another program has cut it or written over it; open it again when that is done"
        )


def map_readonly(descriptor: int, size_bytes: int) -> memoryview:
    """Return the first bytes of an open file, mapped and read-only.

    The descriptor may be closed at once; the mapping lives as long as a view of it.
    """
    if size_bytes == 0:
        return memoryview(b"")
    address = _mapped(
        _libc().mmap(None, size_bytes, mmap.PROT_READ, mmap.MAP_SHARED, descriptor, 0)
    )
    mapped = (ctypes.c_ubyte * size_bytes).from_address(address)
    unmap = weakref.finalize(mapped, _libc().munmap, address, size_bytes)
    unmap.atexit = False  # threads may still read when the interpreter ends
    return memoryview(mapped).cast("B").toreadonly()


def map_range(
    descriptor: int,
    offset: int,
    size_bytes: int,
    *,
    keep: object,
    what: str,
    is_writable: bool = False,
) -> memoryview:
    """Return a range of an open file, mapped.

    Parameters
    ----------
    keep
        Something that is to live as long as a view of the mapping.
    what
        The file as messages name it.

    Raises
    ------
    CorruptDataError
        The file ends before the range does.
    """
    if size_bytes == 0:
        return memoryview(b"")
    check_length(os.fstat(descriptor).st_size, offset + size_bytes, what=what)
    start = offset // mmap.ALLOCATIONGRANULARITY * mmap.ALLOCATIONGRANULARITY
    length = offset - start + size_bytes
    protection = mmap.PROT_READ | (mmap.PROT_WRITE if is_writable else 0)
    address = _mapped(_libc().mmap(None, length, protection, mmap.MAP_SHARED, descriptor, start))
    mapped = (ctypes.c_ubyte * length).from_address(address)
    unmap = weakref.finalize(mapped, _unmap, address, length, keep)
    unmap.atexit = False  # threads may still read when the interpreter ends
    view = memoryview(mapped).cast("B")[offset - start :]
    return view if is_writable else view.toreadonly()


def _unmap(address: int, length: int, keep: object) -> None:
    """Unmap a range and let go of what was kept for it."""
    del keep
    _libc().munmap(address, length)


class GrowingMapping:
    """A file mapped at one address that stays while the file grows.

    Address space of ``reserved_bytes`` is set aside without any memory or disk behind it; the
    file is laid over its beginning, and over more of it whenever `cover` is called.  Views stay
    valid, also after the file is closed; the address space is given back when none is left.

    Raises
    ------
    OSError
        There is not so much address space.
    """

    def __init__(self, descriptor: int, reserved_bytes: int) -> None:
        self._descriptor = descriptor
        self._covered_bytes = 0
        self._reserved_bytes = _whole_pages(max(reserved_bytes, 1))
        flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | _MAP_NORESERVE
        self._address = _mapped(_libc().mmap(None, self._reserved_bytes, 0, flags, -1, 0))
        held = (ctypes.c_ubyte * self._reserved_bytes).from_address(self._address)
        unmap = weakref.finalize(held, _libc().munmap, self._address, self._reserved_bytes)
        unmap.atexit = False  # threads may still read when the interpreter ends
        self._view = memoryview(held).cast("B")

    def cover(self, size_bytes: int) -> None:
        """Lay the file over the first ``size_bytes``; pages that are covered stay as they are."""
        size_bytes = min(_whole_pages(size_bytes), self._reserved_bytes)
        start = self._covered_bytes
        if size_bytes <= start:
            return
        protection, flags = mmap.PROT_READ | mmap.PROT_WRITE, mmap.MAP_SHARED | _MAP_FIXED
        address, length = self._address + start, size_bytes - start
        _mapped(_libc().mmap(address, length, protection, flags, self._descriptor, start))
        self._covered_bytes = size_bytes

    def view(self, offset: int, size_bytes: int) -> memoryview:
        """Return a writable view of a range that is covered."""
        return self._view[offset : offset + size_bytes]


def _mapped(address: int) -> int:
    if address == _FAILED:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))
    return address


def _whole_pages(size_bytes: int) -> int:
    return -(-size_bytes // mmap.PAGESIZE) * mmap.PAGESIZE

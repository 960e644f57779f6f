"""Map files without keeping them open.

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

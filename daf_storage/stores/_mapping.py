"""Mapping a file for reading, without keeping it open.

Python's own ``mmap`` duplicates the file descriptor and holds it as long as the mapping lives, so
a thousand mapped vectors would be a thousand open files.
"""

from __future__ import annotations

import ctypes
import mmap
import os
import weakref
from functools import cache
from typing import Any

_FAILED = ctypes.c_void_p(-1).value


@cache
def _libc() -> Any:
    libc = ctypes.CDLL(None, use_errno=True)
    size, offset = ctypes.c_size_t, ctypes.c_int64
    libc.mmap.argtypes = (ctypes.c_void_p, size, ctypes.c_int, ctypes.c_int, ctypes.c_int, offset)
    libc.mmap.restype = ctypes.c_void_p
    libc.munmap.argtypes = (ctypes.c_void_p, size)
    return libc


def map_readonly(descriptor: int, size_bytes: int) -> memoryview:
    """Return the first bytes of an open file, mapped and read-only.

    The descriptor may be closed at once; the mapping lives as long as a view of it.
    """
    if size_bytes == 0:
        return memoryview(b"")
    address = _libc().mmap(None, size_bytes, mmap.PROT_READ, mmap.MAP_SHARED, descriptor, 0)
    if address == _FAILED:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))
    mapped = (ctypes.c_ubyte * size_bytes).from_address(address)
    unmap = weakref.finalize(mapped, _libc().munmap, address, size_bytes)
    unmap.atexit = False  # threads may still read when the interpreter ends
    return memoryview(mapped).cast("B").toreadonly()

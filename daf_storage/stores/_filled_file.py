"""Files that are filled through a mapping, or by writes where much is known at once.

A write costs less than storing into fresh pages of a mapping: the kernel neither clears them before
nor is called for each.  Whoever fills a file needs not know that it is one: `put_values` finds out.
"""

from __future__ import annotations

import mmap
import os
import weakref
from typing import Final

import numpy as np

from daf_storage.base import AnyArray

_LEAST_WRITE_BYTES: Final = 1 << 16
"""Less is stored into the mapping."""


class _FilledFile(mmap.mmap):
    """A file, mapped and writable, whose descriptor is open as long as a view of it is held."""

    descriptor: int
    address: int


def map_filled(descriptor: int, size_bytes: int) -> AnyArray:
    """Return the first bytes of an open file, mapped and writable; the descriptor may be closed."""
    mapping = _FilledFile(descriptor, size_bytes, access=mmap.ACCESS_WRITE)
    mapping.descriptor = os.dup(descriptor)
    weakref.finalize(mapping, os.close, mapping.descriptor).atexit = False
    found = np.frombuffer(mapping, dtype=np.uint8)
    mapping.address = found.ctypes.data
    return found


def put_values(target: AnyArray, values: AnyArray) -> None:
    """Store values into an array of their shape, which may be a part of a file that is filled.

    Raises
    ------
    OSError
        The file could not be written.

    Examples
    --------
    >>> target = np.zeros(3, np.int32)
    >>> put_values(target[1:], np.array([1, 2]))
    >>> target.tolist()
    [0, 1, 2]
    """
    file = _file_of(target) if _has_bytes_of(target, values) else None
    if file is None:
        np.copyto(target, values, casting="unsafe")
        return
    data = values.reshape(-1).view(np.uint8).data
    offset, done = target.ctypes.data - file.address, 0
    while done < len(data):
        done += os.pwrite(file.descriptor, data[done:], offset + done)


def _has_bytes_of(target: AnyArray, values: AnyArray) -> bool:
    """Return whether the bytes of the values are those that are to be stored, one by one."""
    return (
        target.nbytes >= _LEAST_WRITE_BYTES
        and target.dtype == values.dtype
        and target.shape == values.shape
        and target.flags.c_contiguous
        and values.flags.c_contiguous
    )


def _file_of(target: AnyArray) -> _FilledFile | None:
    """Return the file that an array is a part of, where the system can write at a place."""
    base: object = target
    while isinstance(base, np.ndarray):
        base = base.base
    if isinstance(base, memoryview):
        base = base.obj
    return base if isinstance(base, _FilledFile) and hasattr(os, "pwrite") else None

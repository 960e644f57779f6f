"""Allocate space on the disk before memory that is mapped from it is filled."""

from __future__ import annotations

import os


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

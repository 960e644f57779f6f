"""Check that an HDF5 file has room for the next write.

HDF5 keeps changes in memory and writes them when it sees fit.  If that fails, what is in memory
cannot be written any more, and what is in the file may lack a part: so there has to be room before.
"""

from __future__ import annotations

import math
import os
import re
import resource
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import pyarrow as pa

from daf_storage.errors import DafError, StorageFullError, from_os_error

METADATA_BYTES: Final = 1 << 16
"""Room for what HDF5 itself notes of a change."""

_STRING_BYTES: Final = 40
_SHARE_OF_METADATA: Final = 64
_HDF5_ERROR: Final = re.compile(
    r"errno = \d+|^\W*(Unable to|Can't|Couldn't|Internal path traversal) "
)


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


@contextmanager
def write_errors(location: str) -> Iterator[None]:
    """Raise what HDF5 reports of a failed write within the block as a `StorageError`."""
    try:
        yield
    except (DafError, FileExistsError, BrokenPipeError):
        raise
    except OSError as error:
        raise from_os_error(error, location) from error
    except (RuntimeError, KeyError, ValueError) as error:
        if _HDF5_ERROR.search(str(error)) is None:
            raise
        raise from_os_error(OSError(str(error)), location) from error

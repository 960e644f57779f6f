"""HDF5 files on a server or in a bucket, read by ranges.

HDF5 reads metadata through a file object that downloads blocks; the chunks of datasets, and heaps
of strings, are downloaded side by side and decoded as those of a file on the disk are.
"""

from __future__ import annotations

import atexit
import io
import weakref
from collections.abc import Sequence
from contextlib import suppress
from typing import Any, Final

import numpy as np

from daf_storage.base import AnyArray
from daf_storage.errors import CorruptDataError, NotADafError, SourceNotFoundError
from daf_storage.stores import ReadEstimate, RemoteFiles, download_of
from daf_storage.trees._hdf5_file import Hdf5File
from daf_storage.trees._hdf5_objects import H5PY_ERRORS, h5py, reason_of

_AHEAD_BYTES: Final = 1 << 17
"""HDF5 asks for a few bytes of metadata at a time; others that it asks for next lie beside them."""

_open: weakref.WeakSet[RemoteHdf5File] = weakref.WeakSet()


class RemoteBytes(io.RawIOBase):
    """The bytes of a file on a server, as HDF5 reads them.

    Parameters
    ----------
    files
        The files below a URL.
    path
        The file in it.
    """

    def __init__(self, files: RemoteFiles, path: str) -> None:
        super().__init__()
        self._files = files
        self._path = path
        self._at = 0
        size = files.size(path)
        if size is None:
            raise SourceNotFoundError(f"no such file: {files.location}/{path}")
        self.size = size
        """How many bytes it has."""

    def readable(self) -> bool:
        """Return True."""
        return True

    def seekable(self) -> bool:
        """Return True."""
        return True

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        """Go to a place."""
        start = {io.SEEK_SET: 0, io.SEEK_CUR: self._at, io.SEEK_END: self.size}[whence]
        self._at = start + offset
        return self._at

    def tell(self) -> int:
        """Return the place."""
        return self._at

    def readinto(self, buffer: Any) -> int:
        """Read from the place on."""
        view = memoryview(buffer).cast("B")
        stop = min(self._at + len(view), self.size)
        if stop <= self._at:
            return 0
        first = self._at // _AHEAD_BYTES * _AHEAD_BYTES
        last = min(-(-stop // _AHEAD_BYTES) * _AHEAD_BYTES, self.size)
        (data,) = self._files.read_ranges(self._path, [(first, last)])
        count = stop - self._at
        view[:count] = data[self._at - first : stop - first]
        self._at = stop
        return count

    def read_ranges(self, ranges: Sequence[tuple[int, int]]) -> list[memoryview]:
        """Return several ranges, downloaded side by side."""
        return self._files.read_ranges(self._path, list(ranges))


class RemoteHdf5File(Hdf5File):
    """An open HDF5 file on a server; see `Hdf5File`.

    The server's version of it (ETag, date, length) is that of the first answer; another one is an
    error.
    """

    is_remote = True

    def __init__(self, files: RemoteFiles, path: str) -> None:
        location = f"{files.location}/{path}"
        self._source = RemoteBytes(files, path)
        self._files = files
        try:
            file = h5py().File(self._source, "r")
        except H5PY_ERRORS as error:
            reason = reason_of(error)
            if "signature" in reason:
                raise NotADafError(f"{location}: this is not an HDF5 file ({reason})") from error
            raise CorruptDataError(
                f"{location}: the HDF5 file cannot be opened ({reason}); is it complete?"
            ) from error
        super().__init__(file, location=location)
        _open.add(self)

    def close(self) -> None:
        """Close the file, and the connections."""
        super().close()
        self._files.close()

    def size_bytes(self) -> int:
        """Return how long the file is."""
        return self._source.size

    def content_version(self) -> object:
        """Return what stands for the version of the server's file: no other one is ever read."""
        return self._files.token

    def stored(self, ranges: Sequence[tuple[int, int]]) -> list[memoryview]:
        """Return several ranges of the file, downloaded side by side."""
        return self._source.read_ranges(ranges)

    def span(self, start: int, stop: int) -> AnyArray:
        """Return a range of the file."""
        return np.frombuffer(self.stored([(start, stop)])[0], np.uint8)

    def estimate(self, ranges: Sequence[tuple[int, int]], estimate: ReadEstimate) -> None:
        """Add what reading ranges would download."""
        requests, size_bytes = download_of(list(ranges))
        estimate.add_inexact(size_bytes, requests=requests)


@atexit.register
def _close_all() -> None:
    """Close what is open: HDF5 must not read through Python once the interpreter ends."""
    for each in list(_open):
        with suppress(Exception):
            each.close()

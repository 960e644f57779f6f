"""Packed files without an index of their chunks: the directory of the ZIP archive is one.

Each record has the same length and they are in the order of the chunks, so an index of the kind
that packed files otherwise begin with can be made of them at once.
"""

from __future__ import annotations

import struct
from collections.abc import Hashable, Iterable
from typing import Final

import numpy as np

from daf_storage.base import AnyArray
from daf_storage.errors import CorruptDataError
from daf_storage.stores import ReadEstimate, Snapshot, check_within, estimate_ranges

_TAIL_BYTES: Final = 98
_END64_SIGNATURE: Final = b"PK\6\6"
_CENTRAL_SIGNATURE: Final = b"PK\1\2"
_CENTRAL_BYTES: Final = 46
_LOCAL_BYTES: Final = 30
_LOCAL_EXTRA_BYTES: Final = 20
_CENTRAL_EXTRA_BYTES: Final = 28
_GZIP_HEADER_BYTES: Final = 10
_GZIP_TRAILER_BYTES: Final = 8
_MAX_NAME_BYTES: Final = 64
_METHODS: Final = {"zstd": 93, "gzip": 8}
"""The method of an entry by the codec; others are stored."""


class IndexedShard:
    """A packed file that seems to begin with an index of its chunks; see `Snapshot`.

    Parameters
    ----------
    count
        How many chunks there are.
    codec
        How they are compressed.
    most_bytes
        How long the file may be.
    """

    def __init__(
        self,
        snapshot: Snapshot,
        file: str,
        count: int,
        codec: str,
        *,
        most_bytes: int,
        what: str,
    ) -> None:
        self.snapshot = snapshot
        """Its files."""
        self._file = file
        self._count = count
        self._method = _METHODS.get(codec, 0)
        self._most_bytes = most_bytes
        self._what = f"{what}: {file}"
        self._made: bytes | None = None

    @property
    def is_local(self) -> bool:
        """Whether bytes cost nothing."""
        return self.snapshot.is_local

    def identity(self) -> Hashable:
        """Return what tells these files from others."""
        return self.snapshot.identity()

    def listing_identity(self, files: Iterable[str]) -> Hashable:
        """Return what tells these files from others."""
        return self.snapshot.listing_identity(files)

    def is_same(self, other: object) -> bool:
        """Return whether another one is of the same files."""
        return isinstance(other, IndexedShard) and self.snapshot.is_same(other.snapshot)

    def names(self, key: str = "") -> list[str]:
        """Return the names of the files."""
        return self.snapshot.names(key)

    def read(self, key: str) -> bytes | None:
        """Return a copy of a file, without the index."""
        return self.snapshot.read(key)

    def map(self, key: str) -> memoryview | None:
        """Return the bytes of a file, without the index."""
        return self.snapshot.map(key)

    def fingerprint(self, key: str) -> list[int] | None:
        """Return numbers that change with the file."""
        return self.snapshot.fingerprint(key)

    def open_file(self, key: str) -> int | None:  # noqa: ARG002 - as for all
        """Return nothing: no file has these bytes."""
        return None

    def size(self, key: str) -> int | None:
        """Return the length of the file with its index."""
        size = self.snapshot.size(key)
        return None if size is None else size + self._index_bytes

    def read_ranges(self, key: str, ranges: list[tuple[int, int]]) -> list[memoryview]:
        """Return parts of the file: of the index, or of what is behind it."""
        shift = self._index_bytes
        return [
            memoryview(self._index())[start:stop]
            if stop <= shift
            else self.snapshot.read_ranges(key, [(start - shift, stop - shift)])[0]
            for start, stop in ranges
        ]

    def estimate_ranges(
        self, key: str, ranges: list[tuple[int, int]], estimate: ReadEstimate
    ) -> None:
        """Add what `read_ranges` would cost."""
        shift = self._index_bytes
        moved = [(max(start - shift, 0), max(stop - shift, 0)) for start, stop in ranges]
        estimate_ranges(self.snapshot, key, moved, estimate)

    @property
    def _index_bytes(self) -> int:
        return self._count * 16

    def _index(self) -> bytes:
        if self._made is None:
            self._made = self._make_index()
        return self._made

    def _make_index(self) -> bytes:
        size = self.snapshot.size(self._file) or 0
        check_within(self.snapshot, self._file, self._most_bytes, what=self._what)
        if size < _TAIL_BYTES:
            raise self._damaged("it is too short for a ZIP archive")
        tail = self.snapshot.read_ranges(self._file, [(size - _TAIL_BYTES, size)])[0]
        if bytes(tail[:4]) != _END64_SIGNATURE:
            raise self._damaged("it does not end as a ZIP archive of chunks does")
        length, offset = struct.unpack_from("<QQ", tail, 40)
        if offset + length > size:
            raise self._damaged("the directory of the archive lies outside of it")
        directory = self.snapshot.read_ranges(self._file, [(offset, offset + length)])[0]
        records = self._records(np.frombuffer(directory, np.uint8))
        return (records + np.array([self._index_bytes, 0], np.uint64)).astype("<u8").tobytes()

    def _records(self, directory: AnyArray) -> AnyArray:
        """Return where the data of each chunk is, as offsets and lengths."""
        if directory.size < _CENTRAL_BYTES:
            raise self._damaged("the directory of the archive is too short")
        name_bytes = int(directory[28]) + 256 * int(directory[29])
        record_bytes = _CENTRAL_BYTES + name_bytes + _CENTRAL_EXTRA_BYTES
        if name_bytes > _MAX_NAME_BYTES or directory.size < record_bytes * self._count:
            raise self._damaged(f"its directory does not list {self._count:,} chunks")
        rows = directory[: record_bytes * self._count].reshape(self._count, record_bytes)
        signature = np.frombuffer(_CENTRAL_SIGNATURE, np.uint8)
        if not bool((rows[:, :4] == signature).all()):
            raise self._damaged("its directory has records of several lengths")
        methods = rows[:, 10:12].copy().view("<u2")
        if not bool((methods == self._method).all()):
            raise self._damaged(
                f"its chunks have the ZIP method {int(methods[0, 0])} instead of {self._method}"
            )
        extra = rows[:, _CENTRAL_BYTES + name_bytes :][:, 4:].copy().view("<u8")
        sizes, offsets = extra[:, 1].astype(np.uint64), extra[:, 2].astype(np.uint64)
        if self._method == _METHODS["gzip"]:
            if name_bytes != _GZIP_HEADER_BYTES:
                raise self._damaged("the names of its chunks are not the headers of gzip streams")
            around = np.uint64(_GZIP_HEADER_BYTES + _GZIP_TRAILER_BYTES)
            return np.stack([offsets + np.uint64(_LOCAL_BYTES), sizes + around], axis=1)
        header = np.uint64(_LOCAL_BYTES + name_bytes + _LOCAL_EXTRA_BYTES)
        return np.stack([offsets + header, sizes], axis=1)

    def _damaged(self, problem: str) -> CorruptDataError:
        return CorruptDataError(f"{self._what}: {problem}; write it again")

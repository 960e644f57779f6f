"""An archive on a server, read by ranges and never downloaded."""

from __future__ import annotations

from daf_storage import errors
from daf_storage.stores._remote import RemoteFiles
from daf_storage.stores.mmap_zip import _codecs
from daf_storage.stores.mmap_zip import _records as records
from daf_storage.stores.mmap_zip._index import EntryIndex
from daf_storage.stores.mmap_zip._locating import ReadAt, read_directory
from daf_storage.stores.mmap_zip._reader import ArchiveReader
from daf_storage.stores.mmap_zip._records import Entry, MalformedError


class RemoteArchive(ArchiveReader):
    """The entries of an archive at a URL.

    Opening it reads the directory at its end.  Of an entry that is not compressed, parts are read.

    Parameters
    ----------
    files
        The files below the folder of the archive.
    path
        The archive in it.
    """

    is_local = False

    def __init__(self, files: RemoteFiles, path: str) -> None:
        super().__init__(f"{files.location}/{path}" if path else files.location)
        self._files = files
        self._path = path
        size = files.size(path)
        if size is None:
            raise errors.SourceNotFoundError(f"no such file: {self.location}")
        try:
            directory = read_directory(self._read_at(size), size)
        except MalformedError as error:
            raise errors.CorruptDataError(
                f"{self.location}: this is not a complete ZIP archive: {error}"
            ) from None
        self._limit_bytes = directory.offset
        self.is_own = directory.is_own()
        self._index = EntryIndex(directory.entries)
        self._published = len(self._index)

    def _read_at(self, size: int) -> ReadAt:
        def read_at(offset: int, size_bytes: int) -> bytes:
            stop = min(offset + size_bytes, size)
            return bytes(self._files.read_ranges(self._path, [(offset, stop)])[0])

        return read_at

    def stored_bytes(self, entry: Entry) -> memoryview:
        """Download the bytes of an entry as they are in the archive."""
        return self._ranges(entry, [(0, entry.stored_bytes)])[0]

    def find_ranges(self, key: str, ranges: list[tuple[int, int]], limit: int) -> list[memoryview]:
        """Download parts of an entry; all of it if it is compressed."""
        entry = self._find(key, limit)
        if entry is None:
            raise KeyError(key)
        if entry.method != records.STORED:
            return super().find_ranges(key, ranges, limit)
        if any(stop > entry.size_bytes for _, stop in ranges):
            raise errors.CorruptDataError(
                f"{self._what(entry)} has {entry.size_bytes:,} bytes, fewer than its array needs"
            )
        return self._ranges(entry, ranges)

    def _ranges(self, entry: Entry, ranges: list[tuple[int, int]]) -> list[memoryview]:
        _codecs.check_readable(entry, self._what(entry))
        begin = self.data_start(entry)
        moved = [(begin + start, begin + stop) for start, stop in ranges]
        return self._files.read_ranges(self._path, moved)

    def _read_data_start(self, entry: Entry) -> int:
        head = self._head(entry, records.LOCAL_BYTES)
        try:
            header = records.parse_local(self._head(entry, records.local_head_bytes(head)))
        except MalformedError as error:
            raise errors.CorruptDataError(f"{self._what(entry)} is damaged: {error}") from None
        return self._checked_start(entry, header)

    def _head(self, entry: Entry, size_bytes: int) -> memoryview:
        stop = min(entry.offset + size_bytes, self._limit_bytes)
        return self._files.read_ranges(self._path, [(entry.offset, stop)])[0]

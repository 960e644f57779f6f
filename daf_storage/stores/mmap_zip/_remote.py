"""An archive on a server, read by ranges and never downloaded."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from itertools import pairwise

from daf_storage import errors
from daf_storage.stores._remote import MAX_GAP_BYTES, RemoteFiles
from daf_storage.stores.mmap_zip import _records as records
from daf_storage.stores.mmap_zip._locating import read_directory
from daf_storage.stores.mmap_zip._reader import (
    ArchiveReader,
    EntryIndex,
    check_readable,
    is_document,
)
from daf_storage.stores.mmap_zip._records import Entry, MalformedError

_MAX_DOCUMENT_BYTES = 1 << 16
_FEW_DOCUMENTS = 6


class RemoteArchive(ArchiveReader):
    """The entries of an archive at a URL.

    Opening it reads the directory at its end.  Whoever reads more than a few documents of metadata
    gets the others with them, in few requests.  Of an entry that is not compressed, parts are read.

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
        self._file_bytes = size
        try:
            directory = read_directory(lambda *part: bytes(self._read_at(*part)), size)
        except MalformedError as error:
            raise errors.CorruptDataError(
                f"{self.location}: this is not a complete ZIP archive: {error}"
            ) from None
        self._limit_bytes = directory.offset
        self.is_own = directory.is_own()
        self._index = EntryIndex(directory.entries)
        self._published = len(self._index)
        self._document_lock = threading.Lock()
        self._documents_read = 0

    def _read_at(self, offset: int, size_bytes: int) -> memoryview:
        stop = min(offset + size_bytes, self._file_bytes)
        return self._files.read_ranges(self._path, [(offset, stop)])[0]

    def stored_bytes(self, entry: Entry) -> memoryview:
        """Download the bytes of an entry as they are in the archive."""
        return self._ranges(entry, [(0, entry.stored_bytes)])[0]

    def ranges_of(self, entry: Entry, ranges: list[tuple[int, int]]) -> list[memoryview]:
        """Download parts of an entry; all of it if it is compressed."""
        if entry.method != records.STORED:
            return super().ranges_of(entry, ranges)
        if any(stop > entry.size_bytes for _, stop in ranges):
            raise errors.CorruptDataError(
                f"{self._what(entry)} has {entry.size_bytes:,} bytes, fewer than its array needs"
            )
        return self._ranges(entry, ranges)

    def _ranges(self, entry: Entry, ranges: list[tuple[int, int]]) -> list[memoryview]:
        check_readable(entry, self._what(entry))
        if _is_document(entry):
            self._fetch_documents()
        begin = self.data_start(entry)
        moved = [(begin + start, begin + stop) for start, stop in ranges]
        return self._files.read_ranges(self._path, moved)

    def _fetch_documents(self) -> None:
        """Have the blocks of all documents fetched, once there is reason to."""
        with self._document_lock:
            self._documents_read += 1
            if self._documents_read != _FEW_DOCUMENTS:
                return
            spans = _document_spans(self._index.entries, self._limit_bytes)
            self._files.read_ranges(self._path, joined_spans(spans))


def _is_document(entry: Entry) -> bool:
    return is_document(entry) and entry.stored_bytes <= _MAX_DOCUMENT_BYTES


def _document_spans(entries: Sequence[Entry], limit_bytes: int) -> list[tuple[int, int]]:
    """Return where the headers and the data of the documents lie, in the order of the file."""
    offsets = [*sorted(entry.offset for entry in entries), limit_bytes]
    ends = dict(pairwise(offsets))
    documents = sorted(entry.offset for entry in entries if _is_document(entry))
    return [(offset, ends[offset]) for offset in documents]


def joined_spans(spans: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """Join neighbours whose gap costs less to receive than another request would.

    >>> joined_spans([(0, 10), (12, 20), (900_000, 900_010)])
    [(0, 20), (900000, 900010)]
    """
    found: list[tuple[int, int]] = []
    for start, stop in spans:
        if found and start - found[-1][1] <= MAX_GAP_BYTES:
            found[-1] = (found[-1][0], stop)
        else:
            found.append((start, stop))
    return found

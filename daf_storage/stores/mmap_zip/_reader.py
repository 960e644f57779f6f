"""Look up and read the entries of an archive, also while others are being added, or on a server.

Entries are numbered in the order in which they became visible.  Since nothing is ever replaced, a
consistent view is a number: whoever holds it sees the entries below it and none that came later.
Those of foreign archives may be compressed: never more is made of one than the size that the
directory declares, and size and CRC are checked.  An archive on a server is read by ranges, and
never downloaded.
"""

from __future__ import annotations

import threading
import zlib
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Final

import numpy as np

from daf_storage import errors
from daf_storage.base import AnyArray, ForkLock, optional_import
from daf_storage.stores._files import Snapshot, check_length
from daf_storage.stores._remote import FIRST_BYTES, RemoteFiles
from daf_storage.stores.mmap_zip import _records as records
from daf_storage.stores.mmap_zip._records import Entry

_BLOCK_BYTES = 1 << 20
_PART_BYTES = 1 << 16
_DOCUMENT_ENDINGS = (".zarray", ".zgroup", ".zattrs", ".zmetadata", ".json")
_MAX_DOCUMENT_BYTES = 1 << 28


def check_readable(entry: Entry, what: str) -> None:
    """Raise unless this is an entry whose bytes can be had."""
    if entry.flags & (records.ENCRYPTED_FLAG | records.MASKED_FLAG):
        raise errors.UnsupportedDataError(
            f"{what} is encrypted; decrypt the archive with the tool that made it"
        )
    if entry.method not in _DECODERS:
        readable = ", ".join(f"{m} ({name})" for m, (name, _) in _DECODERS.items())
        raise errors.UnsupportedDataError(
            f"{what} is compressed by ZIP method {entry.method}, which is not supported; "
            f"supported are {readable}"
        )
    if entry.method == records.STORED and entry.stored_bytes != entry.size_bytes:
        raise errors.CorruptDataError(
            f"{what} is damaged: the directory says that it has {entry.size_bytes:,} bytes, and "
            f"{entry.stored_bytes:,} in the archive, though it is not compressed"
        )


def blocks(entry: Entry, data: memoryview, what: str) -> Iterator[bytes | memoryview]:
    """Yield the data of a readable entry, and check its size and CRC as they come."""
    size_bytes = crc = 0
    try:
        for block in _DECODERS[entry.method][1](data):
            size_bytes, crc = size_bytes + len(block), zlib.crc32(block, crc)
            if size_bytes > entry.size_bytes:
                break
            yield block
    except (EOFError, ValueError, zlib.error) as error:
        raise errors.CorruptDataError(f"{what} cannot be decompressed ({error})") from error
    if size_bytes != entry.size_bytes or crc != entry.crc:
        raise errors.CorruptDataError(f"{what} is damaged: it has not the recorded size and CRC")


def is_document(entry: Entry) -> bool:
    """Return whether an entry is metadata, by its name."""
    return entry.name.endswith(_DOCUMENT_ENDINGS)


def _deflate(data: memoryview) -> Iterator[bytes]:
    decoder = zlib.decompressobj(-zlib.MAX_WBITS)
    for part in _parts(data):
        rest: Any = part
        while rest and not decoder.eof:
            yield decoder.decompress(rest, _BLOCK_BYTES)
            rest = decoder.unconsumed_tail
    yield decoder.flush()


def _deflate64(data: memoryview) -> Iterator[bytes]:
    decoder = optional_import("inflate64", extra="zip").Inflater()
    for part in _parts(data):
        yield decoder.inflate(bytes(part))


def _parts(data: memoryview) -> Iterator[memoryview]:
    for start in range(0, len(data), _PART_BYTES):
        yield data[start : start + _PART_BYTES]


_DECODERS: Final[dict[int, tuple[str, Callable[[memoryview], Iterator[bytes | memoryview]]]]] = {
    records.STORED: ("stored", _parts),
    8: ("deflate", _deflate),
    9: ("deflate64", _deflate64),
}


_AFTER_SLASH = chr(ord("/") + 1)


class ArchiveReader:
    """The reading half of `MmapZipStore`: an index of entries over mapped bytes."""

    is_local = True

    def __init__(self, location: str) -> None:
        self.location = location
        """The name used in messages."""
        self.is_own = False
        """Whether all entries are of the kind that is written here."""
        self._index_lock = ForkLock()
        self._index([])
        self._token = object()  # unlike an id, it is not that of another archive later
        self._generation = 0
        self._is_closed = False
        self._view = memoryview(b"")
        self._limit_bytes = 0

    @property
    def size_bytes(self) -> int:
        """Length of the entries' part of the file."""
        return self._limit_bytes

    def __len__(self) -> int:
        return len(self.keys())

    def __iter__(self) -> Iterator[str]:
        """Iterate over the names of all entries, sorted."""
        return iter(self.keys())

    def __contains__(self, key: object) -> bool:
        return isinstance(key, str) and self.find(key) is not None

    def _index(self, entries: Iterable[Entry]) -> None:
        """Have these entries, and no others; a name that occurs twice means the later one."""
        with self._index_lock:
            self._entries = list(entries)
            self._numbers = {
                entry.name: number
                for number, entry in enumerate(self._entries)
                if not entry.name.endswith("/")
            }
            self._names = sorted(self._numbers)

    def _have(self, directory: records.Directory) -> None:
        """Have what a directory says."""
        self._limit_bytes, self.is_own = directory.offset, directory.is_own()
        self._index(directory.entries)

    def keys(self) -> list[str]:
        """Return the names of all entries, sorted; directories are not listed."""
        return self._below("")

    def entries(self) -> list[Entry]:
        """Return all entries in the order of the directory, also shadowed ones."""
        with self._index_lock:
            return list(self._entries)

    def children(self, prefix: str = "", limit: int | None = None) -> list[str]:
        """Return the names directly below ``prefix``, of entries and of directories, sorted."""
        cut = len(prefix) + 1 if prefix else 0
        return sorted({name[cut:].partition("/")[0] for name in self._below(prefix, limit)})

    def _below(self, prefix: str, limit: int | None = None) -> list[str]:
        """Return the names that begin with ``prefix`` and a slash, sorted."""
        with self._index_lock:
            start = bisect_left(self._names, f"{prefix}/") if prefix else 0
            stop = bisect_left(self._names, f"{prefix}{_AFTER_SLASH}", start) if prefix else None
            found = self._names[start:stop]
            if limit is None or limit >= len(self._entries):
                return found
            return [name for name in found if self._numbers[name] < limit]

    def get(self, key: str) -> memoryview | None:
        """Return the bytes of an entry; None if there is none.

        Those of a stored entry are the mapped file itself, read-only, and valid as long as they
        are referred to; those of a compressed one are decompressed and checked each time.

        Raises
        ------
        CorruptDataError, UnsupportedDataError
            The entry is damaged, encrypted, or compressed in an unknown way.
        """
        self._check_open()
        entry = self.find(key)
        return None if entry is None else self.bytes_of(entry)

    def try_mmap_entry_as(
        self, key: str, dtype: Any, shape: int | tuple[int, ...]
    ) -> AnyArray | None:
        """Return an entry as an array of this type and shape (C order), without copying it.

        None if there is no such entry, if it is compressed or of another length, or if it does
        not begin at a multiple of the type's alignment, as in some foreign archives.  Read-only;
        valid as long as it is referred to.
        """
        entry = self.find(key)
        if entry is None or entry.method != records.STORED:
            return None
        data = self.get(key)
        wanted = np.dtype(dtype)
        size = int(np.prod(shape, dtype=object))
        if data is None or len(data) != size * wanted.itemsize:
            return None
        values = np.frombuffer(data, dtype=wanted).reshape(shape)
        return values if values.flags.aligned else None

    def find(self, key: str, limit: int | None = None) -> Entry | None:
        """Return one of the first ``limit`` entries; by default, of all."""
        with self._index_lock:
            number = self._numbers.get(key)
            if number is None or (limit is not None and number >= limit):
                return None
            return self._entries[number]

    def is_mapped(self, entry: Entry | None, alignment: int) -> bool:
        """Return whether an entry is in the mapping, aligned like this.

        A missing one takes no place.  Of our own archives, nothing has to be looked at.
        """
        if not self.is_local or self.is_own or entry is None:
            return self.is_local
        return entry.method == records.STORED and self.data_start(entry) % max(alignment, 1) == 0

    def bytes_of(self, entry: Entry) -> memoryview:
        """Return the data of an entry; of a compressed one, checked against its size and CRC."""
        data = self.stored_bytes(entry)
        if entry.method == records.STORED:
            return data
        what = self._what(entry)
        if is_document(entry) and entry.size_bytes > _MAX_DOCUMENT_BYTES:
            raise errors.CorruptDataError(
                f"{what} expands to {entry.size_bytes:,} bytes, and metadata have no more than "
                f"{_MAX_DOCUMENT_BYTES:,}; write it again"
            )
        found = bytearray()
        try:
            for block in blocks(entry, data, what):
                found += block
        except MemoryError:
            raise errors.CorruptDataError(
                f"{what} expands to {entry.size_bytes:,} bytes, for which there is no memory; "
                "take it from a backup if it cannot be so large, or unpack the archive"
            ) from None
        return memoryview(found).toreadonly()

    def ranges_of(self, entry: Entry, ranges: list[tuple[int, int]]) -> list[memoryview]:
        """Return parts of the data of an entry."""
        data = self.bytes_of(entry)
        return [data[start:stop] for start, stop in ranges]

    def stored_bytes(self, entry: Entry) -> memoryview:
        """Return the bytes of an entry as they are in the file, compressed or not; read-only."""
        what, present = self._what(entry), self.present_bytes()
        check_readable(entry, what)
        least = entry.offset + records.LOCAL_BYTES + len(entry.raw_name) + entry.stored_bytes
        check_length(present, least, what=what)
        start = self.data_start(entry)
        stop = start + entry.stored_bytes
        check_length(present, stop, what=what)
        data = self._bytes(start, stop)
        check_length(start + len(data), stop, what=what)
        return data

    def present_bytes(self) -> int:
        """Return how much of the entries' part of the file is there, and may be touched."""
        return self.size_bytes

    def _bytes(self, start: int, stop: int) -> memoryview:
        """Return a part of the file, mapped and read-only, or what there is of it."""
        return self._view[start:stop]

    def data_start(self, entry: Entry) -> int:
        """Return where the data begins if the local header is that of the entry."""
        header = records.header_of(entry, self._read_at)
        if header is None:
            raise errors.CorruptDataError(
                f"{self._what(entry)} is damaged: there is no local header of it"
            )
        start = entry.offset + header.header_bytes
        if start + entry.stored_bytes > self.size_bytes:
            raise errors.CorruptDataError(f"{self._what(entry)} is damaged: its data is cut off")
        if records.is_own_entry(entry) and not (header.is_filled and records.agrees(entry, header)):
            raise errors.CorruptDataError(
                f"{self._what(entry)} is damaged: its local header and the directory differ; go "
                f"back to what was complete with: daf repair {errors.in_shell(self.location)}"
            )
        return start

    def _read_at(self, offset: int, size_bytes: int) -> memoryview:
        return self._bytes(offset, min(offset + size_bytes, self.present_bytes()))

    def _check_open(self) -> None:
        if self._is_closed:
            raise errors.InvalidInputError(
                f"{self.location}: the archive was closed; open it again"
            )

    def _what(self, entry: Entry) -> str:
        return f"{self.location}: entry {entry.name!r}"

    def versions(self, prefix: str, limit: int) -> Hashable:
        """Return name, place, size and CRC of those of the first ``limit`` entries."""
        with self._index_lock:
            found = [(name, self.find(name, limit)) for name in self._below(prefix)]
        return tuple((n, e.offset, e.size_bytes, e.crc) for n, e in found if e is not None)

    def snapshot(self, prefix: str) -> ArchiveSnapshot | None:
        """Return a view of everything that is below ``prefix`` now."""
        self._check_open()
        with self._index_lock:
            limit, count = len(self._entries), len(self._below(prefix))
        if not count:
            return None
        entries = (self._token, self._generation, count)
        return ArchiveSnapshot(self, prefix, limit, entries, self.file_state())

    def file_state(self) -> Hashable:
        """Return what changes whenever another program writes into the archive in place."""
        return None


def check_entries(
    store: ArchiveReader, progress: Callable[[int], None]
) -> Iterator[tuple[str, str]]:
    """Yield the name of each entry that is not what the directory says, and why.

    Every byte of every entry is read.
    """
    entries = store.entries()
    for entry in entries:
        is_stored = entry.method == records.STORED
        try:
            for block in blocks(entry, store.stored_bytes(entry), "its data"):
                progress(len(block) if is_stored else 0)
            progress(0 if is_stored else entry.stored_bytes)
        except errors.DafError as error:
            yield entry.name, str(error)
    for name, count in Counter(entry.name for entry in entries).items():
        if count > 1:
            yield name, f"there are {count} entries of this name; only the last one is used"


def unused_bytes(store: ArchiveReader) -> int:
    """Return how many bytes between the entries of an archive of ours belong to none."""
    used = 0
    for entry in store.entries():
        try:
            used += store.data_start(entry) - entry.offset + entry.stored_bytes
        except errors.CorruptDataError:  # found as a problem of that entry
            return 0
    return store.size_bytes - used


@dataclass(eq=False)
class ArchiveSnapshot(Snapshot):
    """A view of the entries that an archive had at one moment; see `Snapshot`."""

    _archive: ArchiveReader
    _prefix: str
    _limit: int
    entries: tuple[Hashable, ...]
    """What changes whenever something is added below the prefix."""
    _state: Hashable

    def __post_init__(self) -> None:
        self.is_local = self._archive.is_local
        self._start = f"{self._prefix}/" if self._prefix else ""

    def bytes_version(self, key: str) -> Hashable:  # noqa: ARG002 - nothing replaces an entry
        """Return what changes whenever something is added, or rewritten."""
        return self.identity()

    def read_ranges(self, key: str, ranges: list[tuple[int, int]]) -> list[memoryview]:
        """Return parts of the bytes of an entry."""
        entry = self._find(key)
        if entry is None:
            raise KeyError(key)
        return self._archive.ranges_of(entry, ranges)

    def identity(self) -> Hashable:
        """Return what changes whenever something is added below the prefix, or rewritten."""
        return self.entries, self._state

    def version(self) -> Hashable:
        """Return name, place, size and CRC of the entries, which any process sees alike."""
        return self._archive.versions(self._prefix, self._limit)

    def is_mapped(self, key: str, alignment: int = 1) -> bool:
        """Return whether the bytes of an entry are in the mapping, at a multiple of so many."""
        return self._archive.is_mapped(self._find(key), alignment)

    def check_within(self, key: str, most_bytes: int, *, what: str) -> None:
        """Raise ``CorruptDataError`` if a compressed entry expands to more than belongs there."""
        size_bytes = self.size(key)
        if size_bytes is not None and size_bytes > most_bytes and not self.is_mapped(key):
            raise errors.CorruptDataError(
                f"{what}: the entry {key!r} of the archive expands to {size_bytes:,} bytes, and no "
                f"more than {most_bytes:,} belong there; write it again"
            )

    @property
    def place(self) -> Hashable:
        """What changes whenever an entry that was there is taken out or replaced."""
        return self.entries[:-1], self._prefix

    def names(self, key: str = "") -> list[str]:
        """Return the names directly below ``key``, sorted."""
        below = f"{self._start}{key}" if key else self._prefix
        return self._archive.children(below, self._limit)

    def size(self, key: str) -> int | None:
        """Return the number of bytes."""
        entry = self._find(key)
        return None if entry is None else entry.size_bytes

    def map(self, key: str) -> memoryview | None:
        """Return the bytes as they lie in the mapping; those of compressed entries are decoded."""
        entry = self._find(key)
        return None if entry is None else self._archive.bytes_of(entry)

    def _find(self, key: str) -> Entry | None:
        return self._archive.find(self._start + key, self._limit)


_SMALL_DOCUMENT_BYTES = 1 << 16
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
        self._read_at(max(size - FIRST_BYTES, 0), size)  # the directory comes with its end
        try:
            directory = records.read_directory(lambda *part: bytes(self._read_at(*part)), size)
        except records.MalformedError as error:
            raise errors.CorruptDataError(
                f"{self.location}: this is not a complete ZIP archive: {error}"
            ) from None
        self._have(directory)
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
            ends = dict(pairwise([*sorted(e.offset for e in self._entries), self._limit_bytes]))
            offsets = sorted(entry.offset for entry in self._entries if _is_document(entry))
            self._files.read_ranges(self._path, [(offset, ends[offset]) for offset in offsets])


def _is_document(entry: Entry) -> bool:
    return is_document(entry) and entry.stored_bytes <= _SMALL_DOCUMENT_BYTES

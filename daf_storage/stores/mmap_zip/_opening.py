"""Open the file of an archive, whatever its last writer did.

Readers never change the file.  A writer holds an advisory lock on it as long as it lives, so that
there is one at a time on a machine, and a crash releases it.
"""

from __future__ import annotations

import errno
import os
import time
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

from daf_storage import errors
from daf_storage.base import OpenMode
from daf_storage.stores._directories import follow_links, remove_leftovers, scratch
from daf_storage.stores._files import is_at
from daf_storage.stores.mmap_zip import _records as records
from daf_storage.stores.mmap_zip._file import ArchiveFile
from daf_storage.stores.mmap_zip._records import (
    Directory,
    Entry,
    MalformedError,
    agrees_with_headers,
    find_earlier_directory,
    header_of,
    is_own_entry,
    is_whole,
    read_directory,
    span_of,
)

_EMPTY = records.pack_tail(0, 0, 0)
_WAIT_SECONDS = 0.01
_PAUSE_SECONDS = 0.0002
_READER_TRIES = 300
_WRITER_TRIES = 5
_READERS_CHECK_BYTES = 1 << 24
_HEADER_READ_BYTES = 256
_BLOCK_BYTES = 1 << 22


class RecoveryWarning(errors.DafWarning):
    """Something that a crashed writer had left half done was taken away."""


@dataclass(frozen=True, slots=True)
class Recovery:
    """What had to be done to an archive whose writer crashed."""

    dropped: tuple[str, ...] = ()
    """Entries that were not whole and are no longer in the directory."""
    dropped_bytes: tuple[int, ...] = ()
    """How many bytes each of them should have had."""
    completed: tuple[str, ...] = ()
    """Entries whose data was whole, but not their header."""
    cut_bytes: int = 0
    """Number of bytes behind the last committed data that were given back."""

    def __bool__(self) -> bool:
        return self != Recovery()


def open_for_reading(path: Path, location: str) -> tuple[ArchiveFile, Directory]:
    """Open an archive and read its directory, or the last one that was committed.

    Raises
    ------
    CorruptDataError
        There is none, or its last entries are not there: the message names the way out.
    """
    file = _open(path, os.O_RDONLY, location)
    try:
        return file, _directory_for_reading(file, location)
    except BaseException:
        file.close()
        raise


def _directory_for_reading(file: ArchiveFile, location: str) -> Directory:
    """Read the directory; if a writer appends at this moment, read again.

    Whoever appends lets the file grow before he writes where the directory was, so what was read
    while the length stayed the same belongs together.  If it never does, the local headers tell:
    nobody writes over those.
    """
    reason = "it changes all the time"
    for attempt in range(_READER_TRIES):
        size = file.size()
        try:
            found = read_directory(file.read_at, size)
        except MalformedError as error:
            reason = str(error)
        else:
            if file.size() == size or agrees_with_headers(found.entries, file.read_at):
                return found
        if file.size() == size and not file.has_writer():
            break
        time.sleep(min(attempt, 50) * _PAUSE_SECONDS)
    earlier = earlier_directory(file)
    if earlier is None:
        raise unreadable(location, file.size(), reason)
    return earlier


def earlier_directory(file: ArchiveFile) -> Directory | None:
    """Return the last committed directory of a file that does not end with one.

    The reference implementation writes a new directory partly over the old one if what it adds is
    smaller than that.  A crash in between leaves no directory, but all entries, and behind them
    what the old one began with.
    """
    found = find_earlier_directory(file.read_at, file.end_records())
    if found is not None:
        return found
    entries, stop = walk(file)
    if file.read_at(stop, 4) not in (records.CENTRAL_SIGNATURE, records.END64_SIGNATURE):
        return None
    return Directory(entries, stop, stop, 0, b"".join(entry.record for entry in entries))


def check_last_entry(directory: Directory, data: memoryview, location: str, path: Path) -> None:
    """Raise if the directory names an entry at its end that is not there yet.

    Entries that are large are not checked here, only whether their header is there.
    """
    last = directory.entries[-1] if directory.entries else None
    if last is None or not is_own_entry(last) or directory.shift:
        return
    is_checked = last.size_bytes <= _READERS_CHECK_BYTES or not last.crc
    has_header = header_of(last, lambda at, size: data[at : at + size]) is not None
    is_there = has_header and span_of(last, data)[1] <= len(data)
    if not is_there or (is_checked and not is_whole(last, data)):
        raise errors.CorruptDataError(
            f"{location}: a writer stopped in the middle of adding {last.name!r}, and reading does "
            f"not change the file; go back to what was complete with: daf repair {path}"
        )


def open_for_writing(path: Path, mode: OpenMode, location: str) -> ArchiveFile:
    """Open and lock the file of an archive, creating or emptying it as the mode says."""
    flags = os.O_RDWR | (0 if mode == "r+" else os.O_CREAT)
    path = follow_links(path, location)
    remove_leftovers(path)
    while True:
        file = _open(path, flags, location)
        try:
            _lock(file, location)
            if not is_at(file.descriptor, path):
                file.close()
                continue  # replaced by another one this very moment
            if mode == "w" and file.size():
                return _replaced(file, path, location)
            if _EMPTY.startswith(file.read_at(0, len(_EMPTY))) and file.size() < len(_EMPTY):
                file.write_at(0, _EMPTY)
        except BaseException:
            file.close()
            raise
        return file


def sync_folder(path: Path) -> None:
    """Wait until the disk knows the name of a file."""
    folder = ArchiveFile.open(path.parent, os.O_RDONLY | os.O_DIRECTORY)
    folder.sync()
    folder.close()


def _open(path: Path, flags: int, location: str) -> ArchiveFile:
    if path.is_dir():
        raise errors.NotADafError(f"{location}: there is a directory of this name, not a file")
    try:
        file = ArchiveFile.open(path, flags, location)
    except FileNotFoundError:
        if flags & os.O_CREAT:
            raise errors.SourceNotFoundError(
                f"{location}: there is no directory {path.parent} to create it in"
            ) from None
        raise errors.SourceNotFoundError(f"no such file: {path}") from None
    except OSError as error:
        if error.errno in (errno.EACCES, errno.EPERM, errno.EROFS):
            what = "read" if flags & os.O_ACCMODE == os.O_RDONLY else "write"
            raise errors.ReadOnlyError(f"{location}: no permission to {what} this file") from None
        if error.errno != errno.ENXIO:  # a socket, or a pipe that nobody reads
            raise
    else:
        if file.is_regular:
            return file
        file.close()
    raise errors.NotADafError(
        f"{location}: this is not a regular file; give the path of an archive"
    )


def _lock(file: ArchiveFile, location: str) -> None:
    for _ in range(_WRITER_TRIES):  # a reader may hold the lock for a moment
        if file.lock():
            return
        time.sleep(_WAIT_SECONDS)
    raise errors.InUseError(
        f"{location}: another process has this archive open for writing, or another handle here; "
        "close it there, or open it with mode 'r'"
    )


def _replaced(file: ArchiveFile, path: Path, location: str) -> ArchiveFile:
    """Put an empty archive in the place of one that is there; its readers keep the old one."""
    try:
        read_directory(file.read_at, file.size())
    except MalformedError as error:
        if file.read_at(0, 4) not in (records.LOCAL_SIGNATURE, records.END64_SIGNATURE):
            raise errors.NotADafError(
                f"{location}: this file is not a ZIP archive, so mode 'w' does not replace it "
                f"({error}); delete it yourself if that is what you want"
            ) from None
    with scratch(path) as temporary:
        new = ArchiveFile.open(temporary, os.O_RDWR | os.O_CREAT | os.O_EXCL, location)
        try:
            new.lock()
            new.write_at(0, _EMPTY)
            os.replace(temporary, path)
        except BaseException:
            new.close()
            raise
    file.close()
    return new


def replace_archive(source: Path, target: Path, location: str) -> None:
    """Put one archive in the place of another, unless a writer has that one open."""
    with suppress(FileNotFoundError):
        file = ArchiveFile.open(target, os.O_RDWR)
        try:
            _lock(file, location)
            os.replace(source, target)
        finally:
            file.close()
        return
    os.replace(source, target)


def directory_for_writing(file: ArchiveFile, location: str) -> tuple[Directory, int]:
    """Return the last committed directory, and how many bytes behind it were cut off.

    Raises
    ------
    UnsupportedDataError
        Another program packed the archive: its records cannot be brought into our order.
    """
    size, reason = file.size(), ""
    try:
        found: Directory | None = read_directory(file.read_at, size)
    except MalformedError as error:
        found, reason = earlier_directory(file), str(error)
    if found is None:
        raise unreadable(location, size, reason)
    if not found.is_own():
        raise errors.UnsupportedDataError(
            f"{location}: another program packed this archive, so nothing is added to it; copy it "
            "into one that can be added to, with 'daf convert'"
        )
    if reason:
        file.truncate(found.stop)
    if found.stop == found.offset:  # its entries were found, and no directory
        tail = records.pack_tail(len(found.entries), len(found.raw), found.offset)
        file.write_at(found.offset, found.raw + tail)
        found = replace(found, stop=file.size())
    return found, size - found.stop


def unreadable(location: str, size_bytes: int, reason: str) -> errors.CorruptDataError:
    """Say why a file is not an archive, and what may be done."""
    if size_bytes < records.END_BYTES:
        return errors.CorruptDataError(f"{location}: file too small to be a zip archive")
    return errors.CorruptDataError(
        f"{location}: this is not a complete ZIP archive: {reason}; copy or download it again, or "
        "see what 'zip -FF' can save of it"
    )


def walk(file: ArchiveFile) -> tuple[list[Entry], int]:
    """Return the entries that lie one behind the other from the beginning, and where they end.

    What the directory would say, had it not been lost.  Only entries of our own kind are followed;
    their data is not looked at.
    """
    entries: list[Entry] = []
    offset, size = 0, file.size()
    while offset < size:
        head = file.read_at(offset, _HEADER_READ_BYTES)
        try:
            length = records.local_head_bytes(head)
            if length > len(head):
                head = file.read_at(offset, length)
            header = records.parse_local(head)
            entry = records.pack_entry(
                header.raw_name.decode(), header.size_bytes, header.crc, offset
            )
        except ValueError:
            break
        stop = offset + header.header_bytes + header.size_bytes
        own = records.pack_local(header.raw_name, header.size_bytes, header.crc, offset)
        if own != head[:length] or stop > size or records.name_problem(entry.name):
            break
        entries.append(entry)
        offset = stop
    return entries, offset

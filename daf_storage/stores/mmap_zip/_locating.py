"""Find and read the central directory of an archive, also one whose writer crashed.

Whoever appends to an archive has to write a new directory behind the old one, so a crash can leave
bytes behind a directory that is still whole.  `read_directory` reads what an intact archive ends
with; `find_earlier_directory` looks further back for the last directory that is consistent in
itself: right length, right number of records, all of them within the file.  What a directory says
of an entry is compared with the entry's own local header.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias
from zlib import crc32

from daf_storage.stores.mmap_zip import _records as records
from daf_storage.stores.mmap_zip._records import (
    End,
    Entry,
    LocalHeader,
    MalformedError,
    is_own_entry,
)

ReadAt: TypeAlias = Callable[[int, int], Any]
"""Returns the bytes from an offset on, this many or as many as there are."""

_MAX_COMMENT_BYTES = 0xFFFF
_MAX_DIRECTORY_BYTES = 1 << 30


@dataclass(frozen=True, slots=True)
class Directory:
    """A central directory as it was read."""

    entries: Sequence[Entry]
    """Its entries in their order; a name may occur more than once."""
    offset: int
    """Where it begins in the file."""
    stop: int
    """Where the archive ends: behind the records that follow the directory."""
    shift: int
    """Number of bytes in front of the archive, which recorded offsets do not count."""
    comment: bytes
    """The comment of the archive."""
    raw: bytes
    """Its bytes."""

    def is_own(self) -> bool:
        """Return whether all of it is what this format's writers write: safe to repair."""
        if self.shift or self.comment:
            return False
        last = -1
        for entry in self.entries:
            if entry.offset <= last or not is_own_entry(entry):
                return False
            last = entry.offset
        return True


def read_directory(read_at: ReadAt, size_bytes: int) -> Directory:
    """Read the central directory that an intact archive ends with.

    Raises
    ------
    MalformedError
        The file does not end with one, or it is damaged or hostile.
    """
    start = max(size_bytes - records.END_BYTES, 0)
    block = read_at(start, size_bytes - start)
    if not (block.startswith(records.END_SIGNATURE) and block.endswith(b"\0\0")):
        start = max(size_bytes - records.END_BYTES - _MAX_COMMENT_BYTES, 0)
        block = read_at(start, size_bytes - start)
    reason = "it does not end with the records that a ZIP archive ends with"
    position = len(block)
    while (position := block.rfind(records.END_SIGNATURE, 0, position)) >= 0:
        data = block[position:]
        if len(data) >= records.END_BYTES:
            try:
                end, _ = records.parse_end(data)
                if position + records.END_BYTES + len(end.comment) == len(block):
                    return _directory_before(read_at, start + position, data)
            except MalformedError as error:
                reason = str(error)  # with the error itself, its frames would stay for a while
                if position + records.END_BYTES == len(block):
                    raise
    raise MalformedError(reason)


def find_earlier_directory(read_at: ReadAt, ends: Iterable[int]) -> Directory | None:
    """Find the last directory that is consistent in itself.

    It has to agree with the local headers too: a new directory may have been begun over a part of
    an old one.

    Parameters
    ----------
    ends
        Where there may be end records, the last of them first.
    """
    for position in ends:
        data = read_at(position, records.END_BYTES + _MAX_COMMENT_BYTES)
        try:
            directory = _directory_before(read_at, position, data)
        except MalformedError:
            continue
        if directory.shift == 0 and agrees_with_headers(directory.entries, read_at):
            return directory
    return None


def read_local(read_at: ReadAt, offset: int) -> LocalHeader:
    """Read the local header at an offset."""
    head = read_at(offset, records.LOCAL_BYTES)
    return records.parse_local(read_at(offset, records.local_head_bytes(head)))


def header_of(entry: Entry, read_at: ReadAt) -> LocalHeader | None:
    """Return the local header of an entry; None if it is not there."""
    try:
        header = read_local(read_at, entry.offset)
    except MalformedError:
        return None
    is_its = (header.raw_name, header.method) == (entry.raw_name, entry.method)
    return header if is_its else None


def agrees_with_headers(entries: Sequence[Entry], read_at: ReadAt) -> bool:
    """Return whether the local headers say the same; that of the last one may be ahead."""
    for number, entry in enumerate(entries, 1):
        header = header_of(entry, read_at)
        if header is None:
            return False
        if number < len(entries) and not header.has_descriptor and not agrees(entry, header):
            return False
    return True


def agrees(entry: Entry, header: LocalHeader) -> bool:
    """Return whether a local header has the length and the CRC that the directory has."""
    return (header.crc, header.size_bytes) == (entry.crc, entry.size_bytes)


def is_headed(entry: Entry, data: memoryview) -> bool:
    """Return whether the local header of an entry of our own kind is there, undamaged."""
    header = header_of(entry, lambda offset, size: data[offset : offset + size])
    return header is not None and header.is_filled and agrees(entry, header)


def span_of(entry: Entry, data: memoryview) -> tuple[int, int]:
    """Return where the data of an entry of our own kind begins and ends."""
    header = header_of(entry, lambda offset, size: data[offset : offset + size])
    own_bytes = records.local_header_bytes(entry.raw_name, entry.offset)
    is_damaged = header is None or not header.is_filled
    start = entry.offset + (own_bytes if header is None or is_damaged else header.header_bytes)
    return start, start + entry.size_bytes


def is_whole(entry: Entry, data: memoryview) -> bool:
    """Return whether the data of an entry of our own kind is what the directory says."""
    start, stop = span_of(entry, data)
    return stop <= len(data) and crc32(data[start:stop]) == entry.crc


def judge(entries: Sequence[Entry], data: memoryview) -> tuple[list[Entry], list[Entry]]:
    """Decide which entries of a directory of our own kind are kept, after its writer crashed.

    Our own writer leaves nothing to decide.  The reference implementation puts the directory first
    and the data behind it, so that a crash leaves a directory whose last entries are not there, or
    not whole; and an entry that is being filled is in the directory with a CRC of 0.  A failing
    disk may have taken anything.

    Returns
    -------
    tuple
        The entries whose local header says what the directory says, or whose data does, without
        the last ones whose data is not whole; and those of which the header is to be written again.
    """
    kept: list[Entry] = []
    completed: list[Entry] = []
    for entry in entries:
        if not is_headed(entry, data):
            is_apart = not kept or span_of(kept[-1], data)[1] <= entry.offset
            if not is_apart or not is_whole(entry, data):
                continue
            completed.append(entry)
        kept.append(entry)
    while kept and not is_whole(kept[-1], data):
        kept.pop()
    return kept, completed


def _directory_before(read_at: ReadAt, position: int, data: bytes) -> Directory:
    """Read the directory whose end record is at ``position`` and begins with ``data``."""
    if len(data) < records.END_BYTES:
        raise MalformedError("the end record is cut off")
    end, is_zip64 = records.parse_end(data)
    stop = position + records.END_BYTES + len(end.comment)
    directory_stop = position
    if is_zip64:
        end, directory_stop = _end64_before(read_at, position, end)
    if end.size_bytes > min(directory_stop, _MAX_DIRECTORY_BYTES):
        raise MalformedError(f"its directory is said to be {end.size_bytes:,} bytes long")
    if end.count * records.CENTRAL_BYTES > end.size_bytes:
        raise MalformedError(
            f"its directory of {end.size_bytes:,} bytes is said to hold {end.count:,} entries"
        )
    offset = directory_stop - end.size_bytes
    shift = offset - end.offset
    if shift < 0:
        raise MalformedError("its directory overlaps the records behind it")
    raw = _exactly(read_at, offset, end.size_bytes)
    entries = list(records.parse_central(raw, end.count, shift))
    _check(entries, offset)
    return Directory(entries, offset, stop, shift, end.comment, raw)


def _end64_before(read_at: ReadAt, position: int, end: End) -> tuple[End, int]:
    """Return the ZIP64 end record that belongs to an end record, and where it is."""
    locator_at = position - records.LOCATOR_BYTES
    recorded = None
    if locator_at >= 0:
        recorded = records.parse_locator(_exactly(read_at, locator_at, records.LOCATOR_BYTES))
    if recorded is None:
        return end, position  # small numbers that happen to look like "see ZIP64"
    for offset in (recorded, locator_at - records.END64_BYTES):
        if 0 <= offset <= locator_at - records.END64_BYTES:
            found = records.parse_end64(read_at(offset, records.END64_BYTES), end.comment)
            if found is not None:
                return found, offset
    raise MalformedError("its ZIP64 end record is missing")


def _exactly(read_at: ReadAt, offset: int, size_bytes: int) -> bytes:
    data: bytes = read_at(offset, size_bytes)
    if len(data) != size_bytes:
        raise MalformedError("it became shorter while it was read")
    return data


def _check(entries: list[Entry], directory_offset: int) -> None:
    """Refuse names that climb out, and data that overlaps or is not within the file."""
    spans = []
    for entry in entries:
        problem = records.name_problem(entry.name)
        if problem is not None:
            raise MalformedError(
                f"its entry {entry.name!r} has a name that {problem}, so it may be hostile"
            )
        stop = entry.offset + records.LOCAL_BYTES + len(entry.raw_name) + entry.stored_bytes
        if stop > directory_offset or entry.offset < 0:
            raise MalformedError(
                f"its entry {entry.name!r} is said to have {entry.stored_bytes:,} bytes at "
                f"{entry.offset:,}, which is not within the file"
            )
        spans.append((entry.offset, stop, entry.name))
    spans.sort()  # as they are, where our writer wrote them
    for (_, stop, name), (offset, _, other) in itertools.pairwise(spans):
        if offset < stop:
            raise MalformedError(f"its entries {name!r} and {other!r} overlap")

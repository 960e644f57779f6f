"""Deciding what of an archive to keep after its writer crashed.

Our own writer leaves nothing to decide: what its directory names was complete when the directory
was put in place.  The reference implementation puts the directory first and the data behind it, so
that a crash leaves a directory whose last entries are not there, or not whole; and an entry that is
being filled is in the directory with a CRC of 0.  Pure: bytes in, a decision out.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from zlib import crc32

from daf_storage.stores.mmap_zip import _records as records
from daf_storage.stores.mmap_zip._records import Entry, MalformedError


@dataclass(frozen=True, slots=True)
class Verdict:
    """What to do with the entries of a directory."""

    kept: list[Entry]
    """The entries that are whole."""
    dropped: list[str] = field(default_factory=list)
    """Names of those that are not."""
    headers: list[tuple[Entry, bytes]] = field(default_factory=list)
    """Entries whose local header is to be written anew, and that: their data is whole."""
    end: int = 0
    """Where the data of the last entry that is kept ends."""


def judge(entries: list[Entry], data: memoryview) -> Verdict:
    """Decide which entries of a directory of our own kind are whole.

    The run of incomplete entries at the end is found by going back to the first whole one.
    Entries further up are suspect only if their recorded CRC is 0, which stands for "not filled
    yet"; all others were whole before the last ones were begun.
    """
    kept: list[Entry] = []
    dropped: list[str] = []
    headers: list[tuple[Entry, bytes]] = []
    is_tail = True
    for entry in reversed(entries):
        if not is_tail and (entry.crc != 0 or entry.size_bytes == 0):
            kept.append(entry)
            continue
        whole = _whole(entry, data)
        if whole is None:
            dropped.append(entry.name)
            continue
        is_tail = False
        kept.append(whole)
        header = records.pack_local(whole.raw_name, whole.size_bytes, whole.crc, whole.offset)
        if not _agrees(whole, data):
            headers.append((whole, header))
    end = _stop(kept[0], data) if kept else 0
    return Verdict(kept[::-1], dropped[::-1], headers[::-1], end)


def is_broken(entry: Entry, data: memoryview, *, max_checked_bytes: int) -> bool:
    """Return whether the last entry of a directory is visibly not whole.

    For readers, who check no more data than this: a missing header shows at once, and so does an
    entry that is still being filled.
    """
    header = _header(entry, data)
    if header is None:
        return True
    is_checked = entry.size_bytes <= max_checked_bytes or entry.crc == 0
    start = entry.offset + header.header_bytes
    found = data[start : start + entry.size_bytes]
    return len(found) < entry.size_bytes or (is_checked and crc32(found) != entry.crc)


def _stop(entry: Entry, data: memoryview) -> int:
    """Return where the data of an entry ends, by its own local header if there is one."""
    header = _header(entry, data)
    own_bytes = records.local_header_bytes(entry.raw_name, entry.offset)
    header_bytes = own_bytes if header is None else header.header_bytes
    return entry.offset + header_bytes + entry.stored_bytes


def _agrees(entry: Entry, data: memoryview) -> bool:
    header = _header(entry, data)
    return header is not None and (header.crc, header.size_bytes) == (entry.crc, entry.size_bytes)


def _whole(entry: Entry, data: memoryview) -> Entry | None:
    """Return the entry if its data is there.

    A local header may be ahead of the directory, with the CRC of what was filled in or the length
    to which it was cut, if the writer crashed in between.
    """
    header = _header(entry, data)
    header_bytes = records.local_header_bytes(entry.raw_name, entry.offset)
    start = entry.offset + (header_bytes if header is None else header.header_bytes)
    stop = start + entry.size_bytes
    if stop <= len(data) and crc32(data[start:stop]) == entry.crc:
        return entry
    if header is None or header.size_bytes > entry.size_bytes or header.crc == 0:
        return None
    if crc32(data[start : start + header.size_bytes]) != header.crc:
        return None
    return records.pack_entry(entry.name, header.size_bytes, header.crc, entry.offset)


def _header(entry: Entry, data: memoryview) -> records.LocalHeader | None:
    """Return the local header of an entry; None if it is not there."""
    try:
        header = records.parse_local(data[entry.offset :])
    except MalformedError:
        return None
    is_its = header.raw_name == entry.raw_name and header.method == entry.method
    return header if is_its else None

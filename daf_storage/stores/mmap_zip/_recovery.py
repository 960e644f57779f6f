"""Decide which parts of an archive to keep after its writer crashed.

Our own writer leaves nothing to decide: what its directory names was complete when the directory
was put in place.  The reference implementation puts the directory first and the data behind it, so
that a crash leaves a directory whose last entries are not there, or not whole; and an entry that is
being filled is in the directory with a CRC of 0.  A failing disk may have taken anything.  Pure:
bytes in, a decision out.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from zlib import crc32

from daf_storage.stores.mmap_zip import _records as records
from daf_storage.stores.mmap_zip._records import Entry, MalformedError


@dataclass(slots=True)
class Verdict:
    """What to do with the entries of a directory."""

    kept: list[Entry]
    """The entries that can be read."""
    dropped: list[Entry] = field(default_factory=list)
    """Those that cannot."""
    completed: list[Entry] = field(default_factory=list)
    """Those that can be once their local header or their record is written again."""
    end: int = 0
    """Where the data of the last entry that is kept ends."""


def judge(entries: list[Entry], data: memoryview) -> Verdict:
    """Decide which entries of a directory of our own kind can be read.

    1. From the last entry backwards, data is read and its CRC computed until an entry is whole.
       The run of entries behind it is what a crashed writer left.
    2. Of every entry before that, the local header alone is compared with the directory: a few
       bytes each, whatever the entry holds.  Where they differ, or where the CRC is the placeholder
       0, the data is read too, and decides.

    So no entry stays listed that cannot be read.  Data that changed under a header that did not is
    found by its CRC, which takes reading all of it: `check_entries` does.
    """
    verdict = Verdict([], end=0)
    ceiling = len(data)
    for number, entry in reversed(list(enumerate(entries))):
        is_unfilled = entry.crc == 0 and entry.size_bytes > 0
        is_headed = agrees(entry, data)
        if verdict.kept and is_headed and not is_unfilled:
            found: Entry | None = entry
        else:
            before = entries[number - 1] if number else None
            floor = 0 if before is None else _start(before, data) + before.size_bytes
            found = _fitting(entry, floor, ceiling, data)
        if found is None:
            verdict.dropped.insert(0, entry)
            continue
        if not is_headed or found is not entry:
            verdict.completed.insert(0, found)
        if not verdict.kept:
            verdict.end = _start(found, data) + found.size_bytes
        verdict.kept.append(found)
        ceiling = found.offset
    verdict.kept.reverse()
    return verdict


def is_broken(entry: Entry, data: memoryview, *, max_checked_bytes: int) -> bool:
    """Return whether the last entry of a directory is visibly not whole.

    For readers, who check no more data than this: a missing header shows at once, and so does an
    entry that is still being filled.
    """
    if _header(entry, data) is None:
        return True
    is_checked = entry.size_bytes <= max_checked_bytes or entry.crc == 0
    start = _start(entry, data)
    found = data[start : start + entry.size_bytes]
    return len(found) < entry.size_bytes or (is_checked and crc32(found) != entry.crc)


def agrees(entry: Entry, data: memoryview) -> bool:
    """Return whether an entry's local header is there and says what the directory says."""
    header = _header(entry, data) if entry.stored_bytes == entry.size_bytes else None
    return header is not None and (header.crc, header.size_bytes) == (entry.crc, entry.size_bytes)


def _fitting(entry: Entry, floor: int, ceiling: int, data: memoryview) -> Entry | None:
    """Return an entry with the length and the CRC that its data has, if either is recorded.

    Directory and local header say the same twice, so that one of them may be damaged, or be ahead
    of the other because a writer crashed in between.

    Parameters
    ----------
    floor, ceiling
        Where the entry before it ends, and the one behind it begins: nothing else is in between.
    """
    start, header = _start(entry, data), _header(entry, data)
    own = entry.offset + records.local_header_bytes(entry.raw_name, entry.offset)
    if start != own and not agrees(entry, data):  # of another writer: it is not written again
        return None
    if header is None and entry.offset < floor:
        return None
    recorded = [(entry.size_bytes, entry.crc)]
    if header is not None and header.crc != 0:
        recorded.append((header.size_bytes, header.crc))
    for size, crc in recorded:
        if start + size <= ceiling and crc32(data[start : start + size]) == crc:
            fitting = records.pack_entry(entry.name, size, crc, entry.offset)
            return entry if fitting == entry else fitting
    return None


def _start(entry: Entry, data: memoryview) -> int:
    """Return where the data of an entry begins, by its own local header if there is one."""
    header = _header(entry, data)
    own_bytes = records.local_header_bytes(entry.raw_name, entry.offset)
    return entry.offset + (own_bytes if header is None else header.header_bytes)


def _header(entry: Entry, data: memoryview) -> records.LocalHeader | None:
    """Return the local header of an entry; None if it is not there."""
    try:
        header = records.parse_local(data[entry.offset :])
    except MalformedError:
        return None
    is_its = (header.raw_name, header.method) == (entry.raw_name, entry.method)
    return header if is_its and header.is_filled else None

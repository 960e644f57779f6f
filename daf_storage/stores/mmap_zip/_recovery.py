"""Decide which parts of an archive to keep after its writer crashed.

Our own writer leaves nothing to decide: what its directory names was complete when the directory
was put in place.  The reference implementation puts the directory first and the data behind it, so
that a crash leaves a directory whose last entries are not there, or not whole; and an entry that is
being filled is in the directory with a CRC of 0.  A failing disk may have taken anything.  Pure:
bytes in, a decision out.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import NamedTuple
from zlib import crc32

from daf_storage.stores.mmap_zip import _records as records
from daf_storage.stores.mmap_zip._records import Entry, MalformedError


@dataclass(frozen=True, slots=True)
class Verdict:
    """What to do with the entries of a directory."""

    kept: list[Entry]
    """The entries that can be read."""
    dropped: list[Entry] = field(default_factory=list)
    """Those that cannot."""
    completed: list[str] = field(default_factory=list)
    """Names of those that can be once their header or their record is written again."""
    headers: list[tuple[Entry, bytes]] = field(default_factory=list)
    """Entries whose local header is to be written again, and that: their data is whole."""
    end: int = 0
    """Where the data of the last entry that is kept ends."""


def judge(entries: list[Entry], data: memoryview) -> Verdict:
    """Decide which entries of a directory of our own kind can be read.

    1. From the last entry backwards, data is read and its CRC computed until an entry is whole.
       The run of entries behind it is what a crashed writer left.
    2. Of every entry before that, the local header alone is compared with the directory: a few
       bytes each, whatever the entry holds.  Where they differ, or where the CRC is the placeholder
       0, the data is read too, and decides: see `_found`.

    So no entry stays listed that cannot be read.  Data that changed under a header that did not is
    found by its CRC, which takes reading all of it: `check_entries` does.
    """
    verdict = Verdict([])
    is_tail, ceiling = True, len(data)
    for number in range(len(entries) - 1, -1, -1):
        entry = entries[number]
        is_unfilled = entry.crc == 0 and entry.size_bytes > 0
        if not is_tail and not is_unfilled and agrees(entry, data):
            found: Entry | None = entry
        else:
            floor = _stop(entries[number - 1], data) if number else 0
            found = _found(entry, _Place(floor, ceiling), data, entries)
            _note(verdict, entry, found, data)
        if found is not None:
            verdict.kept.append(found)
            is_tail, ceiling = False, found.offset
    for listed in (verdict.kept, verdict.dropped, verdict.completed, verdict.headers):
        listed.reverse()
    return replace(verdict, end=_stop(verdict.kept[-1], data) if verdict.kept else 0)


def _note(verdict: Verdict, entry: Entry, found: Entry | None, data: memoryview) -> None:
    """Add to a verdict what became of an entry whose data was looked at."""
    if found is None:
        verdict.dropped.append(entry)
        return
    is_headless = not agrees(found, data)
    if is_headless:
        verdict.headers.append((found, _header_bytes(found, data)))
    if is_headless or found is not entry:
        verdict.completed.append(found.name)


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


def agrees(entry: Entry, data: memoryview) -> bool:
    """Return whether an entry's local header is there and says what the directory says."""
    if entry.stored_bytes != entry.size_bytes:
        return False
    if records.is_header_of(entry, data):
        return True
    header = _header(entry, data)  # of another writer, with its extra fields in another order
    return header is not None and (header.crc, header.size_bytes) == (entry.crc, entry.size_bytes)


class _Place(NamedTuple):
    """The part of the file in which an entry can be: nothing else is there."""

    floor: int
    """Where the data of the entry before it ends."""
    ceiling: int
    """Where the entry behind it begins."""


def _found(entry: Entry, place: _Place, data: memoryview, others: list[Entry]) -> Entry | None:
    """Return an entry as it should be listed, or None if its data is not there.

    Directory and local header say the same twice, so that one of them may be damaged, or be ahead
    of the other because a writer crashed in between.  In this order:

    1. There is a local header of another name: that name counts which goes with those of more other
       entries, else the directory's.
    2. The data fits what one of them says of length and CRC, at the place that the directory names;
       a local header that is missing is written again.
    3. The same at the place where the entry before it ends.
    """
    header = _header(entry, data)
    named = _parsed(entry.offset, data) if header is None else None
    if named is not None:
        found = _renamed(entry, named, place, data, others)
        if found is not None:
            return found
    if header is not None or entry.offset >= place.floor:
        found = _fitting(entry, header, place.ceiling, data)
        if found is not None:
            return found
    moved = entry._replace(offset=place.floor)
    header = _header(moved, data)
    return None if header is None else _fitting(moved, header, place.ceiling, data)


def _fitting(
    entry: Entry, header: records.LocalHeader | None, ceiling: int, data: memoryview
) -> Entry | None:
    """Return an entry with the length and the CRC that its data has, if either is recorded."""
    header_bytes = records.local_header_bytes(entry.raw_name, entry.offset)
    start = entry.offset + (header_bytes if header is None else header.header_bytes)
    recorded = [(entry.size_bytes, entry.crc)]
    if header is not None and header.crc != 0:
        recorded.append((header.size_bytes, header.crc))
    for size, crc in recorded:
        if start + size <= ceiling and crc32(data[start : start + size]) == crc:
            fitting = records.pack_entry(entry.name, size, crc, entry.offset)
            return entry if fitting == entry else fitting
    return None


def _renamed(
    entry: Entry,
    header: records.LocalHeader,
    place: _Place,
    data: memoryview,
    others: list[Entry],
) -> Entry | None:
    """Return an entry whose local header has another name, under the one that is right."""
    try:
        name = header.raw_name.decode()
    except UnicodeDecodeError:
        name = ""
    if records.name_problem(name) is None:
        names = [other.name for other in others if other is not entry]
        if name not in names and _fellows(name, names) > _fellows(entry.name, names):
            entry = records.pack_entry(name, entry.size_bytes, entry.crc, entry.offset)
    return _fitting(entry, header, place.ceiling, data)


def _fellows(name: str, names: list[str]) -> int:
    """Return how many names are in the same directory as another one, or end as it does."""
    folder, _, last = name.rpartition("/")
    parts = [other.rpartition("/") for other in names]
    return sum(part[0] == folder for part in parts) + sum(part[2] == last for part in parts)


def _stop(entry: Entry, data: memoryview) -> int:
    """Return where the data of an entry ends, by its own local header if there is one."""
    header = _header(entry, data)
    own_bytes = records.local_header_bytes(entry.raw_name, entry.offset)
    header_bytes = own_bytes if header is None else header.header_bytes
    return entry.offset + header_bytes + entry.size_bytes


def _header_bytes(entry: Entry, data: memoryview) -> bytes:
    """Return the local header that belongs in front of an entry's data, of the length it has."""
    header = _parsed(entry.offset, data)
    length = records.local_header_bytes(entry.raw_name, entry.offset)
    if header is not None and len(header.raw_name) == len(entry.raw_name):
        length = header.header_bytes
    return records.pack_local_of(entry.raw_name, entry.size_bytes, entry.crc, length)


def _header(entry: Entry, data: memoryview) -> records.LocalHeader | None:
    """Return the local header of an entry; None if it is not there."""
    header = _parsed(entry.offset, data)
    is_its = header is not None and (header.raw_name, header.method) == (
        entry.raw_name,
        entry.method,
    )
    return header if is_its else None


def _parsed(offset: int, data: memoryview) -> records.LocalHeader | None:
    """Return the local header at an offset, of whatever entry; None if there is none."""
    try:
        header = records.parse_local(data[offset:])
    except MalformedError:
        return None
    return header if header.is_filled else None

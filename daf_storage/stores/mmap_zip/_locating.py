"""Find and read the central directory of an archive, also one whose writer crashed.

Whoever appends to an archive has to write a new directory behind the old one, so a crash can leave
bytes behind a directory that is still whole.  `read_directory` reads what an intact archive ends
with; `find_earlier_directory` looks further back for the last directory that is consistent in
itself: right length, right number of records, all of them within the file.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from daf_storage.stores.mmap_zip import _records as records
from daf_storage.stores.mmap_zip._records import End, Entry, MalformedError, is_own_entry

ReadAt: TypeAlias = Callable[[int, int], bytes]
"""Returns the bytes from an offset on, this many or as many as there are."""

_MAX_COMMENT_BYTES = 0xFFFF
_MAX_DIRECTORY_BYTES = 1 << 30
_BLOCK_BYTES = 1 << 20
_MAX_SEARCHED_BYTES = 1 << 30


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
    is_walked: bool = False
    """Whether it is not in the file, but was gathered from the entries themselves."""

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


def find_earlier_directory(
    read_at: ReadAt, extents: Iterable[tuple[int, int]], *, has_comment: bool
) -> Directory | None:
    """Find the last directory that is consistent in itself, looking back from the end.

    It has to agree with the local headers too: a new directory may have been begun over a part of
    an old one.

    Parameters
    ----------
    extents
        The ranges of the file that are no holes, in ascending order.
    has_comment
        Whether to look for an archive with a comment, or for one without.
    """
    for position in _end_signatures(read_at, list(extents)):
        data = read_at(position, records.END_BYTES + _MAX_COMMENT_BYTES)
        try:
            directory = _directory_before(read_at, position, data)
        except MalformedError:
            continue
        is_wanted = directory.shift == 0 and bool(directory.comment) == has_comment
        if is_wanted and agrees_with_headers(directory.entries, read_at):
            return directory
    return None


def agrees_with_headers(entries: Sequence[Entry], read_at: ReadAt) -> bool:
    """Return whether the local headers say the same; that of the last one may be ahead."""
    return all(_has_header(e, read_at, is_last=n == len(entries)) for n, e in enumerate(entries, 1))


def _has_header(entry: Entry, read_at: ReadAt, *, is_last: bool) -> bool:
    try:
        head = read_at(entry.offset, records.LOCAL_BYTES)
        header = records.parse_local(read_at(entry.offset, records.local_head_bytes(head)))
    except MalformedError:
        return False
    if (header.raw_name, header.method) != (entry.raw_name, entry.method):
        return False
    says_the_same = (header.crc, header.size_bytes) == (entry.crc, entry.size_bytes)
    return says_the_same or header.has_descriptor or is_last


def _end_signatures(read_at: ReadAt, extents: list[tuple[int, int]]) -> Iterator[int]:
    """Yield the positions of end records, last first."""
    searched = 0
    overlap = len(records.END_SIGNATURE) - 1
    for start, extent_stop in reversed(extents):
        stop = extent_stop
        while start < stop and searched < _MAX_SEARCHED_BYTES:
            first = max(start, stop - _BLOCK_BYTES)
            block = read_at(first, stop - first + overlap)
            searched += stop - first
            position = len(block)
            while (position := block.rfind(records.END_SIGNATURE, 0, position)) >= 0:
                yield first + position
                position += overlap
            stop = first


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
    data = read_at(offset, size_bytes)
    if len(data) != size_bytes:
        raise MalformedError("it became shorter while it was read")
    return data


def _check(entries: list[Entry], directory_offset: int) -> None:
    """Refuse names that climb out, and data that overlaps or is not within the file."""
    free = 0
    is_ascending = True
    for entry in entries:
        problem = records.name_problem(entry.name)
        if problem is not None:
            raise MalformedError(
                f"its entry {entry.name!r} has a name that {problem}, so it may be hostile"
            )
        stop = entry.offset + records.LOCAL_BYTES + len(entry.raw_name) + entry.stored_bytes
        if entry.offset < free:
            is_ascending = False
        if stop > directory_offset or entry.offset < 0:
            raise MalformedError(
                f"its entry {entry.name!r} is said to have {entry.stored_bytes:,} bytes at "
                f"{entry.offset:,}, which is not within the file"
            )
        free = stop
    if not is_ascending:
        _check_overlaps(entries)


def _check_overlaps(entries: list[Entry]) -> None:
    before = None
    for entry in sorted(entries, key=lambda entry: entry.offset):
        if before is not None:
            stop = before.offset + records.LOCAL_BYTES + len(before.raw_name) + before.stored_bytes
            if entry.offset < stop:
                raise MalformedError(f"its entries {before.name!r} and {entry.name!r} overlap")
        before = entry

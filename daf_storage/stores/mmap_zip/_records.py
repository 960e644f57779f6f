"""The records of a ZIP archive, and its central directory, also one whose writer crashed.

Nothing here opens or writes a file.  What is packed is always ZIP64 and always stored (method 0),
with data that begins at a multiple of `DAF_DATA_OFFSET_ALIGNMENT`; what is parsed may be anybody's.

Whoever appends to an archive has to write a new directory behind the old one, so a crash can leave
bytes behind a directory that is still whole.  `read_directory` reads what an intact archive ends
with; `find_earlier_directory` looks further back for the last directory that is consistent in
itself: right length, right number of records, all of them within the file.  What a directory says
of an entry is compared with the entry's own local header.

Source: PKWARE's APPNOTE 6.3.10 and docs/reference/format.md, "archives".
"""

from __future__ import annotations

import itertools
import struct
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple, TypeAlias
from zlib import crc32

DAF_DATA_OFFSET_ALIGNMENT: Final = 8
"""Data of entries that are written here begins at a multiple of this many bytes."""

STORED: Final = 0
"""The method of an entry whose bytes lie in the archive as they are."""

TAIL_BYTES: Final = 98
"""Length of the three records that end an archive of ours."""

MAX_NAME_BYTES: Final = 0xFFFF
"""Longest name that a record can hold."""

ENCRYPTED_FLAG: Final = 0x1
MASKED_FLAG: Final = 0x2000
UTF8_FLAG: Final = 0x800

_ZIP64_VERSION = 45
_MADE_BY = 0x031E
_DATE = 0x0021  # 1980-01-01
_MODE = 0x81A40000  # a regular file, 0o644
_ZIP64_EXTRA = 0x0001
_PADDING_EXTRA = 0xDAF1
_NONE16 = 0xFFFF
_NONE32 = 0xFFFFFFFF

LOCAL_SIGNATURE: Final = b"PK\3\4"
CENTRAL_SIGNATURE: Final = b"PK\1\2"
END_SIGNATURE: Final = b"PK\5\6"
END64_SIGNATURE: Final = b"PK\6\6"
LOCATOR_SIGNATURE: Final = b"PK\6\7"

_LOCAL = struct.Struct("<4s5H3L2H")
_CENTRAL = struct.Struct("<4s6H3L5H2L")
_END = struct.Struct("<4s4H2LH")
_END64 = struct.Struct("<4sQ2H2L4Q")
_LOCATOR = struct.Struct("<4sLQL")
_LOCAL_EXTRA = struct.Struct("<2H2Q")
_CENTRAL_EXTRA = struct.Struct("<2H3Q")
_HEAD = struct.Struct("<2H")

LOCAL_BYTES: Final = _LOCAL.size
CENTRAL_BYTES: Final = _CENTRAL.size
CENTRAL_EXTRA_BYTES: Final = _CENTRAL_EXTRA.size
END_BYTES: Final = _END.size
END64_BYTES: Final = _END64.size
LOCATOR_BYTES: Final = _LOCATOR.size


class Entry(NamedTuple):
    """One record of a central directory."""

    name: str
    """The key, as text."""
    raw_name: bytes
    """The name as it is stored."""
    flags: int
    """General purpose flags."""
    method: int
    """How the data is compressed; `STORED` for not at all."""
    crc: int
    """CRC-32 of the uncompressed data."""
    stored_bytes: int
    """Length of the data in the archive."""
    size_bytes: int
    """Length of the data when uncompressed."""
    offset: int
    """Where the local header begins in the file."""
    record: bytes
    """The whole central record, to be written again as it was."""


class LocalHeader(NamedTuple):
    """What a local header says about its entry."""

    raw_name: bytes
    method: int
    crc: int
    size_bytes: int
    """Uncompressed length; meaningless where a data descriptor follows the data."""
    header_bytes: int
    """Length of the header: the data follows."""
    has_descriptor: bool
    """Whether CRC and sizes stand behind the data instead."""
    is_filled: bool
    """Whether its extra fields end where it ends: if not, one of the lengths is damaged."""


class MalformedError(ValueError):
    """Bytes that are not the record that they should be; the text says why."""


def name_problem(name: str) -> str | None:
    """Say why an entry cannot have this name, or None if it can.

    >>> name_problem("axes/cell/0") is None
    True
    >>> name_problem("../outside")
    'leaves the archive'
    """
    if not name or name[0] == "/" or "//" in name or "\0" in name:
        return "is no relative path"
    if ".." in name and ".." in name.replace("\\", "/").split("/"):
        return "leaves the archive"
    return None


def padding_bytes(unpadded: int) -> int:
    """Return the length of the extra field that aligns data which would begin at ``unpadded``.

    An extra field needs four bytes at least, so one to three are made up to nine to eleven.

    >>> [padding_bytes(n) for n in range(8)]
    [0, 7, 6, 5, 4, 11, 10, 9]
    """
    missing = -unpadded % DAF_DATA_OFFSET_ALIGNMENT
    return missing + DAF_DATA_OFFSET_ALIGNMENT if 0 < missing < _HEAD.size else missing


def local_header_bytes(raw_name: bytes, offset: int) -> int:
    """Return the length of the local header that is written at ``offset``.

    >>> local_header_bytes(b"a/b", 3) == len(pack_local(b"a/b", 5, 7, 3))
    True
    """
    length = _LOCAL.size + len(raw_name) + _LOCAL_EXTRA.size
    return length + padding_bytes(offset + length)


def pack_local(raw_name: bytes, size_bytes: int, crc: int, offset: int) -> bytes:
    r"""Return the local header of an entry that begins at ``offset``; its data are aligned.

    >>> import textwrap
    >>> print(*textwrap.wrap(pack_local(b"a/b", 5, 7, 0).hex(), 80), sep="\n")
    504b03042d00000800000000210007000000ffffffffffffffff03001f00612f6201001000050000
    00000000000500000000000000f1da070000000000000000
    """
    padding = padding_bytes(offset + _LOCAL.size + len(raw_name) + _LOCAL_EXTRA.size)
    pad = b""
    if padding:
        pad = _HEAD.pack(_PADDING_EXTRA, padding - _HEAD.size).ljust(padding, b"\0")
    extra_bytes = _LOCAL_EXTRA.size - _HEAD.size
    extra = _LOCAL_EXTRA.pack(_ZIP64_EXTRA, extra_bytes, size_bytes, size_bytes) + pad
    made = (LOCAL_SIGNATURE, _ZIP64_VERSION, UTF8_FLAG, STORED, 0, _DATE)
    fixed = _LOCAL.pack(*made, crc, _NONE32, _NONE32, len(raw_name), len(extra))
    return b"".join((fixed, raw_name, extra))


def pack_central(raw_name: bytes, size_bytes: int, crc: int, offset: int) -> bytes:
    r"""Return the central record of an entry that is stored.

    >>> import textwrap
    >>> print(*textwrap.wrap(pack_central(b"a/b", 5, 7, 64).hex(), 80), sep="\n")
    504b01021e032d00000800000000210007000000ffffffffffffffff03001c000000000000000000
    a481ffffffff612f6201001800050000000000000005000000000000004000000000000000
    """
    lengths = (len(raw_name), _CENTRAL_EXTRA.size, 0, 0, 0)
    made = (_MADE_BY, _ZIP64_VERSION, UTF8_FLAG, STORED, 0, _DATE)
    fixed = _CENTRAL.pack(CENTRAL_SIGNATURE, *made, crc, _NONE32, _NONE32, *lengths, _MODE, _NONE32)
    extra_bytes = _CENTRAL_EXTRA.size - _HEAD.size
    extra = _CENTRAL_EXTRA.pack(_ZIP64_EXTRA, extra_bytes, size_bytes, size_bytes, offset)
    return b"".join((fixed, raw_name, extra))


def pack_entry(name: str, size_bytes: int, crc: int, offset: int) -> Entry:
    """Return the entry of stored data whose local header is at ``offset``."""
    raw_name = name.encode()
    record = pack_central(raw_name, size_bytes, crc, offset)
    return Entry(name, raw_name, UTF8_FLAG, STORED, crc, size_bytes, size_bytes, offset, record)


def pack_tail(count: int, size_bytes: int, offset: int) -> bytes:
    r"""Return the three records that end an archive with this central directory.

    >>> import textwrap
    >>> print(*textwrap.wrap(pack_tail(2, 300, 70).hex(), 80), sep="\n")
    504b06062c000000000000001e032d00000000000000000002000000000000000200000000000000
    2c010000000000004600000000000000504b060700000000720100000000000001000000504b0506
    00000000ffffffffffffffffffffffff0000
    """
    made = (_END64.size - 12, _MADE_BY, _ZIP64_VERSION, 0, 0)
    end64 = _END64.pack(END64_SIGNATURE, *made, count, count, size_bytes, offset)
    locator = _LOCATOR.pack(LOCATOR_SIGNATURE, 0, offset + size_bytes, 1)
    end = _END.pack(END_SIGNATURE, 0, 0, _NONE16, _NONE16, _NONE32, _NONE32, 0)
    return b"".join((end64, locator, end))


def parse_local(data: bytes | memoryview) -> LocalHeader:
    """Parse a local header, whose fixed part is there; ``data`` may be longer."""
    (signature, _, flags, method, _, _, crc, _, size, name_bytes, extra_bytes) = _LOCAL.unpack_from(
        data
    )
    if signature != LOCAL_SIGNATURE:
        raise MalformedError(f"there is {signature!r} instead of a local header")
    start = _LOCAL.size + name_bytes
    stop = start + extra_bytes
    if len(data) < stop:
        raise MalformedError("the local header is cut off")
    extra = bytes(data[start:stop])
    if size == _NONE32:
        size = next(iter(_zip64_numbers(extra)), size)
    raw_name = bytes(data[_LOCAL.size : start])
    return LocalHeader(raw_name, method, crc, size, stop, bool(flags & 0x8), _is_filled(extra))


def is_own_entry(entry: Entry) -> bool:
    """Return whether an entry is of the kind that this format's writers write."""
    extra_bytes = len(entry.record) - CENTRAL_BYTES - len(entry.raw_name)
    return (
        entry.method == STORED and entry.flags == UTF8_FLAG and extra_bytes == CENTRAL_EXTRA_BYTES
    )


def local_head_bytes(data: bytes | memoryview) -> int:
    """Return the whole length of a local header of which the fixed part is given."""
    if len(data) < _LOCAL.size:
        raise MalformedError("the local header is cut off")
    return _LOCAL.size + int(sum(_LOCAL.unpack_from(data)[-2:]))


def parse_central(data: bytes, count: int, shift: int) -> Iterator[Entry]:
    """Yield the entries of a central directory.

    Parameters
    ----------
    data
        The central directory, exactly.
    count
        How many records it has to hold.
    shift
        What is added to recorded offsets: the number of bytes put before the archive.
    """
    position = 0
    fixed, total = _CENTRAL.size, len(data)
    for _ in range(count):
        if total - position < fixed:
            raise MalformedError("the central directory ends too early")
        (
            signature, _, _, flags, method, _, _, crc, stored, size,
            name_bytes, extra_bytes, comment_bytes, disk, _, _, offset,
        ) = _CENTRAL.unpack_from(data, position)  # fmt: skip
        start = position + fixed
        stop = start + name_bytes
        end = stop + extra_bytes + comment_bytes
        if signature != CENTRAL_SIGNATURE or end > total:
            raise MalformedError("a record of the central directory is damaged")
        raw_name = data[start:stop]
        if stored == size == offset == _NONE32 and extra_bytes == _CENTRAL_EXTRA.size:
            kind, _, size, stored, offset = _CENTRAL_EXTRA.unpack_from(data, stop)  # as we write
            if kind != _ZIP64_EXTRA:
                raise MalformedError("a central record lacks its ZIP64 sizes")
        elif _NONE32 in (stored, size, offset) or disk == _NONE16:
            numbers = iter(_zip64_numbers(data[stop : stop + extra_bytes]))
            size, stored, offset = (
                _next(numbers) if value == _NONE32 else value for value in (size, stored, offset)
            )
        try:
            name = raw_name.decode("utf-8" if flags & UTF8_FLAG else "cp437")
        except UnicodeDecodeError:
            raise MalformedError(f"the name {raw_name!r} is not UTF-8") from None
        yield Entry(
            name, raw_name, flags, method, crc, stored, size, offset + shift, data[position:end]
        )
        position = end
    if position != total:
        raise MalformedError(
            f"the central directory has {total - position:,} bytes after its last record"
        )


def _extra_fields(extra: bytes) -> Iterator[tuple[int, int, int]]:
    """Yield what extra fields are, where the data of each begin, and where they end."""
    stop = 0
    while (start := stop + _HEAD.size) <= len(extra):
        kind, length = _HEAD.unpack_from(extra, stop)
        stop = start + length
        yield kind, start, stop


def _zip64_numbers(extra: bytes) -> Iterator[int]:
    """Yield the numbers of the ZIP64 extra field, in their order."""
    for kind, start, stop in _extra_fields(extra):
        if kind == _ZIP64_EXTRA:
            field = extra[start:stop]
            for at in range(0, len(field) - 7, 8):
                yield int.from_bytes(field[at : at + 8], "little")


def _is_filled(extra: bytes) -> bool:
    """Return whether extra fields follow one another up to the end of these bytes."""
    return max((stop for *_, stop in _extra_fields(extra)), default=0) == len(extra)


def _next(numbers: Iterator[int]) -> int:
    for number in numbers:
        return number
    raise MalformedError("a central record lacks its ZIP64 sizes")


ReadAt: TypeAlias = Callable[[int, int], Any]
"""Returns the bytes from an offset on, this many or as many as there are."""

_SEVERAL_DISKS = "it is one part of an archive on several disks"
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
    raw: bytes
    """Its bytes."""

    def is_own(self) -> bool:
        """Return whether all of it is what this format's writers write: safe to add to."""
        offsets = [entry.offset for entry in self.entries]
        is_in_order = all(one < next_one for one, next_one in itertools.pairwise(offsets))
        return not self.shift and is_in_order and all(map(is_own_entry, self.entries))


def read_directory(read_at: ReadAt, size_bytes: int) -> Directory:
    """Read the central directory that an intact archive ends with.

    Raises
    ------
    MalformedError
        The file does not end with one, or it is damaged or hostile.
    """
    start = max(size_bytes - END_BYTES, 0)
    block = read_at(start, size_bytes - start)
    if not (block.startswith(END_SIGNATURE) and block.endswith(b"\0\0")):
        start = max(size_bytes - END_BYTES - _MAX_COMMENT_BYTES, 0)
        block = read_at(start, size_bytes - start)
    reason = "it does not end with the records that a ZIP archive ends with"
    position = len(block)
    while (position := block.rfind(END_SIGNATURE, 0, position)) >= 0:
        data = block[position:]
        if END_BYTES <= len(data) <= END_BYTES + _END.unpack_from(data)[-1]:
            try:
                return _directory_before(read_at, start + position, data)
            except MalformedError as error:
                reason = str(error)  # with the error itself, its frames would stay for a while
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
        data = read_at(position, END_BYTES + _MAX_COMMENT_BYTES)
        try:
            directory = _directory_before(read_at, position, data)
        except MalformedError:
            continue
        if directory.shift == 0 and agrees_with_headers(directory.entries, read_at):
            return directory
    return None


def header_of(entry: Entry, read_at: ReadAt) -> LocalHeader | None:
    """Return the local header of an entry; None if it is not there."""
    try:
        length = local_head_bytes(read_at(entry.offset, LOCAL_BYTES))
        header = parse_local(read_at(entry.offset, length))
    except MalformedError:
        return None
    is_its = (header.raw_name, header.method) == (entry.raw_name, entry.method)
    return header if is_its else None


def header_in(data: memoryview, entry: Entry) -> LocalHeader | None:
    """Return the local header of an entry in the bytes of an archive; None if it is not there."""
    return header_of(entry, lambda offset, size: data[offset : offset + size])


def agrees_with_headers(entries: Sequence[Entry], read_at: ReadAt) -> bool:
    """Return whether the local headers say the same; that of the last one may be ahead."""
    found = ((entry, header_of(entry, read_at)) for entry in entries)
    return all(
        header is not None
        and (entry is entries[-1] or header.has_descriptor or agrees(entry, header))
        for entry, header in found
    )


def agrees(entry: Entry, header: LocalHeader) -> bool:
    """Return whether a local header has the length and the CRC that the directory has."""
    return (header.crc, header.size_bytes) == (entry.crc, entry.size_bytes)


def is_headed(entry: Entry, data: memoryview) -> bool:
    """Return whether the local header of an entry of our own kind is there, undamaged."""
    header = header_in(data, entry)
    return header is not None and header.is_filled and agrees(entry, header)


def span_of(entry: Entry, data: memoryview) -> tuple[int, int]:
    """Return where the data of an entry of our own kind begins and ends."""
    header = header_in(data, entry)
    start = entry.offset + local_header_bytes(entry.raw_name, entry.offset)
    if header is not None and header.is_filled:
        start = entry.offset + header.header_bytes
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
    if len(data) < END_BYTES:
        raise MalformedError("the end record is cut off")
    _, disk, start, here, count, size, recorded, comment_bytes = _END.unpack_from(data)
    stop, directory_stop = position + END_BYTES + comment_bytes, position
    if len(data) < stop - position:
        raise MalformedError("the end record is damaged")
    if _NONE16 in (disk, start, here, count) or _NONE32 in (size, recorded):
        found = _end64_before(read_at, position)
        if found is not None:
            directory_stop, count, size, recorded = found
    elif (disk, start) != (0, 0):
        raise MalformedError(_SEVERAL_DISKS)
    if size > min(directory_stop, _MAX_DIRECTORY_BYTES):
        raise MalformedError(f"its directory is said to be {size:,} bytes long")
    if count * CENTRAL_BYTES > size:
        raise MalformedError(f"its directory of {size:,} bytes is said to hold {count:,} entries")
    offset = directory_stop - size
    shift = offset - recorded
    if shift < 0:
        raise MalformedError("its directory overlaps the records behind it")
    raw = _exactly(read_at, offset, size)
    entries = list(parse_central(raw, count, shift))
    _check(entries, offset)
    return Directory(entries, offset, stop, shift, raw)


def _end64_before(read_at: ReadAt, position: int) -> tuple[int, int, int, int] | None:
    """Return where the ZIP64 end record of an end record is, and its count, length and offset.

    None if there is none: small numbers that happen to look like "see ZIP64".
    """
    locator_at = position - LOCATOR_BYTES
    if locator_at < 0:
        return None
    locator = _exactly(read_at, locator_at, LOCATOR_BYTES)
    signature, disk, recorded, disks = _LOCATOR.unpack(locator)
    if signature != LOCATOR_SIGNATURE:
        return None
    if disk != 0 or disks > 1:
        raise MalformedError(_SEVERAL_DISKS)
    for at in (recorded, locator_at - END64_BYTES):
        if 0 <= at <= locator_at - END64_BYTES:
            data = read_at(at, END64_BYTES)
            if data.startswith(END64_SIGNATURE) and len(data) == END64_BYTES:
                count, size, offset = _END64.unpack(data)[-3:]
                return at, count, size, offset
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
        problem = name_problem(entry.name)
        if problem is not None:
            raise MalformedError(
                f"its entry {entry.name!r} has a name that {problem}, so it may be hostile"
            )
        stop = entry.offset + LOCAL_BYTES + len(entry.raw_name) + entry.stored_bytes
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

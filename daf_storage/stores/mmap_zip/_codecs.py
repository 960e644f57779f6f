"""Decompress entries of foreign archives.

Never produces more than the size that the directory declares, and checks size and CRC.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator
from typing import Any, Final

from daf_storage.base import optional_import
from daf_storage.errors import CorruptDataError, UnsupportedDataError
from daf_storage.stores.mmap_zip import _records as records
from daf_storage.stores.mmap_zip._records import Entry

_BLOCK_BYTES = 1 << 20
_PART_BYTES = 1 << 16
_DOCUMENT_ENDINGS = (".zarray", ".zgroup", ".zattrs", ".zmetadata", ".json")
_MAX_DOCUMENT_BYTES = 1 << 28


def check_readable(entry: Entry, what: str) -> None:
    """Raise unless this is an entry whose bytes can be had."""
    if entry.flags & (records.ENCRYPTED_FLAG | records.MASKED_FLAG):
        raise UnsupportedDataError(
            f"{what} is encrypted; decrypt the archive with the tool that made it"
        )
    if entry.method not in (records.STORED, *_DECODERS):
        known = ", ".join(["0 (stored)", *(f"{m} ({name})" for m, (name, _) in _DECODERS.items())])
        raise UnsupportedDataError(
            f"{what} is compressed by ZIP method {entry.method}, which is not supported; "
            f"supported are {known}"
        )
    if entry.method == records.STORED and entry.stored_bytes != entry.size_bytes:
        raise CorruptDataError(
            f"{what} is damaged: the directory says that it has {entry.size_bytes:,} bytes, and "
            f"{entry.stored_bytes:,} in the archive, though it is not compressed"
        )


def decompress(entry: Entry, data: memoryview, what: str) -> memoryview:
    """Return the data of a compressed entry, checked against its size and CRC."""
    if is_document(entry) and entry.size_bytes > _MAX_DOCUMENT_BYTES:
        raise CorruptDataError(
            f"{what} expands to {entry.size_bytes:,} bytes, and metadata have no more than "
            f"{_MAX_DOCUMENT_BYTES:,}; write it again"
        )
    found = bytearray()
    try:
        for block in blocks(entry, data, what):
            found += block
    except MemoryError:
        raise CorruptDataError(
            f"{what} expands to {entry.size_bytes:,} bytes, for which there is no memory; "
            "take it from a backup if it cannot be so large, or unpack the archive"
        ) from None
    return memoryview(found).toreadonly()


def blocks(entry: Entry, data: memoryview, what: str) -> Iterator[bytes]:
    """Yield the data of a compressed entry, and check its size and CRC as they come."""
    check_readable(entry, what)
    size_bytes = crc = 0
    try:
        for block in _DECODERS[entry.method][1](data):
            size_bytes, crc = size_bytes + len(block), zlib.crc32(block, crc)
            if size_bytes > entry.size_bytes:
                break
            yield block
    except (EOFError, ValueError, zlib.error) as error:
        raise CorruptDataError(f"{what} cannot be decompressed ({error})") from error
    if size_bytes != entry.size_bytes or crc != entry.crc:
        raise CorruptDataError(
            f"{what} is damaged: what it decompresses to has not the recorded size and CRC"
        )


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


_DECODERS: Final[dict[int, tuple[str, Callable[[memoryview], Iterator[bytes]]]]] = {
    8: ("deflate", _deflate),
    9: ("deflate64", _deflate64),
}

"""Packed files: an index of the chunks, the chunks, and a ZIP directory of them, all in one.

Other programs of the family find the chunks by the ZIP directory, this one by the index.  Where
there is no index, one is made of the directory: its records have one length, in the order of the
chunks.  Source: docs/reference/format.md, "FilesDaf", and PKWARE's APPNOTE.
"""

from __future__ import annotations

import base64
import struct
import zlib
from collections.abc import Callable
from typing import Any, Final, TypeAlias

import numpy as np

from daf_storage.base import AnyArray, Packing, StorageType
from daf_storage.errors import CorruptDataError
from daf_storage.files_daf._descriptors import to_json
from daf_storage.stores import mmap_zip as records
from daf_storage.trees import PackedChunk, ShardWriter

RangeReader: TypeAlias = Callable[[list[tuple[int, int]]], list[memoryview]]

_GZIP_HEADER_BYTES: Final = 10
_GZIP_TRAILER_BYTES: Final = 8
_MAX_NAME_BYTES: Final = 64
_METHODS: Final = {"zstd": 93, "gzip": 8}
"""The method of an entry by the codec; others are stored."""


def zip_index(read: RangeReader, size: int, *, count: int, codec: str, what: str) -> AnyArray:
    """Return where the data of each chunk is, as offsets and lengths.

    Parameters
    ----------
    read
        Reads ranges of the file.
    size
        How long it is.
    count
        How many chunks there are.
    codec
        How they are compressed.

    Raises
    ------
    CorruptDataError
        The file, which messages call ``what``, does not end as such an archive does.
    """
    directory = _stored_directory(read, size, what)
    method = _METHODS.get(codec, 0)
    name_bytes = int(directory[28]) + 256 * int(directory[29])
    record_bytes = records.CENTRAL_BYTES + name_bytes + records.CENTRAL_EXTRA_BYTES
    if name_bytes > _MAX_NAME_BYTES or directory.size < record_bytes * count:
        raise _damaged(what, f"its directory does not list {count:,} chunks")
    rows = directory[: record_bytes * count].reshape(count, record_bytes)
    signature = np.frombuffer(records.CENTRAL_SIGNATURE, np.uint8)
    if not bool((rows[:, :4] == signature).all()):
        raise _damaged(what, "its directory has records of several lengths")
    methods = rows[:, 10:12].copy().view("<u2")
    if not bool((methods == method).all()):
        raise _damaged(
            what, f"its chunks have the ZIP method {int(methods[0, 0])} instead of {method}"
        )
    extra = rows[:, records.CENTRAL_BYTES + name_bytes :][:, 4:].copy().view("<u8")
    sizes, offsets = extra[:, 1].astype(np.uint64), extra[:, 2].astype(np.uint64)
    if method == _METHODS["gzip"]:
        if name_bytes != _GZIP_HEADER_BYTES:
            raise _damaged(what, "the names of its chunks are not the headers of gzip streams")
        around = np.uint64(_GZIP_HEADER_BYTES + _GZIP_TRAILER_BYTES)
        return np.stack([offsets + np.uint64(records.LOCAL_BYTES), sizes + around], axis=1)
    header = np.uint64(records.LOCAL_BYTES + name_bytes + records.LOCAL_EXTRA_BYTES)
    return np.stack([offsets + header, sizes], axis=1)


def _stored_directory(read: RangeReader, size: int, what: str) -> AnyArray:
    """Return the bytes of the directory of the archive."""
    if size < records.TAIL_BYTES:
        raise _damaged(what, "it is too short for a ZIP archive")
    tail = read([(size - records.TAIL_BYTES, size)])[0]
    if bytes(tail[:4]) != records.END64_SIGNATURE:
        raise _damaged(what, "it does not end as a ZIP archive of chunks does")
    length, offset = struct.unpack_from("<QQ", tail, 40)
    if offset + length > size:
        raise _damaged(what, "the directory of the archive lies outside of it")
    directory: AnyArray = np.frombuffer(read([(offset, offset + length)])[0], np.uint8)
    if directory.size < records.CENTRAL_BYTES:
        raise _damaged(what, "the directory of the archive is too short")
    return directory


def _damaged(what: str, problem: str) -> CorruptDataError:
    return CorruptDataError(f"{what}: {problem}; write it again")


_NONE32: Final = 0xFFFFFFFF
_DEFLATED: Final = 8
_CODEC_FILE: Final = b"codec.json"
_GZIP_START: Final = b"\x1f\x8b\x08\x01"
_GZIP_END: Final = b"\x02\xff"


class ZipShardWriter(ShardWriter):
    """Compresses an array chunk by chunk into a file that is a ZIP archive, too.

    zstd and gzip are methods of ZIP; what blosc compresses is stored, and an entry ``codec.json``
    says how to read it.  The header of a gzip stream is the name of its entry.
    """

    def __init__(self, shape: tuple[int, ...], storage_type: StorageType, packing: Packing) -> None:
        super().__init__(shape, storage_type, packing)
        self._packing = packing
        self._storage_type = storage_type
        self._method = _METHODS.get(packing.codec, records.STORED)
        self._records: list[bytes] = []

    def pack(self, data: Any) -> PackedChunk:
        """Compress a chunk, and compute what its local header needs."""
        raw = memoryview(data).cast("B")
        if self._method == _DEFLATED:
            deflate = zlib.compressobj(self._packing.level, zlib.DEFLATED, -zlib.MAX_WBITS)
            compressed = deflate.compress(raw) + deflate.flush()
        else:
            compressed = self.compress(data)
        stored = compressed if self._method == records.STORED else raw
        return PackedChunk(compressed, len(stored), zlib.crc32(stored))

    def framed(self, chunk: PackedChunk) -> tuple[bytes, bytes]:
        """Return the local header of the next chunk, and what the index points at."""
        if self._method == _DEFLATED:
            return self._gzip_stream(chunk)
        sizes = (chunk.size_bytes, len(chunk.data))
        return self._header(self._name(), self._method, chunk.crc, sizes), chunk.data

    def tail(self) -> bytes:
        """Return the entry that names the codec, and the directory of the archive."""
        entry = b""
        if self._method == records.STORED:
            codecs = to_json(self._codecs())
            sizes = (len(codecs), len(codecs))
            entry = self._header(_CODEC_FILE, records.STORED, zlib.crc32(codecs), sizes) + codecs
        directory, offset = b"".join(self._records), self.end + len(entry)
        tail = records.pack_tail(len(self._records), len(directory), offset)
        return entry + directory + tail

    def _gzip_stream(self, chunk: PackedChunk) -> tuple[bytes, bytes]:
        number = base64.b64encode(len(self._records).to_bytes(3, "big"))
        name = _GZIP_START + number + _GZIP_END
        sizes = (chunk.size_bytes, len(chunk.data))
        header = self._header(name, _DEFLATED, chunk.crc, sizes)
        trailer = struct.pack("<2L", chunk.crc, chunk.size_bytes & _NONE32)
        return header.removesuffix(name), name + chunk.data + trailer

    def _name(self) -> bytes:
        """Return the name of the next chunk: its place along each dimension, of fixed widths."""
        places = np.unravel_index(len(self._records), self.grid)
        widths = (len(str(count - 1)) for count in self.grid)
        parts = (f"{int(n):0{width}}" for n, width in zip(places, widths, strict=True))
        return "/".join(["c", *parts]).encode()

    def _header(self, name: bytes, method: int, crc: int, sizes: tuple[int, int]) -> bytes:
        """Return the local header of an entry that comes next, and note its central record.

        Parameters
        ----------
        sizes
            Its lengths, not compressed and compressed.
        """
        size_bytes, stored_bytes = sizes
        central = records.pack_central(
            name, size_bytes, crc, self.end, method=method, stored_bytes=stored_bytes
        )
        self._records.append(central)
        pack = records.pack_short_local if method == _DEFLATED else records.pack_unaligned
        return pack(name, sizes, crc, method)

    def _codecs(self) -> list[dict[str, Any]]:
        is_string = self._storage_type.is_string
        first: dict[str, Any] = {"configuration": {"endian": "little"}, "name": "bytes"}
        options = {
            "blocksize": 0,
            "clevel": self._packing.level,
            "cname": self._packing.codec.removeprefix("blosc-"),
            "shuffle": "bitshuffle",
            "typesize": 1 if is_string else self._storage_type.dtype.itemsize,
        }
        strings: dict[str, Any] = {"configuration": {}, "name": "vlen-utf8"}
        return [strings if is_string else first, {"configuration": options, "name": "blosc"}]

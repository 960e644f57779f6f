"""Packed files: an index of the chunks, the chunks, and a ZIP directory of them, all in one.

Other programs of the family find the chunks by the ZIP directory, this one by the index.
Source: docs/reference/format.md, "FilesDaf", and PKWARE's APPNOTE.
"""

from __future__ import annotations

import base64
import struct
import zlib
from typing import Any, Final

import numpy as np

from daf_storage.base import Packing, StorageType
from daf_storage.files_daf._descriptors import to_json
from daf_storage.trees import PackedChunk, ShardWriter

_VERSION: Final = 45
_PLAIN_VERSION: Final = 20
_MADE_BY: Final = 0x031E
_UTF8_FLAG: Final = 0x800
_DATE: Final = 0x0021  # 1980-01-01
_MODE: Final = 0x81A40000  # a regular file, 0o644
_NONE16: Final = 0xFFFF
_NONE32: Final = 0xFFFFFFFF
_ZIP64: Final = 1
_STORED: Final = 0
_DEFLATED: Final = 8
_METHODS: Final = {"zstd": 93, "gzip": _DEFLATED}
_CODEC_FILE: Final = b"codec.json"
_GZIP_START: Final = b"\x1f\x8b\x08\x01"
_GZIP_END: Final = b"\x02\xff"

_LOCAL = struct.Struct("<4s5H3L2H")
_LOCAL_EXTRA = struct.Struct("<2H2Q")
_CENTRAL = struct.Struct("<4s6H3L5H2L")
_CENTRAL_EXTRA = struct.Struct("<2H3Q")
_END64 = struct.Struct("<4sQ2H2L4Q")
_LOCATOR = struct.Struct("<4sLQL")
_END = struct.Struct("<4s4H2LH")


class ZipShardWriter(ShardWriter):
    """Compresses an array chunk by chunk into a file that is a ZIP archive, too.

    zstd and gzip are methods of ZIP; what blosc compresses is stored, and an entry ``codec.json``
    says how to read it.  The header of a gzip stream is the name of its entry.
    """

    def __init__(self, shape: tuple[int, ...], storage_type: StorageType, packing: Packing) -> None:
        super().__init__(shape, storage_type, packing)
        self._packing = packing
        self._storage_type = storage_type
        self._method = _METHODS.get(packing.codec, _STORED)
        self._records: list[bytes] = []

    def pack(self, data: Any) -> PackedChunk:
        """Compress a chunk, and compute what its local header needs."""
        raw = memoryview(data).cast("B")
        if self._method == _DEFLATED:
            deflate = zlib.compressobj(self._packing.level, zlib.DEFLATED, -zlib.MAX_WBITS)
            compressed = deflate.compress(raw) + deflate.flush()
        else:
            compressed = self.compress(data)
        stored = compressed if self._method == _STORED else raw
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
        if self._method == _STORED:
            codecs = to_json(self._codecs())
            sizes = (len(codecs), len(codecs))
            entry = self._header(_CODEC_FILE, _STORED, zlib.crc32(codecs), sizes) + codecs
        return entry + _directory(self._records, self.end + len(entry))

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
        self._records.append(_central(name, method, crc, sizes, self.end))
        if method == _DEFLATED:  # the data follows the name at once
            shown, extra, version = (sizes[1], sizes[0]), b"", _PLAIN_VERSION
        else:
            shown, version = (_NONE32, _NONE32), _VERSION
            extra = _LOCAL_EXTRA.pack(_ZIP64, _LOCAL_EXTRA.size - 4, *sizes)
        lengths = (len(name), len(extra))
        fixed = (b"PK\3\4", version, _UTF8_FLAG, method, 0, _DATE, crc, *shown, *lengths)
        return _LOCAL.pack(*fixed) + name + extra

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


def _central(name: bytes, method: int, crc: int, sizes: tuple[int, int], offset: int) -> bytes:
    lengths = (len(name), _CENTRAL_EXTRA.size, 0, 0, 0)
    made = (_MADE_BY, _VERSION, _UTF8_FLAG, method, 0, _DATE)
    fixed = _CENTRAL.pack(b"PK\1\2", *made, crc, _NONE32, _NONE32, *lengths, _MODE, _NONE32)
    return fixed + name + _CENTRAL_EXTRA.pack(_ZIP64, _CENTRAL_EXTRA.size - 4, *sizes, offset)


def _directory(records: list[bytes], offset: int) -> bytes:
    """Return the central directory at an offset, and the records that end the archive."""
    directory, count = b"".join(records), len(records)
    made = (_END64.size - 12, _MADE_BY, _VERSION, 0, 0)
    end64 = _END64.pack(b"PK\6\6", *made, count, count, len(directory), offset)
    locator = _LOCATOR.pack(b"PK\6\7", 0, offset + len(directory), 1)
    end = _END.pack(b"PK\5\6", 0, 0, _NONE16, _NONE16, _NONE32, _NONE32, 0)
    return directory + end64 + locator + end

"""The chunks of a Zarr array in a directory or archive, decoded without objects, within bounds.

zarr-python makes a Python object of each string, and decompresses a chunk into whatever size it
claims.  The usual codecs are decoded here instead, straight into numpy or Arrow; anything else is
left to it.
"""

from __future__ import annotations

import hashlib
import os
import posixpath
import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, TypeAlias
from zlib import crc32

import numpy as np

from daf_query.scan import Values
from daf_storage import errors, spi
from daf_storage.spi import (
    decode_vlen_bytes,
    decode_vlen_utf8,
    decompress_chunk,
    lazy_module,
    open_regular,
)

if TYPE_CHECKING:
    import zarr
else:
    zarr = lazy_module("zarr")

Fingerprint: TypeAlias = tuple[int, int, int, int]
"""Inode, size, time of the data and time of the inode of a file: others after a change."""

_TIME_STEP_NS = 100_000_000
_FIXED_SIZE = "biufMV"
_STRING_DECODERS: dict[str, Callable[..., Any]] = {
    "vlen-utf8": decode_vlen_utf8,
    "vlen-bytes": decode_vlen_bytes,
}
_COMPRESSIONS = frozenset({"blosc", "zstd", "gzip", "zlib", "lz4", "bz2", "lzma", "crc32c"})
_FILTERED_RATIO = 16
"""How much larger a chunk may be before its filters are undone."""


class ChunkFiles:
    """The chunks of an array of one dimension; `of` returns none for servers and memory.

    Parameters
    ----------
    array
        The ``zarr.Array``.
    what
        The array as messages name it.
    """

    def __init__(self, array: Any, what: str) -> None:
        self._array = array
        self._what = what
        self._store = array.store
        self._chunk_rows = int(array.chunks[0])
        self._codec, self._compressions = _codecs(array)

    @classmethod
    def of(cls, array: Any, what: str = "the array") -> ChunkFiles | None:
        """Return those of an array; None if its chunks are not at hand by themselves."""
        is_at_hand = isinstance(array.store, zarr.storage.LocalStore | spi.ZarrArchiveStore)
        is_plain = is_at_hand and array.shards is None
        return cls(array, what) if is_plain and array.chunks[0] else None

    def _key(self, number: int) -> str:
        key: str = self._array.metadata.encode_chunk_key((number,))
        return posixpath.join(self._array.path, key)

    def _path(self, number: int) -> str | None:
        """Return the path of the file of a chunk; None in an archive."""
        if isinstance(self._store, spi.ZarrArchiveStore):
            return None
        return str(os.path.join(self._store.root, self._key(number)))

    def _stored(self, number: int) -> memoryview | None:
        """Return a chunk as it is stored; None if it is missing."""
        path = self._path(number)
        if path is None:
            stored: memoryview | None = self._store.find_bytes(self._key(number))
            return stored
        descriptor = open_regular(path, what=path)
        if descriptor is None:
            return None
        with os.fdopen(descriptor, "rb") as file:
            return memoryview(file.read())

    def fingerprint(self, number: int) -> Fingerprint | None:
        """Return what tells a chunk from a later one; None if it is missing or very new."""
        path = self._path(number)
        if path is None:
            return None
        try:
            status = os.stat(path)
        except OSError:
            return None
        return _fingerprint(status) if _is_settled(status) else None

    def state(self) -> str | None:
        """Return what tells all files from later ones; None in an archive, or if one is new."""
        found = hashlib.sha256()
        for number in self._numbers():
            path = self._path(number)
            if path is None:
                return None
            try:
                status = os.stat(path)
            except OSError:  # a missing chunk stands for fill values
                found.update(b"missing")
                continue
            if not _is_settled(status):
                return None
            found.update(repr(_fingerprint(status)).encode())
        return found.hexdigest()

    def checksum(self) -> int:
        """Return the checksum of all chunks as they are stored."""
        total = 0
        for number in self._numbers():
            data = self._stored(number)
            total = crc32(repr(None if data is None else len(data)).encode(), total)
            total = crc32(b"" if data is None else data, total)
        return total

    def _numbers(self) -> range:
        """Return the numbers of all chunks."""
        return range(-(-int(self._array.shape[0]) // max(self._chunk_rows, 1)))

    def decode(self, number: int, rows: int) -> Values | None:
        """Return the values of a chunk; None if zarr-python has to decode it, or to complain.

        Parameters
        ----------
        rows
            How many rows it has: the last chunk is padded.

        Raises
        ------
        CorruptDataError
            It is damaged, or would expand to more than such a chunk has.
        """
        if self._compressions is None:
            return None
        data = self._stored(number)
        if data is None:
            return None
        has_filters = self._codec is None
        item_bytes = 0 if self._array.dtype.kind in "OT" else int(self._array.dtype.itemsize)
        try:
            data = decompress_chunk(
                self._compressions,
                data,
                count=self._chunk_rows * (_FILTERED_RATIO if has_filters else 1),
                item_bytes=item_bytes,
            )
            if self._codec is None:  # zarr-python may decode it: it is not too large
                return None
            values = self._codec(data)
        except (errors.CorruptDataError, ValueError) as error:
            raise errors.CorruptDataError(
                f"{self._what}: the stored chunks cannot be decoded: chunk {number} is damaged "
                f"({error})"
            ) from error
        return values[:rows] if len(values) == self._chunk_rows else None


def _fingerprint(status: os.stat_result) -> Fingerprint:
    return status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns


def _is_settled(status: os.stat_result) -> bool:
    """Return whether the next change of a file is bound to show in its times."""
    return time.time_ns() - max(status.st_mtime_ns, status.st_ctime_ns) >= _TIME_STEP_NS


def _codecs(
    array: Any,
) -> tuple[Callable[[memoryview], Any] | None, list[Mapping[str, Any]] | None]:
    """Return what decodes the values of an array, and the compressions to be undone before.

    Without the former, zarr-python has to decode it; without the latter, also to decompress it.
    """
    found = _codecs_v2(array) if array.metadata.zarr_format == 2 else _codecs_v3(array)
    if found is None:
        return None, None
    serializer, compressions = found
    if not all(codec.get("id") in _COMPRESSIONS for codec in compressions):
        return None, None
    text = _STRING_DECODERS.get(serializer)
    if text is not None:
        return (lambda data: text(data, what=array.path)), compressions
    dtype = array.dtype
    if serializer != "bytes" or dtype.kind not in _FIXED_SIZE or dtype.names is not None:
        return None, compressions
    return (lambda data: np.frombuffer(data, dtype)), compressions


def _codecs_v2(array: Any) -> tuple[str, list[Mapping[str, Any]]] | None:
    filters = [one.get_config()["id"] for one in array.metadata.filters or ()]
    compressor = array.metadata.compressor
    compressions = [] if compressor is None else [compressor.get_config()]
    if not filters:
        return "bytes", compressions
    return (filters[0] if len(filters) == 1 else "", compressions)


def _codecs_v3(array: Any) -> tuple[str, list[Mapping[str, Any]]] | None:
    codecs = [one.to_dict() for one in array.metadata.codecs]
    compressions: list[Mapping[str, Any]] = []
    while len(codecs) > 1:
        name = codecs[-1]["name"].removeprefix("numcodecs.")
        if name not in _COMPRESSIONS:
            break
        compressions.append({**codecs.pop().get("configuration", {}), "id": name})
    first = codecs[0]
    is_little = first.get("configuration", {}).get("endian", "little") == "little"
    return (first["name"] if is_little and len(codecs) == 1 else "", compressions)


def reason_of(error: BaseException) -> str:
    """Return a message on one line, of a length that people read."""
    text = " ".join(str(error).split()) or type(error).__name__
    return text if len(text) <= 200 else f"{text[:200]}..."

"""The chunks of a Zarr array in a directory: which file each is, and decoding it without objects.

zarr-python makes a Python object of each string.  The usual codecs are decoded here instead,
straight into numpy or Arrow; anything else is left to it.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from typing import Any, TypeAlias

import numcodecs
import numpy as np
import zarr

from daf_query.evaluating import Values
from daf_storage import decode_vlen_bytes, decode_vlen_utf8

Stamp: TypeAlias = tuple[int, int, int, int]
"""Inode, size, time of the data and time of the inode of a file: others after a change."""

_TIME_STEP_NS = 100_000_000
_NUMBERS = "biufM"
_TEXTS: dict[str, Callable[..., Any]] = {
    "vlen-utf8": decode_vlen_utf8,
    "vlen-bytes": decode_vlen_bytes,
}
_COMPRESSORS: dict[str, Callable[[], Any]] = {
    "blosc": numcodecs.Blosc,
    "gzip": numcodecs.GZip,
    "zstd": numcodecs.Zstd,
}


class ChunkFiles:
    """The files of the chunks of an array of one dimension; `of` returns none for other stores."""

    def __init__(self, array: Any, root: str) -> None:
        self._array = array
        self._root = os.path.join(root, array.path)
        self._chunk_rows = int(array.chunks[0])
        self._codec, self._decompress = _codecs(array)

    @classmethod
    def of(cls, array: Any) -> ChunkFiles | None:
        """Return those of an array; None if its chunks are no files of their own."""
        is_plain = isinstance(array.store, zarr.storage.LocalStore) and array.shards is None
        return cls(array, str(array.store.root)) if is_plain and array.chunks[0] else None

    def _path(self, number: int) -> str:
        return os.path.join(self._root, self._array.metadata.encode_chunk_key((number,)))

    def stamp(self, number: int) -> Stamp | None:
        """Return what tells a chunk from a later one; None if it is missing or very new."""
        try:
            found = os.stat(self._path(number))
        except OSError:
            return None
        if time.time_ns() - max(found.st_mtime_ns, found.st_ctime_ns) < _TIME_STEP_NS:
            return None
        return found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns

    def decode(self, number: int, rows: int) -> Values | None:
        """Return the values of a chunk; None if zarr-python has to decode it, or to complain.

        Parameters
        ----------
        rows
            How many rows it has: the last chunk is padded.
        """
        if self._codec is None:
            return None
        try:
            with open(self._path(number), "rb") as file:
                data = file.read()
            for compressor in self._decompress:
                data = compressor.decode(data)
            values = self._codec(memoryview(data))
        except Exception:  # noqa: BLE001 - zarr-python will complain in its own words
            return None
        return values[:rows] if len(values) == self._chunk_rows else None


def _codecs(array: Any) -> tuple[Callable[[memoryview], Any] | None, list[Any]]:
    """Return what decodes the values of an array, after what decompresses them."""
    found = _codecs_v2(array) if array.metadata.zarr_format == 2 else _codecs_v3(array)
    if found is None:
        return None, []
    serializer, compressors = found
    text = _TEXTS.get(serializer)
    if text is not None:
        return (lambda data: text(data, what=array.path)), compressors
    dtype = array.dtype
    if serializer != "bytes" or dtype.kind not in _NUMBERS:
        return None, []
    return (lambda data: np.frombuffer(data, dtype)), compressors


def _codecs_v2(array: Any) -> tuple[str, list[Any]] | None:
    filters = [one.get_config()["id"] for one in array.metadata.filters or ()]
    compressor = array.metadata.compressor
    compressors = [] if compressor is None else [compressor]
    if not filters:
        return "bytes", compressors
    return (filters[0], compressors) if len(filters) == 1 else None


def _codecs_v3(array: Any) -> tuple[str, list[Any]] | None:
    codecs = [one.to_dict() for one in array.metadata.codecs]
    first, *rest = codecs
    endian = first.get("configuration", {}).get("endian", "little")
    if endian != "little" or any(one["name"] not in _COMPRESSORS for one in rest):
        return None
    return first["name"], [_COMPRESSORS[one["name"]]() for one in reversed(rest)]

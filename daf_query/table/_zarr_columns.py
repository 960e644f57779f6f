"""The arrays of a group as columns: Arrow types, and chunks decoded without objects, within bounds.

zarr-python makes a Python object of each string, and decompresses a chunk into whatever size it
claims.  The usual codecs are decoded here instead, straight into numpy or Arrow; anything else is
left to it.
"""

from __future__ import annotations

import hashlib
import os
import posixpath
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeAlias
from zlib import crc32

import numpy as np
import pyarrow as pa
import zarr

from daf_query.scan import (
    PLAIN_TYPES,
    LastOfThreads,
    OpenColumn,
    Positions,
    Rows,
    ScanOptions,
    Values,
    runs_of_chunks,
)
from daf_query.table._columns import GEOMETRY
from daf_storage import errors
from daf_storage.base import SERVER_CLIENT, DecodedCache, Span, decode_vlen_bytes, decode_vlen_utf8
from daf_storage.stores import ZarrArchiveStore, is_remote, open_regular
from daf_storage.trees import decompress_chunk

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
        is_at_hand = isinstance(array.store, zarr.storage.LocalStore | ZarrArchiveStore)
        is_plain = is_at_hand and array.shards is None
        return cls(array, what) if is_plain and array.chunks[0] else None

    def _key(self, number: int) -> str:
        key: str = self._array.metadata.encode_chunk_key((number,))
        return posixpath.join(self._array.path, key)

    def _path(self, number: int) -> str | None:
        """Return the path of the file of a chunk; None in an archive."""
        if isinstance(self._store, ZarrArchiveStore):
            return None
        return str(os.path.join(self._store.root, self._key(number)))

    def _stored(self, number: int) -> memoryview | None:
        """Return a chunk as it is stored; None if it is missing."""
        path = self._path(number)
        if path is None:
            stored: memoryview | None = self._store.archive.get(self._key(number))
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
    metadata = array.metadata
    if metadata.zarr_format == 2:
        steps = [*(metadata.filters or ()), *filter(None, [metadata.compressor])]
        codecs = [each.get_config() for each in steps]
    else:
        named = [each.to_dict() for each in metadata.codecs]
        codecs = [{**each.get("configuration", {}), "id": each["name"]} for each in named]
        codecs = [{**each, "id": each["id"].removeprefix("numcodecs.")} for each in codecs]
    compressions: list[Mapping[str, Any]] = []
    while codecs and codecs[-1]["id"] in _COMPRESSIONS:
        compressions.append(codecs.pop())
    if metadata.zarr_format == 2 and codecs and metadata.compressor and not compressions:
        return None, None  # the compression is not known
    first = codecs[0] if codecs else {"id": "bytes"}
    text = _STRING_DECODERS.get(first["id"])
    if len(codecs) <= 1 and text is not None:
        return (lambda data: text(data, what=array.path)), compressions
    dtype = array.dtype
    is_plain = first["id"] == "bytes" and first.get("endian", "little") == "little"
    is_fixed = dtype.kind in _FIXED_SIZE and dtype.names is None
    if len(codecs) > 1 or not is_plain or not is_fixed:
        return None, compressions
    return (lambda data: np.frombuffer(data, dtype)), compressions


def reason_of(error: BaseException) -> str:
    """Return a message on one line, of a length that people read."""
    text = " ".join(str(error).split()) or type(error).__name__
    return text if len(text) <= 200 else f"{text[:200]}..."


_GEOMETRY_METADATA: Final = {
    "ARROW:extension:name": "geoarrow.wkb",
    "ARROW:extension:metadata": '{"crs": "EPSG:4326", "crs_type": "authority_code"}',
}
_UNITS: Final = ("s", "ms", "us", "ns")
_COMPARABLE_TYPES: Final = {pa.large_string(): pa.string(), pa.large_binary(): pa.binary()}


@dataclass(frozen=True, eq=False)
class ZarrColumn:
    """One array as a column."""

    array: Any
    """The ``zarr.Array``."""
    field: pa.Field
    """Its name and Arrow type."""
    what: str
    """The array as messages name it."""

    @property
    def length(self) -> int:
        """Number of rows."""
        return int(self.array.shape[0])

    @property
    def chunk_rows(self) -> int:
        """Rows per chunk."""
        return max(int(self.array.chunks[0]), 1)

    @property
    def is_string(self) -> bool:
        """Whether its values are strings or bytes."""
        return self.field.type in PLAIN_TYPES

    def open(self, cache: DecodedCache, options: ScanOptions) -> OpenColumn:  # noqa: ARG002 - neither codes nor zone maps
        """Open it for reading.

        Chunks of a directory are cached while their files stay the same.  Others are not: their
        arrays may change without a sign of it.
        """
        return OpenZarrColumn(self, ChunkFiles.of(self.array, self.what), cache)

    def read(self, span: Span, files: ChunkFiles | None = None) -> Values:
        """Return a range: numbers, or Arrow strings; only its chunks are decoded."""
        if files is not None:
            decoded = files.decode(span.start // self.chunk_rows, span.size)
            if decoded is not None:
                return _comparable(decoded)
        if is_remote(self.what):
            SERVER_CLIENT.check()
        try:
            return _comparable(np.asarray(self.array[span.start : span.stop]))
        except Exception as error:  # zarr raises many kinds for data that it cannot read
            if is_remote(self.what):  # a server's error has the whole URL in it, secrets too
                raise errors.RemoteError(
                    f"{self.what}: the chunks cannot be read ({type(error).__name__})"
                ) from None
            raise errors.CorruptDataError(
                f"{self.what}: the stored chunks cannot be decoded ({reason_of(error)})"
            ) from error


class OpenZarrColumn:
    """A column that is being read; each thread keeps the last span that it decoded.

    Parameters
    ----------
    files
        The files of its chunks, which are decoded one by one; None if zarr-python reads them.
    cache
        Of chunks that were decoded.
    """

    zones = None

    def __init__(self, column: ZarrColumn, files: ChunkFiles | None, cache: DecodedCache) -> None:
        self._column = column
        self._files = files
        self._cache = cache
        self._last: LastOfThreads = {}

    def row_index(self) -> None:
        """Return nothing: only axes have such indexes."""
        return

    def values(self, rows: Rows) -> Values:
        """Return values to evaluate a predicate on; only their chunks are decoded."""
        span, offsets = rows.span, rows.offsets
        thread = threading.get_ident()
        last = self._last.get(thread)
        if last is None or last[0] != span:
            if offsets is not None:
                runs = runs_of_chunks(span, offsets, self._column.chunk_rows)
                return _concatenated(
                    [_at(self._read(part), rest) for part, rest in runs], self._read
                )
            last = self._last[thread] = (span, self._read(span))
        return last[1] if offsets is None else _at(last[1], offsets)

    def to_arrow(self, rows: Rows) -> pa.Array:
        """Return values as Arrow, NaN and NaT as null; only their chunks are decoded."""
        values, kind = self.values(rows), self._column.field.type
        is_numpy = isinstance(values, np.ndarray)
        return pa.array(values, kind, from_pandas=True) if is_numpy else values

    def _read(self, span: Span) -> Any:
        files, chunk_rows = self._files, self._column.chunk_rows
        if files is None:
            return self._column.read(span)
        numbers = range(span.start // chunk_rows, -(-span.stop // chunk_rows))
        whole = _concatenated([self._chunk(files, number) for number in numbers], self._column.read)
        start = numbers.start * chunk_rows
        return whole[span.start - start : span.stop - start]

    def _chunk(self, files: ChunkFiles, number: int) -> Any:
        """Return a chunk, decoded unless it is cached."""
        chunk_rows = self._column.chunk_rows
        span = Span(number * chunk_rows, min((number + 1) * chunk_rows, self._column.length))
        fingerprint = files.fingerprint(number)
        if fingerprint is None:
            return self._column.read(span, files)
        key = (self._column.what, number, span.size)
        return self._cache.get(key, fingerprint, lambda: self._column.read(span, files))


def _at(values: Any, offsets: Positions) -> Any:
    return values[offsets] if isinstance(values, np.ndarray) else values.take(pa.array(offsets))


def _concatenated(parts: Sequence[Any], read: Callable[[Span], Any]) -> Any:
    if len(parts) < 2:
        return parts[0] if parts else read(Span(0, 0))
    return np.concatenate(parts) if isinstance(parts[0], np.ndarray) else pa.concat_arrays(parts)


def column_field(name: str, array: Any) -> pa.Field | None:
    """Return the Arrow field of an array; ``None`` if there is no Arrow type for it here."""
    dtype = array.dtype
    is_v2 = array.metadata.zarr_format == 2
    data_type = type(array.metadata.dtype if is_v2 else array.metadata.data_type)
    if data_type.__name__ == "VariableLengthBytes" or dtype.kind in "VS":
        if dtype.names is not None:
            return None
        metadata = _GEOMETRY_METADATA if name == GEOMETRY else None
        return pa.field(name, pa.binary_view(), metadata=metadata)
    if dtype.kind in "UT" or data_type.__name__ == "VariableLengthUTF8":
        return pa.field(name, pa.string_view())
    if dtype.kind == "M":
        unit, step = np.datetime_data(dtype)
        return pa.field(name, pa.timestamp(unit)) if unit in _UNITS and step == 1 else None
    if dtype.kind in "biuf" and dtype.itemsize <= 8:
        return pa.field(name, pa.from_numpy_dtype(dtype.newbyteorder("=")))
    return None


def _comparable(values: Any) -> Values:
    """Return values as predicates are evaluated on: numbers, or Arrow strings."""
    if isinstance(values, pa.Array):
        plain = _COMPARABLE_TYPES.get(values.type)
        return values if plain is None else values.cast(plain)
    if values.dtype.kind in "biufM":
        return np.asarray(values, values.dtype.newbyteorder("="))
    if values.dtype.kind == "V":
        data = pa.py_buffer(np.ascontiguousarray(values))
        fixed = pa.binary(values.dtype.itemsize)
        return pa.Array.from_buffers(fixed, len(values), [None, data]).cast(pa.binary())
    if values.dtype == object and _is_bytes(values):
        return pa.array([bytes(value) for value in values], pa.binary())
    return pa.array(values.astype(object), pa.string())


def _is_bytes(values: Any) -> bool:
    return values.size > 0 and not isinstance(values[0], str)

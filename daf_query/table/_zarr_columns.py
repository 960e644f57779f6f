"""Arrays of a Zarr group as columns, read chunk by chunk."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import pyarrow as pa

from daf_query.scan import (
    PLAIN_TYPES,
    LastOfThreads,
    OpenColumn,
    Positions,
    Rows,
    ScanOptions,
    Values,
    cast_to,
    runs_of_chunks,
)
from daf_query.table._zarr_chunks import ChunkFiles, reason_of
from daf_storage import errors
from daf_storage.spi import SERVER_CLIENT, DecodedCache, Span, is_remote

GEOMETRY: Final = "bbox"
"""The column that holds geometries, as WKB."""

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
        files = ChunkFiles.of(self.array, self.what)
        return OpenZarrColumn(self) if files is None else OpenZarrFiles(self, files, cache)

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
    """A column that is being read; each thread keeps the last span that it decoded."""

    zones = None

    def __init__(self, column: ZarrColumn) -> None:
        self._column = column
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
                return self._read_rows(rows)
            last = self._last[thread] = (span, self._read_span(span))
        return last[1] if offsets is None else _at(last[1], offsets)

    def to_arrow(self, rows: Rows) -> pa.Array:
        """Return values as Arrow; only their chunks are decoded."""
        return _arrow(self.values(rows), self._column.field.type)

    def _read_span(self, span: Span) -> Any:
        return self._column.read(span)

    def _read_rows(self, rows: Rows) -> Any:
        offsets = rows.positions - rows.span.start
        runs = runs_of_chunks(rows.span, offsets, self._column.chunk_rows)
        return self._joined([_at(self._column.read(span), rest) for span, rest in runs])

    def _joined(self, parts: Sequence[Any]) -> Any:
        return _concatenated(parts) if parts else self._column.read(Span(0, 0))


class OpenZarrFiles(OpenZarrColumn):
    """A column in a directory that is being read, chunk by chunk.

    Parameters
    ----------
    files
        The files of its chunks.
    cache
        Of decoded chunks.
    """

    def __init__(self, column: ZarrColumn, files: ChunkFiles, cache: DecodedCache) -> None:
        super().__init__(column)
        self._files = files
        self._cache = cache

    def _read_span(self, span: Span) -> Any:
        chunk_rows = self._column.chunk_rows
        numbers = range(span.start // chunk_rows, -(-span.stop // chunk_rows))
        start = numbers.start * chunk_rows
        whole = self._joined([self._chunk(number) for number in numbers])
        return whole[span.start - start : span.stop - start]

    def _read_rows(self, rows: Rows) -> Any:
        positions, chunk_rows = rows.positions, self._column.chunk_rows
        numbers = positions // chunk_rows
        runs = np.split(positions, np.flatnonzero(np.diff(numbers)) + 1)
        parts = []
        for run in runs:
            if run.size:
                number = int(run[0]) // chunk_rows
                parts.append(_at(self._chunk(number), run - number * chunk_rows))
        return self._joined(parts)

    def _chunk(self, number: int) -> Any:
        """Return a chunk, decoded unless it is cached."""
        chunk_rows = self._column.chunk_rows
        span = Span(number * chunk_rows, min((number + 1) * chunk_rows, self._column.length))
        fingerprint = self._files.fingerprint(number)
        if fingerprint is None:
            return self._column.read(span, self._files)
        key = (self._column.what, number, span.size)
        return self._cache.get(key, fingerprint, lambda: self._column.read(span, self._files))


def _at(values: Any, offsets: Positions) -> Any:
    return values[offsets] if isinstance(values, np.ndarray) else values.take(pa.array(offsets))


def _concatenated(parts: Sequence[Any]) -> Any:
    if len(parts) == 1:
        return parts[0]
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


def _arrow(values: Any, arrow_type: pa.DataType) -> pa.Array:
    """Return values as Arrow; NaN and NaT are null."""
    if isinstance(values, np.ndarray):
        return pa.array(values, arrow_type, from_pandas=True)
    return cast_to(values, arrow_type)

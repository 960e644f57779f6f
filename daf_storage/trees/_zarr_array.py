"""Groups and arrays of a Zarr hierarchy: mapped where they can be, decoded where not.

Which version of Zarr it is, their metadata say to nobody here.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterator
from dataclasses import replace
from typing import Any, Final, TypeAlias

import numpy as np
import pyarrow as pa

from daf_storage.base import AnyArray, DecodedCache, Span
from daf_storage.base import strings as vlen
from daf_storage.errors import CorruptDataError
from daf_storage.stores import (
    ReadEstimate,
    Snapshot,
    estimate_ranges,
)
from daf_storage.trees._chunked_array import (
    ChunkedArray,
    check_string_count,
    filled_strings,
    wrong_size,
)
from daf_storage.trees._decompress import limit_of_strings
from daf_storage.trees._metadata import ArrayMetadata, key_below
from daf_storage.trees._protocol import NodeKind
from daf_storage.trees._stored_array import ArrayInfo, StoredArray, decoded_bytes, frozen
from daf_storage.trees._zarr_chunks import FileChunks, ShardChunks
from daf_storage.trees._zarr_formats import ZarrFormat

_MAX_FILLED_BYTES: Final = 1 << 34


class ZarrNode:
    """A pinned group or array; see `Node`."""

    def __init__(
        self,
        snapshot: Snapshot,
        kind: NodeKind,
        documents: ZarrFormat,
        *,
        chunk_cache: DecodedCache,
        what: str,
    ) -> None:
        self._chunk_cache = chunk_cache
        self.kind = kind
        self._identity: Hashable | None = None
        self._format = documents
        self.snapshot = snapshot
        self._what = what
        self._arrays: dict[str, ZarrArray | None] = {}

    @property
    def identity(self) -> Hashable:
        """What a cache goes by; looked for when it is first asked for, before anything is read."""
        if self._identity is None:
            self._identity = self.snapshot.identity()
        return self._identity

    def is_same(self, other: object) -> bool:
        """Return whether another node is the very same stored one."""
        return isinstance(other, ZarrNode) and self.snapshot.is_same(other.snapshot)

    def array(self, name: str = "") -> ZarrArray | None:
        """Return this array, or the one of that name below this group; opened once."""
        if name not in self._arrays:  # a sparse matrix asks for its parts again and again
            self._arrays[name] = self._open_array(name)
        return self._arrays[name]

    def _open_array(self, name: str) -> ZarrArray | None:
        what = f"{self._what}/{name}" if name else self._what
        metadata = self._format.array(self.snapshot, name, what=what)
        if metadata is None:
            return None
        return open_zarr_array(self.snapshot, name, metadata, cache=self._chunk_cache, what=what)

    def attribute(self, name: str) -> Any:
        """Return an attribute of this group or array; None if it has none of this name."""
        return self._format.attribute(self.snapshot, "", name, what=self._what)


def open_zarr_array(
    snapshot: Snapshot,
    path: str,
    metadata: ArrayMetadata,
    *,
    cache: DecodedCache,
    what: str,
) -> ZarrArray:
    """Return an array by its metadata: mapped, or decoded chunk by chunk."""
    info, encoding = metadata.info, metadata.encoding
    if metadata.has_plain_chunk:
        key = key_below(path, metadata.first_chunk_key)
        is_at_hand = info.storage_type.is_string or not snapshot.is_local
        if is_at_hand or snapshot.is_mapped(key, alignment=metadata.item_bytes):
            return PlainArray(snapshot, path, metadata, what=what)
    stored_as = (encoding.dtype, encoding.order, metadata.fill_value)
    memory = cache.named(repr((what, info, *stored_as)))  # it knows its hash
    return ChunkedArray(
        replace(info, is_mappable=False),
        encoding,
        FileChunks(snapshot, path, metadata, what=what)
        if metadata.shard is None
        else ShardChunks(snapshot, path, metadata, metadata.shard, cache=memory, what=what),
        cache=memory,
        what=what,
    )


class PlainArray(StoredArray):
    """An array in one chunk that is neither compressed nor filtered; see `StoredArray`."""

    def __init__(
        self, snapshot: Snapshot, path: str, metadata: ArrayMetadata, *, what: str
    ) -> None:
        self._is_ranged = metadata.info.is_mappable and not snapshot.is_local
        self.info: ArrayInfo = (
            replace(metadata.info, is_mappable=False) if self._is_ranged else metadata.info
        )
        self._snapshot = snapshot
        self._metadata = metadata
        self._key = key_below(path, metadata.first_chunk_key)
        self._chunk = FileChunks(snapshot, path, metadata, what=what)
        self._what = what

    def read(self) -> AnyArray:
        """Return all elements; a read-only view of the mapped file where that is possible."""
        if self._is_ranged and self.info.shape:
            return self.read_rows(Span(0, self.info.shape[0]))
        return self._mapped()

    def read_spans(self, spans: list[Span], within: Span | None = None) -> list[AnyArray]:
        """Return several ranges of the first dimension; of a server, asked for together."""
        if not (self._is_ranged and self.info.shape):
            return super().read_spans(spans, within)
        parts = self._ranged(spans)
        return parts if within is None else [part[:, within.slice] for part in parts]

    def estimate(
        self, spans: list[Span], estimate: ReadEstimate, within: Span | None = None
    ) -> None:
        """Add what `read_spans` would cost."""
        if self._is_ranged and self.info.size:
            row_bytes = math.prod(self.info.shape[1:]) * self.info.storage_type.dtype.itemsize
            ranges = [(span.start * row_bytes, span.stop * row_bytes) for span in spans]
            estimate_ranges(self._snapshot, ranges, estimate)
        elif self.info.is_mappable:
            super().estimate(spans, estimate, within)
        elif self.info.size:
            requests = 0 if self._snapshot.is_local else 1
            estimate.add_inexact(decoded_bytes(self.info, spans, within), requests=requests)

    def read_strings(self) -> pa.StringArray | pa.LargeStringArray:
        """Return all strings, decoded straight into Arrow."""
        if self.info.size == 0:
            return pa.array([], pa.string())
        data = self._mapped_chunk()
        if data is None:
            return filled_strings(self._fill_value(), self.info.size, what=self._what)
        decoded = vlen.decode_vlen_utf8(data, what=self._what)
        if len(decoded) != self.info.size:
            check_string_count(data, self.info.size, what=f"{self._what}: the chunk")
        return decoded

    def string_pieces(self) -> Iterator[pa.Array]:
        """Yield all strings in pieces, each of which has a string once; few are in memory."""
        data = self._mapped_chunk() if self.info.size else None
        if data is None:
            yield self.read_strings()
            return
        check_string_count(data, self.info.size, what=f"{self._what}: the chunk")
        for piece in vlen.decode_vlen_pieces(data, what=self._what):
            yield piece.dictionary_encode()

    def check_stored(self, *, is_complete: bool = False) -> None:
        """Raise if the file is missing or too short, by its size alone."""
        self._chunk.check_stored(is_complete=is_complete)

    def unstored_chunks(self, *, asks_server: bool) -> list[tuple[str, Span]]:
        """Return the chunk of a list if it is not stored."""
        if not self.info.size or self._chunk.is_stored((0,), asks_server=asks_server):
            return []
        return [(f"{self._what}: {self._chunk.name((0,))}", Span(0, self.info.shape[0]))]

    def fingerprint(self) -> list[int] | None:
        """Return what tells the chunk from any other."""
        return self._chunk.fingerprint() if self.info.size else None

    def plain_strings(self) -> memoryview | None:
        """Return the chunk, if it is one of strings, mapped."""
        return self._mapped_chunk() if self.info.storage_type.is_string else None

    def mapped_strings(self) -> memoryview | None:
        """Return the chunk of strings, unless it has to be downloaded or expanded."""
        return self.plain_strings() if self._snapshot.is_mapped(self._key) else None

    def open_file(self) -> int | None:
        """Return a descriptor of the chunk's file, if it has one of its own."""
        return self._snapshot.open_file(self._key) if self.info.size else None

    def _mapped(self) -> AnyArray:
        if self.info.storage_type.is_string:
            return super().read()
        dtype = self.info.storage_type.dtype
        if self.info.size == 0:
            return frozen(np.empty(self.info.shape, dtype))
        data = self._mapped_chunk()
        if data is None:
            return frozen(np.full(self.info.shape, self._fill_value(), dtype))
        self._check_size(len(data))
        return np.frombuffer(data, dtype).reshape(self.info.shape)

    def _mapped_chunk(self) -> memoryview | None:
        kind, size = self.info.storage_type, self.info.size
        most_bytes = limit_of_strings(size, 0) if kind.is_string else size * kind.dtype.itemsize
        return self._snapshot.map_within(self._key, most_bytes, what=self._what)

    def _ranged(self, spans: list[Span]) -> list[AnyArray]:
        """Fetch ranges of a chunk that is on a server."""
        dtype, rest = self.info.storage_type.dtype, self.info.shape[1:]
        size = self._snapshot.size(self._key) if self.info.size else None
        if size is None:
            values = self._mapped()
            return [values[span.slice] for span in spans]
        self._check_size(size)
        row_bytes = math.prod(rest) * dtype.itemsize
        ranges = [(span.start * row_bytes, span.stop * row_bytes) for span in spans]
        parts = self._snapshot.read_ranges(self._key, ranges)
        return [
            np.frombuffer(part, dtype).reshape((span.size, *rest))
            for part, span in zip(parts, spans, strict=True)
        ]

    def _check_size(self, size_bytes: int) -> None:
        dtype = self.info.storage_type.dtype
        if size_bytes != self.info.size * dtype.itemsize:
            what = f"{self._what}: the chunk file {self._metadata.first_chunk_key!r}"
            raise wrong_size(what, size_bytes, self.info.shape, dtype)

    def _fill_value(self) -> Any:
        """Return what stands in for a missing chunk, as the Zarr specification has it."""
        fill_value = self._chunk.fill_value((0,) * len(self.info.shape))
        size_bytes = self.info.size * max(self._metadata.item_bytes, 1)
        if size_bytes > _MAX_FILLED_BYTES:
            raise CorruptDataError(
                f"{self._what}: the array is said to have the shape {list(self.info.shape)}, and "
                f"there is no data for its {size_bytes:,} bytes"
            )
        return fill_value


ZarrArray: TypeAlias = PlainArray | ChunkedArray
"""How an array of a Zarr hierarchy is read."""

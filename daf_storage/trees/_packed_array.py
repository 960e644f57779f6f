"""Arrays of many small chunks in one file, or in several."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import pyarrow as pa

from daf_storage.base import AnyArray, Span
from daf_storage.stores import ReadEstimate, Snapshot
from daf_storage.trees._array_bases import NotFileBacked, chunks_of
from daf_storage.trees._chunk_reader import ChunkMemory
from daf_storage.trees._joined_ranges import Ranges
from daf_storage.trees._metadata import ArrayMetadata
from daf_storage.trees._shards import ShardReader

_MAX_LOOKED_UP: Final = 1 << 17
"""Of how many chunks an estimate looks up the sizes."""


class PackedArray(NotFileBacked):
    """An array of many small chunks in one file, or in several; see `StoredArray`."""

    def __init__(
        self,
        snapshot: Snapshot,
        path: str,
        metadata: ArrayMetadata,
        *,
        memory: ChunkMemory,
        what: str,
    ) -> None:
        self.info = metadata.info
        self._reader = ShardReader(snapshot, path, metadata, memory=memory, what=what)

    def check_stored(self, *, is_complete: bool = False) -> None:
        """Raise if the file is missing or has no room for its index."""
        self._reader.check_stored(is_complete=is_complete)

    def read(self) -> AnyArray:
        """Return all elements, decoded."""
        return self.read_rows(Span(0, self.info.shape[0]))

    def read_rows(self, span: Span) -> AnyArray:
        """Return a range of the first dimension; decodes only its chunks."""
        return self.read_spans([span])[0]

    def read_spans(self, spans: list[Span], within: Span | None = None) -> list[AnyArray]:
        """Return several ranges of the first dimension; each chunk is decoded once."""
        return self._reader.read_spans(spans, within)

    def read_joined(self, ranges: Ranges) -> AnyArray | None:
        """Return ranges of an array of one dimension in one array."""
        return self._reader.read_joined(ranges)

    def estimate(
        self, spans: list[Span], estimate: ReadEstimate, within: Span | None = None
    ) -> None:
        """Add the compressed bytes of the chunks."""
        if chunks_of(self.info, spans, within) <= _MAX_LOOKED_UP:
            self._reader.estimate(spans, estimate, within)
        else:
            super().estimate(spans, estimate, within)

    def read_strings(self) -> pa.StringArray | pa.LargeStringArray:
        """Return all strings."""
        return self.string_rows(Span(0, self.info.shape[0]))

    def string_pieces(self) -> Iterator[pa.Array]:
        """Yield all strings of a vector, each of a piece once."""
        return self._reader.coded_strings()

    def string_rows(self, span: Span) -> pa.StringArray | pa.LargeStringArray:
        """Return a range of the strings; decodes only its chunks."""
        return self._reader.read_strings(span)

"""Tests of reads of chunks: what is decoded, by whom, and what is remembered of it."""

from __future__ import annotations

import threading
from collections.abc import Hashable, Iterator
from typing import Any

import numpy as np
import pytest

from daf_storage import errors
from daf_storage import settings as daf_settings
from daf_storage.base import DecodedCache, Span, StorageType
from daf_storage.stores import ReadEstimate
from daf_storage.trees import (
    ArrayInfo,
    ChunkedArray,
    ChunkEncoding,
    ChunkMemory,
    _chunked_array,
    _decode_threads,
)
from daf_storage.trees._joined_ranges import Ranges


class Locator:
    """Chunks of numbers, which are all there."""

    most_chunks = 1 << 24

    def __init__(self) -> None:
        self.state: Hashable | None = 1

    def is_stored(self, position: tuple[int, ...], *, asks_server: bool) -> bool:
        """Return that it is."""
        return True

    def name(self, position: tuple[int, ...]) -> str:
        """Return what messages call a chunk."""
        return f"chunk {position[0]}"

    def version(self, position: tuple[int, ...]) -> Hashable | None:
        """Return the version of all chunks."""
        return self.state

    def fetch(self, positions: list[tuple[int, ...]]) -> Iterator[tuple[tuple[int, ...], Any]]:
        """Yield the numbers of chunks."""
        return ((position, position[0]) for position in positions)

    def fill_value(self, position: tuple[int, ...]) -> Any:
        """Return what is not stored."""
        return 0

    def add_stored(self, positions: list[tuple[int, ...]], estimate: ReadEstimate) -> None:
        """Add nothing."""

    def check_stored(self, *, is_complete: bool) -> None:
        """Do nothing."""

    def fingerprint(self) -> None:
        """Return nothing."""


class Source(ChunkedArray):
    """Chunks of ten numbers, of which each says when it is decoded, and by which thread."""

    decodes_in_threads = True

    def __init__(self, length: int, cache: DecodedCache) -> None:
        self.chunks = Locator()
        super().__init__(
            ArrayInfo((length,), StorageType.INT64, (10,), is_mappable=False),
            ChunkEncoding((), np.dtype("<i8")),
            self.chunks,
            memory=ChunkMemory(cache, "x"),
            what="x",
        )
        self.decoded: list[int] = []
        self.threads: set[int] = set()
        self.broken: set[int] = set()

    def decode(self, position: tuple[int, ...], stored: Any) -> Any:
        """Return numbers, padded at the end with others."""
        self.decoded.append(position[0])
        self.threads.add(threading.get_ident())
        if stored in self.broken:
            raise errors.CorruptDataError(f"x: chunk {stored}")
        return np.arange(10) + stored * 10


@pytest.fixture
def cache() -> DecodedCache:
    """Return a memory of 100 numbers."""
    return DecodedCache(max_bytes=800)


def test_of_a_large_array_what_was_used_as_a_whole_is_not_remembered(
    cache: DecodedCache, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A pass over it leaves what random reads need; of a small one, all is remembered."""
    monkeypatch.setattr(daf_settings, "DAF_DECODED_CHUNKS_MAX_BYTES", 800)
    large = Source(205, cache)
    assert large.read_spans([Span(0, 205)])[0].tolist() == list(range(205))
    assert cache.nbytes == 0
    large.read_spans([Span(13, 30)])
    assert cache.nbytes == 80  # the first was used in part, the second as a whole
    large.decoded.clear()
    large.read_spans([Span(15, 16), Span(200, 205)])
    assert large.decoded == [20]
    small = Source(50, DecodedCache(max_bytes=800))
    for _ in range(2):
        assert small.read_spans([Span(0, 50)])[0].tolist() == list(range(50))
    assert sorted(small.decoded) == [0, 1, 2, 3, 4]


def test_what_is_remembered_counts_for_its_version(cache: DecodedCache) -> None:
    """Of which nothing is known that would tell one from another, nothing is remembered."""
    source = Source(50, cache)
    for state, count in ((1, 1), (1, 1), (2, 2), (None, 3), (None, 4), (2, 4)):
        source.chunks.state = state
        assert source.read_spans([Span(3, 5)])[0].tolist() == [3, 4]
        assert len(source.decoded) == count


def test_chunks_are_decoded_side_by_side(
    cache: DecodedCache, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each once, whatever number of ranges needs it; a few are left to the caller's thread."""
    monkeypatch.setattr(_chunked_array, "_TASK_BYTES", 80)
    monkeypatch.setattr(_decode_threads, "THREADS", 2)
    source = Source(5000, cache)
    spans = [Span(7, 4003), Span(0, 100), Span(4990, 5000), Span(9, 9)]
    for part, span in zip(source.read_spans(spans), spans, strict=True):
        assert part.tolist() == list(range(span.start, span.stop))
        assert not part.flags.writeable
    assert sorted(source.decoded) == [*range(401), 499]
    assert threading.get_ident() not in source.threads
    source.threads.clear()
    source.read_spans([Span(4500, 4503)])
    assert source.threads == {threading.get_ident()}
    source.broken = {444}
    with pytest.raises(errors.CorruptDataError, match="chunk 444"):
        source.read_spans([Span(4410, 4500)])


def joined(source: Source, ranges: Ranges) -> Any:
    """Return ranges of a source in one array."""
    found = source.read_joined(ranges)
    assert found is not None
    return found


def test_too_many_chunks() -> None:
    """It is an error before anything is planned."""
    source = Source(2**40, DecodedCache())
    with pytest.raises(errors.UnsupportedDataError, match="write it in larger ones"):
        source.read_spans([Span(0, 2**40)])

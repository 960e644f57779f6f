"""Tests of the bounds within which chunks are decompressed."""

from __future__ import annotations

import zlib

import numcodecs
import numpy as np
import pytest

from daf_storage.trees._decompress import (
    _zstd_frame_bytes,
    decompress,
    limit_of_filtered,
    limit_of_strings,
)


def test_limits_grow_with_what_a_chunk_can_hold() -> None:
    """Strings by their number and by what is stored; numbers by their size, and never none."""
    few = limit_of_strings(5, 1000)
    assert limit_of_strings(5, 1001) == few
    assert limit_of_strings(few, 1000) > few
    assert limit_of_strings(5, few) > few
    assert limit_of_filtered(0) > 0
    assert limit_of_filtered(1 << 20) - limit_of_filtered(0) >= 2 << 20


@pytest.mark.parametrize("size", [0, 1, 1000])
def test_just_as_much_as_the_limit(size: int) -> None:
    """It is decompressed, and a byte more is not."""
    data = memoryview(zlib.compress(bytes(size)))
    assert bytes(decompress({"id": "zlib"}, data, size)) == bytes(size)
    with pytest.raises(ValueError, match="it expands to more than"):
        decompress({"id": "zlib"}, memoryview(zlib.compress(bytes(size + 1))), size)


@pytest.mark.parametrize("size", [1, 255, 256, 257, 65_791, 65_792, 1_000_000])
def test_sizes_that_frames_of_zstd_state(size: int) -> None:
    """In one, two or four bytes; of a frame that is cut off, or followed by another, none is known."""
    for content in (bytes(size), np.random.default_rng(1).bytes(size)):
        for checksum in (False, True):
            frame = bytes(numcodecs.Zstd(1, checksum=checksum).encode(content))
            assert _zstd_frame_bytes(memoryview(frame)) == size
            assert _zstd_frame_bytes(memoryview(frame)[:-1]) is None
            assert _zstd_frame_bytes(memoryview(frame + frame)) is None

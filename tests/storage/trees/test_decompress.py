"""Tests of the bounds within which chunks are decompressed."""

from __future__ import annotations

import zlib

import pytest

from daf_storage.trees._decompress import decompress, limit_of_filtered, limit_of_strings


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

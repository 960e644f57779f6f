"""Tests of snapshots as stores of zarr-python: which bytes a request gives."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from zarr.abc.store import OffsetByteRequest, RangeByteRequest, SuffixByteRequest
from zarr.core.buffer import default_buffer_prototype

from daf_storage.stores import MemoryStore, SnapshotZarrStore
from tests.support import there


def files_of(**files: bytes) -> SnapshotZarrStore:
    """Return a store of zarr-python over a snapshot of some files."""
    store = MemoryStore()
    store.change([], {f"a/{key}": memoryview(data) for key, data in files.items()})
    return SnapshotZarrStore(there(store.snapshot("a")))


@pytest.mark.parametrize(
    ("request_of", "expected"),
    [
        (None, b"012345"),
        (RangeByteRequest(1, 3), b"12"),
        (RangeByteRequest(5, 6), b"5"),
        (OffsetByteRequest(4), b"45"),
        (OffsetByteRequest(9), b""),
        (SuffixByteRequest(2), b"45"),
        (SuffixByteRequest(0), b""),
    ],
)
def test_parts_of_a_value(request_of: Any, expected: bytes) -> None:
    """From the beginning, and from the end, of which there may be nothing."""
    files, prototype = files_of(x=b"012345"), default_buffer_prototype()
    found = there(asyncio.run(files.get("x", prototype, request_of)))
    assert found.to_bytes() == expected
    assert asyncio.run(files.get("y", prototype, request_of)) is None


@pytest.mark.parametrize(("start", "stop"), [(4, 7), (3, 3), (-1, 2)])
def test_parts_that_a_value_does_not_have(start: int, stop: int) -> None:
    """As a damaged index of chunks asks for them: zarr-python would take them for fill values."""
    with pytest.raises(ValueError, match="of 6 are needed"):
        files_of(x=b"012345").get_sync("x", byte_range=RangeByteRequest(start, stop))


def test_keys_of_a_snapshot() -> None:
    """All are listed, and each is there: zarr-python takes a chunk that is not for fill values."""

    async def found() -> tuple[list[str], bool, bool]:
        listed = [key async for key in files.list()]
        return listed, await files.exists("c/0/1"), await files.exists("c")

    files = files_of(**dict.fromkeys(("zarr.json", "c/0/0", "c/0/1"), b"0"))
    listed, *are_there = asyncio.run(found())
    assert sorted(listed) == ["c/0/0", "c/0/1", "zarr.json"]
    assert are_there == [True, False]

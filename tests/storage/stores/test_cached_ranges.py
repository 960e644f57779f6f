"""Tests of reading ranges of a file without waiting for the disk."""

from __future__ import annotations

import errno
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from daf_storage.stores import _cached_ranges as cached


@pytest.fixture
def descriptor(tmp_path: Path) -> Any:
    """Return a file of 100 bytes, of which each says where it is."""
    path = tmp_path / "x"
    path.write_bytes(bytes(range(100)))
    descriptor = os.open(path, os.O_RDONLY)
    yield descriptor
    os.close(descriptor)


def copied(descriptor: int, *ranges: tuple[int, int]) -> list[int] | None:
    """Return ranges, given as start and size, as 16-bit numbers; None if they were not read."""
    starts, sizes = np.array(ranges, np.int64).reshape(-1, 2).T
    target = np.zeros(int(sizes.sum()) // 2, np.uint16)
    is_done = cached.copy_cached(descriptor, starts, sizes, target)
    return target.view(np.uint8).tolist() if is_done else None


def test_ranges_are_read_one_after_the_other(
    descriptor: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In any order, also empty ones and none; where the file ends, nothing is."""
    monkeypatch.setattr(cached, "_ONLY_CACHED", 0)  # tmpfs does not know the flag
    assert copied(descriptor, (90, 4), (0, 2), (5, 0), (1, 2)) == [90, 91, 92, 93, 0, 1, 1, 2]
    assert copied(descriptor) == []
    assert copied(descriptor, (0, 2), (98, 4)) is None


def test_what_the_system_refuses_is_not_read(
    descriptor: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A few ranges that are not in memory are waited for, more are not; nor is an error."""
    waits: list[int] = []
    preadv = os.preadv

    def refused(descriptor: int, buffers: Any, start: int, flags: int = 0) -> int:
        if flags:
            raise BlockingIOError
        waits.append(start)
        return preadv(descriptor, buffers, start)

    monkeypatch.setattr(cached, "_ONLY_CACHED", 1)
    monkeypatch.setattr(os, "preadv", refused)
    assert copied(descriptor, (4, 2), (0, 2)) == [4, 5, 0, 1]
    assert copied(descriptor, *[(start, 2) for start in range(90)]) is None
    assert waits == [4, 0, *range(8)]

    def unknown(*_: object) -> int:
        raise OSError(errno.EOPNOTSUPP, "no such flag")

    monkeypatch.setattr(os, "preadv", unknown)
    assert copied(descriptor, (0, 2)) is None
    monkeypatch.setattr(cached, "_ONLY_CACHED", None)
    monkeypatch.setattr(os, "preadv", None)
    assert copied(descriptor, (0, 2)) is None


def test_few_ranges_are_looked_at_first(descriptor: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of many, one system call each and a sixteenth more; all of those that come first."""
    looks: list[int] = []
    monkeypatch.setattr(cached, "_ONLY_CACHED", 0)

    def look(_: int, start: int) -> bool:
        looks.append(start)
        return True

    monkeypatch.setattr(cached, "_is_cached", look)
    ranges = [(start, 2) for start in range(96)]
    assert copied(descriptor, *ranges) == [at for start, _ in ranges for at in (start, start + 1)]
    assert looks == [*range(16), *range(16, 96, 16)]

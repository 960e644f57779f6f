"""Tests of files that are filled through a mapping or by writes."""

from __future__ import annotations

import gc
import mmap
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from daf_storage.stores import DirectoryStore, put_values
from daf_storage.stores import _filled_file as filled_file
from daf_storage.stores._filled_file import map_filled

SIZE = 1 << 18


@pytest.fixture
def written(monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, int]]:
    """Where, and how many bytes, are written at a time; never more than 10,000 of them."""
    calls: list[tuple[int, int]] = []
    write = os.pwrite

    def pwrite(descriptor: int, data: Any, offset: int) -> int:
        calls.append((offset, len(data)))
        return write(descriptor, data[:10_000], offset)

    monkeypatch.setattr(os, "pwrite", pwrite)
    return calls


def file_of_zeros(path: Path) -> Any:
    """Return the bytes of a new file, to be filled."""
    with path.open("w+b") as file:
        file.truncate(SIZE)
        return map_filled(file.fileno(), SIZE)


def test_large_parts_are_written(tmp_path: Path, written: list[tuple[int, int]]) -> None:
    """At their place, until all is done, and what is mapped has them at once."""
    mapped = file_of_zeros(tmp_path / "x")
    target = mapped.view(np.float32).reshape(16, -1)[2:]
    values = np.arange(target.size, dtype=np.float32).reshape(target.shape)
    put_values(target[:, :], values)
    assert written[0] == (SIZE // 8, target.nbytes)
    assert written[1] == (SIZE // 8 + 10_000, target.nbytes - 10_000)
    assert np.array_equal(target, values)
    assert not mapped[: SIZE // 8].any()
    assert (tmp_path / "x").read_bytes() == mapped.tobytes()


def test_everything_else_is_stored(tmp_path: Path, written: list[tuple[int, int]]) -> None:
    """Little, into other types, parts with gaps, what is repeated, and memory."""
    mapped = file_of_zeros(tmp_path / "x").view(np.int32)
    half = mapped.size // 2
    for target, values in (
        (mapped[:10], np.arange(10, dtype=np.int32)),
        (mapped, np.arange(mapped.size, dtype=np.float64)),
        (mapped[::2], np.arange(half, dtype=np.int32)),
        (mapped[:half], np.arange(mapped.size, dtype=np.int32)[::2]),
        (mapped, np.int32(7) * np.ones(1, np.int32)),
        (np.zeros(SIZE, np.int32), np.arange(SIZE, dtype=np.int32)),
        (np.zeros((300, 300), np.int32)[1:], np.ones(300, np.int32)),
    ):
        put_values(target, values)
        assert np.array_equal(target, np.broadcast_to(values, target.shape))
    assert written == []


def test_where_a_system_cannot_write_at_a_place_all_is_stored(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As in Windows."""
    monkeypatch.delattr(os, "pwrite")
    mapped = file_of_zeros(tmp_path / "x")
    put_values(mapped, np.full(SIZE, 3, np.uint8))
    assert (tmp_path / "x").read_bytes() == b"\3" * SIZE


def test_other_mappings_are_not_written(tmp_path: Path, written: list[tuple[int, int]]) -> None:
    """Those that are no files of ours: nothing is known of what they are mapped from."""
    (tmp_path / "x").write_bytes(bytes(SIZE))
    with (tmp_path / "x").open("r+b") as file:
        private = mmap.mmap(file.fileno(), SIZE, access=mmap.ACCESS_COPY)
    put_values(np.frombuffer(private, np.uint8), np.ones(SIZE, np.uint8))
    assert written == []
    assert not any((tmp_path / "x").read_bytes())


def test_the_descriptor_is_closed_with_the_last_view(tmp_path: Path) -> None:
    """A view of a part holds it, and no longer."""
    part = file_of_zeros(tmp_path / "x").view(np.int32)[5:]
    found = filled_file._file_of(part)
    assert found is not None
    descriptor = found.descriptor
    assert os.fstat(descriptor).st_size == SIZE
    del found, part
    gc.collect()
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(descriptor)


def test_reserved_files_are_written(tmp_path: Path, written: list[tuple[int, int]]) -> None:
    """Those of a directory."""
    store = DirectoryStore(tmp_path / "x")
    with store.transaction() as changes:
        out = changes.reserve("p/x", SIZE)
        put_values(out[100:], np.ones(SIZE - 100, np.uint8))
        changes.publish("p", replace=False)
    assert written[0] == (100, SIZE - 100)
    assert (tmp_path / "x/p/x").read_bytes() == bytes(100) + b"\1" * (SIZE - 100)

"""Tests of writing files of many small chunks, which are compressed on all cores."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from daf_storage import Packing
from daf_storage.base import StorageType
from daf_storage.files_daf._zip_files import ZipShardWriter
from daf_storage.trees import ShardWriter, _decode_threads, _shard_writer

NUMBERS = np.random.default_rng(1).poisson(2, 60_001).astype(np.int32)
STRINGS = pa.array([f"name {n % 97}" for n in range(9_000)])


@pytest.fixture(params=[ShardWriter, ZipShardWriter])
def write(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> Callable[[Packing, Any, int, int], bytes]:
    """Return what packs an array: with so many threads, in blocks of so many elements."""

    def written(packing: Packing, values: Any, threads: int, step: int) -> bytes:
        monkeypatch.setattr(_decode_threads, "THREADS", threads)
        if isinstance(values, pa.Array):
            writer = request.param((len(values),), StorageType.STRING, packing)
            writer.add_strings(values)
            return b"".join(writer.parts())
        writer = request.param(values.shape, StorageType.of(values.dtype), packing)
        for start in range(0, len(values), step):
            block = values[start : start + step].copy()
            writer.add_numbers(block)
            block[:] = 0  # what was added does not depend on it any more
        return b"".join(writer.parts())

    return written


@pytest.mark.parametrize("codec", ["blosc-zstd", "blosc-lz4", "zstd", "gzip"])
def test_the_bytes_are_those_of_one_thread(
    write: Callable[[Packing, Any, int, int], bytes], codec: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In however many blocks and threads; the chunks stand in their order."""
    monkeypatch.setattr(time, "time", lambda: 0)  # streams of gzip have it in their header
    packing = Packing(codec, level=1)
    for values in (NUMBERS, NUMBERS[:60_000].reshape(10, 6_000), STRINGS):
        expected = write(packing, values, 1, len(values))
        for step in (1_000, 2_048, 50_000):
            assert write(packing, values, 3, step) == expected


def test_many_bytes_wait_in_a_file(
    write: Callable[[Packing, Any, int, int], bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    """What comes out is the same."""
    expected = write(Packing(), NUMBERS, 2, 7_000)
    monkeypatch.setattr(_shard_writer, "_HELD_BYTES", 1_000)
    monkeypatch.setattr(_shard_writer, "_PART_BYTES", 700)
    assert write(Packing(), NUMBERS, 2, 7_000) == expected


def test_chunks_are_compressed_side_by_side(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each once, by several threads, which wait for each other."""
    monkeypatch.setattr(_decode_threads, "THREADS", 2)
    together = threading.Barrier(2, timeout=20)
    threads: list[int] = []
    monkeypatch.setattr(_shard_writer, "_TASK_BYTES", 1)
    writer = ShardWriter(NUMBERS.shape, StorageType.INT32, Packing())
    compress = writer.compress

    def compressing(data: Any) -> bytes:
        threads.append(threading.get_ident())
        if len(threads) in (1, 2):
            together.wait()
        return bytes(compress(data))

    writer.compress = compressing
    writer.add_numbers(NUMBERS)
    assert sum(map(len, writer.parts())) == writer.end
    assert len(threads) == -(-NUMBERS.size // 2_048)
    assert len(set(threads)) == 2

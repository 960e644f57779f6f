"""Tests of copying and comparing blocks on all cores."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from daf_storage.trees import fill_blocks, has_equal_bytes
from daf_storage.trees._decode_threads import copy_block
from tests.limits import lower


@pytest.fixture(autouse=True)
def small_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have two threads and pieces of 64 bytes."""
    lower(monkeypatch, decoding_threads=2, piece_bytes=64)


@pytest.mark.parametrize("shape", [(0,), (3,), (1000,), (7, 300), (300, 7), (1, 999)])
def test_copies_are_those_of_numpy(shape: tuple[int, ...]) -> None:
    """Of any shape and order, also where the type becomes wider."""
    dtype = "i2"
    values = np.random.default_rng(1).integers(0, 100, shape).astype(dtype)
    for block in (values, np.asfortranarray(values), values[::2]):
        for target in (np.dtype(dtype), np.dtype("f8")):
            out = np.full(block.shape, 7, target)
            copy_block(out, block)
            assert np.array_equal(out, block.astype(target))
    out = np.zeros(shape, dtype)
    fill_blocks(out, (values[n : n + 5] for n in range(0, shape[0], 5)))
    assert np.array_equal(out, values)


def test_each_byte_is_copied_once_by_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    """A large block by several threads, none of them the caller's; a small one by the caller."""
    copied: list[tuple[int, int]] = []
    copy = np.copyto

    def counting(target: Any, block: Any, **how: Any) -> None:
        copied.append((threading.get_ident(), block.nbytes))
        copy(target, block, **how)

    monkeypatch.setattr(np, "copyto", counting)
    copy_block(np.zeros(1000), np.ones(1000))
    assert sum(size for _, size in copied) == 8000
    assert max(size for _, size in copied) <= 64
    assert threading.get_ident() not in {thread for thread, _ in copied}
    copied.clear()
    copy_block(np.zeros(8), np.ones(8))
    assert copied == [(threading.get_ident(), 64)]


def test_one_block_is_held_at_a_time() -> None:
    """The next is asked for when the last was copied."""
    out = np.zeros(600, np.int32)

    def blocks() -> Iterator[Any]:
        for start in range(0, 600, 100):
            assert np.array_equal(out[:start], np.arange(start))
            yield np.arange(start, start + 100, dtype=np.int32)

    fill_blocks(out, blocks())
    assert np.array_equal(out, np.arange(600))


def test_a_single_bit_is_noticed() -> None:
    """Wherever it is; NaN is equal to itself, and -0 is not 0."""
    values = np.full(203, np.nan)
    assert has_equal_bytes(values, values.copy())
    for place in (0, 7, 8, 101, 202):
        other = values.copy()
        other.view("u8")[place] ^= 1
        assert not has_equal_bytes(values, other)
    zeros = np.zeros((31, 9), np.float32, order="F")
    assert has_equal_bytes(zeros, np.zeros((31, 9), np.float32))
    assert not has_equal_bytes(zeros, np.negative(zeros))
    assert has_equal_bytes(np.zeros(0), np.zeros(0))

"""Tests of the compiled selection of rows: it copies what numpy copies, or nothing."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from daf_query.matrix import _row_selection as row_selection
from daf_query.matrix._row_selection import copy_pair

TYPES = ["u1", "i2", "u2", "i4", "u4", "f4", "i8", "u8", "f8", "?"]


@pytest.fixture(autouse=True)
def tried_anew() -> Iterator[None]:
    """Let each test choose the function."""
    row_selection.row_selection.cache_clear()
    yield
    row_selection.row_selection.cache_clear()


def slow_copy(source: Any, starts: Any, counts: Any) -> Any:
    """Copy ranges one by one."""
    parts = [source[start : start + size] for start, size in zip(starts, counts, strict=True)]
    return np.concatenate([source[:0], *parts])


@st.composite
def ranges(draw: st.DrawFn, size: int, *, ascend: bool = False) -> tuple[Any, Any]:
    """Return ranges within so many elements: in any order, empty ones, overlapping ones."""
    borders = st.tuples(st.integers(0, size), st.integers(0, size)).map(sorted)
    pairs = draw(st.lists(borders, max_size=12))
    if ascend:
        flat = sorted(border for pair in pairs for border in pair)
        pairs = [flat[i : i + 2] for i in range(0, len(flat), 2)]
    table = np.array(pairs, np.int64).reshape(-1, 2)
    return table[:, 0], table[:, 1] - table[:, 0]


@given(data=st.data())
def test_it_copies_ranges(data: st.DataObject) -> None:
    """Of any two types of which one has 4 or 8 bytes, whatever the ranges."""
    kinds = data.draw(st.tuples(st.sampled_from(TYPES), st.sampled_from(TYPES)))
    size = data.draw(st.integers(0, 30))
    largest = data.draw(st.sampled_from([2**31 - 1, 7]))
    starts, counts = data.draw(ranges(size, ascend=largest == 7))
    sources: Any = tuple(np.arange(size).astype(kind) for kind in kinds)
    for source in sources:
        source.flags.writeable = False
    targets: Any = tuple(np.zeros(int(counts.sum()), kind) for kind in kinds)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(row_selection, "LARGEST_POINTER", largest)
        is_done = copy_pair(sources, starts, counts, targets)
    widths = {np.dtype(kind).itemsize for kind in kinds}
    is_too_long = 8 not in widths and int(counts.max(initial=0)) > largest
    assert is_done == (bool(widths & {4, 8}) and not is_too_long)
    if is_done:
        for source, target in zip(sources, targets, strict=True):
            np.testing.assert_array_equal(target, slow_copy(source, starts, counts))


def test_pointers_beyond_32_bits(monkeypatch: pytest.MonkeyPatch) -> None:
    """From 2**31 elements on, pointers are as wide as elements of 8 bytes, or count from a base."""
    four, eight = np.zeros(1, np.float32), np.zeros(1, np.int64)
    limit = row_selection.LARGEST_POINTER
    assert limit == 2**31 - 1
    assert row_selection._pointer_type((four, four), limit + 1) == np.int32
    assert row_selection._pointer_type((four, eight), limit) == np.int32
    assert row_selection._pointer_type((four, eight), limit + 1) == np.int64
    assert row_selection._pointer_type((eight, eight), limit) == np.int64
    starts = np.array([5, 2**31 - 2, 2**31 + 9, 2**33])
    windows = list(row_selection._windows(starts, starts + 7))
    assert windows == [(slice(0, 1), 5), (slice(1, 3), 2**31 - 2), (slice(3, 4), 2**33)]
    assert list(row_selection._windows(starts[::-1], starts[::-1] + 7)) == []
    assert list(row_selection._windows(starts[-1:], starts[-1:] + 2**31)) == []
    monkeypatch.setattr(row_selection, "LARGEST_POINTER", 3)
    numbers = np.arange(9, dtype=np.int32)
    targets = (np.zeros(2, np.int32), np.zeros(2, np.int32))
    assert not copy_pair((numbers, numbers), np.array([7, 1]), np.array([1, 1]), targets)


def test_arrays_that_would_be_copied_whole_are_left_alone() -> None:
    """Of another byte order, unaligned, with gaps, or into other types: they need another way."""
    plain = np.arange(8, dtype=np.int32)
    raw = np.zeros(4 * 8 + 1, np.uint8)[1:].view(np.int32)
    others = [plain.astype(">i4"), raw, np.arange(16, dtype=np.int32)[::2], plain.reshape(2, 4)]
    starts, counts = np.array([1]), np.array([2])
    out = (np.zeros(2, np.int32), np.zeros(2, np.int32))
    assert not raw.flags.aligned
    for other in others:
        assert not copy_pair((plain, other), starts, counts, out)
        assert not copy_pair((other, plain), starts, counts, out)
    assert not copy_pair((plain, plain), starts, counts, (np.zeros(2, np.int64), out[1]))
    assert copy_pair((plain, plain), starts, counts, out)


class Other:
    """A scipy whose private function is another one."""

    def __init__(self, function: Any) -> None:
        if function is not None:
            self.csr_row_index = function


def nothing(*_: Any) -> None:
    """Copy nothing."""


def refuse(*_: Any) -> None:
    """Take other arguments."""
    raise ValueError("Output dtype not compatible with inputs")


@pytest.mark.parametrize("function", [None, nothing, refuse, lambda: None])
def test_it_is_tried_first(monkeypatch: pytest.MonkeyPatch, function: Any) -> None:
    """A function that is gone, or does something else, is not called."""
    monkeypatch.setattr(row_selection, "_sparsetools", Other(function))
    numbers = np.arange(4, dtype=np.int32)
    out = (np.zeros(1, np.int32), np.zeros(1, np.int32))
    assert row_selection.row_selection() is None
    assert not copy_pair((numbers, numbers), np.array([1]), np.array([1]), out)


def test_it_is_there() -> None:
    """The scipy that is installed has it: without it slices take three times as long."""
    assert row_selection.row_selection() is not None

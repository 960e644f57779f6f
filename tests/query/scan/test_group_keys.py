"""Tests of columns to group by."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pyarrow as pa
import pytest

from daf_query.scan import OpenTable, Rows
from daf_query.scan._group_keys import MAX_GROUPS, group_key
from daf_storage.base import Span


class Column:
    """Blocks of ten integers, of which it notes which were read."""

    zones = None

    def __init__(self, blocks: list[Any]) -> None:
        self.read: list[int] = []
        self._blocks = blocks

    def values(self, rows: Rows) -> Any:
        """Return a block."""
        self.read.append(rows.span.start // 10)
        return self._blocks[self.read[-1]]


def key_of(blocks: list[Any], dtype: pa.DataType) -> tuple[Any, list[int]]:
    """Return the key of a column, and the blocks that were read."""
    column = Column(blocks)
    described = SimpleNamespace(field=pa.field("x", dtype))
    table = SimpleNamespace(columns={"x": described}, column=lambda _: column)
    rows = [Rows(Span(10 * place, 10 * place + 10)) for place in range(len(blocks))]
    return group_key(cast(OpenTable, table), "x", rows), column.read


@pytest.mark.parametrize("dtype", ["i2", "u2", "i4", "u8", "i8"])
def test_integers_of_a_small_range(dtype: str) -> None:
    """Have a number each, from the least of all blocks; null has the last, and nothing counts it."""
    least = int(np.iinfo(dtype).min) + 3
    first = (np.arange(10) + least + 1).astype(dtype)
    second = pa.array([least, None, *range(least + 4, least + 12)], pa.from_numpy_dtype(dtype))
    key, read = key_of([first, second], second.type)
    assert read == [0, 1]
    assert key.labels.to_pylist() == [*range(least, least + 12), None]
    assert key.size == 13
    assert key.numbers(first).tolist() == list(range(1, 11))
    assert key.numbers(second).tolist() == [0, 12, *range(4, 12)]


def test_integers_of_a_large_range() -> None:
    """Are none, which shows as soon as two are too far apart; so many as fit are."""
    near, far = np.arange(10), np.arange(10) + MAX_GROUPS - 10
    key, read = key_of([near, far, near], pa.int64())
    assert read == [0, 1, 2]
    assert key.size == MAX_GROUPS + 1
    key, read = key_of([near, far + 1, near], pa.int64())
    assert (key, read) == (None, [0, 1])


def test_narrow_integers_and_truth_values() -> None:
    """Nothing is read: all that the type has."""
    key, read = key_of([], pa.int8())
    assert (key.size, read) == (257, [])
    assert key.labels.to_pylist() == [*range(-128, 128), None]
    assert key.numbers(np.array([-128, 0, 127], "i1")).tolist() == [0, 128, 255]
    key, read = key_of([], pa.bool_())
    assert (key.labels.to_pylist(), read) == ([False, True, None], [])
    assert key.numbers(pa.array([True, None, False])).tolist() == [1, 2, 0]
    assert key_of([], pa.float64()) == (None, [])
    empty, _ = key_of([], pa.int64())
    assert empty.labels.to_pylist() == [0, None]

"""Tests of previews: what some values of a column look like."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from daf_storage.display import PreviewBudget, preview_of


@pytest.mark.parametrize(
    "dtype", ["int8", "uint8", "int64", "uint64", "float32", "float64", "float16"]
)
def test_bins_count_every_finite_number(dtype: str) -> None:
    """As numpy's histogram does, over the whole range of the type."""
    rng = np.random.default_rng(1)
    info: Any = np.iinfo(dtype) if np.dtype(dtype).kind in "iu" else np.finfo(dtype)
    for values in (
        np.array([info.min, 0, info.max], dtype),
        rng.normal(50, 9, 1000).astype(dtype),
        np.array([7], dtype),
    ):
        preview = preview_of(pa.array(values), total=values.size)
        assert sum(preview.bins) == values.size
        if values.size == 1000 and values.dtype.kind == "f":
            expected, _ = np.histogram(values.astype("f8"), bins=24)
            assert np.abs(np.array(preview.bins) - expected).sum() <= 4  # at the edges


def test_the_most_frequent_strings() -> None:
    """Of plain strings, views and dictionaries, as Python counts them."""
    values = ["b"] * 3 + ["a"] * 5 + ["c", "d", "e", "", None]
    for kind in (
        pa.string(),
        pa.large_string(),
        pa.string_view(),
        pa.dictionary(pa.int8(), pa.string()),
    ):
        array = (
            pa.array(values, pa.string()).cast(kind) if kind != pa.string() else pa.array(values)
        )
        preview = preview_of(array, total=len(values))
        assert preview.top[:2] == (("a", 5), ("b", 3))
        assert (preview.distinct, preview.missing) == (6, 1)
    empty = preview_of(pa.array(values), total=len(values), empty_is_missing=True)
    assert (empty.distinct, empty.missing) == (5, 2)


def test_a_budget_ends() -> None:
    """By bytes, by the share of one column, and by time."""
    now = [0.0]
    budget = PreviewBudget(100, 1.0, clock=lambda: now[0])
    assert not budget.spend(26)
    assert [budget.spend(25) for _ in range(5)] == [True] * 4 + [False]
    assert budget.spent_bytes == 100
    late = PreviewBudget(100, 1.0, clock=lambda: now[0])
    now[0] = 1.0
    assert late.is_late
    assert late.spend(1)
    large = PreviewBudget(1 << 20, 1.0, clock=lambda: now[0])
    assert large.spend(100_000)
    now[0] = 2.0
    assert not large.spend(100_000)
    assert large.spend(10_000)

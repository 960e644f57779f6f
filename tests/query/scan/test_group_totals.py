"""Tests of what is added up of groups."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from daf_query.scan._group_totals import Totals

ALL = frozenset({"sum", "avg", "min", "max"})


def totals_of(values: npt.NDArray[Any], groups: npt.NDArray[np.intp], size: int) -> Totals:
    """Return the totals of two blocks, merged."""
    parts = []
    for part in (slice(0, 3), slice(3, None)):
        totals = Totals(values.dtype, size, ALL)
        counts = np.bincount(groups[part], minlength=size)
        totals.add(groups[part], counts, values[part])
        parts.append(totals)
    parts[0].merge(parts[1])
    return parts[0]


@pytest.mark.parametrize("dtype", ["i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8"])
def test_sums_of_integers_wrap(dtype: str) -> None:
    """As those of Python would, modulo 2^64, whatever they are."""
    limits = np.iinfo(dtype)
    random = np.random.default_rng(0)
    values = random.integers(limits.min, limits.max, 500, dtype, endpoint=True)
    values[:4] = limits.max, limits.max, limits.min, limits.min
    groups = random.integers(0, 3, 500)
    totals = totals_of(values, groups, 4)
    for group in range(4):
        chosen = [int(value) for value in values[groups == group]]
        assert (int(totals.sums[group]) - sum(chosen)) % 2**64 == 0
        assert totals.counts[group] == len(chosen)
        if chosen:
            assert (totals.low[group], totals.high[group]) == (min(chosen), max(chosen))


def test_missing_numbers_are_left_out() -> None:
    """NaN, and what is not valid; a sum of both infinities is NaN, and a value."""
    values = np.array([1.0, np.nan, np.inf, -np.inf, 2.0, np.nan])
    totals = totals_of(values, np.array([0, 0, 1, 1, 0, 2]), 3)
    assert totals.counts.tolist() == [2, 2, 0]
    assert totals.sums[0] == 3.0
    assert np.isnan(totals.sums[1])
    assert (totals.low[1], totals.high[1]) == (-np.inf, np.inf)


def test_extremes_of_truth_values() -> None:
    """False is less than true; a group without values has neither."""
    values, groups = np.array([True, False, True, True]), np.array([0, 0, 1, 1])
    totals = Totals(values.dtype, 3, frozenset({"min", "max"}))
    totals.add(groups, np.array([2, 2, 0]), values)
    assert totals.low.dtype == totals.high.dtype == np.bool_
    assert totals.low[:2].tolist() == [False, True]
    assert totals.high[:2].tolist() == [True, True]
    others = Totals(values.dtype, 3, frozenset({"min", "max"}))
    others.add(np.array([2, 1]), np.array([0, 1, 1]), np.array([False, False]))
    totals.merge(others)
    assert (totals.low.tolist(), totals.high.tolist()) == ([False] * 3, [True, True, False])


def test_extremes_are_found_without_a_cast(monkeypatch: pytest.MonkeyPatch) -> None:
    """Numpy takes thirty times as long for a type that is equal, and another object."""
    seen: list[bool] = []

    class Minimum:
        """Stands for the function of numpy."""

        @staticmethod
        def at(low: npt.NDArray[Any], _: Any, values: npt.NDArray[Any]) -> None:
            """Note whether both have the very same type."""
            seen.append(values.dtype is low.dtype)

    values = np.arange(4.0).view(np.dtype("f8").newbyteorder("<"))
    totals = Totals(values.dtype, 1, frozenset({"min"}))
    with monkeypatch.context() as patch:
        patch.setattr(np, "minimum", Minimum)
        totals.add(np.zeros(4, np.intp), np.array([4]), values)
        other = Totals(np.dtype("f8"), 1, frozenset({"min"}))
        other.add(np.zeros(4, np.intp), np.array([4]), values)
    assert seen == [True, True]

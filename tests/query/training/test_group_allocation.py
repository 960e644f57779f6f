"""Whole groups are given to splits, as near to their shares as may be."""

from __future__ import annotations

from itertools import product

import numpy as np
import pandas as pd
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from daf_query.training._splits import allocate_groups, name_keys, weighted_counts

SIZES = st.lists(st.integers(1, 30), min_size=3, max_size=9)


def distance(splits: list[int], counts: np.ndarray, shares: list[float]) -> float:
    """Return the sum of squares of what splits are off their targets."""
    targets = np.outer(shares, counts.sum(axis=0))
    for split, row in zip(splits, counts, strict=True):
        targets[split] -= row
    return float((targets**2).sum())


def allocated(
    sizes: list[int], shares: list[float], seed: int, *, stratified: bool
) -> tuple[list[int], np.ndarray]:
    """Return the split of each group, and what their distances are counted with."""
    groups = np.repeat(np.arange(len(sizes)), sizes)
    strata = np.arange(groups.size) % 3 if stratified else None
    keys = name_keys(pa.array([f"donor_{n}" for n in range(len(sizes))]), seed)
    splits = allocate_groups(groups, keys, shares, strata)
    pairs = pd.DataFrame({"group": groups, "split": splits}).drop_duplicates()
    assert pairs["group"].tolist() == list(range(len(sizes)))  # none is in two splits
    return pairs["split"].tolist(), weighted_counts(groups, strata)


@given(SIZES, st.sampled_from([[0.5, 0.5], [0.8, 0.2], [0.6, 0.2, 0.2]]), st.booleans())
def test_no_move_and_no_swap_comes_nearer(
    sizes: list[int],
    shares: list[float],
    stratified: bool,  # noqa: FBT001 - of hypothesis
) -> None:
    """Found by trying all of them; no group is in two splits, and no split is empty."""
    splits, counts = allocated(sizes, shares, 0, stratified=stratified)
    assert set(splits) == set(range(len(shares)))
    reached = distance(splits, counts, shares)
    for group, split in product(range(len(sizes)), range(len(shares))):
        moved = splits.copy()
        moved[group] = split
        if set(moved) == set(splits):
            assert distance(moved, counts, shares) > reached - 1e-6
    for first, second in product(range(len(sizes)), repeat=2):
        swapped = splits.copy()
        swapped[first], swapped[second] = splits[second], splits[first]
        assert distance(swapped, counts, shares) > reached - 1e-6


def test_as_many_groups_as_splits() -> None:
    """Each split gets one, even if the shares would leave a split empty."""
    splits, _ = allocated([1000, 1, 1], [0.98, 0.01, 0.01], 0, stratified=False)
    assert sorted(splits) == [0, 1, 2]


def test_strata_are_balanced_as_far_as_groups_allow() -> None:
    """Donors of two kinds: sklearn's StratifiedGroupKFold would put both kinds into each fold."""
    groups = np.repeat(np.arange(20), 50)
    strata = (np.arange(groups.size) // 50 < 10).astype(np.int64)
    keys = name_keys(pa.array([f"donor_{n}" for n in range(20)]), 3)
    splits = allocate_groups(groups, keys, [0.8, 0.2], strata)
    assert pd.crosstab(splits, strata).to_numpy().tolist() == [[400, 400], [100, 100]]

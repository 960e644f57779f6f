"""Entries are allocated to splits by their keys, with shares kept in each stratum, and whole groups."""

from __future__ import annotations

from itertools import product

import numpy as np
import pandas as pd
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from daf_query.training._splits import allocate, allocate_groups, name_keys, quotas, weighted_counts

SHARES = st.lists(st.integers(1, 20), min_size=1, max_size=5).map(
    lambda parts: [part / sum(parts) for part in parts]
)


@given(st.lists(st.integers(0, 7), min_size=1, max_size=200), SHARES, st.integers(0, 5))
def test_shares_are_kept_in_each_stratum_to_within_one(
    strata: list[int], shares: list[float], seed: int
) -> None:
    """And over all, to within the number of splits; counted by pandas."""
    _, codes = np.unique(strata, return_inverse=True)
    keys = name_keys(pa.array([f"cell_{n}" for n in range(len(strata))]), seed)
    splits = allocate(keys, shares, codes)
    table = pd.crosstab(codes, splits).reindex(columns=range(len(shares)), fill_value=0)
    targets = np.outer(table.sum(axis=1), shares)
    assert (np.abs(table - targets) < 1 + 1e-6).all(axis=None)
    assert (np.abs(table.sum() - targets.sum(axis=0)) <= len(shares)).all()


@given(st.lists(st.integers(0, 3), min_size=1, max_size=60), SHARES)
def test_allocation_is_that_of_a_loop_over_sorted_strata(
    strata: list[int], shares: list[float]
) -> None:
    """The slow way: sort each stratum by key, and cut it where the quotas say."""
    _, codes = np.unique(strata, return_inverse=True)
    keys = name_keys(pa.array([str(n % 50) for n in range(len(strata))]), 1)  # some are equal
    expected = [-1] * len(strata)
    for stratum, counts in enumerate(quotas(np.bincount(codes), shares).tolist()):
        rows = sorted(np.flatnonzero(codes == stratum).tolist(), key=lambda row: (keys[row], row))
        for split, count in enumerate(counts):
            for row in rows[:count]:
                expected[row] = split
            rows = rows[count:]
    assert allocate(keys, shares, codes).tolist() == expected


def test_entries_keep_their_split_when_others_go() -> None:
    """Of 20,000 entries of which a tenth goes, a cut passes less than a hundredth."""
    names = pa.array([f"cell_{n}" for n in range(20_000)])
    keys = name_keys(names, 0)
    whole = allocate(keys, [0.8, 0.1, 0.1])
    kept = np.arange(20_000) % 10 != 3
    part = allocate(keys[kept], [0.8, 0.1, 0.1])
    assert np.mean(part != whole[kept]) < 0.01


def test_keys_are_what_they_were() -> None:
    """They are part of what a seed promises: these numbers never change."""
    names = pa.array(["", "AAACATACAACCAC-1", "naïve"])
    assert name_keys(names, 0).tolist() == KEYS_OF_SEED_0
    assert name_keys(names.cast(pa.large_string()).slice(1), 0).tolist() == KEYS_OF_SEED_0[1:]
    assert name_keys(names, 1).tolist() != KEYS_OF_SEED_0


KEYS_OF_SEED_0 = [14762744719350714032, 10578823986182739423, 17312002838912880968]


# Whole groups

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

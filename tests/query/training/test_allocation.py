"""Entries are allocated to splits by their keys, with shares kept in each stratum."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from daf_query.training._splits import allocate, name_keys, quotas

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

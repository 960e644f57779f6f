"""Give whole groups, such as donors, to splits, so that no group is in two.  Pure.

1. The groups are taken in the order of their keys, which the seed makes; each goes to the split
   that lacks most.
2. A split that got none takes the group whose loss costs least.
3. As long as moving a group, or swapping two, brings the splits nearer to their shares, that is
   done.  The best of all of these steps comes first, so that the result is always the same.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, TypeAlias

import numpy as np
import numpy.typing as npt

from daf_query.training._allocation import Codes, SplitCodes
from daf_query.training._entry_keys import Keys

Counts: TypeAlias = npt.NDArray[np.float64]
"""How many entries of each stratum there are, in a row per group or per split."""

SWAPPED_GROUPS: Final = 300
"""Of more groups, single ones are moved, and none are swapped."""
_EPSILON: Final = 1e-9


def allocate_groups(
    groups: Codes, keys: Keys, shares: Sequence[float], strata: Codes | None = None
) -> SplitCodes:
    """Return the split of each entry; all entries of a group have the same.

    Parameters
    ----------
    groups
        The group of each entry; all numbers from 0 occur.
    keys
        Of each group.  There are as many groups as splits, or more.
    strata
        The stratum of each entry; the splits then come near to their shares of each as well.
    """
    counts = weighted_counts(groups, strata)
    targets = np.outer(shares, counts.sum(axis=0))
    order = np.lexsort((keys,))
    splits = np.empty(counts.shape[0], np.int16)
    splits[order] = _improved(_first_splits(counts[order], targets), counts[order], targets)
    return splits[groups]


def weighted_counts(groups: Codes, strata: Codes | None) -> Counts:
    """Return the sizes of groups, and the parts of each stratum, so that squares may be added.

    The first column is the size, in the unit of all entries; a column for each stratum follows, in
    the unit of the stratum's root, so that a small stratum counts less than the size, yet counts.
    """
    sizes = np.bincount(groups).astype(np.float64)
    columns = [(sizes / np.sqrt(max(sizes.sum(), 1)))[:, np.newaxis]]
    if strata is not None:
        width = int(strata.max(initial=0)) + 1
        table = np.bincount(groups * width + strata, minlength=sizes.size * width)
        parts = table.reshape(sizes.size, width).astype(np.float64)
        columns.append(parts / np.sqrt(np.maximum(parts.sum(axis=0), 1)))
    return np.concatenate(columns, axis=1)


def _first_splits(counts: Counts, targets: Counts) -> SplitCodes:
    """Return the split that lacks most when each group comes."""
    lacking = targets.copy()
    splits = np.empty(counts.shape[0], np.int16)
    for group, row in enumerate(counts):
        split = int(np.argmax(lacking @ row))
        splits[group] = split
        lacking[split] -= row
    for split in range(targets.shape[0]):
        if not np.any(splits == split):
            _fill(splits, split, counts, lacking)
    return splits


def _fill(splits: SplitCodes, empty: int, counts: Counts, lacking: Counts) -> None:
    """Move a group into a split that has none, from one that has several."""
    sizes = np.bincount(splits, minlength=lacking.shape[0])
    costs = _move_costs(splits, counts, lacking)[:, empty]
    costs[sizes[splits] < 2] = np.inf
    group = int(np.argmin(costs))
    lacking[splits[group]] += counts[group]
    lacking[empty] -= counts[group]
    splits[group] = empty


def _improved(splits: SplitCodes, counts: Counts, targets: Counts) -> SplitCodes:
    """Move and swap groups until that brings the splits no nearer to their targets."""
    lacking = targets.copy()
    np.subtract.at(lacking, splits, counts)
    products = counts @ counts.T if counts.shape[0] <= SWAPPED_GROUPS else None
    while True:
        moves = _move_costs(splits, counts, lacking)
        moves[np.bincount(splits, minlength=targets.shape[0])[splits] < 2] = np.inf
        group, split = divmod(int(np.argmin(moves)), moves.shape[1])
        best = moves[group, split]
        other = None
        if products is not None:
            swaps = _swap_costs(splits, lacking, counts, products)
            first, second = divmod(int(np.argmin(swaps)), swaps.shape[1])
            if swaps[first, second] < best - _EPSILON:
                best, group, other = swaps[first, second], first, second
                split = int(splits[second])
        if best >= -_EPSILON:
            return splits
        before = int(splits[group])
        step = counts[group] - (0 if other is None else counts[other])
        lacking[before] += step
        lacking[split] -= step
        splits[group] = split
        if other is not None:
            splits[other] = before


def _move_costs(splits: SplitCodes, counts: Counts, lacking: Counts) -> Counts:
    """Return by how much the sum of squares grows if a group moves to another split."""
    fits = counts @ lacking.T
    squares = np.einsum("ij,ij->i", counts, counts)
    at_home = fits[np.arange(splits.size), splits]
    costs: Counts = 2 * (at_home[:, np.newaxis] - fits + squares[:, np.newaxis])
    costs[np.arange(splits.size), splits] = 0
    return costs


def _swap_costs(splits: SplitCodes, lacking: Counts, counts: Counts, products: Counts) -> Counts:
    """Return by how much the sum of squares grows if two groups change places."""
    fits = counts @ lacking.T
    fit = fits[:, splits]  # of the first group in the split of the second
    at_home = fits[np.arange(splits.size), splits]
    squares = np.diag(products)
    apart = squares[:, np.newaxis] + squares[np.newaxis, :] - 2 * products
    costs: Counts = 2 * (at_home[:, np.newaxis] + at_home[np.newaxis, :] - fit - fit.T + apart)
    costs[splits[:, np.newaxis] == splits[np.newaxis, :]] = 0
    return costs

"""Splits: which part of the entries each gets, by keys that are random and always the same.  Pure.

The hash of names is that of the string indexes, which is part of a stored format, so keys do not
change with threads, batches, versions of numpy, or the format of the data set.  Within a stratum
the entries are sorted by key, and cut where the shares say.  So an entry changes its split only if
a cut passes it, when other entries come or go.

Whole groups, such as donors, are in one split each:

1. They are taken in the order of their keys; each goes to the split that lacks most.
2. A split that got none takes the group whose loss costs least.
3. As long as moving a group, or swapping two, brings the splits nearer to their shares, that is
   done.  The best of all of these steps comes first, so that the result is always the same.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Mapping, Sequence
from numbers import Real
from typing import Any, Final, TypeAlias

import numpy as np
import numpy.typing as npt

from daf_query.index import hashes_of
from daf_storage import errors

Shares: TypeAlias = Mapping[str, float]
"""Which part of the entries each split gets, by its name; together 1."""

Keys: TypeAlias = npt.NDArray[np.uint64]

Codes: TypeAlias = npt.NDArray[np.int64]
"""Numbers of strata or groups, from 0."""

SplitCodes: TypeAlias = npt.NDArray[np.int16]
"""The number of the split of each entry."""

Counts: TypeAlias = npt.NDArray[np.float64]
"""How many entries of each stratum there are, in a row per group or per split."""

SWAPPED_GROUPS: Final = 300
"""Of more groups, single ones are moved, and none are swapped."""
MAX_SPLITS: Final = 1 << 15
_FIRST_FACTOR: Final = np.uint64(0xBF58476D1CE4E5B9)
_SECOND_FACTOR: Final = np.uint64(0x94D049BB133111EB)
_TOLERANCE: Final = 1e-6
"""By how much shares of single precision, and thirds that are written out, miss one."""


def checked_shares(split: object) -> dict[str, float]:
    """Return the shares of all splits, as floats.

    Raises
    ------
    InvalidInputError
        It is no mapping of names to shares; a share is no positive number; or they do not add up
        to 1.

    >>> checked_shares({"train": 0.75, "val": 0.25})
    {'train': 0.75, 'val': 0.25}
    """
    if not isinstance(split, Mapping) or not split:
        raise errors.InvalidInputError(
            f"split={split!r} is no mapping of names to shares; pass for example "
            "{'train': 0.8, 'val': 0.2}, or leave it out"
        )
    if len(split) > MAX_SPLITS:
        raise errors.InvalidInputError(
            f"split= names {len(split):,} splits; there may be {MAX_SPLITS:,}"
        )
    shares = {name: _checked_share(name, share) for name, share in split.items()}
    total = math.fsum(shares.values())
    if abs(total - 1) > _TOLERANCE:
        scaled = ", ".join(f"{name!r}: {share / total:.4g}" for name, share in shares.items())
        raise errors.InvalidInputError(
            f"the shares of split= add up to {total:.6g}, not to 1; pass {{{scaled}}}, or name a "
            "split for the rest"
        )
    return {name: share / total for name, share in shares.items()}


def _checked_share(name: object, share: Any) -> float:
    if not isinstance(name, str) or not name.strip():
        raise errors.InvalidInputError(f"split= calls a split {name!r}; its name is a string")
    if isinstance(share, bool) or not isinstance(share, Real) or not 0 < float(share) < math.inf:
        raise errors.InvalidInputError(
            f"the share of split {name!r} is {share!r}; a share is a number above 0, and all "
            "together are 1; leave out a split that gets nothing"
        )
    return float(share)


def checked_seed(seed: object) -> int:
    """Return a seed, which is an integer.

    Raises
    ------
    InvalidInputError
        It is something else.
    """
    if isinstance(seed, bool) or not isinstance(seed, int | np.integer):
        raise errors.InvalidInputError(f"seed={seed!r} is no integer; pass one, such as 0")
    return int(seed)


def seed_key(*parts: int) -> int:
    """Return 64 bits that are made of integers, such as a seed and an epoch.

    >>> seed_key(0, 1) == seed_key(0, 1), seed_key(0, 1) == seed_key(1, 0)
    (True, False)
    """
    text = ",".join(str(part) for part in parts)
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "little")


def name_keys(names: Any, seed: int) -> Keys:
    """Return a key for each string of an Arrow array.

    >>> import pyarrow as pa
    >>> first, again = name_keys(pa.array(["A", "B"]), 0), name_keys(pa.array(["B"]), 0)
    >>> bool(first[1] == again[0])
    True
    """
    return mixed(hashes_of(names), seed)


def mixed(hashes: Keys, seed: int) -> Keys:
    """Return keys of hashes and a seed: the finisher of splitmix64."""
    keys = hashes ^ np.uint64(seed_key(seed))
    keys = (keys ^ (keys >> np.uint64(30))) * _FIRST_FACTOR
    keys = (keys ^ (keys >> np.uint64(27))) * _SECOND_FACTOR
    return keys ^ (keys >> np.uint64(31))


def allocate(keys: Keys, shares: Sequence[float], strata: Codes | None = None) -> SplitCodes:
    """Return the split of each entry.

    Parameters
    ----------
    keys
        A number per entry; equal ones come in the order of the entries.
    shares
        A share per split; they add up to 1.
    strata
        The stratum of each entry; one for all by default.

    Returns
    -------
    numpy.ndarray
        Of each stratum with ``n`` entries, a split of share ``p`` has ``n * p`` rounded down or up.

    >>> allocate(np.array([3, 1, 2, 0], np.uint64), [0.75, 0.25]).tolist()
    [1, 0, 0, 0]
    """
    codes = np.zeros(keys.size, np.int64) if strata is None else strata
    order = np.lexsort((keys, codes))
    sizes = np.bincount(codes)
    places = quotas(sizes, shares)
    splits = np.empty(keys.size, np.int16)
    numbers = np.tile(np.arange(len(shares), dtype=np.int16), sizes.size)
    splits[order] = np.repeat(numbers, places.reshape(-1))
    return splits


def quotas(sizes: npt.NDArray[np.int64], shares: Sequence[float]) -> npt.NDArray[np.int64]:
    """Return how many entries of each stratum each split gets.

    What does not divide goes to the splits that lag most behind, over all strata so far, the
    largest first: so the splits as a whole keep their shares too, even if all strata are small.

    >>> quotas(np.array([10, 1, 1, 1, 1]), [0.75, 0.25]).tolist()
    [[8, 2], [0, 1], [1, 0], [1, 0], [1, 0]]
    """
    targets = sizes[:, np.newaxis] * np.asarray(shares, np.float64)
    places: npt.NDArray[np.int64] = np.floor(targets + _TOLERANCE).astype(np.int64)
    fractions = targets - places
    left = sizes - places.sum(axis=1)
    lags = [0.0] * len(shares)
    for stratum in np.argsort(-sizes, kind="stable").tolist():
        parts = fractions[stratum].tolist()
        lags = [lag + part for lag, part in zip(lags, parts, strict=True)]
        count = int(left[stratum])
        if count:
            lagging = sorted(
                range(len(lags)),
                key=lambda split: (parts[split] <= _TOLERANCE, -lags[split], split),
            )
            for split in lagging[:count]:
                places[stratum, split] += 1
                lags[split] -= 1
    return places


def allocate_groups(
    groups: Codes, keys: Keys, shares: Sequence[float], strata: Codes | None = None
) -> SplitCodes:
    """Return the split of each entry; all entries of a group have the same.

    Parameters
    ----------
    groups
        The group of each entry; all numbers from 0 occur.
    keys
        A number per group.  There are as many groups as splits, or more.
    strata
        The stratum of each entry; the splits then come near to their shares of each as well.
    """
    order = np.lexsort((keys,))
    counts = weighted_counts(groups, strata)[order]
    lacking = np.outer(shares, counts.sum(axis=0))
    splits = np.empty(counts.shape[0], np.int16)
    for group, row in enumerate(counts):
        splits[group] = np.argmax(lacking @ row)
        lacking[splits[group]] -= row
    found = np.empty_like(splits)
    found[order] = _improved(splits, counts, lacking)
    return found[groups]


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


def _improved(splits: SplitCodes, counts: Counts, lacking: Counts) -> SplitCodes:
    """Exchange groups, best first, until that brings the splits no nearer to their targets.

    A group that moves changes places with an empty one, of which each split has one.
    """
    n_groups, n_splits = splits.size, lacking.shape[0]
    counts = np.concatenate([counts, np.zeros((n_splits, counts.shape[1]))])
    splits = np.concatenate([splits, np.arange(n_splits, dtype=splits.dtype)])
    others = np.arange(0 if n_groups <= SWAPPED_GROUPS else n_groups, counts.shape[0])
    while True:
        sizes = np.bincount(splits[:n_groups], minlength=n_splits)
        costs = _exchange_costs(splits, counts, lacking, others)[:n_groups]
        costs[sizes[splits[:n_groups]] < 2, -n_splits:] = np.inf  # it would leave a split empty
        if not sizes.all():  # which gets a group, whatever that costs
            costs[:, np.arange(others.size) != others.size - n_splits + np.argmin(sizes)] = np.inf
        group, place = divmod(int(np.argmin(costs)), others.size)
        if sizes.all() and costs[group, place] >= -_TOLERANCE:
            return splits[:n_groups]
        other = others[place]
        step = counts[group] - counts[other]
        lacking[splits[group]] += step
        lacking[splits[other]] -= step
        splits[group], before = splits[other], splits[group]
        if other < n_groups:
            splits[other] = before


def _exchange_costs(splits: SplitCodes, counts: Counts, lacking: Counts, others: Codes) -> Counts:
    """Return by how much the sum of squares grows if a group changes places with another one."""
    fits = counts @ lacking.T
    at_home = fits[np.arange(splits.size), splits]
    squares = np.einsum("ij,ij->i", counts, counts)
    apart = squares[:, np.newaxis] + squares[others] - 2 * counts @ counts[others].T
    abroad = fits[:, splits[others]] + fits[others][:, splits].T
    costs: Counts = 2 * (at_home[:, np.newaxis] + at_home[others] - abroad + apart)
    costs[splits[:, np.newaxis] == splits[others]] = 0
    return costs

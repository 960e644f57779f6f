"""Give entries to splits by their keys, with the shares kept in each stratum.  Pure.

Within a stratum the entries are sorted by key, and cut where the shares say.  So an entry changes
its split only if a cut passes it, when other entries come or go.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, TypeAlias

import numpy as np
import numpy.typing as npt

from daf_query.training._entry_keys import Keys

Codes: TypeAlias = npt.NDArray[np.int64]
"""Numbers of strata or groups, from 0."""

SplitCodes: TypeAlias = npt.NDArray[np.int16]
"""The number of the split of each entry."""

_EPSILON: Final = 1e-9


def allocate(keys: Keys, shares: Sequence[float], strata: Codes | None = None) -> SplitCodes:
    """Return the split of each entry.

    Parameters
    ----------
    keys
        Of each entry; those that are equal come in the order of the entries.
    shares
        Of each split; together 1.
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
    places: npt.NDArray[np.int64] = np.floor(targets + _EPSILON).astype(np.int64)
    fractions = targets - places
    left = sizes - places.sum(axis=1)
    lags = [0.0] * len(shares)
    for stratum in np.argsort(-sizes, kind="stable").tolist():
        parts = fractions[stratum].tolist()
        lags = [lag + part for lag, part in zip(lags, parts, strict=True)]
        count = int(left[stratum])
        if count:
            lagging = sorted(
                range(len(lags)), key=lambda split: (parts[split] <= _EPSILON, -lags[split], split)
            )
            for split in lagging[:count]:
                places[stratum, split] += 1
                lags[split] -= 1
    return places

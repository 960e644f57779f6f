"""The splits of a sampler and the share that each gets.  Pure."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Final, TypeAlias

import numpy as np

from daf_storage import errors

Shares: TypeAlias = Mapping[str, float]
"""Which part of the entries each split gets, by its name; together 1."""

MAX_SPLITS: Final = 1 << 15
_TOLERANCE: Final = 1e-9


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
    return shares


def _checked_share(name: object, share: object) -> float:
    if not isinstance(name, str) or not name.strip():
        raise errors.InvalidInputError(f"split= calls a split {name!r}; its name is a string")
    number_types = (int, float, np.integer, np.floating)
    is_number = isinstance(share, number_types) and not isinstance(share, bool)
    if not is_number or not math.isfinite(share) or share <= 0:  # type: ignore[arg-type,operator] # checked
        raise errors.InvalidInputError(
            f"the share of split {name!r} is {share!r}; a share is a number above 0, and all "
            "together are 1; leave out a split that gets nothing"
        )
    return float(share)  # type: ignore[arg-type] # checked

"""Sort keys that are random, and always the same for the same name and seed.  Pure.

The hash is that of the string indexes, which is part of a stored format, so keys do not change with
threads, batches, versions of numpy, or the format of the data set.
"""

from __future__ import annotations

import hashlib
from typing import Any, Final, TypeAlias

import numpy as np
import numpy.typing as npt

from daf_query.index import hashes_of
from daf_storage import errors

Keys: TypeAlias = npt.NDArray[np.uint64]

_FIRST_FACTOR: Final = np.uint64(0xBF58476D1CE4E5B9)
_SECOND_FACTOR: Final = np.uint64(0x94D049BB133111EB)


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

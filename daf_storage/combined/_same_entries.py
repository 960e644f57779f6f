"""Compare two stored arrays of strings; no Python object per string."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa

from daf_storage._lazy import lazy_module
from daf_storage.trees import StoredArray

if TYPE_CHECKING:
    import pyarrow.compute as pc
else:
    pc = lazy_module("pyarrow.compute")

_BLOCK: Final = 1 << 22


def first_difference(ours: StoredArray, others: StoredArray) -> tuple[int, str, str] | None:
    """Return the first position at which two arrays of one length differ, with both strings.

    None if they are equal.  Where both are stored plainly, their bytes are compared, and nothing
    is decoded.
    """
    left, right = ours.plain_strings(), others.plain_strings()
    if left is not None and right is not None and _are_equal_bytes(left, right):
        return None
    mine, theirs = _large(ours.read_strings()), _large(others.read_strings())
    if mine.equals(theirs):
        return None
    position = pc.index(pc.not_equal(mine, theirs), True).as_py()
    return position, mine[position].as_py(), theirs[position].as_py()


def _are_equal_bytes(left: memoryview, right: memoryview) -> bool:
    if left.nbytes != right.nbytes:
        return False
    a, b = (np.frombuffer(data, np.uint8) for data in (left, right))
    return all(
        np.array_equal(a[start : start + _BLOCK], b[start : start + _BLOCK])
        for start in range(0, a.size, _BLOCK)
    )


def _large(strings: pa.Array) -> Any:
    return strings.cast(pa.large_string())

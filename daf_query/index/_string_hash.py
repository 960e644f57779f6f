"""64-bit hashes of strings: of many at once, without an object for each.

The hash of the bytes ``b[0] ... b[n-1]`` is, modulo ``2**64``, the polynomial ``sum((b[i] + 1) *
BASE**i)``, then mixed with the length, so that strings of zero bytes differ.  Part of the stored
format of indexes.  Pure.
"""

from __future__ import annotations

from typing import Any, Final, TypeAlias

import numpy as np
import numpy.typing as npt

from daf_query.scan import offsets_of

_BLOCK_BYTES: Final = 1 << 22
_BASE: Final = 0x9E3779B97F4A7C15
_INVERSE: Final = pow(_BASE, -1, 1 << 64)
_MIX: Final = 0xBF58476D1CE4E5B9

Hashes: TypeAlias = npt.NDArray[np.uint64]


def hashes_of(strings: Any) -> Hashes:
    """Return the hash of each string of an Arrow array.

    >>> import pyarrow as pa
    >>> hashes_of(pa.array(["a", "b", "a"])).argsort(kind="stable").tolist()
    [1, 0, 2]
    """
    offsets = offsets_of(strings)
    data = np.frombuffer(strings.buffers()[2] or b"", np.uint8)
    hashes = np.empty(len(strings), np.uint64)
    first = 0
    while first < len(strings):
        # 1. Take as many strings as fit a block of bytes, one at least.
        last = int(np.searchsorted(offsets, offsets[first] + _BLOCK_BYTES, side="right")) - 1
        last = min(max(last, first + 1), len(strings))
        start, stop = int(offsets[first]), int(offsets[last])
        # 2. Weigh each byte by its position in the block: sums[i] is the polynomial of the first
        #    i bytes, and the difference of two sums is that of the bytes between them.
        weights = _powers(_BASE, stop - start + 1)
        sums = np.zeros(stop - start + 1, np.uint64)
        np.cumsum((data[start:stop].astype(np.uint64) + 1) * weights[:-1], out=sums[1:])
        begins = offsets[first:last] - start
        ends = offsets[first + 1 : last + 1] - start
        # 3. Divide by the weight of the first byte of each string (the base is odd, so it has an
        #    inverse modulo 2**64): what is left does not depend on where the string lies.
        total = (sums[ends] - sums[begins]) * _powers(_INVERSE, stop - start + 1)[begins]
        # 4. Mix in the length, and let the high bits reach the low ones.
        total ^= (ends - begins).astype(np.uint64) * np.uint64(_MIX)
        total ^= total >> np.uint64(32)
        hashes[first:last] = total * np.uint64(_MIX)
        first = last
    return hashes


def _powers(base: int, count: int) -> Hashes:
    """Return the first powers of a number, modulo 2 to the 64th."""
    powers = np.full(count, base, np.uint64)
    powers[0] = 1
    return np.cumprod(powers, out=powers)

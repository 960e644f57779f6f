"""Copy and compare blocks of arrays on all cores; a mapped page is first touched by the thread.

numpy copies and compares without the interpreter's lock.  One block is held at a time.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Iterator
from typing import Final

import numpy as np

from daf_storage.base import AnyArray
from daf_storage.stores import put_values
from daf_storage.trees._decode_threads import computed, run_all

_PIECE_BYTES: Final = 1 << 21
_COMPARED_BYTES: Final = 1 << 18
"""So much is compared at a time: what numpy finds of each element stays in the cache."""


def fill_blocks(out: AnyArray, blocks: Iterable[AnyArray]) -> None:
    """Fill an array with consecutive ranges of its first dimension."""
    start = 0
    for block in blocks:
        copy_block(out[start : start + len(block)], block)
        start += len(block)


def copy_block(target: AnyArray, block: AnyArray) -> None:
    """Copy an array into another one of the same shape, piece by piece.

    Examples
    --------
    >>> out = np.zeros((2, 3), np.int32)
    >>> copy_block(out, np.ones((2, 3), np.uint8))
    >>> out.tolist()
    [[1, 1, 1], [1, 1, 1]]
    """
    if target.nbytes <= _PIECE_BYTES:
        put_values(target, block)
        return
    if target.flags.c_contiguous and block.flags.c_contiguous:
        target, block = target.reshape(-1), block.reshape(-1)
    run_all(functools.partial(put_values, target[piece], block[piece]) for piece in _pieces(target))


def has_equal_bytes(one: AnyArray, other: AnyArray) -> bool:
    """Return whether two arrays of one shape and type have the same bytes.

    NaN is then equal to itself, and -0 is not 0.

    Examples
    --------
    >>> has_equal_bytes(np.array([0.0, np.nan]), np.array([0.0, np.nan]))
    True
    >>> has_equal_bytes(np.array([0.0]), np.array([-0.0]))
    False
    """
    first, second = _opaque(one), _opaque(other)
    if first.nbytes <= _PIECE_BYTES:
        return _is_equal(first, second)
    pieces = _pieces(first)
    return all(computed(functools.partial(_is_equal, first[p], second[p]) for p in pieces))


def _is_equal(one: AnyArray, other: AnyArray) -> bool:
    step = _COMPARED_BYTES // one.itemsize
    starts = range(0, one.size, step)
    return all(np.array_equal(one[n : n + step], other[n : n + step]) for n in starts)


def _opaque(values: AnyArray) -> AnyArray:
    """Return the elements as unsigned integers of their width, one after the other."""
    return np.ascontiguousarray(values).reshape(-1).view(f"u{values.dtype.itemsize}")


def _pieces(values: AnyArray) -> Iterator[slice]:
    """Yield ranges of the first dimension of about 2 MiB."""
    row_bytes = max(values.nbytes // max(len(values), 1), 1)
    step = max(_PIECE_BYTES // row_bytes, 1)
    for start in range(0, len(values), step):
        yield slice(start, start + step)

"""Scipy's compiled counting sort and selection of rows, into arrays that are there already.

The public ways allocate what they return, and it is copied from there; and there is none that
counts numbers without making wider ones of them.  These functions are not public: they are used
only after they have done a small example as expected, and else the public ways are.  All of them
let other threads run, and trust the numbers that they are given: the caller checks them.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

import numpy as np

from daf_storage._lazy import lazy_module
from daf_storage.base import AnyArray

if TYPE_CHECKING:
    import scipy.sparse as sp
    from scipy.sparse import _sparsetools
else:
    sp = lazy_module("scipy.sparse")
    _sparsetools = lazy_module("scipy.sparse._sparsetools")


def transpose_into(
    pointers: AnyArray, numbers: AnyArray, values: AnyArray, out: tuple[AnyArray, ...]
) -> None:
    """Transpose a matrix, given where its rows begin, the numbers of its columns and its values.

    Parameters
    ----------
    out
        Where the columns begin, whose count says how many there are, the numbers of the rows, and
        the values.

    Examples
    --------
    >>> pointers, numbers = np.array([0, 2, 3], np.int32), np.array([1, 2, 1], np.int32)
    >>> out = np.empty(4, np.int32), np.empty(3, np.int32), np.empty(3, np.uint8)
    >>> transpose_into(pointers, numbers, np.array([7, 8, 9], np.uint8), out)
    >>> [part.tolist() for part in out]
    [[0, 0, 2, 3], [0, 1, 0], [7, 9, 8]]
    """
    shape = pointers.size - 1, out[0].size - 1
    if is_compiled() and _fits((pointers, numbers, *out[:2]), (values, out[2])):
        _sparsetools.csr_tocsc(*shape, pointers, numbers, values, *out)
        return
    found = sp.csr_array((values, numbers, pointers), shape=shape).tocsc()
    out[0][...], out[1][...], out[2][...] = found.indptr, found.indices, found.data


def select_into(
    rows: AnyArray,
    matrix: tuple[AnyArray, AnyArray, AnyArray],
    out: tuple[AnyArray, AnyArray],
) -> None:
    """Copy the numbers and values of some rows of a matrix, one after the other.

    Parameters
    ----------
    matrix
        Where its rows begin, the numbers of its columns, and its values.

    Examples
    --------
    >>> matrix = np.array([0, 2, 3], np.int32), np.array([1, 2, 1], np.int32), np.arange(3)
    >>> out = np.empty(3, np.int32), np.empty(3, int)
    >>> select_into(np.array([1, 0], np.int32), matrix, out)
    >>> [part.tolist() for part in out]
    [[1, 1, 2], [2, 0, 1]]
    """
    if is_compiled() and _fits((rows, *matrix[:2], out[0]), (matrix[2], out[1])):
        _sparsetools.csr_row_index(rows.size, rows, *matrix, *out)
        return
    pointers, numbers, values = matrix
    shape = pointers.size - 1, np.iinfo(numbers.dtype).max
    found = sp.csr_array((values, numbers, pointers), shape=shape)[rows]
    out[0][...], out[1][...] = found.indices, found.data


def count_numbers(numbers: AnyArray, count: int) -> AnyArray:
    """Return how often each of so many numbers occurs, from 0.

    >>> count_numbers(np.array([2, 0, 2], np.int32), 4).tolist()
    [1, 0, 2, 0]
    """
    if is_compiled() and _fits((numbers,)):
        sums, nothing = np.zeros(count, np.int32), np.zeros(1, np.int32)
        _sparsetools.csr_column_index1(
            numbers.size, numbers, 0, count, nothing, nothing, sums, nothing
        )
        return np.diff(sums, prepend=np.int32(0)).astype(np.int64)
    return np.bincount(numbers, minlength=count)


def largest_number(numbers: AnyArray) -> int:
    """Return the largest of some integers, of which negative ones count as very large.

    >>> largest_number(np.array([3, 5])), largest_number(np.array([3, -1], np.int8))
    (5, 255)
    """
    unsigned = numbers.view(f"{numbers.dtype.byteorder}u{numbers.dtype.itemsize}")
    return int(unsigned.max())


@cache
def is_compiled() -> bool:
    """Return whether scipy has these functions, which were tried once, and do as expected."""
    try:
        return _does_as_expected()
    except (ImportError, AttributeError, TypeError, ValueError, RuntimeError):
        return False


def _does_as_expected() -> bool:
    pointers, numbers = np.array([1, 3, 3, 5], np.int32) - 1, np.array([2, 0, 0, 1], np.int32)
    values = np.array([6, 7, 8, 9], np.uint8)
    numbers.flags.writeable = values.flags.writeable = False
    out = np.full(5, 9, np.int32), np.zeros(4, np.int32), np.zeros(4, np.uint8)
    _sparsetools.csr_tocsc(3, 4, pointers, numbers, values, *out)
    picked = np.zeros(3, np.int32), np.zeros(3, np.uint8)
    _sparsetools.csr_row_index(2, np.array([2, 0], np.int32), *out, *picked)
    sums, nothing = np.zeros(4, np.int32), np.zeros(1, np.int32)
    _sparsetools.csr_column_index1(4, numbers, 0, 4, nothing, nothing, sums, nothing)
    expected = [[0, 2, 3, 4, 4], [0, 2, 2, 0], [7, 8, 9, 6], [0, 0, 2], [6, 7, 8], [2, 3, 4, 4]]
    return [part.tolist() for part in (*out, *picked, sums)] == expected


def _fits(numbers: tuple[AnyArray, ...], values: tuple[AnyArray, ...] = ()) -> bool:
    """Return whether compiled code takes arrays as they are: others would be copied, or refused."""
    is_plain = all(
        array.flags.c_contiguous and array.flags.aligned and array.dtype.isnative
        for array in (*numbers, *values)
    )
    is_known = all(array.dtype == np.int32 for array in numbers)
    kinds = {array.dtype for array in values}
    return is_plain and is_known and (not kinds or (len(kinds) == 1 and kinds.pop().kind in "iuf"))

"""Counts, sums, smallest and largest values of groups, added up block by block.

Sums of integers are those of 64 bits, which wrap.  Sums of floats are of doubles, in the order of
the rows; NaN is null.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import numpy.typing as npt

from daf_query.scan._group_keys import GroupNumbers

MAX_BLOCK_ROWS: Final = 1 << 19
"""So many integers of 32 bits have a sum that a double has exactly, and sums of halves of 64."""

_AS_IN_SQL: Final = np.errstate(invalid="ignore", over="ignore")
"""Sums of both infinities are NaN, of large floats infinite, and of integers wrap, all silently."""

_EXACT: Final = 2**53
_HALF: Final = np.uint64(32)


class Totals:
    """What is added up of one column.

    Parameters
    ----------
    size
        How many groups there are.
    functions
        Which of ``sum``, ``avg``, ``min`` and ``max`` are asked for; values are counted anyway.
    """

    def __init__(self, dtype: np.dtype[Any], size: int, functions: frozenset[str]) -> None:
        self._functions = functions
        self.counts = np.zeros(size, np.int64)
        """How many values are valid."""
        self._is_float = dtype.kind == "f"
        sum_type = "f8" if self._is_float else "u8" if dtype.kind == "u" else "i8"
        self.sums: npt.NDArray[Any] = np.zeros(size, sum_type)
        """Sums of numbers."""
        self.float_sums = self.sums if self._is_float else np.zeros(size)
        """Sums of numbers as doubles, for means."""
        top, bottom = _limits(dtype)
        self.low: npt.NDArray[Any] = np.full(size, top, dtype)
        """The smallest values, where there is one."""
        self.high: npt.NDArray[Any] = np.full(size, bottom, dtype)
        """The largest values, where there is one."""

    @_AS_IN_SQL
    def add(
        self,
        groups: GroupNumbers | None,
        counts: npt.NDArray[np.int64],
        values: npt.NDArray[Any],
        is_valid: npt.NDArray[np.bool_] | None = None,
    ) -> None:
        """Add a block.

        Parameters
        ----------
        groups
            The group of each row; at most `MAX_BLOCK_ROWS`. None if all are of the only one.
        counts
            How many rows each group has.
        """
        if self._is_float and values.size and np.isnan(values.min()):
            is_valid = ~np.isnan(values)
        if is_valid is not None:
            values = values[is_valid]
            groups = None if groups is None else groups[is_valid]
            counts = _counts(groups, values, counts.size)
        self.counts += counts
        if not values.size:
            return
        size, functions = counts.size, self._functions
        if "avg" in functions or (self._is_float and "sum" in functions):
            self.float_sums += (
                _float_sum(values) if groups is None else np.bincount(groups, values, size)
            )
        if not self._is_float and "sum" in functions:
            self.sums += (
                values.sum(dtype=self.sums.dtype)
                if groups is None
                else _integer_sums(groups, values, size).view(self.sums.dtype)
            )
        for function, extremes, of in (
            ("min", self.low, np.minimum),
            ("max", self.high, np.maximum),
        ):
            if function not in functions:
                continue
            if groups is None:
                extremes[0] = of(extremes[0], of.reduce(values))
            else:
                dtype = (
                    extremes.dtype
                )  # the very same: one that is only equal takes 30 times as long
                of.at(extremes, groups, values.astype(dtype, copy=False).view(dtype))

    @_AS_IN_SQL
    def merge_groups(self, other: Totals, groups: GroupNumbers, targets: GroupNumbers) -> None:
        """Add what was added up of some groups to others, of which several may be the same."""
        np.add.at(self.counts, targets, other.counts[groups])
        np.add.at(self.sums, targets, other.sums[groups])
        if self.float_sums is not self.sums:
            np.add.at(self.float_sums, targets, other.float_sums[groups])
        np.minimum.at(self.low, targets, other.low[groups])
        np.maximum.at(self.high, targets, other.high[groups])

    @_AS_IN_SQL
    def merge(self, other: Totals) -> None:
        """Add what was added up of other rows."""
        self.counts += other.counts
        self.sums += other.sums
        if self.float_sums is not self.sums:
            self.float_sums += other.float_sums
        self.low = np.minimum(self.low, other.low)
        self.high = np.maximum(self.high, other.high)


def _counts(
    groups: GroupNumbers | None, values: npt.NDArray[Any], size: int
) -> npt.NDArray[np.int64]:
    return np.array([values.size]) if groups is None else np.bincount(groups, minlength=size)


def _float_sum(values: npt.NDArray[Any]) -> float:
    """Return the sum of numbers as a double; that of integers is exact where 64 bits hold it.

    >>> _float_sum(np.array([2**53, 1, -(2**53)]))
    1.0
    """
    if values.dtype.kind in "iu":
        largest = max(-int(values.min()), int(values.max()))
        if largest * values.size < 2**63:
            return float(values.sum(dtype=np.int64))
    return float(values.sum(dtype=np.float64))


def _limits(dtype: np.dtype[Any]) -> tuple[Any, Any]:
    if dtype.kind == "f":
        return np.inf, -np.inf
    if dtype.kind == "b":
        return True, False
    limits = np.iinfo(dtype)
    return limits.max, limits.min


def _integer_sums(
    groups: GroupNumbers, values: npt.NDArray[Any], size: int
) -> npt.NDArray[np.uint64]:
    """Return the sums of the integers of each group, modulo 2^64.

    >>> large = np.array([2**62, 2**62, 2**62, 1])
    >>> [int(sum_) - 3 * 2**62 for sum_ in _integer_sums(np.zeros(4, np.intp), large, 1)]
    [1]
    """
    largest = max(abs(int(values.min())), abs(int(values.max())))
    if largest * values.size < _EXACT:
        return np.bincount(groups, values, size).astype(np.int64).view(np.uint64)
    bits = values.astype(np.int64 if values.dtype.kind == "i" else np.uint64).view(np.uint64)
    low = np.bincount(groups, bits & np.uint64(0xFFFFFFFF), size).astype(np.uint64)
    high = np.bincount(groups, bits >> _HALF, size).astype(np.uint64)
    return low + (high << _HALF)

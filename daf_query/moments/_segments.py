"""Reduce values that are sorted into segments: sums, squares, least and greatest.  Pure.

numpy adds up each segment pairwise, in double precision, and squares are of the deviations from the
mean of the segment, not of the values: a large offset costs no digits.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

Doubles: TypeAlias = npt.NDArray[np.float64]
Counts: TypeAlias = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Segments:
    """What is known of the values of each segment; all arrays have one shape."""

    n: Counts
    """How many values there are that are not NaN."""
    missing: Counts
    """How many are NaN."""
    nonzero: Counts
    """How many are neither NaN nor 0."""
    sum: Doubles
    squares: Doubles
    """Sum of the squared deviations from their mean."""
    min: Doubles
    """Infinity if there are none."""
    max: Doubles

    def reshaped(self, height: int, width: int) -> Segments:
        """Return the segments as arrays of two dimensions."""
        return self.map(lambda each: each.reshape(height, width))

    def map(self, change: Callable[[npt.NDArray[Any]], npt.NDArray[Any]]) -> Segments:
        """Return the segments with each array changed, such as flattened."""
        return Segments(
            change(self.n),
            change(self.missing),
            change(self.nonzero),
            change(self.sum),
            change(self.squares),
            change(self.min),
            change(self.max),
        )


def reduce_segments(values: npt.NDArray[Any], starts: npt.NDArray[np.integer[Any]]) -> Segments:
    """Reduce consecutive segments of the last axis; none is empty.

    >>> segments = reduce_segments(np.array([1.0, 3.0, np.nan, 5.0]), np.array([0, 2]))
    >>> segments.sum.tolist(), segments.missing.tolist(), segments.squares.tolist()
    ([4.0, 5.0], [0, 1], [2.0, 0.0])
    """
    if values.dtype == np.bool_:
        values = values.view(np.uint8)
    with np.errstate(all="ignore"):  # infinities, and what becomes of them
        least = np.minimum.reduceat(values, starts, axis=-1)
        if values.dtype.kind == "f" and bool(np.isnan(least).any()):
            return _reduce_with_missing(values, starts)
        greatest = np.maximum.reduceat(values, starts, axis=-1)
        n = np.broadcast_to(_sizes(values, starts), least.shape)
        nonzero = n if bool(values.all()) else _count(values != 0, starts)
        doubles = values.astype(np.float64, copy=False)
        sums = np.add.reduceat(doubles, starts, axis=-1)
        deviations = doubles - np.repeat(sums / n, n.reshape(-1, n.shape[-1])[0], axis=-1)
        np.multiply(deviations, deviations, out=deviations)
        squares = np.add.reduceat(deviations, starts, axis=-1)
    missing = np.zeros(least.shape, np.int64)
    return Segments(
        n, missing, nonzero, sums, squares, least.astype(np.float64), greatest.astype(np.float64)
    )


def _reduce_with_missing(
    values: npt.NDArray[Any], starts: npt.NDArray[np.integer[Any]]
) -> Segments:
    is_missing = np.isnan(values)
    sizes = _sizes(values, starts)
    missing = _count(is_missing, starts)
    n = sizes - missing
    doubles = values.astype(np.float64)
    doubles[is_missing] = np.inf
    least = np.minimum.reduceat(doubles, starts, axis=-1)
    doubles[is_missing] = -np.inf
    greatest = np.maximum.reduceat(doubles, starts, axis=-1)
    doubles[is_missing] = 0.0
    nonzero = _count(doubles != 0, starts)
    sums = np.add.reduceat(doubles, starts, axis=-1)
    deviations = doubles - np.repeat(sums / np.maximum(n, 1), sizes, axis=-1)
    deviations[is_missing] = 0.0
    np.multiply(deviations, deviations, out=deviations)
    squares = np.add.reduceat(deviations, starts, axis=-1)
    return Segments(n, missing, nonzero, sums, squares, least, greatest)


def _sizes(values: npt.NDArray[Any], starts: npt.NDArray[np.integer[Any]]) -> Counts:
    return np.diff(starts, append=values.shape[-1]).astype(np.int64)


def _count(mask: npt.NDArray[np.bool_], starts: npt.NDArray[np.integer[Any]]) -> Counts:
    counts = np.add.reduceat(mask.astype(np.int32), starts, axis=-1, dtype=np.int32)
    return counts.astype(np.int64)

"""Merge the segments of blocks into the moments of groups.  Pure.

Sums are compensated (Neumaier), squared deviations are merged by the formula of Chan, Golub and
LeVeque; both keep their digits however many blocks there are.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from daf_query.moments._segments import Counts, Doubles, Segments
from daf_storage import errors


@dataclass(frozen=True, slots=True)
class Moments:
    """The moments of each group (rows) and column; NaN where there is no value to have one of."""

    count: Counts
    """Number of rows of each group, shape ``(groups,)``."""
    missing: Counts
    """How many values are NaN; all others leave these out.  Shape ``(groups, columns)``."""
    nonzero: Counts
    sum: Doubles
    mean: Doubles
    variance: Doubles
    """With the divisor n - 1; NaN for fewer than two values."""
    min: Doubles
    max: Doubles


class Accumulator:
    """The moments of all segments so far; one for each key from 0."""

    def __init__(self, size: int) -> None:
        self.n: Counts = np.zeros(size, np.int64)
        self.missing: Counts = np.zeros(size, np.int64)
        self.nonzero: Counts = np.zeros(size, np.int64)
        self._sum: Doubles = np.zeros(size)
        self._compensation: Doubles = np.zeros(size)
        self.squares: Doubles = np.zeros(size)
        self.min: Doubles = np.full(size, np.inf)
        self.max: Doubles = np.full(size, -np.inf)

    @property
    def sum(self) -> Doubles:
        """The sums."""
        with np.errstate(all="ignore"):
            total = self._sum + self._compensation
        return np.where(np.isfinite(self._sum), total, self._sum)

    def merge(self, keys: npt.NDArray[np.integer[Any]], segments: Segments) -> None:
        """Add segments; no key is there twice."""
        before, n = self.n[keys], segments.n
        total, sums = self._sum[keys], segments.sum
        with np.errstate(all="ignore"):
            self._merge_squares(keys, before, total, segments)
            new = total + sums
            larger = np.where(np.abs(total) >= np.abs(sums), total, sums)
            smaller = np.where(np.abs(total) >= np.abs(sums), sums, total)
            lost = (larger - new) + smaller
        self._sum[keys] = new
        self._compensation[keys] += np.where(np.isfinite(lost), lost, 0.0)
        self.n[keys] = before + n
        self.missing[keys] += segments.missing
        self.nonzero[keys] += segments.nonzero
        self.min[keys] = np.minimum(self.min[keys], segments.min)
        self.max[keys] = np.maximum(self.max[keys], segments.max)

    def _merge_squares(
        self,
        keys: npt.NDArray[np.integer[Any]],
        before: Counts,
        total: Doubles,
        segments: Segments,
    ) -> None:
        n = segments.n
        squares = self.squares[keys] + segments.squares
        is_both = (before > 0) & (n > 0)
        if bool(is_both.any()):
            difference = segments.sum / np.maximum(n, 1) - total / np.maximum(before, 1)
            share = before * (n / np.maximum(before + n, 1))
            squares += np.where(is_both, difference * difference * share, 0.0)
        self.squares[keys] = squares

    def segments(self) -> Segments:
        """Return what was merged, a segment for each key."""
        return Segments(
            self.n, self.missing, self.nonzero, self.sum, self.squares, self.min, self.max
        )


def with_zeros(segments: Segments, sizes: Counts, *, what: str) -> Segments:
    """Add the zeros that are not stored: as many as each segment is shorter than its size.

    Raises
    ------
    CorruptDataError
        A segment is longer than its size: elements are stored twice.
    """
    zeros = sizes - segments.n - segments.missing
    if zeros.size and int(zeros.min()) < 0:
        raise errors.CorruptDataError(f"{what}: an element is stored more than once")
    has_zeros = zeros > 0
    n = segments.n + zeros
    with np.errstate(all="ignore"):
        mean = segments.sum / np.maximum(segments.n, 1)
        between = mean * mean * (segments.n * (zeros / np.maximum(n, 1)))
    return Segments(
        n,
        segments.missing,
        segments.nonzero,
        segments.sum,
        segments.squares + np.where(has_zeros & (segments.n > 0), between, 0.0),
        np.where(has_zeros, np.minimum(segments.min, 0.0), segments.min),
        np.where(has_zeros, np.maximum(segments.max, 0.0), segments.max),
    )


def repeated(segments: Segments, repeats: Counts) -> Segments:
    """Return segments of which each value counts several times."""
    return Segments(
        segments.n * repeats,
        segments.missing * repeats,
        segments.nonzero * repeats,
        segments.sum * repeats,
        segments.squares * repeats,
        segments.min,
        segments.max,
    )


def moments_of(segments: Segments, count: Counts) -> Moments:
    """Return the moments of segments of shape ``(groups, columns)``."""
    n = segments.n
    is_empty = n == 0
    with np.errstate(all="ignore"):
        mean = np.where(is_empty, np.nan, segments.sum / np.maximum(n, 1))
        variance = np.where(n < 2, np.nan, segments.squares / np.maximum(n - 1, 1))
    return Moments(
        count,
        segments.missing,
        segments.nonzero,
        np.where(is_empty, np.nan, segments.sum),
        mean,
        variance,
        np.where(is_empty, np.nan, segments.min),
        np.where(is_empty, np.nan, segments.max),
    )

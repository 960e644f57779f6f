"""Reduce values that are sorted into segments, and merge segments into moments.  Pure.

numpy adds up each segment pairwise, in double precision, and squares are of the deviations from the
mean of the segment, not of the values: a large offset costs no digits.  Sums of segments are
compensated (Neumaier), squared deviations are merged by the formula of Chan, Golub and LeVeque;
both keep their digits however many segments there are.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, Literal, TypeAlias, get_args

import numpy as np
import numpy.typing as npt

from daf_storage import errors

Doubles: TypeAlias = npt.NDArray[np.float64]
Counts: TypeAlias = npt.NDArray[np.int64]
Keys: TypeAlias = npt.NDArray[np.integer[Any]] | slice

Statistic: TypeAlias = Literal[
    "sum", "mean", "variance", "min", "max", "nonzero", "missing", "fraction"
]
"""What is known of each group and column; the layers of the AnnData of a profile."""

LAYERS: Final[tuple[Statistic, ...]] = get_args(Statistic)


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
        return Segments(*(change(getattr(self, name)) for name in self.__slots__))


def reduce_segments(values: npt.NDArray[Any], starts: npt.NDArray[np.integer[Any]]) -> Segments:
    """Reduce consecutive segments of the last axis; none is empty.

    >>> segments = reduce_segments(np.array([1.0, 3.0, np.nan, 5.0]), np.array([0, 2]))
    >>> segments.sum.tolist(), segments.missing.tolist(), segments.squares.tolist()
    ([4.0, 5.0], [0, 1], [2.0, 0.0])
    """
    if values.dtype == np.bool_:
        values = values.view(np.uint8)
    sizes = _sizes(values, starts)
    with np.errstate(all="ignore"):  # infinities, and what becomes of them
        least = np.minimum.reduceat(values, starts, axis=-1)
        greatest = np.maximum.reduceat(values, starts, axis=-1)
        doubles = values.astype(np.float64, copy=False)
        missing, is_missing = np.zeros(least.shape, np.int64), None
        if values.dtype.kind == "f" and bool(np.isnan(least).any()):
            is_missing = np.isnan(doubles)
            missing = _count(is_missing, starts)
            least = np.minimum.reduceat(np.where(is_missing, np.inf, doubles), starts, axis=-1)
            greatest = np.maximum.reduceat(np.where(is_missing, -np.inf, doubles), starts, axis=-1)
            doubles = np.where(is_missing, 0.0, doubles)
        n = sizes - missing
        nonzero = n if bool(doubles.all()) else _count(doubles != 0, starts)
        sums = np.add.reduceat(doubles, starts, axis=-1)
        deviations = doubles - np.repeat(sums / np.maximum(n, 1), sizes, axis=-1)
        if is_missing is not None:
            deviations[is_missing] = 0.0
        np.multiply(deviations, deviations, out=deviations)
        squares = np.add.reduceat(deviations, starts, axis=-1)
    return Segments(
        n, missing, nonzero, sums, squares, least.astype(np.float64), greatest.astype(np.float64)
    )


def _sizes(values: npt.NDArray[Any], starts: npt.NDArray[np.integer[Any]]) -> Counts:
    return np.diff(starts, append=values.shape[-1]).astype(np.int64)


def _count(mask: npt.NDArray[np.bool_], starts: npt.NDArray[np.integer[Any]]) -> Counts:
    counts = np.add.reduceat(mask.astype(np.int32), starts, axis=-1, dtype=np.int32)
    return counts.astype(np.int64)


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

    def statistic(self, name: Statistic) -> npt.NDArray[Any]:
        """Return a statistic of each group and column, of shape ``(groups, columns)``.

        Raises
        ------
        InvalidInputError
            There is no such statistic.
        """
        if name not in LAYERS:
            raise errors.InvalidInputError(
                f"statistic= is {name!r}; it is one of {', '.join(LAYERS)}"
            )
        if name != "fraction":
            values: npt.NDArray[Any] = getattr(self, name)
            return values
        n = self.count[:, np.newaxis] - self.missing
        return np.where(n > 0, self.nonzero / np.maximum(n, 1), np.nan)


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

    def merge(self, keys: Keys, segments: Segments) -> None:
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
        keys: Keys,
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

"""Reduce values that are sorted into segments, and merge segments into moments.  Pure.

numpy adds up each segment pairwise, in double precision, and squares are of the deviations from the
mean of the segment, not of the values: a large offset costs no digits.  Sums of segments are
compensated (Neumaier), squared deviations are merged by the formula of Chan, Golub and LeVeque;
both keep their digits however many segments there are.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
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
"""A statistic of each group and column; the layers of the AnnData of a profile."""

LAYERS: Final[tuple[Statistic, ...]] = get_args(Statistic)


@dataclass(frozen=True, slots=True)
class Moments:
    """Counts, sums and limits of the values of each group and column, or of each segment.

    All arrays have one shape.  Groups and columns without values have a sum of 0, and infinite
    limits; `statistic` has NaN there.
    """

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

    def map(self, change: Callable[[npt.NDArray[Any]], npt.NDArray[Any]]) -> Moments:
        """Return the moments with each array changed, such as flattened."""
        return Moments(*(change(getattr(self, name)) for name in self.__slots__))

    def merged(self, other: Moments) -> Moments:
        """Return both together, by the formula of Chan, Golub and LeVeque."""
        n = self.n + other.n
        with np.errstate(all="ignore"):
            difference = other.sum / other.n - self.sum / self.n
            between = difference * difference * (self.n * (other.n / n))
            total = self.sum + other.sum
        are_both = (self.n > 0) & (other.n > 0)
        return Moments(
            n,
            self.missing + other.missing,
            self.nonzero + other.nonzero,
            total,
            self.squares + other.squares + np.where(are_both, between, 0.0),
            np.minimum(self.min, other.min),
            np.maximum(self.max, other.max),
        )

    @property
    def mean(self) -> Doubles:
        """NaN where there are no values."""
        return np.where(self.n > 0, self.sum / np.maximum(self.n, 1), np.nan)

    @property
    def variance(self) -> Doubles:
        """With the divisor n - 1; NaN for fewer than two values."""
        return np.where(self.n > 1, self.squares / np.maximum(self.n - 1, 1), np.nan)

    @property
    def fraction(self) -> Doubles:
        """Share of the values that are not zero; NaN where there are none."""
        return np.where(self.n > 0, self.nonzero / np.maximum(self.n, 1), np.nan)

    def statistic(self, name: Statistic) -> npt.NDArray[Any]:
        """Return a statistic of each group and column, NaN where there is no value to have one of.

        Raises
        ------
        InvalidInputError
            There is no such statistic.
        """
        if name not in LAYERS:
            raise errors.InvalidInputError(
                f"statistic= is {name!r}; it is one of {', '.join(LAYERS)}"
            )
        values: npt.NDArray[Any] = getattr(self, name)
        return np.where(self.n > 0, values, np.nan) if name in ("sum", "min", "max") else values


def constant(value: float, counts: Counts) -> Moments:
    """Return the moments of one value, repeated so many times.

    >>> constant(3.0, np.array([2, 0])).statistic("mean").tolist()
    [3.0, nan]
    """
    none = np.zeros_like(counts)
    n, missing = (none, counts) if np.isnan(value) else (counts, none)
    squares = np.where(n > 0, value - value, 0.0)  # of an infinite one NaN
    limits = (np.where(n > 0, value, limit) for limit in (np.inf, -np.inf))
    total = np.where(n > 0, n * value, 0.0)
    return Moments(n, missing, n if value else none, total, squares, *limits)


def reduce_segments(values: npt.NDArray[Any], starts: npt.NDArray[np.integer[Any]]) -> Moments:
    """Reduce consecutive segments of the last axis; none is empty.

    >>> segments = reduce_segments(np.array([1.0, 3.0, np.nan, 5.0]), np.array([0, 2]))
    >>> segments.sum.tolist(), segments.missing.tolist(), segments.squares.tolist()
    ([4.0, 5.0], [0, 1], [2.0, 0.0])
    """
    if values.dtype == np.bool_:
        values = values.view(np.uint8)
    sizes = np.diff(starts, append=values.shape[-1]).astype(np.int64)
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
    return Moments(
        n, missing, nonzero, sums, squares, least.astype(np.float64), greatest.astype(np.float64)
    )


def _count(mask: npt.NDArray[np.bool_], starts: npt.NDArray[np.integer[Any]]) -> Counts:
    counts = np.add.reduceat(mask.astype(np.int32), starts, axis=-1, dtype=np.int32)
    return counts.astype(np.int64)


class Accumulator:
    """The moments of all segments so far; one for each key from 0."""

    def __init__(self, size: int) -> None:
        self._moments = constant(0.0, np.zeros(size, np.int64)).map(np.copy)
        self._compensation: Doubles = np.zeros(size)

    def merge(self, keys: Keys, segments: Moments) -> None:
        """Add segments; no key is there twice."""
        before = self._moments.map(lambda each: each[keys])
        merged = before.merged(segments)
        with np.errstate(all="ignore"):
            is_larger = np.abs(before.sum) >= np.abs(segments.sum)
            larger = np.where(is_larger, before.sum, segments.sum)
            smaller = np.where(is_larger, segments.sum, before.sum)
            lost = (larger - merged.sum) + smaller
        self._compensation[keys] += np.where(np.isfinite(lost), lost, 0.0)
        for name in Moments.__slots__:
            getattr(self._moments, name)[keys] = getattr(merged, name)

    def moments(self, *shape: int) -> Moments:
        """Return what was merged, of some shape."""
        found = self._moments
        with np.errstate(all="ignore"):
            total = found.sum + self._compensation
        total = np.where(np.isfinite(found.sum), total, found.sum)
        return replace(found, sum=total).map(lambda each: each.reshape(shape))


def with_zeros(segments: Moments, sizes: Counts, *, what: str) -> Moments:
    """Add the zeros that are not stored: as many as each segment is shorter than its size.

    Raises
    ------
    CorruptDataError
        A segment is longer than its size: elements are stored twice.
    """
    zeros = sizes - segments.n - segments.missing
    if zeros.size and int(zeros.min()) < 0:
        raise errors.CorruptDataError(f"{what}: an element is stored more than once")
    return segments.merged(constant(0.0, zeros))

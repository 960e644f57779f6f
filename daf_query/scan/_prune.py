"""Decide which zones may have a row for which a predicate is true.  Pure."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from daf_query.scan._evaluate import Mask
from daf_query.scan._predicate import (
    And,
    Compare,
    Constant,
    In,
    IsNull,
    IsTrue,
    Or,
    Predicate,
    values_of_type,
)


@dataclass(frozen=True, slots=True, eq=False)
class Zones:
    """Bounds of a column in consecutive zones."""

    low: npt.NDArray[Any]
    """Minimum of each zone, nulls aside."""
    high: npt.NDArray[Any]
    """Maximum."""
    is_known: Mask
    """Whether the bounds of a zone were computed yet."""
    has_null: Mask
    """Whether it has a null."""
    has_value: Mask
    """Whether it has anything else."""
    table: Callable[[Predicate], Mask] | None = None
    """Of strings, whose bounds are dictionary codes: returns for which codes a predicate is true.
    Null has a code, and counts as a value here."""


def may_match(predicate: Predicate, zones: Callable[[str], Zones | None], count: int) -> Mask:
    """Return which zones may have a row for which a predicate is true.

    Parameters
    ----------
    zones
        Returns the zones of a column; ``None`` without a zone map.
    count
        Number of zones.
    """
    if isinstance(predicate, Constant):
        return np.full(count, predicate.value)
    if isinstance(predicate, And | Or):
        parts = [may_match(part, zones, count) for part in predicate.parts]
        join = np.logical_and if isinstance(predicate, And) else np.logical_or
        joined: Mask = join.reduce(parts)
        return joined
    bounds = zones(predicate.column)
    if bounds is None:
        return np.ones(count, np.bool_)
    possible: Mask = ~bounds.is_known | _possible(predicate, bounds)
    return possible


def _possible(predicate: Predicate, zones: Zones) -> Mask:
    low, high = zones.low, zones.high
    if zones.table is not None:
        counts = np.concatenate([[0], np.cumsum(zones.table(predicate))])
        some: Mask = counts[high.astype(np.int64) + 1] > counts[low.astype(np.int64)]
        return some & zones.has_value
    if isinstance(predicate, IsNull):
        return zones.has_value if predicate.is_negated else zones.has_null
    if isinstance(predicate, IsTrue):
        some_of: Mask = low == 0 if predicate.is_negated else high != 0
        return zones.has_value & some_of
    if isinstance(predicate, In):
        if predicate.is_negated:
            return zones.has_value
        wanted = np.sort(values_of_type(predicate.values, low.dtype))
        first = np.searchsorted(wanted, low, side="left")
        inside: Mask = first < np.searchsorted(wanted, high, side="right")
        return zones.has_value & inside
    if not isinstance(predicate, Compare):
        raise TypeError(f"{predicate} is not about a column")
    value = predicate.value
    tests: dict[str, Callable[[], Mask]] = {
        "==": lambda: (low <= value) & (high >= value),
        "!=": lambda: (low != value) | (high != value),
        "<": lambda: low < value,
        "<=": lambda: low <= value,
        ">": lambda: high > value,
        ">=": lambda: high >= value,
    }
    possible: Mask = zones.has_value & tests[predicate.operator]()
    return possible
